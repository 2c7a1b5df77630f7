"""A comparison as JSON, one line per kernel, and the schema of that: what programs and agents read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import COMPARISON_VERSION, Comparison
from gpuprof.present.compare_finite import finite
from gpuprof.present.compare_options import CompareOptions
from gpuprof.store.schema import schema_of, schema_text
from gpuprof.store.write import document_lines

_ONE_LINE_EACH = ("conditions", "total", "kernels", "notes")
_HALF = re.compile(r"(?<!\\)((?:\\\\)*)\\(u[dD][89a-fA-F][0-9a-fA-F]{2})")
"""An escape of half a surrogate pair: what is no character is written as it is, and that as an escape."""


def lines(compared: Compared, _options: CompareOptions | None = None) -> Iterator[str]:
    """Yield the comparison as it is, whatever the options. A number that is not finite is missing, with a note."""
    comparison = compared.comparison
    try:
        document = list(document_lines(comparison, _ONE_LINE_EACH))
    except ValueError:
        document = list(document_lines(finite(comparison), _ONE_LINE_EACH))
    yield from map(_whole, document)


def _whole(line: str) -> str:
    r"""Return a line without halves of surrogate pairs, which strict readers refuse: a name that is not UTF-8 has them.

    Such a byte becomes the visible text `\udcff`, as everywhere else.
    """
    return _HALF.sub(r"\1\\\\\2", line) if "\\u" in line else line


def comparison_schema() -> str:
    """Return the JSON Schema of `compare --format json`."""
    return schema_text(schema_of_comparison())


def schema_of_comparison() -> dict[str, Any]:
    """Return the schema as a value."""
    return schema_of(Comparison, f"gpuprof comparison, version {COMPARISON_VERSION}")
