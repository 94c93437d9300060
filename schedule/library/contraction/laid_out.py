"""A stage of several, told by what each dimension of what it stores is."""

from __future__ import annotations

from schedule.library.contraction.axes import FAR
from schedule.library.contraction.places import loops_by_dimension, store_of
from schedule.library.tile import split_at_most
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import int_value


class LaidOut:
    """A block and a label for each dimension of the buffer that it stores."""

    def __init__(self, sch: Schedule, name: str, labels: list[str]) -> None:
        self.sch, self.name, self.labels = sch, name, labels

    @property
    def buffer(self) -> str:
        return str(store_of(self.sch, self.name).buffer.name)

    def put_in_lanes(
        self, label: str, width: int, at: int | None = None, pad: bool = False
    ) -> None:
        """Bring a dimension to the end: in blocks of `width`, if that divides it.

        With `pad` in any case, the last block filled up with zeros. The number of the block stands
        where the dimension was, or at position `at`, and has the label with a b behind it.
        """
        place = self.labels.index(label)
        size = int_value(store_of(self.sch, self.name).buffer.shape[place]) or 0
        names = self.names()
        rest = [other for other in self.labels if other != label]
        values, labels = [names[other] for other in rest], list(rest)
        if size <= width or size % width and not pad:
            values.append(names[label])
        else:
            where = place if at is None else at
            values.insert(where, f"{names[label]} // {width}")
            labels.insert(where, f"{label}b")
            values.append(f"{names[label]} % {width}")
        fill = 0.0 if pad and size > width and size % width else None
        self.lay_out(values, [*labels, label], fill)

    def symbolic_first(self) -> None:
        """Dimensions of symbolic size outermost: distances along all others are numbers then."""
        shape = store_of(self.sch, self.name).buffer.shape
        known = [int_value(size) is not None for size in shape]
        labels = [label for _, label in sorted(zip(known, self.labels), key=lambda item: item[0])]
        names = self.names()
        self.lay_out([names[label] for label in labels], labels, None)

    def names(self) -> dict[str, str]:
        """Names of the dimensions in texts of index maps, that no size has."""
        taken = {var.name for var in self.sch.func.free_vars}
        long = "_" * max((len(name) for name in taken), default=0)
        return {label: f"d{n}{long}" for n, label in enumerate(self.labels)}

    def lay_out(self, values: list[str], labels: list[str], fill: float | None) -> None:
        """transform_layout of the buffer, if that changes anything."""
        old = list(self.names().values())
        if values != old:
            text = f"{', '.join(old)}: {', '.join(values)}"
            self.sch.transform_layout(self.name, self.buffer, text, fill)
        self.labels = labels

    def loops(self) -> dict[str, LoopRef]:
        """The own loop of each dimension that has one."""
        found = zip(self.labels, loops_by_dimension(self.sch, self.name))
        return {label: loop for label, loop in found if loop is not None}

    def loop(self, label: str) -> LoopRef:
        """That of one dimension, of one iteration where it has none."""
        return self.loops().get(label) or self.sch.add_unit_loop(self.name)

    def lane(self, label: str, width: int) -> LoopRef:
        """The loop over the lanes of a dimension, `width` at most."""
        lane = self.loop(label)
        small = (self.sch.state.loop(lane).const_extent or FAR) <= width
        return lane if small else split_at_most(self.sch, lane, width)[1]

    def lane_loops(self, label: str, width: int) -> tuple[LoopRef, LoopRef]:
        """The loops over blocks of lanes of a dimension, and over the lanes."""
        block, lane = self.loops().get(f"{label}b"), self.loop(label)
        if block is None or block == lane:  # which runs over both dimensions
            return split_at_most(self.sch, lane, width)
        return block, lane
