"""Plots as files, and as SVG for a page: the same bytes each time, and no call for other files."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from gpuprof.text import printable
from gpuprof.views.plot_values import Plot
from gpuprof.views.theme import ThemeName, page_style, theme_colours
from gpuprof.working_folder import import_outside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PNG_DPI = 200
_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONTS = "'DejaVu Sans',Verdana,'Segoe UI',sans-serif"
_FONT_FAMILY = re.compile(r"font-family: [^;]*;?")
_NO_METADATA: Mapping[str, Mapping[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Creator": None, "Date": None, "Format": None, "Type": None},
}


def plot_file(plots: Sequence[Plot], form: str, theme: ThemeName = "light") -> bytes:
    """Return a picture of plots, one below the other, as "png" of about 1720 pixels width, "pdf" or "svg"."""
    if form == "svg":
        root = _svg(plots, theme, prefix="", links={})
        text: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
        return text
    return _saved(plots, form, theme, heading=True)


def figure_svg(plot: Plot, links: Mapping[int, str]) -> str:
    """Return a plot as SVG for a page, with the CSS variables of `page_colours`.

    All ids begin with that of the plot. A mark is a `g` of class "point" with `data-kernel`, a title, and a link to
    `links` by the id of its kernel.
    """
    return ElementTree.tostring(_svg([plot], "page", prefix=f"{plot.id}-", links=links), "unicode")


def draw_plot(plot: Plot, ax: Axes) -> None:
    """Draw a plot into axes of the caller, so that notebooks can add to them."""
    from gpuprof.views.plot import draw

    draw(plot, ax, theme_colours("light"))


def _saved(plots: Sequence[Plot], form: str, theme: ThemeName, *, heading: bool) -> bytes:
    """Return a file that does not depend on the user's matplotlibrc; names may have glyphs that the font lacks."""
    import_outside("matplotlib")

    import matplotlib

    from gpuprof.views.plot import sheet_of

    out = io.BytesIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "gpuprof", "text.usetex": False}
        )
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        sheet = sheet_of(plots, theme_colours(theme), heading=heading)
        dpi = _PNG_DPI if form == "png" else 72
        sheet.savefig(out, format=form, dpi=dpi, facecolor=sheet.get_facecolor(), metadata=_NO_METADATA[form])
    return out.getvalue()


def _svg(plots: Sequence[Plot], theme: ThemeName, prefix: str, links: Mapping[int, str]) -> ElementTree.Element:
    """Return matplotlib's SVG with ids of our own, without metadata and styles for the whole page."""
    is_page = theme == "page"
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(_saved(plots, "svg", theme, heading=not is_page))  # noqa: S314  (matplotlib's)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        _rewrite(element, prefix)
    texts: dict[str, str] = {}
    for plot in plots:
        texts |= {f"{prefix}{_identifier(area.id)}": area.text for area in plot.areas}
        texts |= {f"{prefix}{_identifier(line.id)}": line.text for line in plot.lines}
    for element in root.iter(f"{{{_SVG}}}g"):
        text = texts.get(element.get("id", ""))
        if text:
            _add_title(element, text)
    _explain_marks(root, plots, prefix, links)
    if is_page:
        del root.attrib["width"], root.attrib["height"]
    del root.attrib["version"]
    root.set("class", "figure")
    if plots[0].areas:
        # A timeline is zoomed along its time alone.
        root.set("data-zoom", "x")
    root.set("role", "group" if links else "img")
    root.set("aria-label", printable(plots[0].title))
    root.set("style", f"stroke-linejoin:round;font-family:{_FONTS}")
    root.tail = "\n"
    return root


def _rewrite(element: ElementTree.Element, prefix: str) -> None:
    """Make ids and references those of the figure, and colours of theme `page` variables."""
    for name, value in list(element.attrib.items()):
        if name == "id":
            element.set(name, prefix + _identifier(value))
        elif name == _HREF:
            del element.attrib[name]
            element.set("href", f"#{prefix}{value[1:]}")
        elif name == "clip-path":
            element.set(name, value.replace("url(#", f"url(#{prefix}"))
        elif name == "style":
            style = _FONT_FAMILY.sub("", value).replace("url(#", f"url(#{prefix}")
            element.set(name, page_style(style))


def _explain_marks(root: ElementTree.Element, plots: Sequence[Plot], prefix: str, links: Mapping[int, str]) -> None:
    """Give marks their kernels, titles and links. A keyboard can reach a link, and a reader can name it."""
    marks = {f"{prefix}{_identifier(mark.id)}": mark for plot in plots for mark in plot.marks}
    for group in root.iter(f"{{{_SVG}}}g"):
        mark = marks.get(group.get("id", ""))
        if mark is None:
            continue
        group.set("class", "point")
        group.set("data-kernel", str(mark.kernel))
        for shape in group.iter(f"{{{_SVG}}}use"):
            shape.set("class", "mark")
        if mark.kernel in links:
            children = list(group)
            link = ElementTree.Element(f"{{{_SVG}}}a", {"href": links[mark.kernel]})
            for child in children:
                group.remove(child)
                link.append(child)
            group.append(link)
        _add_title(group, mark.text)


def _add_title(element: ElementTree.Element, text: str) -> None:
    title = ElementTree.Element(f"{{{_SVG}}}title")
    title.text = printable(text)
    element.insert(0, title)


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)
