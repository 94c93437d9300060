"""A schedule as a Python file that runs: the program, the steps, a kernel, and a check of it."""

from __future__ import annotations

from autotune.cli.output import milliseconds, short_target
from autotune.cli.program import Program
from autotune.database.records import Record
from schedule import Schedule

FILE = '''\
"""{name}: {time} on {cpu}, record {id}.

{signature}
"""

from autotune.measure.oracle import make_oracle
from backends import build
from schedule import Schedule
from tensorir import parse

{func} = parse(r\'\'\'
{program}
\'\'\')

sch = Schedule({func})
{steps}

# Inputs, what the definition makes of them in float64, and the error that rounding may cause.
truth = make_oracle({func}, seed=0, sizes={sizes})
constants = {{name: truth.inputs[name] for name in {constants}}}
kernel = build(sch, {target!r}, constants=constants)
inputs = [truth.inputs[p.name] for p in {func}.inputs if p.name not in constants]

results = kernel(*inputs, **truth.numbers)
for param, result in zip({func}.outputs, results if isinstance(results, tuple) else [results]):
    error, bound, place = truth.error(param.name, result)
    if place is not None:
        raise SystemExit(f"{{param.name}} is off by {{error:g}} at {{place}}, allowed {{bound:g}}")
    print(f"{{param.name}}: right, largest error {{error:.3g}}")
print(kernel.time(*inputs, sizes=truth.numbers))
'''

TAKEN = {
    "build", "constants", "error", "inputs", "kernel", "make_oracle", "param", "parse", "place",
    "print", "result", "results", "sch", "truth", "bound", "isinstance", "tuple", "zip",
    "Schedule", "SystemExit",
}  # fmt: skip
"""What the file means by these names; a program called so is called something else in it."""


def as_script(program: Program, record: Record, schedule: Schedule, signature: str) -> str:
    """The text of the file."""
    name = program.func.name
    return FILE.format(
        name=name,
        time=milliseconds(record.median),
        cpu=record.machine.get("cpu") or record.machine_key,
        id=record.id[:12],
        signature=signature,
        func=f"{name}_definition" if name in TAKEN else name,
        program=str(program.func).strip(),
        steps=schedule.trace.as_python() or "# no steps",
        sizes=dict(program.sizes) or None,
        constants=list(program.constants),
        target=short_target(record.target),
    )
