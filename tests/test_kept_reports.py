"""What NVIDIA's report reader found out in a child is kept between runs: for the same bytes, and never in its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import gpuprof
from gpuprof.errors import DamagedInput
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.recordings import recordings
from tests import builders, kept, kept_reports, ncu_bytes
from tests.readings import unpacked

REPORT = ncu_bytes.simple_report([("k", {**ncu_bytes.A100, **builders.FLOP_1})])


@pytest.fixture
def forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The children that are started; nothing of these tests is kept."""
    started: list[int] = []
    fork = os.fork

    def counted() -> int:
        started.append(1)
        return fork()

    monkeypatch.setattr(os, "fork", counted)
    monkeypatch.setattr(kept, "PLACE", tmp_path / "kept")
    return started


def code_of(place: Path) -> list[ProfiledInstruction]:
    return [one for launch in read_ncu_rep(place) for one in launch.details.instructions()]


def test_the_code_of_a_report_is_recalled_as_it_was_read(forks: list[int]) -> None:
    place = unpacked(recordings()[-1])
    first = code_of(place)
    assert first
    assert len(forks) == 1, "a child has answered for the code"
    assert code_of(place) == first
    assert len(forks) == 1
    with kept_reports.asking():
        assert code_of(place) == first
    assert len(forks) == 2


def test_values_ask_no_child_and_damage_is_told_each_time(forks: list[int], tmp_path: Path) -> None:
    path = tmp_path / "r.ncu-rep"
    for data in (REPORT, REPORT, REPORT.replace(b"\x01k", b"\x01j")):
        path.write_bytes(data)
        gpuprof.load(path)
    assert not forks
    path.write_bytes(REPORT[:-20])
    for _ in range(2):
        with pytest.raises(DamagedInput, match="is damaged"):
            gpuprof.load(path)
