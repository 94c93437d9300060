"""Texts in which sums and products are rounded each, whatever the processor could do at once."""

from __future__ import annotations

FOUND = """\
/* Floats are looked for among what is computed again: a * b + c is rounded twice everywhere, since
   compilers would contract it in one place and not in the other. */"""
"""Says in a text that it is compiled with FLAGS."""

FLAGS = ("-ffp-contract=off",)

NVIDIA_FLAG = "-fmad=false"
"""The same for NVRTC and nvcc."""

OPENCL = f"{FOUND}\n#pragma OPENCL FP_CONTRACT OFF"
"""The same in a text of OpenCL, where the text itself can say so."""

FOR_OTHERS = """\
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off") /* what is looked for would be rounded otherwise */
#endif

"""
"""The same for a text that somebody else compiles."""
