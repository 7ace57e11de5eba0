"""`sfl studio`: runs in the browser, during training as well as after it. Only the command line knows of it."""
