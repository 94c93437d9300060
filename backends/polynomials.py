"""C texts of polynomials and constants for functions that are written once for both precisions."""

from __future__ import annotations

from collections.abc import Sequence


def polynomial(argument: str, coefficients: Sequence[float], ending: str) -> str:
    """Lines that compute `p` by Horner's rule, from two coefficients on, that of the highest power
    first.

    `ending` is that of literals, "f" or nothing.
    """
    first, second, *others = coefficients
    lines = [f"    $V p = {argument} * {first!r}{ending} {_added(second, ending)};"]
    lines += [f"    p = p * {argument} {_added(c, ending)};" for c in others]
    return "\n".join(lines)


def constants(ending: str, **numbers: float) -> dict[str, str]:
    """The literals of `numbers`, for str.format."""
    return {name: f"{value!r}{ending}" for name, value in numbers.items()}


def _added(coefficient: float, ending: str) -> str:
    return f"{'-' if coefficient < 0 else '+'} {abs(coefficient)!r}{ending}"
