"""The reference: a fast evaluation of unscheduled functions, and how far a kernel may be off."""

from tensorir.reference.oracle import reference, reference_with_tolerance, tolerance

__all__ = ["reference", "reference_with_tolerance", "tolerance"]
