"""Finds the regular expressions of gpuprof, and makes from each the texts that it is slowest on."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

# --- The expressions of gpuprof -----------------------------------------------------------------------------------

Pattern: TypeAlias = "re.Pattern[Any]"
PACKAGE = Path(__file__).parents[1] / "gpuprof"
METHODS = frozenset({"search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"})
_UNKNOWN = frozenset({"finditer", "fullmatch"})
"""The methods of an expression whose uses are not known: from every start, and as a whole."""


class Expressions(NamedTuple):
    """Each expression with its place and its methods, and what is composed from values that only a run knows."""

    known: dict[Pattern, tuple[str, frozenset[str]]]
    composed: frozenset[tuple[str, str]]


def find_expressions(folder: Path = PACKAGE) -> Expressions:
    """Import each module that uses `re`, and return the expressions in its values and in its calls.

    What a call such as `re.sub` composes is named by its file and its source, as `("model/kernel_match.py", "text")`.
    """
    places: dict[Pattern, str] = {}
    methods: dict[Pattern, set[str]] = {}
    composed: set[tuple[str, str]] = set()
    unnamed: dict[Pattern, set[str]] = {}
    for file in sorted(folder.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if not re.search(r"\bre\.|\bpattern\b", source):
            continue
        place = file.relative_to(folder).as_posix()
        values = _values(file)
        nodes = list(ast.walk(ast.parse(source)))
        for call in nodes:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and _is_of_re(call.func):
                pattern = _compiled(call, call.func.attr, values)
                if pattern is None:
                    composed.add((place, ast.unparse(call.args[0])))
                else:
                    places.setdefault(pattern, f"{place}:{call.lineno}")
                    methods.setdefault(pattern, set()).update({call.func.attr} & METHODS)
        named, loose = _uses(nodes, values)
        for pattern, used in named.items():
            methods.setdefault(pattern, set()).update(used)
        for pattern in _patterns_in(values):
            places.setdefault(pattern, place)
            unnamed.setdefault(pattern, set()).update(loose)
    return Expressions(
        {
            pattern: (place, frozenset(methods.get(pattern) or unnamed.get(pattern) or _UNKNOWN))
            for pattern, place in places.items()
        },
        frozenset(composed),
    )


def _values(file: Path) -> dict[str, Any]:
    name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    try:
        return vars(importlib.import_module(name))
    except ModuleNotFoundError:  # what runs inside of a program of PyTorch needs PyTorch
        return {"re": re}


def _is_of_re(function: ast.Attribute) -> bool:
    return isinstance(function.value, ast.Name) and function.value.id == "re" and function.attr in {"compile", *METHODS}


def _compiled(call: ast.Call, name: str, values: Mapping[str, Any]) -> Pattern | None:
    flags = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    if name not in {"sub", "subn", "split"}:
        flags += call.args[1 if name == "compile" else 2 :]
    text = _evaluated(call.args[0], values)
    return re.compile(text, _evaluated(flags[0], values) if flags else 0) if isinstance(text, str | bytes) else None


def _evaluated(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Return the value of an expression of Python; None for one of local names."""
    try:
        return eval(compile(ast.Expression(node), "expression", "eval"), dict(values))
    except (NameError, AttributeError):
        return None


def _uses(nodes: Sequence[ast.AST], values: Mapping[str, Any]) -> tuple[dict[Pattern, set[str]], set[str]]:
    named: dict[Pattern, set[str]] = {}
    loose: set[str] = set()
    places = {call.func: len(call.args) for call in nodes if isinstance(call, ast.Call)}
    for node in nodes:
        if not isinstance(node, ast.Attribute) or node.attr not in METHODS or _is_of_re(node):
            continue
        value = _evaluated(node.value, values) if isinstance(node.value, ast.Name | ast.Attribute) else None
        # A match from a place is one of many, each from where the last one ended.
        from_place = node.attr in {"search", "match", "fullmatch"} and places.get(node, 1) > 1
        method = "finditer" if from_place else node.attr
        if isinstance(value, re.Pattern):
            named.setdefault(value, set()).add(method)
        elif value is None and node.attr != "split":  # which is a method of texts
            loose.add(method)
    return named, loose


def _patterns_in(value: Any, seen: set[int] | None = None) -> Iterator[Pattern]:
    """Yield the expressions in a value of a module, and in what is in it; `pattern` is a field for their texts."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, re.Pattern):
        yield value
        return
    inside: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inside = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        inside = value
    elif hasattr(value, "__metadata__"):
        inside = getattr(value, "__metadata__", ())
    elif isinstance(value, type) and value.__module__.startswith("gpuprof."):
        inside = vars(value).values()
    elif type(value).__module__.startswith(("gpuprof.", "msgspec")):
        names: Any = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", ())
        inside = [getattr(value, name) for name in names]
        text = getattr(value, "pattern", None)
        yield from [re.compile(text, re.IGNORECASE)] if isinstance(text, str) else _patterns_in(text, seen)
    for each in inside:
        yield from _patterns_in(each, seen)


# --- Texts that an expression is slow on ----------------------------------------------------------------------------

Node: TypeAlias = tuple[Any, Any]
"""An operation of a parsed expression and its arguments."""
_PARSER: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_ALPHABET = "a0_ \n\t.:/\\-,=<([{'\"*~@|A"
_FIXED = (
    *"/\\<>()[]{}'\"` \t\n0a_-.,:;=*#|%@~^&$+!?", "::", "a=", "a/", "/a", "a ", "a.", "a::", "a<", "(a", "a,", "0.",
    "0,", "a:", "\\'", "<a>", "()", "\r\n", "a_", "aA", "\ud7ff", "\x1b[", "==", "-1", "//", "/*", "0x", "a-",
    ", ", "\n ",
)  # fmt: skip
_BETWEEN = ". /-:,(<='\"\n"
"""What stands between repetitions, where an expression may begin anew."""
_CHARACTERS = 3
"""So many characters of a class are tried: those that most of the expression's classes have."""
_LONGEST_SEQUENCE = 8
_LONGEST_SAMPLE = 40


class Attack(NamedTuple):
    """A text of any length: what is before, what is repeated, and what makes the rest fail."""

    before: str
    pump: str
    end: str = ""

    def text(self, length: int) -> str:
        return self.before + self.pump * max(1, (length - len(self.before)) // len(self.pump)) + self.end


def attacks(pattern: Pattern) -> list[Attack]:
    """Return the texts made from an expression: each part of it repeated, behind what comes before it."""
    tree = list(_PARSER.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
    made = dict.fromkeys(Attack("", pump, "\0") for pump in _FIXED)
    made.update(dict.fromkeys(_Maker(tree).attacks(tree, [""])))
    return [attack for attack in made if attack.pump]


def may_be_exponential(pattern: Pattern) -> bool:
    """Tell whether a repetition has another one or a choice in it: without, time grows with a power of the length."""
    return any(
        node is not inner and str(inner[0]) in {"BRANCH", "MAX_REPEAT", "MIN_REPEAT"}
        for node in _all(list(_PARSER.parse(pattern.pattern, pattern.flags & ~re.DEBUG)))
        if str(node[0]).endswith("_REPEAT") and int(node[1][1]) > 1
        for inner in _all([node])
    )


class _Maker:
    """Writes texts that the parts of one expression match, and that they nearly match."""

    def __init__(self, tree: Sequence[Node]) -> None:
        singles = list(filter(_is_single, _all(tree)))
        classes = [node for node in singles if str(node[0]) != "LITERAL"]
        codes = dict.fromkeys(code for node in (*classes, *singles) for code in _codes(node))
        self.alphabet = list(dict.fromkeys((*map(chr, codes), *_ALPHABET)))[:100]
        accepted = {id(node): [char for char in self.alphabet if _accepts(node, char)] for node in classes}
        votes = Counter(char for characters in accepted.values() for char in characters)
        # What an expression begins with comes first: where that is repeated, it begins again and again.
        first = next((chr(node[1]) for node in singles if str(node[0]) == "LITERAL"), "")
        self.accepted: dict[int, list[str]] = {
            place: sorted(characters, key=lambda char: (char != first, -votes[char]))[:_CHARACTERS] or ["\0"]
            for place, characters in accepted.items()
        }

    def attacks(self, nodes: Sequence[Node], before: Sequence[str]) -> Iterator[Attack]:
        """Yield the attacks on a sequence and on what is in it, behind what comes before the sequence."""
        parts = [list(part) for _, part in groupby(nodes, lambda node: str(node[0]) == "LITERAL" or id(node))]
        done: list[str] = ["", ""]
        for place, part in enumerate(parts):
            ahead = sorted({text + own for text in before for own in done}, key=len)[:2]
            slices = range(place, min(len(parts), place + _LONGEST_SEQUENCE))
            for stop in slices if len(parts) <= _LONGEST_SEQUENCE else slices[:2]:
                for choice in range(_CHARACTERS):
                    yield Attack(
                        "", self.sample([node for part in parts[place : stop + 1] for node in part], choice), "\0"
                    )
            for node in part:
                for inner in _inside(node):
                    yield from self.attacks(inner, ahead)
                if str(node[0]).endswith("_REPEAT") and int(node[1][1]) > 1:
                    yield from self._repeated(node[1][2], ahead)
            done = [text + self.sample(part, choice) for choice, text in enumerate(done)]

    def _repeated(self, body: Sequence[Node], ahead: Sequence[str]) -> Iterator[Attack]:
        pumps = dict.fromkeys(self.sample(body, choice) for choice in range(_CHARACTERS + 1))
        ends = ["", "\0", "\n\0"]
        if len(body) == 1 and _is_single(body[0]):
            ends += [char for char in self.alphabet if not _accepts(body[0], char)][:1]
        for pump in pumps:
            for text in ahead:
                yield from (Attack(text, pump, end) for end in ends)
                yield Attack("", text + pump, ends[-1])
                yield from (Attack("", text + pump + between, "\0") for between in _BETWEEN)

    def sample(self, nodes: Sequence[Node], choice: int) -> str:
        """Return a text that a sequence matches, but for what it looks at around it; the choice varies it."""
        return "".join(self._sample(node, choice) for node in nodes)

    def _sample(self, node: Node, choice: int) -> str:
        name, arguments = str(node[0]), node[1]
        if name == "LITERAL":
            return chr(int(arguments))
        if _is_single(node):
            characters = self.accepted[id(node)]
            return characters[choice % len(characters)]
        if name.endswith("_REPEAT"):
            least, most, body = arguments
            return self.sample(body, choice) * int(min(max(least, choice), int(most), _LONGEST_SAMPLE))
        if name.startswith("ASSERT") or name == "GROUPREF_EXISTS":
            return ""
        inside = _inside(node)
        return self.sample(inside[choice % len(inside)], choice) if inside else ""


def _inside(node: Node) -> list[Sequence[Node]]:
    name, arguments = str(node[0]), node[1]
    if name == "BRANCH":
        return [list(each) for each in arguments[1]]
    if name in {"SUBPATTERN", "GROUPREF_EXISTS"} or name.endswith("_REPEAT") or name.startswith("ASSERT"):
        return [list(arguments[-1])]
    return [list(arguments)] if name == "ATOMIC_GROUP" else []


def _is_single(node: Node) -> bool:
    return str(node[0]) in {"LITERAL", "NOT_LITERAL", "ANY", "IN"}


def _all(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for inner in _inside(node):
            yield from _all(inner)


def _codes(node: Node) -> Iterator[int]:
    name, arguments = str(node[0]), node[1]
    if name in {"LITERAL", "NOT_LITERAL"}:
        yield arguments
    elif name == "RANGE":
        yield from arguments
    elif name == "IN":
        for each in arguments:
            yield from _codes(each)


def _accepts(node: Node, char: str) -> bool:
    name, arguments = str(node[0]), node[1]
    match name:
        case "LITERAL":
            return ord(char) == int(arguments)
        case "NOT_LITERAL":
            return ord(char) != int(arguments)
        case "ANY":
            return True
        case "RANGE":
            return bool(arguments[0] <= ord(char) <= arguments[1])
        case "CATEGORY":
            kind = str(arguments)
            is_in = (
                char.isspace()
                if "SPACE" in kind
                else char.isdigit()
                if "DIGIT" in kind
                else char.isalnum() or char == "_"
            )
            return is_in != ("_NOT_" in kind)
    negated = str(arguments[0][0]) == "NEGATE"
    return any(_accepts(each, char) for each in arguments[negated:]) != negated
