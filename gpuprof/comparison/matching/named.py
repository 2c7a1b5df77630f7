"""Pairs the kernels that the user names."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.comparison.pair import NamedMatch, Pair, match_of
from gpuprof.comparison.sides import Side, SideKernel
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern

_OPTION = "--match"


def named_pairs(base: Side, new: Side, named: Sequence[NamedMatch]) -> list[Pair]:
    """Return the pairs that --match names. Raises UsageError if one fits no kernel, or a kernel that is named already.

    Several kernels on a side belong together, unless both sides have the same ranges and launch configurations of
    them: then each belongs to its own.
    """
    pairs: list[Pair] = []
    taken: dict[int, NamedMatch] = {}
    for match in named:
        ours, theirs = _fitting(base, match.base, "base"), _fitting(new, match.new, "new")
        for kernel in (*ours, *theirs):
            if taken.setdefault(id(kernel), match) is not match:
                raise UsageError(
                    f"{_OPTION} names {kernel.representative.label!r:.80} twice, in {_said(taken[id(kernel)])} and in "
                    f"{_said(match)}",
                    "drop one of them, or write an expression that fits fewer kernels",
                )
        pairs += _paired(ours, theirs)
    return pairs


def _said(match: NamedMatch) -> str:
    return repr(f"{match.base}={match.new}"[:80])


def _fitting(side: Side, text: str, called: str) -> list[SideKernel]:
    """Return the kernels of a side that an expression or a number means."""
    pattern = kernel_pattern(text, _OPTION)
    kernels = [kernel for kernel in side.kernels if _fits(kernel, pattern)]
    if not kernels:
        raise UsageError(
            f"{_OPTION} {text!r:.80} fits none of the {len(side.kernels)} kernels of the {called} side",
            "`gpuprof show FILE` lists names and numbers; an expression is to be found in a label or a full name",
        )
    if pattern.number is not None and len(kernels) > 1:
        labels = ", ".join(sorted({repr(kernel.representative.label[:40]) for kernel in kernels})[:3])
        raise UsageError(
            f"{_OPTION} {text} is another kernel in each file of the {called} side: {labels}",
            "name the kernel by its name",
        )
    return kernels


def _fits(kernel: SideKernel, pattern: KernelPattern) -> bool:
    if pattern.number is not None:
        return any(profile.id == pattern.number for profile in kernel.profiles)
    names = {(profile.label, profile.demangled) for profile in kernel.profiles}
    return any(pattern.fits(label, demangled) for label, demangled in names)


def _paired(base: Sequence[SideKernel], new: Sequence[SideKernel]) -> list[Pair]:
    ours, theirs = (
        {(kernel.key.ranges, kernel.key.grid, kernel.key.block): kernel for kernel in side} for side in (base, new)
    )
    each_its_own = len(base) == len(ours) == len(new) == len(theirs) and ours.keys() == theirs.keys()
    if each_its_own:
        return [Pair("named", (kernel,), (theirs[place],)) for place, kernel in ours.items()]
    return [Pair(match_of(len(base), len(new), "named"), tuple(base), tuple(new))]
