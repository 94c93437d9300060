"""One file per library: which rows it can do, and in what forms."""
