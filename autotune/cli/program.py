"""Which program a command is about: an example by name, or a function in a Python file."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from autotune.cli.failure import Failure, WrongUse
from autotune.database.conditions import COLD, WARM, Conditions
from autotune.database.database import Database
from autotune.database.miss import Miss
from autotune.database.records import Record, Workload
from autotune.errors import line_in
from autotune.examples import EXAMPLES, make_example, no_size, sizes_of
from autotune.knobs.space import ScheduleFunction
from autotune.machine.machine import this_machine
from autotune.tuning.options import DEFAULT_DATABASE
from backends import resolve
from schedule import Schedule
from tensorir import (
    DEFAULT_NUMERICS,
    NUMERICS,
    PrimFunc,
    Target,
    TensorIRError,
    check_constants,
    te,
)

PROGRAM_HELP = (
    f"an example ({', '.join(EXAMPLES)}), or FILE.py or FILE.py:FUNCTION, a Python function that"
    " returns a PrimFunc or the list of tensors to make one of"
)


@dataclass(frozen=True)
class Program:
    """A program with what it is compiled for.

    func       the unscheduled program; `sizes` the values of its symbolic sizes
    words      the part of a command line that chooses it again
    constants  the parameters that are known when a kernel is built
    caches     what calls find in the caches when they are timed, "warm" or "cold"
    """

    func: PrimFunc
    sizes: Mapping[str, int]
    target: Target
    words: tuple[str, ...]
    constants: tuple[str, ...] = ()
    caches: str = WARM

    @property
    def workload(self) -> Workload:
        return Workload.of(self.func, self.constants)

    @property
    def conditions(self) -> Conditions:
        """Those that a kernel has here and now, with these sizes and caches."""
        return Conditions.here(self.target, self.sizes, cold=self.caches == COLD)

    def ranked(self, db: Database, numerics: str) -> Iterator[Record]:
        """The stored records of exactly this on this machine, best first."""
        return db.ranked(self.workload, self.target, this_machine(), numerics, self.conditions)

    def records(self, db: Database) -> list[Record]:
        """All stored records of exactly this on this machine."""
        return db.records(self.workload, self.target, this_machine(), conditions=self.conditions)

    def trials(self, db: Database) -> list[Record]:
        """The stored trials of exactly this, without those of final races."""
        return [record for record in self.records(db) if record.is_trial]

    def miss(self, db: Database) -> Miss:
        """Why there is no record of exactly this."""
        return db.miss(self.workload, self.target, this_machine(), self.conditions)

    def command(self, name: str, *options: str) -> str:
        """The command line of command `name` for this program."""
        return shlex.join(("tensorir", name, *self.words, *options))


def add_program(parser: argparse.ArgumentParser) -> None:
    """The options that choose a program."""
    parser.add_argument("program", metavar="PROGRAM", help=PROGRAM_HELP)
    parser.add_argument("--function", metavar="NAME", help="the function in FILE.py")
    add_shape(parser)
    parser.set_defaults(cache=WARM)
    parser.add_argument(
        "--target", default="c", help="what to compile for, such as 'c -threads=1' (default c)"
    )
    parser.add_argument(
        "--constants", nargs="+", action="extend", default=[], metavar="NAME",
        help="parameters that are known ahead, such as weights: what is made of them alone, such as"
        " a packed copy, is made when the kernel is built",
    )  # fmt: skip


def add_shape(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shape", nargs="+", action="extend", default=[], metavar="KEY=VALUE", type=_size,
        help="sizes, such as m=1024 n=512: arguments of the function, or symbolic sizes",
    )  # fmt: skip


def add_database(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database", default=DEFAULT_DATABASE, metavar="FILE",
        help=f"the tuning database (default {DEFAULT_DATABASE})",
    )  # fmt: skip


def add_cache(parser: argparse.ArgumentParser) -> None:
    """The option that says which times are meant, of a program's."""
    parser.add_argument(
        "--cache", choices=(WARM, COLD), default=WARM,
        help="times of calls that follow one another, or that find nothing in the caches: two"
        f" searches with records of their own (default {WARM})",
    )  # fmt: skip


def add_numerics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--numerics", default=DEFAULT_NUMERICS, choices=NUMERICS,
        help="bitwise: only schedules that keep the order of every sum; reassociated: those too"
        " that add the same terms in another order; algebraic: other algorithms as well, such as"
        " Winograd's; mixed: all, also intrinsics that round in another way, such as products of"
        f" bfloat16 (default {DEFAULT_NUMERICS})",
    )  # fmt: skip


def add_costs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--costs", choices=("measured",),
        help="estimate by what `tensorir doctor --calibrate` found that steps of this processor"
        " take, and not by the built-in table",
    )  # fmt: skip


def existing(path: str) -> str:
    """`path`; raises Failure, with the remedy, if there is no such database."""
    if path != ":memory:" and not Path(path).exists():
        raise Failure(
            f"there is no tuning database {path!r}: make one with `tensorir tune`, or name another"
            " with --database"
        )
    return path


@contextmanager
def open_stored(path: str) -> Iterator[Database]:
    """The database in an existing file; what was set aside while it was read is told in the end."""
    with Database(existing(path)) as db:
        yield db
        if db.note():
            print(f"note: {db.note()}", file=sys.stderr)


def chosen(args: argparse.Namespace) -> Program:
    """The program that the options of add_program choose. Raises WrongUse, or what it raises."""
    sizes = dict(args.shape)
    name, function = args.program, args.function
    if name in EXAMPLES and not function:
        func = _checked(lambda: make_example(name, sizes))
        rest: dict[str, int] = {}
    else:
        func, rest = from_file(name, function, sizes)
    target = _checked(lambda: resolve(Target.parse(args.target)))
    _checked(lambda: check_constants(func, args.constants))
    words, constants = _words(args), tuple(args.constants)
    return Program(func, rest, target, words, constants, args.cache)


def schedule_function(args: argparse.Namespace) -> ScheduleFunction | None:
    """The function `schedule(sch, knobs)` that --knobs names, in the file of the program or in
    another one; None where the option is not given. Raises WrongUse where there is none."""
    if args.knobs is None:
        return None
    file, _, name = args.knobs.rpartition(":")
    path = Path(file or args.program.partition(":")[0])
    if path.suffix != ".py" or not path.is_file():
        raise WrongUse(f"--knobs {args.knobs}: there is no file {path}; give FILE.py:NAME")
    found = getattr(_loaded(path), name, None)
    if not callable(found):
        raise WrongUse(f"--knobs {args.knobs}: {path} has no function {name!r}")
    return cast(ScheduleFunction, found)


def has_several(args: argparse.Namespace) -> bool:
    """Whether the program is a file of several functions, of which none is chosen."""
    file = Path(args.program)
    if args.program in EXAMPLES or args.function or file.suffix != ".py" or not file.is_file():
        return False
    return len(_candidates(_loaded(file))) > 1


def all_in_file(args: argparse.Namespace) -> dict[str, Program]:
    """All programs of the file, by name; each takes the sizes and constants that it has.

    Raises WrongUse for a function that gives no program, and for sizes that nobody has.
    """
    file, sizes = Path(args.program), dict(args.shape)
    module = _loaded(file)
    target = _checked(lambda: resolve(Target.parse(args.target)))
    found, taken = {}, set[str]()
    for name in _candidates(module):
        maker, label = getattr(module, name), f"{file}:{name}"
        own = sizes_of(maker) if callable(maker) else {}
        func, _ = _made(maker, label, {k: v for k, v in sizes.items() if k in own}, False)
        rest = {v.name: sizes[v.name] for v in func.size_vars if v.name in sizes}
        taken |= {*own, *rest}
        params = {param.name for param in func.params}
        constants = tuple(name for name in args.constants if name in params)
        words = (f"{file}:{name}", *_words(args)[1:])
        found[name] = Program(func, rest, target, words, constants, args.cache)
    unknown = [size for size in sizes if size not in taken]
    if unknown:
        raise WrongUse(f"no function of {file} has a size {unknown[0]!r}")
    return found


def _words(args: argparse.Namespace) -> tuple[str, ...]:
    words = [args.program]
    if args.function:
        words += ["--function", args.function]
    if args.shape:
        words += ["--shape", *(f"{key}={value}" for key, value in args.shape)]
    if args.constants:
        words += ["--constants", *args.constants]
    if args.target != "c":
        words += [f"--target={args.target}"]
    if args.cache != WARM:
        words += ["--cache", args.cache]
    if args.database != DEFAULT_DATABASE:
        words += ["--database", args.database]
    return tuple(words)


def _size(text: str) -> tuple[str, int]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier() or not value.isdecimal() or not int(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=POSITIVE_INTEGER")
    return key, int(value)


def _checked(make: Any) -> Any:
    try:
        return make()
    except TensorIRError as error:
        raise WrongUse(str(error)) from error


def from_file(
    text: str, function: str | None, sizes: Mapping[str, int], scheduled: bool = False
) -> tuple[PrimFunc, dict[str, int]]:
    """The program in `text` (FILE.py or FILE.py:FUNCTION), and the sizes that it left over.

    Functions may give a Schedule too where the program may be `scheduled`. Raises WrongUse.
    """
    path, _, name = text.partition(".py:")
    file = Path(text if not name else f"{path}.py")
    if file.suffix != ".py":
        what = f"neither an example nor a .py file; examples are {', '.join(EXAMPLES)}"
        if scheduled:
            what = "no .py file: write FILE.py, or FILE.py:FUNCTION"
        raise WrongUse(f"{text!r} is {what}")
    if not file.is_file():
        raise WrongUse(f"there is no file {str(file)!r}")
    module = _loaded(file)
    name = name or function or _only_function(module, file)
    if not hasattr(module, name):
        raise WrongUse(f"{file} has no function {name!r}; it has {_list(_candidates(module))}")
    return _made(getattr(module, name), f"{file}:{name}", sizes, scheduled)


def _loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tensorir_program_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look there
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise WrongUse(f"{file} cannot be loaded{_told(file, error)}") from error
    finally:
        sys.path.remove(str(file.parent.resolve()))
    return module


def _told(file: Path, error: Exception) -> str:
    """What a file of the user's was doing when it failed: ", line 4: ValueError: no"."""
    line = line_in(file, error)
    kind = "" if isinstance(error, TensorIRError) else f"{type(error).__name__}: "
    return f"{line and f', {line}'}: {kind}{error}"


def _candidates(module: ModuleType) -> list[str]:
    """Names of the programs in a module, and of the public functions that it defines and that can
    make some: their parameters are sizes."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (
            isinstance(value, PrimFunc)
            or (
                inspect.isfunction(value)
                and value.__module__ == module.__name__
                and not no_size(value)
            )
        )
    ]


def _only_function(module: ModuleType, file: Path) -> str:
    names = _candidates(module)
    if len(names) != 1:
        raise WrongUse(f"say which function of {file}, as {file}:NAME; it has {_list(names)}")
    return names[0]


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _made(
    maker: Any, label: str, sizes: Mapping[str, int], scheduled: bool
) -> tuple[PrimFunc, dict[str, int]]:
    taken: dict[str, int] = {}
    if callable(maker):
        why = no_size(maker)
        if why:
            raise WrongUse(
                f"{label} makes no program: {why}; a function of a schedule and knobs goes with one"
                f" by --knobs {label}"
            )
        known = sizes_of(maker)
        missing = [name for name, default in known.items() if default is None and name not in sizes]
        if missing:
            example = " ".join(f"{name}=128" for name in missing)
            raise WrongUse(f"{label} needs sizes: --shape {example}")
        taken = {name: value for name, value in sizes.items() if name in known}
    file, _, name = label.rpartition(":")
    try:
        made = maker(**taken) if callable(maker) else maker
        if isinstance(made, (list, tuple)):
            made = te.create_prim_func(list(made), name=name)
    except Exception as error:
        raise WrongUse(f"{label} failed{_told(Path(file), error)}") from error
    if scheduled and isinstance(made, Schedule):
        made = made.func
    if not isinstance(made, PrimFunc):
        wanted = "a Schedule, a PrimFunc" if scheduled else "a PrimFunc"
        raise WrongUse(
            f"{label} gives a {type(made).__name__}; it has to give {wanted}"
            " (te.create_prim_func) or a list of tensors"
        )
    rest = {name: value for name, value in sizes.items() if name not in taken}
    symbols = [var.name for var in made.size_vars]
    unknown = [name for name in rest if name not in symbols]
    if unknown:
        names = [*(sizes_of(maker) if callable(maker) else ()), *symbols]
        raise WrongUse(f"{label} has no size {unknown[0]!r}; it has {_list(names)}")
    return made, rest
