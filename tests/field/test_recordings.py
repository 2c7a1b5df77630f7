"""The recordings that ship, against the reports that they come from."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.recordings.__main__ import main
from benchmarks.recordings.values import values_of
from gpuprof.model.session import KernelProfile
from gpuprof.recordings import Recording, recordings
from tests.field.folder import folder, report
from tests.readings import report_of, session_of, unpacked

OF_OTHERS = {recording.name: recording for recording in recordings() if recording.origin is not None}
ORIGINALS = {
    "a40-beamformer": "indexspaces.jl-profile.ncu-rep",
    "a100-gemm": "cutlass-report-s8-persist.ncu-rep",
    "a10g-sgemm": "esmm-research-profile-26b457a.ncu-rep",
}


def test_the_script_writes_the_same_bytes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = tuple(OF_OTHERS.values())
    elsewhere = tuple(replace(recording, place=tmp_path / recording.place.name) for recording in shipped)
    monkeypatch.setattr("benchmarks.recordings.__main__.recordings", lambda: elsewhere)
    assert main([str(folder())]) == 0
    assert [again.report() == recording.report() for recording, again in zip(shipped, elsewhere, strict=True)] == [
        True
    ] * 3


@pytest.mark.parametrize("recording", OF_OTHERS.values(), ids=OF_OTHERS)
def test_a_recording_has_all_that_its_original_has_but_code_and_texts(recording: Recording) -> None:
    original = report(ORIGINALS[recording.name])
    mine, theirs = report_of(unpacked(recording)), report_of(original)
    for name in ("tool_version", "driver", "created_s", "clock_control", "cache_control", "devices"):
        assert getattr(mine, name) == getattr(theirs, name)
    assert {launch.process for launch in mine} == {launch.process for launch in theirs}
    assert mine.command is not None and theirs.command is not None
    environment = r"env LD_LIBRARY_PATH=\S* |(?<=\s)\S*/(?=\w)|^\S*/"
    assert mine.command == re.sub(environment, "", theirs.command).strip()
    assert f" {values_of(original, 1).program} " in f"{mine.command} "
    for ours, other in zip(mine, theirs, strict=False):
        names = {name for name in other.metrics.names() if not name.startswith(("group:", "breakdown:"))}
        assert set(ours.metrics.names()) == names
        for name in names:
            assert ours.metrics.number(name) == other.metrics.number(name)
            assert ours.metrics.instances(name) == other.metrics.instances(name)
    shipped, kernels = session_of(unpacked(recording)).kernels, session_of(original).kernels
    for kernel, whole in zip(shipped, kernels, strict=False):
        assert figures(kernel) == figures(whole)
        assert (places(kernel) and places(kernel) <= places(whole)) or not places(whole)
    assert len(shipped) == (3 if recording.steps else len(kernels))


def figures(kernel: KernelProfile) -> object:
    """Facts that need no code. FP16 work does: without code it cannot be separated from moves."""
    return (
        kernel.demangled, kernel.grid, kernel.block, kernel.stream, kernel.ranges, kernel.duration_s, kernel.occupancy,
        kernel.scheduler, kernel.throughput, kernel.traffic, kernel.stalls, kernel.pipes, kernel.sm_clock_hz,
        [work for work in kernel.work if work.path != "fp16"],
        [(finding.rule, finding.gain_kernel, finding.headline) for finding in kernel.findings],
    )  # fmt: skip


def places(kernel: KernelProfile) -> set[tuple[str, str, int | None]]:
    """Rule, file and line of each finding that has them; some take the code to find their line."""
    located = ((finding.rule, finding.place) for finding in kernel.findings)
    return {
        (rule, at.file.rpartition("/")[2], at.line) for rule, at in located if at is not None and at.file is not None
    }
