"""A review as JSON, one line per kernel, and the schema of that: what programs and agents read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuprof.present.contract_json import contract_lines
from gpuprof.review.contract import REVIEW_VERSION, Review
from gpuprof.store.schema import schema_of, schema_text

_ONE_LINE_EACH = ("modules", "kernels", "findings", "unreviewed", "notes")


def lines(review: Review, _top: int | None = None) -> Iterator[str]:
    """Return the review as it is, with all kernels. A number that is not finite is missing, with a note."""
    return contract_lines(review, _ONE_LINE_EACH)


def review_schema() -> str:
    """Return the JSON Schema of `check --format json`."""
    return schema_text(schema_of_review())


def schema_of_review() -> dict[str, Any]:
    """Return the schema as a value."""
    return schema_of(Review, f"gpuprof review, version {REVIEW_VERSION}")
