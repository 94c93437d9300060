"""The tensor intrinsics that come with the project. Tests check each as `register` would."""

from tensorir.tensor_intrin import INTRINS
from tensorir.tensor_intrins.built_in import BUILT_IN

__all__ = ["BUILT_IN", "INTRINS"]
