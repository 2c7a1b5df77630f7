"""A comparison as one HTML page that needs nothing else: complete without its script, safe for hostile names."""

from __future__ import annotations

from gpuprof.comparison.compare import Compared
from gpuprof.present.compare_page.contents import contents_of
from gpuprof.present.html import colour_variables, page_environment, page_policy, page_source

_SCRIPT, _STYLES = "report.js", ("report.css", "compare.css")


def comparison_page(compared: Compared) -> str:
    """Return the page. Folders and what else is private in commands is left out, as on the page of a session."""
    from markupsafe import Markup

    environment = page_environment()
    script = page_source(environment, _SCRIPT)
    style = colour_variables() + "".join(page_source(environment, name) for name in _STYLES)
    return environment.get_template("compare.html").render(
        page=contents_of(compared),
        policy=page_policy(script),
        script=Markup(script),  # noqa: S704  (our own file)
        style=Markup(style),  # noqa: S704  (our own file)
        svg=Markup,
    )
