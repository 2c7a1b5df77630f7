"""Draws a RooflineFigure in stable bytes: as SVG, and by matplotlib as PNG, as PDF and into axes."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

from gpuprof.present.plot_svg import render_svg
from gpuprof.present.roofline_figure import RooflineFigure
from gpuprof.views.theme import ThemeName, theme_colours
from gpuprof.working_folder import import_outside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "render_pdf", "render_png", "render_svg"]

_PNG_DPI = 200


def render_png(figure: RooflineFigure, theme: ThemeName = "light") -> bytes:
    """Return the figure as a PNG of about 1720 pixels width."""
    return _saved(figure, theme, "png", {"Software": None}, dpi=_PNG_DPI)


def render_pdf(figure: RooflineFigure, theme: ThemeName = "light") -> bytes:
    """Return the figure as a PDF with its fonts as TrueType, and no date, so that equal figures are equal bytes."""
    return _saved(figure, theme, "pdf", {"CreationDate": None, "Creator": None, "Producer": None})


def _saved(
    figure: RooflineFigure, theme: ThemeName, form: str, metadata: dict[str, None], dpi: float | None = None
) -> bytes:
    """Return a file that does not depend on the user's matplotlibrc; kernel names may have glyphs that a font lacks."""
    import_outside("matplotlib")

    import matplotlib

    from gpuprof.present.plot_matplotlib import drawn_sheet

    out = io.BytesIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"pdf.fonttype": 42, "text.usetex": False})
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        drawn = drawn_sheet(figure, theme_colours(theme))
        drawn.savefig(out, format=form, dpi=dpi or drawn.dpi, facecolor=drawn.get_facecolor(), metadata=metadata)
    return out.getvalue()


def draw(figure: RooflineFigure, ax: Axes) -> None:
    """Draw into axes of the caller, so that notebooks can add to them."""
    from gpuprof.present.plot_matplotlib import draw_into

    draw_into(ax, figure, theme_colours("light"))
