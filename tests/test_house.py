"""Habits of the code that can be counted: names that say what a value is, one type a name, large records by keyword."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import gpuprof

ROOT = Path(gpuprof.__file__).parent.parent
CODE = ("gpuprof", "benchmarks")
EMPTY_NAMES = frozenset({"one", "found", "words"})
"""Names that fit whatever there is: what it is makes a better name."""
MOST_BY_POSITION = 3
"""So many fields a reader still knows by their order."""

MADE_IN_NUMBERS = {
    "Activity": "of a trace",
    "ElfSection": "of a program",
    "ElfSymbol": "of a program",
    "RegisterPlace": "of a program, which is a key",
    "Effect": "of a program",
    "PossibleStep": "of a program",
    "WalkStep": "of a program",
    "_Moment": "of a program",
    "Sample": "of a series, which its file has as a row",
    "Cells": "of a table, which is a row of texts",
    "Box": "that labels are tried in",
    "_Pause": "of a trace",
    "_Range": "of a timeline",
    "_Launched": "of a timeline",
    "_Event": "of a trace",
    "WorkAmount": "of the two sides of a comparison",
}
"""Named tuples of more fields than a reader knows by their order, and what they are many of."""


STILL_DATACLASSES = {
    "Format": "which --help imports",
    "CompareFormat": "which --help imports",
    "CompareOptions": "which --help imports",
    "_Words": "keeps a pattern",
    "SpecLibrary": "keeps what it has read",
    "Look": "keeps what it has read",
    "Case": "keeps what several rules ask",
    "Rule": "has one field by keyword only",
    "ControlFlowGraph": "keeps what it has worked out",
    "KernelAddresses": "keeps what it has worked out",
    "_Canvas": "sets itself up",
}
"""Dataclasses of the rooms that every report goes through, though each takes a millisecond to define."""


@cache
def trees() -> Mapping[str, ast.Module]:
    """Return each file's syntax by the name of its module."""
    files = sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
        for path in files
    }


def room(module: str) -> str:
    """Return the room of a module; `benchmarks` counts as one."""
    folder, name, *_ = module.split(".")
    return name if folder == "gpuprof" else folder


ROOMS = sorted({room(module) for module in trees()})


def in_room(name: str, places: Mapping[str, list[str]]) -> list[str]:
    """Return the places in a room's modules, each after its module and line."""
    return [f"{module}:{place}" for module, lines in places.items() if room(module) == name for place in lines]


@cache
def empty_names() -> Mapping[str, list[str]]:
    """Return where a variable, parameter or field has a name that says nothing, by module."""
    return {
        module: [f"{line}: {name}" for line, name in _bound(tree) if name in EMPTY_NAMES]
        for module, tree in trees().items()
    }


def _bound(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.lineno, node.name


@cache
def classes() -> Mapping[tuple[str, str], ast.ClassDef]:
    """Return the classes by module and name."""
    return {
        (module, node.name): node
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


@cache
def named(module: str) -> Mapping[str, tuple[str, str]]:
    """Return which class of ours a name, or a module's attribute, means in a module."""
    meanings = {name: (home, name) for home, name in classes() if home == module}
    for node in ast.walk(trees()[module]):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                called, whole = alias.asname or alias.name, f"{node.module}.{alias.name}"
                meanings |= {f"{called}.{name}": (home, name) for home, name in classes() if home == whole}
                if (node.module, alias.name) in classes():
                    meanings[called] = (node.module, alias.name)
    return meanings


@cache
def number_of_fields(module: str, name: str) -> int:
    """Return how many fields a named tuple, Struct or dataclass has, with those of its bases; 0 for other classes."""
    node = classes()[module, name]
    inherited = [named(module)[base] for base in map(ast.unparse, node.bases) if base in named(module)]
    marks = [*node.bases, *(mark.func if isinstance(mark, ast.Call) else mark for mark in node.decorator_list)]
    own = [
        statement
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and "ClassVar" not in ast.unparse(statement.annotation)
    ]
    is_record = any(ast.unparse(mark).split(".")[-1] in {"NamedTuple", "Struct", "dataclass"} for mark in marks)
    return sum(number_of_fields(*base) for base in inherited) + (len(own) if is_record else 0)


@cache
def by_position() -> Mapping[str, list[str]]:
    """Return where a record of more than three fields is made with more than three by position, by module."""
    return {module: list(_by_position(module, tree, None)) for module, tree in trees().items()}


def _by_position(module: str, node: ast.AST, inside: str | None) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        inside = node.name
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        record = (module, inside) if inside and called == "cls" else named(module).get(called)
        fields = number_of_fields(*record) if record else 0
        spread = any(isinstance(argument, ast.Starred) for argument in node.args)
        if fields > MOST_BY_POSITION and (spread or len(node.args) > MOST_BY_POSITION):
            yield f"{node.lineno}: {called}"
    for child in ast.iter_child_nodes(node):
        yield from _by_position(module, child, inside)


def public_types() -> Iterator[tuple[str, str]]:
    """Yield name and module of each public class of gpuprof, and of each public name for a type."""
    for module, tree in trees().items():
        if module.startswith("gpuprof."):
            yield from ((name, module) for home, name in classes() if home == module and not name.startswith("_"))
            assigned = (node.targets[0] for node in tree.body if isinstance(node, ast.Assign))
            yield from ((ast.unparse(target), module) for target in assigned if _names_a_type(target))


def _names_a_type(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and re.fullmatch(r"[A-Z]\w*[a-z]\w*", target.id) is not None


@pytest.mark.parametrize("name", ROOMS)
def test_a_name_says_what_its_value_is(name: str) -> None:
    assert in_room(name, empty_names()) == []


@pytest.mark.parametrize("name", ROOMS)
def test_a_large_record_is_made_by_keywords(name: str) -> None:
    assert in_room(name, by_position()) == []


def test_a_large_record_is_a_dataclass_unless_it_is_made_in_numbers() -> None:
    large = {
        name
        for (module, name), node in classes().items()
        if module.startswith("gpuprof.")
        and any(ast.unparse(base) == "NamedTuple" for base in node.bases)
        and number_of_fields(module, name) > MOST_BY_POSITION
    }
    assert large == set(MADE_IN_NUMBERS)


def test_what_every_report_goes_through_defines_its_records_in_no_time() -> None:
    rooms = {"model", "hardware", "read", "diagnose", "code", "comparison", "present", "store"}
    defined = {
        name
        for (module, name), node in classes().items()
        if room(module) in rooms and any("dataclass" in ast.unparse(mark) for mark in node.decorator_list)
    }
    assert defined == set(STILL_DATACLASSES)


def test_a_public_type_has_its_name_to_itself() -> None:
    homes = defaultdict(list)
    for name, module in public_types():
        homes[name].append(module)
    assert len(homes) > 300
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_the_checks_see_what_they_look_for() -> None:
    fine = ("Session(1, 2, 3)", "Session(1, tool=2, generated=3, sources=4)", "Limit(1, *rest)")
    wrong = ("Session(1, 2, 3, 4)", "Session(*row)")
    lines = ast.parse("\n".join(fine + wrong))
    assert list(_by_position("gpuprof.model.analyse", lines, None)) == ["4: Session", "5: Session"]
    bound = ast.parse("def one(found, *words):\n    [row for row in found]")
    assert sorted(name for _, name in _bound(bound)) == ["found", "row", "words"]
