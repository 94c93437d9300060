"""The environment of the peers: a virtual environment of its own, one pip call per library."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.catalog import PEERS
from benchmarks.peers.process import ROOT

FOLDER = ROOT / ".venv-peers"
STAMP = "installed.json"
TIMEOUT_S = 1800


def pythons(names: Sequence[str], folder: Path = FOLDER) -> tuple[dict[str, Path], dict[str, str]]:
    """The interpreter of each library, installing what is missing, and why others are left out."""
    found = {name: Path(sys.executable) for name in names if not PEERS[name].requirements}
    wanted = [name for name in names if name not in found]
    reasons: dict[str, str] = {}
    python = folder / "bin" / "python"
    if wanted and not python.exists():
        reason = _run(sys.executable, "-m", "venv", str(folder))
        if reason:
            return found, {name: f"no environment: {reason}" for name in wanted}
    done = _stamp(folder)
    for name in wanted:
        requirements = list(PEERS[name].requirements)
        reason = "" if done.get(name) == requirements else _install(python, name, requirements)
        if reason:
            reasons[name] = f"not installed: {reason}"
            continue
        found[name] = python
        done[name] = requirements
        (folder / STAMP).write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
    return found, reasons


def _install(python: Path, name: str, requirements: list[str]) -> str:
    print(f"installing {name}: {' '.join(requirements)}", flush=True)
    return _run(
        str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements
    )


def _run(*command: str) -> str:
    """Run a command; "" for success, else the last line that it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return "" if done.returncode == 0 else (said[-1] if said else f"status {done.returncode}")


def _stamp(folder: Path) -> dict[str, list[str]]:
    try:
        found = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
