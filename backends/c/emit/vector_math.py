"""Helpers for vectors: a text that is written for both, or a loop over the lanes.

Only the arguments of the loop differ between helpers, so it is made from the parameter list of the
helper for scalars.
"""

from __future__ import annotations

import re
from string import Template
from typing import TYPE_CHECKING

from backends.c.emit.native import any_far, extremum, lane_function, propagating, upper_half
from backends.math.forms import Form, Helper, by_mask
from backends.math.helpers import find_helper, helper_name, substitutions
from tensorir import dtype as dt

if TYPE_CHECKING:
    from backends.c.emit.vectors import VectorEmitter

_FAR = Template("""\
    int far = 0;
    for (int i = 0; i < $L; i++) far |= !(__builtin_fabs$F(x[i]) <= $most);""")
_MOST = {"float32": "6000.0f", "float64": "1e6"}


def vector_helper(emitter: VectorEmitter, name: str, dtype: str) -> str:
    """The name of helper `name` for the vector type `dtype`; its text comes along."""
    found = find_helper(name, dt.element(dtype))
    assert found is not None, name
    full = helper_name(name, dtype)
    if full in emitter.declarations:
        return full
    vector = emitter.vector_type(dtype)
    if name in ("max", "min") and dt.is_float(dtype):
        return nan_extremum(emitter, name, dtype)
    if found.form is Form.LANES:
        return lane_loop(emitter, name, found, dtype)
    if found.form is Form.FAR:
        return far_loop(emitter, name, found, dtype)
    for needed, _ in found.needs:
        vector_helper(emitter, needed, dtype)
    body = Template(found.text).substitute(substitutions(dtype, vector))
    emitter.declarations[full] = f"{emitter.inline} {vector} {full}{body}"
    return full


def lane_loop(emitter: VectorEmitter, name: str, helper: Helper, dtype: str) -> str:
    """A loop over the lanes that calls the helper for scalars."""
    vector, scalar = emitter.vector_type(dtype), emitter.helper(name, dt.element(dtype))
    names = _parameters(helper)
    params = ", ".join(f"{vector} {p}" for p in names)
    lane = f"{scalar}({', '.join(f'{p}[i]' for p in names)})"
    native = extremum(name, dtype) or lane_function(name, dtype) or upper_half(name, dtype)
    full, whole = helper_name(name, dtype), ""
    if helper.whole:
        words = substitutions(dtype, vector) | {"K": _mask(emitter, dtype)}
        whole = Template(helper.whole).substitute(words)
    return emitter.lanes_helper(full, vector, params, lane, dt.lanes(dtype), native, whole)


def _mask(emitter: VectorEmitter, dtype: str) -> str:
    return emitter.mask_type(dt.bits(dtype), dt.lanes(dtype))


def nan_extremum(emitter: VectorEmitter, name: str, dtype: str) -> str:
    """NaN where a or b is: the instruction gives b where one is NaN, and a is chosen after it."""
    vector, full = emitter.vector_type(dtype), helper_name(name, dtype)
    known = vector_helper(emitter, f"{name}c", dtype)
    chosen = emitter.lanes_helper(
        f"nan_or_{vector}",
        vector,
        f"{vector} a, {vector} m",
        "a[i] != a[i] ? a[i] : m[i]",
        dt.lanes(dtype),
        whole=by_mask(vector, _mask(emitter, dtype), "a != a", b="m"),
    )
    usual = f"    return {chosen}(a, {known}(a, b));"
    body = emitter.native_or(propagating(name, dtype), "    return $;", usual)
    head = f"{emitter.inline} {vector} {full}({vector} a, {vector} b)"
    emitter.declarations[full] = f"{head} {{\n{body}\n}}"
    return full


def far_loop(emitter: VectorEmitter, name: str, helper: Helper, dtype: str) -> str:
    """`near`, and libm for each lane whose first argument, `x`, is far, behind one rare branch."""
    vector, scalar = emitter.vector_type(dtype), emitter.helper(name, dt.element(dtype))
    full, lanes = helper_name(name, dtype), dt.lanes(dtype)
    native = any_far(dtype)
    element = dt.element(dtype)
    words = {"L": lanes, "F": "f" if element == "float32" else "", "most": _MOST[element]}
    test = emitter.native_or(native, "    int far = $;", _FAR.substitute(words))
    names = _parameters(helper)
    params, lane = ", ".join(f"{vector} {p}" for p in names), ", ".join(f"{p}[i]" for p in names)
    emitter.declarations[full] = f"""\
{emitter.inline} {vector} {full}({params}) {{
{test}
    if (__builtin_expect(far, 0))
        for (int i = 0; i < {lanes}; i++) near[i] = {scalar}({lane});
    return near;
}}"""
    return full


def _parameters(helper: Helper) -> list[str]:
    """The names of the parameters."""
    return re.findall(r"\w+(?=[,)])", helper.text[: helper.text.index(")") + 1])
