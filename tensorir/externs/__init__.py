"""Extern functions: what one is, and those that come along."""
