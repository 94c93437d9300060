"""What a Schedule offers of packages that know more than it does, found when it is asked for.

`schedule` and `backends` do not import each other; whoever calls one of these has both.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

SERVICES = {"sanitize": "backends.sanitizer:sanitize"}
"""Where the function behind a method of Schedule is."""


def service(name: str) -> Callable[..., Any]:
    """The function `name`, imported now."""
    module, _, attribute = SERVICES[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), attribute)
    return found
