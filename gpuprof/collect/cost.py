"""A model of the time that profiling takes.

Run = program + start + passes × (launches × time of a pass + time of the kernels themselves). The numbers are those of
ncu 2025.3 on an H100, for a transformer in PyTorch (`docs/explanation/results.md`). That they are right elsewhere has
not been verified on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.collect.counter_sets import SETS
from gpuprof.collect.questions import Question
from gpuprof.hardware.specs import ArchSpec

if TYPE_CHECKING:
    from gpuprof.collect.events import ProfilePlanned
    from gpuprof.collect.selection import Selection

PASS_S = 0.028
"""Saving, restoring and flushing around one pass of a short kernel."""
START_S = 2.3
"""A program takes so much longer under ncu if nothing of it is profiled: 12 s instead of 9.7 s."""
SURVEYED_S = 0.005
"""What ncu takes for a launch in a survey of its own: one pass that leaves caches alone."""
OWN_S = 1.5
"""What gpuprof itself takes to read, join and write."""
FULL_PASSES, FULL_PASS_S = 38, 0.055
"""A launch of `ncu --set full`: 38 passes of 55 ms."""
_BESIDE = 8
"""For so many passes of CUPTI's scheduler ncu takes one more: 18 for 16, 27 for 24 with opcodes and samples."""
_OPCODES_AND_SAMPLES = 1
"""What opcodes and samples of the program counter add. Nothing has measured them alone."""


class ScheduledPasses(NamedTuple):
    """Passes by CUPTI's scheduler (`python -m benchmarks.passes`) for three groups of counters: those of the limits,
    those that answer all questions but "tensor-work", and those that answer it."""

    limits: int
    answers: int
    tensor_work: int


SCHEDULED = {
    "sm_70": ScheduledPasses(13, 14, 0),
    "sm_75": ScheduledPasses(4, 7, 0),
    "sm_80": ScheduledPasses(5, 7, 0),
    "sm_86": ScheduledPasses(2, 7, 0),
    "sm_89": ScheduledPasses(3, 7, 0),
    "sm_90": ScheduledPasses(2, 7, 6),
    "sm_100": ScheduledPasses(2, 7, 2),
    "sm_103": ScheduledPasses(2, 7, 5),
    "sm_120": ScheduledPasses(3, 7, 0),
}
_ALIKE = {"sm_72": "sm_70", "sm_87": "sm_86", "sm_110": "sm_100", "sm_121": "sm_120"}
"""Architectures that CUPTI does not schedule for without their driver, and the one that each is like."""
_UNKNOWN = ScheduledPasses(3, 7, 6)


class ForecastRun(NamedTuple):
    """A run under ncu that is to come: its launches, whether they may be fewer, and the passes of each.

    `tensor_passes` are those with counters of tensor work; None if they are among the passes, or never asked for.
    """

    launches: int
    at_most: bool
    passes: int
    tensor_passes: int | None
    seconds: float


class Forecast(NamedTuple):
    """How long profiling takes after the survey. `full_s` is for `ncu --set full` of all launches; None if unknown."""

    runs: tuple[ForecastRun, ...]
    seconds: float
    full_s: float | None


def limit_passes(arch: ArchSpec) -> int:
    """Return about how many passes the limits of a launch take."""
    return _by_ncu(_scheduled(arch).limits)


def answer_passes(arch: ArchSpec, questions: Collection[Question], *, tensor_work: bool = False) -> int:
    """Return about how many passes answers take, with or without counters of tensor work, which few kernels need."""
    of_tensor_work = _scheduled(arch).tensor_work if tensor_work else 0
    return _by_ncu(_of_answers(arch, questions) + of_tensor_work) + _OPCODES_AND_SAMPLES


def passes_together(arch: ArchSpec, questions: Collection[Question]) -> int:
    """Return about how many passes limits and all answers take in one run, counters of tensor work among them."""
    scheduled = _scheduled(arch)
    return _by_ncu(scheduled.limits + _of_answers(arch, questions) + scheduled.tensor_work) + _OPCODES_AND_SAMPLES


def forecast_of(planned: ProfilePlanned) -> Forecast:
    """Return what the runs of a plan will take; the program's own time is that of the survey."""
    program_s = planned.program_s or 0.0
    plan, selection, arch = planned.plan, planned.selection, planned.arch
    chosen = SETS[planned.counters]
    pass_s = PASS_S if chosen.stock_set is None else FULL_PASS_S

    def run(taken: Selection, passes: int, tensor_passes: int | None = None, *, at_most: bool = False) -> ForecastRun:
        seconds = run_s(program_s, taken.launches, passes, taken.time_s, pass_s)
        return ForecastRun(taken.launches, at_most, passes, tensor_passes, seconds)

    if planned.answers is not None:
        passes, most = (answer_passes(arch, chosen.questions, tensor_work=tensor) for tensor in (False, True))
        answers = run(planned.answers, passes, most if most > passes else None, at_most=True)
        runs: tuple[ForecastRun, ...] = (run(selection, limit_passes(arch)), answers)
    elif chosen.stock_set is not None:
        runs = (run(selection, FULL_PASSES),)
    else:
        runs = (run(selection, passes_together(arch, chosen.questions)),)
    full = run_s(program_s, plan.seen, FULL_PASSES, plan.time_s, FULL_PASS_S) if planned.program_s is not None else None
    return Forecast(runs, sum(run.seconds for run in runs) + OWN_S, full)


def run_s(program_s: float, launches: int, passes: int, kernels_s: float = 0.0, pass_s: float = PASS_S) -> float:
    """Return how long a run under ncu takes: `kernels_s` is what the profiled launches take by themselves."""
    return program_s + START_S + passes * (launches * pass_s + kernels_s)


def _of_answers(arch: ArchSpec, questions: Collection[Question]) -> int:
    return _scheduled(arch).answers if {*questions} - {"work", "tensor-work"} else 1


def _by_ncu(scheduled: int) -> int:
    return scheduled + math.ceil(scheduled / _BESIDE)


def _scheduled(arch: ArchSpec) -> ScheduledPasses:
    return SCHEDULED.get(_ALIKE.get(arch.name, arch.name), _UNKNOWN)
