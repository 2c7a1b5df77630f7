"""The kinds of files that a session can be made from, by the name that its sources have."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta

from gpuprof.model.field_types import Word


class SourceKind(NamedTuple):
    """What is known of all files of a kind: whether it is a timeline, and whether it is a text without code."""

    is_trace: bool = False
    is_text: bool = False


TORCH_TRACE = "torch-trace"
STANDARD_INPUT = "standard input"
"""What a source is called that had no file."""
SURVEY_MARK = " survey"
"""What the kind of a source ends with that only timed the kernels which another one counts."""
SOURCE_KINDS = {
    "ncu-rep": SourceKind(),
    "cuprof-report": SourceKind(),
    "ncu-csv-raw": SourceKind(is_text=True),
    "ncu-csv-details": SourceKind(is_text=True),
    "ncu-text": SourceKind(is_text=True),
    TORCH_TRACE: SourceKind(is_trace=True),
    "nsys-sqlite": SourceKind(is_trace=True),
}
SourceKindName = Annotated[
    Word, Meta(extra_json_schema={"enum": [f"{kind}{mark}" for mark in ("", SURVEY_MARK) for kind in SOURCE_KINDS]})
]
"""One of these; the reader takes another one, of a later gpuprof, for a report."""


def kind_named(name: str) -> SourceKind:
    """Return what is known of a source by its kind, a survey's too; of a kind that is not known: a report."""
    return SOURCE_KINDS.get(name.removesuffix(SURVEY_MARK), SourceKind())
