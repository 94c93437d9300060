"""What tune_family returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.arguments import check_sizes
from autotune.database.records import Record
from autotune.tasks.regions import Region
from autotune.tuning.replay import replayed
from backends import CompiledKernel, build_cases
from schedule import Schedule
from tensorir import Numbers, PrimFunc, Target, TensorIRError


@dataclass(frozen=True)
class Member:
    """One of the measured sizes.

    schedule  the number of the one that it has in the family: 0 is the default
    seconds   its time with that; `best` with the best schedule of its own, `default` with the
              default; all of one race
    """

    sizes: Mapping[str, int]
    schedule: int
    seconds: float
    best: float
    default: float

    @property
    def regret(self) -> float:
        """How much longer it takes than with its own best schedule, as a share."""
        return self.seconds / self.best - 1

    def __str__(self) -> str:
        return named(self.sizes)


@dataclass(frozen=True, repr=False)
class FamilyResult:
    """Few schedules for many sizes; printing it shows who has which, and what that costs.

    members   the measured sizes
    records   of the schedules, by their numbers: 0 is the default, which is always right
    origins   for which size each was found; "" for the default
    regions   which sizes have which of them; where none holds, a call runs the default
    measured  trials of this call; 0 where all was in the database
    seconds   wall time of this call
    notice    what the user should know; "" for nothing
    """

    func: PrimFunc
    target: Target
    members: tuple[Member, ...]
    records: tuple[Record, ...]
    origins: tuple[str, ...]
    regions: tuple[Region, ...]
    measured: int
    seconds: float
    notice: str = ""

    @property
    def regret(self) -> float:
        """The mean of the regrets of the measured sizes."""
        return sum(member.regret for member in self.members) / len(self.members)

    @property
    def from_database(self) -> bool:
        """Whether this call measured nothing."""
        return self.measured == 0

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules, replayed from their records. Each is of the symbolic program, and so right
        for every size."""
        return tuple(replayed(self.func, record) for record in self.records)

    def schedule_for(self, **sizes: int) -> int:
        """The number of the schedule that runs for these sizes.

        Raises TensorIRError for a size that is missing or none of the program.
        """
        given = check_sizes(self.func, sizes)
        missing = [v.name for v in self.func.size_vars if v.name not in given]
        if missing:
            raise TensorIRError(f"which schedule runs depends on {missing[0]!r}: give it too")
        known = {v.name: int(given[v.name]) for v in self.func.size_vars}
        return next((r.schedule for r in self.regions if r.holds(known)), 0)

    def build(self) -> CompiledKernel:
        """One kernel for every size: its compiled text chooses the schedule by a few comparisons.

        Raises BuildError where it cannot be compiled.
        """
        variables = {v.name: v for v in self.func.size_vars}
        default, *others = self.schedules
        cases = [(r.condition(variables), others[r.schedule - 1]) for r in self.regions]
        return build_cases(default, cases, self.target)

    def __repr__(self) -> str:
        rows = [("sizes", "schedule", "ms", "own best ms", "regret", "default/it")]
        for member in self.members:
            rows.append(
                (
                    str(member), str(member.schedule), f"{1e3 * member.seconds:.4g}",
                    f"{1e3 * member.best:.4g}", f"{member.regret:.1%}",
                    f"{member.default / member.seconds:.2f}",
                )
            )  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        for number, origin in enumerate(self.origins):
            where = [str(region) for region in self.regions if region.schedule == number]
            if number:
                lines.append(f"schedule {number}, found for {origin}: where {'; or '.join(where)}")
        lines.append("schedule 0, the default: for all other sizes")
        most = max(self.members, key=lambda member: member.regret)
        lines.append(f"mean regret {self.regret:.1%}, most {most.regret:.1%} ({most})")
        return "\n".join(lines)


def named(sizes: Numbers) -> str:
    """Sizes in words."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())
