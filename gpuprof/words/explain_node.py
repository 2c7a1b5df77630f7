"""The steps of an explanation: a number, words, and the steps below."""

from __future__ import annotations

from msgspec import Struct


class ExplanationNode(Struct, frozen=True):
    """A step of the explanation: a number with its unit, what it is, what it means, and the steps below it.

    `kind` is one of kernel, unit, issue, warps, occupancy, stall, not-stalled, cause, finding, finding-held, note,
    line, missing, left-out. The gain of a finding is an upper bound, that of a finding-held holds with something as it
    is; a note is a finding with nothing to gain. Percentages run to 100. None: there is no number. What is `missing`,
    or `left-out` of a text export, says in `detail` what would collect it.
    """

    kind: str
    text: str
    value: float | None = None
    unit: str = ""
    detail: str = ""
    children: tuple[ExplanationNode, ...] = ()


def missing_node(what: str, section: str, children: tuple[ExplanationNode, ...] = ()) -> ExplanationNode:
    """Return a step of what was not collected, with the section of ncu that has it."""
    return ExplanationNode("missing", what, detail=f"collect with ncu --section {section}", children=children)


def percent_node(
    kind: str, text: str, fraction: float, detail: str = "", children: tuple[ExplanationNode, ...] = ()
) -> ExplanationNode:
    """Return a step whose number is a fraction, in percent."""
    return ExplanationNode(kind, text, 100 * fraction, unit="%", detail=detail, children=children)
