"""Choose kernels of a comparison by --kernel and --exclude; its totals are those of all kernels."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import ComparisonFact, KernelChange
from gpuprof.comparison.pair import Pair
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern

_MOST_NAMED = 5


def narrowed(compared: Compared, kernels: Sequence[str] = (), exclude: Sequence[str] = ()) -> Compared:
    """Return the comparison of the chosen kernels, which keep their numbers.

    Raises UsageError for an invalid pattern, and if no kernel is left.
    """
    changes = compared.comparison.kernels
    named = _fitting(changes, kernels, "--kernel")
    if kernels and not named:
        raise nothing_fits(changes, f"--kernel {' '.join(map(repr, kernels)):.80}")
    excluded = _fitting(changes, exclude, "--exclude")
    left: list[KernelChange] = []
    pairs: list[Pair] = []
    for change, pair in zip(changes, compared.pairs, strict=True):
        if (change.id in named or not kernels) and change.id not in excluded:
            left.append(change)
            pairs.append(pair)
    if len(left) == len(changes):
        return compared
    if not left:
        raise UsageError(
            "every kernel is excluded",
            f"drop one of {', '.join(f'{text!r:.80}' for text in exclude)}",
        )
    facts = (*compared.comparison.facts, _left_out(changes, left, kernels, exclude))
    comparison = replace(compared.comparison, kernels=tuple(left), facts=facts)
    return replace(compared, comparison=comparison, pairs=tuple(pairs))


def _fitting(changes: Sequence[KernelChange], texts: Sequence[str], option: str) -> set[int]:
    """Return the ids of the kernels that any of these patterns names."""
    patterns = [kernel_pattern(text, option) for text in texts]
    return {change.id for change in changes if any(fits(pattern, change) for pattern in patterns)}


def unused(compared: Compared, texts: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the patterns behind an option that name no kernel of either side."""
    changes = compared.comparison.kernels
    return tuple(kernel_pattern(text, option).text for text in texts if not _fitting(changes, [text], option))


def fits(pattern: KernelPattern, change: KernelChange) -> bool:
    """Return whether a pattern names a kernel of either side, or a change by its number."""
    if pattern.fits(change.label, number=change.id):
        return True
    return any(pattern.fits(label, demangled) for label, demangled in names_of(change))


def names_of(change: KernelChange) -> list[tuple[str, str]]:
    """Return labels and full names of the kernels of a change, of both sides."""
    return [(kernel.label, kernel.demangled) for kernel in (*change.new, *change.base)]


def nothing_fits(changes: Sequence[KernelChange], option: str) -> UsageError:
    """Return the error for a pattern that names no kernel."""
    names = [f"#{change.id} {change.label}" for change in changes[:_MOST_NAMED]]
    more = f" and {len(changes) - _MOST_NAMED} more" if len(changes) > _MOST_NAMED else ""
    return UsageError(f"{option} matches no kernel", f"there are: {'; '.join(names)}{more}" if names else None)


def _left_out(
    changes: Sequence[KernelChange],
    left: Sequence[KernelChange],
    kernels: Sequence[str],
    exclude: Sequence[str],
) -> ComparisonFact:
    """Return how many kernels are left out, their share of the time if known, and the options."""
    options = [f"--kernel {text}" for text in kernels]
    options += [f"--exclude {text}" for text in exclude]
    numbers: list[float] = [len(changes) - len(left), len(changes)]
    whole = sum(map(_time_s, changes))
    if whole:
        kept = {change.id for change in left}
        numbers.append(sum(_time_s(change) for change in changes if change.id not in kept) / whole)
    return ComparisonFact(kind="left-out", numbers=tuple(numbers), texts=tuple(options))


def _time_s(change: KernelChange) -> float:
    return sum(kernel.time_total_s or 0.0 for kernel in change.base or change.new)
