"""Text in UTF-16, with a mark at its start or without, and in one file with UTF-8."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.errors import InputError
from gpuprof.model.recorded import Report
from gpuprof.read.files import read_file
from gpuprof.read.text_encoding import decoded, is_utf16
from tests.table import each_row

LOG = """\
==PROF== Connected to process 41 (C:\\app.exe)
  scale(float *) (16, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.9
    Section: GPU Speed Of Light Throughput
    --------------- ----------- ------------
    Metric Name     Metric Unit Metric Value
    --------------- ----------- ------------
    Duration            usecond         3.74
    DRAM Throughput           %        62.50
    --------------- ----------- ------------
"""
PAGE = """\
"ID","Process ID","Kernel Name","gpu__time_duration.sum"
"","","","us"
"0","41","scale","3.74"
"1","41","µ","2"
"""
SAID = "größer: ✓\n"


def encodings(text: str) -> dict[str, bytes]:
    """A log as shells write it: redirected, with what one program said before or another one says behind."""
    lines = text.replace("\n", "\r\n")
    return {
        "utf-8": lines.encode(), "utf-8 with a mark": lines.encode("utf-8-sig"), "little": lines.encode("utf-16-le"),
        "little with a mark": b"\xff\xfe" + lines.encode("utf-16-le"), "big": lines.encode("utf-16-be"),
        "big with a mark": b"\xfe\xff" + lines.encode("utf-16-be"),
        "appended to utf-8": SAID.encode() + lines.encode("utf-16-le"),
        "appended with a mark": SAID.encode() + b"\xff\xfe" + lines.encode("utf-16-le"),
        "utf-8 appended": b"\xff\xfe" + "hello\r\n".encode("utf-16-le") + lines.encode(),
        "utf-8 behind": b"\xff\xfe" + lines.encode("utf-16-le") + SAID.encode(),
        "with other letters": b"\xff\xfe" + (SAID + lines + SAID).encode("utf-16-le"),
    }  # fmt: skip


@each_row("text", [LOG, PAGE])
@each_row("packed", [False, True])
def test_a_log_is_read_in_every_encoding_that_a_shell_writes(text: str, packed: bool, tmp_path: Path) -> None:
    for name, data in encodings(text).items():
        path = tmp_path / ("log.gz" if packed else "log")
        path.write_bytes(gzip.compress(data) if packed else data)
        report = read_file(str(path))
        assert isinstance(report, Report), name
        assert report.launches[0].metrics.number("gpu__time_duration.sum") == pytest.approx(3.74e-6), name
        assert report.warnings == (), name


@given(st.text(alphabet=st.characters(codec="utf-16", exclude_characters="\0\n\r"), min_size=1))
def test_text_of_one_encoding_comes_back_as_it_was(text: str) -> None:
    whole = f"ncu {text.lstrip(chr(0xFEFF))}\n"
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        data = mark + whole.encode(encoding)
        if data.count(b"\n") == 1:
            assert decoded(data) == whole


@each_row(
    "data",
    [
        b"\x7fABC\0\1\2\3", b"abc\0\0\0def\0\0", bytes(range(256)) * 4, b"a.txt" + b"\0" * 95 + b"0000644\0ustar",
        b"\0\1" * 50,
    ],
)  # fmt: skip
def test_binary_data_is_no_text(data: bytes, tmp_path: Path) -> None:
    assert not is_utf16(data)
    (tmp_path / "data").write_bytes(data)
    with pytest.raises(InputError, match="binary data"):
        read_file(str(tmp_path / "data"))
