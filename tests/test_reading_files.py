"""What happens around reading: encodings, salvage, specs that do not fit, and the page without a report."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

import gpuprof
from gpuprof.errors import InputError
from gpuprof.text import printable
from gpuprof.views.exports.csv_files import kernel_lines
from gpuprof.views.markdown import escape
from tests import hand_made, ncu_bytes
from tests.table import each_row

CSV = '"ID","Process ID","Kernel Name","gpu__time_duration.sum"\n"","","","usecond"\n"0","1","k()","5"\n'


@each_row("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_csv_is_read_in_the_encodings_that_shells_write(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    path.write_bytes(mark + CSV.encode(encoding))
    assert gpuprof.load(path).kernels[0].duration_s == pytest.approx(5e-6)


_REPORT = ncu_bytes.simple_report([("k", {"gpu__time_duration.sum": 5.0})])


@each_row(
    ("name", "content"),
    [("a.ncu-rep.gz", _REPORT), ("a.csv.gz", CSV.encode()), ("a.log.gz", CSV.encode("utf-16")), ("renamed", _REPORT)],
    ids=["report", "CSV", "UTF-16", "another name"],
)
def test_what_gzip_has_packed_is_read_as_if_it_had_not(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content))
    session = gpuprof.load(path)
    assert [kernel.label for kernel in session.kernels] == ["k"]
    assert session.sources[0].file == path.name


@each_row(
    ("packed", "message"),
    [
        (gzip.compress(_REPORT)[:-20], "unpacked"),
        (gzip.compress(_REPORT + bytes(2**25)), "16 MiB"),
        (gzip.compress(_REPORT[:-9]), "damaged"),
        (gzip.compress(gzip.compress(_REPORT)), "archive"),
        (gzip.compress(b"\x7fELF" + bytes(99)), "archive"),
        (gzip.compress(b""), "archive"),
    ],
    ids=["cut", "too large", "a cut report", "twice", "a program", "nothing"],
)
def test_what_gzip_has_packed_and_cannot_be_read_says_so(packed: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-rep.gz"
    path.write_bytes(packed)
    with pytest.raises(InputError, match=rf"a\.ncu-rep\.gz .*{message}"):
        gpuprof.load(path)


def test_hidden_characters_become_visible_and_markdown_is_escaped() -> None:
    texts = {"a\x1b[31mb": "a\\x1b[31mb", "x\u202ey": "x\\u202ey", "naïve κ": "naïve κ", "tab\there": "tab\\x09here"}
    assert {text: printable(text) for text in texts} == texts
    assert escape("a|b<c>[d](e)`f`") == "a\\|b\\<c\\>\\[d\\](e)\\`f\\`"
    assert escape("@someone at user@host") == "@&#8203;someone at user@&#8203;host"


@each_row("name", ["=1+1", "+1", "-1", "@sum", "＝1+1", "＋1", "－1", "＠sum", "\t=1+1", "\r=1+1"])
def test_a_spreadsheet_takes_no_name_for_a_formula(name: str) -> None:
    (row,) = csv.DictReader(kernel_lines(hand_made.session(hand_made.kernel(label=name))))
    assert row["label"].startswith(("'", "\\x"))
