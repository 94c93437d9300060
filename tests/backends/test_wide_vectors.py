"""Vectors of 512 bits are not taken apart by the compiler."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from backends import source_text
from backends.c import compiler as cc
from backends.c.compiler import knows
from backends.c.flags import compile_flags, kernel_flags
from schedule import Schedule
from tensorir import Expr, te


def test_choices_of_lanes_are_whole_vectors_on_processors_tuned_for_halves(tmp_path) -> None:
    """gcc 12 makes two choices of 256 bits of one of 512 for them, unless it is told otherwise."""
    compiler = cc.find_compiler()
    march = "icelake-server"
    if not knows(compiler, march) or "__clang__" in cc.macros(compiler, march):
        pytest.skip(f"no gcc for {march}")
    text = """
typedef float f32x16 __attribute__((vector_size(64)));
typedef int i32x16 __attribute__((vector_size(64)));
f32x16 pick(i32x16 m, f32x16 a, f32x16 b) {
    f32x16 r = {0};
    for (int i = 0; i < 16; i++) r[i] = m[i] ? a[i] : b[i];
    return r;
}"""
    made = assembly(compiler, compile_flags(compiler, march, False), text, tmp_path)
    assert "zmm" in made and "ymm" not in made


def assembly(compiler: cc.Compiler, flags: tuple[str, ...], text: str, folder: Path) -> str:
    (folder / "text.c").write_text(text)
    command = [*compiler.command, *flags, "-S", "-o", "-", str(folder / "text.c")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("march", "bits"), [("icelake-server", 512), ("haswell", 256)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint16"])
def test_numbers_in_all_lanes_of_several_registers_do_not_go_through_memory(
    march: str, bits: int, dtype: str, tmp_path: Path
) -> None:
    """gcc 12 stored them lane by lane, and loaded them again in each iteration: columns taken by
    int64 took twice as long."""
    compiler = cc.find_compiler()
    if not knows(compiler, march):
        pytest.skip(f"no compiler for {march}")
    a, at = te.placeholder((64, 257), name="a"), te.placeholder((64,), dtype, name="at")

    def element(i: Expr, j: Expr) -> Expr:
        return a[i, te.max(te.min(at[j], te.const(231, dtype)), te.const(3, dtype))]

    sch = Schedule(te.create_prim_func([a, at, te.compute((64, 64), element, name="b")], name="f"))
    lanes = sch.split("j", [None, bits // 16])[1]
    sch.vectorize(lanes)
    text = source_text(sch, f"c -march={march} -vector_bits={bits} -threads=1")
    made = assembly(compiler, kernel_flags(compiler, march, False, text), text, tmp_path)
    assert len(re.findall(r"mov[a-z0-9]*\s+\$(?:231|3), -?\d*\(%r[sb]p\)", made)) < 2
