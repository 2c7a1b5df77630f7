"""A review as one HTML page that needs nothing else: complete without its script, safe for hostile names."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.present.check_page.contents import contents_of
from gpuprof.review.contract import Review
from gpuprof.views.html import page_policy, page_source, page_templates
from gpuprof.views.theme import colour_variables

_SCRIPT, _STYLES = "report.js", ("report.css", "check.css")


def page_lines(review: Review, top: int | None = None) -> Iterator[str]:
    """Yield the page, with `top` kernels; as many as a page can hold unless it is given. Folders are left out."""
    from markupsafe import Markup

    environment = page_templates("gpuprof.present")
    script = page_source(environment, _SCRIPT)
    style = colour_variables() + "".join(page_source(environment, name) for name in _STYLES)
    page = environment.get_template("check.html").render(
        page=contents_of(review, top),
        policy=page_policy(script),
        script=Markup(script),  # noqa: S704  (our own file)
        style=Markup(style),  # noqa: S704  (our own file)
        svg=Markup,
    )
    yield from page.rstrip("\n").split("\n")
