"""What all tests share: text that is compared with files under tests/golden."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

for _variable, _value in {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}.items():
    # Threads without work sleep. They would turn for milliseconds after each call of a kernel or a
    # product of NumPy's, on the processor that another test runs on. Read when NumPy is imported.
    os.environ.setdefault(_variable, _value)

from tensorir import DEFAULT_ARCH, EXTERNS, ExternFunc, add_extern  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"

FEW_BUILDS = """\
from functools import partial
from autotune.measure import MeasureSettings
from autotune.search import STRATEGIES, Evolution, evolutionary
from autotune.tuning import session
STRATEGIES["evolutionary"] = partial(evolutionary.propose, settings=Evolution(builds=16))
session.MeasureSettings = partial(MeasureSettings, min_ms=0.5, repeats=2, build_jobs=1)
"""


def pytest_configure() -> None:
    """Ctrl-C is heard even where a shell started the tests in the background, deaf to it: what the
    tests start, and interrupt, would be deaf too."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones come first: at the end one worker would have nothing to do beside them."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """The tests themselves stay to the end, and what programs are made of is rarely garbage:
    looking for it as often as Python does by itself takes a fifteenth of all the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


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


@pytest.fixture
def few_builds_code() -> str:
    """Python that has `tune` build sixteen schedules for each batch of trials, in place of 128,
    and measure briefly where it is not told how.

    For what happens to proposals; which are made is tested on `evolutionary.propose` itself.
    """
    return FEW_BUILDS


@pytest.fixture
def few_builds(monkeypatch: pytest.MonkeyPatch, few_builds_code: str) -> None:
    """The same in the process of the tests."""
    from autotune.search import STRATEGIES
    from autotune.tuning import session

    monkeypatch.setitem(STRATEGIES, "evolutionary", STRATEGIES["evolutionary"])
    monkeypatch.setattr(session, "MeasureSettings", session.MeasureSettings)
    exec(few_builds_code, {})


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
