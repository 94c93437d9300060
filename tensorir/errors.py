"""The root of all errors that the project raises on purpose."""


class TensorIRError(Exception):
    """Something the user asked for is impossible; the message names the thing and the remedy."""


class VerifyError(TensorIRError):
    """A program is not well formed, or can touch memory outside of a buffer."""


class RangeError(TensorIRError):
    """A number does not fit in the type that it belongs to."""


class AllocationError(TensorIRError):
    """What a kernel of a GPU allocates has a size that is no number."""


class ParseError(TensorIRError):
    """A printed program could not be read back; the message carries the line."""
