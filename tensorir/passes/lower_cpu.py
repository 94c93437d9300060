"""The passes that make code for a processor: vectors, threads, and memory that caches hold."""

from __future__ import annotations

from tensorir.analysis.found_again import found_again
from tensorir.passes.conditions.first_of_equals import first_of_equals
from tensorir.passes.conditions.hoist_conditions import hoist_conditions
from tensorir.passes.conditions.implied_conditions import implied_conditions
from tensorir.passes.conditions.join_branches import join_branches
from tensorir.passes.conditions.unswitch import unswitch
from tensorir.passes.double_buffers import double_buffers
from tensorir.passes.flatten_buffers import flatten_buffers
from tensorir.passes.fold_buffers import fold_buffers
from tensorir.passes.lower_blocks import lower_blocks
from tensorir.passes.lower_init import lower_init
from tensorir.passes.lower_prefetch import lower_prefetch
from tensorir.passes.partition_loops import partition_loops
from tensorir.passes.place_buffers import place_buffers
from tensorir.passes.rewriting import Pass
from tensorir.passes.simplify import simplify
from tensorir.passes.skip_stores import skip_stores
from tensorir.passes.spread_prefetch import spread_prefetch
from tensorir.passes.unroll import unroll
from tensorir.passes.vectors.bool_bytes import bool_bytes
from tensorir.passes.vectors.carry_elements import carry_elements
from tensorir.passes.vectors.keep_sums import keep_sums
from tensorir.passes.vectors.lane_patterns import lane_patterns
from tensorir.passes.vectors.masked_tails import masked_bits
from tensorir.passes.vectors.narrow_gathers import narrow_gathers
from tensorir.passes.vectors.narrow_integers import narrow_integers
from tensorir.passes.vectors.pad_rows import pad_rows
from tensorir.passes.vectors.strided_loads import strided_loads
from tensorir.passes.vectors.transpose_tiles import transpose_tiles
from tensorir.passes.vectors.unroll_registers import unroll_registers
from tensorir.passes.vectors.vector_locals import vector_locals
from tensorir.passes.vectors.vectorize import vectorize
from tensorir.passes.vectors.wide_choices import wide_choices
from tensorir.rewrite.overwrite_states import overwrite_states
from tensorir.targets.target import LANE_BITS, Target


def cpu_passes(target: Target) -> list[tuple[str, Pass]]:
    """The passes for `target` with their names, in order."""
    from tensorir.passes.storage.reuse_outputs import reuse_outputs
    from tensorir.passes.storage.share_memory import share_memory

    bits, masked = target.vector_bits or LANE_BITS, masked_bits(target)
    return [
        ("found_again", found_again),
        ("overwrite_states", overwrite_states),
        ("first_of_equals", first_of_equals),
        ("lower_init", lower_init),
        ("lower_prefetch", lower_prefetch),
        ("spread_prefetch", spread_prefetch),
        ("lower_blocks", lower_blocks),
        ("skip_stores", skip_stores),
        ("bool_bytes", bool_bytes),
        ("place_buffers", place_buffers),
        ("reuse_outputs", lambda f: reuse_outputs(f, target.l1d_bytes // 4)),
        ("double_buffers", double_buffers),
        ("fold_buffers", fold_buffers),
        ("implied_conditions", implied_conditions),
        ("hoist_conditions", hoist_conditions),
        ("partition_loops", partition_loops),
        ("join_branches", join_branches),
        ("pad_rows", lambda f: pad_rows(f, bits, masked)),
        ("flatten_buffers", flatten_buffers),
        ("share_memory", lambda f: share_memory(f, target.l1d_bytes)),
        ("transpose_tiles", lambda f: transpose_tiles(f, bits, masked)),
        ("narrow_integers", narrow_integers),
        ("wide_choices", wide_choices),
        ("unroll_registers", unroll_registers),
        ("vectorize", lambda f: vectorize(f, bits, masked)),
        ("unroll", unroll),
        ("strided_loads", lambda f: strided_loads(f, bits)),
        ("lane_patterns", lambda f: lane_patterns(f, masked)),
        ("vector_locals", vector_locals),
        ("simplify", simplify),
        ("narrow_gathers", lambda f: narrow_gathers(f, masked)),
        ("keep_sums", keep_sums),
        ("carry_elements", carry_elements),
        ("unswitch", unswitch),
    ]
