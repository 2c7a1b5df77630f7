"""What the process that holds the GPU opens in tests: the fake GPU, on which the kernel named by HOSTILE never ends.

The probes are those of `fake_probes` in the folder FAKE_PROBES.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests import fake_probes
from tests.fake_gpu import FakeGpu

OPENER = "tests.hostile_gpu:open_gpu"


def open_gpu(_index: int) -> FakeGpu:
    """Return a fake GPU."""
    gpu = FakeGpu(fake_probes.every(Path(os.environ["FAKE_PROBES"])), noise=0)

    def hang(entry: str) -> None:
        while entry == os.environ.get("HOSTILE"):
            time.sleep(1000)

    gpu.fail_where = hang
    return gpu
