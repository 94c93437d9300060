"""What operators and functions give for numbers: their values and their precision."""
