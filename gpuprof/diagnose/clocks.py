"""Compare the clocks of launches: times of launches at different clocks do not compare."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuprof.diagnose.thresholds import percent
from gpuprof.model.implied import DRAM_CLOCK_DRIFT, LONG_ENOUGH_S
from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.sm_clocks import DRIVER, GPC_CYCLES, off_by

CLOCKS = percent("sm-clocks", 2.0)
_ALIKE = 0.25
"""Two clocks fell alike if one fell by at most a quarter more or less than the other."""
_Ends = tuple[KernelProfile, KernelProfile]
"""The launches of the lowest and the highest clock."""


def clocks_differ(kernel: KernelProfile, other: KernelProfile) -> bool | None:
    """Return whether the SM clocks of two launches differ; None if not known well enough."""
    if not kernel.sm_clock_hz or not other.sm_clock_hz:
        return None
    if difference(kernel.sm_clock_hz, other.sm_clock_hz) <= CLOCKS.value:
        return False
    slow, fast = _ends((kernel, other))
    return True if 100 * (_at_least(fast) / _at_most(slow) - 1.0) > CLOCKS.value else None


def difference(value: float, other: float) -> float:
    """Return by how many percent the larger of two is above the smaller."""
    small, large = sorted((value, other))
    if small > 0:
        return 100 * (large / small - 1.0)
    return math.inf if large > 0 else 0.0


class ClockPair(NamedTuple):
    """The launches of the lowest and highest SM and DRAM clock of a GPU; None if they are alike."""

    sm: _Ends | None
    dram: _Ends | None


def clocks_apart(session: Session) -> Iterator[ClockPair]:
    """Yield for each GPU the launches whose clocks differ too much to compare their times.

    Leave out short launches, and those whose SM and DRAM clock fell alike: their time includes more
    than the counted cycles.
    """
    for device in session.devices:
        kernels = [
            kernel
            for kernel in session.kernels
            if kernel.device == device.id and (kernel.duration_s or 0.0) >= LONG_ENOUGH_S
        ]
        pair = ClockPair(_sm_ends(kernels), _dram_ends(kernels))
        if pair != (None, None):
            yield pair


def _sm_ends(kernels: Sequence[KernelProfile]) -> _Ends | None:
    clocked = [kernel for kernel in kernels if kernel.sm_clock_hz]
    if not clocked:
        return None
    slow, fast = _ends(clocked)
    return (slow, fast) if clocks_differ(slow, fast) and not _fell_alike(slow, fast) else None


def _dram_ends(kernels: Sequence[KernelProfile]) -> _Ends | None:
    clocked = sorted(
        (kernel for kernel in kernels if kernel.dram_clock_hz), key=lambda kernel: kernel.dram_clock_hz or 0.0
    )
    if not clocked or _fell_alike(clocked[0], clocked[-1]):
        return None
    is_apart = _ratio(clocked[0].dram_clock_hz, clocked[-1].dram_clock_hz) > 1.0 + DRAM_CLOCK_DRIFT
    return (clocked[0], clocked[-1]) if is_apart else None


def _fell_alike(slow: KernelProfile, fast: KernelProfile) -> bool:
    """Return whether DRAM's clock fell like the SMs': then the time has an uncounted part."""
    sm = _ratio(slow.sm_clock_hz, fast.sm_clock_hz)
    dram = _ratio(slow.dram_clock_hz, fast.dram_clock_hz)
    return 100 * (dram - 1.0) > CLOCKS.value and abs(dram - sm) <= _ALIKE * (sm - 1.0)


def _ratio(low: float | None, high: float | None) -> float:
    return high / low if low and high else 1.0


def _ends(kernels: Sequence[KernelProfile]) -> _Ends:
    """Return the launches of the lowest and the highest clock, by the bounds of each clock."""
    return min(kernels, key=_at_most), max(kernels, key=_at_least)


def _at_most(kernel: KernelProfile) -> float:
    return (kernel.sm_clock_hz or 0.0) / (1.0 - _off(kernel))


def _at_least(kernel: KernelProfile) -> float:
    return (kernel.sm_clock_hz or 0.0) / (1.0 + _off(kernel))


def _off(kernel: KernelProfile) -> float:
    """Return the largest error of a clock as a fraction; 0 if well below the limit."""
    if kernel.sm_clock_source in (GPC_CYCLES, DRIVER):
        return 0.0
    return off_by(kernel.duration_s, of_long=0.0)
