"""Time by operator, module, range or kernel in the terminal, and the words that it shares with Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.model.time_by import TimeBy, TimeGroup, nameless
from gpuprof.present.console_parts import Sheet, padded, print_blocks
from gpuprof.present.session_text import count_text
from gpuprof.units import format_percent, format_si

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from gpuprof.model.session import Session

_NARROW, _WIDE, _WIDER = 80, 100, 120
_BAR, _WIDE_BAR = 8, 16
_GAP = 2
_WHOLE = 1 - 1e-9
_LEAST_LONGEST = 20
"""Characters in which the name of a kernel still tells something."""
_NAME_PART = 0.6
"""Of the room for names, what those of groups may take where those of kernels need the rest."""
_UNKNOWN = "–"
_NAMES = ("name", "longest")
_COLUMNS = {
    "kernels": "kernels", "launches": "launches", "time": "time", "share": "share", "roof": "of roofline",
    "longest": "longest kernel",
}  # fmt: skip


def header_text(times: TimeBy) -> str:
    """Write what there is and what it takes: "Time by operator: 27 operators, 182 ms in 4 350 launches"."""
    launches = count_text(times.launches, "launch", "es")
    if times.time_s is None or times.run_time_s is None:
        return f"Time by {times.by}: {_groups_text(times)}, {launches}, no durations"
    share = times.time_s / times.run_time_s
    part = f", {format_percent(share)} of all kernel time" if share < _WHOLE else ""
    return f"Time by {times.by}: {_groups_text(times)}, {format_si(times.time_s, 's')} in {launches}{part}"


def _groups_text(times: TimeBy) -> str:
    return count_text(sum(group.name != nameless(times.by) for group in times.groups), times.by)


def columns_of(times: TimeBy) -> dict[str, str]:
    """Return the columns that have something to say, by what they hold, with their heads."""
    lacking: set[str] = set()
    if times.by == "kernel":
        lacking |= {"kernels", "longest"}
    if all(group.fraction_of_roof is None for group in times.groups):
        lacking.add("roof")
    if all(group.longest is None for group in times.groups):
        lacking.add("longest")
    return {"name": times.by} | {name: head for name, head in _COLUMNS.items() if name not in lacking}


def cells_of(group: TimeGroup) -> dict[str, str]:
    """Return what a group has in each column."""
    return {
        "name": group.name,
        "kernels": _count(group.kernels),
        "launches": _count(group.launches),
        "time": _time(group.time_s),
        "share": _percent(group.time_share),
        "roof": _percent(group.fraction_of_roof),
        "longest": group.longest.label if group.longest is not None else "",
    }


def rest_cells(times: TimeBy, top: int) -> dict[str, str]:
    """Return the row of the groups that are not shown, in all: "… and 7 more"; empty where there are none."""
    rest = times.groups[top:] if top else ()
    if not rest:
        return {}
    timed = [group.time_s for group in rest if group.time_s is not None]
    shares = [group.time_share for group in rest if group.time_share is not None]
    return {
        "name": f"… and {count_text(len(rest), '', '').strip()} more",
        "kernels": "",
        "launches": _count(sum(group.launches for group in rest)),
        "time": _time(sum(timed) if timed else None),
        "share": _percent(sum(shares) if shares else None),
        "roof": "",
        "longest": "",
    }


def note_texts(times: TimeBy) -> Iterator[str]:
    """Yield what has to be known of the numbers."""
    if times.replays == times.launches:
        yield "the times are those of replays of whole CUDA graphs under ncu"
    elif times.replays:
        graphs = count_text(times.replays, "launch", "es")
        yield f"{graphs} of whole CUDA graphs: replays under ncu are no part of the times"
    if times.untimed_launches > times.replays:
        untimed = count_text(times.untimed_launches - times.replays, "launch", "es")
        yield f"{untimed} without a duration: no part of the times"
    if any(group.fraction_of_roof is not None for group in times.groups):
        yield "of roofline: of the DRAM roofline at the kernels' clocks, weighted by time"


def _count(number: int) -> str:
    return count_text(number, "", "").strip()


def _time(seconds: float | None) -> str:
    return format_si(seconds, "s") if seconds is not None else _UNKNOWN


def _percent(fraction: float | None) -> str:
    return format_percent(fraction) if fraction is not None else _UNKNOWN


def print_times(console: Console, _session: Session, times: TimeBy, top: int) -> None:
    """Print the total, the table of the `top` longest groups (0: all) with one row for the others, and notes."""
    print_blocks(console, _blocks(Sheet.of(console), times, top))


def _blocks(sheet: Sheet, times: TimeBy, top: int) -> Iterator[Text]:
    from rich.text import Text

    yield sheet.paragraph(header_text(times), "bold")
    yield Text("")
    head, *lines = table_lines(sheet, times, top)
    yield Text(head, style="dim")
    has_rest = bool(rest_cells(times, top))
    for index, line in enumerate(lines, 1):
        yield Text(line, style="dim" if has_rest and index == len(lines) else "")
    for note in (*note_texts(times), *(["--top 0 shows all"] if has_rest else [])):
        yield sheet.paragraph(note, "dim")


def table_lines(sheet: Sheet, times: TimeBy, top: int) -> list[str]:
    """Return the head and a line for each group, none wider than the sheet; a narrow one has fewer columns."""
    least = {"kernels": _WIDE, "roof": _NARROW}
    heads = {name: head for name, head in columns_of(times).items() if sheet.columns >= least.get(name, 0)}
    rest, shown = rest_cells(times, top), times.groups[: top or None]
    rows = [heads, *map(cells_of, shown), *([rest] if rest else [])]
    columns = {name: [sheet.legible(cells[name]) for cells in rows] for name in heads}
    bars = [sheet.bar(group.time_share or 0.0, _WIDE_BAR if sheet.columns >= _WIDER else _BAR) for group in shown]
    names = [*heads]
    names.insert(names.index("share") + 1, "bar")
    columns["bar"] = ["", *bars, *[""] * bool(rest)]
    return _in_lines(sheet, {name: columns[name] for name in names})


def _in_lines(sheet: Sheet, columns: dict[str, list[str]]) -> list[str]:
    """Write columns beside each other; the names of groups and kernels share what the others leave."""
    others = sum(max(map(len, texts)) + _GAP for name, texts in columns.items() if name not in _NAMES)
    room = sheet.table_width - others
    widths = {name: max(map(sheet.cells, columns[name])) for name in _NAMES if name in columns}
    if "longest" in widths and sum(widths.values()) + _GAP > room:
        part = max(int((room - _GAP) * _NAME_PART), room - _GAP - widths["longest"])
        widths["name"] = min(widths["name"], part)
        widths["longest"] = room - _GAP - widths["name"]
        if widths["longest"] < _LEAST_LONGEST:
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
