"""Reading source and SASS survives whatever the native reader does: the child process answers, dies or hangs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gpuprof.errors import DamagedInput
from gpuprof.read import ncu_code
from gpuprof.read.ncu_code import CodeReader, InstructionPlace

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


class Position:
    def file_name(self) -> str:
        return "k.cu"

    def line(self) -> int:
        return 7


class Program:
    """Stands for NVIDIA's reader: the process border of these tests."""

    def __init__(self, sass: Any = "FADD R0, R1, R2 ") -> None:
        self.sass = sass

    def source_files(self) -> dict[str, str]:
        return {"k.cu": "a\nb\udc80" * 50_000}

    def source_info(self, pc: int) -> Position | None:
        return Position() if pc else None

    def sass_by_pc(self, pc: int) -> str:
        if callable(self.sass):
            self.sass()
        return str(self.sass)


def reader(*programs: Program) -> CodeReader:
    return CodeReader(Path("r.ncu-rep"), programs)


def test_source_and_places_come_from_the_child() -> None:
    code = reader(Program(), Program("EXIT"))
    assert code.sources(0)["k.cu"].count("\n") == 50_000
    assert code.places(0, [16, 0]) == {
        16: InstructionPlace("FADD R0, R1, R2", "k.cu", 7),
        0: InstructionPlace("FADD R0, R1, R2", None, None),
    }
    assert code.places(1, [32])[32].sass == "EXIT"


def test_a_crash_is_an_error_and_other_kernels_still_answer() -> None:
    code = reader(Program(lambda: os.kill(os.getpid(), signal.SIGUSR1)), Program("EXIT"))
    with pytest.raises(DamagedInput, match="crashes \\(SIGUSR1\\)"):
        code.places(0, [16])
    assert code.places(1, [32])[32].sass == "EXIT"


def test_an_exception_of_the_reader_is_an_error() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(DamagedInput, match="fails \\(ValueError\\)"):
        reader(Program(fail)).places(0, [16])


def test_a_reader_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu_code, "_TIMEOUT_S", 0.2)
    with pytest.raises(DamagedInput, match="does not finish within"):
        reader(Program(signal.pause)).places(0, [16])


def test_after_many_crashes_nothing_more_is_tried() -> None:
    code = reader(Program(lambda: os.kill(os.getpid(), signal.SIGKILL)))
    for _ in range(4):
        with pytest.raises(DamagedInput, match="SIGKILL"):
            code.places(0, [16])
    with pytest.raises(DamagedInput, match="crashed too often"):
        code.places(0, [16])


def test_no_child_is_left_behind() -> None:
    code = reader(Program())
    code.sources(0)
    child = code._child
    assert child is not None
    pid = child._pid
    del code, child
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


@pytest.mark.parametrize("told", ["N/A", "???", " ??? "])
def test_what_the_reader_says_for_no_code_is_no_sass(told: str) -> None:
    assert reader(Program(told)).places(0, [16]) == {16: InstructionPlace("", "k.cu", 7)}
