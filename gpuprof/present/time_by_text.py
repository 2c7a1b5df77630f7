"""Time by operator, module, range or kernel in the terminal, and the words that it shares with Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from gpuprof.model.field_types import Bound
from gpuprof.model.time_by import TimeBy, TimeGroup, nameless
from gpuprof.present.console_parts import Sheet, padded
from gpuprof.units import format_percent, format_si, significant
from gpuprof.views.terminal import print_blocks
from gpuprof.words.flop import peak_part_text
from gpuprof.words.profile_values import count_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from gpuprof.model.session import Session

_NARROW, _WIDE, _WIDER = 80, 100, 120
_TOP = 20
_BAR, _WIDE_BAR = 8, 16
_GAP = 2
_WHOLE = 1 - 1e-9
_LEAST_LONGEST, _LEAST_OF_OPERATOR = 20, 16
"""Least characters of the name of a kernel; beside an operator fewer are enough."""
_WANTED = {"name": 32, "longest": 22}
"""Characters that names of operators and kernels get before columns that can be left out, in this order."""
_LEFT_OUT = ("bar", "launches", "time")
_NAME_PART = 0.6
"""Share of the room for names that groups get if kernels need the rest."""
_MAIN_PART = 0.95
"""Of the time, what the rows of operators have together: the others are a row."""
_UNKNOWN = "–"
_KERNEL_MARK = "* "
_MARKS: dict[Bound | None, str] = {None: "", "at-least": "≥ ", "at-most": "≤ "}
_NAMES = ("name", "longest")
_COLUMNS = {
    "kernels": "kernels", "launches": "launches", "time": "time", "share": "share", "flop": "FLOP", "peak": "of peak",
    "roof": "of roofline", "longest": "longest kernel",
}  # fmt: skip


def header_text(times: TimeBy) -> str:
    """Write what there is and what it takes: "Time by operator: 27 operators, 182 ms in 4 350 launches".

    Of operators in steps it is said of one: "Time by operator in a step (mean of 5): 93.6 ms of kernels in 96.7 ms".
    """
    launches = count_text(times.launches, "launch", "es")
    if times.time_s is None or times.run_time_s is None:
        return f"Time by {times.by}: {_groups_text(times)}, {launches}, no durations"
    share = times.time_s / times.run_time_s
    part = f", {format_percent(share)} of all kernel time" if share < _WHOLE else ""
    if times.steps is not None:
        steps = times.steps.count
        busy, whole = (format_si(seconds / steps, "s") for seconds in (times.time_s, times.steps.time_s))
        gpus = times.steps.gpus or 1
        of = f"{steps // gpus} × {gpus} GPUs" if gpus > 1 else f"{steps}"
        step = f"a step (mean of {of})" if steps > 1 else "the step"
        return f"Time by operator in {step}: {busy} of kernels in {whole}{part}"
    return f"Time by {times.by}: {_groups_text(times)}, {format_si(times.time_s, 's')} in {launches}{part}"


def _groups_text(times: TimeBy) -> str:
    named = (group for group in times.groups if group.kind == times.by and group.name != nameless(times.by))
    return count_text(sum(1 for _ in named), times.by)


def _per(times: TimeBy) -> int:
    """Return of how many steps time, launches and FLOP are the mean; 1 if they are those of the run."""
    return times.steps.count if times.steps is not None else 1


def rows_of(times: TimeBy, top: int | None = None) -> int:
    """Return how many groups have a row: `top` (0: all), else 20, of operators at most what takes most of the time."""
    if top is not None:
        return top
    time_s = times.time_s if times.by == "operator" else None
    if time_s is None:
        return _TOP
    until_s = accumulate(group.time_s or 0.0 for group in times.groups)
    main = next(rows for rows, own_s in enumerate(until_s, 1) if own_s >= _MAIN_PART * time_s)
    return min(_TOP, main + 1 if len(times.groups) == main + 1 else main)


def columns_of(times: TimeBy, top: int) -> dict[str, str]:
    """Return the heads of the columns that have a value for any of the `top` longest groups, by their field."""
    shown = times.groups[: top or None]
    lacking: set[str] = set()
    if times.by == "kernel":
        lacking |= {"kernels", "longest"}
    if times.by == "operator":
        lacking.add("kernels")
    if all(group.flop is None for group in shown):
        lacking.add("flop")
    if all(group.of_peak is None for group in shown):
        lacking.add("peak")
    if all(group.fraction_of_roof is None for group in shown):
        lacking.add("roof")
    if all(group.longest is None for group in shown):
        lacking.add("longest")
    heads = _COLUMNS if times.steps is None else _COLUMNS | {"share": "of step"}
    return {"name": times.by} | {name: head for name, head in heads.items() if name not in lacking}


def _cells(times: TimeBy, group: TimeGroup) -> dict[str, str]:
    steps = _per(times)
    return {
        "name": group.name if group.kind == times.by else f"{_KERNEL_MARK}{group.name}",
        "kernels": _count(group.kernels),
        "launches": _mean_count(group.launches, steps),
        "time": _time(group.time_s, steps),
        "share": _percent(_share(times, group)),
        "flop": _flop(group, steps),
        "peak": _peak(group),
        "roof": _percent(group.fraction_of_roof),
        "longest": _longest(times, group),
    }


def rows_of_cells(times: TimeBy, top: int) -> list[dict[str, str]]:
    """Return the cells of the `top` longest groups (0: all), and those of the others in all: "… and 7 more"."""
    rest = _rest_cells(times, times.groups[top:]) if 0 < top < len(times.groups) else None
    return [*(_cells(times, group) for group in times.groups[: top or None]), *([rest] if rest is not None else [])]


def _rest_cells(times: TimeBy, rest: Sequence[TimeGroup]) -> dict[str, str]:
    steps = _per(times)
    timed = [group.time_s for group in rest if group.time_s is not None]
    shares = [share for group in rest if (share := _share(times, group)) is not None]
    return dict.fromkeys(_COLUMNS, "") | {
        "name": f"… and {_count(len(rest))} more",
        "launches": _mean_count(sum(group.launches for group in rest), steps),
        "time": _time(sum(timed) if timed else None, steps),
        "share": _percent(sum(shares) if shares else None),
    }


def note_texts(times: TimeBy, top: int = 0) -> Iterator[str]:
    """Yield what has to be known of the numbers of the `top` longest groups."""
    shown = times.groups[: top or None]
    if times.replays == times.launches:
        yield "the times are those of replays of whole CUDA graphs under ncu"
    elif times.replays:
        graphs = count_text(times.replays, "launch", "es")
        yield f"{graphs} of whole CUDA graphs: replays under ncu are no part of the times"
    if times.untimed_launches > times.replays:
        untimed = count_text(times.untimed_launches - times.replays, "launch", "es")
        yield f"{untimed} without a duration: no part of the times"
    if any(group.fraction_of_roof is not None for group in shown):
        yield "of roofline: of the DRAM roofline at the kernels' clocks, weighted by time"
    if any(group.of_peak is not None for group in shown):
        yield "of peak: FLOP (or operands once) by shapes ÷ time, of the rated peak"
    if any(group.kind != times.by for group in shown):
        yield "*: a collective, or a kernel that no recorded operator launched"


def _share(times: TimeBy, group: TimeGroup) -> float | None:
    return group.time_share if times.steps is None else group.share_of_step


def _count(number: int) -> str:
    return count_text(number, "", "").strip()


def _mean_count(number: int, steps: int) -> str:
    return _count(number // steps) if number % steps == 0 else significant(number / steps)


def _time(seconds: float | None, steps: int) -> str:
    return format_si(seconds / steps, "s") if seconds is not None else _UNKNOWN


def _flop(group: TimeGroup, steps: int) -> str:
    if group.flop is None:
        return _UNKNOWN
    return f"{_MARKS[group.flop_bound]}{format_si(group.flop / steps, 'FLOP')}"


def _peak(group: TimeGroup) -> str:
    part = group.of_peak
    return peak_part_text(part.of, part.least, part.most, _MARKS[part.bound]) if part is not None else _UNKNOWN


def _longest(times: TimeBy, group: TimeGroup) -> str:
    """Write the longest kernel of a group, of an operator also its part of the time: "gemm_tn, 71 %"."""
    longest = group.longest
    if longest is None or group.kind != times.by:
        return ""
    if times.by != "operator" or not group.time_s or longest.time_s >= _WHOLE * group.time_s:
        return longest.label
    return f"{longest.label}, {format_percent(longest.time_s / group.time_s)}"


def _percent(fraction: float | None) -> str:
    return format_percent(fraction) if fraction is not None else _UNKNOWN


def print_times(console: Console, _session: Session, times: TimeBy, top: int) -> None:
    """Print the total, the table of the `top` longest groups (0: all) with one row for the others, and notes."""
    from rich.text import Text

    header, *others = times_blocks(Sheet.of(console), times, top)
    print_blocks(console, (header, Text(""), *others))


def times_blocks(sheet: Sheet, times: TimeBy, top: int) -> Iterator[Text]:
    """Yield the total, the head of the table, a line for each of the `top` longest groups and the others, and notes."""
    from rich.text import Text

    yield sheet.paragraph(header_text(times), "bold")
    head, *lines = table_lines(sheet, times, top)
    yield Text(head, style="dim")
    has_rest = 0 < top < len(times.groups)
    for index, line in enumerate(lines, 1):
        yield Text(line, style="dim" if has_rest and index == len(lines) else "")
    for note in (*note_texts(times, top), *(["--top 0 shows all"] * has_rest)):
        yield sheet.paragraph(note, "dim")


def table_lines(sheet: Sheet, times: TimeBy, top: int) -> list[str]:
    """Return the head and a line for each group, none wider than the sheet; a narrow one has fewer columns."""
    least = {"kernels": _WIDE, "roof": _NARROW}
    heads = {name: head for name, head in columns_of(times, top).items() if sheet.columns >= least.get(name, 0)}
    rows = [heads, *rows_of_cells(times, top)]
    columns = {name: [sheet.legible(cells[name]) for cells in rows] for name in heads}
    width = _WIDE_BAR if sheet.columns >= _WIDER else _BAR
    bars = [sheet.bar(_share(times, group) or 0.0, width) for group in times.groups[: top or None]]
    columns["bar"] = ["", *bars, *[""] * (len(rows) - len(bars) - 1)]
    names = [*heads]
    names.insert(names.index("share") + 1, "bar")
    return _in_lines(sheet, {name: columns[name] for name in names}, by_operator=times.by == "operator")


def _in_lines(sheet: Sheet, columns: dict[str, list[str]], *, by_operator: bool) -> list[str]:
    """Write columns beside each other; the names of groups and kernels share what the others leave."""
    widths = {name: max(map(sheet.cells, columns[name])) for name in _NAMES if name in columns}
    wanted = sum(min(width, _WANTED[name]) + _GAP for name, width in widths.items()) - _GAP
    for name in _LEFT_OUT if by_operator else ():
        if _room(sheet, columns) < wanted:
            columns = {other: texts for other, texts in columns.items() if other != name}
    room = _room(sheet, columns)
    if "longest" in widths and sum(widths.values()) + _GAP > room:
        part = max(int((room - _GAP) * _NAME_PART), room - _GAP - widths["longest"])
        widths["name"] = min(widths["name"], part)
        widths["longest"] = room - _GAP - widths["name"]
        if widths["longest"] < (_LEAST_OF_OPERATOR if by_operator else _LEAST_LONGEST):
            widths = {"name": max(map(sheet.cells, columns["name"]))}
    widths["name"] = min(widths["name"], room)
    written = [
        [sheet.filled(sheet.fitted(text, widths[name]), widths[name]) for text in texts]
        if name in widths
        else padded(texts, left=name == "bar")
        for name, texts in columns.items()
        if name in widths or name not in _NAMES
    ]
    return [(" " * _GAP).join(row).rstrip() for row in zip(*written, strict=True)]


def _room(sheet: Sheet, columns: Mapping[str, Sequence[str]]) -> int:
    """Return how many characters columns leave for the names."""
    others = sum(max(map(len, texts)) + _GAP for name, texts in columns.items() if name not in _NAMES)
    return sheet.table_width - others
