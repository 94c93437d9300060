"""`python -m demo` in the project's checkout; `make demo` and `tensorir demo` are the same."""

import sys

from autotune.cli import main

sys.exit(main(["demo", *sys.argv[1:]]))
