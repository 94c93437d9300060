"""Extern functions in OpenCL C: where their text allows it they run, else they are named."""

from __future__ import annotations

import numpy as np
import pytest

from backends import BuildError, build, register_extern, source_text
from backends.opencl.device import why_no_device
from backends.opencl.externs import opencl_extern, qualified
from tensorir import EXTERNS, ExternFunc, TensorIRError, ops, parse, te

with_device = pytest.mark.skipif(why_no_device() is not None, reason=why_no_device() or "")

FLIP = """\
typedef struct { int by; } ${NAME}_step_t;
static const i64 ${NAME}_by[2] = {1, 1};
static inline int ${NAME}_step(const $T0 *unused) { (void)unused; return (int)${NAME}_by[1]; }
void $NAME(const $T0 *x, $T1 *y, i64 n) {
    ${NAME}_step_t step;
    step.by = ${NAME}_step(x);
    const $T0 *from = x;
    for (i64 i = 0; i < n; i += step.by)
        STATEMENT
}"""

RIGHT = "y[i] = $PUT1(_Generic(($V0)0, float: 2, default: 0) * $GET0(from[n - 1 - i]));"


def flip(statement=RIGHT, dtype="float16"):
    return ExternFunc(
        name="test.flip",
        signature="(n)->(n)",
        dtypes=[(dtype, dtype)],
        c=FLIP.replace("STATEMENT", statement),
        numpy=lambda x: 2 * x[::-1],
    )


def program(n=5, dtype="float16"):
    a = te.placeholder((3, n), dtype, name="A")
    b = te.compute((3, n), lambda i, j: a[i, j] + a[i, j], name="B")
    return te.create_prim_func([a, te.extern((3, n), b, "test.flip", name="S")], name="flip")


@with_device
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("n", [1, 5])
def test_it_runs(extern_cleanup, n, dtype):
    extern_cleanup()
    register_extern(flip(dtype=dtype))
    x = np.arange(3 * n, dtype=dtype).reshape(3, n)
    kernel = build(program(n, dtype), "opencl")
    np.testing.assert_array_equal(kernel(x), 4 * x[:, ::-1])
    assert "_by[2] = {1, 1};" in kernel.source and "__constant const i64" in kernel.source


@with_device
def test_each_memory_has_a_function(extern_cleanup):
    """A row in a thread's own memory is another argument than one in global memory."""
    extern_cleanup(flip(dtype="float32"))
    func = parse("""
        @prim_func
        def twice(A: f32[3, 5], T: f32[3, 5]):
            B = alloc(f32[3, 5], scope="local")
            S = alloc(f32[3, 5])
            for i in range(3):
                for j in range(5):
                    with block("B"):
                        vi = spatial(3, i)
                        vj = spatial(5, j)
                        B[vi, vj] = A[vi, vj] + 1.0
                with block("S"):
                    vi = spatial(3, i)
                    extern("test.flip", [part(S[vi, 0], 5)], [part(B[vi, 0], 5)])
            for i in range(3):
                with block("T"):
                    vi = spatial(3, i)
                    extern("test.flip", [part(T[vi, 0], 5)], [part(S[vi, 0], 5)])
    """)
    kernel = build(func, "opencl")
    assert "const __private float *x, __global float *y" in kernel.source
    assert "const __global float *x, __global float *y" in kernel.source
    x = np.arange(15, dtype="float32").reshape(3, 5)
    np.testing.assert_array_equal(kernel(x), 4 * (x + 1))


@with_device
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("y[i] = from[i];", r"code for GPUs makes element \[\d\] of output 0"),
        ("{ i64 *p = from; y[i] = (f16)*p; }", "code for GPUs of extern function 'test.flip' can"),
    ],
)
def test_what_does_not_do_or_compile_is_named(extern_cleanup, statement, message):
    extern_cleanup(flip(statement))
    for _ in range(2):
        with pytest.raises(TensorIRError, match=message) as error:
            build(program(), "opencl")
        assert "extern function 'test.flip'" in str(error.value)
    EXTERNS.pop("test.flip")
    with pytest.raises(TensorIRError):
        register_extern(flip(statement), "opencl")
    assert "test.flip" not in EXTERNS


@pytest.mark.parametrize("name", ["sort", "argsort", "topk"])
def test_a_function_that_calls_itself_is_refused_by_name(name):
    wanted = f"cannot run the extern function '{name}': its C has a function that calls itself"
    with pytest.raises(BuildError, match=wanted):
        source_text(ops.prim_func(name, 1), "opencl")


def test_what_a_device_lacks_is_named(extern_cleanup):
    extern_cleanup(flip("{ void *p = malloc(8); y[i] = from[i]; }"))
    with pytest.raises(BuildError, match="'opencl' cannot run .* 'test.flip': its C uses 'malloc'"):
        source_text(program(), "opencl")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "void $NAME(const $T0 *x, ${T1} *y, i64 n) { $T0 a = x[0]; }",
            "void $NAME(const __global $T0 *x, __private ${T1} *y, i64 n) { $T0 a = x[0]; }",
        ),
        (
            "void ${NAME}(const float *x,\n  i64 *at, i64 n)\n{}",
            "void ${NAME}(__global const float *x, __private i64 *at, i64 n)\n{}",
        ),
        (
            "int ${NAME}_f($T1 * y);\nvoid $NAME($T0*x, $T1* y) { $NAME_2(x); ($T9 *)x; }",
            "int ${NAME}_f(__private $T1 * y);\n"
            "void $NAME(__global $T0*x, __private $T1* y) { $NAME_2(x); ($T9 *)x; }",
        ),
    ],
)
def test_pointers_say_their_memory(text, wanted):
    assert qualified(text, ["__global", "__private"]) == wanted


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("int f(int a) { return a; }\nint g(int a) { return f(a); }", None),
        ("int f(int a) { return a ? f(a - 1) : 0; }", "f"),
        ("int g(int a);\nint f(int a) { return g(a); }\nint g(int a) { return f(a); }", "f"),
        ("int f(int a) { /* f again */ return a; }", None),
    ],
)
def test_functions_that_call_themselves(text, calls):
    if calls is None:
        assert "static int f(int a) {" in opencl_extern("e", text)
        return
    with pytest.raises(BuildError, match=rf"'e': .* calls itself \({calls}\)"):
        opencl_extern("e", text)
