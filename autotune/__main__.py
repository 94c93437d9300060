"""`python -m autotune` is the command line."""

import sys

from autotune.cli import main

sys.exit(main())
