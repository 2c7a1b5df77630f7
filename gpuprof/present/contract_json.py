"""A contract as JSON, an item of its lists a line: numbers that are not finite are missing, with a note."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuprof.comparison.contract import Comparison
from gpuprof.present.finite import finite
from gpuprof.review.contract import Review
from gpuprof.store.write import document_lines

_HALF = re.compile(r"(?<!\\)((?:\\\\)*)\\(u[dD][89a-fA-F][0-9a-fA-F]{2})")
"""An escape of half a surrogate pair: what is no character is written as it is, and that as an escape."""


def contract_lines(record: Comparison | Review, one_line_each: Sequence[str]) -> Iterator[str]:
    """Yield a record as a JSON document, in which every item of the lists `one_line_each` has its own line."""
    try:
        document = list(document_lines(record, one_line_each))
    except ValueError:
        document = list(document_lines(finite(record), one_line_each))
    yield from map(_whole, document)


def _whole(line: str) -> str:
    r"""Return a line without halves of surrogate pairs, which strict readers refuse: a name that is not UTF-8 has them.

    Such a byte becomes the visible text `\udcff`, as everywhere else.
    """
    return _HALF.sub(r"\1\\\\\2", line) if "\\u" in line else line
