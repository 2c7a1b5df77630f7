"""A measured GPU as one HTML page that needs nothing else: complete without its script, safe for hostile names."""

from __future__ import annotations

from gpuprof.characterize.present.page.build import build_page
from gpuprof.characterize.present.view import View
from gpuprof.views.html import page_policy, page_source, page_templates
from gpuprof.views.plot import figure_svg
from gpuprof.views.theme import colour_variables

_PACKAGES = ("gpuprof.present", "gpuprof.characterize.present")
_SCRIPT, _STYLES = "report.js", ("report.css", "measured.css")


def render_measured_html(view: View) -> str:
    """Return the page of a measured file."""
    from markupsafe import Markup

    templates = page_templates(*_PACKAGES)
    script = page_source(templates, _SCRIPT)
    style = colour_variables() + "".join(page_source(templates, name) for name in _STYLES)
    return templates.get_template("measured.html").render(
        page=build_page(view),
        svg=lambda drawing: Markup(figure_svg(drawing, {})),  # noqa: S704  (figures escape their texts)
        policy=page_policy(script),
        script=Markup(script),  # noqa: S704  (our own file)
        style=Markup(style),  # noqa: S704  (our own file)
    )
