"""Declared C against its declared meaning: both run on samples before anyone can use them."""
