"""The tables of readers, output formats and counter sets: every row leads somewhere, and each is what it says."""

from __future__ import annotations

import pkgutil
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from gpuprof.collect.counter_sets import DEFAULT as DEFAULT_SET
from gpuprof.collect.counter_sets import SETS, Group
from gpuprof.collect.metrics import metrics_of
from gpuprof.errors import InputError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.sources import SOURCE_KINDS
from gpuprof.present.formats import DEFAULT as DEFAULT_FORMAT
from gpuprof.present.formats import FORMATS, Format
from gpuprof.read.files import read_file
from gpuprof.read.identify import look_at
from gpuprof.read.readers import KINDS, Readable, has_name_of_a_file, kind_of
from tests.cli import gpuprof
from tests.table import each_row
from tests.test_ncu_csv import raw_page

READABLE = [kind for kind in KINDS if isinstance(kind, Readable)]
WRITERS = [writer for form in FORMATS.values() for writer in (form.kernels, form.times, form.tree) if writer]


@each_row("place", sorted({kind.reader for kind in READABLE}))
def test_every_reader_is_where_its_row_says(place: str) -> None:
    assert place.startswith(("gpuprof.read.", "gpuprof.store."))
    assert callable(pkgutil.resolve_name(place))


def test_what_gpuprof_reads_is_told_by_the_rows(tmp_path: Path) -> None:
    noise = tmp_path / "noise.bin"
    noise.write_bytes(b"ab\0cd")
    with pytest.raises(InputError) as caught:
        read_file(str(noise))
    hint = caught.value.hint or ""
    assert hint.startswith(
        "gpuprof reads .ncu-rep, .ncu-repz, .nsight-cuprof-report, ncu's CSV, ncu's text, PyTorch traces "
        "(.json, .json.gz), nsys exports (.sqlite), its own session.json"
    )
    assert all(kind.told.description in hint for kind in READABLE if kind.told)
    assert {kind.kind for kind in READABLE if kind.told} == {kind.kind for kind in READABLE}


@each_row(
    "name", ["a.ncu-rep", "A.NCU-REPZ", "a.nsight-cuprof-report", "a.csv", "a.json", "a.json.gz", "a.sqlite", "a.html"]
)
def test_the_name_of_a_file_to_read_is_known_by_its_end(name: str) -> None:
    assert has_name_of_a_file(name)


@each_row("word", ["train.py", "python", "csv", "./a.out", "a.nsys-rep", ""])
def test_other_words_are_no_names_of_files_to_read(word: str) -> None:
    assert not has_name_of_a_file(word)


def test_what_readers_give_is_what_the_contract_knows() -> None:
    assert {kind for row in READABLE for kind in row.gives} == set(SOURCE_KINDS)


def test_what_no_other_row_knows_is_text_of_ncu(tmp_path: Path) -> None:
    (tmp_path / "any").write_bytes(b"anything")
    assert kind_of(look_at(tmp_path / "any", "standard input")) is KINDS[-1]


@each_row("place", sorted({writer.place for writer in WRITERS}))
def test_every_writer_is_where_its_row_says(place: str) -> None:
    assert place.startswith(("gpuprof.present.", "gpuprof.store."))
    assert callable(pkgutil.resolve_name(place))


def test_defaults_are_rows() -> None:
    assert DEFAULT_FORMAT in FORMATS
    assert DEFAULT_SET in SETS


@each_row("group", get_args(Group))
def test_every_group_of_a_set_adds_metrics(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    arch = SpecLibrary().arch("sm_90")
    assert arch is not None
    for name, groups in (("bare", ()), ("more", (group,))):
        monkeypatch.setitem(SETS, name, replace(SETS["roofline"], groups=groups))
    assert set(metrics_of(arch, "bare")) < set(metrics_of(arch, "more"))


def test_braces_in_a_name_are_text(tmp_path: Path) -> None:
    noise = tmp_path / "{known}{0}.bin"
    noise.write_bytes(b"ab\0cd")
    with pytest.raises(InputError, match=re.escape("{known}{0}.bin is binary data")):
        read_file(str(noise))


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "t.json"
    trace.write_text('{"traceEvents": []}')

    def refuse(size: int, name: str) -> None:
        raise InputError(f"{name} has {size} bytes")

    monkeypatch.setattr("gpuprof.read.torch_json.check_size", refuse)
    monkeypatch.setattr("gpuprof.read.torch_trace.read_trace_file", lambda *_: pytest.fail("it was read"))
    with pytest.raises(InputError, match="has 19 bytes"):
        read_file(str(trace))


@each_row("form", FORMATS.values(), ids=list(FORMATS))
def test_warnings_stand_beside_what_cannot_hold_them(form: Format, tmp_path: Path) -> None:
    text = raw_page({"a__x.sum": ("inst", ["1", "2"]), "b__x.sum": ("inst", ["3", "4"])})
    (tmp_path / "a.csv").write_text(text.removesuffix(',"4"\n') + "\n")
    done = gpuprof("show", tmp_path / "a.csv", "--format", form.name)
    assert done.returncode == 0
    told = "was dropped or shortened"
    assert (told in done.stderr) == form.kernels.warns
    assert told in " ".join((done.stdout if not form.kernels.warns else done.stderr).split())
