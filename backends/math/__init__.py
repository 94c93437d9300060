"""C texts of math functions: the helpers that a kernel brings along."""
