"""How busy units are, as plots: bandwidths of kernels without a roofline point, and SMs against memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from gpuprof.hardware.specs import LEVELS
from gpuprof.model.headline import by_time
from gpuprof.model.kernel_ceilings import at_kernel_clock
from gpuprof.model.session import KernelProfile, Session
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_percent
from gpuprof.views.kernel_limits import limit_samples, point_area, shown_limit
from gpuprof.views.plot_values import Axis, Mark, Plot, PlotLine, Sample
from gpuprof.words.profile_values import LEVEL_NAMES
from gpuprof.words.source_names import in_source

_MOST_ROWS = 12
_MOST_POINTS = 200
_ROW_HEIGHT = 22.0
_NAME = 60
_PERCENT = tuple((part / 100, f"{part} %") for part in range(0, 101, 20))


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
        return f"{cut_middle(printable(self.label), _NAME)}{self.source}: {', '.join(parts)}, {self.limit}"


def level_bandwidths(session: Session, kernels: Sequence[KernelProfile], ceiling: str) -> list[Utilization]:
    """Return the bandwidth of kernels at each level as a fraction of the ceiling there, longest first.

    Kernels without any are left out.
    """
    rows = []
    for kernel in by_time(kernels):
        fractions = {}
        for item in session.ceilings:
            if item.device != kernel.device or item.origin != ceiling or item.level is None:
                continue
            rate = next((traffic.bytes_per_s for traffic in kernel.traffic if traffic.level == item.level), None)
            if rate is not None:
                fractions[item.level] = rate / at_kernel_clock(item, kernel).value
        ordered: dict[str, float] = {level: fractions[level] for level in LEVELS if level in fractions}
        if any(ordered.values()):
            rows.append(_utilization(session, kernel, ordered))
    return rows


def throughputs(session: Session) -> list[Utilization]:
    """Return how busy SMs and memory are by kernel, as fractions of their peak, longest first."""
    rows = []
    for kernel in by_time(session.kernels):
        known = {unit.unit: unit.fraction for unit in kernel.throughput}
        if {"sm", "memory"} <= known.keys():
            rows.append(_utilization(session, kernel, {unit: known[unit] for unit in ("sm", "memory")}))
    return rows


def _utilization(session: Session, kernel: KernelProfile, fractions: dict[str, float]) -> Utilization:
    limit = shown_limit(session, kernel)
    return Utilization(
        kernel=kernel.id,
        label=kernel.label,
        source=in_source(session, kernel),
        share=kernel.time_share,
        limit=limit.text,
        colour=limit.colour,
        binds=limit.subject if limit.subject in fractions else None,
        fractions=fractions,
    )


def unit_name(unit: str) -> str:
    """Return the name of a unit within a sentence."""
    return {"sm": "SM", "memory": "memory", **LEVEL_NAMES}[unit]


def bandwidth_plot(rows: Sequence[Utilization], figure: str) -> Plot:
    """Return a row for each kernel with a mark for each level. That of the level that limits the kernel is filled.

    `figure` is the id of the roofline that the kernels have no point on.
    """
    shown = rows[:_MOST_ROWS]
    marks = []
    lines = []
    for height, row in enumerate(reversed(shown)):
        y = height + 0.5
        farthest = min(max(row.fractions.values()), 1.0)
        lines.append(PlotLine(f"row-{row.kernel}", ((0.0, y), (farthest, y)), "muted", "dotted"))
        for level, part in row.fractions.items():
            mark_id = f"bandwidth-{row.kernel}-{level}"
            place = (min(part, 1.0), y)
            is_hollow = level != row.binds
            marks.append(Mark(mark_id, row.kernel, place, f"line-{level}", is_hollow=is_hollow, text=row.text()))
    levels = [level for level in LEVELS if any(level in row.fractions for row in shown)]
    return Plot(
        id=f"{figure}-bandwidth",
        title="Kernels without floating-point work: bandwidth of each level",
        subtitle="filled: the level that limits the kernel",
        x=Axis("bandwidth, % of the ceiling of the level", (0.0, 1.02), _PERCENT),
        y=Axis(
            name="kernel",
            ends=(0.0, float(len(shown))),
            ticks=tuple((height + 0.5, str(row.kernel)) for height, row in enumerate(reversed(shown))),
        ),
        marks=tuple(marks),
        lines=tuple(lines),
        samples=tuple(Sample(LEVEL_NAMES[level], f"line-{level}") for level in levels),
        key=tuple((str(row.kernel), row.text()) for row in shown),
        notes=(f"{len(rows) - len(shown)} more kernels take less time.",) if len(rows) > len(shown) else (),
        height=_ROW_HEIGHT * len(shown) + 10.0,
    )


def throughput_plot(rows: Sequence[Utilization], numbered: Collection[int], figure: str) -> Plot:
    """Return a mark for each kernel at the throughput of memory and of the SMs."""
    marks = []
    for row in rows[:_MOST_POINTS]:
        mark = Mark(
            id=f"throughput-{row.kernel}",
            kernel=row.kernel,
            place=(min(row.fractions["memory"], 1.0), min(row.fractions["sm"], 1.0)),
            colour=f"line-{row.colour}",
            area=point_area(row.share),
            text=row.text(),
            number=str(row.kernel) if row.kernel in numbered else "",
        )
        marks.append(mark)
    return Plot(
        id=f"{figure}-throughput",
        title="Throughput of SMs and memory",
        subtitle="each as a part of its peak; area: share of the time",
        x=Axis("memory throughput, % of peak", (-0.02, 1.02), _PERCENT),
        y=Axis("SM throughput, % of peak", (-0.03, 1.03), _PERCENT),
        marks=tuple(marks),
        samples=tuple(limit_samples((row.colour, row.limit) for row in rows)),
        key=tuple((str(row.kernel), row.text()) for row in rows if row.kernel in numbered),
    )
