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


def test_every_row_leads_somewhere() -> None:
    for row in READABLE:
        assert row.reader.startswith(("gpuprof.read.", "gpuprof.store.")) and callable(pkgutil.resolve_name(row.reader))
    for writer in WRITERS:
        assert writer.place.startswith(("gpuprof.present.", "gpuprof.store."))
        assert callable(pkgutil.resolve_name(writer.place))
    assert {kind for row in READABLE for kind in row.gives} == set(SOURCE_KINDS)
    assert DEFAULT_FORMAT in FORMATS and DEFAULT_SET in SETS


def test_what_gpuprof_reads_is_told_by_the_rows(tmp_path: Path) -> None:
    # Braces in a name are text.
    noise = tmp_path / "{known}{0}.bin"
    noise.write_bytes(b"ab\0cd")
    with pytest.raises(InputError, match=re.escape("{known}{0}.bin")) as caught:
        read_file(str(noise))
    hint = caught.value.hint or ""
    assert all(kind.told.description in hint for kind in READABLE if kind.told)
    assert {kind.kind for kind in READABLE if kind.told} == {kind.kind for kind in READABLE}
    # What no other row knows is text of ncu.
    (tmp_path / "any").write_bytes(b"anything")
    assert kind_of(look_at(tmp_path / "any", "standard input")) is KINDS[-1]


def test_the_name_of_a_file_to_read_is_known_by_its_end() -> None:
    names = "a.ncu-rep", "A.NCU-REPZ", "a.nsight-cuprof-report", "a.csv", "a.json", "a.json.gz", "a.sqlite", "a.html"
    assert [name for name in names if not has_name_of_a_file(name)] == []
    others = "train.py", "python", "csv", "./a.out", "a.nsys-rep", ""
    assert [name for name in others if has_name_of_a_file(name)] == []


@each_row("group", get_args(Group))
def test_every_group_of_a_set_adds_metrics(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    arch = SpecLibrary().arch("sm_90")
    assert arch is not None
    for name, groups in (("bare", ()), ("more", (group,))):
        monkeypatch.setitem(SETS, name, replace(SETS["roofline"], groups=groups))
    assert set(metrics_of(arch, "bare")) < set(metrics_of(arch, "more"))


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
    assert ("shortened" in done.stderr) == form.kernels.warns
    assert "shortened" in (done.stdout if not form.kernels.warns else done.stderr)
