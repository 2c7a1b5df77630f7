"""What a method of measuring is: how it measures a step, what its samples come to, and what a plan must know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from gpuprof.characterize.measure.effort import Effort
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.measure.forecast import Cost, Where
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record.series import Series
from gpuprof.characterize.results.judging import Judging

Phase = Literal["idle", "latency", "short", "sustained"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""The order of a run: what needs a cool GPU comes first, what heats it last."""
_LATENCY_UNITS = ("cycle", "s", "B", "block")


def usual_phase(step: Step) -> Phase:
    """Return when a step's turn is by its regime and unit."""
    if step.regime == "sustained":
        return "sustained"
    return "latency" if step.probe.unit in _LATENCY_UNITS else "short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to run a probe.

    `measure` measures a step, yielding what failed of it; `reduce` yields a result with its verdict for each point of a
    probe; `forecast` tells how long a step takes, `phase` when its turn is. `ceiling`: its value is what the GPU
    reaches, so that it may be a ceiling. `countable`: ncu can count the work of one of its launches. `only_full`: it
    takes long and few need it, so that it is left to --full.
    """

    measure: Callable[[MeasurementContext, Step], Iterator[StepFailure]]
    reduce: Callable[[Probe, Sequence[Series], Judging], Iterator[Result]]
    forecast: Callable[[Step, Where, Effort], Cost]
    phase: Callable[[Step], Phase] = usual_phase
    ceiling: bool = False
    countable: bool = False
    only_full: bool = False
