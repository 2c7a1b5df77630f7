"""Render a document as one self-contained HTML page: complete without its script, safe for hostile names."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec.structs import replace

from gpuprof.store.page import DATA_ID, DATA_TYPE
from gpuprof.text import printable
from gpuprof.views import document as doc
from gpuprof.views.glossary import glossary
from gpuprof.views.theme import colour_variables, contrast_ratio
from gpuprof.words.profile_values import count_text
from gpuprof.workers import begun

_PACKAGE = "gpuprof.views"
_FRAGMENT_ROWS = 10
# Deeper than any heading.
_DEEPER = 9
_PART_ENDS = re.compile(r"(?<=[_:<,])(?=\w)|(?<=\w\()(?=\w)")
_LONG_NAME = 24
_UNIT = re.compile(
    r"(?<=\d) (?=(?:%|[kMGTPEµnm]?(?:s|B|Hz|FLOP|OP)(?:/[sB])?(?![\w/])|[kMGTPE](?![\w/])))|(?<=[≤≥~]) (?=\d)"
)
_COLOUR = re.compile(r"#[0-9a-f]{6}")


def render_page(document: doc.Document) -> str:
    """Return the page of a document, with links to its headings of level 2 and a glossary of its terms."""
    templates = page_templates(_PACKAGE)
    script = page_source(templates, "page.js")
    blocks = _drawn_meanwhile(document.blocks)
    data = document.data() if document.data is not None else None
    terms = [(term.name, term.meaning) for term in glossary(document)]
    if terms:
        title = f"{count_text(len(terms), 'term')} used on this page"
        blocks += [doc.Heading("Glossary", 2, "glossary"), doc.Fold(title, (doc.Facts(tuple(terms)),))]
    headings = [block for block in blocks if isinstance(block, doc.Heading)]
    start = blocks.index(headings[0]) if headings else len(blocks)
    return templates.get_template("page.html").render(
        document=document,
        lead=blocks[:start],
        rest=blocks[start:],
        contents=[block for block in headings if block.level == 2 and block.anchor],
        render=_renderer(linked=True),
        policy=page_policy(script),
        script=Markup(script),  # noqa: S704  (our own file)
        style=Markup(colour_variables() + page_source(templates, "page.css")),  # noqa: S704  (our own file)
        data_id=DATA_ID,
        data_type=DATA_TYPE,
        data=Markup(data) if data is not None else None,  # noqa: S704  (base64)
    )  # fmt: skip


def _drawn_meanwhile(blocks: Iterable[doc.Block]) -> list[doc.Block]:
    """Return blocks whose figures another process has begun to draw: matplotlib takes as long as the rest of a page."""
    blocks = list(blocks)
    figures = {place: block for place, block in enumerate(blocks) if isinstance(block, doc.Figure) and block.svg}
    if figures:
        drawn = begun(lambda: {place: figure.svg() for place, figure in figures.items() if figure.svg})
        for place, figure in figures.items():
            blocks[place] = replace(figure, svg=lambda place=place: drawn()[place])
    return blocks


def render_fragment(document: doc.Document) -> str:
    """Return the short form of a document for a notebook: no script, links, ids or figures; legible on any ground.

    A heading that has nothing left below it is left out.
    """
    blocks: list[doc.Block] = []
    level_below = 0
    for block in reversed(document.blocks):
        if isinstance(block, doc.Fold | doc.Figure):
            continue
        level = block.level if isinstance(block, doc.Heading) else _DEEPER
        if level_below <= level < _DEEPER:
            continue
        level_below = level
        if isinstance(block, doc.Table):
            blocks.append(doc.first_rows(block, _FRAGMENT_ROWS))
        elif isinstance(block, doc.Note) and block.short:
            blocks.append(doc.Note(block.short, block.tone))
        else:
            blocks.append(block)
    templates = page_templates(_PACKAGE)
    return templates.get_template("fragment.html").render(
        blocks=blocks[::-1],
        render=_renderer(linked=False),
        style=Markup(page_source(templates, "fragment.css")),  # noqa: S704  (our own file)
    )  # fmt: skip


@cache
def page_templates(*packages: str) -> Environment:
    """Return the templates of packages: every value is escaped, and none may be missing."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_safe,
    )
    environment.filters |= {
        "zip": zip,
        "frames": _frames,
        "framed": _framed,
        "plain": _plain,
        "cell": lambda value: doc.Cell(value) if isinstance(value, str) else value,
        "breakable": _breakable,
        "words": _words,
        "percent": lambda fraction: f"{100 * min(max(fraction, 0.0), 1.0):.4g}",
        "colours": _colours,
        "svg": lambda draw: Markup(draw()),  # noqa: S704  (figures escape their texts)
    }
    return environment


@cache
def _renderer(*, linked: bool) -> Callable[[doc.Block, int], Any]:
    """Return the function that gives the markup of a block, by the macro of its name."""

    def render(block: doc.Block, level: int) -> Any:
        return getattr(macros, type(block).__name__.lower())(block, level)

    macros = page_templates(_PACKAGE).get_template("blocks.html").make_module({"render": render, "linked": linked})
    return render


def _frames(columns: Sequence[doc.Column]) -> list[tuple[str, str, str]]:
    """Return the markup around the cells of each column: before their attributes and before and behind their texts.

    The first column of names is a heading.
    """
    frames = []
    tag = 'th scope="row"'
    for column in columns:
        names = escape(f"{column.kind} {column.id}".rstrip())
        if column.kind == "name":
            frames.append((f'<{tag} class="{names}"', "><div>", f"</div></{tag[:2]}>"))
            tag = "td"
        else:
            frames.append((f'<td class="{names}"', ">", "</td>"))
    return frames


def _framed(text: Markup, frame: tuple[str, str, str], order: float | None) -> Markup:
    start, opening, end = frame
    attribute = f' data-v="{order}"' if order is not None else ""
    return Markup(f"{start}{attribute}{opening}{text}{end}")  # noqa: S704  (all parts are markup)


def _plain(value: doc.Inline) -> object:
    """Return the markup of a text that is nothing but its characters; None if it is more."""
    if isinstance(value, str):
        return _breakable(value)
    if value.tone or value.href or value.whole or value.code or value.bar is not None:
        return None
    return _breakable(value.text)


def _safe(value: Any) -> Any:
    """Make hidden characters of a text visible, and keep a number and its unit on one line; markup stays."""
    return _UNIT.sub("\u00a0", printable(value)) if type(value) is str else value


def _breakable(name: str) -> Markup:
    """Let a line of a long name end between its parts, not within a word."""
    text = _safe(name)
    return Markup("<wbr>").join(_PART_ENDS.split(text) if len(text) >= _LONG_NAME else [text])


def _words(command: str) -> object:
    """Let a line of a command end between its words, and leave its spaces as they are typed: it is copied."""
    return Markup(" ").join(Markup("<span>{}</span>").format(word) for word in printable(command).split(" "))


def _colours(colour: str) -> str:
    """Return the style of a coloured area whose text is legible; empty if this is no colour."""
    if not _COLOUR.fullmatch(colour):
        return ""
    ink = max(("#000000", "#ffffff"), key=lambda ink: contrast_ratio(ink, colour))
    return f";background:{colour};color:{ink}"


def page_source(templates: Environment, name: str) -> str:
    """Return the text of a file beside the templates."""
    assert templates.loader is not None
    return templates.loader.get_source(templates, name)[0]


def page_policy(script: str) -> str:
    """Return the content security policy: no request at all, and no script but ours."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
