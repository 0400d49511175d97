"""What to write instead of a name or an argument that does not exist; loaded when one is missing."""
