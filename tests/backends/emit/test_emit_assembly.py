"""What gcc makes of the text: the shape of the inner loops that matmul stands on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from backends.c.emit.codegen import emit
from tensorir import (
    Alloc,
    BinOp,
    Broadcast,
    Buffer,
    Call,
    Const,
    For,
    ForKind,
    Load,
    PrimFunc,
    Ramp,
    Store,
    Target,
    Var,
    const,
    seq,
)

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="reads gcc's assembly")

FLAGS = "-O2 -std=gnu11 -march=x86-64-v4 -fopenmp -fwrapv -fno-math-errno -fno-trapping-math"
ZERO = Broadcast(Const(0.0, "float32"), 16)


def assembly(func: PrimFunc, folder: Path, *flags: str) -> list[str]:
    (folder / "f.c").write_text(emit(func, Target(vector_bits=512)))
    command = ["gcc", *FLAGS.split(), *flags, "-S", "f.c", "-o", "f.s"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if "unrecognized" in done.stderr or "bad value" in done.stderr:
        pytest.skip("this gcc does not make x86-64-v4 code")
    assert done.returncode == 0, done.stderr
    lines = (folder / "f.s").read_text().splitlines()
    return [line.strip() for line in lines if line.startswith("\t") and line[1] != "."]


def matmul(rows: int, columns: int) -> PrimFunc:
    """C[rows, 16 * columns] = A @ B in registers, for each i of a parallel loop."""
    i, k, width = Var("i"), Var("k"), 16 * columns
    a, b, c = (Buffer(n, (1 << 20,), "float32") for n in "ABC")
    acc = Buffer("acc", (rows * columns,), "float32x16", "local")

    def vector(base):
        return (Ramp(base, const(1), 16),)

    tile = [(r, j, (const(r * columns + j),)) for r in range(rows) for j in range(columns)]
    step = [
        BinOp(
            "+",
            Load(acc, at),
            BinOp(
                "*",
                Broadcast(a[(i * rows + r) * 1024 + k], 16),
                Load(b, vector(k * width + 16 * j)),
            ),
        )
        for r, j, at in tile
    ]
    body = seq(
        *(Store(acc, at, ZERO) for _, _, at in tile),
        For(k, const(1024), seq(*(Store(acc, at, v) for (_, _, at), v in zip(tile, step)))),
        *(Store(c, vector((i * rows + r) * width + 16 * j), Load(acc, at)) for r, j, at in tile),
    )
    return PrimFunc("matmul", (a, b, c), (), For(i, const(8), Alloc(acc, body), ForKind.PARALLEL))


@pytest.mark.parametrize(("rows", "columns"), [(6, 4), (4, 4), (14, 2)])
def test_register_tiles_stay_in_registers(rows, columns, tmp_path):
    lines = assembly(matmul(rows, columns), tmp_path)
    products = [line for line in lines if line.startswith("vfmadd")]
    assert len(products) == rows * columns
    vectors = [line for line in lines if "zmm" in line]
    assert not [line for line in vectors if re.search(r"\((%rsp|%rbp)\)", line)], "spills"
    assert len([line for line in lines if line.startswith("vbroadcastss")]) == rows
    first = lines.index(products[0])
    last = len(lines) - 1 - lines[::-1].index(products[-1])
    start = max(n for n, line in enumerate(lines[:first]) if line.startswith(("vxorps", "vpxor")))
    inner = lines[start:last]
    loads = [line for line in inner if re.match(r"vmovup[sd]\s+-?\d*\(", line)]
    assert len(loads) == columns
    assert not [line for line in products if "(" in line], "operands in memory"


def biased(rows: int, columns: int) -> PrimFunc:
    """Tiles of sums with a bias for each row, in loops over rows and over columns, whose place is
    a part of the number of the task."""
    t, o, j, k = map(Var, "tojk")
    x, w, bias, out = (Buffer(n, (1 << 24,), "float32") for n in ("x", "w", "bias", "out"))
    acc = Buffer("acc", (rows * columns,), "float32x16", "local")
    place = t % 7 * 448 + j * columns * 16

    def vector(base, column):
        return (Ramp(base + 16 * column, const(1), 16),)

    tile = [(r, c, (const(r * columns + c),)) for r in range(rows) for c in range(columns)]
    terms = [
        Broadcast(w[(o * rows + r) * 256 + k], 16)
        * Load(x, vector(t // 7 * 802816 + k * 3136 + place, c))
        for r, c, _ in tile
    ]
    rest = [
        BinOp("max", BinOp("+", Load(acc, at), Broadcast(bias[o * rows + r], 16)), ZERO)
        for r, _, at in tile
    ]
    body = seq(
        *(Store(acc, at, ZERO) for _, _, at in tile),
        For(k, const(256), seq(*(Store(acc, at, BinOp("+", Load(acc, at), v))
                                 for (_, _, at), v in zip(tile, terms)))),
        *(Store(out, vector(t // 7 * 200704 + (o * rows + r) * 3136 + place, c), v)
          for (r, c, _), v in zip(tile, rest)),
    )  # fmt: skip
    loops = For(o, const(11), For(j, const(7), Alloc(acc, body)))
    return PrimFunc("biased", (x, w, bias, out), (), For(t, const(14), loops, ForKind.PARALLEL))


@pytest.mark.parametrize("tune", ["generic", "znver3"])
def test_what_follows_sums_takes_none_of_their_registers(tune, tmp_path):
    """Nor does the loop over tasks: gcc read the bias ahead of the loop over columns, and kept
    numbers of loops outside in vector registers."""
    lines = assembly(biased(6, 4), tmp_path, f"-mtune={tune}")
    products = [n for n, line in enumerate(lines) if line.startswith("vfmadd")]
    assert len(products) == 24
    inner = lines[products[0] : products[-1]]
    assert not [line for line in inner if "zmm" in line and re.search(r"\(%r[sb]p\)", line)]


def one(value, *buffers: Buffer) -> PrimFunc:
    out = Buffer("out", (16,), "float32")
    return PrimFunc("f", (*buffers, out), (), Store(out, (Ramp(const(0), const(1), 16),), value))


def test_relu_is_one_instruction(tmp_path):
    x = Buffer("x", (16,), "float32")
    value = BinOp("max", Load(x, (Ramp(const(0), const(1), 16),)), ZERO)
    lines = assembly(one(value, x), tmp_path)
    assert len([line for line in lines if line.startswith("vmaxps")]) == 1
    assert not [line for line in lines if line.startswith("vcmp")]


def test_accumulators_in_an_output_stay_in_registers_across_a_parallel_loop(tmp_path):
    """gcc forgets `restrict` in the functions it makes for OpenMP; our own function keeps it."""
    i, k = Var("i"), Var("k")
    a, b, c = (Buffer(n, (1 << 12,), "float32") for n in "ABC")
    at = (Ramp(i * 16, const(1), 16),)
    value = BinOp("+", Load(c, at), BinOp("*", Load(a, at), Load(b, (Ramp(k * 16, const(1), 16),))))
    body = For(i, const(64), For(k, const(64), Store(c, at, value)), ForKind.PARALLEL)
    lines = assembly(PrimFunc("f", (a, b, c), (), body), tmp_path)
    product = next(n for n, line in enumerate(lines) if line.startswith("vfmadd"))
    jump = next(n for n in range(product, len(lines)) if lines[n].startswith("jne"))
    assert not [line for line in lines[product:jump] if re.search(r"vmovups\s+%zmm\d+, ", line)]


def test_a_maximum_that_propagates_nan_is_a_comparison_and_a_masked_maximum(tmp_path):
    i = Var("i")
    at = (Ramp(i * 16, const(1), 16),)
    a, b = Buffer("A", (1024,), "float32"), Buffer("B", (1024,), "float32")
    store = Store(b, at, BinOp("max", Load(b, at), Load(a, at)))
    lines = assembly(PrimFunc("f", (a, b), (), For(i, const(64), store)), tmp_path)
    words = [line.split()[0] for line in lines]
    assert words.count("vcmpps") == words.count("vmaxps") == 1
    assert not [word for word in words if word.startswith(("vblend", "vptern"))]


def test_exp_has_the_instructions_for_exponents(tmp_path):
    i = Var("i")
    at = (Ramp(i * 16, const(1), 16),)
    a, b = Buffer("A", (1024,), "float32"), Buffer("B", (1024,), "float32")
    store = Store(b, at, Call("exp", (Load(a, at),), "float32x16"))
    lines = assembly(PrimFunc("f", (a, b), (), For(i, const(64), store)), tmp_path)
    vector = [line for line in lines if "zmm" in line and not line.startswith("vbroadcast")]
    assert sum(line.startswith("vscalefps") for line in vector) == 1
    assert sum("%zmm" in line and line[0] == "v" for line in vector) <= 30, "with its constants"


def test_vectors_wider_than_the_registers_compile(tmp_path):
    """What a text holds in registers it asks only of processors with registers as wide."""
    (tmp_path / "f.c").write_text(emit(matmul(6, 4), Target(vector_bits=512)))
    assert "KEEP512" in (tmp_path / "f.c").read_text()
    command = ["gcc", *FLAGS.replace("-v4", "-v3").split(), "-S", "f.c", "-o", "f.s"]
    subprocess.run(command, cwd=tmp_path, check=True)
