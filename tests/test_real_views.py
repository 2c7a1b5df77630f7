"""Properties of every view of a report: page, figures, notebook, JSON and groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprof.notebook import LoadedSession
from gpuprof.privacy.border import without_private
from gpuprof.store.page import read_session_html
from gpuprof.store.read import read_session
from gpuprof.store.write import session_lines
from gpuprof.views.profile import session_page
from tests.outline import Outline
from tests.readings import page_of, session_of, shown_session_of
from tests.test_groups import summary
from tests.worded import grouped


def test_pages_are_whole_and_give_the_session_back(real_report: Path) -> None:
    read = session_of(real_report)
    for page in (page_of(real_report), session_page(read, top=1), read._repr_html_()):
        outline = Outline(page)
        assert outline.open == [] and len(outline.ids) == len(set(outline.ids))
    back = read_session_html(page_of(real_report).encode("utf-8", "backslashreplace"), "page.html")
    assert LoadedSession.of(back) == without_private(shown_session_of(real_report))
    assert read_session("\n".join(session_lines(read)), "s.json") == read


def test_groups_are_the_same_either_way(real_report: Path) -> None:
    later, at_once = grouped(session_of(real_report)), session_of(real_report, groups=True)
    assert list(map(summary, at_once.kernels)) == list(map(summary, later.kernels))
    for ours, theirs in zip(at_once.kernels, later.kernels, strict=True):
        assert ours.time_share == pytest.approx(theirs.time_share)
        gains = [pytest.approx(finding.gain_total) for finding in theirs.findings]
        assert [finding.gain_total for finding in ours.findings] == gains
    assert {item.findings for item in at_once.recommendations} == {item.findings for item in later.recommendations}
    assert at_once.verdict == later.verdict
