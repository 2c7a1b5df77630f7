"""How much is done for one result, by the mode that the user chose."""

from __future__ import annotations

from dataclasses import dataclass

from gpuprof.characterize.maths.statistics import StopRule

_CURVE = StopRule(5, 0.01, 1.0)


@dataclass(frozen=True, slots=True)
class Effort:
    """Dials of a run. Windows are what N iterations take; the longest launch takes four times that.

    A window of 300 µs has more than 200 steps of the coarsest globaltimer. The few milliseconds of a round are shorter
    than the time in which clocks fall under load. The times to settle and of power are given as the least that a run
    takes where time is short, and the most that it takes where there is some to spare.
    """

    total_s: float
    rule: StopRule
    sweep_rounds: int = 3
    curve: StopRule = _CURVE
    window_s: float = 300e-6
    sustained_window_s: float = 5e-3
    least_settle_s: float = 0.8
    settle_s: float = 4.0
    least_power_s: float = 2.5
    power_s: float = 6.0
    allocations: int = 3


QUICK = Effort(60.0, StopRule(7, 0.005, 2.0), sweep_rounds=2, settle_s=1.0, power_s=2.5, curve=StopRule(3, 0.01, 0.5))
DEFAULT = Effort(330.0, StopRule(11, 0.005, 5.0))
FULL = Effort(
    1380.0, StopRule(11, 0.005, 15.0), sweep_rounds=5, least_settle_s=2.0, settle_s=10.0, least_power_s=6.0,
    power_s=12.0, allocations=5,
)  # fmt: skip
EFFORTS = {"quick": QUICK, "default": DEFAULT, "full": FULL}
"""Seconds are what is shared out: a run ends within a minute and a half, six minutes, 25 minutes."""
LEAST_ROUNDS = 3
"""So many rounds are taken of each point, however short the time."""
