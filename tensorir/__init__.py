"""The language: tensor expressions, the IR, its printer and parser, arithmetic and lowering."""

from typing import TYPE_CHECKING

from tensorir.lazy import lazy_names as lazy_names

if TYPE_CHECKING:
    from tensorir import dtype as dtype
    from tensorir import te as te
    from tensorir.algorithms.algorithm import Algorithm as Algorithm
    from tensorir.algorithms.algorithm import Alternative as Alternative
    from tensorir.algorithms.apply import APPLIED_ALGORITHMS as APPLIED_ALGORITHMS
    from tensorir.algorithms.apply import apply_algorithm as apply_algorithm
    from tensorir.algorithms.check import check_algorithm as check_algorithm
    from tensorir.algorithms.check import register_algorithm as register_algorithm
    from tensorir.algorithms.registry import ALGORITHMS as ALGORITHMS
    from tensorir.algorithms.registry import find_algorithm as find_algorithm
    from tensorir.algorithms.registry import known_algorithms as known_algorithms
    from tensorir.analysis.block_accesses import Access as Access
    from tensorir.analysis.block_accesses import accesses as accesses
    from tensorir.analysis.block_accesses import blocks_below as blocks_below
    from tensorir.analysis.block_accesses import body_loads as body_loads
    from tensorir.analysis.block_accesses import feeds as feeds
    from tensorir.analysis.block_accesses import innermost as innermost
    from tensorir.analysis.block_accesses import read as read
    from tensorir.analysis.block_accesses import reduces as reduces
    from tensorir.analysis.block_accesses import written as written
    from tensorir.analysis.combiner import ASSOCIATIVE as ASSOCIATIVE
    from tensorir.analysis.combiner import Combiner as Combiner
    from tensorir.analysis.combiner import combiner_of as combiner_of
    from tensorir.analysis.combiner import neutral as neutral
    from tensorir.analysis.dependence import belongs_to as belongs_to
    from tensorir.analysis.dependence import carries as carries
    from tensorir.analysis.dependence import conflict as conflict
    from tensorir.analysis.dependence import disjoint as disjoint
    from tensorir.analysis.dependence import outliving as outliving
    from tensorir.analysis.dependence import piped as piped
    from tensorir.analysis.dependence import recurrent as recurrent
    from tensorir.analysis.dependence import same_slice as same_slice
    from tensorir.analysis.found_again import FOUND_AGAIN as FOUND_AGAIN
    from tensorir.analysis.independence import analyzer_of as analyzer_of
    from tensorir.analysis.repeatable import float_comparisons as float_comparisons
    from tensorir.analysis.repeatable import is_repeatable as is_repeatable
    from tensorir.annotations import Fits as Fits
    from tensorir.annotations import admitted as admitted
    from tensorir.annotations import alternatives as alternatives
    from tensorir.annotations import annotation_text as annotation_text
    from tensorir.annotations import checked as checked
    from tensorir.arith import Analyzer as Analyzer
    from tensorir.arith import Digit as Digit
    from tensorir.arith import Interval as Interval
    from tensorir.arith import connected as connected
    from tensorir.arith import decompose as decompose
    from tensorir.arith import determines as determines
    from tensorir.arith import few_values as few_values
    from tensorir.arith import intersect_with as intersect_with
    from tensorir.arith import inverse_of as inverse_of
    from tensorir.arith import is_dense as is_dense
    from tensorir.arith import relax as relax
    from tensorir.arith import union as union
    from tensorir.arith.regions.boxes import Box as Box
    from tensorir.arith.regions.boxes import with_box as with_box
    from tensorir.arith.slope import Together as Together
    from tensorir.arith.slope import moved_together as moved_together
    from tensorir.arith.slope import period as period
    from tensorir.arith.slope import slope as slope
    from tensorir.arrays import decode as decode
    from tensorir.arrays import refuse_masked as refuse_masked
    from tensorir.buffer import SCOPES as SCOPES
    from tensorir.buffer import Buffer as Buffer
    from tensorir.errors import AllocationError as AllocationError
    from tensorir.errors import ParseError as ParseError
    from tensorir.errors import RangeError as RangeError
    from tensorir.errors import TensorIRError as TensorIRError
    from tensorir.errors import VerifyError as VerifyError
    from tensorir.expr import FALSE as FALSE
    from tensorir.expr import TRUE as TRUE
    from tensorir.expr import BinOp as BinOp
    from tensorir.expr import Call as Call
    from tensorir.expr import Cast as Cast
    from tensorir.expr import Const as Const
    from tensorir.expr import Expr as Expr
    from tensorir.expr import ExprLike as ExprLike
    from tensorir.expr import Load as Load
    from tensorir.expr import Not as Not
    from tensorir.expr import Select as Select
    from tensorir.expr import Var as Var
    from tensorir.expr import all_of as all_of
    from tensorir.expr import any_of as any_of
    from tensorir.expr import binary as binary
    from tensorir.expr import cast as cast
    from tensorir.expr import conjuncts as conjuncts
    from tensorir.expr import const as const
    from tensorir.expr import convert as convert
    from tensorir.expr import int_value as int_value
    from tensorir.expr import maximum as maximum
    from tensorir.expr import minimum as minimum
    from tensorir.expr import select as select
    from tensorir.externs.built_in import BUILT_IN_EXTERNS as BUILT_IN_EXTERNS
    from tensorir.externs.extern import EXTERNS as EXTERNS
    from tensorir.externs.extern import ExternFunc as ExternFunc
    from tensorir.externs.extern import add_extern as add_extern
    from tensorir.externs.extern import find_extern as find_extern
    from tensorir.func import DECLARED as DECLARED
    from tensorir.func import PrimFunc as PrimFunc
    from tensorir.interpreter.interpret import interpret as interpret
    from tensorir.interpreter.interpret import interpret_source as interpret_source
    from tensorir.numbers.intrin import MATH as MATH
    from tensorir.numbers.intrin import REINTERPRET as REINTERPRET
    from tensorir.numbers.intrin import no_such_function as no_such_function
    from tensorir.numbers.numerics import DEFAULT_NUMERICS as DEFAULT_NUMERICS
    from tensorir.numbers.numerics import NUMERICS as NUMERICS
    from tensorir.numbers.numerics import allows as allows
    from tensorir.numbers.numerics import check_numerics as check_numerics
    from tensorir.numbers.numerics import weakest as weakest
    from tensorir.numbers.philox import PHILOX_MULTIPLIERS as PHILOX_MULTIPLIERS
    from tensorir.numbers.philox import PHILOX_ROUNDS as PHILOX_ROUNDS
    from tensorir.numbers.philox import PHILOX_STEPS as PHILOX_STEPS
    from tensorir.parts import buffers_in as buffers_in
    from tensorir.parts import part_axes as part_axes
    from tensorir.parts import replace_buffers as replace_buffers
    from tensorir.parts import touched as touched
    from tensorir.passes.facts.intervals import Intervals as Intervals
    from tensorir.passes.facts.lifetimes import keeps_to_itself as keeps_to_itself
    from tensorir.passes.facts.registers import ADDRESSES as ADDRESSES
    from tensorir.passes.facts.registers import ample_registers as ample_registers
    from tensorir.passes.facts.registers import sum_bytes as sum_bytes
    from tensorir.passes.facts.registers import thread_registers as thread_registers
    from tensorir.passes.gpu.axes import kernel_roots as kernel_roots
    from tensorir.passes.gpu.axes import nest_of as nest_of
    from tensorir.passes.gpu.axes import threads_of as threads_of
    from tensorir.passes.gpu.written_out import WRITTEN_OUT as WRITTEN_OUT
    from tensorir.passes.gpu.written_out import calls_written as calls_written
    from tensorir.passes.lower import lower as lower
    from tensorir.passes.lower_prefetch import is_made_in as is_made_in
    from tensorir.passes.lower_prefetch import prefetch_region as prefetch_region
    from tensorir.passes.partition_loops import copies_of_body as copies_of_body
    from tensorir.passes.specialize import specialize as specialize
    from tensorir.passes.split_constants import SplitFunc as SplitFunc
    from tensorir.passes.split_constants import check_constants as check_constants
    from tensorir.passes.split_constants import split_constants as split_constants
    from tensorir.passes.spread_prefetch import part_of as part_of
    from tensorir.passes.spread_prefetch import requests as requests
    from tensorir.passes.swizzle import LARGEST_RUN as LARGEST_RUN
    from tensorir.passes.vectors.masked_tails import mask_count as mask_count
    from tensorir.passes.vectors.masked_tails import masked_bits as masked_bits
    from tensorir.passes.vectors.masked_tails import masked_load as masked_load
    from tensorir.program_key import program_key as program_key
    from tensorir.reference import reference as reference
    from tensorir.reference import reference_with_tolerance as reference_with_tolerance
    from tensorir.rewrite.rectangular import largest_value as largest_value
    from tensorir.rewrite.rectangular import rectangular as rectangular
    from tensorir.rewrite.reduction import split_init as split_init
    from tensorir.rewrite.rename import with_unique_names as with_unique_names
    from tensorir.rewrite.terms import in_own_variables as in_own_variables
    from tensorir.scalars import SCALAR_LIMITS as SCALAR_LIMITS
    from tensorir.scalars import Number as Number
    from tensorir.scalars import Numbers as Numbers
    from tensorir.scalars import Scalar as Scalar
    from tensorir.scalars import SizeRanges as SizeRanges
    from tensorir.scalars import check_limits as check_limits
    from tensorir.scalars import depends_on_data as depends_on_data
    from tensorir.scalars import held_word as held_word
    from tensorir.scalars import number_of as number_of
    from tensorir.scalars import word_of as word_of
    from tensorir.stmt import Alloc as Alloc
    from tensorir.stmt import Block as Block
    from tensorir.stmt import Exchange as Exchange
    from tensorir.stmt import Extern as Extern
    from tensorir.stmt import For as For
    from tensorir.stmt import ForKind as ForKind
    from tensorir.stmt import If as If
    from tensorir.stmt import IterKind as IterKind
    from tensorir.stmt import IterVar as IterVar
    from tensorir.stmt import Let as Let
    from tensorir.stmt import Part as Part
    from tensorir.stmt import Prefetch as Prefetch
    from tensorir.stmt import Seq as Seq
    from tensorir.stmt import Stmt as Stmt
    from tensorir.stmt import Store as Store
    from tensorir.stmt import Sync as Sync
    from tensorir.stmt import replace as replace
    from tensorir.stmt import seq as seq
    from tensorir.structural import structural_equal as structural_equal
    from tensorir.structural import structural_hash as structural_hash
    from tensorir.structural import structure_key as structure_key
    from tensorir.structural import workload_key as workload_key
    from tensorir.targets.architectures import ARCHITECTURES as ARCHITECTURES
    from tensorir.targets.architectures import DEFAULT_ARCH as DEFAULT_ARCH
    from tensorir.targets.architectures import Architecture as Architecture
    from tensorir.targets.architectures import architecture_of as architecture_of
    from tensorir.targets.architectures import find_architecture as find_architecture
    from tensorir.targets.costs import Costs as Costs
    from tensorir.targets.costs import usual_costs as usual_costs
    from tensorir.targets.cpu import Cpu as Cpu
    from tensorir.targets.device import Device as Device
    from tensorir.targets.device import device_of as device_of
    from tensorir.targets.gpu import Gpu as Gpu
    from tensorir.targets.target import CHECKS as CHECKS
    from tensorir.targets.target import Processor as Processor
    from tensorir.targets.target import Target as Target
    from tensorir.targets.thread_axes import AXES as AXES
    from tensorir.targets.thread_axes import BLOCK_AXES as BLOCK_AXES
    from tensorir.targets.thread_axes import ONE_THREAD as ONE_THREAD
    from tensorir.targets.thread_axes import REAL_AXES as REAL_AXES
    from tensorir.targets.thread_axes import THREAD_AXES as THREAD_AXES
    from tensorir.targets.thread_axes import VIRTUAL_AXES as VIRTUAL_AXES
    from tensorir.targets.thread_axes import WARP as WARP
    from tensorir.targets.thread_axes import WARP_AXES as WARP_AXES
    from tensorir.tensor_intrins import BUILT_IN as BUILT_IN
    from tensorir.tensor_intrins import INTRINS as INTRINS
    from tensorir.tensorize.match import Mismatch as Mismatch
    from tensorir.tensorize.match import Operand as Operand
    from tensorir.tensorize.match import match_intrin as match_intrin
    from tensorir.tensorize.tensor_intrin import TENSORIZE as TENSORIZE
    from tensorir.tensorize.tensor_intrin import TensorIntrin as TensorIntrin
    from tensorir.tensorize.tensor_intrin import find_intrin as find_intrin
    from tensorir.tensorize.tensor_intrin import loop_nest as loop_nest
    from tensorir.tensorize.tensor_intrin import tensorized as tensorized
    from tensorir.text.parser import parse as parse
    from tensorir.text.parser import parse_expr as parse_expr
    from tensorir.text.parser import parse_exprs as parse_exprs
    from tensorir.text.printer import format_func as format_func
    from tensorir.text.printer import format_stmt as format_stmt
    from tensorir.text.printer_expr import format_expr as format_expr
    from tensorir.text.whole_file import whole_file as whole_file
    from tensorir.trials.extern import ExternRunner as ExternRunner
    from tensorir.trials.extern import check_extern as check_extern
    from tensorir.trials.extern import register_extern_checked as register_extern_checked
    from tensorir.trials.intrin import check_intrin as check_intrin
    from tensorir.trials.intrin import register_checked as register_checked
    from tensorir.vector_expr import Broadcast as Broadcast
    from tensorir.vector_expr import Ramp as Ramp
    from tensorir.vector_expr import Shuffle as Shuffle
    from tensorir.verifier.inout import fills as fills
    from tensorir.verifier.inout import with_declared as with_declared
    from tensorir.verifier.program import verify as verify
    from tensorir.verifier.prove import prove as prove
    from tensorir.verifier.ranges import check_ranges as check_ranges
    from tensorir.verifier.reductions import late_input as late_input
    from tensorir.verifier.reductions import reduction_problem as reduction_problem
    from tensorir.verifier.thread_loops import thread_fault as thread_fault
    from tensorir.visit import blocks as blocks
    from tensorir.visit import certain_loads as certain_loads
    from tensorir.visit import child_stmts as child_stmts
    from tensorir.visit import children as children
    from tensorir.visit import loads as loads
    from tensorir.visit import map_children as map_children
    from tensorir.visit import map_exprs as map_exprs
    from tensorir.visit import map_iter as map_iter
    from tensorir.visit import map_loads as map_loads
    from tensorir.visit import numbers_of as numbers_of
    from tensorir.visit import stmt_exprs as stmt_exprs
    from tensorir.visit import substitute as substitute
    from tensorir.visit import substitute_stmt as substitute_stmt
    from tensorir.visit import transform as transform
    from tensorir.visit import variables as variables
    from tensorir.visit import walk as walk
    from tensorir.visit import walk_exprs as walk_exprs
    from tensorir.visit import walk_places as walk_places
    from tensorir.visit import with_body as with_body
    from tensorir.written import too_large as too_large

__all__ = lazy_names(
    __name__,
    {
        "tensorir": "dtype te",
        "tensorir.algorithms.algorithm": "Algorithm Alternative",
        "tensorir.algorithms.apply": "APPLIED_ALGORITHMS apply_algorithm",
        "tensorir.algorithms.check": "check_algorithm register_algorithm",
        "tensorir.algorithms.registry": "ALGORITHMS find_algorithm known_algorithms",
        "tensorir.targets.architectures": (
            "ARCHITECTURES DEFAULT_ARCH Architecture architecture_of find_architecture"
        ),
        "tensorir.annotations": "Fits admitted alternatives annotation_text checked",
        "tensorir.arith": (
            "Analyzer Digit Interval connected decompose determines few_values intersect_with "
            "inverse_of is_dense relax union"
        ),
        "tensorir.arith.regions.boxes": "Box with_box",
        "tensorir.arith.slope": "Together moved_together period slope",
        "tensorir.arrays": "decode refuse_masked",
        "tensorir.analysis.block_accesses": (
            "Access accesses blocks_below body_loads feeds innermost read reduces written"
        ),
        "tensorir.buffer": "SCOPES Buffer",
        "tensorir.analysis.combiner": "ASSOCIATIVE Combiner combiner_of neutral",
        "tensorir.analysis.dependence": (
            "belongs_to carries conflict disjoint outliving piped recurrent same_slice"
        ),
        "tensorir.targets.costs": "Costs usual_costs",
        "tensorir.targets.cpu": "Cpu",
        "tensorir.targets.device": "Device device_of",
        "tensorir.targets.gpu": "Gpu",
        "tensorir.errors": "AllocationError ParseError RangeError TensorIRError VerifyError",
        "tensorir.expr": (
            "FALSE TRUE BinOp Call Cast Const Expr ExprLike Load Not Select Var all_of any_of "
            "binary cast conjuncts const convert int_value maximum minimum select"
        ),
        "tensorir.externs.extern": "ExternFunc add_extern find_extern",
        "tensorir.trials.extern": "ExternRunner check_extern register_extern_checked",
        "tensorir.externs.built_in": "BUILT_IN_EXTERNS EXTERNS",
        "tensorir.func": "DECLARED PrimFunc",
        "tensorir.analysis.found_again": "FOUND_AGAIN",
        "tensorir.analysis.independence": "analyzer_of",
        "tensorir.analysis.repeatable": "float_comparisons is_repeatable",
        "tensorir.verifier.inout": "fills with_declared",
        "tensorir.interpreter.interpret": "interpret interpret_source",
        "tensorir.numbers.intrin": "MATH REINTERPRET no_such_function",
        "tensorir.numbers.numerics": "DEFAULT_NUMERICS NUMERICS allows check_numerics weakest",
        "tensorir.text.parser": "parse parse_expr parse_exprs",
        "tensorir.parts": "buffers_in part_axes replace_buffers touched",
        "tensorir.passes.gpu.axes": "kernel_roots nest_of threads_of",
        "tensorir.passes.gpu.written_out": "WRITTEN_OUT calls_written",
        "tensorir.passes.facts.intervals": "Intervals",
        "tensorir.passes.facts.lifetimes": "keeps_to_itself",
        "tensorir.passes.facts.registers": ("ADDRESSES ample_registers sum_bytes thread_registers"),
        "tensorir.passes.lower": "lower",
        "tensorir.passes.lower_prefetch": "is_made_in prefetch_region",
        "tensorir.passes.partition_loops": "copies_of_body",
        "tensorir.passes.vectors.masked_tails": "mask_count masked_bits masked_load",
        "tensorir.passes.specialize": "specialize",
        "tensorir.passes.split_constants": "SplitFunc check_constants split_constants",
        "tensorir.passes.spread_prefetch": "part_of requests",
        "tensorir.passes.swizzle": "LARGEST_RUN",
        "tensorir.numbers.philox": "PHILOX_MULTIPLIERS PHILOX_ROUNDS PHILOX_STEPS",
        "tensorir.text.printer": "format_func format_stmt",
        "tensorir.text.printer_expr": "format_expr",
        "tensorir.text.whole_file": "whole_file",
        "tensorir.verifier.prove": "prove",
        "tensorir.rewrite.rectangular": "largest_value rectangular",
        "tensorir.rewrite.rename": "with_unique_names",
        "tensorir.rewrite.reduction": "split_init",
        "tensorir.program_key": "program_key",
        "tensorir.reference": "reference reference_with_tolerance",
        "tensorir.scalars": (
            "SCALAR_LIMITS Number Numbers Scalar SizeRanges check_limits depends_on_data "
            "held_word number_of word_of"
        ),
        "tensorir.stmt": (
            "Alloc Block Exchange Extern For ForKind If IterKind IterVar Let Part Prefetch Seq "
            "Stmt Store Sync replace seq"
        ),
        "tensorir.structural": "structural_equal structural_hash structure_key workload_key",
        "tensorir.targets.target": "CHECKS Processor Target",
        "tensorir.tensorize.tensor_intrin": (
            "TENSORIZE TensorIntrin find_intrin loop_nest tensorized"
        ),
        "tensorir.trials.intrin": "check_intrin register_checked",
        "tensorir.tensor_intrins": "BUILT_IN INTRINS",
        "tensorir.tensorize.match": "Mismatch Operand match_intrin",
        "tensorir.rewrite.terms": "in_own_variables",
        "tensorir.verifier.program": "verify",
        "tensorir.verifier.ranges": "check_ranges",
        "tensorir.verifier.reductions": "late_input reduction_problem",
        "tensorir.targets.thread_axes": (
            "AXES BLOCK_AXES ONE_THREAD REAL_AXES THREAD_AXES VIRTUAL_AXES WARP WARP_AXES"
        ),
        "tensorir.verifier.thread_loops": "thread_fault",
        "tensorir.vector_expr": "Broadcast Ramp Shuffle",
        "tensorir.visit": (
            "blocks certain_loads child_stmts children loads map_children map_exprs map_iter "
            "map_loads numbers_of stmt_exprs substitute substitute_stmt transform variables "
            "walk walk_exprs walk_places with_body"
        ),
        "tensorir.written": "too_large",
    },
)
