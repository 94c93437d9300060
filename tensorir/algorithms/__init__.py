"""Other algorithms for what a block computes, with the same values in exact arithmetic."""
