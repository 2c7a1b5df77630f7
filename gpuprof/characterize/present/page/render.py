"""A measured GPU as one HTML page that needs nothing else: complete without its script, safe for hostile names."""

from __future__ import annotations

from gpuprof.characterize.present.page.build import build_page
from gpuprof.characterize.present.view import View
from gpuprof.present.html import page_environment, page_policy, page_source
from gpuprof.views.theme import colour_variables

_PACKAGE = "gpuprof.characterize.present"
"""It has templates of its own, which import some of those of `gpuprof.present`."""
_SCRIPT, _STYLES = "report.js", ("report.css", "measured.css")


def render_measured_html(view: View) -> str:
    """Return the page of a measured file."""
    from markupsafe import Markup

    templates = page_environment(_PACKAGE)
    script = page_source(templates, _SCRIPT)
    style = colour_variables() + "".join(page_source(templates, name) for name in _STYLES)
    return templates.get_template("measured.html").render(
        page=build_page(view),
        policy=page_policy(script),
        script=Markup(script),  # noqa: S704  (our own file)
        style=Markup(style),  # noqa: S704  (our own file)
    )
