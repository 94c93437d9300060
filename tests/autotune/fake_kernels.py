"""A builder for tests: the text of a program names what its kernel does wrong."""

from __future__ import annotations

import ctypes
import os
import signal
import time

import numpy as np

from backends import OutOfMemory
from tensorir import TensorIRError

ONCE = {"dies_once": signal.SIGKILL, "stops_once": signal.SIGSTOP}


def build(text: str, target: str):
    behaviour = text.split()[0]
    if behaviour == "compile_error":
        raise TensorIRError("syntax error near line 3")
    if behaviour == "compile_crash":
        os.kill(os.getpid(), 11)
    if behaviour == "compile_hang":
        time.sleep(60)
    if behaviour == "compile_eats":
        bytearray(1 << 40)
    if behaviour == "compile_family":
        _family(text)
    if behaviour == "compile_bug":
        raise IndexError("an emitter bug")
    if behaviour in ONCE:
        _die_once(text, "compile")
    return FakeKernel(text, behaviour)


class FakeKernel:
    """out = a + 1, or something else."""

    def __init__(self, text: str, behaviour: str) -> None:
        self.source = text
        self.seconds = float(text.split()[1]) if behaviour in ("ok", *ONCE) else 0.001
        self.sleeps = "really" in text
        self.behaviour = behaviour
        self.run = globals().get(f"_{behaviour}", _ok)
        if behaviour == "family":
            self.run = lambda a, out: _family(text)
        if behaviour in ONCE:
            self.run = lambda a, out: (_die_once(text, "check"), _ok(a, out))

    def __call__(self, a: np.ndarray, out: np.ndarray) -> None:
        self.run(a, out)

    def timer(self, a, out):
        def seconds(calls: int) -> float:
            if self.behaviour == "crash_in_time":
                os.kill(os.getpid(), 11)
            if self.behaviour in ONCE:
                _die_once(self.source, "time")
            self.run(a, out)
            if self.sleeps:
                time.sleep(self.seconds * calls)
            return self.seconds * calls

        return seconds


def _die_once(text, phase):
    """Be killed, or stopped, in the phase that the text names, unless its file is there, which is
    made then."""
    behaviour, _, wanted, path = text.split()
    if wanted == phase and not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), ONCE[behaviour])


def _family(text):
    """Hang, with a child in a session of its own and a daemon; the text says where their ids go."""
    pids = text.split()[1]
    stay = f"sh -c 'trap \"\" TERM INT IO; echo $$ >> {pids}; exec sleep 60'"
    os.system(f"setsid {stay} & (setsid {stay} >/dev/null 2>&1 &) ; {stay}")


def _eats(a, out):
    np.ones(1 << 37)


def _no_workspace(a, out):
    raise OutOfMemory("k: no memory for the workspace of the kernel")


def _eats_bit_by_bit(a, out):
    kept = []
    while True:
        kept.append(np.empty(1 << 27, np.uint8))  # not touched, which would take long


def _ok(a, out):
    np.add(a, 1, out=out)


def _slow(a, out):
    end = time.perf_counter() + 0.06
    while time.perf_counter() < end:
        pass
    np.add(a, 1, out=out)


def _segfault(a, out):
    ctypes.memset(8, 0, 1)


def _killed(a, out):
    os.kill(os.getpid(), 9)


def _exit(a, out):
    os._exit(3)


def _sleep(a, out):
    time.sleep(60)


def _sleep_with_lock(a, out):
    ctypes.PyDLL(None).sleep(60)


def _wrong(a, out):
    np.add(a, 2, out=out)


def _forgets_last(a, out):
    np.add(a[:-1], 1, out=out[:-1])


def _past_end(a, out):
    np.add(a, 1, out=out)
    ctypes.memset(out.ctypes.data + out.nbytes, 0, 4)


def _before_start(a, out):
    np.add(a, 1, out=out)
    ctypes.memset(out.ctypes.data - 8, 0, 4)


def _writes_input(a, out):
    np.add(a, 1, out=out)
    a[0] = 77


def _raises(a, out):
    raise ValueError("a runtime check")


def _prints(a, out):
    os.write(1, b'{"status": "ok"}\n')
    print("hello from the kernel")
    np.add(a, 1, out=out)
