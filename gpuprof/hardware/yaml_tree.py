"""YAML with line numbers: every scalar is text, every node knows its file and line, every error points there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml
from msgspec import Struct

from gpuprof.errors import SpecError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH = 12
_MAX_BYTES = 1_000_000
_NULLS = {"", "~", "null", "Null", "NULL"}


class FileLine(NamedTuple):
    """A line of a file, for messages."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class BrokenSpec(SpecError):
    """A spec breaks a rule: where, and which."""

    def __init__(self, place: FileLine, problem: str, hint: str | None = None) -> None:
        super().__init__(f"{place}: {problem}", hint)
        self.place = place
        self.problem = problem


class YamlNode(Struct, frozen=True):
    """A YAML value: text, a list, a mapping, or None for `null`."""

    value: str | tuple[YamlNode, ...] | Mapping[str, YamlNode] | None
    place: FileLine

    def mapping(self, what: str) -> Mapping[str, YamlNode]:
        """Return the value as a mapping, or say at which line `what` should have been one."""
        if isinstance(self.value, Mapping):
            return self.value
        raise BrokenSpec(self.place, f"{what} must be a mapping")

    def sequence(self, what: str) -> tuple[YamlNode, ...]:
        """Return the value as a list, or say at which line `what` should have been one."""
        if isinstance(self.value, tuple):
            return self.value
        raise BrokenSpec(self.place, f"{what} must be a list")

    def entries(self) -> tuple[YamlNode, ...]:
        """Return a list's items, or anything else as a list of one."""
        return self.value if isinstance(self.value, tuple) else (self,)

    def text(self, what: str) -> str:
        """Return the value as text, or say at which line `what` should have been text."""
        if isinstance(self.value, str):
            return self.value
        raise BrokenSpec(self.place, f"{what} must be text")


def load_tree(path: Path) -> YamlNode:
    """Read one YAML document. Raises BrokenSpec with file and line for anything that is not plain YAML."""
    return parse_tree(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Return the text of a spec file. Raises BrokenSpec if it cannot be read, is no UTF-8 or is no spec by its size."""
    try:
        if path.is_fifo():
            raise OSError("a pipe, not a file")
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise BrokenSpec(FileLine(str(path), 1), f"cannot be read: {reason}") from error
    if len(data) > _MAX_BYTES:
        raise BrokenSpec(FileLine(str(path), 1), f"larger than {_MAX_BYTES} bytes; a spec file is a few kilobytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BrokenSpec(FileLine(str(path), line), f"not UTF-8 text: {error.reason}") from error


def parse_tree(text: str, file: str) -> YamlNode:
    """Parse YAML text that came from `file`. Anchors, aliases and tags are refused: a spec says what it says in place.

    The tree is built from events, so that nesting is cut off before it can exhaust the stack.
    """
    try:
        return _document(yaml.parse(text, Loader=_LOADER), file)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise BrokenSpec(FileLine(file, _error_line(error, text)), f"not valid YAML: {problem}") from error
    except UnicodeError as error:
        raise BrokenSpec(FileLine(file, 1), f"not UTF-8 text: {error}") from error


def _error_line(error: yaml.YAMLError, text: str) -> int:
    mark, position = getattr(error, "problem_mark", None), getattr(error, "position", None)
    if mark is not None:
        return int(mark.line) + 1
    return text.encode()[:position].count(b"\n") + 1 if position is not None else 1


def _document(events: Iterator[yaml.Event], file: str) -> YamlNode:
    next(events)  # The start of the stream.
    if isinstance(next(events), yaml.StreamEndEvent):
        raise BrokenSpec(FileLine(file, 1), "the file is empty")
    root = _node(next(events), events, file, 0)
    next(events)  # The end of the document.
    after = next(events)
    if not isinstance(after, yaml.StreamEndEvent):
        raise BrokenSpec(_place(after, file), "a second document begins; a spec file is one")
    return root


def _node(event: yaml.Event, events: Iterator[yaml.Event], file: str, depth: int) -> YamlNode:
    place = _place(event, file)
    if depth > _MAX_DEPTH:
        raise BrokenSpec(place, f"nested deeper than {_MAX_DEPTH} levels")
    if getattr(event, "anchor", None) is not None:
        raise BrokenSpec(place, "anchors and aliases are not used in specs")
    if getattr(event, "tag", None) is not None:
        raise BrokenSpec(place, f"tags such as {getattr(event, 'tag', '')} are not used in specs")
    if isinstance(event, yaml.MappingStartEvent):
        return YamlNode(dict(_pairs(events, file, depth)), place)
    if isinstance(event, yaml.SequenceStartEvent):
        return YamlNode(tuple(_items(events, file, depth)), place)
    assert isinstance(event, yaml.ScalarEvent)
    is_null = event.implicit[0] and event.value in _NULLS
    return YamlNode(None if is_null else str(event.value), place)


def _items(events: Iterator[yaml.Event], file: str, depth: int) -> Iterator[YamlNode]:
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        yield _node(event, events, file, depth + 1)


def _pairs(events: Iterator[yaml.Event], file: str, depth: int) -> Iterator[tuple[str, YamlNode]]:
    """Yield keys and values. A value's place is the line of its key, where a reader looks for it."""
    seen: set[str] = set()
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        place = _place(event, file)
        if not isinstance(event, yaml.ScalarEvent):
            raise BrokenSpec(place, "a key must be text")
        name = str(event.value)
        if name in seen:
            raise BrokenSpec(place, f"{name!r} appears twice")
        seen.add(name)
        yield name, YamlNode(_node(next(events), events, file, depth + 1).value, place)


def _place(event: yaml.Event, file: str) -> FileLine:
    return FileLine(file, event.start_mark.line + 1 if event.start_mark is not None else 1)


def merge(base: YamlNode, override: YamlNode) -> YamlNode:
    """Lay `override` over `base`: mappings merge key by key, anything else replaces, null removes."""
    if not isinstance(base.value, Mapping) or not isinstance(override.value, Mapping):
        return override
    if _is_leaf(override.value):
        return override
    merged = dict(base.value)
    for key, node in override.value.items():
        if node.value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged[key], node) if key in merged else node
    return YamlNode(merged, override.place)


def _is_leaf(mapping: Mapping[str, YamlNode]) -> bool:
    """A fact or a counter link is one value: it is replaced whole, so that no old note sticks to a new number."""
    return "value" in mapping or "how" in mapping or "text" in mapping
