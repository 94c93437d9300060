"""Calling a kernel: its signature, the arrays it is given, and its time."""
