"""What every view of a report must hold: page, figures, notebook, JSON and groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprof.diagnose.grouping import grouped
from gpuprof.model.session import Session
from gpuprof.notebook import LoadedSession
from gpuprof.present.figures import hierarchical, overview
from gpuprof.present.html import render_html
from gpuprof.privacy.border import without_private
from gpuprof.store.page import read_session_html
from gpuprof.store.read import read_session
from gpuprof.store.write import session_lines
from tests.readings import page_of, session_of, shown_session_of
from tests.test_figures import digits
from tests.test_groups import summary
from tests.test_html import Outline


def test_pages_are_whole_and_give_the_session_back(real_report: Path) -> None:
    read = session_of(real_report)
    for page in (page_of(real_report), render_html(read, top=1), read._repr_html_()):
        outline = Outline(page)
        assert outline.open == [] and len(outline.ids) == len(set(outline.ids))
    back = read_session_html(page_of(real_report).encode("utf-8", "backslashreplace"), "page.html")
    assert LoadedSession.of(back) == without_private(shown_session_of(real_report))
    assert read_session("\n".join(session_lines(read)), "s.json") == read


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
    assert drawn | left == {item.id for item in read.kernels if item.device == device} and not drawn & left
    assert all(
        figure.intensity_range[0] < point.intensity < figure.intensity_range[1]
        and figure.flop_per_s_range[0] < point.flop_per_s < figure.flop_per_s_range[1]
        for point in figure.points
    )


def test_groups_are_the_same_either_way(real_report: Path) -> None:
    later, at_once = grouped(session_of(real_report)), session_of(real_report, groups=True)
    assert list(map(summary, at_once.kernels)) == list(map(summary, later.kernels))
    for ours, theirs in zip(at_once.kernels, later.kernels, strict=True):
        assert ours.time_share == pytest.approx(theirs.time_share)
        gains = [pytest.approx(finding.gain_total) for finding in theirs.findings]
        assert [finding.gain_total for finding in ours.findings] == gains
    assert {item.findings for item in at_once.opportunities} == {item.findings for item in later.opportunities}
    assert at_once.verdict == later.verdict
