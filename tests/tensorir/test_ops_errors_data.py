"""What operators refuse that move, choose, convert or draw elements."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import ops
from tests.tensorir.refusals import check_refused, t

REFUSED = [
    (
        lambda: ops.transpose(t(2, 3), axes=(0, 0)),
        "transpose: axes=(0, 0) must name each of the 2 dimensions of x once",
    ),
    (
        lambda: ops.reshape(t(2, 3), (4, 2)),
        "reshape: Tensor(x: f32[2, 3]) and shape=(4, 2) do not hold the same number of "
        "elements; use -1 for one of the sizes",
    ),
    (
        lambda: ops.reshape(t(2, 3), (-1, 4)),
        "reshape: no size in place of -1 makes shape=(-1, 4) hold the elements of the "
        "shape (2, 3); give a shape whose other sizes divide them",
    ),
    (
        lambda: ops.reshape(t(2, 3), (-1, -1)),
        "reshape: shape=(-1, -1) has more than one -1; give all sizes but one",
    ),
    (
        lambda: ops.reshape(t("n", "m"), -1),
        "reshape: Tensor(x: f32[n, m]) to (m * n,) divides indices by the symbolic size "
        "m, and what is read cannot be proved to lie inside; of merged dimensions only "
        "the first may be one",
    ),
    (
        lambda: ops.squeeze(t(2, 1), axis=0),
        "squeeze: axis=0 of x Tensor(x: f32[2, 1]) is not of size 1",
    ),
    (
        lambda: ops.broadcast_to(t(2, 3), (3,)),
        "broadcast_to: Tensor(x: f32[2, 3]) cannot be broadcast to (3,), which would "
        "make it smaller",
    ),
    (
        lambda: ops.tile(t(2, 3), (-1,)),
        "tile: reps=(-1,) must be integers of at least 0",
    ),
    (
        lambda: ops.repeat(t(2, 3), -1, 0),
        "repeat: repeats=-1 must be an integer of at least 0",
    ),
    (
        lambda: ops.roll(t("n"), 1, 0),
        "roll: dimension 0 of x has the symbolic size n and must be a number; make the "
        "tensor with one",
    ),
    (
        lambda: ops.pad(t(2, 3), (1, 2, 3)),
        "pad: padding=(1, 2, 3) must be an integer of at least 0, 2 of them, or 2 pairs "
        "(before, after)",
    ),
    (
        lambda: ops.pad(t(2, 3), 1, mode="wrap"),
        "pad: mode='wrap' is unknown; use one of 'constant', 'reflect', 'edge'",
    ),
    (
        lambda: ops.pad(t(2, 3), 2, mode="reflect"),
        "pad: padding (2, 2) of dimension 0 reflects more than the 1 elements beyond its "
        "edge; use less, or mode='edge'",
    ),
    (
        lambda: ops.pad(t(2, 3, dtype="int8"), 1, value=0.5),
        "pad: operand 0.5 is no number of type int8",
    ),
    (
        lambda: ops.concat([t(2, 3), t(2, 4)]),
        "concat: Tensor(x: f32[2, 3]) and tensor 1, Tensor(x: f32[2, 4]), differ in "
        "dimension 1, and only 0 may",
    ),
    (
        lambda: ops.concat([]),
        "concat: [] is no sequence of tensors; give [a, b, ...]",
    ),
    (
        lambda: ops.concat(t(2, 3)),
        "concat: Tensor(x: f32[2, 3]) is no sequence of tensors; give [a, b, ...]",
    ),
    (
        lambda: ops.concat([t(2), t(2, dtype="int8")]),
        "concat: tensors 0 and 1 are float32 and int8; convert one with ops.cast",
    ),
    (
        lambda: ops.stack([t(2), t(3)]),
        "stack: tensor 1 Tensor(x: f32[3]) must have the shape (2,)",
    ),
    (
        lambda: ops.split(t(7), 2),
        "split: 7 elements are not 2 equal parts; give the borders, as in (3,)",
    ),
    (
        lambda: ops.split(t(0), 2**70),
        f"split: parts={2**70} are more than 1024",
    ),
    (
        lambda: ops.split(t(7), (5, 3)),
        "split: borders (5, 3) must not decrease, and lie from 0 to 7",
    ),
    (
        lambda: ops.slice(t("n"), (0,), (3,)),
        "slice: dimension 0 of x has the symbolic size n and must be a number; make the "
        "tensor with one",
    ),
    (
        lambda: ops.slice(t(4), (0,), (3,), (0,)),
        "slice: strides=(0,) has a 0; use 1",
    ),
    (
        lambda: ops.slice(t(4), (0, 0), (3,)),
        "slice: begin=(0, 0), end=(3,), strides=None and axes=None differ in length",
    ),
    (
        lambda: ops.take(t(4), t(2)),
        "take: indices Tensor(x: f32[2]) are float32, and not integers",
    ),
    (
        lambda: ops.take(t(0), t(2, dtype="int64")),
        "take: dimension 0 of x Tensor(x: f32[0]) is empty; there is nothing to take",
    ),
    (
        lambda: ops.take(t(3), t(2, dtype="int64"), mode="raise"),
        "take: mode='raise' is unknown; use one of 'clip', 'wrap'",
    ),
    (
        lambda: ops.gather(t(4, 3), t(3, 3, dtype="int64", name="i")),
        "gather: x Tensor(x: f32[4, 3]) and indices Tensor(i: i64[3, 3]) differ in more "
        "than dimension 1",
    ),
    (
        lambda: ops.one_hot(t(3), 4),
        "one_hot: indices Tensor(x: f32[3]) are float32, and not integers",
    ),
    (
        lambda: ops.one_hot(t(3, dtype="int64"), -1),
        "dimension 0 of one_hot has the negative extent -1",
    ),
    (
        lambda: ops.resize2d(t(1, 1, 3, 3), (0, 2)),
        "resize2d: size=(0, 2) must be an integer of at least 1, or 2 of them",
    ),
    (
        lambda: ops.resize2d(t(1, 1, 3, 3), 2, method="cubic"),
        "resize2d: method='cubic' is unknown; use one of 'nearest', 'linear'",
    ),
    (
        lambda: ops.quantize(t(3), 0.0),
        "quantize: scale=0.0 must be positive, or a float32 tensor with one scale per channel",
    ),
    (
        lambda: ops.quantize(t(3), 1.0, zero_point=200),
        "quantize: zero_point=200 must be an integer from -128 to 127, as int8 holds",
    ),
    (
        lambda: ops.quantize(t(3), 1.0, dtype="int4"),
        "unknown dtype 'int4'; known are bool, int8, int16, int32, int64, uint8, uint16, "
        "uint32, uint64, float16, bfloat16, float32, float64",
    ),
    (
        lambda: ops.quantize(t(3), 1.0, dtype="int32"),
        "quantize: dtype='int32' is unknown; use int8, uint8, int16 or uint16",
    ),
    (
        lambda: ops.requantize(t(3), 1.0),
        "requantize: x Tensor(x: f32[3]) is float32 and must be int32",
    ),
    (
        lambda: ops.quantize(t(3, 2), t(3, name="scale")),
        "quantize: scale Tensor(scale: f32[3]) must have the shape (2,)",
    ),
    (
        lambda: ops.cumsum(t(3, dtype="bool")),
        "cumsum: x Tensor(x: bool[3]) is bool; convert it with ops.cast",
    ),
    (
        lambda: ops.topk(t(3), 4),
        "topk: k=4 must be an integer from 0 to 3, the size of dimension 0",
    ),
    (
        lambda: ops.einsum([t(2, 3), t(3, 4)], "ij, jk"),
        "einsum: equation 'ij, jk' must be letters, as in 'ij,jk->ik', with each letter "
        "of the output once, and in an input",
    ),
    (
        lambda: ops.einsum([t(2, 3)], "ij, jk->ik"),
        "einsum: equation 'ij, jk->ik' has 2 inputs and 1 tensors are given",
    ),
    (
        lambda: ops.einsum([t(2, 3), t(3)], "ij, jk->ik"),
        "einsum: tensor 1, Tensor(x: f32[3]), is 'jk' in 'ij, jk->ik': 2 dimensions",
    ),
    (
        lambda: ops.einsum([t(2, 3), t(4, 5, name="y")], "ij, jk->ik"),
        "einsum: 'j' of 'ij, jk->ik' is 3, and 4 in tensor 1, Tensor(y: f32[4, 5])",
    ),
    (
        lambda: ops.einsum([], "->"),
        "einsum: [] is no sequence of tensors; give [a, b, ...]",
    ),
    (
        lambda: ops.depth_to_space(t(1, 6, 2, 2), 2),
        "depth_to_space: 6 channels cannot fill blocks of 2 x 2; x Tensor(x: f32[1, 6, "
        "2, 2]) needs a multiple of 4",
    ),
    (
        lambda: ops.space_to_depth(t(1, 6, 3, 2), 2),
        "space_to_depth: 3 rows and 2 columns are not whole blocks of 2 x 2; use ops.pad first",
    ),
    (
        lambda: ops.tril(t(3)),
        "tril: x Tensor(x: f32[3]) has fewer than 2 dimensions; use ops.reshape",
    ),
    (
        lambda: ops.cast(t(3), "int4"),
        "unknown dtype 'int4'; known are bool, int8, int16, int32, int64, uint8, uint16, "
        "uint32, uint64, float16, bfloat16, float32, float64",
    ),
    (
        lambda: ops.random_uniform(t(1), (3,)),
        "random_uniform: seed Tensor(x: f32[1]) must be one uint64, of shape () or (1,)",
    ),
    (
        lambda: ops.random_normal(t(2, dtype="uint64"), (3,)),
        "random_normal: seed Tensor(x: u64[2]) must be one uint64, of shape () or (1,)",
    ),
    (
        lambda: ops.random_uniform(1, (3,), dtype="float16"),
        "random_uniform: dtype='float16' is unknown; use one of 'float32', 'float64'",
    ),
    (
        lambda: ops.random_normal(1, (3,), stream=2**64),
        f"random_normal: stream={2**64} is no integer from 0 to 2**64 - 1",
    ),
    (
        lambda: ops.random_uniform(1, (3,), offset=-1),
        "random_uniform: offset=-1 is no integer from 0 to 2**62 - 1",
    ),
    (
        lambda: ops.random_integers(1, (3,), 5, 5),
        "random_integers: there are 1 to 2**32 integers, not 0",
    ),
    (
        lambda: ops.random_integers(1, (3,), np.int64(5), 2**70),
        f"random_integers: there are 1 to 2**32 integers, not {2**70 - 5}",
    ),
    (
        lambda: ops.random_integers(1, (3,), 0.5, 5),
        "random_integers: low is 0.5, where an integer belongs",
    ),
    (
        lambda: ops.random_integers(1, (3,), 0, 129, dtype="int8"),
        "random_integers: 0 to 128 do not fit into int8",
    ),
    (
        lambda: ops.random_integers(1, (3,), 0, 1, dtype="float32"),
        "random_integers: dtype='float32' is no type of integers",
    ),
    (
        lambda: ops.dropout(t(3), 1, p=1.5),
        "dropout: p=1.5 is no probability, a number from 0 to 1",
    ),
    (
        lambda: ops.dropout(t(3, dtype="int8"), 1),
        "dropout: x Tensor(x: i8[3]) is int8 and must hold floats; convert it with ops.cast",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[m[:40] for _, m in REFUSED])
def test_refused(call, message):
    check_refused(call, message)
