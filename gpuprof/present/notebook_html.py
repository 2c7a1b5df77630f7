"""A session as a small piece of HTML inside a notebook: no script, no style sheet, legible on light and on dark."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from gpuprof.model.headline import by_time
from gpuprof.model.session import KernelProfile, Session
from gpuprof.present.kernel_columns import kernel_columns
from gpuprof.text import printable
from gpuprof.words.profile_values import device_text, source_text
from gpuprof.words.recommendations import RecommendationText, Summary, summary_of

_KERNELS_SHOWN = 10
_BAR = "#0072b2"
_CELL = "text-align:left;padding:.15em 1.2em .15em 0;vertical-align:top;border:0"
_NUMBER = (
    "text-align:right;padding:.15em 1.2em .15em 0;vertical-align:top;border:0;white-space:nowrap;"
    "font-variant-numeric:tabular-nums"
)
_MUTED = "opacity:.7"
_LEFT = ("kernel", "main stall", "first finding")


def notebook_html(session: Session) -> str:
    """Return the verdict, what to fix first, the longest kernels, and where the numbers come from."""
    return "".join(_parts(session))


def _parts(session: Session) -> Iterator[str]:
    yield '<div style="max-width:76em;line-height:1.45;overflow-x:auto">'
    summary = summary_of(session)
    yield from _verdict(summary)
    yield from _fix_first(summary)
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


def _verdict(summary: Summary) -> Iterator[str]:
    """The state of what takes the time, how the time is spread, and what else a reader should know."""
    if summary.headline:
        yield f"<p><strong>{_escaped(summary.headline)}</strong></p>"
        yield f"<p>{_escaped(' '.join((summary.spread, *summary.notes)))}</p>"
    else:
        yield f"<p><strong>{_escaped(summary.spread)}</strong></p>"


def _fix_first(summary: Summary) -> Iterator[str]:
    """The fixes in their order, and what is not known."""
    if summary.fixes:
        yield f"<p><strong>Fix first</strong> {_muted(summary.legend)}</p>"
        yield '<table style="border-collapse:collapse;border:0"><tbody>'
        yield from map(_fix, summary.fixes)
        yield "</tbody></table>"
    if summary.left_out:
        yield f"<p>{_muted(f'and {summary.left_out}')}</p>"
    if summary.nothing:
        yield f"<p>{_escaped(summary.nothing)}</p>"
    if summary.unknown:
        command = _escaped(summary.command)
        code = f'<br><code style="overflow-wrap:anywhere">{command}</code>' if command else ""
        yield f"<p>{_escaped(summary.unknown)}{code}</p>"


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
    columns = {"#": lambda kernel: str(kernel.id), **kernel_columns(session, kernels)}
    yield '<table style="border-collapse:collapse;border:0;margin-top:1em"><thead><tr>'
    for head in columns:
        style = _CELL if head in _LEFT else _NUMBER
        yield f'<th scope="col" style="{style}">{head}</th>'
    yield "</tr></thead><tbody>"
    for kernel in kernels:
        yield "<tr>"
        for head, cell in columns.items():
            style = _CELL if head == "kernel" else f"{_CELL};white-space:nowrap" if head in _LEFT else _NUMBER
            yield f'<td style="{style}">{_escaped(cell(kernel))}</td>'
        yield "</tr>"
    yield "</tbody></table>"


def _muted(text: str) -> str:
    return f'<span style="{_MUTED}">{_escaped(text)}</span>'


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=True)
