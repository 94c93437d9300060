"""How good searches are: all strategies on recorded times."""
