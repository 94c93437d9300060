"""The interpreter: programs as plain Python, and the races that it finds in them."""
