"""Compare the clocks of launches: times of launches at different clocks do not compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gpuprof.model.implied import DRAM_CLOCK_DRIFT, LONG_ENOUGH_S
from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.sm_clocks import DRIVER, GPC_CYCLES, off_by

CLOCKS_DIFFER = 2.0
"""SM clocks that are further apart, in percent, differ."""
_ALIKE = 0.25
"""Two clocks fell alike if one fell by at most a quarter more or less than the other."""
_Ends = tuple[KernelProfile, KernelProfile]
"""The launches of the lowest and the highest clock."""


def clocks_differ(kernel: KernelProfile, other: KernelProfile) -> bool | None:
    """Return whether the SM clocks of two launches differ; None if not known well enough."""
    if not kernel.sm_clock_hz or not other.sm_clock_hz:
        return None
    if difference(kernel.sm_clock_hz, other.sm_clock_hz) <= CLOCKS_DIFFER:
        return False
    slow, fast = sorted((kernel, other), key=_sm_clock_hz)
    least_hz = _sm_clock_hz(fast) / (1.0 + _off(fast))
    most_hz = _sm_clock_hz(slow) / (1.0 - _off(slow))
    return True if 100 * (least_hz / most_hz - 1.0) > CLOCKS_DIFFER else None


def difference(value: float, other: float) -> float:
    """Return by how many percent the larger of two is above the smaller."""
    small, large = sorted((value, other))
    if small > 0:
        return 100 * (large / small - 1.0)
    return math.inf if large > 0 else 0.0


def _off(kernel: KernelProfile) -> float:
    """Return the largest error of a clock as a fraction; 0 if well below the limit."""
    if kernel.sm_clock_source in (GPC_CYCLES, DRIVER):
        return 0.0
    return off_by(kernel.duration_s, of_long=0.0)


class ClockPair(NamedTuple):
    """The launches of the lowest and highest SM and DRAM clock of a GPU; None if they are alike.

    `is_other_time`: DRAM's clock seems to have fallen alike, so the time includes a part that no
    counter covers.
    """

    sm: _Ends | None
    dram: _Ends | None
    is_other_time: bool


def clocks_apart(session: Session) -> Iterator[ClockPair]:
    """Yield for each GPU the launches whose clocks differ too much to compare their times.

    Users compare versions of a kernel in two reports anyway: these come before the long launches.
    """
    for device in session.devices:
        kernels = [kernel for kernel in session.kernels if kernel.device == device.id]
        by_name: dict[str, list[KernelProfile]] = {}
        for kernel in kernels:
            by_name.setdefault(kernel.demangled, []).append(kernel)
        versions = [_sm_ends(alike) for alike in by_name.values() if len({kernel.source for kernel in alike}) > 1]
        pairs = [pair for pair in versions if pair is not None]
        long = [kernel for kernel in kernels if (kernel.duration_s or 0.0) >= LONG_ENOUGH_S]
        sm = max(pairs, key=lambda pair: _sm_clock_hz(pair[1]) / _sm_clock_hz(pair[0]), default=_sm_ends(long))
        dram = _ends(long, _dram_clock_hz, 100 * DRAM_CLOCK_DRIFT)
        if dram is not None and _fell_alike(*dram):
            dram = None
        if sm is not None or dram is not None:
            yield ClockPair(sm, dram, is_other_time=sm is not None and _fell_alike(*sm))


def _sm_ends(kernels: Iterable[KernelProfile]) -> _Ends | None:
    """Return the launches of the lowest and the highest exact SM clock, if not only the time differs."""
    ends = _ends([kernel for kernel in kernels if _off(kernel) == 0], _sm_clock_hz, CLOCKS_DIFFER)
    if ends is None or (_fell_alike(*ends) and ends[0].source == ends[1].source):
        return None
    return ends


def _ends(kernels: Iterable[KernelProfile], clock_hz: Callable[[KernelProfile], float], most: float) -> _Ends | None:
    """Return the launches of the lowest and the highest clock if these differ by more percent."""
    clocked = sorted(filter(clock_hz, kernels), key=clock_hz)
    if not clocked:
        return None
    slow, fast = clocked[0], clocked[-1]
    return (slow, fast) if difference(clock_hz(slow), clock_hz(fast)) > most else None


def _fell_alike(slow: KernelProfile, fast: KernelProfile) -> bool:
    """Return whether DRAM's clock fell like the SMs'."""
    if not (_sm_clock_hz(slow) and _sm_clock_hz(fast) and _dram_clock_hz(slow) and _dram_clock_hz(fast)):
        return False
    sm = _sm_clock_hz(fast) / _sm_clock_hz(slow) - 1.0
    dram = _dram_clock_hz(fast) / _dram_clock_hz(slow) - 1.0
    return 100 * dram > CLOCKS_DIFFER and abs(dram - sm) <= _ALIKE * sm


def _sm_clock_hz(kernel: KernelProfile) -> float:
    return kernel.sm_clock_hz or 0.0


def _dram_clock_hz(kernel: KernelProfile) -> float:
    return kernel.dram_clock_hz or 0.0
