"""A session as a small piece of HTML inside a notebook: no script, no style sheet, legible on light and on dark."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from gpuprof.model.headline import by_time, first_finding
from gpuprof.model.session import KernelProfile, Session
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
    limit_text,
    percent_text,
    roof_text,
    share_text,
    source_text,
    stall_text,
    time_text,
    verdict_text,
)
from gpuprof.present.source_names import in_source
from gpuprof.present.text import printable

_KERNELS_SHOWN = 10
_BAR = "#0072b2"
_CELL = "text-align:left;padding:.15em 1.2em .15em 0;vertical-align:top;border:0"
_NUMBER = (
    "text-align:right;padding:.15em 1.2em .15em 0;vertical-align:top;border:0;white-space:nowrap;"
    "font-variant-numeric:tabular-nums"
)
_MUTED = "opacity:.7"
_HEADS = (
    "#",
    "kernel",
    "launches",
    "time",
    "share",
    "busiest",
    "DRAM roofline",
    "occupancy",
    "main stall",
    "first finding",
)
_LEFT = ("kernel", "main stall", "first finding")


def notebook_html(session: Session) -> str:
    """Return the verdict, what to fix first, the longest kernels, and where the numbers come from."""
    return "".join(_parts(session))


def _parts(session: Session) -> Iterator[str]:
    yield '<div style="max-width:76em;line-height:1.45;overflow-x:auto">'
    yield from _verdict(session)
    yield from _fix_first(session)
    kernels = by_time(session.kernels)
    if kernels:
        yield from _kernel_table(session, kernels[:_KERNELS_SHOWN])
    hidden = len(kernels) - _KERNELS_SHOWN
    if hidden > 0:
        yield f"<p>{_muted(f'{hidden} more are in to_dataframe()')}</p>"
    places = [device_text(device) for device in session.devices]
    places += [f"{source.file}, {source_text(source)}" for source in session.sources]
    yield f'<p style="{_MUTED}">{"<br>".join(map(_escaped, places))}</p>'
    yield "</div>"


def _verdict(session: Session) -> Iterator[str]:
    """The state of what takes the time, how the time is spread, and what else a reader should know."""
    headline, context = headline_text(session), verdict_text(session)
    notes = session.verdict.notes if session.verdict is not None else ()
    if headline:
        yield f"<p><strong>{_escaped(headline)}</strong></p>"
        yield f"<p>{_escaped(' '.join((context, *notes)))}</p>"
    else:
        yield f"<p><strong>{_escaped(context)}</strong></p>"


def _fix_first(session: Session) -> Iterator[str]:
    """The fixes in their order, and what is not known."""
    first = recommendation_texts(session)
    if first:
        yield f"<p><strong>Fix first</strong> {_muted(recommendations_note(session))}</p>"
        yield '<table style="border-collapse:collapse;border:0"><tbody>'
        yield from map(_fix, first)
        yield "</tbody></table>"
        if more := more_text(session):
            yield f"<p>{_muted(f'and {more}')}</p>"
    elif nothing := nothing_text(session):
        yield f"<p>{_escaped(nothing)}</p>"
    if unknown := unknown_text(session):
        command = command_text(session)
        code = f'<br><code style="overflow-wrap:anywhere">{_escaped(command)}</code>' if command else ""
        yield f"<p>{_escaped(unknown)}{code}</p>"


def _fix(item: RecommendationText) -> str:
    """Return one fix as a row, with a bar where it has one."""
    width = 6 * min(1.0, max(0.0, item.bar or 0.0))
    style = f"background:{_BAR};height:.7em;width:{width:.2f}em;min-width:2px;margin-top:.4em"
    bar = f'<div style="{style}{";opacity:.5" if item.doubt else ""}"></div>' if item.bar is not None else ""
    about = " · ".join(part for part in (item.limits, item.kernels, item.where, item.rule, item.confidence) if part)
    action = f"<br>→ <strong>{_escaped(item.action)}</strong>" if item.action else ""
    text = f"{_escaped(item.headline)}{action}<br>{_muted(about)}"
    return (
        f'<tr><td style="{_CELL};width:6em">{bar}</td><td style="{_NUMBER}">{_escaped(item.gain)}</td>'
        f'<td style="{_CELL}">{text}</td></tr>'
    )


def _kernel_table(session: Session, kernels: Sequence[KernelProfile]) -> Iterator[str]:
    yield '<table style="border-collapse:collapse;border:0;margin-top:1em"><thead><tr>'
    for head in _HEADS:
        style = _CELL if head in _LEFT else _NUMBER
        yield f'<th scope="col" style="{style}">{head}</th>'
    yield "</tr></thead><tbody>"
    for kernel in kernels:
        yield "<tr>"
        for head, text in zip(_HEADS, _cells(kernel, in_source(session, kernel)), strict=True):
            style = _CELL if head == "kernel" else f"{_CELL};white-space:nowrap" if head in _LEFT else _NUMBER
            yield f'<td style="{style}">{_escaped(text)}</td>'
        yield "</tr>"
    yield "</tbody></table>"


def _cells(kernel: KernelProfile, source: str) -> Iterator[str]:
    yield str(kernel.id)
    yield kernel.label + source
    yield count_text(kernel.launches, "", "").strip()
    yield time_text(kernel)
    yield share_text(kernel)
    yield limit_text(kernel)
    yield roof_text(kernel)
    yield percent_text(kernel.occupancy.achieved)
    yield stall_text(kernel)
    first = first_finding(kernel)
    yield first.rule if first is not None else "–"


def _muted(text: str) -> str:
    return f'<span style="{_MUTED}">{_escaped(text)}</span>'


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=True)
