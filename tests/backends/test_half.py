"""Processors that compute in half precision do not: float16 is computed in float32, and rounded."""

from __future__ import annotations

import re

import pytest

from backends import build, resolve
from backends.c import compiler as cc
from backends.c import flags as told
from tensorir import te

WITH_HALF = "sapphirerapids"
HALF = r"\bv(?:mul|add|fn?m\w+)[ps]h\b"
"""Instructions that compute in half precision."""


def rounded_twice(n: int = 256):
    a, b = (te.placeholder((n,), "float16", name=name) for name in "ab")
    c = te.compute((n,), lambda i: (a[i] * b[i]).astype("float16") + a[i], name="c")
    return te.create_prim_func([a, b, c], name="rounded_twice")


def test_no_rounding_is_contracted_away(cache):
    if not cc.knows(cc.find_compiler(), WITH_HALF):
        pytest.skip(f"this compiler does not know -march={WITH_HALF}")
    target = resolve(f"c -march={WITH_HALF}")
    assert "avx512fp16" in target.features
    asm = build(rounded_twice(), target, cache=cache).asm
    assert "vcvtph2ps" in asm, "float16 is read"
    assert not re.findall(HALF, asm)


def test_nor_by_who_compiles_an_exported_text(cache, tmp_path):
    compiler = cc.find_compiler()
    if not cc.knows(compiler, WITH_HALF):
        pytest.skip(f"this compiler does not know -march={WITH_HALF}")
    source, _ = build(rounded_twice(), cache=cache).export(tmp_path)
    flags = ("-O2", f"-march={WITH_HALF}")
    asm = cc.assembly(compiler, source.read_text(), flags, "exported")
    assert "vcvtph2ps" in asm and not re.findall(HALF, asm)


@pytest.mark.parametrize(("follows", "flag"), [
    (True, "-march=armv9-a+nofp16"), (False, "-ffp-contract=off"),
])  # fmt: skip
def test_on_arm_too(monkeypatch, follows, flag):
    known = frozenset({"__GNUC__", "__aarch64__", told.ARM_HALF})
    compiler = cc.find_compiler()

    def macros(asked, march):
        if march.endswith("+nofp16") and not follows:
            raise cc.UnknownProcessor("no such suffix", (), "")
        return known

    for module in (cc, told):
        monkeypatch.setattr(module, "macros", macros)
    flags = told.compile_flags(compiler, "armv9-a", False)
    assert flag in flags and sum(each.startswith("-march=") for each in flags) == 1
