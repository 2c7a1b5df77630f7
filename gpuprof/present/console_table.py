"""The table of kernels in the terminal, as many columns as its width has room for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.model.headline import first_finding
from gpuprof.model.session import KernelProfile, Session
from gpuprof.present.console_parts import SEVERITY_STYLES, Sheet
from gpuprof.present.session_text import (
    NO_ROOF,
    NOT_COLLECTED,
    count_text,
    duration_spread,
    duration_text,
    limit_text,
    percent_text,
    roof_text,
    row_noun,
    stall_text,
)
from gpuprof.present.source_names import source_name
from gpuprof.present.text import printable
from gpuprof.units import format_percent

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_WIDE = 100
_WIDER = 120
_NARROW_HEADS = {"nearest limit": "limit", "occupancy": "occ."}
_OF_COUNTERS = ("nearest limit", "of roof", "occupancy")
_OF_TIMES = ("median", "p95", "p99")
_SHORT = {NOT_COLLECTED: "n/c", NO_ROOF: "no roof"}


def table_parts(
    session: Session, kernels: list[KernelProfile], hidden: list[KernelProfile], console: Console
) -> Iterator[RenderableType]:
    """Yield the table of kernels and, below it, what its marks mean and how many it leaves out."""
    from rich.text import Text

    if not kernels:
        return
    yield _kernel_table(session, kernels, console)
    if not session.only_times and any(map(_lacks_counters, kernels)):
        yield Text("n/c: not collected; the report lacks the counters", style="dim")
    if any(roof_text(kernel) == NO_ROOF for kernel in kernels):
        yield Text("no roof: work and traffic are known, the GPU's peak rates are not; see --spec", style="dim")
    if any(roof_text(kernel).startswith("≥") for kernel in kernels):
        yield Text("≥: tensor work was not collected, so the kernel may be closer to its roof", style="dim")
    if hidden:
        rest = sum(kernel.time_share or 0.0 for kernel in hidden)
        share = f", {format_percent(rest)} of the time" if rest else ""
        noun, plural = row_noun(session.kernels)
        more = count_text(len(hidden), f"more {noun}", plural)
        yield Text(f"… and {more}{share}; --top 0 shows all", style="dim")


def _lacks_counters(kernel: KernelProfile) -> bool:
    texts = (duration_text(kernel.time_total_s), limit_text(kernel), roof_text(kernel))
    occupancy = kernel.occupancy
    return NOT_COLLECTED in texts or (occupancy.achieved is None and occupancy.theoretical is None)


def _kernel_table(session: Session, kernels: list[KernelProfile], console: Console) -> Table:
    """One line or two per kernel; the label takes what width is left."""
    from rich import box
    from rich.table import Table

    wide = console.width >= _WIDE
    lines = box.SIMPLE_HEAD if Sheet.of(console).blocks else box.ASCII_DOUBLE_HEAD
    table = Table(box=lines, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, expand=True)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("kernel", ratio=1, overflow="fold", min_width=14)
    many = any(kernel.launches > 1 for kernel in kernels)
    if many:
        table.add_column("launches" if wide else "n", justify="right", no_wrap=True)
    timed = session.only_times
    for name in ("time", "share", *(_OF_TIMES if timed else _OF_COUNTERS)):
        table.add_column(name if wide else _NARROW_HEADS.get(name, name), justify="right", no_wrap=True)
    if wide and not timed:
        table.add_column("main stall", no_wrap=True)
    findings = console.width >= _WIDER and any(kernel.findings for kernel in kernels)
    if findings:
        table.add_column("first finding", no_wrap=True)
    for kernel in kernels:
        cells = [*_plain_cells(session, kernel, many=many)]
        if timed:
            cells += _spread_cells(kernel)
        else:
            cells += [*_counter_cells(kernel), *([_stall_cell(kernel)] if wide else [])]
        table.add_row(*cells, *([_finding_cell(kernel)] if findings else []))
    return table


def _plain_cells(session: Session, kernel: KernelProfile, *, many: bool) -> Iterator[RenderableType]:
    from rich.text import Text

    yield str(kernel.id)
    file = source_name(session, kernel)
    yield Text(printable(kernel.label)).append(f"\nin {file}" if file else "", "dim")
    if many:
        yield count_text(kernel.launches, "", "").strip()
    yield _short(duration_text(kernel.time_total_s))
    yield _short(percent_text(kernel.time_share))


def _spread_cells(kernel: KernelProfile) -> Iterator[str]:
    """What a timeline tells of the launches of a kernel: median, 95th and 99th percentile."""
    yield from (_short(duration_text(time)) for time in duration_spread(kernel))


def _counter_cells(kernel: KernelProfile) -> Iterator[str]:
    achieved, theoretical = kernel.occupancy.achieved, kernel.occupancy.theoretical
    yield _short(limit_text(kernel))
    yield _short(roof_text(kernel))
    if achieved is None and theoretical is not None:
        yield f"≤{percent_text(theoretical)}"
    else:
        yield _short(percent_text(achieved))


def _stall_cell(kernel: KernelProfile) -> Text:
    from rich.text import Text

    return Text(printable(_short(stall_text(kernel))))


def _finding_cell(kernel: KernelProfile) -> Text:
    """The rule of the finding to look at first; dim where it has nothing to gain."""
    from rich.text import Text

    finding = first_finding(kernel)
    if finding is None:
        return Text("–", style="dim")
    return Text(printable(finding.rule), style=SEVERITY_STYLES[finding.severity].removeprefix("bold "))


def _short(text: str) -> str:
    """A table cell has no room for "not collected"; the kernel's own block says why."""
    return _SHORT.get(text, text)
