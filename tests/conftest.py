"""What all tests share: text that is compared with files under tests/golden."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

for _variable, _value in {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}.items():
    # Threads without work sleep. They would turn for milliseconds after each call of a kernel or a
    # product of NumPy's, on the processor that another test runs on. Read when NumPy is imported.
    os.environ.setdefault(_variable, _value)
# Searches of tests, and of the processes that they start, search whatever ships.
os.environ["TENSORIR_SHIPPED"] = str(Path(__file__).parent / "no records")

from backends import ObjectCache, default_cache  # noqa: E402
from tensorir import DEFAULT_ARCH, EXTERNS, ExternFunc, add_extern  # noqa: E402

# What programs and tests are made of is rarely garbage: looking for it as often as Python does by
# itself takes a fifth of collecting the tests, and a tenth of running them; looking once is enough.
gc.set_threshold(200_000, 1000)

GOLDEN = Path(__file__).parent / "golden"
PACKAGES = ("tensorir", "schedule", "backends", "autotune")
OBJECTS = ObjectCache(default_cache().directory / "tests", limit_bytes=1 << 28)

FEW_BUILDS = """\
from functools import partial
from autotune.measure import MeasureSettings, lock, measurer
from autotune.search import STRATEGIES, Evolution, Policy, evolutionary, policy
from autotune.tuning import session
measurer.TOLERABLE = float("inf")
STRATEGIES["evolutionary"] = partial(evolutionary.propose, settings=Evolution(builds=16))
STRATEGIES["policy"] = partial(policy.propose, settings=Policy(builds=16))
session.MeasureSettings = partial(
    MeasureSettings, min_ms=0.1, repeats=2, build_jobs=1, prune_factor=1e9
)
"""


class CpuTimes:
    """Counts the processor time of tests by folder, which a run of all of them tells at its end,
    beside what it may be. Nothing fails by it: machines differ."""

    MOST = {
        ".": 85, "autotune": 290, "backends": 90, "fuzz": 50, "schedule": 75, "tensorir": 65,
    }  # fmt: skip
    """Seconds, with the processes that are started: six minutes on two idle processors of 2022,
    with compilers and what collecting the tests takes, where objects of an earlier run are kept."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = sum(os.times()[:4])
        try:
            return (yield)
        finally:
            first, *below = item.path.relative_to(Path(__file__).parent).parts
            self.seconds[first if below else "."] += sum(os.times()[:4]) - before

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["cpu_seconds"] = dict(self.seconds)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has ended."""
        self.seconds.update(getattr(node, "workeroutput", {}).get("cpu_seconds", {}))

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            terminalreporter.section("processor time, in seconds")
            for line in self.table():
                terminalreporter.line(line)

    def table(self) -> list[str]:
        """A line for each folder: what its tests took, and what they may take."""
        rows = [(folder, self.seconds[folder], most) for folder, most in self.MOST.items()]
        rows.append(("all", sum(self.seconds.values()), sum(self.MOST.values())))
        too_much = " - too much: --durations=20 shows where"
        return [
            f"{folder:10} {used:5.0f} of {most:3}{too_much if used > most else ''}"
            for folder, used, most in rows
        ]


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C is heard even where a shell started the tests in the background, deaf to it: what the
    tests start, and interrupt, would be deaf too."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(CpuTimes(), "cpu-times")


def takes_samples(config: pytest.Config) -> bool:
    """Whether this is a run of all tests, in which some run for a share of their cases: who names
    files or tests gets all of theirs, and `--all-cases` gives all of all."""
    if hasattr(config, "workerinput"):
        return bool(config.workerinput["takes_samples"])
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return whole and not config.getoption("--all-cases")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers of pytest-xdist are given names of folders, whoever gave them."""
    node.workerinput["takes_samples"] = takes_samples(node.config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slow ones come first: at the end one worker would have nothing to do beside them."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    if takes_samples(config):
        sample = sample_of(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in sample])
        items[:] = [item for item in items if item in sample]


def sample_of(items: list[pytest.Item]) -> set[pytest.Item]:
    """What a run of all tests has: the cases in the sample, and the first of a test without any."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    sample = {item for item in items if in_sample(item)}
    for item in sample:
        first.pop(item.nodeid.partition("[")[0], None)
    return sample | set(first.values())


def in_sample(item: pytest.Item) -> bool:
    """Whether a run of all tests has this case: one in n of those marked `sampled(n)`, by their
    names, so that there are some of all values of each parameter."""
    mark = item.get_closest_marker("sampled")
    return mark is None or crc32(item.name.encode(), draw()) % mark.args[0] == 0


@cache
def draw() -> int:
    """What decides which cases are drawn: the sources, so that a tree has the same ones each time,
    and each case is run by one tree or another."""
    number = 0
    for package in PACKAGES:
        for path in sorted((GOLDEN.parent.parent / package).rglob("*.py")):
            number = crc32(path.read_bytes(), number)
    return number


@pytest.fixture(scope="session")
def samples(request: pytest.FixtureRequest) -> bool:
    """Whether what tests do of many things they may do for some."""
    return takes_samples(request.config)


def pytest_collection_finish() -> None:
    """The tests themselves stay to the end: they are not looked through again."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
    parser.addoption(
        "--all-cases", action="store_true", help="run all cases of tests marked `sampled` too"
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked `cuda` are skipped where there is no GPU, which says what is missing."""
    if item.get_closest_marker("cuda") is None:
        return
    from backends.cuda import devices

    if not devices.devices():
        pytest.skip(devices.why_no_device(DEFAULT_ARCH) or "no GPU")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(text, name): `text` must be that of golden/<module>/<name>.txt."""
    module = request.module.__name__.rpartition(".")[2].removeprefix("test_")
    update = request.config.getoption("--update-golden")

    def check(text: str, name: str) -> None:
        path = GOLDEN / module / (name if "." in name else f"{name}.txt")
        text = text.rstrip("\n") + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"{path} does not exist; run pytest --update-golden, then read the file")
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture(scope="session")
def cache() -> ObjectCache:
    """One object cache for all tests that compile, whichever worker runs them, and for the runs
    that come after: an object is found by the compiler, its command and the whole text, so that
    what any of them changes is compiled. It does not push out what the user keeps."""
    return OBJECTS


@pytest.fixture
def collect() -> Callable[[], int]:
    """collect() frees the garbage that the test has made. What was there before it is not looked
    through: that takes a second and more when many tests have run."""
    gc.freeze()
    return gc.collect


@pytest.fixture(scope="session", autouse=True)
def lock_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tests of one worker take turns at timing: no test looks at times that others
    spoil, and all would wait for the other worker, and for whoever else tunes on this machine."""
    from autotune.measure import lock

    lock.SHARED_FOLDER = tmp_path_factory.mktemp("lock")
    return lock.SHARED_FOLDER


@pytest.fixture(scope="session")
def few_builds_code(lock_folder: Path) -> str:
    """Python that has `tune` build sixteen schedules for each batch of trials, in place of 128,
    and measure briefly where it is not told how. Races decide whatever else the machine does: tests
    run beside one another, and those of one worker take turns among themselves alone.

    For what happens to proposals; which are made is tested on the strategies themselves.
    """
    return FEW_BUILDS + f"lock.SHARED_FOLDER = lock.Path({str(lock_folder)!r})\n"


@pytest.fixture(scope="module")
def few_builds(few_builds_code: str) -> Iterator[None]:
    """The same in the process of the tests, and for what a module makes once."""
    from autotune.measure import measurer
    from autotune.search import STRATEGIES
    from autotune.tuning import session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurer, "TOLERABLE", measurer.TOLERABLE)
        for name in ("evolutionary", "policy"):
            patch.setitem(STRATEGIES, name, STRATEGIES[name])
        patch.setattr(session, "MeasureSettings", session.MeasureSettings)
        exec(few_builds_code, {})
        yield


@pytest.fixture
def extern_cleanup() -> Iterator[Callable[..., None]]:
    """extern_cleanup(func) makes `func` known, unchecked; what is new goes after the test."""
    before = dict(EXTERNS)

    def make_known(func: ExternFunc | None = None) -> None:
        if func is not None:
            add_extern(func)

    yield make_known
    EXTERNS.clear()
    EXTERNS.update(before)
