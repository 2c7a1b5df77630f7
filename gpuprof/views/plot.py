"""Draw figures with matplotlib: into axes, as files, and as SVG for a page. Equal data give equal bytes.

An artist with an id has as its label what is shown on hover, in a line for each mark if it has several. One without an
id stands in the legend with its label.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from msgspec import Struct

from gpuprof.text import cut_middle, printable
from gpuprof.views.theme import ThemeName, page_style, theme_colours
from gpuprof.working_folder import import_outside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Extent = tuple[float, float]
Colours = Mapping[str, str]

# In points.
_WIDTH = 542.0
_BETWEEN = 60.0
_MARGIN = 7.2
_LEGEND = 38.0
_COLUMN = 170.0
_TEXT = 9.0
_SMALL = 8.0
_TITLE = 12.0
# Letters of a line.
LETTERS = 110
_LEGENDLETTERS = 40
_TITLELETTERS = 64
_FILL = 0.45
_NEAR = 14.0
# Sides of a mark on which its number may stand.
_SIDES = 8
# About the width of a letter.
LETTER = 5.0

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONTS = "'DejaVu Sans',Verdana,'Segoe UI',sans-serif"
# What matplotlib calls a line without a label.
_NO_LABEL = re.compile("_child[0-9]+")
_MARK = re.compile("(?:point|bandwidth|throughput)-([0-9]+)")
_NO_METADATA: Mapping[str, Mapping[str, None]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Creator": None, "Date": None, "Format": None, "Type": None},
}


class Drawing(Struct, frozen=True):
    """A figure: `draw` fills its axes in given colours. `height` and `width` are those of the axes in points.

    `notes` say what the numbers at marks mean, and what else to know. On a page a timeline is zoomed along its time
    alone.
    """

    id: str
    title: str
    draw: Callable[[Axes, Colours], None]
    subtitle: str = ""
    notes: tuple[str, ...] = ()
    height: float = 340.0
    width: float = _WIDTH
    is_timeline: bool = False


def plot_file(drawings: Sequence[Drawing], form: str, theme: ThemeName = "light") -> bytes:
    """Return drawings, one below the other, as "png" of about 1650 pixels width, "pdf" or "svg"."""
    content, titles = _saved(drawings, form, theme)
    if form != "svg":
        return content
    text: bytes = ElementTree.tostring(_svg(content, titles, drawings[0], "", {}), "utf-8", xml_declaration=True)
    return text


def figure_svg(drawing: Drawing, links: Mapping[int, str]) -> str:
    """Return a drawing as SVG for a page, without its title and notes, in the CSS variables of `colour_variables`.

    All ids begin with that of the drawing. A mark is a `g` with `data-kernel`, a title, and a link to `links` by the id
    of its kernel.
    """
    content, titles = _saved([drawing], "svg", "page")
    root = _svg(content, titles, drawing, f"{drawing.id}-", links)
    del root.attrib["width"]
    del root.attrib["height"]
    return ElementTree.tostring(root, "unicode")


def draw_plot(drawing: Drawing, ax: Axes, theme: ThemeName = "light") -> None:
    """Draw into axes of the caller, with a legend and notes below them."""
    import matplotlib

    with matplotlib.rc_context({"text.parse_math": False}):
        _draw(drawing, ax, theme_colours(theme), drawing.notes)


def mark(
    ax: Axes,
    colour: str,
    label: str,
    place: Sequence[float] = (),
    name: str | None = None,
    *,
    shape: str = "o",
    area: float = 40.0,
    is_hollow: bool = False,
    opacity: float = 1.0,
) -> None:
    """Draw a mark with an area in square points; without a place and a name, in the legend alone."""
    from matplotlib.lines import Line2D

    drawn = Line2D(
        place[:1],
        place[1:],
        linestyle="none",
        marker=shape,
        markersize=math.sqrt(area),
        markerfacecolor=ax.get_facecolor() if is_hollow else (colour, opacity * _FILL),
        markeredgecolor=(colour, opacity),
        markeredgewidth=1.6 if is_hollow else 1.1,
        zorder=4,
        gid=name,
        label=label,
    )
    # `plot` takes twice as long: it fits the axes to the mark.
    ax.add_artist(drawn)


def explain_limits(ax: Axes, colours: Colours, limits: Iterable[tuple[str, str]]) -> None:
    """Write into the legend what colours of marks mean, from pairs of a role of colour and the words of a limit."""
    names: dict[str, list[str]] = {}
    for colour, text in dict.fromkeys(limits):
        names.setdefault(colour, []).append(text)
    for colour, texts in names.items():
        mark(ax, colours[f"line-{colour}"], ", ".join(texts))


def number_marks(
    ax: Axes, colours: Colours, marks: Iterable[tuple[Extent, float, str]], taken: Iterable[Extent]
) -> None:
    """Write numbers beside marks, each given by its place and area: to the right, or on a side with more room.

    Numbers keep away from each other and from `taken`: the places of all marks, lines and texts, in points from the
    lower left corner of the axes.
    """
    taken = list(taken)
    for place, area, text in marks:
        at = points_at(ax, place)
        around = [other for other in taken if other != at]
        reach = 0.7 * math.sqrt(area) + 2.0
        offset, most = (0.0, 0.0), -1.0
        for turn in range(_SIDES):
            angle = 2 * math.pi * turn / _SIDES
            x, y = math.cos(angle) * (reach + 2.5 * len(text)), math.sin(angle) * (reach + 1.0)
            room = min((math.dist((at[0] + x, at[1] + y), other) for other in around), default=_NEAR)
            if min(room, _NEAR) > most:
                offset, most = (x, y), min(room, _NEAR)
        taken.append((at[0] + offset[0], at[1] + offset[1]))
        write(ax, place, offset, text, colours["ink"], weight="bold", ha="center", va="center", zorder=6)


def backing(colours: Colours) -> dict[str, Any]:
    """Return the look of the box behind a text that stands on lines."""
    return {"facecolor": colours["background"], "edgecolor": "none", "alpha": 0.75, "pad": 0.6}


def spots_between(start: Extent, end: Extent) -> list[Extent]:
    """Return places on a straight line, about a letter apart, with both ends; all in points."""
    steps = max(1, round(math.dist(start, end) / LETTER))
    return [
        (start[0] + (end[0] - start[0]) * step / steps, start[1] + (end[1] - start[1]) * step / steps)
        for step in range(steps + 1)
    ]


def write(ax: Axes, place: Extent, offset: Extent, text: str, colour: str, **look: Any) -> None:
    """Write a text at an offset in points from a place in the axes."""
    ax.annotate(printable(text), place, offset, textcoords="offset points", size=_SMALL, color=colour, **look)


def points_at(ax: Axes, place: Extent) -> Extent:
    """Return where a place is, in points from the lower left corner of the axes."""
    x, y = (ax.transData.transform(place) - ax.transAxes.transform((0.0, 0.0))) * 72 / ax.figure.dpi
    return float(x), float(y)


def _draw(drawing: Drawing, ax: Axes, colours: Colours, lines: Sequence[str]) -> None:
    muted = colours["muted"]
    ax.set_facecolor(colours["background"])
    drawing.draw(ax, colours)
    ax.minorticks_off()
    ax.tick_params(length=0, labelsize=_SMALL, labelcolor=muted, pad=5)
    ax.grid(True, color=colours["grid"], linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[:].set(color=muted, linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(size=_TEXT, color=muted)
    samples = [line for line in ax.lines if not line.get_gid()]
    legend = ax.legend(
        samples,
        [cut_middle(printable(str(line.get_label())), _LEGENDLETTERS) for line in samples],
        ncols=int(drawing.width // _COLUMN),
        loc="upper left",
        bbox_to_anchor=(0.0, -_LEGEND * ax.figure.dpi / 72 / ax.bbox.height),
        fontsize=_SMALL,
        labelcolor=muted,
        frameon=False,
        borderpad=0.0,
        borderaxespad=0.0,
    )
    wrapped = [part for line in lines for part in wrap(printable(line), LETTERS)]
    if wrapped:
        ax.annotate(
            "\n".join(wrapped), (0.0, 0.0), (0.0, -6.0), xycoords=legend, textcoords="offset points", va="top",
            size=_SMALL, color=muted, linespacing=1.5,
        )  # fmt: skip


def _saved(drawings: Sequence[Drawing], form: str, theme: ThemeName) -> tuple[bytes, dict[str, str]]:
    """Return a file and the titles in it by id. It does not depend on the user's matplotlibrc.

    Names may have glyphs that the font lacks.
    """
    import_outside("matplotlib")

    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    out = io.BytesIO()
    colours = theme_colours(theme)
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "gpuprof", "text.parse_math": False}
        )
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        sheet = Figure(figsize=(_WIDTH / 72, 1.0), dpi=72, facecolor=colours["background"])
        top, extents = 0.0, []
        for drawing in drawings:
            bottom = top - drawing.height
            # Axes can lie below their sheet: it grows when it is saved.
            ax = sheet.add_axes((0.0, bottom / 72, drawing.width / _WIDTH, drawing.height / 72))
            if theme == "page":
                _draw(drawing, ax, colours, ())
            else:
                _draw(drawing, ax, colours, drawing.notes)
                title = cut_middle(printable(drawing.title), _TITLELETTERS)
                ax.set_title(title, loc="left", pad=22.0, size=_TITLE, weight="bold", color=colours["ink"])
                write(ax, (0.0, 1.0), (0.0, 8.0), drawing.subtitle, colours["muted"], xycoords="axes fraction")
            extent = ax.get_tightbbox()
            assert extent is not None, "its texts can be seen"
            extents.append(extent)
            top = extent.y0 - _BETWEEN
        sheet.savefig(
            out,
            format=form,
            dpi=200 if form == "png" else 72,
            metadata=_NO_METADATA.get(form),
            # What "tight" finds out by drawing everything twice.
            bbox_inches=Bbox.union(extents).padded(_MARGIN).transformed(sheet.dpi_scale_trans.inverted()),
        )
    labels = {str(artist.get_gid()): str(artist.get_label()) for artist in sheet.findobj() if artist.get_gid()}
    return out.getvalue(), {name: label for name, label in labels.items() if not _NO_LABEL.fullmatch(label)}


def _svg(
    content: bytes,
    titles: Mapping[str, str],
    drawing: Drawing,
    prefix: str,
    links: Mapping[int, str],
) -> ElementTree.Element:
    """Return matplotlib's SVG without styles for the whole page, with titles, and links of marks."""
    ElementTree.register_namespace("", _SVG[1:-1])
    before, _, rest = content.partition(b"<style")
    root = ElementTree.fromstring(before + rest.partition(b"</style>")[2])  # noqa: S314  (matplotlib's)
    for element in list(root.iter()):
        name = element.get("id", "")
        _rewrite(element, prefix)
        if titles.get(name):
            _explain(element, name, titles[name], links)
    root.attrib |= {
        "class": "figure",
        "data-zoom": "x" if drawing.is_timeline else "",
        "role": "group" if links else "img",
        "aria-label": printable(drawing.title),
        "style": f"stroke-linejoin:round;font-family:{_FONTS}",
    }
    return root


def _rewrite(element: ElementTree.Element, prefix: str) -> None:
    """Make ids and references those of the figure, and colours of theme `page` variables."""
    for name, value in list(element.attrib.items()):
        if name == "id":
            element.set(name, prefix + value)
        elif name == _HREF:
            del element.attrib[name]
            element.set("href", f"#{prefix}{value[1:]}")
        else:
            own = re.sub("font-family: [^;]*;?", "", value).replace("url(#", f"url(#{prefix}")
            element.set(name, page_style(own))


def _explain(group: ElementTree.Element, name: str, title: str, links: Mapping[int, str]) -> None:
    """Give a group its title, and a mark its kernel and link, which a keyboard can reach."""
    mark = _MARK.match(name)
    if mark is not None:
        kernel = int(mark[1])
        group.set("data-kernel", str(kernel))
        if kernel in links:
            link = ElementTree.Element(f"{_SVG}a", {"href": links[kernel]})
            link.extend(group)
            group[:] = [link]
    marks = group.findall(f".//{_SVG}use")
    lines = title.split("\n")
    if not 1 < len(lines) == len(marks):
        marks, lines = [group], [title]
    for element, line in zip(marks, lines, strict=True):
        described = ElementTree.Element(f"{_SVG}title")
        described.text = printable(line)
        element.insert(0, described)
