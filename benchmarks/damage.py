"""Cuts and alters reports at random, 300 times each, and counts how reading them ends."""

from __future__ import annotations

import collections
import random
import subprocess
import sys
import tempfile
from pathlib import Path

VARIANTS = 300


def main() -> int:
    """Print the outcomes per report; exit 1 if any variant ended in a crash, a traceback or an internal error."""
    if len(sys.argv) < 2:
        sys.stderr.write("usage: damage.py REPORT...\n")
        return 2
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:]:
            outcomes = collections.Counter(
                outcome(variant, Path(folder)) for variant in variants(Path(name).read_bytes())
            )
            bad += sum(count for kind, count in outcomes.items() if kind not in ("shown", "refused"))
            print(f"{Path(name).name}: {dict(outcomes)}")
    return 1 if bad else 0


def variants(data: bytes) -> list[bytes]:
    """A third cut short, a third with one to twenty bytes changed, a third with a stretch overwritten."""
    made = []
    for seed in range(VARIANTS):
        rng = random.Random(seed)
        changed = bytearray(data)
        if seed % 3 == 0:
            changed = changed[: rng.randrange(len(data))]
        elif seed % 3 == 1:
            for _ in range(rng.choice((1, 3, 20))):
                changed[rng.randrange(len(data))] = rng.randrange(256)
        else:
            start = rng.randrange(len(data))
            for at in range(start, min(len(data), start + rng.randrange(1, 200))):
                changed[at] = rng.randrange(256)
        made.append(bytes(changed))
    return made


def outcome(data: bytes, folder: Path) -> str:
    """Show a variant in a process of its own and say how that ended."""
    path = folder / "variant.ncu-rep"
    path.write_bytes(data)
    command = [sys.executable, "-m", "gpuprof", "show", "--format", "json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return "shown"
    if done.returncode == 5 and done.stderr.startswith("error: ") and "internal error" not in done.stderr:
        return "refused"
    return f"exit {done.returncode}: {done.stderr[:120]!r}"


if __name__ == "__main__":
    sys.exit(main())
