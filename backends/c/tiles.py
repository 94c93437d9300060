"""The tile registers of AMX: who may use them, and what kernels that do have to say.

Linux gives them to processes that ask (arch_prctl, since 5.16), since signal frames grow by the
8 KiB that they hold; threads and children of the process have them too. A thread configures its
tiles before a nest that uses them and releases them after it, some 200 cycles together: nothing is
left behind that other code of the process could see, and switching threads costs what it did.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache

REFUSED = 2
"""What a kernel returns where the system keeps the tile registers to itself."""

_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
"""The system call of x86-64, ARCH_REQ_XCOMP_PERM, and the state component of tiles."""

TILES_TEXT = f"""\
/* Tiles of AMX, all of 16 rows of 64 bytes. */
#define TILE_TEXT(text) #text
#define TILE_NAME(n) "%%tmm" TILE_TEXT(n)
#define TILE_ZERO(n) __asm__ volatile("tilezero " TILE_NAME(n) : :)
#define TILE_LOAD(n, from, bytes) __asm__ volatile( \\
    "tileloadd (%0, %1), " TILE_NAME(n) : : "r"(from), "r"((i64)(bytes)) : "memory")
#define TILE_STORE(n, to, bytes) __asm__ volatile( \\
    "tilestored " TILE_NAME(n) ", (%0, %1)" : : "r"(to), "r"((i64)(bytes)) : "memory")
#define TILE_PRODUCT(code, sums, rows, columns) __asm__ volatile( \\
    #code " " TILE_NAME(columns) ", " TILE_NAME(rows) ", " TILE_NAME(sums) : :)

static inline void tiles_begin(void) {{
    static const struct {{
        unsigned char palette, start, unused[14];
        unsigned short bytes[16];
        unsigned char rows[16];
    }} all = {{
        .palette = 1,
        .bytes = {{64, 64, 64, 64, 64, 64, 64, 64}},
        .rows = {{16, 16, 16, 16, 16, 16, 16, 16}},
    }};
    __asm__ volatile("ldtilecfg %0" : : "m"(all));
}}

static inline void tiles_end(void) {{
    __asm__ volatile("tilerelease" : : : "memory");
}}

/* Whether the system lets this process use them: it has to be asked once. */
static int tiles_allowed(void) {{
#if defined(__linux__) && defined(__x86_64__)
    extern long syscall(long, ...);
    static int known; /* threads that ask at the same time are told the same */
    if (!known) known = syscall({_ARCH_PRCTL}, {_REQUEST}, {_TILE_DATA}) ? -1 : 1;
    return known > 0;
#else
    return 0;
#endif
}}"""


@cache
def tiles_allowed() -> bool:
    """Whether the system lets this process, its threads and children use tile registers; asks it
    to. False where there are none."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    syscall = ctypes.CDLL(None).syscall
    return not syscall(*map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST, _TILE_DATA)))
