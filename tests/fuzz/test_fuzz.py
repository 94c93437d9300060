"""The fuzzer itself: it runs, it is deterministic, and it finds what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from schedule import Schedule

sys.path.insert(0, str(Path(__file__).parent))
import checks  # noqa: E402
import fuzz  # noqa: E402
import small_checks  # noqa: E402
import workloads  # noqa: E402

OPTIONS = fuzz.parse_arguments(["--compile-every", "0"])


@pytest.mark.parametrize("seed", range(28))
def test_seeds_have_no_findings(seed):
    row = fuzz.check_seed(seed, OPTIONS)
    assert row["finding"] is None, fuzz.show_finding(row["finding"])


@pytest.mark.parametrize("seed", range(6))
def test_requests_with_any_arguments_have_no_findings(seed):
    """They change nothing where they are refused, and few of them are accepted, but some."""
    row = fuzz.check_seed(seed, fuzz.parse_arguments(["--compile-every", "0", "--odd"]))
    assert row["finding"] is None, fuzz.show_finding(row["finding"])
    assert 0 < sum(row["accepted"].values()) < sum(row["asked"].values())


@pytest.mark.parametrize("seed", range(4))
def test_small_machines_have_no_findings(seed):
    row = fuzz.check_seed(seed, fuzz.parse_arguments(["--small"]))
    assert row["finding"] is None and row["compiled"], row["finding"]


def test_limits_of_small_machines_are_known_and_put_back():
    before = {name: small_checks.find(name) for name in small_checks.LIMITS}
    with small_checks.limits({name: values[0] for name, values in small_checks.LIMITS.items()}):
        now = {name: small_checks.find(name) for name in small_checks.LIMITS}
        assert all(now[name] < before[name] for name in before)
    assert {name: small_checks.find(name) for name in before} == before


def test_a_seed_is_one_case():
    first, second = checks.make_case(7), checks.make_case(7)
    checks.apply_requests(first)
    checks.apply_requests(second)
    assert str(first.sch.func) == str(second.sch.func)
    assert first.sch.trace.dumps() == second.sch.trace.dumps()


def test_every_workload_is_checked_unscheduled():
    """A workload without a schedule passes all checks, so a finding is about the schedule."""
    for seed, make in enumerate(workloads.WORKLOADS):
        d = workloads.Draw(checks.random.Random(seed).choice)
        work = workloads.Workload(make(d), d.sizes)
        checks.check_text(Schedule(work.func), work)
        checks.check_interpreted(Schedule(work.func), work, seed)


def test_a_lie_is_found_and_shortened(monkeypatch):
    """A split that forgets its last iterations is reported with the one step that shows it,
    and that with its smallest arguments."""
    case = checks.make_case(3)
    case.work = workloads.Workload(workloads.windows.conv2d(workloads.Draw(lambda x: x[0])), {})
    case.sch = Schedule(case.work.func)
    case.sch.unroll("j")
    case.sch.split("c", [None, 2])
    case.sch.parallel("i")

    def check(sch, work):
        assert work.func is sch.definition
        if "c_1" in str(sch.func):
            raise checks.Mismatch("lost iterations")

    finding = fuzz.describe(case, "interpreter", check, checks.Mismatch("lost iterations"))
    steps = [line for line in finding["program"].splitlines() if line.startswith("sch.")]
    assert len(steps) == 1 and steps[0].startswith("sch.split('c', factors=[None, 1])")
    namespace: dict[str, object] = {}
    exec(finding["program"], namespace)
    assert "c_1" in str(namespace["sch"].func)  # type: ignore[attr-defined]


def test_the_command(tmp_path, capsys):
    assert fuzz.main(["--seed", "3", "--count", "4", "--jobs", "1", "--compile-every", "4"]) == 0
    assert "4 seeds" in capsys.readouterr().out


def test_a_worker_that_dies_is_a_finding():
    options = fuzz.parse_arguments([])
    row = fuzz._died(5, -11, "Fatal\n==1==ERROR: AddressSanitizer: heap-buffer-overflow\n", options)
    assert "heap-buffer-overflow" in row["finding"]["error"]
