"""Which kernel a demangled name means, whichever demangler wrote it.

NVIDIA's writes `void f<(int)4, (bool)1>(const float *, T1)`, that of C++ libraries, which PyTorch's traces have,
`void f<4, true>(float const*, int)`: they differ in casts, spaces, the place of const, what is written for a
parameter's type or returned, how lambdas and unnamed namespaces are called, and in namespaces that nvcc makes up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from gpuprof.model.kernel_names import parse_name
from gpuprof.model.name_tree import Part, Type

_MADE_BY_NVCC = "_INTERNAL_"
"""How nvcc calls the unnamed namespace of a file; NVIDIA's demangler leaves it out."""
_ANY_TYPE = re.compile(r"T\d+|auto|\d+")
"""What a generic lambda takes: `auto:1`, or T1."""


_DEEPEST = 150
"""A name that is nested deeper is kept as it is."""


@lru_cache(maxsize=8192)
def kernel_key(demangled: str) -> str:
    """Return the same text for all ways to write one kernel's name, and different ones for different kernels.

    Kernels that differ only in const, references and bounds of arrays, which demanglers place differently, share one.
    Of a template's parameters nothing is kept: its arguments tell its kernels apart. A name that is still
    mangled is its own key.
    """
    if demangled.startswith("_Z"):
        return demangled
    name = parse_name(demangled)
    if name.plain or _depth(name.text) > _DEEPEST:
        return name.text
    return " ".join(_qualified((*name.scopes, name.function), is_kernel=True))


def _depth(text: str) -> int:
    """Return how deep brackets are in one another, at most."""
    depth = deepest = 0
    for char in text:
        depth += (char in "<(") - (char in ">)")
        deepest = max(deepest, depth)
    return deepest


def _qualified(parts: Sequence[Part], *, is_kernel: bool = False) -> Iterator[str]:
    for part in parts:
        if part.name.startswith(_MADE_BY_NVCC):
            continue
        yield part.name
        if part.args is not None:
            yield from _types("<", part.args, ">")
        is_plain_kernel = is_kernel and part is parts[-1] and part.args is None
        if part.params is not None and (part.is_lambda or is_plain_kernel):
            types = [parameter for parameter in part.params if parameter.pointer or parameter.parts[-1].name != "void"]
            yield from _types("(", types, ")", is_lambda=part.is_lambda)


def _types(opening: str, types: Sequence[Type], closing: str, *, is_lambda: bool = False) -> Iterator[str]:
    yield opening
    for argument in types:
        if is_lambda and len(argument.parts) == 1 and _ANY_TYPE.fullmatch(argument.parts[0].name):
            yield "auto"
        else:
            yield from _qualified(argument.parts)
        yield "*," if argument.pointer else ","
    yield closing
