"""The templates of pages on compiled code and measured GPUs: every value is escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from typing import TYPE_CHECKING

from gpuprof.text import printable

if TYPE_CHECKING:
    from jinja2 import Environment

_PART_ENDS = re.compile(r"(?<=[_:<,])(?=\w)|(?<=\w\()(?=\w)")
_LONG_NAME = 24
_UNIT = re.compile(
    r"(?<=\d) (?=(?:%|[kMGTPEµnm]?(?:s|B|Hz|FLOP|OP)(?:/[sB])?(?![\w/])|[kMGTPE](?![\w/])))|(?<=[≤≥~]) (?=\d)"
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
