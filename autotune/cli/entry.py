"""main: reads the command line, runs one command, and turns errors into messages."""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import autotune.cli.best as best
import autotune.cli.db as db
import autotune.cli.delegate as delegate
import autotune.cli.doctor as doctor
import autotune.cli.explain as explain
import autotune.cli.report as report
import autotune.cli.sanitize as sanitize
import autotune.cli.space as space
import autotune.cli.tune as tune
from autotune.cli.failure import NOTHING, OK, STOPPED, WRONG_USE, WrongUse
from autotune.machine.toolchain import project_version
from backends import BuildError, have_compiler
from tensorir import TensorIRError

COMMANDS = {
    "demo": delegate,
    "tune": tune,
    "best": best,
    "report": report,
    "space": space,
    "db": db,
    "bench": delegate,
    "sanitize": sanitize,
    "explain": explain,
    "doctor": doctor,
}
"""Each has HELP and EXAMPLES (texts), configure(parser), and run(args) -> status."""

DESCRIPTION = "Tune tensor programs on this machine, and look at what was found."
EPILOG = "`tensorir COMMAND --help` has the options and examples of a command."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (None: that of the process) and return the exit status.

    0: done; 1: failed, or nothing found; 2: wrong use, or no compiler; 130: stopped by Ctrl-C.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what it cannot show, it spells out
            stream.reconfigure(errors="backslashreplace")
    try:
        delegated = words and words[0] in delegate.NAMES
        with _plain_warnings():
            status = delegate.run_words(words[0], words[1:]) if delegated else _run(words)
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED
    except TensorIRError as error:
        print(f"error: {error}", file=sys.stderr)
        missing = isinstance(error, BuildError) and not have_compiler()
        return WRONG_USE if isinstance(error, WrongUse) or missing else NOTHING
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        _drop_output()
        return OK
    except OSError as error:  # such as a full disk
        print(f"error: {error}", file=sys.stderr)
        _drop_output()
        return NOTHING


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """What users are warned of is one line, without a place in sources that they never opened; once
    of each, whether this process or its workers found it first."""
    said = set[str]()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def once(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, UserWarning):
                show(message, category, *where, **more)
            elif str(message) not in said:
                said.add(str(message))
                print(f"warning: {message}", file=sys.stderr)

        warnings.showwarning = once
        yield


def _drop_output() -> None:
    """What is still to be written goes nowhere: it would fail again when the process ends."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    parser = make_parser()
    if not words:
        parser.print_help()
        return WRONG_USE
    try:
        args = parser.parse_args(words)
    except SystemExit as stop:  # argparse has printed its message, or the help
        return stop.code if isinstance(stop.code, int) else WRONG_USE
    status: int = COMMANDS[args.command].run(args)
    return status


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser("tensorir", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"tensorir {project_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        text = command.HELP[name] if isinstance(command.HELP, dict) else command.HELP
        sub = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.configure(sub)
    return parser
