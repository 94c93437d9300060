"""What can be asked about how the loops of a stage are run, and about its memory."""

from __future__ import annotations

from typing import Any

from schedule.te.ops import key_of
from schedule.te.stage_state import StageState

PRAGMAS = ("auto_unroll_max_step", "unroll_explicit", "unroll_limit", "schedule")


class KindRequests(StageState):
    """Of requests about one loop, or about the memory, the last one counts."""

    def vectorize(self, var: Any) -> None:
        """Run the loop as vector lanes."""
        self._mark("vectorize", var)

    def parallel(self, var: Any) -> None:
        """Run the loop on several threads."""
        call = self._call("parallel", var)
        self.require_leaf(call, var)
        if var.is_reduce:
            raise call.refused(
                f"{var.name!r} is a reduction of {self.shown}: its iterations add to one element",
                "s.rfactor makes them independent",
            )
        call.mark("parallel", var)

    def unroll(self, var: Any) -> None:
        """Write out the iterations of the loop."""
        self._mark("unroll", var)

    def bind(self, ivar: Any, thread_ivar: Any) -> None:
        """Give the iterations to the threads of a GPU: te.thread_axis(...) or its name."""
        self._mark("bind", ivar, self._owner.axis_of(thread_ivar))

    def tensorize(self, var: Any, tensor_intrin: str) -> None:
        """Let a tensor intrinsic, given by its name, do what the loop and those inside it do."""
        self._mark("tensorize", var, tensor_intrin)

    def set_scope(self, scope: str) -> None:
        """Put the tensor into this memory."""
        self._call("set_scope", scope).mark("set_scope", None, scope)

    def storage_align(self, axis: Any, factor: int, offset: int) -> None:
        """Make the stride of `axis`, one of `op.axis`, a multiple of `factor`, plus `offset`."""
        call = self._call("storage_align", axis, factor, offset)
        place = next((n for n, a in enumerate(self.nest.data) if a is axis), None)
        if place is None:
            raise call.refused(
                f"storage_align of {self.shown} needs one of its op.axis that is a dimension of "
                "its tensor"
            )
        call.mark("storage_align", axis, place, factor, offset)

    def pragma(self, var: Any, pragma_type: str, pragma_value: Any = None) -> None:
        """Say something about how the loop is compiled.

        "auto_unroll_max_step" writes out what is inside of the loop as long as that is no more than
        so many steps; "unroll_explicit" of 0 leaves what is to be unrolled to the compiler;
        "unroll_limit" and "schedule" are the annotations of these names.
        """
        call = self._call("pragma", var, pragma_type, pragma_value)
        self.require_leaf(call, var)
        if pragma_type not in PRAGMAS:
            raise call.refused(
                f"nothing honours a pragma {pragma_type!r}", f"known are {', '.join(PRAGMAS)}"
            )
        call.mark("pragma", var, pragma_type, getattr(pragma_value, "value", pragma_value))

    def prefetch(self, tensor: Any, var: Any, offset: Any = 1) -> None:
        """In each iteration of the loop, ask for what the stage reads of `tensor`, an input,
        `offset` iterations later."""
        call = self._call("prefetch", tensor, var, offset)
        self.require_leaf(call, var)
        if not any(key_of(t) == key_of(tensor) for t in self.op.inputs):
            known = ", ".join(t.name for t in self.op.inputs) or "nothing"
            raise call.refused(f"{self.shown} does not read {tensor.name!r}; it reads {known}")
        call.mark("prefetch", var, tensor, getattr(offset, "value", offset))

    def double_buffer(self) -> None:
        """Keep two versions of the tensor, so that one is filled while the other is read."""
        self._call("double_buffer").mark("double_buffer", None)

    def rolling_buffer(self) -> None:
        """Keep the rows that the next iteration of the loop in which this is computed needs too."""
        self._call("rolling_buffer").mark("rolling_buffer", None)

    def set_store_predicate(self, predicate: Any) -> None:
        """Refused: no instance of a stage runs more often than once, by one thread."""
        raise self._call("set_store_predicate", predicate).refused(
            "no thread stores what another one has stored: of a reduction that threads share the "
            "first one stores, and other loops of threads are refused where they would",
            "leave it out; te.if_then_else in the expression says where a value is wanted",
        )

    def env_threads(self, threads: Any) -> None:
        """Refused: threads are those of loops."""
        raise self._call("env_threads", threads).refused(
            "threads begin where a loop is bound to them, and there only",
            "bind a loop of each stage, those of the steps of a te.scan too",
        )
