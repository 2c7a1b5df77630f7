"""Pair the kernels that --match names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from gpuprof.comparison.pair import NamedMatch, Pair, match_of
from gpuprof.comparison.sides import Side, SideKernel
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern

_OPTION = "--match"


def named_pairs(base: Side, new: Side, named: Sequence[NamedMatch]) -> list[Pair]:
    """Return the pairs that --match names.

    Raises UsageError if one fits no kernel, or a kernel that is named already.

    Several kernels on a side belong together, unless both sides have the same ranges and launch
    configurations of them: then each is paired with its equal.
    """
    pairs: list[Pair] = []
    taken: dict[int, NamedMatch] = {}
    for match in named:
        base_kernels = _fitting(base, match.base, "base")
        new_kernels = _fitting(new, match.new, "new")
        for kernel in (*base_kernels, *new_kernels):
            if taken.setdefault(id(kernel), match) is not match:
                raise UsageError(
                    f"{_OPTION} names {kernel.representative.label!r:.80} twice, in {_text(taken[id(kernel)])} and in "
                    f"{_text(match)}",
                    "drop one of them, or write an expression that fits fewer kernels",
                )
        pairs += _paired(base_kernels, new_kernels)
    return pairs


def _text(match: NamedMatch) -> str:
    return repr(f"{match.base}={match.new}"[:80])


def _fitting(side: Side, text: str, called: str) -> list[SideKernel]:
    """Return the kernels of a side that an expression or a number names."""
    pattern = kernel_pattern(text, _OPTION)
    kernels = [kernel for kernel in side.kernels if _fits(kernel, pattern)]
    if not kernels:
        raise UsageError(
            f"{_OPTION} {text!r:.80} fits none of the {len(side.kernels)} kernels of the {called} side",
            "`gpuprof show FILE` lists names and numbers; an expression is to be found in a label or a full name",
        )
    if pattern.number is not None and len(kernels) > 1:
        labels = sorted({repr(kernel.representative.label[:40]) for kernel in kernels})
        raise UsageError(
            f"{_OPTION} {text} is another kernel in each file of the {called} side: {', '.join(labels[:3])}",
            "name the kernel by its name",
        )
    return kernels


def _fits(kernel: SideKernel, pattern: KernelPattern) -> bool:
    if pattern.number is not None:
        return any(profile.id == pattern.number for profile in kernel.profiles)
    names = {(profile.label, profile.demangled) for profile in kernel.profiles}
    return any(pattern.fits(label, demangled) for label, demangled in names)


def _paired(base: Sequence[SideKernel], new: Sequence[SideKernel]) -> list[Pair]:
    before = {_configuration(kernel): kernel for kernel in base}
    after = {_configuration(kernel): kernel for kernel in new}
    if before.keys() == after.keys() and len(base) == len(new) == len(before):
        return [Pair("named", (kernel,), (after[key],)) for key, kernel in before.items()]
    return [Pair(match_of(len(base), len(new), "named"), tuple(base), tuple(new))]


def _configuration(kernel: SideKernel) -> Hashable:
    return kernel.key.ranges, kernel.key.grid, kernel.key.block
