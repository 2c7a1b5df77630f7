"""Counters that nothing else in a view shows, as text."""

from __future__ import annotations

from gpuprof.model.session import CollectedCounter, KernelProfile
from gpuprof.units import spaced

_SPACED_FROM = 1000


def counter_row(counter: CollectedCounter) -> tuple[str, str, str]:
    """Return name, value and unit of a counter: whole numbers in full, others with six digits."""
    value = counter.value
    is_whole = value == round(value)
    return counter.name, spaced(value) if is_whole and value >= _SPACED_FROM else f"{value:.6g}", counter.unit


def counters_left_out(kernel: KernelProfile, shown: int) -> str:
    """Say where the counters are that a view leaves out; empty if it has all."""
    more = kernel.collected_total - shown
    if more <= 0:
        return ""
    if kernel.collected:
        return f"and {spaced(more)} more, in --format json"
    return f"{spaced(more)} more counters are in the report: ncu --import FILE --page raw"
