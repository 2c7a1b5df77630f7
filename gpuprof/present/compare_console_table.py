"""The table of compared kernels in the terminal: two lines each, figures and the verdict with its cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.comparison.contract import Comparison, KernelChange
from gpuprof.present.compare_text import (
    NOT_KNOWN,
    change_text,
    signed_percent,
    time_values,
    verdicts_text,
)
from gpuprof.present.console_parts import Sheet, padded
from gpuprof.present.session_text import count_text, dims_text

if TYPE_CHECKING:
    from rich.text import Text

_GAP = "  "
_WANTED_NAME, _MOST_NAME = 30, 60
_HEAD = ("time of a launch", "change", "time", "work", "effect")
_LEFT = (2, 3)
_STYLES = {"slower": "bold red", "faster": "green", "unclear": "yellow", "new": "cyan", "gone": "cyan"}


def rows_of(kernels: Sequence[KernelChange]) -> list[KernelChange]:
    """Return the kernels that changed in time or in work or are on one side only, by effect on the total.

    Where nothing is known to have changed, they are those whose time is unclear, too.
    """
    changed = [kernel for kernel in kernels if not is_quiet(kernel)]
    return changed or [kernel for kernel in kernels if kernel.time.verdict != "same"]


def is_quiet(kernel: KernelChange) -> bool:
    """Tell whether nothing of a kernel is known to have changed: its work is the same, its time the same or unclear."""
    is_same_work = kernel.work.verdict in ("same", "unknown", "unclear")
    return kernel.match == "exact" and is_same_work and kernel.time.verdict in ("same", "unclear", "unknown")


def table_lines(comparison: Comparison, rows: Sequence[KernelChange], sheet: Sheet) -> Iterator[Text]:
    """Yield a head, two lines for each of these kernels, and how many are left out with which verdict."""
    from rich.text import Text

    if rows:
        yield from _rows(rows, sheet, repeats=_repeats(comparison.kernels))
    shown = {kernel.id for kernel in rows}
    hidden = [kernel for kernel in comparison.kernels if kernel.id not in shown]
    quiet = [kernel for kernel in hidden if is_quiet(kernel)]
    others = [kernel for kernel in hidden if not is_quiet(kernel)]
    if others:
        text = (
            f"… and {count_text(len(others), 'more kernel')} that changed ({verdicts_text(others)}): --top 0 shows all"
        )
        yield Text(sheet.legible(text), style="dim")
    for text in _quiet_texts(quiet):
        yield sheet.paragraph(text, "dim")


def _quiet_texts(quiet: Sequence[KernelChange]) -> Iterator[str]:
    """Yield a text for each kind of kernel that is left out because nothing is known to have changed."""
    kinds: dict[str, Callable[[KernelChange], bool]] = {
        "with the same work in the same time": lambda kernel: kernel.time.verdict == "same",
        "with the same work; whether their time changed is unclear": lambda kernel: kernel.work.verdict == "same",
        "without a verdict: too little is known of them": lambda _: True,
    }
    left = list(quiet)
    for what, belongs in kinds.items():
        members = [kernel for kernel in left if belongs(kernel)]
        left = [kernel for kernel in left if not belongs(kernel)]
        if not members:
            continue
        names = list(dict.fromkeys(kernel.label for kernel in members))
        listed = f": {', '.join(names)}" if len(names) <= 3 and sum(map(len, names)) <= 80 else ""
        needed = max((kernel.time.runs_needed or 0 for kernel in members), default=0)
        more = f"; {count_text(needed, 'run')} a side would tell" if needed and "unclear" in what else ""
        yield f"{count_text(len(members), 'kernel')} {what}{more}{listed}"


def _rows(rows: Sequence[KernelChange], sheet: Sheet, *, repeats: bool) -> Iterator[Text]:
    from rich.text import Text

    limit = sheet.table_width
    cells = [_cells(row, sheet) for row in rows]
    head, *body = zip(
        *(padded(column, left=index in _LEFT) for index, column in enumerate(zip(_HEAD, *cells, strict=True))),
        strict=True,
    )
    first = max(len(str(row.id)) for row in rows)
    names = [_name(row, repeats=repeats) for row in rows]
    taken = first + len(_GAP) + sum(len(text) + len(_GAP) for text in head)
    longest = max(sheet.cells(sheet.legible(name)) for name in ("kernel", *names))
    shown = len(_HEAD)
    while taken + min(longest, _WANTED_NAME) > limit and shown > 3:
        shown -= 1
        taken -= len(head[shown]) + len(_GAP)
    width = min(longest, max(limit - taken, _WANTED_NAME // 2), _MOST_NAME)
    line = _GAP.join(("#".rjust(first), "kernel".ljust(width), *head[:shown])).rstrip()
    yield Text(line, style="bold", no_wrap=True, overflow="ignore")
    yield Text(("─" if sheet.blocks else "-") * min(limit, len(line)), style="dim", no_wrap=True, overflow="ignore")
    for row, name, texts in zip(rows, names, body, strict=True):
        fitted = sheet.filled(sheet.fitted(name, width), width)
        text = Text(f"{str(row.id).rjust(first)}{_GAP}{fitted}", no_wrap=True, overflow="ignore")
        for index, cell in enumerate(texts[:shown]):
            text.append(_GAP)
            text.append(cell, _STYLES.get(row.time.verdict, "") if index in (1, 2) else "")
        text.rstrip()
        yield text
        if row.sentence:
            indent = first + len(_GAP)
            yield sheet.paragraph(sheet.clipped(row.sentence, sheet.table_width - indent), "dim", indent=indent)


def _cells(row: KernelChange, sheet: Sheet) -> tuple[str, ...]:
    change = change_text(row.time.ratio) if row.time.ratio is not None else "–"
    effect = signed_percent(row.effect) if row.effect is not None else "–"
    values = time_values(row.time)
    texts = (values if values != NOT_KNOWN else "–", change, row.time.verdict, row.work.verdict, effect)
    return tuple(map(sheet.legible, texts))


def _name(row: KernelChange, *, repeats: bool) -> str:
    """Return the label; with the launch configuration where names repeat."""
    side = (*row.new, *row.base)
    if not repeats or len(side) == 0 or side[0].grid is None or side[0].block is None:
        return row.label
    return f"{row.label} {dims_text(side[0].grid)}×{dims_text(side[0].block)}"


def _repeats(kernels: Sequence[KernelChange]) -> bool:
    return any(number > 1 for number in Counter(kernel.label for kernel in kernels).values())
