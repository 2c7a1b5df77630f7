"""Lists what gpuprof says to a user: help, errors, hints and all other text, from the code and the templates.

`python docs/strings.py [FOLDER…]` prints file:line, kind and text, of the whole package or of folders and files of it.
`--check` prints instead what goes against the vocabulary (`banned_words.py`), and fails if anything does.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from banned_words import banned

PACKAGE = Path(__file__).resolve().parents[1] / "gpuprof"
Kind = Literal["help", "error", "hint", "other"]

READS = frozenset(
    {
        *("compile", "match", "fullmatch", "search", "sub", "split", "rsplit", "partition", "rpartition", "startswith"),
        *("endswith", "removeprefix", "removesuffix", "replace", "find", "index", "count", "strip", "rstrip", "lstrip"),
        *("getattr", "setattr", "hasattr", "execute", "import_module", "Literal", "TypeVar", "NewType"),
    }
)
"""Calls whose text is looked for or is a name: it is not said."""
SQL = re.compile(r"\s*(SELECT|PRAGMA|CREATE|INSERT|DROP|FROM|WHERE|ATTACH)\b")
MARKUP = re.compile(r"<!--.*?-->|</?[a-zA-Z!][^<>]*>?|&#?\w+;")
SAID_BY_MARKUP = re.compile(r'\b(?:title|aria-label|alt|placeholder)="([^"]+)"')
JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
QUOTED = re.compile(r'"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Text:
    """What a user may read, and where it is in the code; values that are put in are in braces."""

    path: Path
    line: int
    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(PACKAGE.parent)}:{self.line}: {self.kind}: {' '.join(self.text.split())}"


def main() -> int:
    """Print the texts, or those against the vocabulary; return the exit code."""
    places = [Path(place).resolve() for place in sys.argv[1:] if place != "--check"]
    chosen = [text for text in texts() if not places or any(text.path.is_relative_to(place) for place in places)]
    if "--check" not in sys.argv:
        sys.stdout.writelines(f"{text}\n" for text in chosen)
        return 0
    against = list(violations(chosen))
    sys.stdout.writelines(f"{line}\n" for line in against)
    return 1 if against else 0


def violations(chosen: Iterable[Text]) -> Iterator[str]:
    """Yield two lines for each word that is not to be said: the text, the word with what to say instead."""
    for text in chosen:
        yield from (f"{text}\n    {advice}" for advice in banned(text.text))


@cache
def texts() -> tuple[Text, ...]:
    """Return all texts of the package, by file and line."""
    files = sorted(path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".html"})
    return tuple(text for path in files for text in texts_of(path))


def texts_of(path: Path) -> list[Text]:
    """Return the texts of a module or a template, in their order."""
    texts = list(_of_template(path) if path.suffix == ".html" else _of_code(path))
    return sorted(texts, key=lambda text: text.line)


def _of_code(path: Path) -> list[Text]:
    source = path.read_text(encoding="utf-8")
    visitor = _Visitor(path, source)
    visitor.visit(ast.parse(source))
    return visitor.texts


def _of_template(path: Path) -> Iterator[Text]:
    source = path.read_text(encoding="utf-8")
    inside = ((part.start(), quoted[1]) for part in JINJA.finditer(source) for quoted in QUOTED.finditer(part[0]))
    plain = JINJA.sub(lambda part: "\0" + "\n" * part[0].count("\n"), source)
    for number, line in enumerate(plain.splitlines(), 1):
        for text in (*SAID_BY_MARKUP.findall(line), MARKUP.sub("\n", line)):
            for piece in text.replace("\0", "{…}").splitlines():
                if _is_said(piece):
                    yield Text(path=path, line=number, kind="other", text=piece.strip())
    for start, text in inside:
        if _is_said(text):
            yield Text(path=path, line=source.count("\n", 0, start) + 1, kind="other", text=text)


@cache
def _errors() -> Mapping[str, tuple[Kind, Kind]]:
    """Return the exceptions that are printed, and what their first and their further arguments are."""
    usual: tuple[Kind, Kind] = ("error", "hint")
    kinds = dict.fromkeys(("GpuprofError", "ClickException", "UsageError", "BadParameter"), usual)
    classes = [
        node
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name not in kinds
    ]
    bases = {node.name: {ast.unparse(base).split(".")[-1] for base in node.bases} for node in classes}
    while more := [node for node in classes if node.name not in kinds and kinds.keys() & bases[node.name]]:
        for node in more:
            has_its_own = any(isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in node.body)
            kinds[node.name] = ("error", "error") if has_its_own else usual
    return kinds


class _Visitor(ast.NodeVisitor):
    """Gathers the texts of a module."""

    def __init__(self, path: Path, source: str) -> None:
        self.path, self.lines = path, source.encode().split(b"\n")
        self.texts: list[Text] = []
        self.kind: Kind = "other"

    def visit_as(self, kind: Kind, *nodes: ast.AST) -> None:
        """Visit what is of a kind."""
        before, self.kind = self.kind, kind
        for node in nodes:
            self.visit(node)
        self.kind = before

    def visit_Constant(self, node: ast.Constant) -> None:
        """Take a plain text."""
        if isinstance(node.value, str):
            self.take(node, node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Take an f-string as a whole, and the texts that are chosen within."""
        self.take(node, "".join(map(_piece, node.values)))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def take(self, node: ast.expr, text: str) -> None:
        """Keep a text if it is one that is said."""
        if not _is_said(text, self.kind) or SQL.match(text):
            return
        if self.lines[node.lineno - 1][node.col_offset :].lower().startswith((b"r", b"fr", b"rf")):
            return
        for line in MARKUP.sub("\n", text).splitlines() if "</" in text else (text,):
            if _is_said(line, self.kind):
                self.texts.append(Text(path=self.path, line=node.lineno, kind=self.kind, text=line))

    def visit_Call(self, node: ast.Call) -> None:
        """Tell errors, hints and help by who takes them; leave out what is searched for."""
        called = ast.unparse(node.func).split(".")[-1] if isinstance(node.func, (ast.Name, ast.Attribute)) else ""
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func.value)
        kinds = _errors().get(called, (self.kind, self.kind))
        if called not in READS:
            self.visit_as(kinds[0], *node.args[:1])
            self.visit_as(kinds[1], *node.args[1:])
        for keyword in node.keywords:
            named: Kind = "help" if keyword.arg == "help" else "hint" if keyword.arg == "hint" else self.kind
            self.visit_as(named, keyword.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Tell a hint, or the commands' help, by its name."""
        target = ast.unparse(node.targets[0]).lower()
        kind: Kind = "hint" if "hint" in target else "help" if target == "commands" else self.kind
        if isinstance(node.value, ast.Dict) and kind != "other":
            self.visit_as(kind, *node.value.values)
        elif target != "__all__":
            self.visit_as(kind, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leave out the annotation."""
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Leave out annotations and the docstring, unless it is a command's help."""
        marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
        if re.search(r"\b(command|group)\(", marks) and (text := ast.get_docstring(node)):
            self.texts.append(Text(path=self.path, line=node.lineno, kind="help", text=text))
        defaults = (default for default in node.args.kw_defaults if default is not None)
        for part in (*node.decorator_list, *node.args.defaults, *defaults):
            self.visit(part)
        for statement in node.body:
            self.visit(statement)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave out docstrings."""
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Leave out what is compared with."""
        for part in (node.left, *node.comparators):
            if not isinstance(part, (ast.Constant, ast.Tuple, ast.Set, ast.List)):
                self.visit(part)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Leave out keys."""
        self.visit(node.value)

    def visit_MatchValue(self, node: ast.MatchValue) -> None:
        """Leave out what is compared with."""


def _piece(part: ast.expr) -> str:
    """Return a part of an f-string: its text, or a value's name in braces if it has one."""
    if isinstance(part, ast.FormattedValue):
        return f"{{{part.value.id}}}" if isinstance(part.value, ast.Name) else "{…}"
    assert isinstance(part, ast.Constant)
    return str(part.value)


def _is_said(text: str, kind: Kind = "other") -> bool:
    """Tell whether a text reads as one: it has several words, or one that starts as a heading does."""
    bare = re.sub(r"\{[^{}]*\}", " ", text).strip()
    if kind != "other":
        return re.search(r"[A-Za-z]{2}", bare) is not None
    if re.fullmatch(r"[A-Z][a-z]+", bare):
        return True
    return re.search(r"[A-Za-z]{2}[,;:]? +[(\"']?[A-Za-z]{2}", text) is not None or (
        re.search(r"\} [a-z]{3}|[a-z]{3}:? \{", text) is not None
    )


if __name__ == "__main__":
    sys.exit(main())
