"""The explanation of a kernel as a tree of lines: the number first, then what it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from gpuprof.present.console_parts import Sheet
from gpuprof.words.explain_node import ExplanationNode
from gpuprof.words.finding_text import value_text

if TYPE_CHECKING:
    from rich.text import Text


class _Guides(Struct, frozen=True):
    """What is drawn before a step, before what follows it, and below the last one."""

    step: str
    last: str
    down: str
    none: str = "   "


_LINES = _Guides("├─ ", "└─ ", "│  ")
_ASCII = _Guides("|- ", "`- ", "|  ")
_STYLES = {
    "finding": "bold yellow", "finding-held": "bold yellow", "note": "dim", "missing": "dim", "left-out": "dim",
    "not-stalled": "dim", "line": "cyan",
}  # fmt: skip
_GAIN_SIGNS = {"finding": "≤", "finding-held": "~"}
_MISSING = {"missing": "not collected", "left-out": "not in this text export"}


def tree_lines(node: ExplanationNode, sheet: Sheet) -> Iterator[Text]:
    """Yield the tree, a step in one line or in several that hang below each other."""
    yield from _lines(node, "", "", sheet, _LINES if sheet.blocks else _ASCII)


def _lines(node: ExplanationNode, first: str, rest: str, sheet: Sheet, guides: _Guides) -> Iterator[Text]:
    yield _step(node, first, rest + (guides.down if node.children else guides.none), sheet)
    for index, child in enumerate(node.children):
        last = index + 1 == len(node.children)
        down = rest + (guides.none if last else guides.down)
        yield from _lines(child, rest + (guides.last if last else guides.step), down, sheet, guides)


def _step(node: ExplanationNode, first: str, rest: str, sheet: Sheet) -> Text:
    from rich.text import Text

    number, text = map(sheet.legible, step_text(node))
    whole = f"{number}  {text}" if number else text
    lines = sheet.wrapped(whole, max(len(first), len(rest)))
    style = _STYLES.get(node.kind, "")
    out = Text(overflow="fold")
    for index, line in enumerate(lines):
        out.append(f"\n{rest}" if index else first, "dim")
        bold = len(number) if index == 0 and line.startswith(number) else 0
        out.append(line[:bold], f"{style} bold".strip() if style != "dim" else "dim")
        out.append(line[bold:], "bold" if node.kind == "kernel" else "" if node.kind in _GAIN_SIGNS else style)
    return out


def step_text(node: ExplanationNode) -> tuple[str, str]:
    """Write a step as its number, empty where it has none, and the words beside it."""
    number = value_text(node.value, node.unit) if node.value is not None else ""
    if node.kind in _GAIN_SIGNS:
        return (f"{_GAIN_SIGNS[node.kind]} {number}" if number else ""), f"{node.text} ({node.detail})"
    if node.kind == "note":
        return "", f"also: {node.text} ({node.detail})"
    if node.kind == "line":
        return number, f"{node.detail}: {node.text}" if node.detail else node.text
    if node.kind in _MISSING:
        return "", f"{_MISSING[node.kind]}: {node.text}; {node.detail}"
    if node.kind == "kernel":
        note = ", ".join(part for part in (number, node.detail) if part)
        return "", f"{node.text}: {note}" if note else node.text
    return number, f"{node.text}: {node.detail}" if node.detail else node.text
