"""The tokens of a demangled kernel name and the tree that they form, in one pass without recursion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Stands for a character that is not shown; part of a word like any letter."""

_TOKEN = re.compile(
    r"operator\s*(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|&&|\|\||\+\+|--|[-+*/%^&|~!=<>]=?)"
    r"|(?:unsigned|signed)\s+(?:char|short|int|long long|long)\b"
    r"|long (?:long|double)\b|'lambda\d*'|#\d+|::|->|-?\d\w*"
    rf"|[\w$@.~{REPLACEMENT}]+|\S"
)
WORD_START = re.compile(rf"[\w$@.~'\-{REPLACEMENT}]")
"""What a token begins with that is a word or number, no bracket or sign."""
_SPECIFIERS = frozenset({"const", "volatile", "struct", "class", "enum", "typename", "noexcept", "static"})
_OPENERS = {"<": ">", "(": ")", "[": "]", "{": "}"}
_CLOSERS = {closer: opener for opener, closer in _OPENERS.items()}


class Type(Struct, eq=False):
    """A type, value or function in a name: its components in order of scope, `at` `native` `kernel<…>(…)`."""

    parts: list[Part] = field(default_factory=list)
    pointer: bool = False


class Part(Struct, eq=False):
    """One component of a qualified name, with its template arguments and parameters where it has them."""

    name: str
    args: list[Type] | None = None
    params: list[Type] | None = None

    @property
    def is_lambda(self) -> bool:
        """Tell whether this is a lambda, which the parser names `lambda#3`."""
        return self.name.startswith("lambda#")

    @property
    def has_brackets(self) -> bool:
        """Tell whether template arguments or parameters follow: a function or a class, not a namespace."""
        return self.args is not None or self.params is not None


def tokens_of(text: str) -> tuple[str, ...]:
    """Return the tokens of a normalised name."""
    return tuple(_TOKEN.findall(text))


def tree_of(tokens: Iterable[str]) -> Type:
    """Return the tree of the tokens, in one pass without recursion; unbalanced brackets close at the end."""
    stack = [_Frame("")]
    open_counts = dict.fromkeys(_OPENERS, 0)
    for token in tokens:
        if token in _OPENERS:
            _open(stack, token, open_counts)
        elif token in _CLOSERS:
            _close_through(stack, _CLOSERS[token], open_counts)
        else:
            _take(stack[-1], token)
    while len(stack) > 1:
        _close(stack, open_counts)
    return stack[0].types[0]


class _Frame(Struct, eq=False):
    """An open bracket while parsing: the part it belongs to, and the types read in it so far."""

    opener: str
    owner: Part | None = None
    types: list[Type] = field(default_factory=lambda: [Type()])
    after_scope: bool = False
    index: str = ""

    def last_part(self) -> Part | None:
        """Return the component that a bracket would belong to now."""
        parts = self.types[-1].parts
        return parts[-1] if parts and not self.after_scope else None

    def add(self, part: Part) -> None:
        """Append a component after `::`; otherwise what came before it was a return type, and goes."""
        current = self.types[-1]
        if self.after_scope or not current.parts or part.name == "lambda":
            current.parts.append(part)
        else:
            current.parts = [part]
        self.after_scope = False


def _open(stack: list[_Frame], opener: str, open_counts: dict[str, int]) -> None:
    last = stack[-1].last_part()
    if opener == "<" and last is not None and is_number(last.name):
        return  # a comparison
    owner = last
    if last is not None:
        taken = last.args if opener == "<" else last.params
        owner = last if taken is None and opener in "<(" else None
    stack.append(_Frame(opener, owner))
    open_counts[opener] += 1


def _close_through(stack: list[_Frame], opener: str, open_counts: dict[str, int]) -> None:
    """Close the innermost such bracket and all in it; `>` closes nothing from inside another bracket."""
    if open_counts[opener] == 0 or (opener == "<" and stack[-1].opener != "<"):
        return
    while stack[-1].opener != opener:
        _close(stack, open_counts)
    _close(stack, open_counts)


def _close(stack: list[_Frame], open_counts: dict[str, int]) -> None:
    frame = stack.pop()
    parent = stack[-1]
    open_counts[frame.opener] -= 1
    if frame.opener in "[{":
        _close_lambda(frame, parent)
    elif frame.owner is None:
        _close_group(frame, parent)
    elif frame.opener == "<":
        frame.owner.args = _non_empty(frame.types)
    else:
        frame.owner.params = _non_empty(frame.types)


def _close_lambda(frame: _Frame, parent: _Frame) -> None:
    """Add `{lambda(int)#1}` or `[lambda(int) (instance 1)]`; other such brackets are ABI tags and bounds."""
    inner = frame.last_part()
    if inner is not None and inner.name == "lambda":
        parent.add(Part(f"lambda#{frame.index}", params=inner.params))
    elif inner is not None and frame.opener == "{":
        parent.add(Part(f"unnamed#{frame.index}"))


def _close_group(frame: _Frame, parent: _Frame) -> None:
    """Keep the content of `(&function)` as the type itself, and the number of `(instance 3)`."""
    inner = frame.types[0].parts
    if inner and parent.opener == "[":
        parent.index = inner[-1].name
    if inner and not parent.types[-1].parts:
        parent.types[-1].parts = inner


def _non_empty(types: list[Type]) -> list[Type]:
    return [a_type for a_type in types if a_type.parts]


def _take(frame: _Frame, symbol: str) -> None:
    """Take a token that is no bracket."""
    if symbol[0].isalnum() or symbol[0] == "_":
        if symbol not in _SPECIFIERS:
            frame.add(Part(symbol))
    elif symbol == "::":
        frame.after_scope = True
    elif symbol == ",":
        frame.types.append(Type())
        frame.after_scope = False
    elif symbol == "*":
        frame.types[-1].pointer = bool(frame.types[-1].parts)
    elif symbol[0] == "#":
        frame.index = symbol[1:]
    elif symbol[0] == "'":
        frame.add(Part("lambda#" + symbol.strip("'").removeprefix("lambda")))
    elif WORD_START.match(symbol):
        frame.add(Part(symbol))


def is_number(word: str) -> bool:
    """Tell whether a token is a number, with a sign or suffix or without."""
    return word.lstrip("-")[:1].isdigit()


def walk(types: Iterable[Type]) -> Iterator[Part]:
    """Yield all components in reading order, template arguments inside; not the parameters of functions."""
    waiting = list(types)[::-1]
    while waiting:
        for part in waiting.pop().parts:
            yield part
            if part.args:
                waiting.extend(part.args[::-1])
