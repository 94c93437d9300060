"""What programs read, write, combine and depend on."""
