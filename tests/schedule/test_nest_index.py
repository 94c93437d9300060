"""What the nests of a program say together is brought up to date from step to step."""

import random
import sys
from threading import Thread

import pytest

from autotune import default_schedule
from schedule.state import State
from tensorir import ops, te
from tests.counted import calls


def layers(count: int):
    x = te.placeholder((6, 8), name="x")
    given, h = [x], x
    for n in range(count):
        w = te.placeholder((8, 8), name=f"w{n}")
        given, h = [*given, w], ops.softmax(ops.relu(ops.matmul(h, w)))
    return te.create_prim_func([*given, h])


def told(state: State) -> tuple:
    """All that a state answers of its nests together."""
    func = state.func
    buffers = (*func.params, *func.buffers)
    hints = (*state.loop_names(), *state.block_names(), *[b.name for b in buffers], "i", "vi0")
    names = state.names_in_scope(), state.taken_names(), state.handles()
    return (
        [state.uses(buffer) for buffer in buffers],
        [[any(hint in part for part in each.now()) for hint in hints] for each in names],
        [state.fresh_loop(hint) for hint in hints],
        [kind for kind in ("parallel", "vectorize") if kind in map(str, state.kinds)],
    )


def states() -> list[State]:
    """Those of a default schedule, and of two others that go on from where it began."""
    done = default_schedule(layers(3), "c -threads=2")
    found = [state for state, _ in done._history]
    done.undo(len(found) - 1)
    for block in done.get_blocks()[:2]:
        other = done.copy()
        other.split(other.get_loops(block)[-1], [None, 2])
        other.parallel(other.get_loops(block)[0])
        found += [state for state, _ in other._history[1:]]
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_each_state_is_told_as_if_it_were_alone_in_whatever_order_they_are_asked(seed):
    found = states()
    wanted = [told(State(state.func)) for state in found]
    order = list(range(len(found)))
    random.Random(seed).shuffle(order)
    assert len(found) > 40
    for n in order:
        assert told(found[n]) == wanted[n]


def test_threads_may_ask_states_of_one_schedule_at_once():
    found = states()
    wanted = [told(State(state.func)) for state in found]
    wrong = []

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        for n in rng.sample(range(len(found)), len(found) // 2):
            if told(found[n]) != wanted[n]:
                wrong.append(n)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [Thread(target=ask, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_a_layer_of_a_deep_network_takes_as_long_to_schedule_as_one_of_a_shallow_one():
    def scheduled(count: int) -> int:
        func = layers(count)
        return calls(lambda: default_schedule(func, "c -threads=2"))

    scheduled(8)  # what is made once for all, and as many stages as are looked at for one chain
    few, more, most = map(scheduled, (8, 12, 16))
    assert most - more < 1.1 * (more - few)
