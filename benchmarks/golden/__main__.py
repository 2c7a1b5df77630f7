"""The golden corpus: what gpuprof says about recorded files, as numbers, rules and verdicts without sentences.

    python -m benchmarks.golden [--field FOLDER]                 rewrite tests/golden
    python -m benchmarks.golden --against REV [--field FOLDER]   compare this tree with commit REV

FOLDER holds reports and traces of others. The first command is for intended changes: review its diff. It
keeps answers about files of the repository, and about files of FOLDER whose licence allows it. The second command
keeps nothing: it makes an environment for REV, asks both versions the same questions, also about all files of FOLDER,
and prints every value that differs, by file, kernel and field. The status is 1 if any does.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.golden.differences import differences
from benchmarks.golden.inputs import GoldenInput, field_inputs, own_inputs, permissive_inputs
from benchmarks.golden.revision import write_with
from benchmarks.golden.write import file_of, write

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the corpus, or compare it with that of another commit; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REV", help="compare with this commit")
    parser.add_argument("--field", type=Path, metavar="FOLDER", help="reports and traces of others")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository whose files are read")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="write the answers about all files into this folder")
    options = parser.parse_args(arguments)
    field = options.field.resolve() if options.field is not None else None
    if options.against is not None:
        return _compare(options.against, options.root, field)
    if options.all is not None:
        _write_all(options.root, field, options.all)
        return 0
    _write(own_inputs(options.root), GOLDEN)
    if field is not None:
        _write(permissive_inputs(options.root, field), GOLDEN / "field")
    return 0


def _write(questions: Iterable[GoldenInput], folder: Path) -> None:
    for name in write(questions, folder):
        print(name, file=sys.stderr)


def _write_all(root: Path, field: Path | None, folder: Path) -> None:
    _write(own_inputs(root), folder)
    if field is not None:
        _write(field_inputs(root, field), folder)


def _compare(revision: str, root: Path, field: Path | None) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = ["--root", str(root), *(["--field", str(field)] if field is not None else [])]
        write_with(revision, folder / "revision", [*given, "--all", str(folder / "old")])
        _write_all(root, field, folder / "new")
        return 1 if _print_differences(folder / "old", folder / "new") else 0


def _print_differences(old: Path, new: Path) -> int:
    """Print how the answers in two folders differ; return how many files do."""
    count = 0
    for name in sorted({path.stem for path in (*old.iterdir(), *new.iterdir())}):
        before, after = (
            json.loads(file_of(folder, name).read_text(encoding="utf-8")) if file_of(folder, name).exists() else {}
            for folder in (old, new)
        )
        lines = differences(before, after)
        if lines:
            count += 1
            print(name, *(f"  {line}" for line in lines), sep="\n")
    return count


if __name__ == "__main__":
    sys.exit(main())
