"""IREE: JAX's StableHLO of the row, compiled for this processor."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Any

import iree.compiler as compiler
import iree.runtime as runtime
import jax
import numpy as np

from benchmarks.peers.libraries import jax_forms
from benchmarks.peers.task import Call, Task, Unsupported


def start(threads: int) -> None:
    jax_forms.start(threads)
    runtime.flags.parse_flags(f"--task_topology_max_group_count={threads}")


def version() -> str:
    return installed("iree-base-compiler")


def as_array(result: Any) -> np.ndarray:
    return np.array(result.to_host())


def prepare(task: Task) -> dict[str, Call]:
    """Weights are arguments here: as constants of the text they would be gigabytes to parse."""
    if task.kind == "bf16_matmul":
        raise Unsupported("its Python arrays have no bfloat16")
    text = jax.jit(jax_forms.function_of(task)).lower(*task.arrays).as_text()
    binary = compiler.compile_str(
        text, input_type="stablehlo", target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"],
    )  # fmt: skip
    config = runtime.Config("local-task")
    code = runtime.VmModule.copy_buffer(config.vm_instance, binary)
    module = runtime.load_vm_module(code, config)
    arrays = [runtime.asdevicearray(config.device, a) for a in task.arrays]
    return {"stablehlo": lambda: module.main(*arrays)}
