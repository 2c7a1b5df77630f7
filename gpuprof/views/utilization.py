"""How busy units are, as plots: bandwidths of kernels without a roofline point, and SMs against memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from gpuprof.model.headline import by_time
from gpuprof.model.kernel_ceilings import ceilings_of
from gpuprof.model.session import KernelProfile, Session
from gpuprof.text import cut_middle
from gpuprof.units import format_percent
from gpuprof.views.kernel_limits import point_area, shown_limit
from gpuprof.views.plot import Colours, Drawing, explain_limits, mark, number_marks, points_at
from gpuprof.words.profile_values import LEVEL_NAMES
from gpuprof.words.source_names import in_source
from gpuprof.words.verdict import limit_and_busiest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 12
_MOST_POINTS = 200
_ROW_HEIGHT = 22.0
_NAME = 60
_ENDS = (-0.03, 1.03)


class Utilization(Struct, frozen=True):
    """How busy units are by kernel: fractions of their ceilings, by the name of the unit."""

    kernel: int
    label: str
    source: str
    share: float | None
    limit: str
    colour: str
    binds: str | None
    fractions: dict[str, float]

    def text(self) -> str:
        """Return the kernel with its fractions and its limit."""
        parts = [f"{unit_name(unit)} {format_percent(part)}" for unit, part in self.fractions.items()]
        return f"{cut_middle(self.label, _NAME)}{self.source}: {', '.join(parts)}, {self.limit}"


def level_bandwidths(session: Session, kernels: Sequence[KernelProfile], ceiling: str) -> list[Utilization]:
    """Return the bandwidth of kernels at each level as a fraction of the ceiling there, longest first.

    Kernels without any are left out.
    """
    rows = []
    for kernel in by_time(kernels):
        ceilings = ceilings_of(session, kernel, ceiling)
        fractions: dict[str, float] = {}
        for traffic in kernel.traffic:
            if traffic.bytes_per_s is not None and traffic.level in ceilings:
                fractions[traffic.level] = traffic.bytes_per_s / ceilings[traffic.level]
        if any(fractions.values()):
            rows.append(
                _utilization(session, kernel, fractions, limit_and_busiest(kernel, session.only_times, fractions))
            )
    return rows


def throughputs(session: Session, kernels: Sequence[KernelProfile]) -> list[Utilization]:
    """Return how busy SMs and memory are by kernel, as fractions of their peak, longest first."""
    rows = []
    for kernel in by_time(kernels):
        known = {unit.unit: unit.fraction for unit in kernel.throughput}
        if {"sm", "memory"} <= known.keys():
            fractions = {"sm": known["sm"], "memory": known["memory"]}
            rows.append(_utilization(session, kernel, fractions, shown_limit(session, kernel).text))
    return rows


def _utilization(session: Session, kernel: KernelProfile, fractions: dict[str, float], limit_text: str) -> Utilization:
    limit = shown_limit(session, kernel)
    return Utilization(
        kernel=kernel.id,
        label=kernel.label,
        source=in_source(session, kernel),
        share=kernel.time_share,
        limit=limit_text,
        colour=limit.colour,
        binds=limit.subject if limit.subject in fractions else None,
        fractions=fractions,
    )


def unit_name(unit: str) -> str:
    """Return the name of a unit within a sentence."""
    return {"sm": "SM", "memory": "memory", **LEVEL_NAMES}[unit]


def bandwidth_drawing(rows: Sequence[Utilization], figure: str) -> Drawing:
    """Return a row for each kernel with a mark for each level. That of the level that limits the kernel is filled.

    `figure` is the id of the roofline that the kernels have no point on.
    """
    shown = rows[:_MOST_ROWS]
    notes = [f"{row.kernel}: {row.text()}" for row in shown]
    if len(rows) > len(shown):
        notes.append(f"{len(rows) - len(shown)} more kernels take less time.")
    return Drawing(
        id=f"{figure}-bandwidth",
        title="Kernels without floating-point work: bandwidth of each level",
        subtitle="filled: the level that limits the kernel",
        draw=partial(_draw_bandwidths, shown),
        notes=tuple(notes),
        height=_ROW_HEIGHT * len(shown) + 10.0,
    )


def _draw_bandwidths(rows: Sequence[Utilization], ax: Axes, colours: Colours) -> None:
    ax.set(xlabel="bandwidth, % of the ceiling of the level", ylabel="kernel", xlim=_ENDS)
    ax.set(ylim=(len(rows) - 0.5, -0.5), yticks=range(len(rows)), yticklabels=[str(row.kernel) for row in rows])
    ax.xaxis.set_major_formatter(_percent)
    for height, row in enumerate(rows):
        for level, part in row.fractions.items():
            place = (min(part, 1.0), height)
            name = f"bandwidth-{row.kernel}-{level}"
            mark(ax, colours[f"line-{level}"], row.text(), place, name, is_hollow=level != row.binds)
    for level in dict.fromkeys(level for row in rows for level in row.fractions):
        mark(ax, colours[f"line-{level}"], LEVEL_NAMES[level])


def throughput_drawing(rows: Sequence[Utilization], numbered: Collection[int], figure: str) -> Drawing:
    """Return a mark for each kernel at the throughput of memory and of the SMs."""
    return Drawing(
        id=f"{figure}-throughput",
        title="Throughput of SMs and memory",
        subtitle="each as a part of its peak; area: share of the time",
        draw=partial(_draw_throughputs, rows[:_MOST_POINTS], numbered),
        notes=tuple(f"{row.kernel}: {row.text()}" for row in rows if row.kernel in numbered),
    )


def _draw_throughputs(rows: Sequence[Utilization], numbered: Collection[int], ax: Axes, colours: Colours) -> None:
    ax.set(xlabel="memory throughput, % of peak", ylabel="SM throughput, % of peak", xlim=_ENDS, ylim=_ENDS)
    ax.xaxis.set_major_formatter(_percent)
    ax.yaxis.set_major_formatter(_percent)
    numbers, taken = [], []
    for row in rows:
        place = (row.fractions["memory"], row.fractions["sm"])
        area = point_area(row.share)
        mark(ax, colours[f"line-{row.colour}"], row.text(), place, f"throughput-{row.kernel}", area=area)
        taken.append(points_at(ax, place))
        if row.kernel in numbered:
            numbers.append((place, area, str(row.kernel)))
    number_marks(ax, colours, numbers, taken)
    explain_limits(ax, colours, [(row.colour, row.limit) for row in rows])


def _percent(value: float, _: object) -> str:
    return f"{value * 100:.0f} %"
