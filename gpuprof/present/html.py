"""A session as one HTML page that needs nothing else: complete without its script, safe for hostile names."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from gpuprof.model.session import Session
from gpuprof.present.page.build import Choice, build_page, part_of
from gpuprof.store.page import DATA_ID, DATA_TYPE, packed_session
from gpuprof.text import printable
from gpuprof.views.theme import colour_variables

if TYPE_CHECKING:
    from jinja2 import Environment

_SCRIPT, _STYLE = "report.js", "report.css"
_PART_ENDS = re.compile(r"(?<=[_:<,])(?=\w)|(?<=\w\()(?=\w)")
_LONG_NAME = 24
_UNIT = re.compile(
    r"(?<=\d) (?=(?:%|[kMGTPEµnm]?(?:s|B|Hz|FLOP|OP)(?:/[sB])?(?![\w/])|[kMGTPE](?![\w/])))|(?<=[≤≥~]) (?=\d)"
)


def render_html(
    session: Session,
    *,
    title: str | None = None,
    top: int = 12,
    kernels: Collection[int] | None = None,
    level: str = "dram",
    ceiling: str = "at-clock",
) -> str:
    """Return the page. `top` limits the sections, `kernels` (numbers) restricts all but the verdict."""
    from markupsafe import Markup

    wanted = frozenset(kernels) if kernels is not None else None
    page = build_page(session, Choice(title=title, top=top, kernels=wanted, level=level, ceiling=ceiling))
    environment = page_environment()
    script = page_source(environment, _SCRIPT)
    data = packed_session(part_of(session, wanted))
    return environment.get_template("report.html").render(
        page=page,
        policy=page_policy(script),
        script=Markup(script),  # noqa: S704  (our own file)
        style=Markup(colour_variables() + page_source(environment, _STYLE)),  # noqa: S704  (our own file)
        svg=Markup,
        data_id=DATA_ID,
        data_type=DATA_TYPE,
        data=Markup(data) if data is not None else None,  # noqa: S704  (base64)
    )


@cache
def page_environment(*packages: str) -> Environment:
    """Return the templates of pages, those of `packages` too: every value is escaped, and none may be missing."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in ("gpuprof.present", *packages)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    environment.filters["breakable"] = _breakable
    environment.filters["typed"] = _typed
    return environment


def _shown(value: object) -> object:
    """Make every text of the page safe; what is markup already stays."""
    return _safe(value) if type(value) is str else value


def _safe(value: str) -> str:
    """Make what could hide visible, and keep a figure and its unit on one line."""
    text = printable(value)
    return _UNIT.sub("\u00a0", text) if " " in text else text


def _breakable(name: str) -> object:
    """Let a line of a long name end between its parts, not within a word."""
    from markupsafe import Markup, escape

    text = _safe(name)
    return Markup("<wbr>").join(map(escape, _PART_ENDS.split(text))) if len(text) >= _LONG_NAME else text


def _typed(command: str) -> object:
    """Let a line of a command end between its words, and leave its spaces as they are typed: it is copied."""
    from markupsafe import Markup

    return Markup(" ").join(Markup("<span>{}</span>").format(word) for word in printable(command).split(" "))


def page_source(environment: Environment, name: str) -> str:
    """Return the text of a file beside the templates."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def page_policy(script: str) -> str:
    """Return the content security policy: no request at all, and no script but ours."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
