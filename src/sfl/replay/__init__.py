"""What was seen, kept for learning."""
