"""Starts the programs of the tests that need a torch: each in a Python of its own, or forked from one that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

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
    """Run Python with these arguments in a folder."""
    done = subprocess.run(
        [python, *arguments], cwd=folder, env=dict(environ), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, done.stderr
    return done


@cache
def torch_there() -> bool:
    """Whether the Python to test with has torch, which is not loaded."""
    command = [TORCH_PYTHON, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"]
    return subprocess.run(command, check=False, env=PLAIN).returncode == 0


def need_torch() -> None:
    """Skip where there is no torch."""
    if not torch_there():
        pytest.skip(f"{TORCH_PYTHON} has no torch; GPUPROF_TORCH_PYTHON can name another")


def run_torch(
    arguments: Iterable[str], folder: Path, environ: Mapping[str, str], code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a Python that has torch with these arguments in a folder; skip if there is no torch."""
    need_torch()
    return run(arguments, folder, environ, code, TORCH_PYTHON)


class Server:
    """A Python that loads torch and other modules when it is first asked, and runs each script.py in a forked child."""

    def __init__(self, environ: Mapping[str, str], modules: tuple[str, ...]) -> None:
        self._environ, self._modules = environ, modules
        self._process: subprocess.Popen[str] | None = None
        self._own = ExitStack()

    def run(
        self, folder: Path, code: int = 0, *, cuda: bool = False, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the script in a folder; with `cuda`, after what torch does at CUDA's first use."""
        if self._process is None:
            self._process = self._started()
        for name in ("stdout", "stderr"):
            (folder / name).write_text("")
        asks, answers = self._process.stdin, self._process.stdout
        assert asks is not None and answers is not None
        asks.write(json.dumps({"folder": str(folder), "variables": dict(variables or {}), "cuda": cuda}) + "\n")
        asks.flush()
        ended = int(answers.readline())
        stdout, stderr = (folder / "stdout").read_text(), (folder / "stderr").read_text()
        assert ended == code, stderr
        return subprocess.CompletedProcess("script.py", ended, stdout, stderr)

    def _started(self) -> subprocess.Popen[str]:
        """The server; what it says itself, but for answers, goes to stderr."""
        process = subprocess.Popen(
            [TORCH_PYTHON, *QUIET, str(_SERVER), *self._modules],
            cwd=self._own.enter_context(TemporaryDirectory()),
            env=dict(self._environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    def close(self) -> None:
        """End the server, if it was started."""
        if self._process is not None:
            with self._process as process:
                assert process.stdin is not None
                process.stdin.close()
                assert process.wait(60) == 0
        self._own.close()


class Servers(NamedTuple):
    """One server in which our part was loaded with torch, and one in which it was not."""

    with_us: Server
    without: Server


@contextmanager
def servers(with_us: Mapping[str, str], *modules: str) -> Iterator[Servers]:
    """Give both; skip where there is no torch."""
    need_torch()
    with closing(Server(with_us, modules)) as ours, closing(Server(PLAIN_TORCH, modules)) as plain:
        yield Servers(ours, plain)
