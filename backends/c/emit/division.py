"""Division of vectors of integers, which processors have for scalars only.

By a constant it is the upper half of a product (Granlund and Montgomery 1994, theorem 4.2): the
compiler knows how for 16 and 32 bits, and for 64 the text says it. Where a may be negative, the
floor of a / d is that of its complement, complemented. Of 32 bits that are few by what they are
computed from, it is a product of floats, half as many instructions. By variables it is the helper
`lanediv` or `lanemod` (backends.math.helpers), which has no branch and no division of integers.
"""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from tensorir import BinOp, Broadcast, int_value
from tensorir import dtype as dt

if TYPE_CHECKING:
    from backends.c.emit.vectors import VectorEmitter

_COMPLEMENTED = Template("""\
    $V sign = a >> $top;
    return ((a ^ sign) / $d) ^ sign;""")

_SMALL = Template("""\
    /* (a + 0.5) / d is farther from integers than what is rounded */
    $F x = __builtin_convertvector(($S)a, $F) * (1.0f / $d) + 0.5f / $d;
    return ($V)__builtin_convertvector(x, $S);""")

SMALL = 1 << 21
"""Of a + d up to here, quotients of floats of 24 bits are exact: three roundings are less than
3 (a / d + 1) / 2**24, and 0.5 / d is more than that up to 2**24 / 6."""

_HIGH = Template("""\
    $U low = x & 0xffffffff, high = x >> 32; /* t is the upper half of x * $multiplier */
    $U s = high * $m0 + (low * $m0 >> 32), t = low * $m1 + (s & 0xffffffff);
    t = high * $m1 + (s >> 32) + (t >> 32);""")


def by_constant(emitter: VectorEmitter, e: BinOp) -> str | None:
    """The name of a helper of e.a alone; None where the divisor has to be an operand.

    The divisor is no power of 2.
    """
    divisor = int_value(e.b.a if isinstance(e.b, Broadcast) else e.b)
    bits = dt.bits(e.dtype)
    if divisor is None or divisor < 3 or bits < 16:
        return None
    vector = emitter.vector_type(e.dtype)
    low, high = emitter.intervals.of(e.a) or (-1, SMALL)
    natural = low >= 0 or emitter.bounds.is_natural(e.a)
    if bits == 32 and low >= 0 and high + divisor <= SMALL:
        quotient = _small_quotient(emitter, vector, e.dtype, divisor)
    else:
        quotient = _quotient(emitter, vector, e.dtype, divisor, natural)
    if e.op == "//":
        return quotient
    name = quotient.replace("div", "mod", 1)
    body = f"return a - {quotient}(a) * {_literal(divisor, e.dtype)};"
    return _define(emitter, name, vector, body)


def _small_quotient(emitter: VectorEmitter, vector: str, dtype: str, d: int) -> str:
    single, signed = (
        emitter.vector_type(dt.with_lanes(kind, dt.lanes(dtype))) for kind in ("float32", "int32")
    )
    words = {"V": vector, "F": single, "S": signed, "d": d}
    return _define(emitter, f"small_div_{vector}_by_{d}", vector, _SMALL.substitute(words))


def _quotient(emitter: VectorEmitter, vector: str, dtype: str, d: int, natural: bool) -> str:
    bits, unsigned = dt.bits(dtype), dt.is_unsigned(dtype)
    name = f"{'natural' if natural and not unsigned else 'floor'}_div_{vector}_by_{d}"
    words = {"V": vector, "top": bits - 1, "d": _literal(d, dtype)}
    words["U"] = emitter.vector_type(dt.with_lanes(f"uint{bits}", dt.lanes(dtype)))
    if bits < 64:
        body = f"return ({vector})(({words['U']})a / {d}u);"
        body = body if natural else _COMPLEMENTED.substitute(words)
        return _define(emitter, name, vector, body)
    range_bits, shift = (64 if unsigned else 63), (d - 1).bit_length()
    multiplier = (1 << (range_bits + shift)) // d + 1
    words |= {"multiplier": multiplier, "m0": multiplier % 2**32, "m1": multiplier // 2**32 % 2**32}
    lines = [_HIGH.substitute(words)]
    if unsigned:  # the multiplier has 65 bits
        lines.insert(0, "    $U x = a;")
        lines.append(f"    return (((x - t) >> 1) + t) >> {shift - 1};")
    elif natural:
        lines.insert(0, "    $U x = ($U)a;")
        lines.append(f"    return ($V)(t >> {shift - 1});")
    else:
        lines.insert(0, "    $V sign = a >> 63;\n    $U x = ($U)(a ^ sign);")
        lines.append(f"    return ($V)(t >> {shift - 1}) ^ sign;")
    return _define(emitter, name, vector, Template("\n".join(lines)).substitute(words))


def _define(emitter: VectorEmitter, name: str, vector: str, body: str) -> str:
    head = f"{emitter.inline} {vector} {name}({vector} a)"
    emitter.declarations.setdefault(name, f"{head} {{\n    {body.strip()}\n}}")
    return name


def _literal(value: int, dtype: str) -> str:
    return f"{value}{'u' if dt.is_unsigned(dtype) else ''}"
