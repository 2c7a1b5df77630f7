"""The content of a finding's sentences: named cases of its wording, and values for their placeholders.

`gpuprof.words` turns them into text with the wording file of the rule in `gpuprof/diagnose/wording`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gpuprof.model.field_types import Number, Word, about

CaseName = Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,60}(/[a-z0-9-]{1,60})?$(?!\n)")]
"""A case of the rule's wording file; with a slash, of another file: `kinds/gemm-fill`."""
Role = Annotated[str, Meta(pattern=r"^[a-z0-9-]{0,60}$(?!\n)")]
"""Name of a piece of evidence in the wording; empty if it has only a meaning."""
MAIN = ("main",)


class Amount(Struct, frozen=True):
    """A number with its unit; a share has the unit `fraction`."""

    name: Annotated[Word, about("name in the wording file")]
    value: Annotated[Number, about("the value, in its unit")]
    unit: Annotated[str, about("its unit; empty for a plain number")] = ""


class Label(Struct, frozen=True):
    """Identifiers or names, such as of units, parameters or opcodes."""

    name: Annotated[Word, about("name in the wording file")]
    texts: Annotated[tuple[str, ...], about("the identifiers or names", most=100)]


class Cases(Struct, frozen=True, kw_only=True):
    """Cases of the wording, in order: what was found, why it costs time, what to change, and how."""

    headline: Annotated[tuple[CaseName, ...], about("what was found", most=100)] = MAIN
    why: Annotated[tuple[CaseName, ...], about("why it costs time", most=100)] = MAIN
    action: Annotated[tuple[CaseName, ...], about("what to change, in one sentence", most=100)] = MAIN
    advice: Annotated[tuple[CaseName, ...], about("what to change, and how", most=100)] = MAIN
