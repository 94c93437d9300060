"""The language: tensor expressions, the IR, its printer and parser, arithmetic and lowering."""

# mypy: implicit-reexport
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tensorir.lazy import lazy_names as lazy_names

if TYPE_CHECKING:
    from tensorir import dtype, te
    from tensorir.algorithms.algorithm import Algorithm, Alternative
    from tensorir.algorithms.apply import APPLIED_ALGORITHMS, apply_algorithm
    from tensorir.algorithms.check import check_algorithm, register_algorithm
    from tensorir.algorithms.registry import ALGORITHMS, find_algorithm, known_algorithms
    from tensorir.analysis.block_accesses import (
        Access,
        accesses,
        blocks_below,
        body_loads,
        feeds,
        innermost,
        read,
        reduces,
        written,
    )
    from tensorir.analysis.combiner import ASSOCIATIVE, Combiner, combiner_of, neutral
    from tensorir.analysis.dependence import (
        belongs_to,
        carries,
        conflict,
        disjoint,
        outliving,
        piped,
        recurrent,
        same_slice,
    )
    from tensorir.analysis.found_again import FOUND_AGAIN
    from tensorir.analysis.independence import analyzer_of
    from tensorir.analysis.padded import is_neutral
    from tensorir.analysis.repeatable import float_comparisons, is_repeatable
    from tensorir.annotations import Fits, admitted, alternatives, annotation_text, checked
    from tensorir.arith import (
        Analyzer,
        Digit,
        Interval,
        connected,
        decompose,
        determines,
        few_values,
        intersect_with,
        inverse_of,
        is_dense,
        relax,
        union,
    )
    from tensorir.arith.regions.boxes import Box, with_box
    from tensorir.arith.slope import Together, moved_together, period, slope
    from tensorir.arrays import decode, refuse_masked
    from tensorir.buffer import SCOPES, Buffer
    from tensorir.errors import AllocationError, ParseError, RangeError, TensorIRError, VerifyError
    from tensorir.expr import (
        FALSE,
        TRUE,
        BinOp,
        Call,
        Cast,
        Const,
        Expr,
        ExprLike,
        Load,
        Not,
        Select,
        Var,
        all_of,
        any_of,
        binary,
        cast,
        conjuncts,
        const,
        convert,
        int_value,
        maximum,
        minimum,
        select,
    )
    from tensorir.externs.built_in import BUILT_IN_EXTERNS, EXTERNS
    from tensorir.externs.extern import ExternFunc, add_extern, find_extern
    from tensorir.func import DECLARED, PrimFunc
    from tensorir.interpreter.interpret import interpret, interpret_source
    from tensorir.numbers.intrin import MATH, REINTERPRET, no_such_function
    from tensorir.numbers.numerics import (
        DEFAULT_NUMERICS,
        NUMERICS,
        allows,
        check_numerics,
        weakest,
    )
    from tensorir.numbers.philox import PHILOX_MULTIPLIERS, PHILOX_ROUNDS, PHILOX_STEPS
    from tensorir.parts import buffers_in, part_axes, replace_buffers, touched
    from tensorir.passes.facts.intervals import Intervals
    from tensorir.passes.facts.lifetimes import keeps_to_itself
    from tensorir.passes.facts.registers import (
        ADDRESSES,
        ample_registers,
        sum_bytes,
        thread_registers,
    )
    from tensorir.passes.gpu.axes import kernel_roots, nest_of, threads_of
    from tensorir.passes.gpu.written_out import WRITTEN_OUT, calls_written
    from tensorir.passes.lower import lower
    from tensorir.passes.lower_prefetch import is_made_in, prefetch_region
    from tensorir.passes.partition_loops import copies_of_body
    from tensorir.passes.specialize import specialize
    from tensorir.passes.split_constants import SplitFunc, check_constants, split_constants
    from tensorir.passes.spread_prefetch import part_of, requests
    from tensorir.passes.swizzle import LARGEST_RUN
    from tensorir.passes.vectors.masked_tails import mask_count, masked_bits, masked_load
    from tensorir.program_key import program_key
    from tensorir.reference import reference, reference_with_tolerance
    from tensorir.rewrite.rectangular import largest_value, rectangular
    from tensorir.rewrite.reduction import split_init
    from tensorir.rewrite.rename import with_unique_names
    from tensorir.rewrite.terms import in_own_variables
    from tensorir.scalars import (
        SCALAR_LIMITS,
        Number,
        Numbers,
        Scalar,
        SizeRanges,
        check_limits,
        depends_on_data,
        held_word,
        number_of,
        word_of,
    )
    from tensorir.stmt import (
        Alloc,
        Block,
        Exchange,
        Extern,
        For,
        ForKind,
        If,
        IterKind,
        IterVar,
        Let,
        Part,
        Prefetch,
        Seq,
        Stmt,
        Store,
        Sync,
        replace,
        seq,
    )
    from tensorir.structural import structural_equal, structural_hash, structure_key, workload_key
    from tensorir.targets.architectures import (
        ARCHITECTURES,
        DEFAULT_ARCH,
        Architecture,
        architecture_of,
        find_architecture,
    )
    from tensorir.targets.costs import Costs, usual_costs
    from tensorir.targets.cpu import Cpu
    from tensorir.targets.device import Device, device_of
    from tensorir.targets.gpu import Gpu
    from tensorir.targets.target import CHECKS, Processor, Target
    from tensorir.targets.thread_axes import (
        AXES,
        BLOCK_AXES,
        ONE_THREAD,
        REAL_AXES,
        THREAD_AXES,
        VIRTUAL_AXES,
        WARP,
        WARP_AXES,
    )
    from tensorir.tensor_intrins import BUILT_IN, INTRINS
    from tensorir.tensorize.match import Mismatch, Operand, match_intrin
    from tensorir.tensorize.tensor_intrin import (
        TENSORIZE,
        TensorIntrin,
        find_intrin,
        loop_nest,
        tensorized,
    )
    from tensorir.text.parser import parse, parse_expr, parse_exprs
    from tensorir.text.printer import format_func, format_stmt
    from tensorir.text.printer_expr import format_expr
    from tensorir.text.whole_file import whole_file
    from tensorir.trials.extern import ExternRunner, check_extern, register_extern_checked
    from tensorir.trials.intrin import check_intrin, register_checked
    from tensorir.vector_expr import Broadcast, Ramp, Shuffle
    from tensorir.verifier.inout import fills, with_declared
    from tensorir.verifier.program import verify
    from tensorir.verifier.prove import prove
    from tensorir.verifier.ranges import check_ranges
    from tensorir.verifier.reductions import late_input, reduction_problem
    from tensorir.verifier.thread_loops import thread_fault
    from tensorir.visit import (
        blocks,
        certain_loads,
        child_stmts,
        children,
        loads,
        map_children,
        map_exprs,
        map_iter,
        map_loads,
        numbers_of,
        stmt_exprs,
        substitute,
        substitute_stmt,
        transform,
        variables,
        walk,
        walk_exprs,
        walk_places,
        with_body,
    )
    from tensorir.written import too_large

__all__ = lazy_names(__name__)
