"""Findings in the terminal: the verdict, what to fix first over all kernels, and the findings of one kernel in full."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.model.session import Finding, KernelProfile
from gpuprof.present.console_parts import SEVERITY_STYLES, Sheet
from gpuprof.words.finding_text import (
    cause_text,
    certainty_text,
    evidence_texts,
    gain_text,
    location_text,
    remains_text,
)
from gpuprof.words.missing_metrics import without_counters
from gpuprof.words.recommendations import Summary
from gpuprof.words.sentences import change_texts

if TYPE_CHECKING:
    from rich.text import Text

_BAR_WIDTH = 8
_GAIN_WIDTH = len("~ 0.50–0.82 %")
_INDENT = 2
_DOT = " · "
_SPREAD_PART = 2
"""The part of a line, one in so many, in which it is said whole in what files or launches a kernel is."""
_BRIEF = ("low", "info")
_TEXT_COLUMN = _INDENT + _BAR_WIDTH + _GAIN_WIDTH + 2
_WORD = re.compile(r"""(?:\\.|[^\s'"\\]|'[^']*'|"(?:\\.|[^"\\])*")+""")
"""A word of a command line, with what is quoted in it."""


def verdict_lines(summary: Summary, sheet: Sheet, notes: int | None = None) -> Iterator[Text]:
    """Yield the state of what takes the time, how the time is spread, and what else a reader should know of both.

    `notes` says how many of the notes are given, None for all.
    """
    if summary.headline:
        yield sheet.paragraph(summary.headline, "bold")
    yield sheet.paragraph(summary.spread, "" if summary.headline else "bold")
    for note in summary.notes[:notes]:
        yield sheet.paragraph(note)


def finding_lines(kernel: KernelProfile, sheet: Sheet, *, whole: bool) -> Iterator[Text]:
    """Yield the findings of a kernel; unless `whole`, those with little to gain only by their headline."""
    from rich.text import Text

    brief = () if whole else _BRIEF
    for finding in kernel.findings:
        if finding.severity not in brief:
            yield Text("")
            yield from _card(finding, kernel, sheet)
    also = [_brief(finding, kernel) for finding in kernel.findings if finding.severity in brief]
    if also:
        yield Text("")
        yield sheet.field("also", also)


def _brief(finding: Finding, kernel: KernelProfile) -> str:
    if cause := cause_text(finding, kernel):
        return f"{finding.headline} ({cause})"
    return finding.headline if finding.severity == "info" else f"{finding.headline} ({gain_text(finding)})"


def _card(finding: Finding, kernel: KernelProfile, sheet: Sheet) -> Iterator[Text]:
    cause = cause_text(finding, kernel)
    style = "" if cause else "bold"
    yield sheet.field(finding.severity, finding.headline, style, SEVERITY_STYLES[finding.severity])
    if cause:
        yield sheet.field("cause", cause)
    yield sheet.field("gain", "; ".join(part for part in (gain_text(finding), remains_text(finding)) if part))
    yield sheet.field("why", finding.why)
    yield sheet.field("evidence", evidence_texts(finding))
    where = location_text(finding.place)
    if where:
        yield sheet.field("where", where)
    yield sheet.field("do", change_texts(finding.action, finding.advice))
    sure = certainty_text(finding.confidence, only_times=without_counters(kernel) is not None)
    yield sheet.field("sure", f"{sure}; rule {finding.rule}")
