"""Masked moves of x86 as builtins: the masks of AVX-512 are bits, those of AVX2 are vectors.

In the C text, a mask is an integer `m` with one bit for each lane for both.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from backends.c.emit.native import FEATURES, Native
from tensorir import dtype as dt


class MaskedMoves(Protocol):
    """The builtins of one kind of masks, for vectors of `dtype` that C calls `vector`."""

    def load(self, dtype: str, vector: str) -> Native | None:
        """The lanes of the memory at p whose bit is set in m; 0 in others."""
        ...

    def store(self, dtype: str) -> Native | None:
        """Writes the lanes of v to the memory at p whose bit is set in m."""
        ...

    def blend(self, dtype: str, vector: str) -> Native | None:
        """The lanes of a where the bit is set in m, and of b elsewhere."""
        ...


class _Moves(NamedTuple):
    """Endings of the builtins that move parts of vectors, and the C type of their lanes."""

    memory: str
    register: str
    lane: str


_MOVES = {
    "float32": _Moves("ups{w}_mask", "aps{w}_mask", "float"),
    "float64": _Moves("upd{w}_mask", "apd{w}_mask", "double"),
    8: _Moves("dquqi{w}_mask", "dquqi{w}_mask", "char"),
    16: _Moves("dquhi{w}_mask", "dquhi{w}_mask", "short"),
    32: _Moves("dqusi{w}_mask", "dqa32_{w}_mask", "int"),
    64: _Moves("dqudi{w}_mask", "dqa64_{w}_mask", "long long"),
}


def _by_bits(dtype: str, text: str, in_clang: bool = True) -> Native | None:
    """`text` with endings and types for `dtype`: {m}emory, {r}egister, {v}ector."""
    size, bits = dt.itemsize(dtype), dt.bits(dtype)
    moves = _MOVES.get(dt.element(dtype)) or _MOVES[bits]
    if size * 8 not in FEATURES:
        return None
    feature = f"__AVX512{'F' if bits > 16 else 'BW'}__"
    if size < 64:
        feature = f"{feature}) && defined(__AVX512VL__"
    words = {"m": moves.memory.format(w=size * 8), "r": moves.register.format(w=size * 8)}
    vector = f"(__attribute__((vector_size({size}))) {moves.lane})"
    return Native(feature, text.format(**words, v=vector), in_clang)


class BitMasks:
    """AVX-512."""

    def load(self, dtype: str, vector: str) -> Native | None:
        text = f"({vector})__builtin_ia32_load{{m}}((const void *)p, {{v}}{{{{0}}}}, m)"
        return _by_bits(dtype, text)

    def store(self, dtype: str) -> Native | None:
        return _by_bits(dtype, "__builtin_ia32_store{m}((void *)p, {v}v, m)")

    def blend(self, dtype: str, vector: str) -> Native | None:
        text = f"({vector})__builtin_ia32_mov{{r}}({{v}}a, {{v}}b, m)"
        return _by_bits(dtype, text, False)


def _by_vectors(dtype: str, text: str) -> Native | None:
    """`text` for AVX2, whose masks are vectors: {e}nding of builtins, {f}loats, {m}ask."""
    size, bits = dt.itemsize(dtype), dt.bits(dtype)
    if bits not in (32, 64) or size not in (16, 32):
        return None
    kind = f"(__attribute__((vector_size({size}))) {'int' if bits == 32 else 'long long'})"
    ones = ", ".join(str(1 << lane) for lane in range(dt.lanes(dtype)))
    mask = f"((({kind}{{0}} + (int)m) & {kind}{{{ones}}}) != 0)"
    float_type = f"__attribute__((vector_size({size}))) {'float' if bits == 32 else 'double'}"
    ending = f"{'ps' if bits == 32 else 'pd'}{'256' if size == 32 else ''}"
    return Native("__AVX2__", text.format(e=ending, f=float_type, m=mask), True)


class VectorMasks:
    """AVX2, for elements of 32 and 64 bits."""

    def load(self, dtype: str, vector: str) -> Native | None:
        text = f"({vector})__builtin_ia32_maskload{{e}}((const {{f}} *)p, {{m}})"
        return _by_vectors(dtype, text)

    def store(self, dtype: str) -> Native | None:
        return _by_vectors(dtype, "__builtin_ia32_maskstore{e}(({f} *)p, {m}, ({f})v)")

    def blend(self, dtype: str, vector: str) -> Native | None:
        text = f"({vector})__builtin_ia32_blendv{{e}}(({{f}})b, ({{f}})a, ({{f}}){{m}})"
        return _by_vectors(dtype, text)
