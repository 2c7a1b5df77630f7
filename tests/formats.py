"""A session in every format of the table that is text."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.model.session import Session
from gpuprof.views.formats import TABLE, Product, formats_of, printed_formats
from gpuprof.views.options import WriteOptions


def written(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the name of a format, and the session in it."""
    for name in text_formats("session"):
        form = formats_of("session")[name]
        if form.report:
            yield name, "\n".join(form.lines(session, WriteOptions()))
        else:
            arguments = (session,) if form.launches else (session, list(session.kernels), 0)
            yield name, "\n".join(form.write(*arguments))


def text_formats(product: Product) -> list[str]:
    """Return the names of the formats that a product is printed in as text."""
    return [name for name in printed_formats(product) if name != TABLE]
