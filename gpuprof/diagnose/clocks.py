"""Compare the clocks of launches: times of launches at different clocks do not compare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
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
    if large > 0:
        return math.inf
    return 0.0


class ClockPair(NamedTuple):
    """The launches of the lowest and highest SM and DRAM clock of a GPU; None if they are alike.

    `is_other_time`: DRAM's clock seems to have fallen alike, so the time includes a part that no
    counter covers.
    """

    sm: _Ends | None
    dram: _Ends | None
    is_other_time: bool


def clocks_apart(session: Session) -> Iterator[ClockPair]:
    """Yield for each GPU the launches whose clocks differ too much to compare their times."""
    for device in session.devices:
        kernels = [kernel for kernel in session.kernels if kernel.device == device.id]
        pair, dram = _furthest_apart(kernels), _dram_ends(kernels)
        if pair is not None or dram is not None:
            yield ClockPair(pair, dram, is_other_time=pair is not None and _fell_alike(*pair))


def _furthest_apart(kernels: Sequence[KernelProfile]) -> _Ends | None:
    """Return the launches of the lowest and the highest SM clock: of one kernel if its clocks
    differ, else of all.

    The time of a launch can include more than the counted cycles: if it is short, or if DRAM's
    clock seems to have fallen alike. Such launches count only if they are of two reports, which
    users compare anyway.
    """
    clocked = [kernel for kernel in kernels if kernel.sm_clock_hz and kernel.duration_s]
    by_name: dict[str, list[KernelProfile]] = {}
    for kernel in clocked:
        by_name.setdefault(kernel.demangled, []).append(kernel)
    pairs: list[_Ends] = []
    for launches in by_name.values():
        compared = launches
        if len({kernel.source for kernel in launches}) == 1:
            compared = list(filter(_is_long_enough, launches))
        pairs += _if_apart(compared)
    if not pairs:
        pairs += _if_apart(list(filter(_is_long_enough, clocked)))
    return max(pairs, key=lambda pair: _ratio(pair[0].sm_clock_hz, pair[1].sm_clock_hz), default=None)


def _if_apart(kernels: Sequence[KernelProfile]) -> Iterator[_Ends]:
    """Yield the launches of the lowest and the highest clock if these differ."""
    if not kernels:
        return
    slow, fast = _ends(kernels)
    if clocks_differ(slow, fast) and (slow.source != fast.source or not _fell_alike(slow, fast)):
        yield slow, fast


def _is_long_enough(kernel: KernelProfile) -> bool:
    return (kernel.duration_s or 0.0) >= LONG_ENOUGH_S


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


def _ratio(low: float | None, high: float | None) -> float:
    if not low or not high:
        return 1.0
    return high / low


def _fell_alike(slow: KernelProfile, fast: KernelProfile) -> bool:
    """Return whether DRAM's clock fell like the SMs': then the time has an uncounted part."""
    sm = _ratio(slow.sm_clock_hz, fast.sm_clock_hz)
    dram = _ratio(slow.dram_clock_hz, fast.dram_clock_hz)
    return 100 * (dram - 1.0) > CLOCKS.value and abs(dram - sm) <= _ALIKE * (sm - 1.0)


def _dram_ends(kernels: Iterable[KernelProfile]) -> _Ends | None:
    """Return the launches of DRAM's lowest and highest clock if these differ."""
    clocked = [kernel for kernel in kernels if kernel.dram_clock_hz and _is_long_enough(kernel)]
    if not clocked:
        return None
    ordered = sorted(clocked, key=lambda kernel: kernel.dram_clock_hz or 0.0)
    slow, fast = ordered[0], ordered[-1]
    if _fell_alike(slow, fast) or _ratio(slow.dram_clock_hz, fast.dram_clock_hz) <= 1.0 + DRAM_CLOCK_DRIFT:
        return None
    return slow, fast
