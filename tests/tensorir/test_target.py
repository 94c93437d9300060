from __future__ import annotations

import dataclasses
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir.errors import TensorIRError
from tensorir.target import VECTOR_BITS, Target

WORDS = st.from_regex(r"[a-z0-9_][a-z0-9_.+\-]{0,8}", fullmatch=True)


@pytest.mark.parametrize(
    "text",
    [
        "c",
        "c -march=haswell",
        "c -threads=2 -vector_bits=256",
        "c -march=armv8.2-a+fp16 -threads=1 -vector_bits=128 -features=avx,fma",
        "cuda",
        "cuda -arch=sm_90",
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


@settings(max_examples=50, derandomize=True)
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
        ("opencl", "unknown target kind 'opencl'; known are 'c', 'cuda'"),
        ("", "'' is not a target"),
        (7, "7 is not a target"),
        ("c -simd=4", "target 'c' has no option -simd; it has -march, -threads, -vector_bits"),
        ("cuda -march=x", "target 'cuda' has no option -march; it has -arch"),
        ("c march=x", "'march=x' is not of the form -option=value"),
        ("c -march", "'-march' is not of the form -option=value"),
        ("c -march=", "-march='' is not a plain word"),
        ("c -threads=two", "-threads='two' is not an integer"),
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
