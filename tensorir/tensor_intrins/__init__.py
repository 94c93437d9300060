"""The tensor intrinsics that come with the project. Tests check each as `register` would."""

from tensorir.tensor_intrins.built_in import BUILT_IN
from tensorir.tensorize.tensor_intrin import INTRINS

__all__ = ["BUILT_IN", "INTRINS"]
