"""The rooflines of the page: one over all kernels for each GPU, and one for each kernel with a section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from gpuprof.model.headline import by_time
from gpuprof.model.session import KernelProfile, Session
from gpuprof.present.figures import hierarchical, overview
from gpuprof.present.page.parts import Chart

if TYPE_CHECKING:
    from gpuprof.present.roofline_figure import RooflineFigure

_MOST_POINTS = 200
"""More points than these lie on each other; the longest kernels are drawn."""


def overview_charts(session: Session, level: str, ceiling: str, links: Mapping[int, str]) -> Iterator[Chart]:
    """Yield the overview of each GPU that ran a kernel; its points link to `links` by the kernel's number."""
    for device in session.devices:
        mine = by_time(kernel for kernel in session.kernels if kernel.device == device.id)
        if not mine and session.kernels:
            continue
        label = "Roofline of all kernels" + (f", GPU {device.id}" if len(session.devices) > 1 else "")
        figure = overview(structs.replace(session, kernels=tuple(mine)), device.id, level, ceiling, most=_MOST_POINTS)
        yield _chart(figure, label, links, kernels=bool(mine))


def kernel_chart(session: Session, kernel: KernelProfile, ceiling: str) -> Chart:
    """Return a kernel's roofline over all memory levels."""
    return _chart(hierarchical(session, kernel.id, ceiling), f"Roofline of kernel {kernel.id}", {})


def _chart(figure: RooflineFigure, label: str, links: Mapping[int, str], *, kernels: bool = True) -> Chart:
    from gpuprof.present.plot import render_svg

    # Ceilings alone are what a spec gives; where kernels ran, the notes say why none is drawn.
    drawn = bool(figure.points) or (figure.sized and bool(figure.roofs) and not kernels)
    notes = (figure.subtitle, *figure.notes) if figure.sized else figure.notes
    svg = render_svg(figure, "page", heading=False, links=links) if drawn else None
    return Chart(svg, label, notes)
