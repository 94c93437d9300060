"""Extern functions: what one is, its check, and those that come along."""
