"""Scans over blocks of terms: the stages of one, and one kernel for all of them."""
