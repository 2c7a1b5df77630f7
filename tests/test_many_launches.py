"""Reading and diagnosing in several processes gives what one process gives, and damage is told as by one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import gpuprof
from gpuprof import workers
from gpuprof.diagnose import diagnose as diagnosing
from gpuprof.errors import DamagedInput
from gpuprof.model import analyse
from gpuprof.model.recorded import Launch
from gpuprof.model.session import Session
from gpuprof.read import many_launches
from gpuprof.read.launches import FactsReader, LaunchFacts
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.recordings import recordings
from gpuprof.store.write import session_lines
from gpuprof.workers import Worth, begun, processors
from tests import ncu_bytes
from tests.readings import unpacked
from tests.table import each_row

pytestmark = pytest.mark.skipif(processors() == 1 and not hasattr(os, "fork"), reason="this system cannot fork")

A100_GEMM = unpacked(next(recording for recording in recordings() if recording.name == "a100-gemm"))
Here = Callable[[bool], None]
ALL = Worth(1, each=1)


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> Here:

    def switch(on: bool) -> None:
        monkeypatch.setattr(workers, "processors", lambda: 2 if on else 1)
        monkeypatch.setattr(many_launches, "_WORTH", ALL)
        monkeypatch.setattr(many_launches, "_JOB_BYTES", 20_000)
        monkeypatch.setattr(analyse, "_WORTH", ALL)
        for worth in ("_WITH_CODE", "_WITH_COUNTERS", "_WITH_TIMES"):
            monkeypatch.setattr(diagnosing, worth, ALL)

    return switch


def facts(launch: Launch) -> tuple[object, ...]:
    numbers = [launch.metrics.number(name) for name in launch.metrics.names()]
    shape = (launch.grid, launch.block, launch.ranges, launch.process, launch.stream)
    return (launch.name, launch.demangled, launch.mangled, launch.device, launch.kind, shape, numbers)


def test_two_processes_read_what_one_reads(real_report: Path, several: Here) -> None:
    several(False)
    alone = read_ncu_rep(real_report)
    several(True)
    together = read_ncu_rep(real_report)
    assert [facts(launch) for launch in together] == [facts(launch) for launch in alone]
    assert together.devices == alone.devices
    assert (together.clock_control, together.sha256) == (
        alone.clock_control, alone.sha256
    )  # fmt: skip


@pytest.mark.slow
@each_row("groups", [False, True], ids=["launches", "groups"])
def test_two_processes_find_what_one_finds(groups: bool, several: Here) -> None:
    sessions: list[Session] = []
    for on in (False, True):
        several(on)
        sessions.append(gpuprof.load(A100_GEMM, groups=groups))
    alone, together = (list(session_lines(session)) for session in sessions)
    assert together == alone


def made(tmp_path: Path, *launches: bytes) -> Path:
    path = tmp_path / "made.ncu-rep"
    names = ("gpu__time_duration.sum", *ncu_bytes.A100)
    path.write_bytes(ncu_bytes.report(ncu_bytes.block(launches, names, process=4)))
    return path


def launch(name: str, more: bytes = b"") -> bytes:
    values = dict(enumerate((5000.0, *ncu_bytes.A100.values())))
    return ncu_bytes.launch(name, values) + more


def test_what_another_process_cannot_read_is_told_by_this_one(tmp_path: Path, several: Here) -> None:
    several(True)
    path = made(tmp_path, *[launch(f"k{at}") for at in range(80)], launch("broken", more=b"\x6a\x7f"))
    with pytest.raises(DamagedInput, match=r"at byte \d+"):
        read_ncu_rep(path)
    assert len(read_ncu_rep(path, salvage=True).launches) == 80


def test_a_process_that_dies_costs_nothing(tmp_path: Path, several: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    several(True)
    parent, read = os.getpid(), FactsReader.facts

    def deadly(reader: FactsReader, number: int) -> LaunchFacts:
        if os.getpid() != parent and number == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(reader, number)

    monkeypatch.setattr(FactsReader, "facts", deadly)
    report = read_ncu_rep(made(tmp_path, *[launch(f"k{at}") for at in range(30)]))
    assert [one.name for one in report] == [f"k{at}" for at in range(30)]
    assert {one.metrics.number("gpu__time_duration.sum") for one in report} == {5e-6}


@each_row("on", [False, True])
def test_what_was_begun_is_done_once_and_by_another_process_if_there_is_one(on: bool, several: Here) -> None:
    several(on)
    answer = begun(os.getpid)
    assert answer() == answer()
    assert (answer() != os.getpid()) is on


@each_row("on", [False, True])
def test_an_error_of_what_was_begun_is_raised_here(on: bool, several: Here, capfd: pytest.CaptureFixture[str]) -> None:
    several(on)
    answer = begun(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        answer()
    assert capfd.readouterr().err == ""


def test_what_a_process_died_of_is_done_here(several: Here) -> None:
    several(True)
    parent = os.getpid()
    assert begun(lambda: 7 if os.getpid() == parent else os._exit(1))() == 7
