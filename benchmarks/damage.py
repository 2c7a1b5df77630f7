"""Cuts and alters reports at random and counts how reading them ends: nothing but a session or a clear refusal is good.

`python -m benchmarks.damage VARIANTS REPORT...` makes that many variants of all reports together. Each is read in a
process of its own, half of them with `--salvage`; the longest time is told, and 60 s are too long.
"""

from __future__ import annotations

import collections
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from pathlib import Path
from typing import NoReturn

import gpuprof
from gpuprof.errors import GpuprofError
from gpuprof.store.write import session_lines

_PATIENCE_S = 60.0
_SHOWN, _REFUSED, _BROKEN = 0, 5, 70
_GOOD = ("shown", "refused", "salvaged")


def main() -> int:
    """Print the outcomes per report; exit 1 if any variant ended in a crash, a traceback or a silent loss."""
    if len(sys.argv) < 3:
        sys.stderr.write("usage: python -m benchmarks.damage VARIANTS REPORT...\n")
        return 2
    variants, reports = int(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    bad, longest_s = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for at, report in enumerate(reports):
            outcomes: collections.Counter[str] = collections.Counter()
            data = report.read_bytes()
            deque(session_lines(gpuprof.load(report)), maxlen=0)  # so that no fork has to import what it takes
            for seed in range(at, variants, len(reports)):
                start = time.monotonic()
                outcomes[outcome(data, seed, Path(folder))] += 1
                longest_s = max(longest_s, time.monotonic() - start)
            bad += sum(count for kind, count in outcomes.items() if kind not in _GOOD)
            print(f"{report.name}: {dict(outcomes)}", flush=True)
    print(f"{variants} variants, {bad} bad, {longest_s:.2f} s at most")
    return 1 if bad else 0


def damaged(data: bytes, seed: int) -> tuple[bytes, bool]:
    """Cut a report short, change one to twenty of its bytes, or overwrite a stretch; tell whether it is cut."""
    rng = random.Random(seed)
    kind = rng.randrange(3)
    if kind == 0:
        return data[: rng.randrange(len(data))], True
    changed = bytearray(data)
    if kind == 1:
        for _ in range(rng.choice((1, 3, 20))):
            changed[rng.randrange(len(data))] = rng.randrange(256)
    else:
        start = rng.randrange(len(data))
        for at in range(start, min(len(data), start + rng.randrange(1, 200))):
            changed[at] = rng.randrange(256)
    return bytes(changed), False


def outcome(data: bytes, seed: int, folder: Path) -> str:
    """Read a variant in a fork of this process, and say how that ended."""
    changed, cut = damaged(data, seed)
    salvage = random.Random(~seed).random() < 0.5
    path = folder / "variant.ncu-rep"
    path.write_bytes(changed)
    child = os.fork()
    if child == 0:
        _read(path, salvage=salvage)
    status = _status(child)
    left = [entry.name for entry in folder.iterdir() if entry != path]
    if left:
        return f"left behind: {left}"
    if status == _SHOWN:
        whole = "silent loss: a cut report was read as whole"
        return "salvaged" if salvage else whole if cut else "shown"
    return "refused" if status == _REFUSED else f"ended with {status} at seed {seed}"


def _status(child: int) -> int:
    """Wait for a process, and return its exit code; that of a signal is negative, as of one that took too long."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGALRM


def _read(path: Path, *, salvage: bool) -> NoReturn:
    """Do what `gpuprof show --format json` does, and end the process."""
    code = _BROKEN
    try:
        for _ in session_lines(gpuprof.load(path, salvage=salvage)):
            pass
        code = _SHOWN
    except GpuprofError as error:
        code = _REFUSED if str(error) else _BROKEN
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
