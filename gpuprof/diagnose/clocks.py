"""Clocks of launches: whether they differ, and what a reader who compares times has to know of that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.rule import percent
from gpuprof.model.implied import DRAM_CLOCK_DRIFT, LONG_ENOUGH_S
from gpuprof.model.session import Device, KernelProfile, Session
from gpuprof.model.sm_clocks import DRIVER, GPC_CYCLES, held_clock, off_by, sm_clock
from gpuprof.units import format_si

CLOCKS = percent(
    "difference in SM clocks",
    2.0,
    "launches of more than a millisecond at a locked clock stay within 1 % in recorded reports: more is another clock",
)
_ALIKE = 0.25
"""Two clocks of which one fell by no quarter more or less than the other fell alike."""
_LOCKED = ("base", "locked")
_Ends = tuple[KernelProfile, KernelProfile]
"""Of the lowest and the highest clock."""


def clocks_differ(kernel: KernelProfile, other: KernelProfile) -> bool | None:
    """Tell whether the SMs ran at different clocks in two launches; None where a clock is not known well enough."""
    if not kernel.sm_clock_hz or not other.sm_clock_hz:
        return None
    if difference(kernel.sm_clock_hz, other.sm_clock_hz) <= CLOCKS.value:
        return False
    slow, fast = _ends((kernel, other))
    return True if 100 * (_at_least(fast) / _at_most(slow) - 1.0) > CLOCKS.value else None


def difference(value: float, other: float) -> float:
    """Return by how many percent the larger of two is above the smaller."""
    small, large = sorted((value, other))
    return 100 * (large / small - 1.0) if small > 0 else math.inf if large > 0 else 0.0


def clock_notes(session: Session) -> Iterator[str]:
    """Say of each GPU where launches ran at clocks that differ, so that their times do not compare."""
    for device in session.devices:
        kernels = [_driven(session, kernel, device) for kernel in session.kernels if kernel.device == device.id]
        pair, dram = _furthest_apart(kernels), _dram_ends(kernels)
        if pair is not None:
            yield _sm_note(session, *pair, dram)
        elif dram is not None:
            yield f"DRAM ran at different clocks: {_dram_text(*dram)}. Compare percentages, not times."


def _driven(session: Session, kernel: KernelProfile, device: Device) -> KernelProfile:
    """Return a kernel at the clock that the driver saw all the time, which older sessions do not have it at."""
    source = session.sources[kernel.source]
    held_hz = held_clock(source.samples, device.name, source.clock_control) if kernel.sm_clock_source is None else None
    if held_hz is None or not kernel.sm_clock_hz:
        return kernel
    clock = sm_clock(kernel.sm_clock_hz, None, held_hz, None, kernel.duration_s)
    return replace(kernel, sm_clock_hz=clock.hz, sm_clock_source=clock.source)


def _furthest_apart(kernels: Sequence[KernelProfile]) -> _Ends | None:
    """Return the launches of the lowest and the highest SM clock: of one kernel if its clocks differ, else of all.

    The time of a launch can hold more than the cycles that were counted: of a short one, and where DRAM's clock seems
    to have fallen alike. That is told where somebody compares them in any case: in two reports.
    """
    clocked = [kernel for kernel in kernels if kernel.sm_clock_hz and kernel.duration_s]
    by_name: dict[str, list[KernelProfile]] = {}
    for kernel in clocked:
        by_name.setdefault(kernel.demangled, []).append(kernel)
    clocked = [kernel for kernel in clocked if _is_long_enough(kernel)]
    compared = [
        launches if len({kernel.source for kernel in launches}) > 1 else list(filter(_is_long_enough, launches))
        for launches in by_name.values()
    ]
    apart = [pair for pair in (_ends(launches) for launches in compared if len(launches) > 1) if _are_apart(*pair)]
    if apart:
        return max(apart, key=lambda pair: _ratio(pair[0].sm_clock_hz, pair[1].sm_clock_hz))
    ends = _ends(clocked) if clocked else None
    return ends if ends is not None and _are_apart(*ends) else None


def _are_apart(slow: KernelProfile, fast: KernelProfile) -> bool:
    return bool(clocks_differ(slow, fast)) and (slow.source != fast.source or not _fell_alike(slow, fast))


def _is_long_enough(kernel: KernelProfile) -> bool:
    return (kernel.duration_s or 0.0) >= LONG_ENOUGH_S


def _ends(kernels: Sequence[KernelProfile]) -> _Ends:
    """Return the launches of the lowest and the highest clock, for all that is known of them."""
    return min(kernels, key=_at_most), max(kernels, key=_at_least)


def _at_most(kernel: KernelProfile) -> float:
    return (kernel.sm_clock_hz or 0.0) / (1.0 - _off(kernel))


def _at_least(kernel: KernelProfile) -> float:
    return (kernel.sm_clock_hz or 0.0) / (1.0 + _off(kernel))


def _off(kernel: KernelProfile) -> float:
    """Return how far its clock can be off, as a fraction; what is well below the limit does not count."""
    return 0.0 if kernel.sm_clock_source in (GPC_CYCLES, DRIVER) else off_by(kernel.duration_s, of_long=0.0)


def _ratio(low: float | None, high: float | None) -> float:
    return high / low if low and high else 1.0


def _fell_alike(slow: KernelProfile, fast: KernelProfile) -> bool:
    """Tell whether DRAM's clock fell with that of the SMs: then neither did, and the time holds what none counted."""
    sm, dram = _ratio(slow.sm_clock_hz, fast.sm_clock_hz), _ratio(slow.dram_clock_hz, fast.dram_clock_hz)
    return 100 * (dram - 1.0) > CLOCKS.value and abs(dram - sm) <= _ALIKE * (sm - 1.0)


def _sm_note(session: Session, slow: KernelProfile, fast: KernelProfile, dram: _Ends | None) -> str:
    low, high = (format_si(kernel.sm_clock_hz or 0.0, "Hz") for kernel in (slow, fast))
    where = f"{low} in {_named(slow)} and {high} in {_named(fast)}"
    if _fell_alike(slow, fast):
        return (
            f"Cycles over time give SM clocks of {where}. DRAM clocks would differ as much, so neither changed: the "
            f"time of #{slow.id} includes a part that no counter covers. Compare cycles, not times."
        )
    if dram is not None:
        return (
            f"SM clocks differ ({where}), and so do DRAM clocks ({_dram_text(*dram)}). Compare percentages, not "
            "times, or profile again after a warm-up."
        )
    controls = {session.sources[kernel.source].clock_control for kernel in (slow, fast)}
    locked = controls.issubset(_LOCKED)
    remedy = ""
    if "none" in controls:
        remedy = ", or profile again with ncu --clock-control base"
    elif locked:
        remedy = ", or profile again after a warm-up"
    return (
        f"SM clocks differ{' although ncu locked them' if locked else ''}: {where}. Compare cycles, not times{remedy}."
    )


def _dram_ends(kernels: Iterable[KernelProfile]) -> _Ends | None:
    """Return the launches of DRAM's lowest and highest clock, where these differ."""
    clocked = [kernel for kernel in kernels if kernel.dram_clock_hz and _is_long_enough(kernel)]
    ordered = sorted(clocked, key=lambda kernel: kernel.dram_clock_hz or 0.0)
    if not ordered or _fell_alike(ordered[0], ordered[-1]):
        return None
    drifts = _ratio(ordered[0].dram_clock_hz, ordered[-1].dram_clock_hz) > 1.0 + DRAM_CLOCK_DRIFT
    return (ordered[0], ordered[-1]) if drifts else None


def _dram_text(slow: KernelProfile, fast: KernelProfile) -> str:
    low, high = (format_si(kernel.dram_clock_hz or 0.0, "Hz") for kernel in (slow, fast))
    return f"{low} in {_named(slow)} and {high} in {_named(fast)}"


def _named(kernel: KernelProfile) -> str:
    return f"{kernel.label} (#{kernel.id})"
