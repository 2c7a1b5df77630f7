"""What programs printed and left in their folder, as an earlier run of the tests kept it where all was as it is now."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests import kept

Done = subprocess.CompletedProcess[str]


def recalled(folder: Path, key: str, run: Callable[[], Done]) -> Done:
    """Return how a program ended that runs in a folder, and leave there what it leaves.

    It is run where no earlier run of the tests kept that of the same key in a folder that held the same, or where all
    is to be judged anew.
    """
    key = kept.key_of(key, _held(folder))
    stored = None if kept.EVERYTHING else kept.read("runs", key)
    if stored is not None:
        return _put_back(folder, stored)
    done = run()
    _ran.append((key, _packed(folder, done)))
    return done


_ran: list[tuple[str, bytes]] = []


def settle(*, passed: bool) -> None:
    """Keep what has run since the last test, if that passed with it."""
    for key, packed in _ran:
        if passed:
            kept.write("runs", key, packed)
    _ran.clear()


def _held(folder: Path) -> list[tuple[str, bytes]]:
    """What a folder holds, with names relative to it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return [(str(file.relative_to(folder)), file.read_bytes()) for file in files]


def _packed(folder: Path, done: Done) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(folder, ".")
    return json.dumps([done.returncode, done.stdout, done.stderr]).encode() + b"\n" + packed.getvalue()


def _put_back(folder: Path, stored: bytes) -> Done:
    told, _, packed = stored.partition(b"\n")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(folder)
    return Done("a run that was kept", *json.loads(told))
