"""A summary short enough to paste into a review: verdict, what to fix first, the longest kernels, provenance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.time_by import TimeBy
from gpuprof.present.kernel_columns import kernel_columns
from gpuprof.present.time_by_text import columns_of, header_text, note_texts, rows_of_cells
from gpuprof.text import printable
from gpuprof.words.profile_values import count_text, device_text, row_noun, source_text
from gpuprof.words.recommendations import RecommendationText, Summary, summary_of
from gpuprof.words.timeline import timeline_facts

_TICKS = re.compile("`+")
_SPECIAL = "\\`*_{}[]<>|#~!$&"
_SOURCES_SHOWN = 3
_LEFT = frozenset({"name", "longest"})
_ALIGNED = {"kernel": "---", "main stall": "---", "first finding": "---"}
"""How columns begin and end; that of numbers ends below each other."""


def markdown_lines(
    session: Session, kernels: list[KernelProfile], top: int, times: TimeBy | None = None
) -> Iterator[str]:
    """Yield the verdict, what to fix first, a table of the `top` kernels (0: all), or of operators where `times` has
    them, and where the numbers come from.
    """
    summary = summary_of(session)
    yield from _verdict(summary)
    yield from _fix_first(summary)
    for label, text in timeline_facts(session):
        yield f"- {escape(label)}: {escape(text)}"
    if session.timeline is not None:
        yield ""
    if times is None:
        yield from _kernel_table(session, kernels, top)
    else:
        yield from times_lines(session, times, top)
        yield ""
    yield from _provenance(session)


def times_lines(_session: Session, times: TimeBy, top: int) -> Iterator[str]:
    """Yield the total, the table of the `top` longest groups (0: all) with one row for the others, and notes."""
    columns = columns_of(times, top)
    yield f"**{escape(header_text(times))}**"
    yield ""
    yield f"| {' | '.join(columns.values())} |"
    yield f"|{'|'.join('---' if name in _LEFT else '--:' for name in columns)}|"
    for cells in rows_of_cells(times, top):
        yield f"| {' | '.join(escape(cells[name]) for name in columns)} |"
    notes = list(note_texts(times, top))
    if notes:
        yield ""
    yield from (f"{escape(note)}  " for note in notes)


def _kernel_table(session: Session, kernels: Sequence[KernelProfile], top: int) -> Iterator[str]:
    """The table of kernels, and how many are not in it."""
    shown = kernels[: top or None]
    columns = kernel_columns(session, shown)
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join(_ALIGNED.get(head, '--:') for head in columns)}|"
    for kernel in shown:
        yield f"| {' | '.join(escape(cell(kernel)) for cell in columns.values())} |"
    yield ""
    if len(kernels) > len(shown):
        noun, plural = row_noun(session.kernels)
        yield f"{count_text(len(kernels) - len(shown), f'more {noun}', plural)} not shown.  "


def _verdict(summary: Summary) -> Iterator[str]:
    """The state of what takes the time in bold, and how the time is spread."""
    if summary.headline:
        yield f"**{escape(summary.headline)}**"
        yield ""
    yield escape(" ".join((summary.spread, *summary.notes)))
    yield ""


def _fix_first(summary: Summary) -> Iterator[str]:
    """The fixes in their order, and what is not known."""
    if summary.fixes:
        yield f"**Fix first**, {escape(summary.legend)}"
        yield ""
        for index, item in enumerate(summary.fixes, 1):
            yield _fix(index, item)
        yield ""
    left_out = f"And {summary.left_out}." if summary.left_out else ""
    command = f" {_code(summary.command)}" if summary.command else ""
    for text in (left_out, summary.nothing, escape(summary.unknown) + command):
        if text:
            yield text
            yield ""


def _code(text: str) -> str:
    """Write text as code that can be copied, whatever quotes are in it."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    ticks = "`" * (longest + 1)
    return f"{ticks} {printable(text)} {ticks}"


def _fix(index: int, item: RecommendationText) -> str:
    """One fix a line. Numbers have no `#`, which review tools would take for an issue."""
    gain = f"{item.gain} ({item.limits})" if item.limits else item.gain
    kernels = item.kernels.removeprefix("#")
    about = ", ".join(part for part in (item.where, item.rule, item.confidence) if part)
    action = f" → {escape(item.action)}" if item.action else ""
    return f"{index}. **{escape(gain)}** {escape(item.headline)}{action} – {escape(kernels)} ({escape(about)})"


def _provenance(session: Session) -> Iterator[str]:
    for device in session.devices:
        yield f"GPU: {escape(device_text(device))}  "
    for source in session.sources[:_SOURCES_SHOWN]:
        file = f"{escape(source.file)} (sha256 {escape(source.sha256[:12])})"
        yield f"Report: {file}, {escape(source_text(source))}  "
    if len(session.sources) > _SOURCES_SHOWN:
        yield f"and {count_text(len(session.sources) - _SOURCES_SHOWN, 'more report')}  "
    yield (f"gpuprof {escape(session.gpuprof_version)}; DRAM roofline: at the kernel's own clock.")


def escape(text: str) -> str:
    """Make text harmless in Markdown: no markup, no HTML, no links, no mention of a user, one line.

    Review tools look for mentions in what is rendered, where `\\@` and `&#64;` are an `@` again: a space of no width
    behind it is what stops them.
    """
    plain = "".join(f"\\{char}" if char in _SPECIAL else char for char in printable(text))
    return plain.replace("://", ":\\//").replace("www.", "www\\.").replace("@", "@&#8203;")
