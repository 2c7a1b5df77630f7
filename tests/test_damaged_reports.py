"""Real small reports, truncated and altered in each of their parts: never a crash, a traceback or a silent loss."""

from __future__ import annotations

import faulthandler
import itertools
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuprof
from benchmarks.recordings.report_parts import raw_blocks
from gpuprof.errors import DamagedInput, GpuprofError
from gpuprof.read.container import walk
from gpuprof.read.files import read_file
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.store.write import session_lines
from tests.conftest import OWN_REPORTS, REAL_REPORTS, report_name
from tests.table import each_row

SMALL = [path for path in (*REAL_REPORTS, *OWN_REPORTS) if path.stat().st_size < 310_000]
KINDS = ("cut", "bytes", "stretch")
SEEDS = (40, 41)
"""Per kind of damage and part of a report; benchmarks/damage.py tries 300 places anywhere."""
COMPLAINTS = {
    "the file does not start with NVR", "the file header is cut off", "the file ends inside a length",
    "a block header of … bytes does not fit into the file", "a block declares … bytes and the file has …",
    "a block declares … entries and holds …", "a message has a field of unknown type",
    "a message has a field without a number", "a field is cut off",
    "a number is cut off", "a field has the wrong type",
}  # fmt: skip

Stretch = tuple[int, int]


def parts(data: bytes) -> dict[str, list[Stretch]]:
    """Where the parts of a report lie that damage meets differently: most of its bytes are values and code."""
    blocks = list(raw_blocks(data))
    launches = [span for block in blocks for span in block.kernels]
    programs = [span for block in blocks for span in block.sources]
    messages = [*launches, *programs, *(span for block in blocks for span in block.rest)]
    lengths = [0, *(block.header[0] - 4 for block in blocks), *(start - 4 for start, _ in messages)]
    return {
        "lengths": [(at, min(at + 16, len(data))) for at in lengths],
        "headers": [block.header for block in blocks],
        "launches": launches,
        "programs": programs,
        "anywhere": [(0, len(data))],
    }


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


def variants(path: Path) -> Iterator[tuple[tuple[str, str, int], bytes]]:
    """Damage each part of a report in each way, with what was done; the same every time."""
    data = path.read_bytes()
    for (part, where), kind, seed in itertools.product(parts(data).items(), KINDS, SEEDS):
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


@each_row("path", SMALL, ids=report_name)
def test_damage_is_an_error_or_changes_no_launch_count(path: Path, tmp_path: Path) -> None:
    whole = len(read_ncu_rep(path).launches)
    target = tmp_path / path.name
    for (part, kind, seed), variant in variants(path):
        target.write_bytes(variant)
        try:
            session = gpuprof.load(target)
        except GpuprofError as error:
            assert "damaged" in error.message or "does not start with NVR" in error.message, (part, kind, seed)
            continue
        assert kind != "cut", f"a truncated report was read as whole: {part} {seed}"
        assert len(session.kernels) == whole, (part, kind, seed)
        assert list(session_lines(session))


@pytest.mark.skipif(not REAL_REPORTS, reason="no real reports lie beside the checkout (../shared/reports)")
def test_the_damage_that_is_tried_is_of_every_kind_that_is_told_apart() -> None:
    found = [walk(variant).damage for path in SMALL for _, variant in variants(path)]
    assert {re.sub(r"\d+", "…", one.why) for one in found if one is not None} == COMPLAINTS
    assert found.count(None) > len(found) / 4, "much damage is not seen in the structure"


@pytest.mark.skipif(not REAL_REPORTS, reason="no real reports lie beside the checkout (../shared/reports)")
def test_half_a_report_says_how_many_kernels_could_be_read(tmp_path: Path) -> None:
    path = next(path for path in SMALL if path.name.startswith("hyper"))
    target = tmp_path / "half.ncu-rep"
    target.write_bytes(path.read_bytes()[:150_000])
    with pytest.raises(DamagedInput, match=r"at byte 137216, .*; 3 kernels could be read|; \d kernels could be read"):
        read_file(str(target))
    salvaged = read_ncu_rep(target, salvage=True)
    assert 0 < len(salvaged.launches) < 8
    assert salvaged.warnings
