"""tensorir report --html: a workload's report as one HTML file, with the winner as a program."""

from __future__ import annotations

from autotune.cli.output import short_target
from autotune.cli.program import Program
from autotune.cli.script import as_script
from autotune.cli.tune import signature
from autotune.database.conditions import WARM
from autotune.database.records import Record
from autotune.report import Report
from autotune.report.hot_loop import hot_loop
from autotune.report.page import Winner, page
from autotune.tuning.replay import replayed
from backends import build
from schedule import Schedule
from tensorir import Target, TensorIRError, parse, whole_file


def write_page(report: Report, path: str, details: list[tuple[str, str]]) -> None:
    """Write the page; raises TensorIRError where nothing succeeded, where Matplotlib is missing, or
    where the file cannot be written."""
    text = page(report, _winner(report), details)
    try:
        with whole_file(path) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TensorIRError(f"cannot write the report {path!r}: {error.strerror}") from error


def _winner(report: Report) -> Winner:
    best = report.best
    if best is None:
        return Winner(missing="No trial succeeded.")
    record = report.race_of(best) or best
    try:
        func, target = parse(record.workload.text), Target.parse(record.target)
        constants = record.workload.constants
        caches = record.conditions.caches or WARM
        program = Program(func, record.conditions.sizes or {}, target, (), constants, caches)
        schedule = replayed(func, record)
    except TensorIRError as error:
        return Winner(missing=f"This version cannot make its steps: {error}")
    texts = {
        "a Python file that builds, checks and times it": as_script(
            program, record, schedule, signature(program)
        ),
        "its steps": schedule.trace.as_python(),
        "the scheduled program": str(schedule.func),
    }
    made, missing = _machine_code(program, record, schedule)
    return Winner({**texts, **made}, missing)


def _machine_code(
    program: Program, record: Record, schedule: Schedule
) -> tuple[dict[str, str], str]:
    """Source and hot loop, and why there are none where this machine has no such compiler."""
    texts: dict[str, str] = {}
    try:
        kernel = build(schedule, program.target, constants=program.constants)
        texts["its source"] = kernel.source
        loop = hot_loop(kernel.asm)
        if loop:
            texts["the loop that does most of the arithmetic"] = loop
    except TensorIRError as error:
        return texts, f"Not built here for {short_target(record.target)}: {error}"
    return texts, "" if loop else "No loop was found in its machine code."
