"""The list of the tensor intrinsics that come along; importing it makes them known by name."""

from __future__ import annotations

from tensorir.tensor_intrins import amx, arm, portable, x86
from tensorir.tensorize.tensor_intrin import INTRINS

BUILT_IN = (*portable.INTRINSICS, *x86.INTRINSICS, *amx.INTRINSICS, *arm.INTRINSICS)
INTRINS.update({intrin.name: intrin for intrin in BUILT_IN})
