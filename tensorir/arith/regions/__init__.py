"""Regions of elements that indices reach, and the inverse of what reaches them."""
