"""What cost models see of a scheduled program."""
