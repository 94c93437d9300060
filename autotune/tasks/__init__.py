"""Several functions tuned at once."""
