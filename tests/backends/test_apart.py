"""Work in a thread of its own: what it gives, and what Ctrl-C and the end of a process do to it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from backends.apart import TooLate, run_apart


def test_it_gives_and_raises_what_the_work_does():
    assert run_apart(lambda: threading.current_thread().name, "one", 60) == "one"
    with pytest.raises(ZeroDivisionError):
        run_apart(lambda: 1 // 0, "two", 60)


def test_what_takes_too_long_goes_on():
    ended = threading.Event()
    with pytest.raises(TooLate):
        run_apart(lambda: ended.wait(60), "late", 0.01)
    assert not ended.is_set()
    ended.set()


def script(text: str) -> subprocess.Popen[str]:
    head = "import atexit, os, sys, threading, time\nfrom backends.apart import run_apart\n"
    command = [sys.executable, "-c", head + text]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


INTERRUPTED = """
start = threading._start_new_thread
def interrupted(*given):
    start(*given)
    raise KeyboardInterrupt
threading._start_new_thread = interrupted
def work():
    time.sleep(0.5)
    print("worked", flush=True)
atexit.register(time.sleep, 0.2)
try:
    run_apart(work, "w", 60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_while_the_thread_starts():
    """The process still waits for it: NVRTC crashes if it does not."""
    process = script(INTERRUPTED)
    assert process.communicate(timeout=60) == ("interrupted\nworked\n", "")
    assert process.returncode == 0


def test_the_second_ctrl_c_ends_the_process():
    process = script("print('ready', flush=True)\nrun_apart(lambda: time.sleep(600), 'w', 600)")
    assert process.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and said.count("KeyboardInterrupt") == 1


def test_a_forked_child_waits_for_nothing_of_its_parent():
    text = """
begun = threading.Event()
def work():
    begun.set()
    time.sleep(1)
thread = threading.Thread(target=run_apart, args=(work, "w", 60))
thread.start()
begun.wait()
child = os.fork()
if not child:
    print(run_apart(lambda: "child", "c", 60), flush=True)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    process = script(text)
    said, _ = process.communicate(timeout=60)
    assert said == "child\n7\n" and process.returncode == 0


def test_nothing_begins_at_the_end_of_the_process():
    text = "atexit.unregister(sys.modules['backends.apart']._wait_for_all)\n"
    text += "def late():\n    sys.modules['backends.apart']._wait_for_all()\n"
    text += "    run_apart(print, 'w', 60)\natexit.register(late)"
    process = script(text)
    assert "the process ends" in process.communicate(timeout=60)[1]
    assert process.returncode == 0
