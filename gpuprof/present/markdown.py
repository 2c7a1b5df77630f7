"""A summary short enough to paste into a review: verdict, what to fix first, the longest kernels, provenance."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuprof.model.headline import first_finding
from gpuprof.model.session import KernelProfile, Session
from gpuprof.present.flop_text import of_peak_text
from gpuprof.present.recommendation_text import (
    RecommendationText,
    command_text,
    headline_text,
    more_text,
    nothing_text,
    recommendation_texts,
    recommendations_note,
    unknown_text,
)
from gpuprof.present.session_text import (
    count_text,
    device_text,
    duration_spread,
    duration_text,
    limit_text,
    percent_text,
    roof_text,
    row_noun,
    share_text,
    source_text,
    stall_text,
    time_text,
    verdict_text,
)
from gpuprof.present.source_names import in_source
from gpuprof.present.text import printable
from gpuprof.present.timeline_text import timeline_facts

_TICKS = re.compile("`+")
_SPECIAL = "\\`*_{}[]<>|#~!$&"
_SOURCES_SHOWN = 3
_COUNTERS, _TIMES = ("busiest", "DRAM roofline", "occupancy", "main stall"), ("median", "p95", "p99")


def markdown_lines(session: Session, kernels: list[KernelProfile], top: int) -> Iterator[str]:
    """Yield the verdict, what to fix first, the table of the `top` kernels (0: all) and where the numbers come from."""
    yield from _verdict(session)
    yield from _fix_first(session)
    for label, text in timeline_facts(session):
        yield f"- {escape(label)}: {escape(text)}"
    if session.timeline is not None:
        yield ""
    timed = session.only_times
    shown = kernels[:top] if top else kernels
    with_peak = timed and any(of_peak_text(kernel.operator_flop, kernel.operator_bytes) for kernel in shown)
    columns = (*(("of peak",) if with_peak else ()), *_TIMES) if timed else _COUNTERS
    yield f"| kernel | launches | time | share | {' | '.join(columns)} | first finding |"
    yield f"|---|--:|--:|--:|{'--:|' * (len(columns) - 1)}{'--:' if timed else '---'}|---|"
    for kernel in shown:
        yield _row(kernel, in_source(session, kernel), timed=timed, with_peak=with_peak)
    yield ""
    if len(kernels) > len(shown):
        noun, plural = row_noun(session.kernels)
        yield f"{count_text(len(kernels) - len(shown), f'more {noun}', plural)} not shown.  "
    yield from _provenance(session)


def _verdict(session: Session) -> Iterator[str]:
    """The state of what takes the time in bold, and how the time is spread."""
    headline = headline_text(session)
    if headline:
        yield f"**{escape(headline)}**"
        yield ""
    notes = session.verdict.notes if session.verdict is not None else ()
    yield escape(" ".join((verdict_text(session), *notes)))
    yield ""


def _fix_first(session: Session) -> Iterator[str]:
    """The fixes in their order, and what is not known."""
    first, nothing, unknown = recommendation_texts(session), nothing_text(session), unknown_text(session)
    if first:
        yield f"**Fix first**, {escape(recommendations_note(session))}"
        yield ""
        for index, item in enumerate(first, 1):
            yield _fix(index, item)
        yield ""
        if more := more_text(session):
            yield f"And {more}."
            yield ""
    elif nothing:
        yield nothing
        yield ""
    if unknown:
        command = command_text(session)
        yield f"{escape(unknown)} {_code(command)}" if command else escape(unknown)
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


def _row(kernel: KernelProfile, source: str, *, timed: bool, with_peak: bool) -> str:
    first = first_finding(kernel)
    counted = (
        limit_text(kernel),
        roof_text(kernel),
        percent_text(kernel.occupancy.achieved),
        stall_text(kernel),
    )
    cells = (
        kernel.label + source,
        count_text(kernel.launches, "", "").strip(),
        time_text(kernel),
        share_text(kernel),
        *((of_peak_text(kernel.operator_flop, kernel.operator_bytes),) if with_peak else ()),
        *(map(duration_text, duration_spread(kernel)) if timed else counted),
        first.rule if first is not None else "–",
    )
    return f"| {' | '.join(map(escape, cells))} |"


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
