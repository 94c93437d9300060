from __future__ import annotations

import dataclasses
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir.errors import TensorIRError
from tensorir.targets.architectures import ARCHITECTURES
from tensorir.targets.target import GPUS, OPTIONS, VECTOR_BITS, Processor, Target

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_"
WORDS = st.builds(
    str.__add__, st.sampled_from(LETTERS), st.text(st.sampled_from(LETTERS + ".+-"), max_size=8)
)


@pytest.mark.parametrize(
    "text",
    [
        "c",
        "c -march=haswell",
        "c -threads=2 -vector_bits=256",
        "c -l1d=49152 -l2=2097152 -l3=33554432",
        "c -march=armv8.2-a+fp16 -threads=1 -vector_bits=128 -features=avx,fma",
        "cuda",
        "cuda -arch=sm_90",
        "cuda-emulator -arch=sm_90a -check=bounds,races -seed=0",
        "opencl",
    ],
)
def test_canonical_text_round_trips(text):
    target = Target.parse(text)
    assert str(target) == text
    assert Target.parse(str(target)) == target


def test_defaults_are_not_printed_and_order_is_canonical():
    target = Target.parse("  c   -vector_bits=512 -march=native   -threads=3 ")
    assert str(target) == "c -threads=3 -vector_bits=512"
    assert target == Target("c", threads=3, vector_bits=512)
    assert hash(target) == hash(Target("c", threads=3, vector_bits=512))


@settings(max_examples=25, derandomize=True)
@given(
    WORDS,
    st.none() | st.integers(1, 256),
    st.none() | st.sampled_from(VECTOR_BITS),
    st.lists(WORDS, max_size=4),
)
def test_every_target_round_trips(march, threads, vector_bits, features):
    target = Target("c", march, threads, vector_bits, features=tuple(features))
    assert Target.parse(str(target)) == target
    assert pickle.loads(pickle.dumps(target)) == target


def test_a_target_parses_to_itself_and_is_frozen():
    target = Target.parse("c -threads=2")
    assert Target.parse(target) is target
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.threads = 3


def test_features_are_a_sorted_set():
    assert Target("c", features=("fma", "avx2", "fma")).features == ("avx2", "fma")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metal", "unknown target kind 'metal'; known are 'c', 'cuda', 'cuda-emulator', 'opencl'"),
        ("", "'' is not a target"),
        (7, "7 is not a target"),
        ("c -simd=4", "target 'c' has no option -simd; it has -march, -threads, -vector_bits"),
        ("cuda -march=x", "target 'cuda' has no option -march; it has -arch"),
        ("c march=x", "'march=x' is not of the form -option=value"),
        ("c -march", "'-march' is not of the form -option=value"),
        ("c -march=", "-march='' is not a plain word"),
        ("c -threads=two", "-threads='two' is not an integer"),
        ("c -l2=big", "-l2='big' is not an integer"),
        ("c -l2=-1", "-l2=-1 is not a positive integer"),
        ("cuda -l2=1", "target 'cuda' has no option -l2; it has -arch"),
        ("cuda -vector_bits=128", "target 'cuda' has no option -vector_bits; it has -arch"),
        ("cuda -check=races", "target 'cuda' has no option -check; it has -arch"),
        ("opencl -arch=sm_90", "target 'opencl' has no option -arch; it has none"),
        ("cuda -arch=sm_91", "architecture 'sm_91' is unknown; known are sm_75, sm_80, sm_86, sm"),
        ("cuda -arch=90", "architecture '90' is unknown"),
        ("cuda -arch=a,b", "-arch='a,b' is not a plain word"),
        ("cuda-emulator -check=races,hopes", "-check='hopes' is not one of alignment, bounds,"),
        ("cuda-emulator -seed=x", "-seed='x' is not an integer"),
        ("cuda-emulator -seed=-1", "-seed=-1 is not an integer of 0 or more"),
        ("c -threads=0", "-threads=0 is not a positive integer"),
        ("c -vector_bits=100", "-vector_bits=100 is not one of 128, 256, 512"),
        ("c -threads=1 -threads=2", "-threads is given twice"),
    ],
)
def test_bad_text_is_refused(text, message):
    with pytest.raises(TensorIRError) as error:
        Target.parse(text)
    assert message in str(error.value)


def test_bad_fields_are_refused():
    with pytest.raises(TensorIRError, match="target 'cuda' has no option -march"):
        Target("cuda", march="haswell")
    with pytest.raises(TensorIRError, match="unknown target kind 'metal'"):
        Target("metal")
    with pytest.raises(TensorIRError, match="is not a plain word"):
        Target("c", march="native -shared")
    with pytest.raises(TensorIRError, match="-threads=True is not a positive"):
        Target("c", threads=True)


@pytest.mark.parametrize("name", ["threads", "l1d", "l2", "l3"])
@pytest.mark.parametrize("value", [0, -1, True, 2.0])
def test_counts_are_positive_integers(name, value):
    with pytest.raises(TensorIRError, match=f"-{name}={value!r} is not a positive integer"):
        Target("c", **{name: value})


@pytest.mark.parametrize(
    ("bits", "dtype", "lanes"),
    [(512, "float32", 16), (256, "float64", 4), (128, "int8", 16), (None, "float32", 4)],
)
def test_lanes(bits, dtype, lanes):
    assert Target(vector_bits=bits).lanes(dtype) == lanes


@pytest.mark.parametrize(
    ("bits", "march", "features", "registers"),
    [
        (512, "native", ("avx512f",), 32),
        (256, "native", ("avx512f", "avx512vl"), 32),  # the option -vector_bits=256
        (256, "native", ("avx512f",), 16),  # only vectors of 512 bits reach the others
        (256, "x86-64-v3", ("avx", "avx2"), 16),
        (128, "x86-64", (), 16),
        (128, "armv8-a", ("arm_neon",), 32),
        (128, "armv7-a+neon", ("arm_neon",), 16),
    ],
)
def test_vector_registers(bits, march, features, registers):
    assert Target("c", march, vector_bits=bits, features=features).vector_registers == registers


def test_what_is_asked_for_comes_before_what_is_found():
    found = Target(l2=1 << 18, processor=Processor(threads=6, l1d=48 << 10, l2=1 << 21, l3=1 << 25))
    assert (found.thread_count, found.l1d_bytes, found.l3_bytes) == (6, 48 << 10, 1 << 25)
    assert found.l2_bytes == 1 << 18
    assert dataclasses.replace(found, threads=2).thread_count == 2


def test_what_is_found_is_no_part_of_the_text():
    """Records of a tuning database are found by the text."""
    found = Target(processor=Processor(threads=6))
    assert str(found) == "c" and found == Target() and hash(found) == hash(Target())
    assert pickle.loads(pickle.dumps(found)).thread_count == 6
    with pytest.raises(TensorIRError, match="no option -processor"):
        Target.parse("c -processor=6")


@pytest.mark.parametrize("kind", GPUS)
@pytest.mark.parametrize(
    "asked", ["vector_registers", "thread_count", "l1d_bytes", "l2_bytes", "l3_bytes"]
)
def test_a_gpu_has_no_answer_to_questions_about_processors(kind, asked):
    with pytest.raises(TensorIRError, match=f"processors, and target '{kind}' is a GPU"):
        getattr(Target(kind), asked)


def test_a_gpu_tells_its_architecture():
    assert Target("cuda", arch="sm_90a").architecture is ARCHITECTURES["sm_90a"]
    assert Target("cuda-emulator").architecture.name == "sm_80"
    assert Target("cuda").lanes("float32") == 4 and Target("cuda").lanes("float16") == 8
    for text in ("c", "opencl"):
        with pytest.raises(TensorIRError, match=f"target '{text}' has no CUDA architecture"):
            _ = Target.parse(text).architecture


def test_every_kind_is_a_gpu_or_a_processor():
    assert [kind for kind in OPTIONS if not Target(kind).on_gpu] == ["c"]


def test_checks_are_a_sorted_set():
    target = Target("cuda-emulator", check=("races", "bounds", "races"), seed=3)
    assert target.check == ("bounds", "races")
    assert str(target) == "cuda-emulator -check=bounds,races -seed=3"
