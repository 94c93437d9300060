"""Texts that tests hand to gcc themselves, with flags of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from backends import ObjectCache, object_key
from backends.c.compiler import macros, named_compiler


def made_by_gcc(store: ObjectCache, text: str, *flags: str, language: str = "c") -> Path:
    """What gcc makes of a text, found by all that it depends on where it was made before; fails
    the test with what gcc says."""
    gcc = named_compiler(("gcc",))
    machine = sorted(macros(gcc, "native")) if "-march=native" in flags else ()
    key = object_key(text, gcc.identity, language, *flags, *machine)

    def make(draft: Path) -> None:
        command = [*gcc.command, *flags, "-x", language, "-", "-o", str(draft), "-lm"]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stderr[-3000:]}\n{text}"

    return store.find(key) or store.add(key, make)
