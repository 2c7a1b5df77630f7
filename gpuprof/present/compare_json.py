"""A comparison as JSON, one line per kernel, and the schema of that: what programs and agents read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import COMPARISON_VERSION, Comparison
from gpuprof.present.compare_options import DEFAULTS, CompareOptions
from gpuprof.present.contract_json import contract_lines
from gpuprof.store.schema import schema_of, schema_text

_ONE_LINE_EACH = ("conditions", "total", "kernels", "notes")


def lines(compared: Compared, _options: CompareOptions = DEFAULTS) -> Iterator[str]:
    """Return the comparison as it is, whatever the options. A number that is not finite is missing, with a note."""
    return contract_lines(compared.comparison, _ONE_LINE_EACH)


def comparison_schema() -> str:
    """Return the JSON Schema of `compare --format json`."""
    return schema_text(schema_of_comparison())


def schema_of_comparison() -> dict[str, Any]:
    """Return the schema as a value."""
    return schema_of(Comparison, f"gpuprof comparison, version {COMPARISON_VERSION}")
