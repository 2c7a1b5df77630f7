"""Turns matplotlib's SVG into the page's: ids of the figure's own, titles, CSS variables, no calls for other files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from gpuprof.model.path_names import path_name
from gpuprof.present.plot_marks import point_id, roof_id
from gpuprof.present.plot_theme import ThemeName, page_variables
from gpuprof.present.roofline_figure import FigurePoint, RooflineFigure
from gpuprof.present.session_text import LEVEL_NAMES, intensity_text, rate_text
from gpuprof.present.text import cut_middle, printable
from gpuprof.units import format_percent

_TITLE_LENGTH = 100
_TAG = re.compile(r"<[^<>]*>")
_REFERENCE = re.compile(r'(\bid="|url\(#|href="#)')
_ID = re.compile(r'(?<=\bid=")[^"]*')
_GROUP = re.compile(r'<g id="([^"]*)">')
_FONT = re.compile(r"font-family: '[^\"]{0,1000}?sans-serif; ")
_GENERATED_ID = re.compile(r'<g id="(?:figure|axes|patch|line2d|text|xtick|ytick|matplotlib\.axis|legend)_\d+"')
_LONG_NUMBER = re.compile(r'(?<=[\s"(])-?\d+\.\d{3,}(?=[\s")])')
_NO_TURN = re.compile(r' transform="rotate\(-?0 [^()]*\)"')
_STYLE = re.compile(r'(?<= style=")[^"]*')
_EMPTY_GROUP = re.compile(r"(?<!\s)\s*<g/>")
_FONT_OF_PAGE = "font-family:'DejaVu Sans',Verdana,'Segoe UI',sans-serif"


def finished_svg(svg: str, figure: RooflineFigure, theme: ThemeName, links: Mapping[int, str] | None = None) -> str:
    """Make ids unique to the figure, give titles to figure and points, and drop what calls for other files.

    `links` gives the points of these kernels a link.
    """
    body = svg[svg.index("<svg") :]
    body = _without(_without(body, "<metadata>", "</metadata>"), "<style", "</style>")
    body = _compact(body) if theme == "page" else body
    prefix = f"{_identifier(figure.id)}-"
    variables = page_variables() if theme == "page" else {}
    titles = {f"{prefix}{_identifier(name)}": title for name, title in _titles(figure).items()}
    targets = {
        f"{prefix}{_identifier(point_id(point))}": (point.kernel, links[point.kernel])
        for point in figure.points
        if links is not None and point.kernel in links
    }
    target: tuple[int, str] | None = None
    title: str | None = None

    def rewrite(match: re.Match[str]) -> str:
        nonlocal target, title
        tag = _ID.sub(lambda attribute: _identifier(attribute[0]), match[0])
        tag = _REFERENCE.sub(lambda attribute: f"{attribute[0]}{prefix}", tag)
        if "#fa" in tag:
            for colour, variable in variables.items():
                tag = tag.replace(colour, variable)
        group = _GROUP.match(tag)
        if group:
            title, target = titles.get(group[1]), targets.get(group[1], target)
            return f"{tag}<title>{escape(printable(title))}</title>" if title and group[1] not in targets else tag
        if target is not None and title is not None and tag.startswith("<use "):
            tag, target = _linked(tag, *target, title), None
        return tag

    return _with_title(_TAG.sub(rewrite, body), figure, prefix, theme, linked=bool(targets))


def _without(text: str, opening: str, closing: str) -> str:
    """Cut out the first element that begins and ends so."""
    before, _, rest = text.partition(opening)
    _, closed, after = rest.partition(closing)
    return before + after if closed else text


def _linked(mark: str, kernel: int, href: str, title: str) -> str:
    """Return a point's mark inside a link that a keyboard can reach and a reader can name."""
    return f'<a href="{escape(href)}" data-kernel="{kernel}"><title>{escape(printable(title))}</title>{mark}</a>'


def _compact(body: str) -> str:
    """Drop what a page with many figures need not repeat: fonts of each text, ids that nobody refers to, digits."""
    return _EMPTY_GROUP.sub("", _TAG.sub(_compact_tag, body))


def _compact_tag(match: re.Match[str]) -> str:
    tag = _GENERATED_ID.sub("<g", _NO_TURN.sub("", _FONT.sub("", match[0])))
    tag = _STYLE.sub(lambda style: style[0].replace("; ", ";").replace(": ", ":"), tag)
    tag = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)
    return " ".join(tag.split()) if tag.startswith("<path") else tag


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def _titles(figure: RooflineFigure) -> dict[str, str]:
    """Return what a reader sees when the pointer rests on a point or ceiling, by its id within the figure."""
    points = {point_id(point): _point_title(point) for point in figure.points}
    return points | {roof_id(roof): f"{roof.name} {roof.value_text}" for roof in figure.roofs}


def _point_title(point: FigurePoint) -> str:
    share = f", {format_percent(point.share)} of the time" if point.share is not None else ""
    source = f" in {point.source}" if point.source else ""
    return (
        f"{cut_middle(point.label, _TITLE_LENGTH)} #{point.kernel}{source}: {path_name(point.path)} "
        f"{rate_text(point.path, point.flop_per_s)} at {intensity_text(point.path, point.intensity)} of "
        f"{LEVEL_NAMES[point.level]}, {format_percent(point.fraction_of_roof)} of the roofline "
        f"{point.ceiling.replace('-', ' ')}, {point.bound}-bound{share}"
    )


def _with_title(body: str, figure: RooflineFigure, prefix: str, theme: ThemeName, *, linked: bool) -> str:
    opening, _, rest = body.partition(">")
    opening = re.sub(r'\s(width|height)="[^"]*pt"', "", opening) if theme == "page" else opening
    title, description = escape(printable(figure.title)), escape(printable(figure.subtitle))
    role = "group" if linked else "img"
    style = f"stroke-linejoin:round{f';{_FONT_OF_PAGE}' if theme == 'page' else ''}"
    label = f'role="{role}" aria-labelledby="{prefix}title {prefix}desc" style="{style}"'
    head = f'{opening} {label}>\n<title id="{prefix}title">{title}</title><desc id="{prefix}desc">{description}</desc>'
    declaration = "" if theme == "page" else '<?xml version="1.0" encoding="utf-8"?>\n'
    return f"{declaration}{head}{rest}".rstrip() + "\n"
