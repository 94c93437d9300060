"""What is computed of each row alone: long rows, short ones, and those between."""
