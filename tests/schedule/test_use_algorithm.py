"""use_algorithm: what is recognised, what is not and why."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule, Trace
from tensorir import (
    interpret,
    ops,
    parse,
    reference,
    te,
)
from tensorir.ops.moments import welford

WINOGRAD = ["winograd_4x4", "winograd_4x2", "winograd_2x4", "winograd_2x2"]


def conv(n=1, c=4, o=3, h=6, w=5, padding=1, dtype="float32", **options):
    x = te.placeholder((n, c, h, w), dtype, name="x")
    weight = te.placeholder((o, c, 3, 3), dtype, name="weight")
    bias = te.placeholder((o,), dtype, name="bias")
    y = ops.conv2d(x, weight, bias, padding=padding, activation="relu", name="y", **options)
    return te.create_prim_func([x, weight, bias, y], name="layer")


def own_conv(weight_first=False, above=1, reverse=False):
    """A convolution as people write it: conditions of their own, other orders."""
    x = te.placeholder((2, 4, 5, 7), name="data")
    f = te.placeholder((3, 4, 3, 3), name="filter")

    def padded(i, q, y, z):
        inside = te.all(1 <= z, y - 1 < 5, above - 1 < y, z <= 7)
        return te.if_then_else(inside, x[i, q, y - 1, z - 1], 0.0)

    pad = te.compute((2, 4, 7, 9), padded, name="pad")
    q, ry, rx = (te.reduce_axis(size, name=name) for size, name in ((4, "q"), (3, "ry"), (3, "rx")))

    def element(i, j, y, z):
        image, tap = pad[i, q, y + ry, rx + z], f[j, q, ry, rx]
        product = tap * image if weight_first else image * tap
        return te.sum(product, axis=[rx, ry, q] if reverse else [q, ry, rx])

    out = te.compute((2, 3, 5, 7), element, name="out")
    return te.create_prim_func([x, f, out], name="own")


def close(sch, sizes=None, **inputs):
    """Interpreter and compiled C agree with the reference of the definition."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(tuple((sizes or {}).get(repr(s), s) for s in map(_number, p.shape)))
        .astype(p.dtype) for p in sch.definition.inputs
    ]  # fmt: skip
    (wanted,) = reference(sch.definition, *arrays, sizes=sizes)
    near = 2e-5 * np.abs(wanted).max(initial=1.0)
    text = str(sch.func)
    assert str(parse(text)) == text
    assert str(Schedule(sch.definition).apply(Trace.from_json(sch.trace.dumps())).func) == text
    np.testing.assert_allclose(interpret(sch.func, *arrays, sizes=sizes)[0], wanted, atol=near)
    np.testing.assert_allclose(build(sch)(*arrays), wanted, atol=near)


def _number(size):
    return int(size.value) if hasattr(size, "value") else size


def ordered_conv(image, filters, result):
    """A convolution whose tensors have their dimensions in these orders."""
    size = {"n": 2, "c": 5, "o": 3, "h": 4, "w": 6, "r": 3, "s": 3}
    whole = {**size, "h": size["h"] + 2, "w": size["w"] + 2}
    x = te.placeholder(tuple(whole[axis] for axis in image), name="x")
    weight = te.placeholder(tuple(size[axis] for axis in filters), name="weight")
    sums = {axis: te.reduce_axis(size[axis], name=axis) for axis in "crs"}

    def element(i, j, k, m):
        at = {**dict(zip(result, (i, j, k, m))), **sums}
        reach = {**at, "h": at["h"] + at["r"], "w": at["w"] + at["s"]}
        product = x[tuple(reach[a] for a in image)] * weight[tuple(at[a] for a in filters)]
        return te.sum(product, axis=tuple(sums.values()))

    out = te.compute(tuple(size[axis] for axis in result), element, "out")
    return te.create_prim_func([x, weight, out])


class TestWinograd:
    def test_golden(self, golden):
        sch = Schedule(conv(h=4, w=4))
        assert sch.use_algorithm("conv", "winograd_2x2") == "conv"
        golden(str(sch.func), "use_algorithm")
        assert sch.numerics == "algebraic"

    @pytest.mark.parametrize(("name", "padding"), list(zip(WINOGRAD, (0, 1, 2, 0))))
    def test_values(self, name, padding):
        sch = Schedule(conv(padding=padding))
        sch.use_algorithm("conv", name)
        assert "pad" not in sch.get_blocks()
        close(sch)

    @pytest.mark.parametrize(("weight_first", "reverse"), [(False, True), (True, False)])
    def test_convolutions_in_other_words(self, weight_first, reverse):
        sch = Schedule(own_conv(weight_first, reverse=reverse))
        sch.use_algorithm("out", "winograd_4x2")
        assert "pad" not in sch.get_blocks()
        close(sch)

    def test_other_conditions_are_no_padding(self):
        """One row too many is zero: that stays a stage of its own, in front of the algorithm."""
        sch = Schedule(own_conv(above=2))
        sch.use_algorithm("out", "winograd_2x2")
        assert "pad" in sch.get_blocks()
        close(sch)

    def test_padding_that_others_read_stays(self):
        x = te.placeholder((1, 4, 4, 4), name="x")
        weight = te.placeholder((2, 4, 3, 3), name="weight")
        pad = te.compute(
            (1, 4, 6, 6),
            lambda n, c, h, w: te.if_then_else(
                te.all(h >= 1, h < 5, w >= 1, w < 5), x[n, c, h - 1, w - 1], 0.0
            ),
            name="pad",
        )
        y = ops.conv2d(pad, weight, name="y")
        other = te.compute((1, 4, 6, 6), lambda *i: pad[i] * 2.0, name="other")
        sch = Schedule(te.create_prim_func([x, weight, y, other]))
        sch.use_algorithm("y", "winograd_2x2")
        assert "pad" in sch.get_blocks()
        assert "x[" in str(sch.state.block("y_strips"))

    @pytest.mark.parametrize(("name", "padding"), list(zip(WINOGRAD, (2, 0, 0, 2))))
    def test_channels_last(self, name, padding):
        x = te.placeholder((2, 5, 4, 6), name="x")
        weight = te.placeholder((3, 3, 6, 5), name="weight")
        y = ops.conv2d(x, weight, padding=padding, layout="NHWC", activation="relu", name="y")
        sch = Schedule(te.create_prim_func([x, weight, y]))
        last = sch.use_algorithm("conv", name)
        assert "pad" not in sch.get_blocks()
        assert [it.var.name for it in sch.state.block(last).iters] == ["vn", "vh", "vw", "vo"]
        close(sch)

    @pytest.mark.parametrize(
        ("image", "filters", "result"),
        [
            ("hwnc", "cors", "hnow"), ("hwnc", "srco", "onwh"), ("cnwh", "cors", "onwh"),
            ("cnwh", "srco", "hnow"), ("nchw", "cors", "hnow"), ("nchw", "srco", "onwh"),
        ],
    )  # fmt: skip
    def test_dimensions_in_any_order(self, image, filters, result):
        sch = Schedule(ordered_conv(image, filters, result))
        sch.use_algorithm("out", "winograd_4x2")
        close(sch)

    def test_two_convolutions(self):
        x = te.placeholder((1, 4, 5, 5), name="x")
        first, second = (te.placeholder((4, 4, 3, 3), name=name) for name in ("u", "v"))
        y = ops.conv2d(x, first, padding=1, activation="relu", name="y")
        z = ops.conv2d(y, second, padding=1, name="z")
        sch = Schedule(te.create_prim_func([x, first, second, z]))
        found = [b for b in sch.get_blocks() if sch.state.block(b).is_reduction]
        for block in found:
            sch.use_algorithm(block, "winograd_4x4")
        assert list(sch.func.attrs["algorithms"].values()) == ["winograd_4x4"] * 2
        close(sch)

    def test_a_copy_of_the_same_name(self):
        """cache_write calls the copy as it calls the buffer that the block writes then."""
        sch = Schedule(windows("conv2d", (1, 4, 5, 5), (2, 4, 3, 3)))
        copy = sch.cache_write("y", 0, "global")
        assert sch.use_algorithm("y", "winograd_2x2") == "y"
        assert len(set(sch.get_blocks())) == len(sch.get_blocks()) and copy in sch.get_blocks()
        close(sch)

    def test_symbolic_batch(self):
        n = te.var("n")
        sch = Schedule(conv(n=n))
        sch.use_algorithm("conv", "winograd_4x4")
        close(sch, sizes={"n": 3})

    def test_double_precision(self):
        sch = Schedule(conv(dtype="float64"))
        sch.use_algorithm("conv", "winograd_4x4")
        close(sch)

    def test_it_is_validated_step_by_step(self):
        sch = Schedule(conv(h=4, w=4, o=2), debug=True)
        sch.use_algorithm("conv", "winograd_2x2")
        sch.reverse_compute_inline("y")
        assert sch.get_blocks()[-1] == "conv"

    def test_legal_moves_offer_it(self):
        moves = Schedule(conv()).legal_moves("conv", "use_algorithm")
        assert [move.args for move in moves] == [("conv", name) for name in ["im2col", *WINOGRAD]]
        moves = Schedule(conv(stride=2)).legal_moves("conv", "use_algorithm")
        assert [move.args for move in moves] == [("conv", "im2col")]


def extreme(name="argmax", shape=(3, 11), kind="float32", axis=1):
    x = te.placeholder(shape, kind, name="x")
    return te.create_prim_func([x, getattr(ops, name)(x, axis=axis, name="y")], name=name)


class TestTwoPasses:
    @pytest.mark.parametrize("name", ["argmax", "argmin"])
    @pytest.mark.parametrize("kind", ["float32", "float64", "int8", "int64", "uint8"])
    def test_extremes_have_the_same_bits(self, name, kind):
        sch = Schedule(extreme(name, kind=kind))
        sch.use_algorithm("y", f"two_pass_{name}")
        assert sch.numerics == "bitwise"
        rng = np.random.default_rng(0)
        x = rng.integers(0, 5, (3, 11)).astype(kind)
        wanted = getattr(np, name)(x, axis=1)
        np.testing.assert_array_equal(build(sch)(x), wanted)
        np.testing.assert_array_equal(interpret(sch.func, x)[0], wanted)

    @pytest.mark.parametrize("name", ["argmax", "argmin"])
    def test_nan_and_infinity(self, name):
        nan, inf = np.nan, np.inf
        x = np.array(
            [[1, nan, 2, nan], [inf, inf, -inf, -inf], [-inf] * 4, [nan] * 4, [0, -0.0, 0, 0]],
            np.float32,
        )
        sch = Schedule(extreme(name, (5, 4)))
        sch.use_algorithm("y", f"two_pass_{name}")
        wanted = getattr(np, name)(x, axis=1)
        np.testing.assert_array_equal(build(sch)(x), wanted)
        np.testing.assert_array_equal(interpret(sch.func, x)[0], wanted)

    def test_all_elements_and_one(self):
        x = np.random.default_rng(0).random((4, 5), np.float32)
        sch = Schedule(extreme(shape=(4, 5), axis=None))
        sch.use_algorithm("y", "two_pass_argmax")
        assert build(sch)(x)[()] == x.argmax()
        sch = Schedule(extreme(shape=(4, 1)))
        sch.use_algorithm("y", "two_pass_argmax")
        np.testing.assert_array_equal(build(sch)(x[:, :1].copy()), np.zeros(4))

    def test_symbolic_rows_are_found_with_wide_indices(self):
        n = te.var("n")
        sch = Schedule(extreme(shape=(2, n)))
        sch.use_algorithm("y", "two_pass_argmax")
        assert "i32" not in str(sch.func)
        x = np.random.default_rng(0).random((2, 9), np.float32)
        np.testing.assert_array_equal(build(sch)(x), x.argmax(1))

    def test_the_other_extreme_is_none(self):
        sch = Schedule(extreme("argmin"))
        refused(sch.use_algorithm, "y", "two_pass_argmax", match="is no argmax over all of its")

    def test_selected_elements_are_none(self):
        """Where `where` leaves out all, there is no extreme to look for."""
        x = te.placeholder((3, 5), name="x")
        k = te.reduce_axis(5, name="k")
        y = te.compute((3,), lambda i: te.argmax(x[i, k], axis=k, where=x[i, k] > 0.0), name="y")
        sch = Schedule(te.create_prim_func([x, y]))
        refused(sch.use_algorithm, "y", "two_pass_argmax", match="is no argmax over all of its")

    @pytest.mark.parametrize("algorithm", ["welford", "passes"])
    def test_moments(self, algorithm):
        x = te.placeholder((3, 10), name="x")
        y = ops.layer_norm(x, algorithm=algorithm, name="y")
        sch = Schedule(te.create_prim_func([x, y]))
        if algorithm == "passes":
            refused(sch.use_algorithm, "spread", "two_pass_moments", match="reduces no triples")
            return
        sch.use_algorithm("moments", "two_pass_moments")
        assert sch.numerics == "algebraic" and "moments_0" not in str(sch.func)
        close(sch)

    def test_normalizer(self):
        x = te.placeholder((3, 10), name="x")
        sch = Schedule(te.create_prim_func([x, ops.softmax(x, algorithm="online", name="y")]))
        sch.use_algorithm("normalizer", "two_pass_normalizer")
        assert sch.numerics == "algebraic"
        close(sch)

    def test_counts_that_are_used(self):
        x = te.placeholder((3, 10), name="x")
        k = te.reduce_axis(10, name="k")

        def triple(i):
            return welford((te.const(1, "float32"), x[i, k], te.const(0, "float32")), axis=k)

        outputs = te.compute((3,), triple, name="m")
        sch = Schedule(te.create_prim_func([x, *outputs]))
        refused(sch.use_algorithm, "m", "two_pass_moments", match="counts of block 'm' are used")


def windows(op, shape, filters, **options):
    x = te.placeholder(shape, name="x")
    w = te.placeholder(filters, name="w")
    return te.create_prim_func([x, w, getattr(ops, op)(x, w, name="y", **options)], name=op)


class TestIm2col:
    @pytest.mark.parametrize(
        "func",
        [
            windows("conv1d", (2, 3, 9), (4, 3, 3), stride=2),
            windows("conv2d", (2, 3, 5, 7), (4, 3, 3, 2), padding=1, dilation=2),
            windows("conv2d", (1, 1, 5, 5), (1, 1, 3, 3)),
            windows("conv3d", (1, 2, 4, 3, 5), (3, 2, 2, 1, 3)),
        ],
        ids=["1d", "2d", "one channel", "3d"],
    )
    def test_values(self, func):
        sch = Schedule(func)
        sch.use_algorithm("y", "im2col")
        assert sch.get_blocks()[-4:] == ["y_columns", "y_weights", "y_product", "y"]
        assert len(sch.state.block("y_product").iters) == 4
        close(sch)

    def test_symbolic_batch(self):
        n = te.var("n")
        sch = Schedule(windows("conv2d", (n, 2, 5, 5), (3, 2, 3, 3)))
        sch.use_algorithm("y", "im2col")
        close(sch, sizes={"n": 2})

    @pytest.mark.parametrize(
        "func",
        [
            windows("conv2d", (1, 4, 5, 5), (4, 2, 3, 3), groups=2),
            windows("depthwise_conv2d", (1, 4, 5, 5), (4, 1, 3, 3)),
            windows("conv2d", (1, 5, 5, 4), (3, 3, 4, 2), layout="NHWC"),
        ],
        ids=["groups", "depthwise", "NHWC"],
    )
    def test_other_convolutions(self, func):
        sch = Schedule(func)
        refused(sch.use_algorithm, "y", "im2col", match="is no convolution whose channels")

    def test_a_product_is_one_already(self):
        func = windows("conv2d", (1, 4, 5, 5), (3, 4, 1, 1))
        sch = Schedule(func)
        sch.use_algorithm("y", "im2col")  # taps of extent 1 are axes like others
        close(sch)


CONVOLUTION = """    for n, o, h, w, c, r, s in grid(1, 2, 3, 3, 4, 3, 3):
        with block("y"):
            vn = spatial(1, n)
            vo = spatial(2, o)
            vh = spatial(3, h)
            vw = spatial(3, w)
            vc = reduce(4, c)
            vr = reduce(3, r)
            vs = reduce(3, s)
            with init():
                y[vn, vo, vh, vw] = 0.0
            y[vn, vo, vh, vw] = y[vn, vo, vh, vw] + IMAGE[vn, vc, vh + vr, vw + vs] * weight[vo, vc, vr, vs]
"""  # noqa: E501


def stage(name, source, shape, value):
    """A block that computes `name` element by element from `source`."""
    loops = [f"{axis}_{name}" for axis in "ijkl"]
    at = ", ".join(f"v{axis}" for axis in "ijkl")
    lines = [f"    for {', '.join(loops)} in grid{shape}:", f'        with block("{name}"):']
    lines += [
        f"            v{axis} = spatial({size}, {loop})"
        for axis, size, loop in zip("ijkl", shape, loops)
    ]
    target = "z" if name == "late" else "y" if name == "again" else name
    lines.append(f"            {target}[{at}] = " + value.replace("AT", at).replace("IN", source))
    return "\n".join(lines) + "\n"


TWICE = (
    """@prim_func
def twice(x: f32[1, 4, 5, 5], weight: f32[2, 4, 3, 3], out: f32[1, 2, 3, 3]):
    y = alloc(f32[1, 2, 3, 3])
"""
    + CONVOLUTION.replace("IMAGE", "x")
    + stage("again", "y", (1, 2, 3, 3), "IN[AT] * 2.0")
    + stage("out", "y", (1, 2, 3, 3), "IN[AT]")
)

INSIDE = "select(1 <= vk and vk < 4 and 1 <= vl and vl < 4, IN[vi, vj, vk - 1, vl - 1], 0.0)"

CHANGED = (
    """@prim_func
def changed(x: f32[1, 4, 3, 3], weight: f32[2, 4, 3, 3], y: f32[1, 2, 3, 3]):
    z = alloc(f32[1, 4, 3, 3])
    pad = alloc(f32[1, 4, 5, 5])
"""
    + stage("z", "x", (1, 4, 3, 3), "IN[AT]")
    + stage("pad", "z", (1, 4, 5, 5), INSIDE)
    + stage("late", "z", (1, 4, 3, 3), "IN[AT] * 2.0")
    + CONVOLUTION.replace("IMAGE", "pad")
)


class TestRefusals:
    @pytest.mark.parametrize(
        "options, match",
        [
            ({"stride": 2}, "needs two window axes of unit stride"),
            ({"dilation": 2, "h": 9, "w": 9}, "needs two window axes of unit stride"),
            ({"c": 3}, "sums over fewer than 4 terms beside its windows"),
            ({"dtype": "float16"}, "is no sum of products of two tensors"),
        ],
    )
    def test_other_convolutions(self, options, match):
        refused(Schedule(conv(**options)).use_algorithm, "conv", "winograd_4x4", match=match)

    def test_no_convolution(self, matmul):
        sch = Schedule(matmul())
        refused(sch.use_algorithm, "C", "winograd_4x4", match="needs two .* it has none")
        refused(Schedule(conv()).use_algorithm, "y", "winograd_4x4", match="is no sum of products")

    def test_mixed_types(self):
        x = te.placeholder((1, 4, 5, 5), "int32", name="x")
        weight = te.placeholder((2, 4, 3, 3), "int32", name="weight")
        sch = Schedule(te.create_prim_func([x, weight, ops.conv2d(x, weight, name="y")]))
        refused(sch.use_algorithm, "y", "winograd_4x4", match="'y' has int32; all must be float32")

    def test_stored_in_half_precision(self):
        sch = Schedule(conv(dtype="float16"))
        refused(sch.use_algorithm, "conv", "winograd_4x4", match="is no sum of products")

    def test_unknown_algorithm(self):
        refused(
            Schedule(conv()).use_algorithm, "conv", "strassen",
            match="'strassen' is not known; known are two_pass_argmax",
        )  # fmt: skip

    def test_scheduled_loops(self):
        sch = Schedule(conv())
        sch.parallel(sch.get_loops("conv")[1])
        refused(sch.use_algorithm, "conv", "winograd_4x4", match="is parallel")
        sch = Schedule(conv())
        sch.parallel(sch.get_loops("pad")[1])
        refused(sch.use_algorithm, "conv", "winograd_4x4", match="is parallel")
        sch = Schedule(conv())
        sch.split(sch.get_loops("conv")[2], [None, 4])
        refused(sch.use_algorithm, "conv", "winograd_4x4", match="has a condition")
        sch = Schedule(conv())
        sch.compute_at("pad", sch.get_loops("conv")[0])
        refused(sch.use_algorithm, "conv", "winograd_4x4", match="is not alone in its nest")

    def test_a_part(self):
        sch = Schedule(conv(n=2))
        sch.partition(sch.get_loops("conv")[0], [1, None])
        refused(sch.use_algorithm, "conv", "winograd_4x4", match="is also written")
        x, weight = te.placeholder((2, 4, 6, 5), name="x"), te.placeholder((3, 4, 3, 3), name="w")
        y = ops.conv2d(x, weight, name="y")
        last = te.compute((1, *y.shape[1:]), lambda n, *at: y[(n + 1, *at)], name="last")
        sch = Schedule(te.create_prim_func([x, weight, last]))
        loop = sch.get_loops("last")[0]
        sch.compute_at("y", loop)
        sch.fission(loop)
        refused(sch.use_algorithm, "y", "winograd_4x4", match="computes only the part")

    def test_a_buffer_of_two_blocks(self):
        refused(
            Schedule(parse(TWICE)).use_algorithm, "y", "winograd_2x2",
            match="'y' is also written by block 'again'",
        )  # fmt: skip

    def test_an_input_that_changes(self):
        refused(
            Schedule(parse(CHANGED)).use_algorithm, "y", "winograd_2x2",
            match="block 'late' writes 'z' in between",
        )  # fmt: skip
