"""Programs as text: the printer, the parser, and Python functions as programs."""
