"""Time by operator, module, range or kernel for machines and reviews: JSON, CSV, the rows of a DataFrame, Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.model.session import Session
from gpuprof.model.time_by import TimeBy
from gpuprof.present.csv_out import table_lines
from gpuprof.present.markdown import escape
from gpuprof.present.table import Cell, fields_of
from gpuprof.present.time_by_text import cells_of, columns_of, header_text, note_texts, rest_cells
from gpuprof.store.write import dumped

_LEFT = frozenset({"name", "longest"})
_OF_GROUP = ("name", "kernels", "launches", "untimed_launches", "time_s", "time_share", "fraction_of_roof")


def json_lines(session: Session, times: TimeBy, _top: int = 0) -> Iterator[str]:
    """Yield all groups as a JSON document, one line each."""
    yield "{"
    yield f'  "schema_version": {session.schema_version},'
    yield f'  "gpuprof_version": {dumped(session.gpuprof_version)},'
    for name in ("by", "time_s", "run_time_s", "launches", "untimed_launches"):
        yield f'  "{name}": {dumped(getattr(times, name), name)},'
    yield '  "groups": ['
    for index, group in enumerate(times.groups, 1):
        yield f"    {dumped(group, f'groups[{index - 1}]')}{',' if index < len(times.groups) else ''}"
    yield "  ]"
    yield "}"


def rows(times: TimeBy) -> list[dict[str, Cell]]:
    """Return a row for each group; all have the same keys, None means missing."""
    return [
        fields_of(group, _OF_GROUP)
        | fields_of(group.longest, ("id", "label", "demangled", "launches", "time_s"), "longest_")
        for group in times.groups
    ]


def csv_lines(_session: Session, times: TimeBy, _top: int = 0) -> Iterator[str]:
    """Yield the header and a line for each group, all of them, without line ends."""
    yield from table_lines(rows(times))


def markdown_lines(_session: Session, times: TimeBy, top: int) -> Iterator[str]:
    """Yield the total, the table of the `top` longest groups (0: all) with one row for the others, and notes."""
    columns = columns_of(times)
    yield f"**{escape(header_text(times))}**"
    yield ""
    yield f"| {' | '.join(columns.values())} |"
    yield f"|{'|'.join('---' if name in _LEFT else '--:' for name in columns)}|"
    for group in times.groups[: top or None]:
        yield _line(cells_of(group), columns)
    rest = rest_cells(times, top)
    if rest:
        yield _line(rest, columns)
    notes = list(note_texts(times))
    if notes:
        yield ""
    yield from (f"{escape(note)}  " for note in notes)


def _line(cells: dict[str, str], columns: dict[str, str]) -> str:
    return f"| {' | '.join(escape(cells[name]) for name in columns)} |"
