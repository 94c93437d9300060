"""What a kernel was made with, for records."""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

import numpy as np

from backends import compiler_info
from tensorir import Target


def project_version() -> str:
    """The installed version; "unknown" in a tree that is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # brings in email, 20 ms

    try:
        return version("tensorir")
    except PackageNotFoundError:
        return "unknown"


@cache
def toolchain(target: Target) -> dict[str, Any]:
    """Versions of the compiler with its flags, of Python, NumPy and this project."""
    return {
        "compiler": compiler_info(target),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "project": project_version(),
    }
