"""A page gives its session back; other pages, and damaged ones, are refused with a sentence."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuprof
from gpuprof.cli.main import cli
from gpuprof.errors import DamagedInput, GpuprofError, InputError
from gpuprof.model.session import Session
from gpuprof.privacy.border import without_private
from gpuprof.store import page as store_page
from gpuprof.store.page import read_session_html
from gpuprof.store.write import session_lines
from gpuprof.views.profile import session_page
from tests.table import each_row
from tests.test_figures import TWO, kernel, session

BLOCK = re.compile(r'(<script type="application/octet-stream" id="gpuprof-session">\n)(.*?)(\n</script>)', re.DOTALL)


@cache
def page() -> str:
    return session_page(without_private(TWO))


def carrying(data: bytes) -> bytes:
    """Return the page with other packed data."""
    packed = base64.b64encode(data).decode()
    return BLOCK.sub(lambda block: block[1] + packed + block[3], page()).encode()


def text_of(session: Session) -> str:
    return "\n".join(session_lines(session))


def test_a_page_is_loaded_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(), encoding="utf-8")
    clean = without_private(TWO)
    assert gpuprof.load(path) == clean
    assert read_session_html(carrying(gzip.compress(text_of(clean).encode())), "page.html") == clean
    name = '<script type="application/octet-stream" id="gpuprof-session">AAAA</script>'
    hostile = session(kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label=name))
    assert read_session_html(session_page(hostile).encode(), "page.html").kernels[0].label == name


def test_show_and_report_read_a_page(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(), encoding="utf-8")
    shown = CliRunner().invoke(cli, ["show", "--format", "json", str(path)], catch_exceptions=False)
    assert json.loads(shown.stdout)["kernels"][0]["label"] == "kernel_1"
    piped = CliRunner().invoke(cli, ["show", "-"], input=page().encode(), catch_exceptions=False)
    assert "kernel_1" in piped.stdout
    again = tmp_path / "again.html"
    CliRunner().invoke(cli, ["report", str(path), "-o", str(again)], catch_exceptions=False)
    assert again.read_text(encoding="utf-8") == page()


@each_row(
    "change",
    [
        lambda text: text[: text.index("</script>") - 50].encode(),
        lambda text: BLOCK.sub(r"\1\2!\3", text).encode(),
        lambda text: BLOCK.sub(r"\1\2A\3", text).encode(),
        lambda text: (text + "".join(BLOCK.findall(text)[0])).encode(),
        lambda _: carrying(b""),
        lambda _: carrying(b"plain"),
        lambda _: carrying(lzma.compress(b"{}")[:-8]),
        lambda _: carrying(gzip.compress(b"{}")[:-3]),
        lambda _: carrying(gzip.compress(b"{}") + b"more"),
        lambda _: carrying(lzma.compress(b"{}") + b"more"),
        lambda _: carrying(lzma.compress(b"[" * 100_000)),
    ],
)
def test_a_damaged_page_is_refused(change: Callable[[str], bytes]) -> None:
    with pytest.raises(DamagedInput):
        read_session_html(change(page()), "page.html")


def test_bombs_are_refused_before_they_are_unpacked_and_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_page, "LARGEST_SESSION", 2**20)
    for compress in (gzip.compress, lzma.compress):
        with pytest.raises(DamagedInput, match="1 MiB"):
            read_session_html(carrying(compress(b" " * 2_000_000)), "page.html")
    monkeypatch.setattr(store_page, "LARGEST_SESSION", 1000)
    large = session_page(TWO)
    assert "gpuprof-session" not in large
    with pytest.raises(InputError):
        read_session_html(large.encode(), "page.html")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 10_000))
def test_any_damage_is_a_sentence(noise: bytes, place: int) -> None:
    data = page().encode()
    start = data.index(b"gpuprof-session") + place
    try:
        read_session_html(data[:start] + noise + data[start + len(noise) :], "page.html")
    except GpuprofError as error:
        assert "page.html" in error.message
