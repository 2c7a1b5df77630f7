"""`-` and pipes: whatever can be read of a file can be read of them, and nothing of it stays."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gpuprof.errors import InputError
from gpuprof.model.recorded import Report
from gpuprof.read.files import read_file
from tests import builders, ncu_bytes
from tests.cli import GPUPROF
from tests.table import each_row
from tests.zstd_bytes import compressed

PLAIN = ncu_bytes.simple_report([("gemm", {**ncu_bytes.A100, **builders.FLOP_1})])
CSV = b'"ID","Process ID","Kernel Name","gpu__time_duration.sum"\n"","","","usecond"\n"0","1","k()","5"\n'


def piped(data: bytes, *words: str, temporary: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    environ = {**os.environ, "COLUMNS": "80", "TMPDIR": str(temporary)}
    return subprocess.run(
        [*GPUPROF, *words], input=data, capture_output=True, env=environ, cwd=cwd, check=False, timeout=60
    )


def read(data: bytes, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    return read_file("-")


@each_row("data", [PLAIN, compressed(PLAIN), CSV], ids=["ncu-rep", "ncu-repz", "csv"])
def test_a_report_of_each_kind_is_read_under_the_name_of_standard_input(
    data: bytes, emptied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = read(data, monkeypatch)
    assert isinstance(report, Report)
    assert (report.file, len(report.launches)) == ("standard input", 1)


@each_row(
    ("data", "told"),
    [
        (b"", "empty"), (b"PK\x03\x04zip", "archive"), (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"SQLite format 3\0" + b"\0" * 100, ""), (b"\0\1\2\3", "binary"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_as_of_a_file(
    data: bytes, told: str, emptied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=f"^standard input .*{told}") as raised:
        read(data, monkeypatch)
    assert str(emptied) not in raised.value.message


@pytest.mark.slow
@each_row("command", ["show", "report", "roofline"])
def test_the_commands_read_a_piped_report(command: str, tmp_path: Path) -> None:
    more = ("--format", "json") if command == "roofline" else ()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = piped(PLAIN, command, "-", *more, temporary=temporary, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"gemm" in done.stdout and list(temporary.iterdir()) == []
    assert b"input" not in done.stderr.replace(b"standard input", b"")


@pytest.mark.slow
@each_row(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)])
def test_a_signal_leaves_nothing_of_it(sent: signal.Signals, code: int, tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    started = subprocess.Popen(
        [*GPUPROF, "show", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
    )
    assert started.stdin is not None
    started.stdin.write(PLAIN)
    started.stdin.flush()
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("gpuprof-*/input")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(tmp_path.glob("gpuprof-*/input"))
    started.send_signal(sent)
    # The pipe stays open: nothing but the signal ends it.
    assert started.wait(30) == code
    started.communicate()
    assert list(tmp_path.iterdir()) == []
