"""Names of kernels' arguments, read from the declarations in CUDA sources; none rather than wrong ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gpuprof.model.labels import short_name

Names = tuple[str | None, ...]

_COMMENT_OR_TEXT = re.compile(
    r"""
    //(?:[^\n\\]|\\.)*  # to the end of the line, or of those that it goes on in
    | /\*(?:.*?\*/|.*)  # to the end of a text in which it is not closed
    | R"(?P<mark>[^()\\\s]{0,16})\((?:.*?\)(?P=mark)"|.*)
    | "(?:[^"\\\n]|\\.)*"?
    | '(?:[^'\\\n]|\\.)'
    """,
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(r"^[ \t]*\#(?:[^\n\\]|\\[\s\S])*", re.MULTILINE)
_KERNEL = "__global__"
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_LAST_NAME = re.compile(r"(?<![\w:])(?<!::)(?P<name>[A-Za-z_]\w*)\s*$")
_POINTED = re.compile(
    r"\(\s*(?:[\w:]+\s*::\s*)?[*&]+\s*(?:const\s+|__restrict__\s+)?(?P<name>[A-Za-z_]\w*)\s*(?:\[[^\[\]]*\]\s*)?\)"
)
_MOST_HEADER = 20_000
_QUALIFIERS = frozenset({"const", "volatile", "struct", "class", "enum", "union", "typename", "__grid_constant__"})
_TYPE_WORDS = _QUALIFIERS | {
    "restrict", "__restrict__", "__restrict", "unsigned", "signed", "int", "long", "short", "char", "bool", "float",
    "double", "void", "auto",
}  # fmt: skip
"""Words that stand last only where a parameter has no name."""


def argument_names(source: str) -> Mapping[str, Sequence[Names]]:
    """Return the names of each kernel's arguments by its short name, once for each list of parameters that it has."""
    text = _DIRECTIVE.sub(" ", _COMMENT_OR_TEXT.sub(" ", source))
    declared: dict[str, list[Names]] = {}
    for header in text.split(_KERNEL)[1:]:
        for name, parameters in _groups(header[:_MOST_HEADER]):
            names = tuple(_name(part) for part in _parts(parameters))
            if names not in declared.setdefault(name, []):
                declared[name].append(names)
    return declared


def names_for(demangled: str, parameters: int, declared: Mapping[str, Sequence[Names]]) -> Names:
    """Return the names of a kernel's arguments: those that all declarations with so many parameters agree on."""
    fitting = [names for names in declared.get(short_name(demangled), ()) if len(names) == parameters]
    if not fitting:
        return ()
    told = [{name for name in names if name is not None} for names in zip(*fitting, strict=True)]
    return tuple(names.pop() if len(names) == 1 else None for names in told)


def _groups(header: str) -> Iterator[tuple[str, str]]:
    """Yield each name with the brackets behind it, up to the body or the end of a declaration."""
    rounds, angles = _closed(header, "()", ";"), _closed(header, "<>", ";{")
    at = 0
    while at < len(header):
        char = header[at]
        if char in "{;":
            return
        match = _IDENTIFIER.match(header, at)
        if match is None:
            at += 1
            continue
        at = _behind_blanks(header, match.end())
        if header[at : at + 1] == "<":
            end = angles.get(at)
            at = _behind_blanks(header, end) if end is not None else at + 1
        if header[at : at + 1] == "(":
            end = rounds.get(at)
            if end is None:
                return
            yield match[0], header[at + 1 : end - 1]
            at = end


def _behind_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _closed(text: str, brackets: str, ends: str) -> dict[int, int]:
    """Return where each bracket that is closed has been closed, by where it opens; none is across what ends all."""
    opened: list[int] = []
    closed = {}
    for place, char in enumerate(text):
        if char == brackets[0]:
            opened.append(place)
        elif char == brackets[1] and opened:
            closed[opened.pop()] = place + 1
        elif char in ends:
            opened.clear()
    return closed


def _parts(parameters: str) -> list[str]:
    """Split a list of parameters at the commas that stand in no bracket."""
    if parameters.strip() in ("", "void"):
        return []
    parts, depth, start = [], 0, 0
    for at, char in enumerate(parameters):
        depth += (char in "([{<") - (char in ")]}>" and parameters[at - 1 : at] != "-")
        if char == "," and depth == 0:
            parts.append(parameters[start:at])
            start = at + 1
    return [*parts, parameters[start:]]


def _name(parameter: str) -> str | None:
    """Return the name in a parameter's declaration; None where it has none, or one cannot be sure."""
    declared = _without_default(parameter).strip()
    while declared.endswith("]") and "]" not in declared[(extent := declared.rfind("[")) : -1] and extent >= 0:
        declared = declared[:extent].rstrip()
    pointed = _POINTED.search(declared)
    if pointed is not None:
        return pointed["name"]
    last = _LAST_NAME.search(declared)
    if last is None or last["name"] in _TYPE_WORDS or "..." in declared or "(" in declared:
        return None
    before = [word for word in _IDENTIFIER.findall(declared[: last.start()]) if word not in _QUALIFIERS]
    return last["name"] if before else None


def _without_default(parameter: str) -> str:
    depth = 0
    for at, char in enumerate(parameter):
        depth += (char in "([{<") - (char in ")]}>")
        if char == "=" and depth == 0:
            return parameter[:at]
    return parameter
