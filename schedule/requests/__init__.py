"""Requests worth trying: what is possible at a place of a program, and in which order."""
