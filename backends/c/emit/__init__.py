"""C text for lowered programs."""
