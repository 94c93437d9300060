"""What operators and functions give for numbers: their types, their values, their precision."""
