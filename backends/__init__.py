"""From a program to a kernel: emitting, compiling, loading, calling and timing."""

# mypy: implicit-reexport
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from backends.build import (
        BACKENDS,
        build,
        build_cases,
        build_source,
        compiler_info,
        have_compiler,
        resolve,
        source_text,
        why_not_here,
    )
    from backends.cache import ObjectCache, default_cache, object_key
    from backends.call.allocate import lasting
    from backends.call.inputs import random_arguments
    from backends.call.signature import Param, Signature
    from backends.call.timer import Comparison, Timing, compare, interleave, measure
    from backends.commands import describe_status
    from backends.errors import BuildError, OutOfMemory
    from backends.gpu.launches import Launches
    from backends.host import host_caches, host_processors, host_share, host_threads
    from backends.kernel import CompiledKernel
    from backends.register import (
        extern_runner,
        intrinsic_runner,
        register_extern,
        register_intrinsic,
    )
    from backends.sanitizer import sanitize
    from backends.scratch import ScratchFolder
    from backends.software import Software, gpu_software

__all__ = lazy_names(__name__)
