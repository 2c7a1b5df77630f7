"""Names of kernels' arguments, read from plain declarations in CUDA sources.

For others the compiler is asked, which takes half as long again as the compilation: a source of 3.4 s takes 5.5 s.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from gpuprof.model.labels import short_name
from gpuprof.review.kernel import SCALAR_BYTES, CompiledKernel

Names = tuple[str, ...]

_COMMENT = re.compile(r"//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_WORD = re.compile(r"\w+")
_MOST_HEADER = 20_000
_QUALIFIERS = frozenset(("const", "volatile", "struct", "class", "enum", "union", "typename", "__grid_constant__"))
_TYPES = frozenset(
    ("unsigned", "signed", "int", "long", "short", "char", "bool", "float", "double", "__restrict__", "__restrict")
)
"""Words that come last only if a parameter has no name."""


def plain_names(source: str) -> Mapping[str, set[Names | None]]:
    """Return the names of arguments that each kernel is declared with, by its short name; None if they are not plain.

    Plain are parameters that end in their name, without templates, defaults, brackets or functions.
    """
    declared: defaultdict[str, set[Names | None]] = defaultdict(set)
    for part in _COMMENT.sub(" ", source).split("__global__")[1:]:
        header = part[:_MOST_HEADER].partition("{")[0].partition(";")[0]
        before, _, parameters = header.rpartition("(")
        words = _WORD.findall(before)
        if words:
            listed, _, behind = parameters.rpartition(")")
            names = [] if listed.strip() in ("", "void") else [_name(text) for text in listed.split(",")]
            is_plain = None not in names and not behind.strip() and not set("<>=#\\[){") & set(listed)
            declared[words[-1]].add(tuple(name for name in names if name) if is_plain else None)
    return declared


def _name(parameter: str) -> str | None:
    words = [word for word in _WORD.findall(parameter) if word not in _QUALIFIERS]
    is_named = len(words) > 1 and words[-1] not in _TYPES and not parameter.rstrip().endswith(f":{words[-1]}")
    return words[-1] if is_named else None


def names_for(kernel: CompiledKernel, declared: Mapping[str, set[Names | None]]) -> Names | None:
    """Return the names of a kernel's arguments if its declarations agree on them, and none is a structure."""
    parameters = kernel.kernel.parameters
    if any(parameter.size_bytes > SCALAR_BYTES for parameter in parameters):
        return None
    names = declared.get(short_name(kernel.name), set())
    first = next(iter(names), None)
    return first if len(names) == 1 and first is not None and len(first) == len(parameters) else None
