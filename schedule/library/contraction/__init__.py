"""Contractions: blocks described by what they access, and moves that schedule them."""
