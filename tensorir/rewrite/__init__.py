"""Rewrites of whole programs that more than one layer asks for."""
