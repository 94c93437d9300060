"""What passes ask of lowered programs."""
