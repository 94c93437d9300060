"""OpenCL C for lowered programs, through pyopencl.

The second language of GPUs: an emitter, a device, a backend; everything before and beside them is
CUDA's. OpenCL does not say which work-items make a warp, so lanes exchange values through shared
memory (`passes/gpu/exchanges_in_memory.py`). PoCL runs it on the CPU: a second judge of barriers
and bounds, which nobody here wrote.
"""
