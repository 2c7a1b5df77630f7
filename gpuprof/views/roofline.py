"""The figures over all kernels of a GPU: the roofline, and what shows kernels that have no place on it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from msgspec import Struct

from gpuprof.model.session import Session
from gpuprof.views import document
from gpuprof.views.kernel_limits import headline_kernels, numbered_kernels
from gpuprof.views.plot_files import figure_svg
from gpuprof.views.plot_values import Plot
from gpuprof.views.roofline_data import hierarchical, overview
from gpuprof.views.roofline_plot import roofline_plot
from gpuprof.views.roofline_values import Roofline
from gpuprof.views.utilization import (
    Utilization,
    bandwidth_plot,
    level_bandwidths,
    throughput_plot,
    throughputs,
)
from gpuprof.words.roofline_points import lacks_float_work

# More points than these lie on each other.
_MOST_POINTS = 200


class DeviceFigures(Struct, frozen=True):
    """What is drawn of the kernels of a GPU.

    `bandwidths` are those of kernels without a roofline point. `throughputs` of SMs and memory are empty unless
    nothing else can be drawn, or nothing else of the kernel of the verdict.
    """

    roofline: Roofline
    bandwidths: tuple[Utilization, ...]
    throughputs: tuple[Utilization, ...]

    @property
    def has_points(self) -> bool:
        """Return whether there is anything to draw."""
        return bool(self.roofline.points or self.bandwidths or self.throughputs)


def overview_figures(
    session: Session, level: str = "dram", ceiling: str = "at-clock", links: Mapping[int, str] | None = None
) -> tuple[document.Figure, ...]:
    """Return the figures over the kernels of each GPU; marks link to `links` by the id of their kernel.

    A GPU of which nothing can be drawn has a figure without a drawing, which says why.
    """
    figures = []
    for device in sorted({kernel.device for kernel in session.kernels}):
        of_gpu = f", GPU {device}" if len(session.devices) > 1 else ""
        drawn = device_figures(session, device, level, ceiling, _MOST_POINTS)
        notes = drawn.roofline.notes
        for plot in plots_of(session, drawn):
            svg = partial(figure_svg, plot, links or {})
            notes = (*notes, *plot.notes) if plot.notes != notes else notes
            figures.append(document.Figure(svg, plot.title, notes, f"figure-{plot.id}", plot.title + of_gpu))
            notes = ()
        if not drawn.has_points:
            figures.append(document.Figure(None, drawn.roofline.title, notes))
    return tuple(figures)


def device_figures(
    session: Session, device: int, level: str = "dram", ceiling: str = "at-clock", most: int | None = None
) -> DeviceFigures:
    """Return what can be drawn of the kernels of a GPU, at most so many of them."""
    roofline = overview(session, device, level, ceiling, most)
    return _with_rest(session, roofline, [kernel.id for kernel in session.kernels if kernel.device == device])


def kernel_figures(session: Session, kernel: int, ceiling: str = "at-clock") -> DeviceFigures:
    """Return what can be drawn of one kernel: its roofline at all levels, or what shows it without a point."""
    return _with_rest(session, hierarchical(session, kernel, ceiling), [kernel])


def _with_rest(session: Session, roofline: Roofline, kernels: list[int]) -> DeviceFigures:
    placed = {point.kernel for point in roofline.points}
    absent = [kernel for kernel in session.kernels if kernel.id in kernels and kernel.id not in placed]
    without_work = [kernel for kernel in absent if lacks_float_work(kernel)]
    bandwidths = tuple(level_bandwidths(session, without_work, roofline.ceiling))
    shown = placed | {row.kernel for row in bandwidths}
    rows = tuple(row for row in throughputs(session) if row.kernel in kernels)
    missing = {row.kernel for row in rows} - shown
    if shown and missing.isdisjoint(headline_kernels(session)):
        rows = ()
    return DeviceFigures(roofline, bandwidths, rows)


def plots_of(session: Session, drawn: DeviceFigures) -> tuple[Plot, ...]:
    """Return the plots of what has something to show."""
    plots = []
    if drawn.roofline.points:
        plots.append(roofline_plot(drawn.roofline))
    if drawn.bandwidths:
        plots.append(bandwidth_plot(drawn.bandwidths, drawn.roofline.id))
    if drawn.throughputs:
        plots.append(throughput_plot(drawn.throughputs, numbered_kernels(session, session.kernels), drawn.roofline.id))
    return tuple(plots)
