"""What calls of operators with wrong arguments are held to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tensorir import TensorIRError, te


def t(*shape, dtype="float32", name="x"):
    """A placeholder; strings in its shape are symbolic sizes."""
    sizes = [te.var(s) if isinstance(s, str) else s for s in shape]
    return te.placeholder(sizes, dtype, name=name)


def check_refused(call: Callable[[], object], message: str) -> None:
    """The call is refused with exactly this message."""
    with pytest.raises(TensorIRError) as caught:
        call()
    assert str(caught.value) == message
