"""Winograd's algorithm: its stages in a program, and their schedule."""
