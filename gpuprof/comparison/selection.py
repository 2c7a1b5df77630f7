"""The part of a comparison that is asked for by --kernel and --exclude; its totals stay those of all kernels."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import ComparisonFact, KernelChange
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern

_MOST_NAMED = 5


def narrowed(compared: Compared, kernels: Sequence[str] = (), exclude: Sequence[str] = ()) -> Compared:
    """Return the comparison of the kernels that are asked for, on either side; numbers are those of the comparison.

    Raises UsageError for an invalid pattern, and if no kernel is left.
    """
    changes = compared.comparison.kernels
    named = _fitting(changes, kernels, "--kernel")
    if kernels and not named:
        raise nothing_fits(changes, f"--kernel {' '.join(map(repr, kernels)):.80}")
    excluded = _fitting(changes, exclude, "--exclude")
    left = tuple(change for change in changes if (change.id in named or not kernels) and change.id not in excluded)
    if len(left) == len(changes):
        return compared
    if not left:
        raise UsageError("every kernel is excluded", f"drop one of {', '.join(f'{text!r:.80}' for text in exclude)}")
    pairs = dict(zip((change.id for change in changes), compared.pairs, strict=True))
    facts = (*compared.comparison.facts, _left_out(changes, left, kernels, exclude))
    comparison = replace(compared.comparison, kernels=left, facts=facts)
    return replace(compared, comparison=comparison, pairs=tuple(pairs[change.id] for change in left))


def _fitting(changes: Sequence[KernelChange], texts: Sequence[str], option: str) -> set[int]:
    """Return the ids of the kernels that any of these patterns names."""
    patterns = [kernel_pattern(text, option) for text in texts]
    return {change.id for change in changes if any(fits(pattern, change) for pattern in patterns)}


def unused(compared: Compared, texts: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the patterns behind an option that name no kernel of either side."""
    return tuple(
        kernel_pattern(text, option).text for text in texts if not _fitting(compared.comparison.kernels, [text], option)
    )


def fits(pattern: KernelPattern, change: KernelChange) -> bool:
    """Return whether a pattern names a kernel of either side, or a change by its number."""
    return pattern.fits(change.label, change.label, change.id) or any(
        pattern.fits(label, demangled) for label, demangled in names_of(change)
    )


def names_of(change: KernelChange) -> list[tuple[str, str]]:
    """Return labels and full names of the kernels of a change, of both sides."""
    return [(kernel.label, kernel.demangled) for kernel in (*change.new, *change.base)]


def nothing_fits(changes: Sequence[KernelChange], option: str) -> UsageError:
    """Return what to say of a pattern that names no kernel."""
    names = [f"#{change.id} {change.label}" for change in changes[:_MOST_NAMED]]
    more = f" and {len(changes) - _MOST_NAMED} more" if len(changes) > _MOST_NAMED else ""
    return UsageError(f"{option} matches no kernel", f"there are: {'; '.join(names)}{more}" if names else None)


def _left_out(
    changes: Sequence[KernelChange], left: Sequence[KernelChange], kernels: Sequence[str], exclude: Sequence[str]
) -> ComparisonFact:
    """Return how many of all kernels are left out, with their share of the time if known, and by which options."""
    options = [f"--kernel {text}" for text in kernels]
    options += [f"--exclude {text}" for text in exclude]
    kept = {change.id for change in left}
    times = [_time(change) for change in changes]
    gone = [time for change, time in zip(changes, times, strict=True) if change.id not in kept]
    numbers: list[float] = [len(gone), len(changes)]
    whole = sum(time for time in times if time is not None)
    if whole:
        numbers.append(sum(time for time in gone if time is not None) / whole)
    return ComparisonFact(kind="left-out", numbers=tuple(numbers), texts=tuple(options))


def _time(change: KernelChange) -> float | None:
    known = [kernel.time_total_s for kernel in change.base or change.new if kernel.time_total_s is not None]
    return sum(known) if known else None
