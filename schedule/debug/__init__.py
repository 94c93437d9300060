"""Whether a schedule keeps its meaning, and the smallest one that does not."""
