"""Side by side with other libraries: one process each, timed in turns, every result checked."""
