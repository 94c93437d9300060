"""From a program to a kernel: emitting, compiling, loading, calling and timing."""

from typing import TYPE_CHECKING

from tensorir import lazy_names

if TYPE_CHECKING:
    from backends.build import BACKENDS as BACKENDS
    from backends.build import build as build
    from backends.build import build_cases as build_cases
    from backends.build import build_source as build_source
    from backends.build import compiler_info as compiler_info
    from backends.build import have_compiler as have_compiler
    from backends.build import resolve as resolve
    from backends.build import source_text as source_text
    from backends.build import why_not_here as why_not_here
    from backends.cache import ObjectCache as ObjectCache
    from backends.cache import default_cache as default_cache
    from backends.cache import object_key as object_key
    from backends.call.allocate import lasting as lasting
    from backends.call.inputs import random_arguments as random_arguments
    from backends.call.signature import Param as Param
    from backends.call.signature import Signature as Signature
    from backends.call.timer import Comparison as Comparison
    from backends.call.timer import Timing as Timing
    from backends.call.timer import compare as compare
    from backends.call.timer import interleave as interleave
    from backends.call.timer import measure as measure
    from backends.commands import describe_status as describe_status
    from backends.errors import BuildError as BuildError
    from backends.errors import OutOfMemory as OutOfMemory
    from backends.gpu.launches import Launches as Launches
    from backends.host import host_caches as host_caches
    from backends.host import host_processors as host_processors
    from backends.host import host_share as host_share
    from backends.host import host_threads as host_threads
    from backends.kernel import CompiledKernel as CompiledKernel
    from backends.register import extern_runner as extern_runner
    from backends.register import intrinsic_runner as intrinsic_runner
    from backends.register import register_extern as register_extern
    from backends.register import register_intrinsic as register_intrinsic
    from backends.sanitizer import sanitize as sanitize
    from backends.scratch import ScratchFolder as ScratchFolder
    from backends.software import Software as Software
    from backends.software import gpu_software as gpu_software

__all__ = lazy_names(
    __name__,
    {
        "backends.build": (
            "BACKENDS build build_cases build_source compiler_info have_compiler resolve"
            " source_text why_not_here"
        ),
        "backends.cache": "ObjectCache default_cache object_key",
        "backends.commands": "describe_status",
        "backends.errors": "BuildError OutOfMemory",
        "backends.gpu.launches": "Launches",
        "backends.host": "host_caches host_processors host_share host_threads",
        "backends.call.allocate": "lasting",
        "backends.call.inputs": "random_arguments",
        "backends.kernel": "CompiledKernel",
        "backends.register": "extern_runner intrinsic_runner register_extern register_intrinsic",
        "backends.sanitizer": "sanitize",
        "backends.scratch": "ScratchFolder",
        "backends.call.signature": "Param Signature",
        "backends.software": "Software gpu_software",
        "backends.call.timer": "Comparison Timing compare interleave measure",
    },
)
