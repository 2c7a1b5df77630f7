"""The tables of readers, output formats and counter sets: every row leads somewhere, and each is what it says."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path
from typing import get_args

import pytest

from gpuprof.collect.counter_sets import DEFAULT as DEFAULT_SET
from gpuprof.collect.counter_sets import SETS
from gpuprof.errors import InputError
from gpuprof.read.files import read_file
from gpuprof.read.identify import look_at
from gpuprof.read.readers import KINDS, Readable, kind_of
from gpuprof.views.formats import TABLE, Product, format_of_file, formats_of

READABLE = [kind for kind in KINDS if isinstance(kind, Readable)]
FORMATS = [form for product in get_args(Product) for form in formats_of(product).values()]


def test_every_row_leads_somewhere() -> None:
    for row in READABLE:
        assert row.reader.startswith(("gpuprof.read.", "gpuprof.store.")) and callable(pkgutil.resolve_name(row.reader))
    for form in FORMATS:
        assert bool(form.writer) != bool(form.view)
        for place in filter(None, (form.writer, form.view, form.report)):
            assert re.match(r"gpuprof\.(views|store|present|characterize\.present)\.", place)
            assert callable(pkgutil.resolve_name(place))
    assert all(TABLE in formats_of(product) for product in get_args(Product)) and DEFAULT_SET in SETS


def test_the_longest_ending_of_a_file_says_its_format() -> None:
    names = {
        "a.json": "json", "A.SARIF.JSON": "sarif", "gl-code-quality-report.json": "gitlab", "a.xml": "junit",
        "a.htm": "html", "a.markdown": "md",
    }  # fmt: skip
    for file, name in names.items():
        forms = format_of_file("comparison", file), format_of_file("review", file)
        assert [form and form.name for form in forms] == [name, name]
    assert format_of_file("comparison", "a.txt") is None and format_of_file("session", "a.xml") is None


def test_what_gpuprof_reads_is_told_by_the_rows(tmp_path: Path) -> None:
    # Braces in a name are text.
    noise = tmp_path / "{known}{0}.bin"
    noise.write_bytes(b"ab\0cd")
    with pytest.raises(InputError, match=re.escape("{known}{0}.bin")) as caught:
        read_file(str(noise))
    hint = caught.value.hint or ""
    assert all(kind.told.description in hint for kind in READABLE if kind.told)
    assert {kind.reader for kind in READABLE if kind.told} == {kind.reader for kind in READABLE}
    # What no other row knows is text of ncu if anything in it is.
    (tmp_path / "any").write_bytes(b"==PROF== Connected")
    assert kind_of(look_at(tmp_path / "any", "standard input")) is KINDS[-1]
