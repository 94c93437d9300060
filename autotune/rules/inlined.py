"""Stages ahead of all rules: which are computed where they are read, and before what they run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from autotune.rules.effort import EVERY_OTHER, arithmetic, loads_each
from autotune.rules.group import (
    Refused,
    attempt,
    calls_extern,
    in_scan,
    instances,
    is_padding,
    lane_of,
    operations,
    size,
    stores_at_variables,
    stores_of,
    stride_in,
    widens,
)
from schedule import Schedule, needed, share_read, shared_parts
from tensorir import (
    BinOp,
    Block,
    Call,
    Device,
    IterKind,
    Load,
    Select,
    Var,
    body_loads,
    stmt_exprs,
    substitute,
    walk,
    walk_exprs,
    written,
)

Copies = Callable[[Schedule, Block, Block], float] | None
"""How many copies of each element of a second block are computed where it is inlined into a first
one, if that is less than the places where it is read: on processors, where calls take long."""

MOST_COPIED = 16
"""Operations that inlining a stage may repeat in each instance of what reads it."""

ROWS_SHARING = 32
"""Rows from which on what they have in common is computed once, in a nest of its own."""

WORTH_LEAVING_OUT = 0.9
"""The share of a stage's elements that are read from which on all of them are computed."""


def is_cheap(block: Block, processors: bool) -> bool:
    """Whether computing the block's value again costs less than keeping it, as several quotients do
    not on processors."""
    nodes = [n for stmt in walk(block.body) for e in stmt_exprs(stmt) for n in walk_exprs(e)]
    quotients = sum(isinstance(n, BinOp) and n.op == "/" for n in nodes) if processors else 0
    asks = not is_padding(block) and any(isinstance(n, Select) for n in nodes)
    return quotients <= 1 and not asks and not any(isinstance(n, Call) for n in nodes)


def leave_out(sch: Schedule) -> Refused:
    """Compute of stages what is read of them alone, as of what is cropped, those first that need
    others; returns those of which that is refused."""
    refused: Refused = {}
    for name in reversed(sch.get_blocks()):
        stored = written(sch.state.block(name))
        if stored and share_read(sch.state, stored[0]) <= WORTH_LEAVING_OUT:
            attempt(refused.setdefault(str(name), {}), f"less of {name!r}", sch.narrow, name)
    return refused


def join_epilogue(sch: Schedule, last: str, kept: Collection[str] = ()) -> Refused:
    """Inline the only consumer of a block into it, as often as there is one that is no reduction
    and none of `kept`; returns the one of which that is refused, if any, and why."""
    while len(users := sch.get_consumers(last)) == 1 and users[0] not in kept:
        (user,), why = users, dict[str, str]()
        if sch.state.block(user).is_reduction:
            break
        if not attempt(why, f"{user!r} in {last!r}", sch.reverse_compute_inline, user):
            return {str(user): why}
    return {}


def inline_stages(sch: Schedule, kept: Collection[str] = (), copies: Copies = None) -> Refused:
    """Inline the stages that are cheaper computed in place than stored; returns those of which
    that is refused, as where one expression of all would be too large.

    These are copies that their readers undo, elementwise stages that feed elementwise stages, and
    cheap ones that feed a reduction which reads each of their elements about once, but for gathers
    that others read too. Stages that a user reads in several places stay where the copies of them
    would be long, and so do those that turn what padding reads, `kept` ones and what these read.
    """
    refused: Refused = {}
    for name in sch.get_blocks():
        if name in kept or not {*kept}.isdisjoint(sch.get_consumers(name)):
            continue
        block = sch.state.block(name)
        if block.is_reduction or not stores_at_variables(block) or is_padding(block):
            continue
        users = [sch.state.block(user) for user in sch.get_consumers(name)]
        if not users or any(b in sch.func.params for b in written(block)):
            continue
        if in_scan(sch, block) or any(map(calls_extern, users)):
            continue  # these read whole rows in memory
        if _only_moves(block, users) or _is_less_inline(sch, block, users, copies):
            own = refused.setdefault(str(name), {})
            attempt(own, f"{name!r} inline", sch.compute_inline, name)
    return refused


def _only_moves(block: Block, users: Sequence[Block]) -> bool:
    """Whether a stage moves elements, and its readers can read them no further apart before; sums
    in a wider type, which dot products may be, want their terms in a dimension of their own."""
    (store,) = stores_of(block)
    value = store.value
    if not isinstance(value, Load) or any(i.has_loads for i in value.indices):
        return False
    for user, load in ((u, x) for u in users for x in body_loads(u) if x.buffer is store.buffer):
        at = {v: i for v, i in zip(store.indices, load.indices) if isinstance(v, Var)}
        own = Load(value.buffer, tuple(substitute(i, at) for i in value.indices))
        known = all(stride_in(own, it.var, user) is not None for it in user.iters)
        often = instances(user) >= MOST_COPIED * instances(block) and widens(user)
        apart = often and own.indices[-1] not in {load.indices[-1], *[i.var for i in user.reduced]}
        if not known or apart or loads_each(own, user, 8) > loads_each(load, user, 8):
            return False
    return True


def _is_less_inline(sch: Schedule, block: Block, users: Sequence[Block], copies: Copies) -> bool:
    """Whether computing a stage where it is read takes less than storing it."""
    if any(_copied(sch, user, block, copies) for user in users):
        return False
    sums = any(u.is_reduction for u in users)
    reads = body_loads(block)  # of what memory says the place of no row can be kept
    gathers = sums and any(i.has_loads for load in reads for i in load.indices)
    single = len(users) == 1 or is_cheap(block, copies is not None) and not gathers
    if not single or any(instances(u) > 2 * instances(block) for u in users):
        return False
    padded = any(map(is_padding, users))
    near = copies is None or all(loads_each(n, block, 8) <= EVERY_OTHER for n in reads)
    stays = (sums or padded) and _reads_reduction(sch, block.name, padded)
    return not (padded and not near or stays)


def _copied(sch: Schedule, user: Block, block: Block, copies: Copies) -> bool:
    """Whether a stage is too long to be computed in each place where a user reads it."""
    reads = sum(load.buffer in written(block) for load in body_loads(user))
    work = operations(block) if copies is None else max(operations(block), arithmetic(block))
    places, most = float(reads), MOST_COPIED / max(1, work)
    if places - 1 > most and copies is not None and not user.is_reduction:
        places = min(places, copies(sch, user, block))
    return places - 1 > most


def _reads_reduction(sch: Schedule, name: str, rows: bool) -> bool:
    """Whether a stage is the natural epilogue of a reduction of its own shape, or with `rows` of
    one that reads what it reads too: a row is in the first cache for both then."""
    block = sch.state.block(name)
    own = {load.buffer for load in body_loads(block) if rows}
    return any(
        instances(producer, IterKind.SPATIAL) == instances(block)
        or not own.isdisjoint(load.buffer for load in body_loads(producer))
        for producer in map(sch.state.block, sch.get_producers(name))
        if producer.is_reduction
    )


def _goes_before(sch: Schedule, stage: str, name: str) -> bool:
    """Whether a stage is no sum, or one with less to do than another one and of no sum that this
    one is of too: those of the same rows stay together."""
    block = sch.state.block(stage)
    if not block.is_reduction:
        return True
    both = needed(sch.state, stage) & needed(sch.state, name)
    alone = not any(sch.state.block(maker).is_reduction for maker in both)
    return alone and instances(block) < instances(sch.state.block(name))


def bring_forward(sch: Schedule) -> Refused:
    """Let what an epilogue reads beside its sum run before that sum: stages that need no sum, such
    as the factors of a normalisation, and sums with less to do, such as the lengths of vectors of
    which all products are made. Where they stand in the program does not matter then. Returns those
    that stay where they are though they could be computed there, as they take memory that is used
    until then."""
    refused: Refused = {}
    for name in sch.get_blocks():
        users = sch.get_consumers(name) if sch.state.block(name).is_reduction else []
        if len(users) != 1 or sch.state.block(users[0]).is_reduction:
            continue
        place, late = sch.state.place, list(users)
        for stage in late:
            more = (s for s in sch.get_producers(stage) if place(s) > place(name))
            late += [s for s in more if s not in late]
        fits = all(_goes_before(sch, stage, name) for stage in late[1:])
        for stage in sorted(late[1:], key=place) if fits else ():
            if name not in needed(sch.state, stage):
                own = refused.setdefault(str(stage), {})
                attempt(own, f"{stage!r} before {name!r}", sch.run_before, stage, name)
    return refused


def share_parts(sch: Schedule, device: Device, kept: Collection[str] = ()) -> Refused:
    """Let stages of their own make what many rows of an elementwise stage have in common, if that
    takes calls or quotients, as the factors of a normalisation along channels: lanes would compute
    it again for each row. Returns the stages of which that is refused, `kept` ones aside."""
    refused: Refused = {}
    for name in sch.get_blocks():
        block = sch.state.block(name)
        lane = None if name in kept or block.is_reduction else lane_of(block)
        if lane is not None and not in_scan(sch, block):
            for part, place in shared_parts(block, lane, ROWS_SHARING, size):
                own = refused.setdefault(str(name), {})
                attempt(own, f"{part!r} ahead of rows", sch.cache_value, name, place)
    return refused
