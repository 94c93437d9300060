"""Vectors of 512 bits are not taken apart by the compiler."""

from __future__ import annotations

import subprocess

import pytest

from backends.c import compiler as cc
from backends.c.compiler import knows
from backends.c.flags import compile_flags


def test_choices_of_lanes_are_whole_vectors_on_processors_tuned_for_halves(tmp_path) -> None:
    """gcc 12 makes two choices of 256 bits of one of 512 for them, unless it is told otherwise."""
    compiler = cc.find_compiler()
    march = "icelake-server"
    if not knows(compiler, march) or "__clang__" in cc.macros(compiler, march):
        pytest.skip(f"no gcc for {march}")
    source = """
typedef float f32x16 __attribute__((vector_size(64)));
typedef int i32x16 __attribute__((vector_size(64)));
f32x16 pick(i32x16 m, f32x16 a, f32x16 b) {
    f32x16 r = {0};
    for (int i = 0; i < 16; i++) r[i] = m[i] ? a[i] : b[i];
    return r;
}"""
    (tmp_path / "pick.c").write_text(source)
    command = [*compiler.command, *compile_flags(compiler, march, False), "-S", "-o", "-"]
    made = subprocess.run(
        [*command, str(tmp_path / "pick.c")], capture_output=True, text=True, check=True
    )
    assert "zmm" in made.stdout and "ymm" not in made.stdout
