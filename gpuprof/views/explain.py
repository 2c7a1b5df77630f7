"""Why a kernel takes its time, as a document: a tree of steps, each with its number first."""

from __future__ import annotations

from gpuprof.model.session import Session
from gpuprof.views.document import Cell, Document, Facts, Tone, Tree
from gpuprof.words.explain_node import ExplanationNode
from gpuprof.words.finding_text import value_text
from gpuprof.words.profile_values import device_text, source_text
from gpuprof.words.sentences import joined_by

_TONES: dict[str, Tone] = {
    "kernel": "strong",
    "note": "muted",
    "missing": "muted",
    "left-out": "muted",
    "not-stalled": "muted",
    "finding": "warning",
    "finding-held": "warning",
}
_GAIN_SIGNS = {"finding": "≤", "finding-held": "~"}
_MISSING = {"missing": "not collected", "left-out": "not in this text export"}


def explanation(session: Session, _kernel: object, node: ExplanationNode) -> Document:
    """Return the tree of a kernel, and which GPU and files the numbers come from."""
    facts = [("GPU", device_text(device)) for device in session.devices]
    for source in session.sources:
        facts.append(("report", f"{source.file}: {source_text(source)}"))
    return Document(node.text, (_tree(node), Facts(tuple(facts))))


def _tree(node: ExplanationNode) -> Tree:
    number, text = step_text(node)
    shown = Cell(text, _TONES.get(node.kind, ""), code=node.kind == "line")
    return Tree(shown, number, tuple(map(_tree, node.children)))


def step_text(node: ExplanationNode) -> tuple[str, str]:
    """Return the number of a step, empty if it has none, and the words beside it."""
    number = value_text(node.value, node.unit) if node.value is not None else ""
    if node.kind in _GAIN_SIGNS:
        gain = f"{_GAIN_SIGNS[node.kind]} {number}" if number else ""
        return gain, f"{node.text} ({node.detail})"
    if node.kind == "note":
        return "", f"also: {node.text} ({node.detail})"
    if node.kind == "line":
        return number, joined_by(": ", node.detail, node.text)
    if node.kind in _MISSING:
        return "", f"{_MISSING[node.kind]}: {node.text}; {node.detail}"
    if node.kind == "kernel":
        return "", joined_by(": ", node.text, joined_by(", ", number, node.detail))
    return number, joined_by(": ", node.text, node.detail)
