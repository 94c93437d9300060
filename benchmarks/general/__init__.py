"""How general schedules are: programs, and other ways to write them that mean the same."""
