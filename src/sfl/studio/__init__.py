"""`sfl studio`: runs in the browser, during training as well as after it. Nothing depends on it but the command line."""
