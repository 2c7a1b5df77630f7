"""A measured GPU as one HTML page that needs nothing else: complete without its script, safe for hostile names."""

from __future__ import annotations

from gpuprof.characterize.present.page.build import build_page
from gpuprof.characterize.present.view import View
from gpuprof.views.html import page_policy, page_source, page_templates
from gpuprof.views.plot import figure_svg
from gpuprof.views.theme import colour_variables

_PACKAGE = "gpuprof.characterize.present"


def render_measured_html(view: View) -> str:
    """Return the page of a measured file."""
    from markupsafe import Markup

    templates = page_templates(_PACKAGE)
    script = page_source(templates, "measured.js")
    return templates.get_template("measured.html").render(
        page=build_page(view),
        svg=lambda drawing: Markup(figure_svg(drawing, {})),  # noqa: S704  (figures escape their texts)
        policy=page_policy(script),
        script=Markup(script),  # noqa: S704  (our own file)
        style=Markup(colour_variables() + page_source(templates, "measured.css")),  # noqa: S704  (our own file)
    )
