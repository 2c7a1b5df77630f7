"""What every view of every real report must hold: terminal, page, figures, notebook, Markdown, JSON and groups."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuprof.diagnose.grouping import grouped
from gpuprof.model.session import Session
from gpuprof.notebook import LoadedSession
from gpuprof.present.figures import hierarchical, overview
from gpuprof.present.html import render_html
from gpuprof.present.markdown import markdown_lines
from gpuprof.privacy.border import without_private
from gpuprof.store.page import read_session_html
from gpuprof.store.read import read_session
from gpuprof.store.write import session_lines
from tests import test_notebook
from tests.readings import page_of, session_of, shown_session_of
from tests.table import each_row
from tests.test_console import flat, shown
from tests.test_figures import digits
from tests.test_groups import summary
from tests.test_html import Outline


def assert_whole(outline: Outline) -> None:
    """Every element of a page is closed, and no two have one name."""
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))


def test_a_page_is_whole_and_no_phrase_is_broken_by_what_is_missing(real_report: Path) -> None:
    outline = Outline(page_of(real_report))
    assert_whole(outline)
    text = " ".join((flat(shown(shown_session_of(real_report))), *outline.texts))
    assert not re.search(r"not collected (each|in all|achieved|median|theoretical)|known for base", text)


@each_row("name", ["sglang-profile.ncu-rep", "nukexc-profile.ncu-rep", "csv/bert-torch-details.csv"])
def test_a_page_of_single_launches_is_whole(reports: Path, name: str) -> None:
    assert_whole(Outline(render_html(session_of(reports / name), top=1)))


def test_a_session_survives_its_page(real_report: Path) -> None:
    back = read_session_html(page_of(real_report).encode("utf-8", "backslashreplace"), "page.html")
    assert LoadedSession.of(back) == without_private(shown_session_of(real_report))


def test_a_session_survives_its_json(real_report: Path) -> None:
    session = session_of(real_report)
    assert read_session("\n".join(session_lines(session)), "s.json") == session


def test_figures_have_all_points_inside(real_report: Path) -> None:
    read = session_of(real_report)
    for device in read.devices:
        for level in ("dram", "l2", "l1"):
            assert_all_inside(read, device.id, level)
    for item in read.kernels[:5]:
        assert digits(hierarchical(read, item.id))


def assert_all_inside(read: Session, device: int, level: str) -> None:
    """Every kernel of a GPU is drawn inside the frame, or is said to be left out."""
    figure = overview(read, device, level)
    drawn = {point.kernel for point in figure.points}
    left = {number for group in figure.left_out for number in group.kernels}
    mine = {item.id for item in read.kernels if item.device == device}
    assert drawn | left == mine
    assert not drawn & left
    assert all(
        figure.intensity_range[0] < point.intensity < figure.intensity_range[1]
        and figure.flop_per_s_range[0] < point.flop_per_s < figure.flop_per_s_range[1]
        for point in figure.points
    )


def test_a_notebook_shows_it_whole_and_short(real_report: Path) -> None:
    text = session_of(real_report)._repr_html_()
    assert test_notebook.Outline(text).open == [] and len(text) < 40_000


def test_markdown_is_short(real_report: Path) -> None:
    read = session_of(real_report)
    assert len(list(markdown_lines(read, list(read.kernels), 20))) <= 40


def test_groups_are_the_same_either_way(real_report: Path) -> None:
    later, at_once = grouped(session_of(real_report)), session_of(real_report, groups=True)
    assert list(map(summary, at_once.kernels)) == list(map(summary, later.kernels))
    for one, two in zip(at_once.kernels, later.kernels, strict=True):
        assert one.time_share == pytest.approx(two.time_share)
        assert [finding.gain_total for finding in one.findings] == [
            pytest.approx(finding.gain_total) for finding in two.findings
        ]
    assert {item.findings for item in at_once.opportunities} == {item.findings for item in later.opportunities}
    assert at_once.verdict == later.verdict
