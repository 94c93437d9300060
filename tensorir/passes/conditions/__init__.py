"""Passes that ask less: conditions that follow from others, or are decided once for much work."""
