"""A kernel's name in pieces of a regular expression, so that it is found whichever demangler wrote it.

ncu's own demangler writes `f<(int)4, const a::B *>` for the `f<4, a::B const*>` of C++ libraries, names what functions
return inside of names, and leaves out the namespaces that nvcc makes up. With --rename-kernels, which is on by default
from 2025.1, ncu leaves out all namespaces and casts: `f<4, const B *>`.
"""

from __future__ import annotations

import re

_LONGEST_NAME = 400
"""Characters of an expression after which any end of a name will do."""
_PIECE = re.compile(
    r"(?P<unnamed>(?:\(anonymous namespace\)|<unnamed>|\{anonymous\})::)"
    r"|(?P<made>_INTERNAL_\w+::)"
    r"|(?P<scopes>(?:[A-Za-z_]\w*::)+)"
    r"|(?P<bool>\b(?:true|false)\b|\(bool\)[01](?!\w))"
    r"|(?P<number>(?:\((?P<cast>[A-Za-z_][\w: ]*)\))?(?<!\w)(?P<value>-?\d+)(?P<suffix>[uUlL]*)(?!\w))"
    r"|(?P<const> ?\bconst\b(?: (?=[\w<(]))?)"
    r"|(?P<stop>[({\[]|\boperator\b)"
    r"|(?P<open><)|(?P<close> ?>)|(?P<comma>, ?)|(?P<sign> ?[*&])|(?P<space> )|(?P<word>\w+)|(?P<other>.)",
    re.DOTALL,
)
_UNNAMED = "(.(unnamed|anonymous namespace)...)?"
_CAST_OF_SUFFIX = {
    "": "int", "u": "unsigned int", "l": "long", "ul": "unsigned long", "ll": "long long", "ull": "unsigned long long",
}  # fmt: skip
_LENGTH = re.compile(r"\d{1,4}")
_FIRST_ARGUMENT = re.compile(r"I[A-Z]{0,2}(?:S[\dA-Z]?_)?(?=\d)")
_RETURNING = 3
"""Around so many arguments, from the innermost on, any type may stand that a function returns."""
_SCOPES = re.compile(r"(?:\b[A-Za-z_]\w*::\[?)+")
_CPP = re.compile(r"[<(]|::|^void ")


def pieces_of_symbol(mangled: str) -> list[str]:
    """Return a symbol in pieces, a character each, and its end."""
    return [*map(_character, mangled), "$"]


def as_ncu_may_write(demangled: str) -> str:
    """Write a demangled name, whichever demangler wrote it, as an expression that also matches what ncu makes of it.

    A name that was cut off, with dots at its end or without, matches all that begin with it.
    """
    return "".join(pieces_of_name(demangled))


def pieces_of_name(demangled: str) -> list[str]:
    """Return the same in pieces that are expressions themselves: a name may be cut between them."""
    name = " ".join(demangled.split())
    if name.startswith("_Z"):
        # The demangler of the trace gave up on it, as PyTorch's does on symbols of more than 1024 characters.
        return _of_symbol(name)
    ended = name.rstrip(".…") if name.endswith(("...", "…")) else name
    if not _CPP.search(name):
        return [exactly(ended), *(["$"] if ended == name else [])]
    begun = _function_begins(ended)
    writing = _Writing(ended[:begun])
    for piece in _PIECE.finditer(ended, begun):
        writing.take(piece.lastgroup or "", piece)
        if writing.whole:
            break
        if writing.length > _LONGEST_NAME:
            return writing.finished(has_function=_has_function(ended[piece.end() :], writing.depth))
    return writing.finished()


def without_scopes(name: str) -> str:
    """Return a name as ncu's --rename-kernels was seen to leave it, as far as that matters for a function's name."""
    return _SCOPES.sub("", name)


def _has_function(rest: str, depth: int) -> bool:
    """Tell whether in what is left of a name, of which so many brackets are open, a function stands in an argument."""
    for char in rest:
        depth += (char == "<") - (char == ">")
        if depth <= 0:
            return False
        if char == "(":
            return True
    return False


def _function_begins(name: str) -> int:
    """Return where a function begins behind what it returns, which only templates name."""
    depth, begun = 0, 0
    for place, char in enumerate(name):
        if char == "(" and depth == 0 and not name.startswith("(anonymous namespace)", place):
            break
        depth += (char in "<([{") - (char in ">)]}")
        if char == " " and depth == 0 and not name.startswith(("const", "*", "&"), place + 1):
            begun = place + 1
    return begun


def exactly(name: str) -> str:
    """Write a symbol as an expression that every dialect reads alike."""
    return "".join(map(_character, name))


def _character(char: str) -> str:
    return char if char == "_" or (char.isascii() and char.isalnum()) else "."


class _Writing:
    """A demangled name on its way to an expression, in pieces that are expressions themselves.

    `returned` is what stands before the function: NVIDIA's demangler has words of its own for it. `whole` tells that
    nothing is taken any more: what follows is not written alike by all.
    """

    def __init__(self, returned: str) -> None:
        self.whole = False
        self.length = 0
        self._pieces = ["void " if returned == "void " else "(.* )?"] if returned else []
        self._begun = [0]
        """Where the argument begins that is being written, for each open bracket."""
        self._const = [False]

    def take(self, kind: str, piece: re.Match[str]) -> None:
        """Write a piece of the name."""
        text = piece[0]
        if kind == "stop":
            self._stop(text)
        elif kind == "open":
            self._add(".")
            self._begin()
        elif kind in ("close", "comma"):
            self._end_argument(kind)
        elif kind == "const":
            self._take_const()
        elif kind == "sign":
            self._end_const()
            self._add(" ?.")
        elif kind == "number":
            self._add(_number(piece["value"], piece["cast"], piece["suffix"].lower()))
        else:
            self._add(_plain(kind, text))

    def finished(self, *, has_function: bool = True) -> list[str]:
        """Return the pieces. What was cut off in an argument begins with what is whole."""
        if not self.whole and self.depth and (self.length <= _LONGEST_NAME or not has_function):
            del self._pieces[self._begun[-1] :]
        for number, begun in enumerate(reversed(self._begun[1:])):
            self._pieces.insert(begun, self._before(number) if has_function else "(const )?")
        return self._pieces

    @property
    def depth(self) -> int:
        """Return how many brackets are open."""
        return len(self._begun) - 1

    def _add(self, text: str) -> None:
        self._pieces.append(text)
        self.length += len(text)

    def _begin(self) -> None:
        self._begun.append(len(self._pieces))
        self._const.append(False)

    def _end_argument(self, kind: str) -> None:
        self._end_const()
        if kind == "comma":
            self._add(". ?")
            self._begun[-1], self._const[-1] = len(self._pieces), False
        elif len(self._begun) > 1:
            self._begun.pop()
            self._const.pop()
            self._add(",? ?>")  # an empty pack is written `<int, >`
        else:
            self.whole = True

    def _take_const(self) -> None:
        """Have const stand before the type or behind it."""
        begun = self._begun[-1]
        if begun < len(self._pieces):
            self._pieces.insert(begun, "(const )?")
            self._add("( const)?")
        else:
            self._add("(const )?")
            self._const[-1] = True

    def _end_const(self) -> None:
        if self._const[-1]:
            self._const[-1] = False
            self._add("( const)?")

    def _stop(self, text: str) -> None:
        if text == "(" and len(self._begun) == 1:
            self._add(".")
        self.whole = True

    @staticmethod
    def _before(number: int) -> str:
        """Return what may stand before an open argument, the innermost first, if a function in it has defined a type.

        NVIDIA's demangler names what such a function returns, if it is a template. Inside only few may return anything:
        more than that would take an expression forever to see that a name does not match.
        """
        return "(.* )?" if number < _RETURNING else "(void )?"


def _plain(kind: str, text: str) -> str:
    if kind == "unnamed":
        return _UNNAMED
    if kind in ("made", "scopes"):
        return f"({exactly(text)})?"
    if kind == "bool":
        value = int(text in ("true", "(bool)1"))
        return f"({'true' if value else 'false'}|(.bool.)?{value})"
    return " " if kind == "space" else exactly(text)


def _number(value: str, cast: str | None, suffix: str) -> str:
    written = cast if cast is not None else _CAST_OF_SUFFIX.get(suffix, "int")
    scopes, _, last = written.rpartition("::")
    optional = f"({exactly(scopes)}..)?" if scopes else ""
    return f"(.{optional}{last}.)?{value}" + ("u?l?l?" if last.startswith("unsigned") or "long" in last else "")


def _of_symbol(mangled: str) -> list[str]:
    """Return what a symbol says of its name: scopes, function, and the class of the first argument, wherever that is.

    `_ZN2ns6KernelIN1a4GemmE…` is `(ns..)?Kernel.*Gemm`.
    """
    scopes, end = _run(mangled, len("_ZN") if mangled.startswith("_ZN") else len("_Z"))
    if not scopes:
        return [exactly(mangled)]
    argument = _FIRST_ARGUMENT.match(mangled, end)
    inner = _run(mangled, argument.end())[0] if argument is not None else []
    outside = [f"({''.join(f'{exactly(scope)}..' for scope in scopes[:-1])})?"] if scopes[1:] else []
    return ["(.* )?", *outside, exactly(scopes[-1]), ".", *([f".*{exactly(inner[-1])}"] if inner else [])]


def _run(mangled: str, place: int) -> tuple[list[str], int]:
    """Return the identifiers that follow one another from a place, and where they end."""
    names: list[str] = []
    while (length := _LENGTH.match(mangled, place)) is not None and int(length[0]) > 0:
        place = length.end() + int(length[0])
        names.append(mangled[length.end() : place])
    return names, place
