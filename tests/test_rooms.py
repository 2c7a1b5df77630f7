"""The folders of gpuprof are rooms in an order: a file imports from rooms before its own, and no imports make a circle.

Imports inside functions, those for type checkers and those that a table names count like the others.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import gpuprof
from tests.table import each_row

ROOT = Path(gpuprof.__file__).parent
PAGE = ROOT.parent / "docs" / "explanation" / "architecture.md"

BASE = (
    "_version", "errors", "units", "resources", "ranges", "workers", "own_files", "working_folder", "needed_packages",
    "text",
)  # fmt: skip
"""What every room may import, and what imports nothing but one another."""
ROOMS = (
    "hardware", "recordings", "model", "timeline", "sass", "store", "read", "privacy", "annotated", "diagnose",
    "comparison", "collect", "words", "review", "views", "characterize", "hardware_finder", "events",
    "pipeline", "ab_runner", "notebook", "api", "api_compare", "profiling", "cli", "__main__",
)  # fmt: skip
NOTHING_OF = {
    "model": {"recordings"},
    "timeline": {"recordings"},
    "sass": {"hardware", "recordings", "model"},
    "store": {"recordings", "sass"},
    "read": {"recordings"},
    "privacy": {"recordings", "sass", "store", "read"},
    "annotated": {"hardware", "recordings", "store", "read", "privacy"},
    "diagnose": {"recordings", "store", "read"},
    "comparison": {"recordings", "sass", "store", "read"},
    "words": {"recordings", "sass", "store", "read"},
    "review": {"recordings", "store"},
    "collect": {"recordings", "sass", "store", "read", "comparison"},
    "views": {"read"},
    "characterize": {"recordings", "store", "diagnose", "review"},
}
"""Rooms that come before, and that a room all the same does without."""
NAMES_LATER_ROOMS = {"gpuprof.views.formats": {"characterize"}}
"""A table with functions of later rooms: formats whose writers are still to move."""
STEPS = {
    "characterize": (
        "probes", "gates", "maths", "judge", "sheet", "record", "on_gpu", "measure", "results", "methods", "present"
    ),
    "sass": ("binary", "tools", "flow", "dataflow", "patterns"),
}  # fmt: skip
"""The order of folders within rooms."""
MODULES_BEFORE_FOLDERS = {"sass"}
"""Rooms whose own modules come before their folders."""
ONLY_IN = {
    "subprocess": {"characterize", "sass", "collect"},
    "cupy": {"characterize"},
    "zstandard": {"read", "sass"},
    "pynvml": {"collect"},
    "rich": {"views", "characterize"},
    "click": {"cli"},
    "matplotlib": {"views", "characterize", "notebook"},
    "pandas": {"notebook"},
    "jinja2": {"views"},
    "importlib": {"cli", "collect", "working_folder", "needed_packages"},
}
"""Which rooms touch a package that stands at a border."""


_IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n#]*)|import ([^\n#]*))", re.MULTILINE)
_LATER = re.compile(r"""["'](gpuprof(?:\.\w+)+):\w+["']""")
"""A row of a table that names a function to import when it is called for."""


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return for each module of gpuprof what it imports, by whole names; of gpuprof itself, the modules."""
    texts = {_name(path): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
    return {name: frozenset(_imported(text, frozenset(texts))) for name, text in texts.items()}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(text: str, modules: frozenset[str]) -> Iterator[str]:
    for module, names, plain in _IMPORT.findall(text):
        yield from (name.partition(" as ")[0].strip() for name in plain.split(",") if name)
        assert not module.startswith("."), "imports are absolute"
        for name in re.findall(r"(\w+)(?: as \w+)?", re.sub("#.*", "", names)):
            whole = f"{module}.{name}"
            yield whole if whole in modules else module
    yield from _LATER.findall(text)
    if re.search(r"\b(import_module|__import__)\(", text):
        yield "importlib"


def of_gpuprof(name: str) -> set[str]:
    return {one for one in imports()[name] if one.split(".")[0] == "gpuprof"}


def room(name: str) -> str:
    """Return the room of a module; the package itself is "gpuprof"."""
    return name.split(".")[1] if "." in name else name


def step(name: str) -> str | None:
    """Return the folder within a room; None for what lies in none."""
    parts = name.split(".")
    return parts[2] if len(parts) > 3 else None


def test_every_folder_and_file_has_its_place_in_the_order() -> None:
    entries = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert entries - {"__init__"} == {*BASE, *ROOMS}


def test_the_architecture_page_has_the_same_rooms_in_the_same_order() -> None:
    rows = re.findall(r"^\| `(\w+?)(?:/|\.py)` \|.*\|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name, _ in rows] == list(ROOMS)
    assert {name: set(re.findall(r"`(\w+)`", without)) for name, without in rows if without.strip()} == NOTHING_OF


@each_row("name", ROOMS)
def test_a_room_imports_from_those_before_it(name: str) -> None:
    allowed = {*BASE, *ROOMS[: ROOMS.index(name) + 1]} - NOTHING_OF.get(name, set())
    modules = [module for module in imports() if room(module) == name]
    assert modules
    for module in modules:
        late = NAMES_LATER_ROOMS.get(module, set())
        assert {room(one) for one in of_gpuprof(module)} <= allowed | late, module


def test_the_base_imports_nothing_of_the_rooms() -> None:
    for module in imports():
        if room(module) in BASE:
            assert {room(one) for one in of_gpuprof(module)} <= set(BASE), module


def test_nothing_imports_the_package_s_face() -> None:
    assert not [module for module in imports() if "gpuprof" in imports()[module]]


def test_imports_make_no_circle() -> None:
    waiting = {module: of_gpuprof(module) & set(imports()) for module in imports()}
    while ready := [module for module, needed in waiting.items() if not needed & set(waiting)]:
        for module in ready:
            del waiting[module]
    assert not waiting, f"each of these imports another one of them: {', '.join(sorted(waiting))}"


@each_row("package", ONLY_IN)
def test_a_border_is_touched_in_its_rooms_only(package: str) -> None:
    touching = {room(module) for module, names in imports().items() if package in {one.split(".")[0] for one in names}}
    assert touching == ONLY_IN[package]


@each_row("name", STEPS)
def test_the_folders_of_a_room_have_an_order_too(name: str) -> None:
    folder = ROOT / name
    assert {path.name for path in folder.iterdir() if (path / "__init__.py").is_file()} == set(STEPS[name])
    named = re.findall(r"`(\w+)`", importlib.import_module(f"gpuprof.{name}").__doc__ or "")
    assert [word for word in named if word in STEPS[name]] == list(STEPS[name])


@each_row(("name", "folder"), [(name, folder) for name in STEPS for folder in STEPS[name]])
def test_a_folder_of_a_room_imports_from_those_before_it(name: str, folder: str) -> None:
    allowed: set[str | None] = {*STEPS[name][: STEPS[name].index(folder) + 1]}
    if name in MODULES_BEFORE_FOLDERS:
        allowed.add(None)
    modules = [module for module in imports() if room(module) == name and step(module) == folder]
    assert modules
    for module in modules:
        for one in of_gpuprof(module):
            if room(one) == name:
                assert step(one) in allowed, (module, one)


def test_a_rule_imports_no_other_rule_and_facts_import_no_rule() -> None:
    rules = {module for module in imports() if module.startswith("gpuprof.diagnose.rules.")}
    facts = {module for module in imports() if module.startswith("gpuprof.diagnose.facts.")}
    assert len(rules) > 30 and len(facts) > 5
    for module in rules | facts:
        assert not of_gpuprof(module) & rules, module


def test_what_is_loaded_into_the_user_s_program_needs_nothing_of_gpuprof() -> None:
    injected = {_name(path) for path in (ROOT / "collect" / "inject").glob("*.py")}
    assert injected
    for module in injected:
        assert of_gpuprof(module) <= injected, module


TEXTS = {"headline", "advice", "sentence", "meaning", "action", "held"}
"""What words writes for people: nothing else takes it apart, or decides by it."""
TAKES_APART = {
    "startswith", "endswith", "partition", "rpartition", "split", "rsplit", "splitlines", "removeprefix",
    "removesuffix", "replace", "strip", "lstrip", "rstrip", "find", "rfind", "index", "count", "lower", "upper",
    "casefold", "capitalize", "title", "translate", "match", "search", "fullmatch", "findall", "finditer", "sub",
}  # fmt: skip


def is_written_text(node: ast.expr) -> bool:
    while isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Attribute) or node.attr not in TEXTS:
        return False
    # The names of cases are data.
    return not (isinstance(node.value, ast.Attribute) and node.value.attr == "cases")


def taken_apart(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of code that take rendered text apart or compare it."""
    for node in ast.walk(tree):
        parts: tuple[ast.expr, ...] = ()
        if not isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKES_APART:
            parts = (node.func.value, *node.args)
        elif isinstance(node, ast.Compare):
            parts = (node.left, *node.comparators)
        elif isinstance(node, ast.Subscript):
            parts = (node,)
        if any(map(is_written_text, parts)):
            yield node.lineno


@each_row(
    ("code", "found"),
    [
        ("finding.headline.partition(': ')", True), ("'x' in cause.sentence", True), ("item.meaning == 'busy'", True),
        ("re.match('a', finding.advice)", True), ("finding.headline[3:]", True), ("f'{finding.headline}.'", False),
        ("finding.rule.partition('-')", False), ("printable(finding.headline)", False),
        ("finding.cases.action[0]", False),
    ],
)  # fmt: skip
def test_taking_a_sentence_apart_is_found(code: str, found: bool) -> None:
    assert bool(list(taken_apart(ast.parse(code)))) is found


def test_rendered_text_is_taken_apart_in_words_alone() -> None:
    outside = [path for path in sorted(ROOT.rglob("*.py")) if "words" not in path.relative_to(ROOT).parts]
    found = [f"{path}:{line}" for path in outside for line in taken_apart(ast.parse(path.read_text(encoding="utf-8")))]
    assert found == []
