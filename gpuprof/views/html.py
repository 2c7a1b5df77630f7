"""Render a document as one HTML page that needs nothing else: complete without its script, safe for hostile names."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from typing import TYPE_CHECKING

from gpuprof.store.page import DATA_ID, DATA_TYPE
from gpuprof.text import printable
from gpuprof.views import document as doc
from gpuprof.views.theme import colour_variables

if TYPE_CHECKING:
    from jinja2 import Environment

_SCRIPT = "page.js"
_STYLE = "page.css"
_PART_ENDS = re.compile(r"(?<=[_:<,])(?=\w)|(?<=\w\()(?=\w)")
_LONG_NAME = 24
_UNIT = re.compile(
    r"(?<=\d) (?=(?:%|[kMGTPEµnm]?(?:s|B|Hz|FLOP|OP)(?:/[sB])?(?![\w/])|[kMGTPE](?![\w/])))|(?<=[≤≥~]) (?=\d)"
)


def render_page(document: doc.Document) -> str:
    """Return the page of a document, with links to all its headings of level 2 that have an anchor."""
    from markupsafe import Markup

    environment = _environment()
    script = _source(environment, _SCRIPT)
    data = document.data() if document.data is not None else None
    return environment.get_template("page.html").render(
        document=document,
        contents=[block for block in document.blocks if isinstance(block, doc.Heading) and block.anchor],
        policy=_policy(script),
        script=Markup(script),  # noqa: S704  (our own file)
        style=Markup(colour_variables() + _source(environment, _STYLE)),  # noqa: S704  (our own file)
        data_id=DATA_ID,
        data_type=DATA_TYPE,
        data=Markup(data) if data is not None else None,  # noqa: S704  (base64)
    )


@cache
def _environment() -> Environment:
    """Return the templates: every value is escaped, and none may be missing."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("gpuprof.views"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    environment.filters["cell"] = lambda value: value if isinstance(value, doc.Cell) else doc.Cell(value)
    environment.filters["breakable"] = _breakable
    environment.filters["words"] = _words
    environment.globals["render"] = lambda block: _render_block(environment, block)
    environment.filters["svg"] = lambda draw: Markup(draw())  # noqa: S704  (figures escape their texts)
    return environment


def _render_block(environment: Environment, block: doc.Block) -> str:
    """Return the markup of a block by the macro of its name."""
    macro = getattr(environment.get_template("blocks.html").module, type(block).__name__.lower())
    text: str = macro(block)
    return text


def _shown(value: object) -> object:
    """Make every text of the page safe; markup stays."""
    return _safe(value) if type(value) is str else value


def _safe(value: str) -> str:
    """Make hidden characters visible, and keep a number and its unit on one line."""
    text = printable(value)
    return _UNIT.sub("\u00a0", text) if " " in text else text


def _breakable(name: str) -> object:
    """Let a line of a long name end between its parts, not within a word."""
    from markupsafe import Markup, escape

    text = _safe(name)
    return Markup("<wbr>").join(map(escape, _PART_ENDS.split(text))) if len(text) >= _LONG_NAME else text


def _words(command: str) -> object:
    """Let a line of a command end between its words, and leave its spaces as they are typed: it is copied."""
    from markupsafe import Markup

    return Markup(" ").join(Markup("<span>{}</span>").format(word) for word in printable(command).split(" "))


def _source(environment: Environment, name: str) -> str:
    """Return the text of a file beside the templates."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _policy(script: str) -> str:
    """Return the content security policy: no request at all, and no script but ours."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
