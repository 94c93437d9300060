"""What this machine is, and the best that it can do."""
