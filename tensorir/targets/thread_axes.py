"""What a loop can be bound to on a GPU: the axes of blocks of threads, of threads and of warps."""

from __future__ import annotations

BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
"""They number the blocks of threads, which never wait for each other within a kernel."""

THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
"""They number the threads of a block."""

WARP_AXES = ("warp", "lane")
"""threadIdx.x // 32 and threadIdx.x % 32: a kernel that has one of them has no threadIdx.x."""

VIRTUAL_AXES = ("vthread.x", "vthread.y", "vthread.z")
"""They number virtual threads, several of which one thread does the work of."""

REAL_AXES = (*THREAD_AXES, *WARP_AXES)
"""The axes of the threads that wait for each other and can share a reduction."""

AXES = (*BLOCK_AXES, *REAL_AXES, *VIRTUAL_AXES)

WARP = 32
"""Lanes of a warp: threads that run together and exchange values of their registers."""

MAX_THREADS = 1024

LARGEST = {
    "blockIdx.x": 2**31 - 1,
    "blockIdx.y": 65535,
    "blockIdx.z": 65535,
    "threadIdx.x": MAX_THREADS,
    "threadIdx.y": MAX_THREADS,
    "threadIdx.z": 64,
    "warp": MAX_THREADS // WARP,
    "lane": WARP,
    **dict.fromkeys(VIRTUAL_AXES, MAX_THREADS),
}
"""Limits of every CUDA device of compute capability 3.0 and above (CUDA C++ Programming
Guide, technical specifications per compute capability)."""

ONE_THREAD = "one_thread"
"""Annotation of the thread loop of a kernel whose loops one thread runs."""
