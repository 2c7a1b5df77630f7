"""Conditions that runs are simulated under: what makes runs of the same code differ, and where its size is from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Order = Literal["ABBA, told", "ABBA, not told", "base, then new"]
ORDERS: tuple[Order, ...] = ("ABBA, told", "ABBA, not told", "base, then new")
RUNS = (1, 2, 3, 5, 10, 20)
"""Runs a side."""

_SESSION = "yetanotherco/lambda_vm#712: 0.5 % to 0.85 %; ROCm/FlyDSL#924: 0.2 % to 0.6 %"
_SHARED = "NVIDIA/nvbench#310: 2.7 % to 7.8 % between samples of short kernels"
_MODES = "newton-physics/newton#2534: 22.5 or 25.5 ms between runs"
_HEAT = "tensara/tensara#226: 1965 MHz at 27 °C, 1813 MHz at 64 °C"
_THROTTLE = "NVIDIA/nvbench#206: samples below 80 % of the clock are discarded by default"
_OURS = "chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What differs between runs, all relative to the time of a launch.

    `noise`: standard deviation of a run's median launch: what its launches make of it, and the rest between runs, which
    is normal or, if `heavy`, Student's t with three degrees of freedom. `gap` and `share`: a second mode, and how many
    runs are in it. `drift`: from the first to the last run of both sides, in seconds and cycles. `heat`, `jitter`: what
    the SM clock falls by over them, and varies by. `throttled`: how many runs have the clock at `throttled_to`;
    `sticky`: from some run on all of them. `clock_known`: cycles are there. `memory`: time does not depend on the SM
    clock. `short`: kernels of less than 10 µs. `beyond`: no verdict can be right here in every order; it is simulated
    to show how wrong it becomes.
    """

    name: str
    source: str
    noise: float
    heavy: bool = False
    gap: float = 0.0
    share: float = 0.0
    drift: float = 0.0
    heat: float = 0.0
    jitter: float = 0.0
    throttled: float = 0.0
    throttled_to: float = 0.8
    sticky: bool = False
    clock_known: bool = False
    memory: bool = False
    short: bool = False
    beyond: bool = False


CONDITIONS = (
    Condition(name="normal, 0.2 %", source=_SESSION, noise=0.002),
    Condition(name="normal, 0.4 %", source=_SESSION, noise=0.004),
    Condition(name="normal, 0.6 %", source=_SESSION, noise=0.006),
    Condition(name="normal, 0.8 %", source=_SESSION, noise=0.008),
    Condition(name="normal, 1.5 %", source=_SHARED, noise=0.015),
    Condition(name="normal, 3 %", source=_SHARED, noise=0.03),
    Condition(name="heavy tails, 0.4 %", source=_OURS, noise=0.004, heavy=True),
    Condition(name="two modes, 2 % apart, half of the runs", source=_OURS, noise=0.004, gap=0.02, share=0.5),
    Condition(name="two modes, 13 % apart, half of the runs", source=_MODES, noise=0.002, gap=0.125, share=0.5),
    Condition(name="two modes, 13 % apart, a tenth of the runs", source=_MODES, noise=0.002, gap=0.125, share=0.1),
    Condition(name="drift of 0.6 %, noise 0.2 %", source=_OURS, noise=0.002, drift=0.006),
    Condition(name="drift of 0.6 %, noise 0.4 %", source=_OURS, noise=0.004, drift=0.006),
    Condition(name="drift of 0.6 %, noise 0.8 %", source=_OURS, noise=0.008, drift=0.006),
    Condition(name="clock falls by 8 %, compute-bound", source=_HEAT, noise=0.004, heat=0.08, clock_known=True),
    Condition(
        name="clock falls by 8 %, memory-bound", source=_HEAT, noise=0.004, heat=0.08, clock_known=True, memory=True
    ),
    Condition(name="clock varies by 0.4 %", source=_OURS, noise=0.004, jitter=0.004, clock_known=True),
    Condition(name="throttling in 5 % of the runs", source=_THROTTLE, noise=0.004, throttled=0.05),
    Condition(
        name="throttling in 20 % of the runs, clock known",
        source=_THROTTLE,
        noise=0.004,
        throttled=0.2,
        clock_known=True,
    ),
    Condition(
        name="throttling from some run on, clock known",
        source=_THROTTLE,
        noise=0.004,
        throttled=1.0,
        sticky=True,
        clock_known=True,
    ),
    Condition(
        name="the same, memory-bound",
        source=_THROTTLE,
        noise=0.004,
        throttled=1.0,
        sticky=True,
        clock_known=True,
        memory=True,
    ),
    Condition(name="short kernels, 0.8 %", source=_SESSION, noise=0.008, short=True),
    Condition(name="short kernels, 1.5 %", source=_SHARED, noise=0.015, short=True),
    Condition(name="short kernels, 0.8 %, clock known", source=_SESSION, noise=0.008, short=True, clock_known=True),
    Condition(name="drift of 3 %, clock not known", source=_OURS, noise=0.004, drift=0.03, beyond=True),
    Condition(
        name="throttling from some run on, clock not known",
        source=_THROTTLE,
        noise=0.004,
        throttled=1.0,
        sticky=True,
        beyond=True,
    ),
)
