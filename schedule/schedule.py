"""Schedule: the table of contents of the primitives, and the history of their use."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from schedule import primitives as p
from schedule.analysis.uses import consumers, producers
from schedule.arguments import literal
from schedule.errors import Hint, Illegal, ScheduleError, hint_text
from schedule.instruction import Instruction, output_names
from schedule.primitive import REGISTRY, check_arguments, method, run
from schedule.renaming import renamed_steps
from schedule.services import service
from schedule.state import BlockRef, LoopRef, State
from schedule.trace import Trace
from tensorir import (
    PrimFunc,
    TensorIRError,
    checked,
    format_func,
    prove,
    rectangular,
    with_declared,
    with_unique_names,
)

if TYPE_CHECKING:
    from schedule.module import Module
    from schedule.requests.moves import Explanation, LegalCall

T = TypeVar("T")
Query = Callable[[State, str], list[str]]


class Schedule:
    """A PrimFunc being transformed, legally, one primitive at a time.

    Every method named like a primitive checks its request and either applies it or raises
    ScheduleError, which leaves the schedule as it was. Loops and blocks are named by strings.
    With `debug`, every step is also validated by running it on a small instance (validate.py).
    `seed` is that of the generator from which the sample_* primitives draw their decisions.
    Raises VerifyError for a program of which it is not proved that it stays inside of its buffers
    and that what runs at once is independent (tensorir.prove).
    """

    def __init__(self, func: PrimFunc, debug: bool = False, seed: int = 0) -> None:
        if not isinstance(func, PrimFunc):
            raise TensorIRError(
                f"Schedule needs a PrimFunc, not {type(func).__name__}; "
                "make one with te.create_prim_func([inputs..., outputs...])"
            )
        prove(func)
        self._definition, self._debug = func, debug = with_declared(func), debug
        state = State(rectangular(with_unique_names(func)))
        self._generator: random.Random | int = seed
        self._history: tuple[tuple[State, Trace], ...] = ((state, Trace()),)
        self._run = run

    split = method(p.split)
    fuse = method(p.fuse)
    reorder = method(p.reorder)
    parallel = method(p.parallel)
    vectorize = method(p.vectorize)
    unroll = method(p.unroll)
    compute_inline = method(p.compute_inline)
    compute_at = method(p.compute_at)
    reverse_compute_at = method(p.reverse_compute_at)
    reverse_compute_inline = method(p.reverse_compute_inline)
    fuse_reduction_epilogue = method(p.fuse_reduction_epilogue)
    tensorize = method(p.tensorize)
    blockize = method(p.blockize)
    cache_read = method(p.cache_read)
    cache_value = method(p.cache_value)
    cache_write = method(p.cache_write)
    decompose_reduction = method(p.decompose_reduction)
    rfactor = method(p.rfactor)
    scatter = method(p.scatter)
    reindex = method(p.reindex)
    decompose_padding = method(p.decompose_padding)
    pad_einsum = method(p.pad_einsum)
    reassociate = method(p.reassociate)
    regroup = method(p.regroup)
    storage_align = method(p.storage_align)
    swizzle = method(p.swizzle)
    transform_layout = method(p.transform_layout)
    transform_block_layout = method(p.transform_block_layout)
    add_unit_loop = method(p.add_unit_loop)
    partition = method(p.partition)
    shift = method(p.shift)
    merge = method(p.merge)
    fission = method(p.fission)
    run_before = method(p.run_before)
    narrow = method(p.narrow)
    annotate = method(p.annotate)
    unannotate = method(p.unannotate)
    bind = method(p.bind)
    set_scope = method(p.set_scope)
    sample_perfect_tile = method(p.sample_perfect_tile)
    sample_categorical = method(p.sample_categorical)
    sample_compute_location = method(p.sample_compute_location)
    stream = method(p.stream)
    prefetch = method(p.prefetch)
    spread_prefetch = method(p.spread_prefetch)
    rolling_buffer = method(p.rolling_buffer)
    pipeline = method(p.pipeline)
    double_buffer = method(p.double_buffer)
    use_algorithm = method(p.use_algorithm)

    def tile(self, x: str, y: str, x_factor: int, y_factor: int) -> tuple[LoopRef, ...]:
        """Split two nested loops and put the inner halves inside; see schedule.library.tile."""
        from schedule.library import tile

        return tile(self, x, y, x_factor, y_factor)

    def cooperative_fetch(
        self, block: str, threads: Mapping[str, int] | int | None = None, vector: int = 1
    ) -> list[LoopRef]:
        """Let all threads of a block copy a tile together, some elements in a row each; see
        schedule.library.gpu.cooperative_fetch."""
        from schedule.library import cooperative_fetch

        return cooperative_fetch(self, block, threads, vector)

    @property
    def state(self) -> State:
        """The program and its index of names."""
        return self._history[-1][0]

    @property
    def func(self) -> PrimFunc:
        """The scheduled program."""
        return self.state.func

    @property
    def mod(self) -> Module:
        """The scheduled program as TVM gives it: `sch.mod["main"]` is `sch.func`."""
        from schedule.module import Module

        return Module(self.func)

    @property
    def definition(self) -> PrimFunc:
        """The program before any primitive: the meaning that every schedule keeps."""
        return self._definition

    @property
    def trace(self) -> Trace:
        """What was done, as data that replays."""
        return self._history[-1][1]

    @property
    def numerics(self) -> str:
        """ "bitwise" if only independent work was reordered, "reassociated" if a sum was,
        "algebraic" if another algorithm is used that rounds in other places, "mixed" if an
        intrinsic rounds otherwise than the loops that it stands for."""
        from schedule.analysis.numerics import numerics_class

        return numerics_class(self.func, self._definition)

    @property
    def generator(self) -> random.Random:
        """What the sample_* primitives draw with; seeded when the schedule was made."""
        if isinstance(self._generator, int):  # made when first used: most schedules draw nothing
            self._generator = random.Random(self._generator)
        return self._generator

    def commit(self, state: State, instruction: Instruction) -> None:
        """Append a step; called by the primitives' methods."""
        before = self._history
        self._history = (*before, (state, self.trace.append(instruction)))
        if self._debug:
            from schedule.debug.validate import validate

            try:
                validate(self)
            except BaseException:
                self._history = before
                raise

    def copy(self) -> "Schedule":
        """An independent schedule at the same point; costs nothing, the states are shared."""
        other = object.__new__(Schedule)
        other._definition, other._history = self._definition, self._history
        other._debug, other._run = self._debug, self._run
        other._generator = copy.copy(self._generator)
        return other

    @checked
    def follow(self, made: Schedule) -> bool:
        """Take the steps that `made` went on with from where this schedule is; False, and nothing
        of them, where it never was there."""
        done = len(self._history)
        if made._history[done - 1 : done] != self._history[-1:]:
            return False
        self._history += made._history[done:]
        return True

    def remember_steps(self) -> None:
        """From now on this schedule and its copies remember what primitives made of their states.

        Copies that begin with the same steps share the states, as the candidates of a search do;
        that costs memory for the last thousands of different steps of all schedules.
        """
        from schedule.step_memory import remembered

        self._run = remembered

    def run_primitive(self, name: str, args: dict[str, Any]) -> tuple[State, Any]:
        """What a primitive makes of the present state; called by the primitives' methods."""
        return self._run(self.state, name, args)

    def undo(self, steps: int = 1) -> None:
        """Take back the last primitives; ScheduleError if there were fewer."""
        if not isinstance(steps, int) or not 0 <= steps < len(self._history):
            done = f"only {len(self._history) - 1} steps were done"
            raise ScheduleError(f"undo({steps})", "", done, None, None, None)
        self._history = self._history[: len(self._history) - steps]

    def get_block(self, name: str) -> BlockRef:
        """The block of that name."""
        return self._query("get_block", name, lambda: BlockRef(self.state.block(_name(name)).name))

    def get_blocks(self) -> list[BlockRef]:
        """All blocks, in program order."""
        return [BlockRef(name) for name in self.state.block_names()]

    def get_loops(self, block: str) -> list[LoopRef]:
        """The loops around a block, outermost first."""
        name = _name(block)
        return self._query(
            "get_loops", name, lambda: [LoopRef(f.name) for f in self.state.loops_around(name)]
        )

    def get_child_blocks(self, loop: str) -> list[BlockRef]:
        """The blocks below a loop, in program order."""
        return self._query(
            "get_child_blocks", loop, lambda: [BlockRef(b) for b in self.state.blocks_inside(loop)]
        )

    def get_producers(self, block: str) -> list[BlockRef]:
        """The blocks that write what `block` reads."""
        return self._blocks("get_producers", block, producers)

    def get_consumers(self, block: str) -> list[BlockRef]:
        """The blocks that read what `block` writes."""
        return self._blocks("get_consumers", block, consumers)

    def _blocks(self, call: str, block: str, of: Query) -> list[BlockRef]:
        name = _name(block)
        return self._query(call, name, lambda: [BlockRef(b) for b in of(self.state, name)])

    def legal_moves(self, where: str | None = None, name: str | None = None) -> list[LegalCall]:
        """What is possible at a block or loop, or everywhere; all of it with primitive `name`.

        Each move is accepted by `apply_move` as long as the schedule does not change. Arguments
        with many values (factors, scopes) are tried with the usual ones.
        """
        from schedule.requests.moves import legal_moves

        place = None if where is None else _name(where)
        return self._query("legal_moves", place or "", lambda: legal_moves(self.state, place, name))

    @checked
    def apply_move(self, move: LegalCall) -> Any:
        """Call the primitive that `move` names; returns what it returns."""
        return getattr(self, move.name)(*move.args)

    def explain(self, where: str, name: str | None = None, *args: Any) -> Explanation:
        """Why things are not possible at a block or loop: prints as a table of verdicts.

        With the `name` of a primitive, only its calls; with further arguments, one call of it:
        `sch.explain("k", "parallel")`, `sch.explain("B", "compute_at", "i")`.
        """
        from schedule.requests.moves import explain

        return self._query(
            "explain", _name(where), lambda: explain(self.state, _name(where), name, args)
        )

    def sanitize(self, *arrays: Any, **options: Any) -> Any:
        """Run the program by the threads of an emulated GPU, watched for races, accesses out of
        bounds, reads of what nobody wrote and the like; what was found.

        Arguments and options are those of backends.sanitize: `arrays`, or `sizes={"n": 100}` for
        random ones; `checks`, `target`, `seed`. The result prints as a list of reports; none means
        that nothing is wrong with this run.
        """
        return service("sanitize")(self.func, *arrays, **options)

    def _query(self, call: str, name: str, fn: Callable[[], T]) -> T:
        try:
            return fn()
        except Illegal as refusal:
            reason = self.describe_missing(refusal)
            name, text = str(name), f"{call}({str(name)!r})"
            raise ScheduleError(text, name, reason, refusal.hint, self.state, self.trace) from None

    def describe_missing(self, refusal: Illegal) -> str:
        """The reason of a refusal; for a name that was used up, the step that used it."""
        if not refusal.reason.startswith("there is no "):
            return refusal.reason
        for number, step in reversed(list(enumerate(self.trace.instructions, 1))):
            if refusal.where in _consumed(step):
                made = ", ".join(output_names(step.outputs)) or "nothing"
                used = f"step {number}, {step.name}, made {made} of it"
                return f"{refusal.where!r} no longer exists: {used}"
        return refusal.reason

    def hint_for(self, name: str, args: dict[str, Any], known: Hint) -> Hint:
        """What the error of a refused call says to do: another order, if a step before it is in the
        way and one is found, or else what is `known`. Called by the primitives' methods."""
        from schedule.requests.order_hint import late_steps, order_hint

        if not late_steps(self.trace):
            return known
        present = self.copy()
        return lambda: order_hint(present, name, args) or hint_text(known)

    def show(self) -> None:
        """Print the program, its numerics class and the steps that led to it."""
        print(format_func(self.func))
        if len(self.trace):
            print(f"# numerics: {self.numerics}; steps:")
            print("\n".join(f"#   {step}" for step in self.trace.instructions))

    def apply(self, trace: Trace, recorded_on: PrimFunc | None = None) -> "Schedule":
        """Replay the steps of `trace` on this schedule; returns it.

        `recorded_on` is the program that the trace belongs to, if that is this one with other
        names: steps then name what stands at the same place here.

        Raises ScheduleError where a step is refused or gives other names than it did when it was
        recorded, that is, where the trace belongs to another program; TensorIRError where
        `recorded_on` is another program.
        """
        if not isinstance(trace, Trace):
            raise TensorIRError(f"{trace!r} is no Trace; Trace.from_json reads one")
        before = self._history
        try:
            if recorded_on is not None:
                for steps in renamed_steps(trace, Schedule(recorded_on), self):
                    self.apply(steps)
                return self
            for number, step in enumerate(trace.instructions, 1):
                self._replay(number, step)
        except BaseException:
            self._history = before
            raise
        return self

    def _replay(self, number: int, step: Instruction) -> None:
        if step.name not in REGISTRY:
            known = ", ".join(sorted(REGISTRY))
            raise ScheduleError(
                str(step), "", f"step {number} is no primitive; known are {known}", None, None, None
            )
        arguments = dict(step.args)
        try:
            check_arguments(step.name, arguments)
            state, outputs = run(self.state, step.name, arguments)
        except Illegal as refusal:
            call, where, reason = f"step {number}, {step}", refusal.where, refusal.reason
            raise ScheduleError(
                call, where, reason, refusal.hint, self.state, self.trace, refusal.detail
            ) from None
        names = output_names(outputs)
        expected = output_names(step.outputs)
        if step.outputs is not None and names != expected:
            raise ScheduleError(
                f"step {number}, {step}",
                "",
                f"gave {names} where the trace has {expected}: it belongs to another program",
                None,
                self.state,
                self.trace,
            )
        self.commit(state, Instruction(step.name, arguments, literal(outputs)))


def _consumed(step: Instruction) -> set[str]:
    """The loops and blocks that a step took and did not give back."""
    taken: set[str] = set()
    for value in step.args.values():
        taken.update(
            v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)
        )
    return taken - set(output_names(step.outputs))


def _name(block: Any) -> str:
    return block if isinstance(block, str) else str(getattr(block, "name", block))


__all__ = ["Schedule", "State"]
