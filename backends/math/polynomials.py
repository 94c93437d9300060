"""C texts of polynomials and constants for functions of scalars and vectors.

Long ones are parted: vectors that follow hide the time of short ones only.
"""

from __future__ import annotations

from collections.abc import Sequence

_LONG = 7
"""Coefficients from which on a polynomial is parted: each step of Horner's form waits for the one
before it, and the vectors that follow fill the time of short polynomials only."""


def polynomial(argument: str, coefficients: str, ending: str = "", parts: int = 2) -> str:
    """Lines that compute $V `p` from coefficients, that of the highest power first.

    Long ones are sums of `parts` (2 or 4) polynomials of argument^parts (Estrin 1960): the more,
    the faster, at some cost in rounding errors. Short ones, of two coefficients at least, have
    Horner's form. `ending` is that of literals, "f" or nothing.
    """
    numbers = coefficients.split()
    if len(numbers) < _LONG:
        return "\n".join(_horner("p", argument, numbers, ending))
    *numbers, last = numbers  # added in the end, for the sake of the rounding errors
    chains = [numbers[::-1][part::parts][::-1] for part in range(parts)]
    lines = [f"    $V p_2 = {argument} * {argument};"]
    if parts == 4:
        lines.append("    $V p_4 = p_2 * p_2;")
    for part, chain in enumerate(chains):
        lines += _horner(f"p{part}", f"p_{parts}", chain, ending)
    lines.append(f"    $V p = p1 * {argument} + p0;")
    if parts == 4:
        lines += [f"    p2 = p3 * {argument} + p2;", "    p = p2 * p_2 + p;"]
    return "\n".join([*lines, f"    p = p * {argument} {_added(last, ending)};"])


def halved(argument: str, coefficients: str, ending: str = "") -> str:
    """As polynomial(), but the sum of a lower and an upper half.

    Where signs alternate and the argument goes up to 1, the parts of polynomial() nearly cancel.
    """
    numbers = coefficients.split()
    count = len(numbers) // 2
    lines: list[str] = []
    power = argument
    for bit in f"{count:b}"[1:]:  # argument^count by squares
        lines.append(f"    $V p_{len(lines)} = {power} * {power};")
        power = f"p_{len(lines) - 1}"
        if bit == "1":
            lines.append(f"    $V p_{len(lines)} = {power} * {argument};")
            power = f"p_{len(lines) - 1}"
    lines += _horner("p_high", argument, numbers[:-count], ending)
    lines += _horner("p", argument, numbers[-count:], ending)
    return "\n".join([*lines, f"    p = p_high * {power} + p;"])


def _horner(name: str, argument: str, coefficients: Sequence[str], ending: str) -> list[str]:
    first, second, *others = coefficients
    lines = [f"    $V {name} = {argument} * {first}{ending} {_added(second, ending)};"]
    return lines + [f"    {name} = {name} * {argument} {_added(c, ending)};" for c in others]


def constants(ending: str, **numbers: float) -> dict[str, str]:
    """The literals of `numbers`, for str.format."""
    return {name: f"{value!r}{ending}" for name, value in numbers.items()}


def _added(coefficient: str, ending: str) -> str:
    sign = "-" if coefficient.startswith("-") else "+"
    return f"{sign} {coefficient.lstrip('-')}{ending}"
