"""The moves that users registered: defaults and searches ask them for every contraction."""

from __future__ import annotations

from schedule import library
from tensorir import TensorIRError

MOVES: dict[str, library.Move] = {}
"""By their names. Those that come along are not here: `autotune/partials.py` knows which of their
options and nests go together."""


def register_move(move: library.Move) -> library.Move:
    """Try a move (`schedule.library.Move`) ahead of the nest of every contraction from now on, with
    each of its options; returns the move.

        register_move(Move("phases", apply=by_phases, options=steps_of, cycles=copying))

    The default schedule has it where the estimate of the move and of the nest after it is surely
    less than that of the nests without it, or where there are none; searches try it in any case.

    Raises TensorIRError for what is no move, and for a name that is taken.
    """
    if not isinstance(move, library.Move):
        raise TensorIRError(f"{move!r} is no move: give a schedule.library.Move")
    if move.name in MOVES or hasattr(library, move.name):
        raise TensorIRError(f"there is a move {move.name!r} already: give yours another name")
    MOVES[move.name] = move
    return move


def forget_move(move: library.Move) -> None:
    """Undo `register_move`; TensorIRError for a move that is not registered."""
    if MOVES.get(getattr(move, "name", "")) is not move:
        raise TensorIRError(f"move {getattr(move, 'name', move)!r} is not registered")
    del MOVES[move.name]


def find_move(name: str) -> library.Move:
    """The move of that name: a registered one, or one that comes along."""
    found = MOVES[name] if name in MOVES else getattr(library, name)
    assert isinstance(found, library.Move)
    return found
