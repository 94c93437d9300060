"""What operators refuse, and how they say so: with the operator, argument, shapes, remedy."""

from __future__ import annotations

import pytest

from tensorir import TensorIRError, ops
from tests.tensorir.refusals import check_refused, t

REFUSED = [
    (
        lambda: ops.relu(3.0),
        "relu: x is 3.0, not a tensor; use te.placeholder",
    ),
    (
        lambda: ops.gelu(t(3, dtype="int8")),
        "gelu: x Tensor(x: i8[3]) is int8 and must hold floats; convert it with ops.cast",
    ),
    (
        lambda: ops.matmul(t(2, 3), t(3, 4), activation="swoosh"),
        "matmul: activation='swoosh' is unknown; use one of 'relu', 'relu6', 'gelu', "
        "'gelu_tanh', 'silu', 'sigmoid', 'tanh', 'hardswish', 'hardsigmoid', 'softplus', "
        "'mish'",
    ),
    (
        lambda: ops.prelu(t(2, 3, 4), t(4, name="slope")),
        "prelu: slope Tensor(slope: f32[4]) must have the shape (3,)",
    ),
    (
        lambda: ops.add(t(2, 3), t(4, name="y")),
        "add: Tensor(x: f32[2, 3]) and Tensor(y: f32[4]) cannot be broadcast: dimension "
        "-1 has the sizes 3 and 4; sizes must be equal, or one of them 1",
    ),
    (
        lambda: ops.add(t("n"), t("m", name="y")),
        "add: Tensor(x: f32[n]) and Tensor(y: f32[m]) cannot be broadcast: dimension -1 "
        "has the sizes n and m; sizes must be equal, or one of them 1",
    ),
    (
        lambda: ops.add(t(2), t(2, dtype="int8", name="y")),
        "add: Tensor(x: f32[2]) and Tensor(y: i8[2]) are float32 and int8; convert one "
        "with ops.cast",
    ),
    (
        lambda: ops.add(1, 2),
        "add: none of the operands is a tensor; use te.placeholder",
    ),
    (
        lambda: ops.add(t(2, dtype="int8"), 300),
        "add: operand 300 does not fit into int8",
    ),
    (
        lambda: ops.add(t(2, dtype="int8"), 0.5),
        "add: operand 0.5 is no number of type int8",
    ),
    (
        lambda: ops.bitwise_and(t(2), t(2)),
        "bitwise_and: Tensor(x: f32[2]) is float32 and must hold integers; convert it "
        "with ops.cast",
    ),
    (
        lambda: ops.where(t(2), t(2), 0.0),
        "where: condition Tensor(x: f32[2]) is float32, not bool; compare it with ops.not_equal",
    ),
    (
        lambda: ops.where(t(2, dtype="bool"), t(2), t(2, dtype="int8")),
        "where: Tensor(x: f32[2]) and Tensor(x: i8[2]) are float32 and int8; convert one "
        "with ops.cast",
    ),
    (
        lambda: ops.clip(t(2)),
        "clip: low and high are None; give one of them",
    ),
    (
        lambda: ops.clip(t(2), 3.0, 1.0),
        "clip: low=3.0 is above high=1.0; swap them",
    ),
    (
        lambda: ops.clip(t(2, dtype="int8"), 0.5),
        "clip: operand 0.5 is no number of type int8",
    ),
    (
        lambda: ops.logical_not(t(2)),
        "logical_not: x Tensor(x: f32[2]) is float32, not bool; compare with 0",
    ),
    (
        lambda: ops.sum(t(2, 3), axis=2),
        "sum: axis=2 is no dimension of a tensor of rank 2; use an integer from -2 to 1",
    ),
    (
        lambda: ops.sum(t(2, 3), axis=(0, -2)),
        "sum: axis=(0, -2) names a dimension twice",
    ),
    (
        lambda: ops.sum(t(2, 3), axis=()),
        "sum: axis=() names no dimension; use None for all of them",
    ),
    (
        lambda: ops.sum(t(2, dtype="bool")),
        "sum: x Tensor(x: bool[2]) is bool; convert it with ops.cast, or use ops.any and ops.all",
    ),
    (
        lambda: ops.sum(t()),
        "sum: x Tensor(x: f32[]) has no dimension to reduce; use ops.reshape",
    ),
    (
        lambda: ops.max(t(2, 0), axis=1),
        "max: x Tensor(x: f32[2, 0]) is empty along axis=1; max of nothing has no value",
    ),
    (
        lambda: ops.argmax(
            t(
                0,
            )
        ),
        "argmax: x Tensor(x: f32[0]) is empty along axis=None; argmax of nothing has no value",
    ),
    (
        lambda: ops.any(t(2)),
        "any: x Tensor(x: f32[2]) is float32, not bool; compare it with ops.not_equal",
    ),
    (
        lambda: ops.mean(t(2, dtype="int32")),
        "mean: x Tensor(x: i32[2]) is int32 and must hold floats; convert it with ops.cast",
    ),
    (
        lambda: ops.var(t(2), ddof=-1),
        "var: ddof=-1 must be an integer from 0 on",
    ),
    (
        lambda: ops.var(t(2), algorithm="naive"),
        "var: algorithm='naive' is unknown; use one of 'passes', 'welford'",
    ),
    (
        lambda: ops.norm(t(2), ord=3),
        "norm: ord=3 is unknown; use one of 1, 2",
    ),
    (
        lambda: ops.matmul(t(2, 3), t(4, 5, name="b")),
        "matmul: a Tensor(x: f32[2, 3]) sums over 3 elements and b Tensor(b: f32[4, 5]) "
        "over 4; they must be equal, transpose_a= and transpose_b= exchange the last two "
        "dimensions",
    ),
    (
        lambda: ops.matmul(t(3), t(3, 4)),
        "matmul: a Tensor(x: f32[3]) has fewer than 2 dimensions; use ops.reshape",
    ),
    (
        lambda: ops.matmul(t(2, 3, dtype="int8"), t(3, 4)),
        "matmul: Tensor(x: i8[2, 3]) and Tensor(x: f32[3, 4]) are int8 and float32: "
        "numbers of one type are needed, or two of int8, uint8, int16; convert one with "
        "ops.cast",
    ),
    (
        lambda: ops.matmul(t(2, 3), t(3, 4), t(2, name="bias")),
        "matmul: bias Tensor(bias: f32[2]) must have the shape (4,)",
    ),
    (
        lambda: ops.matmul(t(2, 3, dtype="int8"), t(3, 4, dtype="int8"), t(4, name="bias")),
        "matmul: bias Tensor(bias: f32[4]) is float32 and is added to sums of type "
        "int32; convert it with ops.cast",
    ),
    (
        lambda: ops.matmul(t(2, 3, dtype="int8"), t(3, 4, dtype="int8"), activation="gelu"),
        "matmul: activation='gelu' needs floats, and the sums are int32; use 'relu', or "
        "ops.requantize first",
    ),
    (
        lambda: ops.batch_matmul(t(2, 3, 4), t(3, 4, 5)),
        "batch_matmul: a Tensor(x: f32[2, 3, 4]) and b Tensor(x: f32[3, 4, 5]) have "
        "different batches; ops.matmul broadcasts",
    ),
    (
        lambda: ops.linear(t(2, 3), t(3, 4, name="weight")),
        "linear: x Tensor(x: f32[2, 3]) has 3 features and weight Tensor(weight: f32[3, "
        "4]) of layout 'NK' takes 4; use layout='KN' or another weight",
    ),
    (
        lambda: ops.linear(t(2, 3), t(4, 3, name="weight"), layout="XY"),
        "linear: layout='XY' is unknown; use one of 'NK', 'KN'",
    ),
    (
        lambda: ops.conv2d(t(1, 3, 8, 8), t(4, 5, 3, 3, name="weight")),
        "conv2d: x Tensor(x: f32[1, 3, 8, 8]) has 3 channels, and weight Tensor(weight: "
        "f32[4, 5, 3, 3]) takes 5 in each of 1 groups; weight must be [o, c / groups, "
        "...] for x of this layout",
    ),
    (
        lambda: ops.conv2d(t(3, 8, 8), t(4, 3, 3, 3)),
        "conv2d: x Tensor(x: f32[3, 8, 8]) has 3 dimensions and needs 4; use ops.reshape",
    ),
    (
        lambda: ops.conv2d(t(1, 4, 8, 8), t(3, 2, 3, 3, name="w"), groups=2),
        "conv2d: 3 output channels cannot be divided among 2 groups",
    ),
    (
        lambda: ops.conv2d(t(1, 3, 8, 8), t(4, 3, 3, 3), padding="full"),
        "conv2d: padding='full' must be 'same', 'valid', an integer of at least 0, 2 of "
        "them, or 2 pairs (before, after)",
    ),
    (
        lambda: ops.conv2d(t(1, 3, 8, 8), t(4, 3, 3, 3), padding=(1, 2, 3)),
        "conv2d: padding=(1, 2, 3) must be 'same', 'valid', an integer of at least 0, 2 "
        "of them, or 2 pairs (before, after)",
    ),
    (
        lambda: ops.conv2d(t(1, 3, 8, 8), t(4, 3, 3, 3), stride=0),
        "conv2d: stride=0 must be an integer of at least 1, or 2 of them",
    ),
    (
        lambda: ops.conv2d(t(1, 3, 2, 8), t(4, 3, 3, 3)),
        "conv2d: a kernel that reaches over 3 elements does not fit into spatial "
        "dimension 0 of 2 with padding (0, 0); use more padding or a smaller kernel",
    ),
    (
        lambda: ops.conv2d(t(1, 3, "h", 8), t(4, 3, 3, 3)),
        "conv2d: spatial dimension 0 has the symbolic size h and must be a number; make "
        "the tensor with one",
    ),
    (
        lambda: ops.conv2d(t(1, 3, 8, 8), t(4, 3, 3, 3), layout="HWCN"),
        "conv2d: layout='HWCN' is unknown; use one of 'NCHW', 'NHWC'",
    ),
    (
        lambda: ops.conv2d(t(1, 3, 8, 8), t(4, 3, 0, 3)),
        "conv2d: the kernel (0, 3) has an empty dimension",
    ),
    (
        lambda: ops.conv2d_transpose(t(1, 3, 8, 8), t(4, 5, 3, 3, name="weight")),
        "conv2d_transpose: x Tensor(x: f32[1, 3, 8, 8]) has 3 channels, and weight "
        "Tensor(weight: f32[4, 5, 3, 3]) takes 4; weight must be [c, o / groups, ...] "
        "for x of this layout",
    ),
    (
        lambda: ops.conv2d_transpose(t(1, 3, 8, 8), t(3, 5, 3, 3), padding="same"),
        "conv2d_transpose: padding='same' must be an integer of at least 0, 2 of them, "
        "or 2 pairs (before, after)",
    ),
    (
        lambda: ops.conv2d_transpose(t(1, 3, 8, 8), t(3, 5, 3, 3), stride=2, output_padding=2),
        "conv2d_transpose: output_padding=2 must be less than the stride (2, 2)",
    ),
    (
        lambda: ops.conv2d_transpose(t(1, 3, 1, 1), t(3, 5, 1, 1), padding=3),
        "conv2d_transpose: 1 elements, a kernel of 1, stride 1 and padding (3, 3) leave "
        "no output; use less padding",
    ),
    (
        lambda: ops.max_pool2d(t(1, 3, 8, 8), kernel=2, padding=2),
        "max_pool2d: padding (2, 2) of spatial dimension 0 is not less than the 2 "
        "elements that the kernel reaches over, so a window would hold no element; use "
        "less",
    ),
    (
        lambda: ops.avg_pool2d(t(1, 3, 8, 8, dtype="int8"), kernel=2),
        "avg_pool2d: x Tensor(x: i8[1, 3, 8, 8]) is int8 and must hold floats; convert "
        "it with ops.cast",
    ),
    (
        lambda: ops.adaptive_avg_pool(t(1, 3, 8, 8), output_size=0),
        "adaptive_avg_pool: output_size=0 must be an integer of at least 1, or 2 of them",
    ),
    (
        lambda: ops.global_avg_pool(t(3, 8)),
        "global_avg_pool: x Tensor(x: f32[3, 8]) must have 3 to 5 dimensions; use ops.reshape",
    ),
    (
        lambda: ops.softmax(t(2, 3), axis=5),
        "softmax: axis=5 is no dimension of a tensor of rank 2; use an integer from -2 to 1",
    ),
    (
        lambda: ops.softmax(t(2, 3), algorithm="x"),
        "softmax: algorithm='x' is unknown; use one of 'passes', 'online'",
    ),
    (
        lambda: ops.layer_norm(t(2, 3), t(4, name="gamma")),
        "layer_norm: gamma Tensor(gamma: f32[4]) must have the shape (3,)",
    ),
    (
        lambda: ops.layer_norm(t(2, 3), t(3, dtype="float64", name="gamma")),
        "layer_norm: gamma Tensor(gamma: f64[3]) and x Tensor(x: f32[2, 3]) are computed "
        "in different types; use ops.cast",
    ),
    (
        lambda: ops.batch_norm(t(2, 3), t(2, name="mean"), t(3)),
        "batch_norm: mean Tensor(mean: f32[2]) must have the shape (3,)",
    ),
    (
        lambda: ops.group_norm(t(2, 5, 4), groups=2),
        "group_norm: 5 channels are not 2 equal groups; choose a divisor",
    ),
    (
        lambda: ops.attention(t(1, 2, 3, 4), t(1, 2, 3, 5, name="k"), t(1, 2, 3, 5)),
        "attention: q Tensor(x: f32[1, 2, 3, 4]) and k Tensor(k: f32[1, 2, 3, 5]) have 4 "
        "and 5 features; these must be equal",
    ),
    (
        lambda: ops.attention(t(1, 3, 3, 4), t(1, 2, 3, 4), t(1, 2, 3, 4)),
        "attention: 3 heads of q cannot share 2 heads of k; use a divisor of 3",
    ),
    (
        lambda: ops.attention(t(1, 2, 5, 4), t(1, 2, 3, 4), t(1, 2, 3, 4), causal=True),
        "attention: causal=True with 5 queries and 3 keys leaves the first queries without a key",
    ),
    (
        lambda: ops.attention(*[t(1, 2, 3, 4)] * 3, mask=t(4, 4, name="mask")),
        "attention: Tensor(scores: f32[1, 2, 3, 3]) and Tensor(mask: f32[4, 4]) cannot "
        "be broadcast: dimension -2 has the sizes 3 and 4; sizes must be equal, or one "
        "of them 1",
    ),
    (
        lambda: ops.attention(*[t(1, 2, 3, 4)] * 3, mask=t(3, 3, dtype="int8", name="mask")),
        "attention: mask Tensor(mask: i8[3, 3]) is int8; use bool, or float32 to add it",
    ),
    (
        lambda: ops.attention(*[t(1, 2, 3, 4)] * 3, mask=t(2, 2, 3, 3, name="mask")),
        "attention: mask Tensor(mask: f32[2, 2, 3, 3]) cannot be broadcast to "
        "Tensor(scores: f32[1, 2, 3, 3])",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[m[:40] for _, m in REFUSED])
def test_refused(call, message):
    check_refused(call, message)


@pytest.mark.parametrize("name", ops.OPERATORS)
def test_what_is_no_tensor_is_refused_by_name(name):
    op = ops.OPERATORS[name]
    wrong = ["x"] * len(op.examples[0].shapes)
    with pytest.raises(TensorIRError, match=f"^{name}: .*'x'|^{name}: none of the operands"):
        op.make(*([wrong] if op.variadic else wrong), **op.examples[0].attrs)
