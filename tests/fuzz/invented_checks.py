"""What a default schedule, or any candidate of a search, makes of random tensor expressions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import network_checks  # noqa: E402
from invented import draw  # noqa: E402

TARGETS = [*network_checks.TARGETS, "cuda-emulator -check=races,bounds,uninitialised"]


def check_seed(seed: int) -> dict[str, Any]:
    """Everything about one seed, as a row for the fuzzer."""
    return network_checks.check_case(network_checks.Case(seed, draw, TARGETS))
