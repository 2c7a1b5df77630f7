"""Writes the recordings that gpuprof ships from the reports that they come from.

    python -m benchmarks.recordings FOLDER

FOLDER holds the reports as their repositories have them, under any names; recordings/recordings.yaml names each by
git's id of its contents. The same reports give the same bytes. Returns 2 where a report is not in FOLDER.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command_line import run
from benchmarks.recordings.report_file import report_file
from benchmarks.recordings.values import values_of
from gpuprof.errors import UsageError
from gpuprof.recordings import recordings


def main(arguments: Sequence[str] | None = None) -> int:
    """Write every recording of others and return the exit code; every error has been printed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recordings", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.set_defaults(run=write)
    return run(parser, arguments)


def write(options: argparse.Namespace) -> int:
    """Write the recordings, and say how large each is."""
    ids = {_git_id(path): path for path in sorted(options.folder.rglob("*.ncu-rep"))}
    for recording in recordings():
        origin = recording.origin
        if origin is None:
            continue
        if origin.blob not in ids:
            hint = f"{origin.path} of {origin.repository}: git show {origin.blob}"
            raise UsageError(f"no report in {options.folder} is {recording.name}'s", hint)
        data = report_file(values_of(ids[origin.blob], origin.launches), recording.command)
        packed = gzip.compress(data, 9, mtime=0)
        recording.place.write_bytes(packed)
        sys.stdout.write(f"{recording.place.name}: {len(packed)} bytes, unpacked {len(data)}\n")
    return 0


def _git_id(path: Path) -> str:
    """Return the name that git gives to a file's contents."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
