"""Compilers that misbehave, as shell scripts, and what to see of the processes they leave."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

GCC = shutil.which("gcc") or "gcc"


def executable(path: Path, text: str) -> str:
    """A file with this text that can be run; returns its path.

    Another process writes it: one that a thread of this one starts meanwhile would have it open for
    writing for a moment, and a file that is written cannot be run ("Text file busy").
    """
    write = 'cat > "$0" && chmod 755 "$0"'
    subprocess.run(["sh", "-c", write, path], input=text.encode(), check=True)
    return str(path)


def script(path: Path, body: str) -> str:
    """An executable shell script; returns its path."""
    return executable(path, f"#!/bin/sh\n{body}\n")


def failing(path: Path, pattern: str, body: str) -> str:
    """gcc, but for command lines that the shell pattern fits: these run `body`."""
    return script(path, f'case "$*" in {pattern}) {body};; *) exec {GCC} "$@";; esac')


def hanging(path: Path, pattern: str = "*-shared*") -> tuple[str, Path]:
    """gcc, but for such command lines a family that hangs and takes no SIGTERM: a child, one in a
    session of its own, and a daemon whose parent is gone. Returns it and the file of their ids."""
    pids = path.with_suffix(".pids")
    stay = f"sh -c 'trap \"\" TERM INT; echo $$ >> {pids}; exec sleep 60'"
    body = f"trap '' TERM INT; {stay} & setsid {stay} & (setsid {stay} >/dev/null 2>&1 &) ; {stay}"
    return failing(path, pattern, body), pids


def started(pids: Path, count: int = 4, seconds: float = 10.0) -> list[int]:
    """The processes of a hanging compiler, once all have begun."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = pids.read_text().split() if pids.exists() else []
        if len(found) >= count:
            return [int(pid) for pid in found]
        time.sleep(0.02)
    raise AssertionError("the compiler was not started")


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not reaped does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def wait_tied(pid: int, seconds: float = 10.0) -> bool:
    """Whether the system ends a process with the one that started its command: one of its files
    is watched. That is done after the start, and so may come after it has begun."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        infos = [path.read_text().split() for path in Path(f"/proc/{pid}/fdinfo").iterdir()]
        if any(int(info[info.index("flags:") + 1], 8) & os.O_ASYNC for info in infos):
            return True
        time.sleep(0.02)
    return False


def wait_dead(pid: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)
