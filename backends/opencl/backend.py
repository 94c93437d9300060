"""Target kind "opencl": arrays of NumPy or pyopencl in and out, on the device that pyopencl finds.

Arrays of NumPy are copied to the device for each call, and results back; constants stay there.
"""

from __future__ import annotations

from typing import Any

from backends.base import Executable
from backends.cache import ObjectCache
from backends.call.constants import Binding
from backends.call.signature import Signature
from backends.call.silent import SilentExecutable, unbound
from backends.emit.names import c_identifier
from backends.errors import BuildError
from backends.gpu.limits import checked_kernels
from backends.kernel import CompiledKernel, host_kernel
from backends.opencl.arrays import on_host
from backends.opencl.device import find_device, why_no_device
from backends.opencl.kernel import OpenCLKernel
from backends.opencl.program import OPTIONS, CompiledOpenCL, OpenCLProgram, build_program
from backends.opencl.text import opencl_text
from tensorir import PrimFunc, Target


class OpenCLBackend:
    """Stages of target kind "opencl"."""

    suffix = ".cl"

    def resolve(self, target: Target) -> Target:
        return target

    def why_not_here(self, target: Target) -> str | None:
        return why_no_device()

    def kernel_type(self, signature: Signature) -> type[CompiledKernel]:
        return OpenCLKernel if why_no_device() is None else host_kernel(signature)

    def on_host(self, array: Any) -> Any:
        return on_host(array)

    def emit(self, ir: PrimFunc, target: Target, prepare: PrimFunc | None = None) -> str:
        return opencl_text(ir, target, prepare)

    def compile(
        self,
        ir: PrimFunc,
        source: str,
        target: Target,
        signature: Signature,
        cache: ObjectCache | None,
        timeout: float,
        binding: Binding | None = None,
    ) -> CompiledOpenCL:
        """The device's compiler runs in this process: it cannot be stopped after `timeout`, and
        what it made is cached by pyopencl, not in `cache`."""
        missing = why_no_device()
        if missing is not None:
            return CompiledOpenCL(ir, signature, None, missing, source)
        device = find_device()
        kernels = checked_kernels(ir, binding, device)
        program = build_program(device, source, signature.name) if kernels else None
        return CompiledOpenCL(ir, signature, program, "", source)

    def load(self, compiled: CompiledOpenCL, binding: Binding | None = None) -> Executable:
        if compiled.missing:
            return SilentExecutable(f"{compiled.signature.name}: {compiled.missing}")
        if binding is not None and binding.arrays is None:
            return SilentExecutable(unbound(compiled.signature, binding))
        return OpenCLProgram(compiled, binding)

    def info(self, target: Target) -> dict[str, Any]:
        missing = why_no_device()
        if missing is not None:
            return {"missing": missing}
        return {"device": find_device().identity, "flags": list(OPTIONS)}

    def assembly(self, source: str, target: Target, name: str) -> str:
        raise BuildError(f"{name}: OpenCL shows no assembly; what it compiles is kernel.source")

    def symbol(self, ir: PrimFunc) -> str:
        return c_identifier(ir.name)

    def exported(
        self, ir: PrimFunc, source: str, target: Target, prepare: PrimFunc | None = None
    ) -> str:
        return source

    def header(
        self,
        ir: PrimFunc,
        signature: Signature,
        target: Target,
        prepare: tuple[PrimFunc, Signature] | None = None,
    ) -> str:
        raise BuildError(
            f"{signature.name}: an OpenCL program has no header; kernel.source is its text, which "
            "clCreateProgramWithSource takes"
        )
