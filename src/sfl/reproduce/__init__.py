"""Every table of the paper from one command: which runs it takes, making them, and the report."""
