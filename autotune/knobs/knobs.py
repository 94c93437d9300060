"""What a schedule function asks its values of: `def schedule(sch, knobs)`.

    def tiled(sch, knobs):
        i, j = sch.get_loops("C")[:2]
        outer, inner = sch.split(j, knobs.tile("j", 512))
        if knobs.flag("unroll"):
            sch.unroll(inner)

Each knob has a name, values, and a default. Which knobs a function asks for, and with which values,
may depend on `choice` and `flag`: these make branches, of which each is a sketch of the space. It
may not depend on factors and tiles, of which there are too many to try.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.arguments import instance, integer
from autotune.choices import Categorical, Choice, ImperfectTile, PerfectTile, freeze
from tensorir import TensorIRError

DEFAULT_INNER = 16
"""The innermost factor of a tile is the largest up to this one where no default is given."""


class Knobs:
    """The values of one run of a schedule function.

    `asked` has the knobs in the order in which they were asked for, with their defaults; `used` the
    value that each had. A knob without a given value has its default.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self.asked: dict[str, Choice] = {}
        self.defaults: dict[str, Any] = {}
        self.used: dict[str, Any] = {}

    def choice(self, name: str, options: Sequence[Any], default: Any = None) -> Any:
        """One of `options`: numbers, strings, bools, None, or lists of such.

        The first one is the default where none is given. Raises TensorIRError for no options, for
        equal ones, and for what cannot be stored.
        """
        instance(f"options of knob {name!r}", options, (list, tuple), "a list")
        plain = freeze(options)
        _check_plain(name, plain)
        known = Categorical(_checked_name(name), plain)
        return self._ask(known, plain[0] if default is None else default)

    def flag(self, name: str, default: bool = False) -> bool:
        """False or True."""
        default = freeze(default)
        instance(f"default of knob {name!r}", default, bool, "True or False")
        found: bool = self._ask(Categorical(_checked_name(name), (False, True)), default)
        return found

    def factor(self, name: str, extent: int, default: int | None = None) -> int:
        """A divisor of `extent`; the default is the largest up to 16."""
        size = _extent(name, extent)
        tile = PerfectTile(_checked_name(name), size, 2)
        if default is None:
            return int(self._ask(tile, _usual(size, 2))[-1])
        inner = integer(f"default of knob {name!r}", default, 1)
        if size % inner:
            raise TensorIRError(f"default of knob {name!r} is {inner}, no divisor of {size}")
        return int(self._ask(tile, (size // inner, inner))[-1])

    def tile(
        self,
        name: str,
        extent: int,
        parts: int = 2,
        *,
        divide: bool = True,
        default: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """`parts` factors of `extent`, outermost first, as `sch.split` takes them.

        divide   whether their product is the extent; else it may exceed it by a quarter at most, if
                 anything does, so that extents that are prime have tiles too
        default  the factors where nothing else is known; None: the innermost is 16, or the largest
                 below that fits
        """
        size, count = _extent(name, extent), integer(f"parts of knob {name!r}", parts, 2)
        if divide:
            wanted = _usual(size, count) if default is None else tuple(default)
            found: tuple[int, ...] = self._ask(
                PerfectTile(_checked_name(name), size, count), wanted
            )
            return found
        tile = ImperfectTile(_checked_name(name), size, count)
        wanted = _padded(tile) if default is None else tuple(default)[1:]
        value = self._ask(tile, wanted)
        return (tile.outermost(value), *value)

    def _ask(self, choice: Choice, default: Any) -> Any:
        name, default = choice.name, freeze(default)
        if not choice.contains(default):
            raise TensorIRError(f"default of knob {name!r} is {default!r}, none of its values")
        if name in self.asked:
            if self.asked[name] != choice:
                raise TensorIRError(
                    f"knob {name!r} is asked for twice, with other values; give one another name"
                )
            return self.used[name]
        value = self._given.get(name, default)
        if not choice.contains(value):
            raise Strayed(f"knob {name!r} has other values than before, and {value!r} is none")
        self.asked[name], self.defaults[name], self.used[name] = choice, default, value
        return value


class Strayed(TensorIRError):
    """A function asks for other knobs than it did with the same choices and flags."""


def shown(values: Mapping[str, Any]) -> str:
    """Values of knobs in words."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items()) or "no knobs"


def _usual(extent: int, parts: int) -> tuple[int, ...]:
    inner = max(d for d in range(1, min(extent, DEFAULT_INNER) + 1) if extent % d == 0)
    return (extent // inner, *[1] * (parts - 2), inner)


def _padded(tile: ImperfectTile) -> tuple[int, ...]:
    assert tile.inner is not None
    below = [size for size in tile.inner if size <= DEFAULT_INNER]
    return (*[1] * (tile.parts - 2), max(below, default=tile.inner[0]))


def _extent(name: str, extent: Any) -> int:
    try:
        return integer(f"extent of knob {name!r}", getattr(extent, "value", extent), 1)
    except TensorIRError as error:
        raise TensorIRError(
            f"{error}; for a symbolic size write the number that the tiles are made for"
        ) from error


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise TensorIRError(f"a knob's name is a text such as 'i', not {name!r}")
    return name


def _check_plain(name: str, value: Any) -> None:
    if isinstance(value, tuple):
        for each in value:
            _check_plain(name, each)
    elif not (value is None or isinstance(value, (bool, int, float, str))) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        raise TensorIRError(
            f"knob {name!r} has the option {value!r}; options are finite numbers, strings, bools,"
            " None, or lists of these: what can be stored"
        )
