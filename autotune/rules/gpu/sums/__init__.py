"""Rules for sums whose threads share the terms, or of which data tell the elements."""
