"""Readings that tests share are those of the product, and go by what is in a file."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import gpuprof
from gpuprof.read import files
from gpuprof.recordings import recordings
from tests import builders, ncu_bytes
from tests.readings import read_once, reading_once, report_of, session_of, unpacked

LAUNCH = {**ncu_bytes.A100, **builders.FLOP_1}
TRACE = '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "%s", "ts": 1, "dur": 2, "args": {}}]}'


def test_a_session_that_is_shared_is_what_load_gives() -> None:
    place = unpacked(recordings()[-1])
    assert session_of(place) == gpuprof.load(place)
    assert session_of(place) is session_of(place)
    assert session_of(place, groups=True) == gpuprof.load(place, groups=True)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "r.ncu-rep"
    for name in ("one", "two", "one"):
        path.write_bytes(ncu_bytes.simple_report([(name, LAUNCH)]))
        assert report_of(path).launches[0].name == name
    trace = tmp_path / "t.json"
    for name in ("one", "two"):
        trace.write_text(TRACE % name)
        assert read_once(str(trace)) == files.read_file(str(trace))


def test_the_product_reads_a_file_once_and_anew_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.ncu-rep"
    path.write_bytes(ncu_bytes.simple_report([("k", LAUNCH)]))
    first = report_of(path)
    with reading_once():
        assert files.read_file(str(path)).launches[0] is first.launches[0]  # type: ignore[union-attr]
        assert gpuprof.load(path) == session_of(path)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((TRACE % "k").encode())))
        assert [kernel.name for kernel in gpuprof.load("-").kernels] == ["k"]
    assert files.read_file(str(path)).launches[0] is not first.launches[0]  # type: ignore[union-attr]
