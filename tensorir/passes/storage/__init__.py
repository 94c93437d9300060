"""Passes that let arrays have memory which others have at other times."""
