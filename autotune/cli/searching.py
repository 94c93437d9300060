"""How to search, as options of the command line: of one function and of all those of a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from autotune.cli.failure import Failure
from autotune.cli.program import add_cache, add_costs, add_numerics
from autotune.cost_model import known_models
from autotune.database.conditions import WARM
from autotune.measure import MeasureSettings
from autotune.measure.places.clusters import DaskRunner, dask_builder
from autotune.search import DEFAULT_STRATEGY, STRATEGIES
from autotune.tuning.options import OptionsGiven
from tensorir import Target

CONNECT_S = 10
"""Seconds after which a cluster does not answer."""


def add_searching(parser: argparse.ArgumentParser) -> None:
    add_numerics(parser)
    add_costs(parser)
    add_cache(parser)
    parser.add_argument("--strategy", choices=tuple(STRATEGIES), default=DEFAULT_STRATEGY)
    parser.add_argument("--cost-model", choices=known_models(), default="auto")
    parser.add_argument(
        "--dask", metavar="ADDRESS",
        help="workers of the Dask cluster whose scheduler this is build the candidates, and one of"
        " them, on a machine of the kind of this one, runs them",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="show no progress")


@contextmanager
def searching(args: argparse.Namespace, target: Target) -> Iterator[OptionsGiven]:
    """What is asked for; a cluster is connected meanwhile. Raises Failure where there is none."""
    found: OptionsGiven = {
        "numerics": args.numerics,
        "strategy": args.strategy,
        "cost_model": args.cost_model,
        "settings": _measured(args, target),
        "progress": False if args.quiet else None,
        "costs": args.costs,
    }
    if args.dask is None:
        yield found
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise Failure("--dask needs Dask: pip install 'tensorir[dask]'") from error
    try:
        client = Client(args.dask, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        raise Failure(f"--dask {args.dask}: no scheduler answers there: {error}") from error
    with client:
        yield {**found, "builder": dask_builder(client), "runner": DaskRunner(client)}


def _measured(args: argparse.Namespace, target: Target) -> MeasureSettings | None:
    """How to measure; None for the usual way."""
    if args.cache == WARM:
        return None
    return MeasureSettings(threads=target.threads, cache=args.cache)
