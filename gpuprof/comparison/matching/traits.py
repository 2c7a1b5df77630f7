"""Traits that identify kernels without an equal on the other side: parts of the name, size, launches, work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import isfinite, prod

from msgspec import Struct

from gpuprof.comparison.sides import KernelKey, SideKernel
from gpuprof.model.kernel_names import parse_name
from gpuprof.model.type_words import DTYPES

_READ_CHARACTERS = 16_000
"""Only the beginning of a longer name is read: the function and its first template arguments."""
_MOST_WORDS, _MOST_OF_A_WORD = 64, 500
_OPENING = frozenset("<(")
_CLOSING = frozenset(">)")
_COMMAS = frozenset((",", "*,"))
_ENDS = _OPENING | _CLOSING | _COMMAS
_TYPE_WORDS = frozenset({*DTYPES, *DTYPES.values(), "void", "unsigned", "signed", "true", "false", "nullptr"})
_STOP_WORDS = frozenset(
    ("kernel", "kernels", "gpu", "cuda", "device", "global", "impl", "launch", "triton", "poi", "red", "per", "fused",
     "julia")
)  # fmt: skip
"""Words that kernels have in common which do different things; poi, red and per are Triton's kinds of kernels."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NUMBER_PART = re.compile(r"(?<=_)\d+(?=_|$)")
"""A number that a compiler gave: a line in `step_232_gpu`, a counter in `triton_poi_fused_add_0`, `julia_frb_5885`."""


class Traits(Struct, frozen=True, eq=False):
    """A kernel and its traits.

    `function` is its qualified name without arguments; `stem` its whole name without the numbers
    that compilers count their kernels with, which are `numbers`. `classes` are the types among its
    arguments, without numbers and data types, and `head` is the first of them: the code that a
    carrier such as `cutlass::Kernel` runs. `own_words` are those of the function's own name,
    `all_words` its numbers and the words of the arguments, too. `threads` are all threads of a
    launch. `work` are the counts of a launch, by name; `paths` are the compute paths of its FLOP.
    """

    kernel: SideKernel
    function: str
    stem: str
    numbers: tuple[int, ...]
    classes: frozenset[str]
    head: str
    own_words: frozenset[str]
    all_words: frozenset[str]
    threads: int | None
    work: dict[str, float]
    paths: frozenset[str]

    @property
    def key(self) -> KernelKey:
        """Return the key of the kernel, which no other of its side has."""
        return self.kernel.key


def traits_of(kernel: SideKernel) -> Traits:
    """Return the traits of a kernel."""
    key = kernel.key
    name = key.name[:_READ_CHARACTERS]
    if name.startswith("_Z"):
        name = parse_name(name).base
    outside, classes = _split(name.split(" "))
    own = outside[-1] if outside else name
    own_words = frozenset(_words_of(own))
    all_words = own_words.union(_parts(_NUMBER_PART.sub("", own)), *map(_words_of, classes[:_MOST_WORDS]))
    return Traits(
        kernel=kernel,
        function=" ".join(outside),
        stem=_NUMBER_PART.sub("#", key.name),
        numbers=tuple(int(number[:18]) for number in _NUMBER_PART.findall(own)),
        classes=frozenset(classes),
        head=classes[0] if classes else "",
        own_words=own_words,
        all_words=all_words,
        threads=prod((*key.grid, *key.block)) if key.grid is not None and key.block is not None else None,
        work=_work(kernel),
        paths=frozenset(work.path for work in kernel.representative.work if work.flop),
    )


def words_of_ranges(ranges: Sequence[str]) -> frozenset[str]:
    """Return the words and the numbers of ranges."""
    return frozenset(_parts("/".join(ranges)))


def _split(tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the scopes and the name outside of all brackets, and the types inside, by their last names, in order."""
    outside: list[str] = []
    classes: list[str] = []
    depth = 0
    for token, following in zip_longest(tokens, tokens[1:], fillvalue=","):
        if token in _OPENING:
            depth += 1
        elif token in _CLOSING:
            depth -= 1
        elif token in _COMMAS:
            continue
        elif depth <= 0:
            outside.append(token)
        elif _is_class(token, following):
            classes.append(token)
    return outside, classes


def _is_class(token: str, following: str) -> bool:
    """Return whether a token is a type's own name: no number, data type, or scope of a name."""
    return following in _ENDS and token not in _TYPE_WORDS and not token.lstrip("-")[:1].isdigit()


def _words_of(name: str) -> Iterator[str]:
    """Yield the meaningful words of an identifier: `sgemmNaive_kernel2` has sgemm and naive."""
    return (part for part in _parts(name) if not part.isdigit() and part not in _STOP_WORDS)


def _parts(text: str) -> list[str]:
    return [part.lower() for part in _WORD.findall(text[:_MOST_OF_A_WORD])]


def _work(kernel: SideKernel) -> dict[str, float]:
    """Return the known ones of instructions, FLOP of all paths and bytes of DRAM of a launch."""
    work = {}
    if "instructions" in kernel.counts:
        work["instructions"] = kernel.counts["instructions"].value
    flop = [path.flop for path in kernel.representative.work if path.flop is not None]
    if flop:
        work["flop"] = sum(flop)
    dram = next((traffic for traffic in kernel.representative.traffic if traffic.level == "dram"), None)
    if dram is not None and dram.bytes is not None:
        work["dram-bytes"] = dram.bytes
    return {name: value for name, value in work.items() if isfinite(value) and value >= 0}
