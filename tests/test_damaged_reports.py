"""Small reports, truncated and altered in each of their parts: never a crash, a traceback or a silent loss."""

from __future__ import annotations

import faulthandler
import itertools
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import gpuprof
from benchmarks.recordings.report_parts import raw_blocks
from gpuprof.errors import GpuprofError
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.recordings import recordings
from gpuprof.store.write import session_lines
from tests.conftest import OWN_REPORTS
from tests.readings import unpacked

SMALL = [
    min(OWN_REPORTS, key=lambda path: path.stat().st_size),
    *(unpacked(recording) for recording in recordings() if recording.name == "a40-beamformer"),
]
KINDS = ("cut", "bytes", "stretch")
SEEDS = (40, 41)
"""Per kind of damage and part of a report; the second one is slow. benchmarks/damage.py tries 300 places anywhere."""

Stretch = tuple[int, int]


def parts(data: bytes) -> dict[str, list[Stretch]]:
    """Where the parts of a report lie that damage meets differently: most of its bytes are values and code."""
    blocks = list(raw_blocks(data))
    launches = [span for block in blocks for span in block.kernels]
    programs = [span for block in blocks for span in block.sources]
    messages = [*launches, *programs, *(span for block in blocks for span in block.rest)]
    lengths = [0, *(block.header[0] - 4 for block in blocks), *(start - 4 for start, _ in messages)]
    named = {
        "lengths": [(at, min(at + 16, len(data))) for at in lengths], "headers": [block.header for block in blocks],
        "launches": launches, "programs": programs, "anywhere": [(0, len(data))],
    }  # fmt: skip
    return {name: stretches for name, stretches in named.items() if stretches}


def damaged(data: bytes, where: list[Stretch], kind: str, rng: random.Random) -> bytes:
    """Cut a report in such a part, change one to twenty of its bytes there, or overwrite a stretch from there on."""
    start, end = rng.choice(where)
    at = rng.randrange(start + 1, end)
    if kind == "cut":
        return data[:at]
    changed = bytearray(data)
    if kind == "bytes":
        for _ in range(rng.choice((1, 3, 20))):
            changed[rng.randrange(*rng.choice(where))] = rng.randrange(256)
    else:
        for each in range(at, min(len(changed), at + rng.randrange(1, 200))):
            changed[each] = rng.randrange(256)
    return bytes(changed)


def variants(path: Path, seeds: Sequence[int] = SEEDS) -> Iterator[tuple[tuple[str, str, int], bytes]]:
    """Damage each part of a report in each way, with what was done; the same every time."""
    data = path.read_bytes()
    for (part, where), kind, seed in itertools.product(parts(data).items(), KINDS, seeds):
        yield (part, kind, seed), damaged(data, where, kind, random.Random(f"{path.name} {part} {kind} {seed}"))


@pytest.fixture(autouse=True)
def silent_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let children crash without a word of pytest's fault handler: that they may is what is tested."""
    fork = os.fork

    def silent_fork() -> int:
        child = fork()
        if child == 0:
            faulthandler.disable()
        return child

    monkeypatch.setattr(os, "fork", silent_fork)


@pytest.mark.parametrize("seed", [SEEDS[0], pytest.param(SEEDS[1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_damage_is_an_error_or_changes_no_launch_count(path: Path, seed: int, tmp_path: Path) -> None:
    whole = len(read_ncu_rep(path).launches)
    target = tmp_path / path.name
    for (part, kind, _), variant in variants(path, (seed,)):
        target.write_bytes(variant)
        try:
            session = gpuprof.load(target)
        except GpuprofError as error:
            assert "damaged" in error.message or "first bytes" in error.message, (part, kind)
            continue
        assert kind != "cut", f"a truncated report was read as whole: {part}"
        assert len(session.kernels) == whole, (part, kind)
        assert list(session_lines(session))
