"""Non-temporal stores: whole vectors that go past the caches.

gcc 12 has them as builtins of each instruction set only, clang has one for all. A store that is
not aligned, or for which the target has no instruction, is an ordinary one. The processor may
delay them past ordinary stores, so a fence stands before another thread may read.

What is stored so waits until its line is whole. Arrays of NumPy begin 16 bytes into a line: where
the next vector completes a line soon, vectors are stored in pieces of 16 bytes there.
"""

from __future__ import annotations

_GCC = {
    16: ("__SSE2__", "__builtin_ia32_movntdq"),
    32: ("__AVX__", "__builtin_ia32_movntdq256"),
    64: ("__AVX512F__", "__builtin_ia32_movntdq512"),
}

PIECE = 16
"""Bytes of the smallest of them."""

FENCE = """\
#if defined(__SSE__)
#define STREAM_FENCE() __builtin_ia32_sfence()
#else
#define STREAM_FENCE() __sync_synchronize()
#endif"""


def stream_text(name: str, inline: str, vector: str, size: int, pieces: bool) -> str | None:
    """The function `name(p, v)` that streams a vector of `size` bytes, in pieces where it is not
    aligned, if it may; None if no vector is so large."""
    if size not in _GCC:
        return None
    feature, builtin = _GCC[size]
    return f"""\
{inline} void {name}(void *p, {vector} v) {{
    typedef long long whole __attribute__((vector_size({size})));
#if defined(__clang__)
    if ((__UINTPTR_TYPE__)p % {size} == 0) {{
        __builtin_nontemporal_store((whole)v, (whole *)p);
        return;
    }}
#elif defined({feature})
    if ((__UINTPTR_TYPE__)p % {size} == 0) {{
        {builtin}((whole *)p, (whole)v);
        return;
    }}
#endif
{_pieces(size) if pieces and size > PIECE else ""}\
    STORE({vector}, p, v);
}}"""


def _pieces(size: int) -> str:
    """Storing the pieces of a vector of `size` bytes, if the first one is aligned."""
    feature, builtin = _GCC[PIECE]
    words = [f"{n}, {n + 1}" for n in range(0, size // 8, 2)]
    parts = [f"__builtin_shufflevector((whole)v, (whole)v, {each})" for each in words]
    gcc = "\n".join(f"        {builtin}((piece *)p + {n}, {v});" for n, v in enumerate(parts))
    clang = "\n".join(
        f"        __builtin_nontemporal_store({v}, (piece *)p + {n});" for n, v in enumerate(parts)
    )
    return f"""\
    typedef long long piece __attribute__((vector_size({PIECE})));
#if defined(__clang__)
    if ((__UINTPTR_TYPE__)p % {PIECE} == 0) {{
{clang}
        return;
    }}
#elif defined({feature}) && __GNUC__ >= 12
    if ((__UINTPTR_TYPE__)p % {PIECE} == 0) {{
{gcc}
        return;
    }}
#endif
"""
