"""The OpenCL device that kernels run on, found when it is first asked for."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from backends.errors import BuildError

HOW = (
    "pip install pyopencl, and an implementation of OpenCL: the driver of your GPU, or PoCL, which "
    "runs on the CPU (Debian/Ubuntu: apt install pocl-opencl-icd)"
)


@dataclass(frozen=True)
class OpenCLDevice:
    """A device with its queue, and what a work-group may use of it.

    Limits are as those of tensorir.Architecture.
    """

    name: str
    context: Any
    queue: Any
    threads_per_block: int
    block_limits: tuple[int, int, int]
    grid_limits: tuple[int, int, int]
    shared_per_block: int
    doubles: bool
    identity: str
    """What compiled programs depend on: platform, driver and device."""


@functools.cache
def find_device() -> OpenCLDevice:
    """The first GPU of any platform, else its first device. Raises BuildError where there is none.

    The environment variable PYOPENCL_CTX chooses another one, as everywhere in pyopencl.
    """
    import os

    try:
        import pyopencl as cl
    except ImportError:
        raise BuildError(f"target 'opencl' needs pyopencl: {HOW}") from None
    try:
        if os.environ.get("PYOPENCL_CTX"):
            context = cl.create_some_context(interactive=False)
        else:
            devices = [d for platform in cl.get_platforms() for d in platform.get_devices()]
            gpus = [d for d in devices if d.type & cl.device_type.GPU]
            context = cl.Context([(gpus or devices)[0]])
    except (cl.Error, IndexError) as error:
        raise BuildError(f"pyopencl finds no device ({error}): {HOW}") from None
    return device_of(context, context.devices[0])


def device_of(context: Any, device: Any) -> OpenCLDevice:
    """A device in a context, with a new queue."""
    import pyopencl as cl

    limits = [*device.max_work_item_sizes, 1, 1][:3]
    return OpenCLDevice(
        device.name.strip(),
        context,
        cl.CommandQueue(context, device),
        int(device.max_work_group_size),
        (int(limits[0]), int(limits[1]), int(limits[2])),
        (2**31 - 1, 2**31 - 1, 2**31 - 1),
        int(device.local_mem_size),
        "cl_khr_fp64" in device.extensions,
        f"{device.platform.version} {device.driver_version} {device.name}",
    )


def why_no_device() -> str | None:
    """Why nothing can run here, in one sentence; None where something can."""
    try:
        find_device()
    except BuildError as error:
        return str(error)
    return None
