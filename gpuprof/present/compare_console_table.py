"""The table of compared kernels in the terminal: the figures of each, and below them what the figures do not say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from msgspec.structs import replace
from rich.text import Text

from gpuprof.comparison.contract import ChangeCause, KernelChange, MatchKind
from gpuprof.comparison.values import Values, all_known
from gpuprof.model.kernel_key import kernel_key
from gpuprof.present.console_parts import Sheet, padded
from gpuprof.units import ARROW, signed_percent
from gpuprof.words.comparison import by_function
from gpuprof.words.comparison_causes import cause_text
from gpuprof.words.comparison_values import change_text
from gpuprof.words.comparison_verdicts import (
    beside_figures,
    launch_count,
    moving,
    quiet_texts,
    time_texts,
    verdicts_text,
)
from gpuprof.words.profile_values import count_text, dims_text

_GAP = "  "
_WANTED_NAME, _MOST_NAME = 30, 60
_HEAD = ("time of a launch", "change", "time", "work", "on the run")
_LEFT = (2, 3)
_NONE = "–"
_FOLDED: tuple[MatchKind, ...] = ("exact", "reconfigured", "renamed", "new", "gone", "unrecorded")
TIME_STYLES = {
    "slower": "bold red", "faster": "green", "unclear": "yellow", "unknown": "yellow", "new": "cyan", "gone": "cyan",
}  # fmt: skip


def rows_of(kernels: Sequence[KernelChange]) -> list[KernelChange]:
    """Return the kernels that changed, are on one side only or may move the time of the run, in their order.

    If nothing is known to have changed, they are those whose time is not the same.
    """
    quiet = {kernel.id for kernel in _quiet(kernels)}
    changed = [kernel for kernel in kernels if kernel.id not in quiet]
    return changed or [kernel for kernel in kernels if kernel.time.verdict != "same"]


def folded(kernels: Sequence[KernelChange]) -> list[KernelChange]:
    """Return kernels without counters with one for all ranges that launch a function in one configuration.

    These have one verdict; its time is the mean over the launches, its effect the sum.
    """
    rows: dict[Hashable, list[KernelChange]] = {}
    for kernel in kernels:
        rows.setdefault(_kind(kernel), []).append(kernel)
    return [_together(members) for members in rows.values()]


def _kind(kernel: KernelChange) -> Hashable:
    if kernel.work.verdict != "unknown" or kernel.match not in _FOLDED:
        return kernel.id
    sides = (
        tuple((kernel_key(one.demangled), one.grid, one.block) for one in side) for side in (kernel.base, kernel.new)
    )
    return (*sides, kernel.match, kernel.time.verdict)


def _together(kernels: Sequence[KernelChange]) -> KernelChange:
    first = kernels[0]
    if len(kernels) == 1:
        return first
    base = tuple(one for kernel in kernels for one in kernel.base)
    new = tuple(one for kernel in kernels for one in kernel.new)
    base_s = _mean([(kernel.time.base_s, launch_count(kernel.base)) for kernel in kernels])
    new_s = _mean([(kernel.time.new_s, launch_count(kernel.new)) for kernel in kernels])
    ratio = new_s / base_s if base_s and new_s is not None else None
    needed = max(kernel.time.runs_needed or 0 for kernel in kernels) or None
    effects = all_known(kernel.effect for kernel in kernels)
    shared = [cause for cause in first.causes if all(cause in kernel.causes for kernel in kernels)]
    whole = replace(
        first,
        label=(*new, *base)[0].function or first.label,
        base=base,
        new=new,
        time=replace(first.time, base_s=base_s, new_s=new_s, ratio=ratio, interval=None, runs_needed=needed),
        effect=sum(effects) if effects is not None else None,
    )
    return replace(whole, causes=tuple(_of_all(cause, whole) for cause in shared))


def _of_all(cause: ChangeCause, whole: KernelChange) -> ChangeCause:
    """Return a cause; one that is about the number of launches has that of all ranges."""
    if cause.mechanism != "launches":
        return cause
    launches = Values(launch_count(whole.base), launch_count(whole.new))
    counted = replace(cause, values=(launches.named(cause.values[0].name),))
    return replace(counted, sentence=cause_text(counted, whole))


def _mean(times: Sequence[tuple[float | None, float]]) -> float | None:
    """Return the mean of times, each of so many launches; None if one is not known."""
    launches = sum(count for _, count in times)
    totals = all_known(time_s * count if time_s is not None else None for time_s, count in times)
    return sum(totals) / launches if totals is not None and launches else None


def _quiet(kernels: Sequence[KernelChange]) -> list[KernelChange]:
    """Return the kernels that are not known to have changed, nor move the time of the run.

    Their work is the same, their time the same or unclear. Neither one alone nor all of its function move the run.
    """
    moved = {kernel.id for function in by_function(kernels) for kernel in moving(function)}
    return [
        kernel
        for kernel in kernels
        if kernel.match in ("exact", "unrecorded")
        and kernel.work.verdict in ("same", "unknown", "unclear")
        and not (kernel.id in moved or moving([kernel]))
    ]


def table_lines(
    kernels: Sequence[KernelChange], rows: Sequence[KernelChange], sheet: Sheet, most_lines: int | None = None
) -> Iterator[Text]:
    """Yield a head, these rows of the kernels, and how many are left out with which verdict.

    `most_lines` is how many lines each text may take; None: as many as it needs, with 0 a kernel is its figures.
    """
    if rows:
        yield from _rows(rows, sheet, most_lines)
    shown = {kernel.id for kernel in rows}
    quiet = [kernel for kernel in _quiet(kernels) if kernel.id not in shown]
    shown.update(kernel.id for kernel in quiet)
    others = [kernel for kernel in kernels if kernel.id not in shown]
    if others:
        text = f"… and {count_text(len(others), 'more kernel')} ({verdicts_text(others)}): --top 0 shows all"
        yield sheet.paragraph(text, "dim")
    if not kernels:
        yield Text("no kernel was recorded on either side", style="dim")
    for text in quiet_texts(quiet):
        yield limited(sheet, text, most_lines, "dim")


def limited(sheet: Sheet, text: str, most: int | None, style: str = "", indent: int = 0, hang: int = 0) -> Text:
    """Return a text that takes no more lines than `most`: what is beyond goes. All but the first hang further in."""
    lines = sheet.wrapped(text, indent + hang)
    if most is not None and len(lines) > max(most, 1):
        kept = max(most, 1) - 1
        lines = [*lines[:kept], sheet.clipped(" ".join(lines[kept:]), sheet.width - indent - hang)]
    first, rest = " " * indent, " " * (indent + hang)
    return Text(first + f"\n{rest}".join(lines), style=style, overflow="fold")


def _rows(rows: Sequence[KernelChange], sheet: Sheet, most_lines: int | None) -> Iterator[Text]:
    limit = sheet.table_width
    times = _times(rows, sheet)
    cells = [_cells(row, time, sheet) for row, time in zip(rows, times, strict=True)]
    head, *body = zip(
        *(padded(column, left=index in _LEFT) for index, column in enumerate(zip(_HEAD, *cells, strict=True))),
        strict=True,
    )
    first = max(len(str(row.id)) for row in rows)
    labels = Counter(row.label for row in rows)
    names = [_name(row, repeats=labels[row.label] > 1) for row in rows]
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
            text.append(cell, TIME_STYLES.get(row.time.verdict, "") if index in (1, 2) else "")
        text.rstrip()
        yield text
        below = beside_figures(row) if most_lines != 0 else ""
        if below:
            yield limited(sheet, below, most_lines, "dim", first + len(_GAP))


def _times(rows: Sequence[KernelChange], sheet: Sheet) -> list[str]:
    """Return the times of the kernels with their arrows below each other; a kernel on one side has a dash for none."""
    pairs = [tuple(map(sheet.legible, _sides(row))) for row in rows]
    arrow = sheet.legible(ARROW)
    base, new = (padded(column, left=False) for column in zip(*pairs, strict=True))
    return [f"{before} {arrow} {after}" for before, after in zip(base, new, strict=True)]


def _sides(row: KernelChange) -> tuple[str, str]:
    """Return the times of both sides."""
    base, new = time_texts(row.time)
    has_base, has_new = (
        bool(row.base) and row.time.base_s is not None,
        bool(row.new) and row.time.new_s is not None,
    )
    return base if has_base else _NONE, new if has_new else _NONE


def _cells(row: KernelChange, time: str, sheet: Sheet) -> tuple[str, ...]:
    effect = signed_percent(row.effect) if row.effect is not None else _NONE
    work = row.work.verdict if not row.is_one_sided else _NONE
    return (time, *map(sheet.legible, (change_text(row.time.ratio, _NONE), row.time.verdict, work, effect)))


def _name(row: KernelChange, *, repeats: bool) -> str:
    """Return the label; with the launch configuration if names repeat."""
    side = (*row.new, *row.base)
    if not repeats or len(side) == 0 or side[0].grid is None or side[0].block is None:
        return row.label
    return f"{row.label} {dims_text(side[0].grid)}×{dims_text(side[0].block)}"
