"""The rows: operators with their sizes. Names give what people call the case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Sizes = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One operator of one size.

    kind   a key of KINDS in kinds.py
    sizes  the sizes and options that this kind takes
    """

    name: str
    kind: str
    sizes: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "sizes": dict(self.sizes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        return cls(data["name"], data["kind"], data["sizes"])


def matmul(m: int, k: int | None = None, n: int | None = None) -> Row:
    if k is None or n is None:
        return Row(f"matmul {m}", "matmul", {"m": m, "k": m, "n": m})
    return Row(f"matmul {m}x{k}x{n}", "matmul", {"m": m, "k": k, "n": n})


def int8(m: int, k: int | None = None, n: int | None = None) -> Row:
    return _low("int8", m, k, n)


def bf16(m: int, k: int | None = None, n: int | None = None) -> Row:
    return _low("bf16", m, k, n)


def _low(what: str, m: int, k: int | None, n: int | None) -> Row:
    row = matmul(m, k, n)
    return Row(f"{what} {row.name}", f"{what}_matmul", row.sizes)


def linear(m: int, k: int, n: int, activation: str, by_output: bool = False) -> Row:
    """`by_output`: the weights are stored [n, k], as for one sample in the suite."""
    shape = f"{m}x{n}x{k}" if by_output else f"{m}x{k}x{n}"
    sizes = {"m": m, "k": k, "n": n, "activation": activation, "by_output": by_output}
    return Row(f"linear+{activation} {shape}", "linear", sizes)


def batch_matmul(b: int, m: int, n: int, k: int) -> Row:
    return Row(f"batch matmul {b}x{m}x{n}x{k}", "batch_matmul", {"b": b, "m": m, "n": n, "k": k})


def conv(
    c: int, k: int, r: int, size: int, stride: int = 1, groups: int = 1, layout: str = "NCHW"
) -> Row:
    """A square convolution with padding r // 2, bias and ReLU of a picture of `size` rows.

    It is x[1, c, size, size], or x[1, size, size, c] in the layout "NHWC".
    """
    step = f" s{stride}" if stride > 1 else ""
    if groups == c == k:
        name = f"depthwise {c} {r}x{r}{step} {size}"
    else:
        name = f"conv {c}->{k} {r}x{r}{step} {size}" + (f" g{groups}" if groups > 1 else "")
    sizes = {"c": c, "k": k, "r": r, "size": size, "stride": stride, "groups": groups}
    if layout != "NCHW":
        return Row(f"{name} {layout}", "conv2d", {**sizes, "layout": layout})
    return Row(name, "conv2d", sizes)


def depthwise(c: int, r: int, size: int, stride: int = 1, layout: str = "NCHW") -> Row:
    return conv(c, c, r, size, stride, c, layout)


def rows_of(kind: str, m: int, n: int) -> Row:
    """An operator over the rows of x[m, n], or over all of it."""
    return Row(f"{kind.replace('_', ' ')} {m}x{n}", kind, {"m": m, "n": n})


def elementwise(n: int) -> Row:
    size = f"{n >> 20}M" if n >= 1 << 20 and n % (1 << 20) == 0 else str(n)
    return Row(f"relu(a*b+c)*sigmoid(d) {size}", "elementwise", {"n": n})


def attention(heads: int, length: int, depth: int) -> Row:
    sizes = {"heads": heads, "length": length, "depth": depth}
    return Row(f"attention 1x{heads}x{length}x{depth}", "attention", sizes)


MAIN = (
    matmul(256), matmul(512), matmul(1024), matmul(2048), matmul(16, 4096, 4096),
    matmul(1000), matmul(1023), matmul(777, 513, 1025),
    linear(1, 3072, 200, "relu", by_output=True), linear(128, 3072, 768, "gelu"),
    batch_matmul(12, 384, 384, 64),
    conv(3, 64, 7, 224, 2), conv(64, 64, 3, 56), conv(128, 128, 3, 28), conv(256, 256, 3, 14),
    conv(512, 512, 3, 7), conv(256, 64, 1, 56), depthwise(96, 3, 112, 2), depthwise(384, 3, 14),
    rows_of("softmax", 128, 30522), rows_of("softmax", 4096, 1024),
    rows_of("layer_norm", 4096, 1024), rows_of("row_sum", 4096, 4096),
    elementwise(1 << 24), rows_of("transpose", 4096, 4096), attention(12, 384, 64),
    int8(1024), bf16(1024),
)  # fmt: skip
"""What networks of vision and language spend their time on, and square and odd matmuls."""

OTHER = (
    matmul(384), matmul(640), matmul(1536), matmul(32, 2048, 8192), matmul(511, 509, 503),
    matmul(4096, 64, 1024),
    linear(1, 2048, 1000, "relu", by_output=True), linear(197, 768, 3072, "gelu"),
    batch_matmul(16, 256, 128, 64),
    conv(3, 32, 3, 224, 2), conv(64, 128, 3, 56, 2), conv(96, 96, 3, 40), conv(192, 192, 3, 20),
    conv(160, 160, 3, 13), conv(128, 512, 1, 28), conv(24, 144, 1, 112), conv(48, 48, 5, 30),
    conv(128, 128, 3, 28, 1, 32), depthwise(144, 3, 56), depthwise(240, 5, 28),
    depthwise(960, 3, 7),
    conv(64, 64, 3, 56, layout="NHWC"), conv(3, 64, 7, 224, 2, layout="NHWC"),
    conv(256, 64, 1, 56, layout="NHWC"), depthwise(96, 3, 112, 2, "NHWC"),
    depthwise(384, 3, 14, layout="NHWC"),
    rows_of("softmax", 16, 50257), rows_of("softmax", 512, 1000),
    rows_of("layer_norm", 2048, 768), rows_of("layer_norm", 300, 5000),
    rows_of("row_sum", 10000, 333), elementwise(1 << 20), rows_of("transpose", 1000, 3001),
    attention(16, 197, 64), int8(768), bf16(640),
    int8(512, 768, 3072), int8(1, 4096, 4096), bf16(128, 3072, 768),
)  # fmt: skip
"""The same operators in other sizes: schedules are not only judged by those they were made on."""

QUICK = (
    matmul(24), matmul(17, 23, 31), linear(1, 48, 12, "relu", by_output=True),
    linear(8, 24, 16, "gelu"), batch_matmul(2, 12, 8, 16),
    conv(3, 8, 7, 16, 2), conv(8, 8, 3, 9), conv(8, 8, 1, 8), conv(8, 16, 3, 8, 1, 4),
    depthwise(8, 3, 8, 2), depthwise(8, 3, 7),
    conv(3, 8, 3, 9, 2, layout="NHWC"), depthwise(8, 3, 7, layout="NHWC"),
    rows_of("softmax", 16, 40), rows_of("layer_norm", 16, 40), rows_of("row_sum", 16, 33),
    elementwise(1000), rows_of("transpose", 24, 17), attention(2, 16, 8),
    int8(32), bf16(32), int8(1, 40, 24),
)  # fmt: skip
"""Tiny sizes of every operator, to see that everything runs."""
