"""kernel.asm for CUDA: PTX always, machine code where a disassembler is found, or why not."""

from __future__ import annotations

import pytest
from fake_compilers import executable

from backends import BuildError, build
from backends.cuda import assembly, nvrtc
from tensorir import te

READS = """#!/bin/sh
for path; do :; done
[ "$(head -c 4 "$path" | tail -c 3)" = ELF ] && echo "FADD by $0 $1"
"""

FAILS = """#!/bin/sh
echo "fatal: no such
architecture" >&2
exit 255
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """tools(nvdisasm=text, ...): these are all the disassemblers that there are."""

    def make(**texts: str) -> None:
        for name, text in texts.items():
            executable(tmp_path / name, text)
        monkeypatch.setattr(assembly, "_of_package", lambda name: None)
        monkeypatch.setattr(assembly, "TOOLKIT", str(tmp_path))
        which = assembly.shutil.which
        monkeypatch.setattr(
            assembly.shutil, "which", lambda name, path="": which(name, path=path or str(tmp_path))
        )

    return make


@pytest.fixture
def asm(cache, with_nvrtc):
    def asm_(arch: str = "sm_80") -> str:
        n = te.var("n")
        a = te.placeholder((n,), name="A")
        func = te.create_prim_func([a, te.compute((n,), lambda i: a[i] * 2, name="B")], name="two")
        return build(func, f"cuda -arch={arch}", cache=cache).asm

    return asm_


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_without_a_disassembler_there_is_ptx_and_a_sentence(tools, asm, arch):
    tools()
    text = asm(arch)
    assert text.startswith(f"// PTX for {arch}, by NVRTC ")
    assert f".target {arch}\n" in text and ".entry two_0(" in text
    assert text.splitlines()[-1] == (
        f"// The machine code for {arch} is not shown: there is neither nvdisasm nor cuobjdump of "
        "CUDA: pip install nvidia-cuda-nvdisasm"
    )


@pytest.mark.parametrize(
    ("names", "used"),
    [
        (("nvdisasm",), "nvdisasm --print-code"),
        (("cuobjdump",), "cuobjdump --dump-sass"),
        (("cuobjdump", "nvdisasm"), "nvdisasm --print-code"),
    ],
)
def test_a_disassembler_shows_the_machine_code(tools, asm, names, used):
    tools(**dict.fromkeys(names, READS))
    text = asm()
    assert ".entry two_0(" in text
    shown = text[text.index("// SASS, the machine code for sm_80, by ") :]
    assert used.partition(" ")[0] in shown.splitlines()[0]
    assert shown.splitlines()[1].startswith("FADD by ") and shown.strip().endswith(used)


def test_a_disassembler_that_fails_is_quoted(tools, asm):
    tools(nvdisasm=FAILS)
    last = asm().splitlines()[-1]
    assert last.startswith("// The machine code for sm_80 is not shown: ")
    assert last.endswith("nvdisasm failed: fatal: no such architecture")


def test_a_disassembler_that_cannot_be_run(tools, asm):
    tools(nvdisasm="no program")
    (last,) = [line for line in asm().splitlines() if "machine code" in line]
    assert last.startswith("// The machine code for sm_80 is not shown: ")


@pytest.mark.skipif(assembly.find_tool() is None, reason="there is no disassembler of CUDA here")
def test_the_machine_code_itself(asm):
    text = asm("sm_80")
    assert "STG.E" in text[text.index("// SASS, the machine code for sm_80") :]


def test_without_the_compiler_it_is_said(monkeypatch, cache):
    monkeypatch.setattr(nvrtc, "why_not", lambda: "compiling for CUDA needs CuPy: pip install it")
    a = te.placeholder((4,), name="A")
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] * 2, name="B")], name="two")
    kernel = build(func, "cuda -arch=sm_80", cache=cache)
    with pytest.raises(BuildError, match="two: compiling for CUDA needs CuPy: pip install it"):
        _ = kernel.asm
