"""Target kind "cuda": NVRTC makes machine code on any machine, and a GPU runs it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from backends.base import Executable
from backends.cache import ObjectCache
from backends.call.constants import Binding
from backends.call.signature import Signature
from backends.call.silent import unbound
from backends.cuda import nvrtc
from backends.cuda.arrays import is_on_device
from backends.cuda.assembly import assembly_of
from backends.cuda.devices import chosen_arch, why_no_device
from backends.cuda.driver import Driver
from backends.cuda.export import host_text, write_header
from backends.cuda.kernel import CudaKernel
from backends.cuda.objects import cubin_of
from backends.cuda.packages import no_cupy
from backends.cuda.program import CudaObject, CudaProgram
from backends.cuda.resources import read_resources
from backends.cuda.text import cuda_text
from backends.emit.names import c_identifier
from backends.errors import BuildError
from backends.gpu.limits import check_registers, checked_kernels, one_thread
from backends.kernel import CompiledKernel
from tensorir import PrimFunc, Target, TensorIRError


class CudaBackend:
    """Stages of target kind "cuda"."""

    suffix = ".cu"

    def resolve(self, target: Target) -> Target:
        return replace(target, arch=chosen_arch(target))

    def why_not_here(self, target: Target) -> str | None:
        return why_no_device(chosen_arch(target))

    def kernel_type(self, signature: Signature) -> type[CompiledKernel]:
        return CudaKernel

    def on_host(self, array: Any) -> Any:
        """Constants are copied in any case: until a device needs them they are here."""
        if not is_on_device(array):
            return array
        try:
            return Driver().copy_out(array)
        except ImportError:
            raise TensorIRError(no_cupy("a constant that is on a GPU")) from None

    def emit(self, ir: PrimFunc, target: Target, prepare: PrimFunc | None = None) -> str:
        return cuda_text(ir, target, prepare).source

    def compile(
        self,
        ir: PrimFunc,
        source: str,
        target: Target,
        signature: Signature,
        cache: ObjectCache | None,
        timeout: float,
        binding: Binding | None = None,
    ) -> CudaObject:
        """Without NVRTC there is a source and no machine code: a call says what is missing."""
        kernels = checked_kernels(ir, binding, target.architecture)
        why = nvrtc.why_not()
        if why is not None:
            return CudaObject(ir, signature, target, None, why)
        arch = chosen_arch(target)
        made = cubin_of(source, arch, name=signature.name, cache=cache, timeout=timeout)
        resources = read_resources(made.log)
        for kernel in kernels:
            if kernel.name in resources:
                used = resources[kernel.name]
                check_registers(kernel, used.registers, target.architecture)
                alone = one_thread(kernel)
                if alone:
                    said = replace(used, warnings=(*used.warnings, alone))
                    resources[kernel.name] = said
        return CudaObject(ir, signature, target, made.code, None, resources)

    def load(self, compiled: CudaObject, binding: Binding | None = None) -> Executable:
        """The program, which is loaded on a device by the first call there."""
        if binding is not None and binding.arrays is None:
            return CudaProgram(compiled, binding, unbound(compiled.signature, binding))
        if binding is not None and binding.arrays is not None:
            held = {name: np.array(array) for name, array in binding.arrays.items()}
            binding = replace(binding, arrays=held)  # until a device has them
        return CudaProgram(compiled, binding)

    def info(self, target: Target) -> dict[str, Any]:
        return {
            "command": ["nvrtc", f"-arch={chosen_arch(target)}"],
            "version": "NVRTC {}.{}".format(*nvrtc.version()),
            "flags": list(nvrtc.OPTIONS),
        }

    def assembly(self, source: str, target: Target, name: str) -> str:
        why = nvrtc.why_not()
        if why is not None:
            raise BuildError(f"{name}: {why}")
        return assembly_of(source, chosen_arch(target), name)

    def symbol(self, ir: PrimFunc) -> str:
        return c_identifier(ir.name)

    def exported(
        self, ir: PrimFunc, source: str, target: Target, prepare: PrimFunc | None = None
    ) -> str:
        return source + host_text(ir, target, prepare)

    def header(
        self,
        ir: PrimFunc,
        signature: Signature,
        target: Target,
        prepare: tuple[PrimFunc, Signature] | None = None,
    ) -> str:
        return write_header(ir, signature, target, prepare)
