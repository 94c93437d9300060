"""Run the notebooks and keep their outputs: `python tutorials/run.py [NOTEBOOK ...]`.

Without names, all notebooks of this folder and those below it. A notebook is rewritten only if it
ran without an error and without a warning.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

HERE = Path(__file__).resolve().parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""What every notebook says about its kernel: nothing about the machine that ran it."""

CELL_TIMEOUT_S = 300


def notebooks() -> list[Path]:
    """All notebooks, in the order of their names."""
    found = sorted(HERE.rglob("*.ipynb"))
    return [path for path in found if ".ipynb_checkpoints" not in path.parts]


def execute(path: Path, folder: str | Path, edit: Callable[[str], str] = str) -> Any:
    """Run the notebook in `folder` and return it with its outputs.

    `edit` may change the text of each code cell before. The packages of this checkout are
    importable in it. Raises CellExecutionError of nbclient for a cell that fails.
    """
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = edit(cell.source)
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    env.pop("MPLBACKEND", None)  # so that plots are drawn into the notebook
    with tempfile.TemporaryDirectory() as sockets:
        # Sockets are files here: ports may be taken before the kernel opens them.
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        client = NotebookClient(
            notebook,
            km=kernel,
            timeout=CELL_TIMEOUT_S,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute(env=env, cleanup_kc=True)
    return clean(notebook)


def clean(notebook: Any) -> Any:
    """The notebook without metadata that differ from run to run."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
    return notebook


def stderr_of(notebook: Any) -> str:
    """What the cells wrote to the standard error."""
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    return "".join(o.text for o in outputs if o.get("name") == "stderr")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0] + ".")
    parser.add_argument("notebooks", nargs="*", type=Path, help="paths; all of them by default")
    for path in parser.parse_args().notebooks or notebooks():
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(path.resolve(), folder)
        warnings = stderr_of(notebook)
        if warnings:
            print(f"{path.name} was not rewritten, it has warnings:\n{warnings}", file=sys.stderr)
            return 1
        nbformat.write(notebook, path)
        print(f"{path.name}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells")
    return 0


if __name__ == "__main__":
    sys.exit(main())
