"""A comparison of the kernels that are asked for: what else was compared stays in the totals, and is told."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import KernelChange
from gpuprof.comparison.sentences import whole_sentence
from gpuprof.comparison.sides import are_identical
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern
from gpuprof.units import format_percent

_MOST_NAMED = 5


def narrowed(compared: Compared, kernels: Sequence[str] = (), exclude: Sequence[str] = ()) -> Compared:
    """Return the comparison of the kernels that are asked for, on either side; numbers are those of the comparison.

    Raises UsageError for a pattern that is none, and where no kernel is left.
    """
    changes = compared.comparison.kernels
    wanted = [kernel_pattern(text, "--kernel") for text in kernels]
    unwanted = [kernel_pattern(text, "--exclude") for text in exclude]
    named = {change.id for change in changes if not wanted or any(fits(pattern, change) for pattern in wanted)}
    if not named and wanted:
        raise nothing_fits(changes, f"--kernel {' '.join(repr(text) for text in kernels):.80}")
    kept = [
        (change, pair)
        for change, pair in zip(changes, compared.pairs, strict=True)
        if change.id in named and not any(fits(pattern, change) for pattern in unwanted)
    ]
    if len(kept) == len(changes):
        return compared
    if not kept:
        raise UsageError("every kernel is excluded", f"drop one of {', '.join(f'{text!r:.80}' for text in exclude)}")
    left = tuple(change for change, _ in kept)
    comparison = compared.comparison
    identical = are_identical(compared.base.runs, compared.new.runs)
    comparison = replace(
        comparison,
        kernels=left,
        sentence=whole_sentence(comparison.total, left, comparison.conditions, identical=identical),
        notes=(*comparison.notes, _note(changes, left, kernels, exclude)),
    )
    return replace(compared, comparison=comparison, pairs=tuple(pair for _, pair in kept))


def unused(compared: Compared, texts: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the patterns behind an option that name no kernel of either side."""
    patterns = [kernel_pattern(text, option) for text in texts]
    return tuple(
        pattern.text for pattern in patterns if not any(fits(pattern, change) for change in compared.comparison.kernels)
    )


def fits(pattern: KernelPattern, change: KernelChange) -> bool:
    """Tell whether a pattern names a kernel of either side, or a change by its number."""
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


def _note(
    changes: Sequence[KernelChange], left: Sequence[KernelChange], kernels: Sequence[str], exclude: Sequence[str]
) -> str:
    options = [f"--kernel {text}" for text in kernels]
    options += [f"--exclude {text}" for text in exclude]
    kept = {change.id for change in left}
    times = [_time(change) for change in changes]
    gone = [time for change, time in zip(changes, times, strict=True) if change.id not in kept]
    number = f"{len(gone)} of {len(changes)} kernels"
    whole = sum(time for time in times if time is not None)
    share = sum(time for time in gone if time is not None) / whole if whole else None
    told = f" ({format_percent(share)} of the time)" if share is not None else ""
    return f"{number} are left out{told}: {' '.join(options)[:200]}. Totals are of all kernels."


def _time(change: KernelChange) -> float | None:
    known = [kernel.time_total_s for kernel in change.base or change.new if kernel.time_total_s is not None]
    return sum(known) if known else None
