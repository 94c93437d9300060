"""The libraries by name: where their code is, what they install, how they are told of threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OURS = "tensorir"


@dataclass(frozen=True)
class Peer:
    """A library.

    module        the file in libraries/ that knows it
    requirements  what pip installs for it; nothing means that this project's Python has it
    environment   variables of its process; {threads} stands for the number of threads
    optional      only taken part in when it is asked for by name
    """

    module: str
    requirements: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    optional: bool = False


# Libraries that allocate each result themselves get memory that is already there: without this,
# glibc maps fresh pages for every large result, and their faults cost more than the arithmetic.
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "MALLOC_TOP_PAD_": "268435456",
}
OPENMP = {"OMP_NUM_THREADS": "{threads}", "OPENBLAS_NUM_THREADS": "{threads}"}
JAX = ("jax[cpu]",)

PEERS: Mapping[str, Peer] = {
    OURS: Peer("ours", environment=OPENMP),
    "numpy": Peer("numpy_forms", environment=OPENMP),
    "torch": Peer("torch_forms", ("torch==2.13.0", "numpy"), {**OPENMP, **KEEP_MEMORY}),
    "inductor": Peer(
        "inductor_forms", ("torch==2.13.0", "numpy"), {**OPENMP, **KEEP_MEMORY}, optional=True
    ),
    "jax": Peer("jax_forms", JAX, KEEP_MEMORY),
    "onnxruntime": Peer("onnx_forms", ("onnxruntime", "onnx")),
    "numba": Peer("numba_forms", ("numba",), {"NUMBA_NUM_THREADS": "{threads}", **OPENMP}),
    "iree": Peer(
        "iree_forms", (*JAX, "iree-base-compiler", "iree-base-runtime"), KEEP_MEMORY, optional=True
    ),
    "tvm": Peer(
        "tvm_forms",
        (
            "apache-tvm==0.27.*", "apache-tvm-ffi==0.1.14.post0", "xgboost-cpu", "psutil",
            "cloudpickle",
        ),
        {"TVM_NUM_THREADS": "{threads}", **OPENMP}, optional=True,
    ),
}  # fmt: skip
"""A default install of apache-tvm 0.27 crashes in its tuner; the pinned apache-tvm-ffi does not."""


def environment_of(peer: Peer, threads: int) -> dict[str, str]:
    """The variables of a peer's process."""
    return {name: text.format(threads=threads) for name, text in (peer.environment or {}).items()}
