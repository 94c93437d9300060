"""JAX: each row as one jitted function; constants are closed over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers.kinds import EPSILON, channels_last
from benchmarks.peers.libraries.invented_jax import FUNCTIONS as INVENTED
from benchmarks.peers.libraries.operators_jax import FUNCTIONS
from benchmarks.peers.task import Call, Task, Unsupported


def start(threads: int) -> None:
    """XLA takes as many threads as the process has processors."""
    jax.config.update("jax_platforms", "cpu")


def version() -> str:
    return jax.__version__


def as_array(result: Any) -> np.ndarray:
    found = np.asarray(result)
    return found.astype(np.float32) if found.dtype == jnp.bfloat16 else found


def _done(results: Any) -> Any:
    """The first of several results, when all are there."""
    jax.block_until_ready(results)
    return results[0] if isinstance(results, tuple) else results


def values_of(task: Task) -> list[np.ndarray]:
    """The inputs, those of bfloat16 as such."""
    if task.kind == "bf16_matmul":
        return [a.view(jnp.bfloat16) for a in task.arrays]
    return list(task.arrays)


def function_of(task: Task) -> Callable[..., Any]:
    """The row as a function of its arrays."""
    s = task.sizes

    def linear(x: Any, w: Any, bias: Any) -> Any:
        y = x @ (w.T if s["by_output"] else w) + bias
        return jnp.maximum(y, 0) if s["activation"] == "relu" else jax.nn.gelu(y, approximate=False)

    def conv(x: Any, w: Any, bias: Any) -> Any:
        pad, last = (s["r"] // 2,) * 2, channels_last(s)
        y = jax.lax.conv_general_dilated(
            x, w, (s["stride"],) * 2, (pad, pad), feature_group_count=s["groups"],
            dimension_numbers=("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW"),
        )  # fmt: skip
        return jnp.maximum(y + (bias if last else bias[:, None, None]), 0)

    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        centred = x - x.mean(axis=1, keepdims=True)
        scale = jax.lax.rsqrt(jnp.square(centred).mean(axis=1, keepdims=True) + EPSILON)
        return centred * scale * gamma + beta

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * s["depth"] ** -0.5
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)

    if task.kind == "operator":
        if s["op"] not in FUNCTIONS:
            raise Unsupported(f"no form of {s['op']} is written for it")
        return partial(FUNCTIONS[s["op"]], s["attrs"])
    if task.kind == "invented":
        return partial(INVENTED[s["op"]], s)

    functions: dict[str, Callable[..., Any]] = {
        "matmul": jnp.matmul,
        "bf16_matmul": jnp.matmul,
        "int8_matmul": lambda a, b: jnp.matmul(
            a.astype(jnp.int32), b.astype(jnp.int32), preferred_element_type=jnp.int32
        ),
        "linear": linear,
        "batch_matmul": lambda a, b: jnp.einsum("bmk,bnk->bmn", a, b),
        "conv2d": conv,
        "softmax": lambda x: jax.nn.softmax(x, axis=1),
        "layer_norm": layer_norm,
        "row_sum": lambda x: jnp.sum(x, axis=1),
        "elementwise": lambda a, b, c, d: jnp.maximum(a * b + c, 0) * jax.nn.sigmoid(d),
        "transpose": jnp.transpose,
        "attention": attention,
    }
    return functions[task.kind]


def prepare(task: Task) -> dict[str, Call]:
    """As arguments, and with the weights closed over where there are some."""
    arrays = [jax.device_put(a) for a in values_of(task)]
    function = function_of(task)
    jitted = jax.jit(function)
    forms: dict[str, Call] = {"jit": lambda: _done(jitted(*arrays))}
    if task.constants:
        held = [name in task.constants for name in task.inputs]
        given = [a for a, h in zip(arrays, held) if not h]

        def closed(*rest: Any) -> Any:
            more = iter(rest)
            return function(*(a if h else next(more) for a, h in zip(arrays, held)))

        bound = jax.jit(closed)
        forms["jit, weights constant"] = lambda: _done(bound(*given))
    return forms
