"""Prints how many values of two measured files of one GPU agree within 2 %, and which do not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def main(files: Sequence[str]) -> int:
    """Compare two files; return 0 whatever agrees: the number is the result."""
    from gpuprof.characterize.sheet.measured import load_measured
    from gpuprof.characterize.sheet.side_by_side import side_by_side

    rows = side_by_side(*(load_measured(Path(name)) for name in files))
    compared = [row for row in rows if row.ratio is not None]
    apart = [row for row in compared if row.word != "same"]
    print(f"{len(compared) - len(apart)} of {len(compared)} values agree within 2 %")
    for row in sorted(apart, key=lambda row: abs((row.ratio or 0) - 1), reverse=True):
        print(f"  {row.name}: {row.ratio:.4f} ({row.word})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
