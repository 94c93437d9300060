"""The search for the fastest schedule: its sessions, batches and results."""
