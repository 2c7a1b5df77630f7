"""Starts the programs of the tests that need a torch: each in a Python of its own, or forked from one that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

import pytest

TORCH_PYTHON = os.environ.get("GPUPROF_TORCH_PYTHON", sys.executable)
PLAIN = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONPATH", "GPUPROF_ANNOTATE", "GPUPROF_SURVEY_TO")
}
# Test workers share the cores: threads of torch would wait for each other.
PLAIN_TORCH = {**PLAIN, "OMP_NUM_THREADS": "1"}
QUIET = ("-W", "ignore:Failed to initialize NumPy")
_SERVER = Path(__file__).with_name("torch_server.py")

NET = """
import sys
import torch
from torch import nn
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(8), MLP()
    def forward(self, x):
        return x + self.mlp(self.norm(x))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(2))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return {"out": x}
torch.manual_seed(0)
net, x = Net(), torch.ones(4, 8)
"""


def run(
    arguments: Iterable[str], folder: Path, environ: Mapping[str, str], code: int = 0, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run Python on words in a folder."""
    done = subprocess.run(
        [python, *arguments], cwd=folder, env=dict(environ), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, done.stderr
    return done


@cache
def has_torch() -> bool:
    """Whether there is a torch to test with; it is not loaded for that."""
    look = "import sys; from importlib.util import find_spec; sys.exit(find_spec('torch') is None)"
    return subprocess.run([TORCH_PYTHON, "-c", look], check=False, env=PLAIN).returncode == 0


def need_torch() -> None:
    """Skip where there is no torch."""
    if not has_torch():
        pytest.skip(f"{TORCH_PYTHON} has no torch; GPUPROF_TORCH_PYTHON can name another")


class Server:
    """A Python that has loaded torch, as it loads there, and runs each script.py in a forked child."""

    def __init__(self, asks: IO[str], answers: IO[str]) -> None:
        self._asks, self._answers = asks, answers

    def run(
        self, folder: Path, code: int = 0, *, cuda: bool = False, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the script in a folder; with `cuda` what torch does at CUDA's first use comes before it."""
        out, errors = folder / "stdout", folder / "stderr"
        for file in (out, errors):
            file.write_text("")
        asked = {"folder": str(folder), "variables": dict(variables or {}), "cuda": cuda}
        self._asks.write(f"{json.dumps(asked)}\n")
        self._asks.flush()
        ended = int(self._answers.readline())
        done = subprocess.CompletedProcess("script.py", ended, out.read_text(), errors.read_text())
        assert done.returncode == code, done.stderr
        return done


@contextmanager
def server(environ: Mapping[str, str], *modules: str) -> Iterator[Server]:
    """Start a server that loads modules in an environment; what it says itself, but for answers, goes to stderr."""
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(
            [TORCH_PYTHON, *QUIET, str(_SERVER), *modules],
            cwd=folder, env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Server(process.stdin, process.stdout)
        process.stdin.close()
        assert process.wait(60) == 0


class Servers(NamedTuple):
    """One server in which our part was loaded with torch, and one in which it was not."""

    with_us: Server
    without: Server


@contextmanager
def servers(with_us: Mapping[str, str], *modules: str) -> Iterator[Servers]:
    """Start both; skip where there is no torch."""
    need_torch()
    with server(with_us, *modules) as ours, server(PLAIN_TORCH, *modules) as plain:
        yield Servers(ours, plain)
