"""PyTorch compiled by inductor, with max-autotune; compiling a row takes many seconds."""

from __future__ import annotations

import torch

from benchmarks.peers.libraries import torch_forms
from benchmarks.peers.libraries.torch_forms import as_array, version
from benchmarks.peers.task import Call, Task

__all__ = ["as_array", "prepare", "start", "version"]


def start(threads: int) -> None:
    torch_forms.start(threads)
    torch._inductor.config.freezing = True  # weights of modules are constants


class _Row(torch.nn.Module):
    """The row, with its constants as parameters, as a network holds its weights."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.function = torch_forms.function_of(task)
        tensors = dict(zip(task.inputs, torch_forms.tensors_of(task)))
        self.names = list(tensors)
        self.given = [t for name, t in tensors.items() if name not in task.constants]
        for name in task.constants:
            self.register_buffer(f"held_{name}", tensors[name])
        self.held = set(task.constants)

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        rest = iter(given)
        return self.function(
            *(getattr(self, f"held_{n}") if n in self.held else next(rest) for n in self.names)
        )


def prepare(task: Task) -> dict[str, Call]:
    torch._dynamo.reset()
    row = _Row(task).eval()
    compiled = torch.compile(row, mode="max-autotune", fullgraph=True, dynamic=False)
    given = row.given
    return {"max-autotune": lambda: compiled(*given)}
