"""Notebooks in processes forked from one that has imported what they import.

A kernel of Jupyter takes longer to start than most notebooks take to run. Here each has a process
of its own too, with the same kernel of IPython in it, which is asked in place of by sockets.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import nbformat

from tutorials.run import clean

PLOTS = "module://matplotlib_inline.backend_inline"
"""What a kernel of Jupyter sets MPLBACKEND to: plots are drawn into the notebook."""

IMPORTED = (
    "ipykernel.debugger", "ipykernel.inprocess.ipkernel", "ipykernel.inprocess.manager",
    "matplotlib.pyplot", "matplotlib_inline.backend_inline", "numpy.random", "pygments.lexers",
    "sqlite3", "tensorir.ops", "tensorir.te", "tensorir.interpreter", "tensorir.passes.lower",
    "tensorir.text", "schedule.schedule", "backends.build", "backends.c.backend",
    "autotune.rules", "autotune.tuning.tuner", "sklearn.ensemble", "xgboost",
)  # fmt: skip
"""What most notebooks import, when they begin or later."""

SHOWN = ("stream", "display_data", "execute_result", "error")
"""Messages of a kernel that are outputs of a cell."""


class Forks:
    """A process that runs notebooks, each in a fork of its own, until it is closed."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._connection, other = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(other,), daemon=False)
        self._process.start()
        other.close()

    def execute(self, path: Path, folder: Path, edit: Callable[[str], str] = str) -> Any:
        """As `execute` of tutorials/run.py. AssertionError for a cell that fails."""
        notebook = nbformat.read(path, as_version=4)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for cell in cells:
            cell.source = edit(cell.source)
        self._connection.send((str(folder), [cell.source for cell in cells]))
        for cell, outputs in zip(cells, self._connection.recv(), strict=False):
            cell.outputs = [nbformat.from_dict(output) for output in outputs]
            for output in cell.outputs:
                assert output.output_type != "error", "\n".join([cell.source, *output.traceback])
        return clean(notebook)

    def close(self) -> None:
        self._connection.close()
        self._process.join()


def _serve(connection: Connection) -> None:
    os.environ["MPLBACKEND"] = PLOTS
    for name in IMPORTED:
        import_module(name)
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 1000)  # as in the tests themselves
    while True:
        try:
            folder, sources = connection.recv()
        except EOFError:
            return
        if (child := os.fork()) == 0:
            _run_and_exit(connection, folder, sources)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            return  # the other end hears that nothing comes


def _run_and_exit(connection: Connection, folder: str, sources: list[str]) -> None:
    code = 1
    try:
        os.chdir(folder)
        connection.send(_outputs(sources))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _outputs(sources: list[str]) -> list[list[dict[str, Any]]]:
    """What each cell puts out, up to the first that fails."""
    from ipykernel.inprocess.manager import InProcessKernelManager

    manager = InProcessKernelManager()
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    found: list[list[dict[str, Any]]] = []
    for source in sources:
        client.execute(source)
        found.append([])
        while client.iopub_channel.msg_ready():
            message = client.iopub_channel.get_msg()
            if message["msg_type"] in SHOWN:
                found[-1].append(nbformat.v4.output_from_msg(message))
        if any(output["output_type"] == "error" for output in found[-1]):
            break
    return found
