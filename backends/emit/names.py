"""Names: identifiers that are legal in C and CUDA and clash with nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

from backends.emit.c_library import in_c_library
from tensorir import Buffer, Var

KEYWORDS = """
alignas alignof asm auto bool break case catch char class const constexpr continue default delete do
double else enum explicit extern false float for friend goto if inline int long namespace new
nullptr operator private protected public register restrict return short signed sizeof static
struct switch template this throw true try typedef typename typeof union unsigned using virtual
void volatile while half unix linux i386 blockDim blockIdx gridDim threadIdx warpSize
""".split()

LIBRARY = """
main abort abs atexit atof atoi bcmp calloc close div exit fork fprintf free getenv index j0 j1 jn
kill labs llabs ldiv longjmp madvise malloc memalign memchr memcmp memcpy memmove memset mmap open
pause pipe posix_memalign printf puts qsort rand read realloc remove rename rindex scanf
sched_yield select send setjmp signal sleep sqrt srand stderr stdin stdout strlen system time
times wait write y0 y1 yn
getpid sched_getaffinity sched_getcpu sched_setaffinity
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1
fabs fdim floor fma fmax fmin fmod frexp gamma hypot ilogb isfinite isinf isnan isnormal ldexp
lgamma llrint log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter pow remainder rint
round scalbn signbit sin sincos sinh tan tanh tgamma trunc
""".split()
"""Functions of the C library: a kernel must not replace them in the process that loads it."""

MACROS = (
    "LOAD", "STORE", "KEEP128", "KEEP256", "KEEP512", "UNROLL", "PRAGMA", "NULL", "failed", "home",
    "TILE_TEXT", "TILE_NAME", "TILE_ZERO", "TILE_LOAD", "TILE_STORE", "TILE_PRODUCT",
)  # fmt: skip
"""Words that the emitted text uses itself."""

_LIBRARY_FLOAT = tuple(f"{name}{end}" for name in LIBRARY for end in "fl")
_RESERVED = frozenset((*KEYWORDS, *LIBRARY, *_LIBRARY_FLOAT, *MACROS))
_TYPED = re.compile(
    r"(.*_)?([iu](8|16|32|64)|b?f(16|32|64))(x\d+)?(_u)?|(workspace|threads|omp|tiles)_.*(?<!_)|"
    r"tensor_.*_(in|on|out)|_.*"
)
"""Our types and helpers end in a type, as in max_f32x16; a leading _ belongs to the compiler."""


def c_identifier(name: str) -> str:
    """`name` with what C does not allow in identifiers replaced, and away from reserved words.

    Two names may give the same identifier; `Names` tells them apart.
    """
    text = re.sub(r"[^A-Za-z0-9_]", "_", name) or "x"
    if text[0].isdigit() or text[0] == "_" or text.lower().startswith("ti_"):
        text = f"v{text}"  # ti_ begins what the texts for GPUs bring along
    return f"{text}_" if text in _RESERVED or _TYPED.fullmatch(text) else text


def symbol(name: str) -> str:
    """The identifier of a function that objects and programs are linked with: no function of the C
    library, which it would replace, or whose declaration it would contradict."""
    text = c_identifier(name)
    return f"{text}_" if in_c_library(text) else text


class Names:
    """The identifier of every variable and buffer of one kernel, each given once."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._of: dict[Var | Buffer, str] = {}
        self._counts: dict[str, int] = {}

    def reserve(self, words: Iterable[str]) -> None:
        """Take words for something else than variables and buffers."""
        self._used.update(words)

    def of(self, thing: Var | Buffer) -> str:
        """The identifier of `thing`; the same one every time."""
        found = self._of.get(thing)
        if found is None:
            found = self._of[thing] = self.fresh(thing.name)
        return found

    def fresh(self, stem: str) -> str:
        """A new identifier that starts with `stem`."""
        base = name = c_identifier(stem)
        count = self._counts.get(base, 0)  # all smaller ones are used
        while name in self._used:
            count += 1
            name = f"{base.rstrip('_')}_{count}"
        self._counts[base] = count
        self._used.add(name)
        return name
