"""OpenCL C for lowered programs, through pyopencl."""
