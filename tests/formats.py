"""A session in every format of the table that is text."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.model.session import Session
from gpuprof.present.formats import FORMATS


def written(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the name of a format, and the session in it."""
    for form in FORMATS.values():
        write = form.kernels.function()
        if form.takes == "launches":
            yield form.name, "\n".join(write(session))
        elif form.takes == "groups":
            yield form.name, "\n".join(write(session, list(session.kernels), 0))
