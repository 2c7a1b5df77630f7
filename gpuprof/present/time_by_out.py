"""Time by operator, module, range or kernel for machines: JSON, CSV, the rows of a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.model.session import Session
from gpuprof.model.time_by import TimeBy
from gpuprof.present.csv_out import table_lines
from gpuprof.present.table import Cell, fields_of
from gpuprof.store.write import dumped

_OF_GROUP = (
    "name", "kind", "kernels", "launches", "untimed_launches", "time_s", "time_share", "share_of_step", "flop",
    "flop_bound",
)  # fmt: skip


def json_lines(session: Session, times: TimeBy, _top: int = 0) -> Iterator[str]:
    """Yield all groups as a JSON document, one line each."""
    yield "{"
    yield f'  "schema_version": {session.schema_version},'
    yield f'  "gpuprof_version": {dumped(session.gpuprof_version)},'
    for name in ("by", "time_s", "run_time_s", "launches", "untimed_launches", "steps"):
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
        | fields_of(group.of_peak, ("of", "least", "most", "bound"), "peak_")
        | fields_of(group, ("fraction_of_roof",))
        | fields_of(group.longest, ("id", "label", "demangled", "launches", "time_s"), "longest_")
        for group in times.groups
    ]


def csv_lines(_session: Session, times: TimeBy, _top: int = 0) -> Iterator[str]:
    """Yield the header and a line for each group, all of them, without line ends."""
    yield from table_lines(rows(times))
