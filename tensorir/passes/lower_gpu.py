"""The passes that make the code of one thread of a GPU.

What comes out, for all GPU languages: the function's body is a tree of Seq, Alloc (workspaces in
global memory), If (on sizes) and kernels. A kernel is a nest of loops over its axes, and in it the
code of one thread, in which threads wait at Sync and Exchange.

So every pass is tested on what programs mean, without an emitter: the interpreter runs what each of
them makes, thread by thread.
"""

from __future__ import annotations

from tensorir.analysis.found_again import found_again
from tensorir.passes.double_buffers import double_buffers
from tensorir.passes.flatten_buffers import flatten_buffers
from tensorir.passes.fold_buffers import fold_buffers
from tensorir.passes.gpu.barriers import barriers
from tensorir.passes.gpu.bind_free import bind_free
from tensorir.passes.gpu.compact_registers import compact_registers
from tensorir.passes.gpu.edges import edges
from tensorir.passes.gpu.exchanges_in_memory import exchanges_in_memory
from tensorir.passes.gpu.hold_reads import hold_reads
from tensorir.passes.gpu.kernels import kernels
from tensorir.passes.gpu.merge_shared import merge_shared
from tensorir.passes.gpu.narrow_indices import narrow_indices
from tensorir.passes.gpu.peel_pipelines import peel_pipelines
from tensorir.passes.gpu.spmd import spmd
from tensorir.passes.gpu.thread_reductions import thread_reductions
from tensorir.passes.gpu.vector_accesses import vector_accesses
from tensorir.passes.gpu.written_out import written_out
from tensorir.passes.lower_blocks import lower_blocks
from tensorir.passes.lower_init import lower_init
from tensorir.passes.place_buffers import place_buffers
from tensorir.passes.rewriting import Pass
from tensorir.passes.simplify import simplify
from tensorir.passes.skip_stores import skip_stores
from tensorir.passes.vectors.bool_bytes import bool_bytes
from tensorir.rewrite.overwrite_states import overwrite_states
from tensorir.targets.target import Target


def gpu_passes(target: Target) -> list[tuple[str, Pass]]:
    """The passes for `target` with their names, in order."""
    return [
        ("found_again", found_again),
        ("overwrite_states", overwrite_states),
        ("kernels", kernels),
        ("thread_reductions", thread_reductions),
        ("lower_init", lower_init),
        ("lower_blocks", lower_blocks),
        ("bool_bytes", bool_bytes),
        ("bind_free", bind_free),
        ("skip_stores", skip_stores),
        ("spmd", spmd),
        *([] if target.has_shuffles else [("exchanges_in_memory", exchanges_in_memory)]),
        ("place_buffers", place_buffers),
        ("edges", edges),
        ("compact_registers", compact_registers),
        ("double_buffers", double_buffers),
        ("fold_buffers", fold_buffers),
        ("peel_pipelines", peel_pipelines),
        ("flatten_buffers", flatten_buffers),
        ("vector_accesses", vector_accesses),
        ("hold_reads", hold_reads),
        ("merge_shared", merge_shared),
        ("barriers", barriers),
        ("simplify", simplify),
        ("narrow_indices", narrow_indices),
        ("written_out", written_out),
    ]
