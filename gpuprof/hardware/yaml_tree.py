"""YAML with line numbers: every scalar is text, every node knows its file and line, every error points there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpuprof.errors import SpecError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH = 12
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, for messages."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Node:
    """A YAML value: text, a list, a mapping, or None for `null`."""

    value: str | tuple[Node, ...] | Mapping[str, Node] | None
    place: Place

    def mapping(self, what: str) -> Mapping[str, Node]:
        """Return the value as a mapping, or say at which line `what` should have been one."""
        if isinstance(self.value, Mapping):
            return self.value
        raise SpecError(f"{self.place}: {what} must be a mapping")

    def sequence(self, what: str) -> tuple[Node, ...]:
        """Return the value as a list, or say at which line `what` should have been one."""
        if isinstance(self.value, tuple):
            return self.value
        raise SpecError(f"{self.place}: {what} must be a list")

    def text(self, what: str) -> str:
        """Return the value as text, or say at which line `what` should have been text."""
        if isinstance(self.value, str):
            return self.value
        raise SpecError(f"{self.place}: {what} must be text")


def load_tree(path: Path) -> Node:
    """Read one YAML document. Raises SpecError with file and line for anything that is not plain YAML."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise SpecError(f"{path}: larger than {_MAX_BYTES} bytes; a spec file is a few kilobytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from error
    return parse_tree(text, str(path))


def parse_tree(text: str, file: str) -> Node:
    """Parse YAML text that came from `file`."""
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        problem = getattr(error, "problem", None) or str(error)
        raise SpecError(f"{file}:{line}: not valid YAML: {problem}") from error
    if root is None:
        raise SpecError(f"{file}:1: the file is empty")
    return _convert(root, file, 0)


def _convert(node: yaml.Node, file: str, depth: int) -> Node:
    place = Place(file, node.start_mark.line + 1)
    if depth > _MAX_DEPTH:
        raise SpecError(f"{place}: nested deeper than {_MAX_DEPTH} levels")
    if isinstance(node, yaml.MappingNode):
        return Node(dict(_pairs(node, file, depth)), place)
    if isinstance(node, yaml.SequenceNode):
        return Node(tuple(_convert(child, file, depth + 1) for child in node.value), place)
    if node.tag == "tag:yaml.org,2002:null":
        return Node(None, place)
    return Node(str(node.value), place)


def _pairs(node: yaml.MappingNode, file: str, depth: int) -> Iterator[tuple[str, Node]]:
    seen: set[str] = set()
    for key, value in node.value:
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else None
        if name is None:
            raise SpecError(f"{file}:{key.start_mark.line + 1}: a key must be text")
        if name in seen:
            raise SpecError(f"{file}:{key.start_mark.line + 1}: {name!r} appears twice")
        seen.add(name)
        yield name, _convert(value, file, depth + 1)


def merge(base: Node, override: Node) -> Node:
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
    return Node(merged, override.place)


def _is_leaf(mapping: Mapping[str, Node]) -> bool:
    """A fact or a counter link is one value: it is replaced whole, so that no old note sticks to a new number."""
    return "value" in mapping or "how" in mapping or "text" in mapping
