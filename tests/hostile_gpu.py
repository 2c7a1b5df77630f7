"""What the process that holds the GPU opens in tests: the fake GPU, on which one kernel does what HOSTILE says.

`HOSTILE=ENTRY:DEED`, where the deed is `hang`, `abort`, `killed`, `trap`, `memory` or `bug`; `HOSTILE=open:DEED` does
it when the GPU is opened. The probes are those of `fake_probes` in the folder FAKE_PROBES.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from gpuprof.characterize.record.gpu import DeviceError
from gpuprof.errors import EnvironmentProblem
from tests import fake_probes
from tests.fake_gpu import FakeGpu

OPENER = "tests.hostile_gpu:open_gpu"


class Refusing(FakeGpu):
    """A GPU whose context is broken after a trap, as CUDA's is."""

    broken = False


def open_gpu(_index: int) -> FakeGpu:
    """Return a fake GPU."""
    victim, _, deed = os.environ.get("HOSTILE", "").partition(":")
    if victim == "open":
        do(deed)
    laws = {"bank_conflict_load_4": lambda call: 32 * (call.arguments["ways"] + 1.5)}
    gpu = Refusing(fake_probes.every(Path(os.environ["FAKE_PROBES"])), laws, noise=0)

    def fail(entry: str) -> None:
        if gpu.broken:
            raise DeviceError("an illegal address", fatal=True)
        if entry == victim:
            gpu.broken = deed == "trap"
            do(deed)

    gpu.fail_where = fail
    return gpu


def do(deed: str) -> None:
    """Do what a broken kernel or driver does."""
    if deed == "hang":
        while True:
            time.sleep(1000)
    if deed == "abort":
        sys.stderr.write("free(): invalid pointer\n")
        sys.stderr.flush()
        os.abort()
    if deed == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "trap":
        raise DeviceError("an illegal address", fatal=True)
    if deed == "memory":
        raise MemoryError
    if deed == "bug":
        raise IndexError("list index out of range")
    if deed == "missing":
        raise EnvironmentProblem("there is no GPU 0; this process sees 0", "choose one with --device")
