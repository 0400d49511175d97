"""What to write instead of names and arguments that do not exist; loaded when one is missing."""
