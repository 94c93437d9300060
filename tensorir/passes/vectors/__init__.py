"""Passes that make vectors and registers, and what they share."""
