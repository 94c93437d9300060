"""From a program to a kernel: emitting, compiling, loading, calling and timing."""

from backends.build import BACKENDS, build, build_source, compiler_info, have_compiler, resolve
from backends.cache import ObjectCache, default_cache, object_key
from backends.errors import BuildError
from backends.inputs import random_arguments
from backends.kernel import CompiledKernel
from backends.register import intrinsic_runner, register_intrinsic
from backends.signature import Param, Signature
from backends.timer import Comparison, Timing, compare, interleave, measure

__all__ = [
    "BACKENDS",
    "BuildError",
    "Comparison",
    "CompiledKernel",
    "ObjectCache",
    "Param",
    "Signature",
    "Timing",
    "build",
    "build_source",
    "compare",
    "compiler_info",
    "default_cache",
    "have_compiler",
    "interleave",
    "intrinsic_runner",
    "measure",
    "object_key",
    "random_arguments",
    "register_intrinsic",
    "resolve",
]
