"""Turns matplotlib's SVG into the page's: ids of the figure's own, titles, CSS variables, no calls for other files."""

from __future__ import annotations

import re
from html import escape

from gpuprof.present import words
from gpuprof.present.figures import FigurePoint, RooflineFigure
from gpuprof.present.plot_marks import point_id, roof_id
from gpuprof.present.plot_text import shortened
from gpuprof.present.plot_theme import ThemeName, page_variables
from gpuprof.present.text import printable
from gpuprof.units import format_percent, format_si

_TITLE_LENGTH = 100
_TAG = re.compile(r"<[^>]*>")
_REFERENCE = re.compile(r'(\bid="|url\(#|href="#)')
_ID = re.compile(r'(?<=\bid=")[^"]*')
_GROUP = re.compile(r'<g id="([^"]*)">')


def finished_svg(svg: str, figure: RooflineFigure, theme: ThemeName) -> str:
    """Make ids unique to the figure, give titles to figure and points, and drop what calls for other files."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, count=1, flags=re.DOTALL)
    prefix = f"{_identifier(figure.id)}-"
    variables = page_variables() if theme == "page" else {}
    titles = {f"{prefix}{_identifier(name)}": title for name, title in _titles(figure).items()}

    def rewrite(match: re.Match[str]) -> str:
        tag = _ID.sub(lambda found: _identifier(found[0]), match[0])
        tag = _REFERENCE.sub(lambda found: f"{found[0]}{prefix}", tag)
        for colour, variable in variables.items():
            tag = tag.replace(colour, variable)
        found = _GROUP.match(tag)
        title = titles.get(found[1]) if found else None
        return f"{tag}<title>{escape(printable(title))}</title>" if title is not None else tag

    return _with_title(_TAG.sub(rewrite, body), figure, prefix, theme)


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def _titles(figure: RooflineFigure) -> dict[str, str]:
    """Return what a reader sees when the pointer rests on a point or roof, by its id within the figure."""
    points = {point_id(point): _point_title(point) for point in figure.points}
    return points | {roof_id(roof): f"{roof.name} {roof.value_text}" for roof in figure.roofs}


def _point_title(point: FigurePoint) -> str:
    intensity = format_si(point.intensity, f"{words.work_unit(point.path, per_second=False)}/B")
    share = f", {format_percent(point.share)} of the time" if point.share is not None else ""
    return (
        f"{shortened(point.label, _TITLE_LENGTH)} #{point.kernel}: {words.path_name(point.path)} "
        f"{format_si(point.flop_per_s, words.work_unit(point.path))} at {intensity} of "
        f"{words.LEVEL_NAMES[point.level]}, {format_percent(point.fraction_of_roof)} of its roof "
        f"{point.ceiling.replace('-', ' ')} ({point.bound} side){share}"
    )


def _with_title(body: str, figure: RooflineFigure, prefix: str, theme: ThemeName) -> str:
    opening, _, rest = body.partition(">")
    opening = re.sub(r'\s(width|height)="[^"]*pt"', "", opening) if theme == "page" else opening
    title, description = escape(printable(figure.title)), escape(printable(figure.subtitle))
    label = f'role="img" aria-labelledby="{prefix}title {prefix}desc" style="stroke-linejoin:round"'
    head = f'{opening} {label}>\n<title id="{prefix}title">{title}</title><desc id="{prefix}desc">{description}</desc>'
    declaration = "" if theme == "page" else '<?xml version="1.0" encoding="utf-8"?>\n'
    return f"{declaration}{head}{rest}".rstrip() + "\n"
