"""The figures over all kernels of a GPU: the roofline, and bandwidth and throughput of kernels without a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from gpuprof.diagnose.drawn import headline_kernels
from gpuprof.model.session import KernelProfile, Session
from gpuprof.views import document
from gpuprof.views.kernel_limits import numbered_kernels
from gpuprof.views.plot import Drawing, figure_svg
from gpuprof.views.roofline_data import hierarchical, overview
from gpuprof.views.roofline_plot import roofline_drawing
from gpuprof.views.roofline_values import Roofline
from gpuprof.views.utilization import (
    Utilization,
    bandwidth_drawing,
    level_bandwidths,
    throughput_drawing,
    throughputs,
)
from gpuprof.words.roofline_points import lacks_float_work

# More points would cover each other.
_MOST_POINTS = 200


class DeviceFigures(Struct, frozen=True):
    """The data of the figures over the kernels of a GPU.

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

    A figure without a drawing says why a GPU has no roofline.
    """
    figures = []
    for device in sorted({kernel.device for kernel in session.kernels}):
        of_gpu = f", GPU {device}" if len(session.devices) > 1 else ""
        drawn = device_figures(session, device, level, ceiling, _MOST_POINTS)
        if not drawn.roofline.points:
            figures.append(document.Figure(None, drawn.roofline.title, drawn.roofline.notes))
        for drawing in plots_of(session, drawn):
            svg = partial(figure_svg, drawing, links or {})
            caption = drawing.title + of_gpu
            figures.append(document.Figure(svg, drawing.title, drawing.notes, f"figure-{drawing.id}", caption))
    return tuple(figures)


def device_figures(
    session: Session, device: int, level: str = "dram", ceiling: str = "at-clock", most: int | None = None
) -> DeviceFigures:
    """Return the data of the figures over the kernels of a GPU, of at most `most` kernels."""
    kernels = [kernel for kernel in session.kernels if kernel.device == device]
    return _with_rest(session, overview(session, device, level, ceiling, most), kernels)


def kernel_figures(session: Session, kernel: int, ceiling: str = "at-clock") -> DeviceFigures:
    """Return the data of one kernel: its roofline at all levels, or its bandwidth and throughput without a point."""
    kernels = [item for item in session.kernels if item.id == kernel]
    return _with_rest(session, hierarchical(session, kernel, ceiling), kernels)


def _with_rest(session: Session, roofline: Roofline, kernels: Sequence[KernelProfile]) -> DeviceFigures:
    shown = {point.kernel for point in roofline.points}
    without_work = [kernel for kernel in kernels if kernel.id not in shown and lacks_float_work(kernel)]
    bandwidths = tuple(level_bandwidths(session, without_work, roofline.ceiling))
    shown |= {row.kernel for row in bandwidths}
    rows = tuple(throughputs(session, kernels))
    missing = {row.kernel for row in rows} - shown
    if shown and missing.isdisjoint(headline_kernels(session)):
        rows = ()
    return DeviceFigures(roofline, bandwidths, rows)


def plots_of(session: Session, drawn: DeviceFigures) -> tuple[Drawing, ...]:
    """Return a drawing of each part that has data."""
    figure = drawn.roofline.id
    drawings = []
    if drawn.roofline.points:
        drawings.append(roofline_drawing(drawn.roofline))
    if drawn.bandwidths:
        drawings.append(bandwidth_drawing(drawn.bandwidths, figure))
    if drawn.throughputs:
        drawings.append(throughput_drawing(drawn.throughputs, numbered_kernels(session, session.kernels), figure))
    return tuple(drawings)
