"""The steps of an explanation: a number, words, and the steps below."""

from __future__ import annotations

from msgspec import Struct


class ExplanationNode(Struct, frozen=True):
    """A step of the explanation: a number with its unit, its name and meaning, and the steps below.

    `kind` is one of kernel, unit, issue, warps, occupancy, stall, not-stalled, cause, finding,
    finding-held, note, line, missing, left-out. The gain of a finding is an upper bound, that of a
    finding-held has a condition; a note is a finding with nothing to gain. Percentages run to 100.
    None: there is no number. If `missing`, or `left-out` of a text export, `detail` says what would
    collect it.
    """

    kind: str
    text: str
    value: float | None = None
    unit: str = ""
    detail: str = ""
    children: tuple[ExplanationNode, ...] = ()


Nodes = tuple[ExplanationNode, ...]


def missing_node(name: str, section: str, children: Nodes = ()) -> ExplanationNode:
    """Return a step that was not collected, with the section of ncu that has it."""
    detail = f"collect with ncu --section {section}"
    return ExplanationNode("missing", name, detail=detail, children=children)


def percent_node(
    kind: str,
    text: str,
    fraction: float,
    detail: str = "",
    children: Nodes = (),
) -> ExplanationNode:
    """Return a step whose number is a fraction, in percent."""
    return ExplanationNode(kind, text, 100 * fraction, "%", detail, children)
