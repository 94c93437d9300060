"""Numbers on a command line: what is none is refused by argparse, with the option's name."""

from __future__ import annotations

import argparse

from autotune.arguments import LARGEST_SEED


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 on")
    return int(text)


def seed(text: str) -> int:
    if not text.isdecimal() or int(text) > LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to {LARGEST_SEED}")
    return int(text)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value
