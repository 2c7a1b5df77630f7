"""Launch configuration, resources and clocks of a kernel on both sides, as rows of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from gpuprof.comparison.contract import KernelChange
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import SideKernel
from gpuprof.model.headline import limited_by
from gpuprof.model.session import KernelProfile
from gpuprof.present.compare_page.parts import TwoSided, representative_of
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_binary, format_percent, format_si, format_waves
from gpuprof.words.comparison_values import side_texts, value_text
from gpuprof.words.profile_values import NOT_COLLECTED, dims_text

_LABEL_LENGTH = 120
Number = TypeVar("Number", int, float)
_CLOCK_ALIKE = 0.01
"""Clocks within one percent are the same: ncu averages them over a launch."""


def launch_facts(change: KernelChange, pair: Pair) -> Iterator[TwoSided]:
    """Yield what is known of the launch on any side; "not there" for the side that lacks the kernel."""
    base, new = representative_of(pair.base), representative_of(pair.new)
    if len(pair.base) > 1 or len(pair.new) > 1:
        yield TwoSided("Kernels", base=_listed(pair.base), new=_listed(pair.new), changed=True)
    yield from _times(change)
    launches = (value_text(number) if number else _ABSENT for number in pair.launches)
    yield _row(f"Launches of a {change.per}", *launches)
    for name, text in _FACTS:
        row = _both(name, base, new, text)
        if any(value not in (NOT_COLLECTED, _ABSENT) for value in (row.base, row.new)):
            yield row
    yield _clock("SM clock", base, new, lambda kernel: kernel.sm_clock_hz)
    yield _clock("DRAM clock", base, new, lambda kernel: kernel.dram_clock_hz)


_ABSENT = "not there"


def _listed(kernels: tuple[SideKernel, ...]) -> str:
    names = ", ".join(printable(kernel.label) for kernel in kernels)
    return cut_middle(names, _LABEL_LENGTH) if kernels else _ABSENT


def _times(change: KernelChange) -> Iterator[TwoSided]:
    time = change.time
    for name, base, new, unit in (
        ("Time of a launch, median", time.base_s, time.new_s, "s"),
        ("SM cycles of it", time.base_cycles, time.new_cycles, "cycle"),
    ):
        if base is not None or new is not None:
            before, after = side_texts(base, new, unit)
            yield TwoSided(
                name,
                base=before if change.base else _ABSENT,
                new=after if change.new else _ABSENT,
                changed=time.is_change,
            )


def _both(
    name: str, base: KernelProfile | None, new: KernelProfile | None, text: Callable[[KernelProfile], str]
) -> TwoSided:
    return _row(name, *(text(kernel) if kernel is not None else _ABSENT for kernel in (base, new)))


def _row(name: str, base: str, new: str) -> TwoSided:
    changed = base != new and not {base, new} & {NOT_COLLECTED, _ABSENT}
    return TwoSided(name, base=base, new=new, changed=changed)


def _known(value: Number | None, text: Callable[[Number], str]) -> str:
    return text(value) if value is not None else NOT_COLLECTED


def _theoretical(kernel: KernelProfile) -> str:
    fraction, limiter = kernel.occupancy.theoretical, printable(limited_by(kernel.occupancy))
    if fraction is None:
        return NOT_COLLECTED
    return f"{format_percent(fraction)}{f', {limiter}' if limiter else ''}"


def _ranges(kernel: KernelProfile) -> str:
    return cut_middle(printable(" / ".join(kernel.ranges)), _LABEL_LENGTH) if kernel.ranges else NOT_COLLECTED


_FACTS: tuple[tuple[str, Callable[[KernelProfile], str]], ...] = (
    ("Ranges", _ranges),
    ("Grid", lambda kernel: dims_text(kernel.grid)),
    ("Block", lambda kernel: dims_text(kernel.block)),
    ("Waves", lambda kernel: _known(kernel.waves, format_waves)),
    ("Registers per thread", lambda kernel: _known(kernel.registers_per_thread, str)),
    ("Shared memory per block", lambda kernel: _known(kernel.shared_memory_per_block, format_binary)),
    ("Theoretical occupancy", _theoretical),
    ("Achieved occupancy", lambda kernel: _known(kernel.occupancy.achieved, format_percent)),
)


def _clock(
    name: str,
    base: KernelProfile | None,
    new: KernelProfile | None,
    of: Callable[[KernelProfile], float | None],
) -> TwoSided:
    row = _both(name, base, new, lambda kernel: _known(of(kernel) or None, _frequency))
    before, after = (of(kernel) if kernel is not None else None for kernel in (base, new))
    return replace(row, changed=bool(before and after and abs(after / before - 1) > _CLOCK_ALIKE))


def _frequency(clock_hz: float) -> str:
    return format_si(clock_hz, "Hz")
