"""A kernel's demangled name, made harmless, normalised and parsed into its function, namespaces and arguments."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from msgspec import Struct

from gpuprof.model.name_tree import REPLACEMENT, Part, Type, tokens_of, tree_of

_UNNAMED = "(unnamed)"
_PARSED_CHARACTERS = 50_000
_BOOL_CASTS = (("(bool)0", "false"), ("(bool)1", "true"))
_ANONYMOUS = ("(anonymous namespace)::", "<unnamed>::", "{anonymous}::")
_CAST = re.compile(r"\([A-Za-z_][\w: ]*\)(?=-?\d)")
_CPP_SIGN = re.compile(r"\w<|::|\w\(|operator")
_INTEGER_SUFFIX = re.compile(r"(?<![\w.])(\d+)[uU]?[lL]{0,2}\b")
_FUSED = re.compile(r"triton_[a-z_]{2,10}_fused_")
_MANGLED_LENGTH = re.compile(r"\d{1,4}")


class KernelName(Struct, frozen=True, eq=False):
    """A parsed kernel name. Its tokens begin at the function, what stood before it comes last.

    `plain` is a text that is no C++ function and is shown as it is.
    """

    text: str
    tokens: tuple[str, ...]
    function: Part
    scopes: tuple[Part, ...]
    plain: bool

    @property
    def base(self) -> str:
        """The function's own name."""
        return self.text if self.plain else self.function.name

    @property
    def args(self) -> list[Type]:
        """The function's template arguments."""
        return self.function.args or []

    @property
    def library(self) -> str:
        """The outermost namespace, or nothing."""
        return self.scopes[0].name if self.scopes else ""


@lru_cache(maxsize=16384)
def parse_name(demangled: str) -> KernelName:
    """Return the parsed name. What follows in a very long one is left to the numbering of equal labels."""
    text = _normalised(demangled[:_PARSED_CHARACTERS])
    if not text:
        return _plain_name(_UNNAMED)
    if _is_plain(text):
        return _plain_name(text)
    tokens = tokens_of(text)
    parts = tree_of(tokens).parts
    if not parts:
        return _plain_name(text)
    start = tokens.index(parts[-1].name) if parts[-1].name in tokens else 0
    rotated = tokens[start:] + tokens[:start]
    return KernelName(text, rotated, parts[-1], scopes=tuple(parts[:-1]), plain=False)


def _normalised(text: str) -> str:
    """Return the text without what no label needs: casts of constants, anonymous namespaces, odd spaces."""
    text = " ".join(harmless(text).split())
    for written, meant in _BOOL_CASTS:
        text = text.replace(written, meant)
    for anonymous in _ANONYMOUS:
        text = text.replace(anonymous, "")
    text = _INTEGER_SUFFIX.sub(r"\1", _CAST.sub("", text))
    return text.replace("operator ()", "operator()")


def harmless(text: str) -> str:
    """Replace every character that steers a terminal: controls, escapes, bidi overrides, surrogates."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_harmless_character(character) for character in text)


def _harmless_character(character: str) -> str:
    if character.isspace():
        return " "
    return REPLACEMENT if unicodedata.category(character) in {"Cc", "Cf", "Cs"} else character


def _is_plain(text: str) -> bool:
    """Tell whether a text is no C++ function: a C name, a range's title, `Memcpy HtoD (Pageable -> Device)`.

    Demanglers print a return type only before templates, and no space before an opening bracket.
    """
    if not _CPP_SIGN.search(text):
        return True
    return "<" not in text and "::" not in text and " " in text.partition("(")[0]


def _plain_name(text: str) -> KernelName:
    return KernelName(_mangled_base(text), tokens=tokens_of(text), function=Part(text), scopes=(), plain=True)


def _mangled_base(text: str) -> str:
    """Return the innermost identifier of a mangled name such as `_ZN3foo6kernelILi4EEvPf`, else the text."""
    identifier = ""
    position = 3 if text.startswith("_ZN") else 2
    while text.startswith("_Z") and (digits := _MANGLED_LENGTH.match(text, position)):
        position = digits.end() + int(digits.group())
        identifier = text[digits.end() : position] or identifier
    return identifier or text


def without_specialisation(text: str) -> str:
    """Return a name without Triton's suffix: all arguments, counted from 0, each with what Triton knows of its value.

    `c` is a value of 1, `d` and `e` are multiples of 16 and 8. Digits alone, or that do not count up, are part of the
    name.
    """
    head, _, suffix = text.rpartition("_")
    digits = re.sub("[cde]", "", suffix)
    counted = digits.startswith("01") and "".join(map(str, range(len(digits)))).startswith(digits)
    return head if counted and digits != suffix else text


def unnumbered(name: str) -> tuple[str, str]:
    """Return a name without the number that PyTorch's inductor or XLA gives a kernel, and that number with its `_`.

    Kernels that differ in it alone fuse the same operators, such as `triton_poi_fused_add_mul_3` or
    `loop_add_fusion_3` in each layer of a model. One without operators in its name has no other name than its number.
    """
    head, _, number = without_specialisation(name).rpartition("_")
    is_fused = _FUSED.match(head) or head.endswith("_fusion")
    return (head, f"_{number}") if number.isdecimal() and is_fused else (name, "")
