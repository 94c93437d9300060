"""Non-temporal stores: whole aligned vectors that go past the caches.

gcc 12 has them as builtins of each instruction set only, clang has one for all. A store that is
not aligned, or for which the target has no instruction, is an ordinary one. The processor may
delay them past ordinary stores, so a fence stands before another thread may read.
"""

from __future__ import annotations

_GCC = {
    16: ("__SSE2__", "__builtin_ia32_movntdq"),
    32: ("__AVX__", "__builtin_ia32_movntdq256"),
    64: ("__AVX512F__", "__builtin_ia32_movntdq512"),
}

FENCE = """\
#if defined(__SSE__)
#define STREAM_FENCE() __builtin_ia32_sfence()
#else
#define STREAM_FENCE() __sync_synchronize()
#endif"""


def stream_text(name: str, inline: str, vector: str, size: int) -> str | None:
    """The function `name(p, v)` that streams a vector of `size` bytes; None if none is so large."""
    if size not in _GCC:
        return None
    feature, builtin = _GCC[size]
    aligned = f"if ((__UINTPTR_TYPE__)p % {size} == 0)"
    whole = f"long long __attribute__((vector_size({size})))"
    return f"""\
{inline} void {name}(void *p, {vector} v) {{
#if defined(__clang__)
    {aligned} {{
        __builtin_nontemporal_store(v, ({vector} *)p);
        return;
    }}
#elif defined({feature})
    typedef {whole} whole;
    {aligned} {{
        {builtin}((whole *)p, (whole)v);
        return;
    }}
#endif
    STORE({vector}, p, v);
}}"""
