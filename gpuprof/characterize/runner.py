"""Runs a plan step by step: samples to disk, results told as they come, whatever breaks kept to its own step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuprof.characterize.measure.events import Remark, Result, Started
from gpuprof.characterize.measure.points import failure, passed
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.methods.table import method_of, results_of
from gpuprof.characterize.on_gpu.environment import compiler_facts, environment_facts, telemetry_facts
from gpuprof.characterize.record.gpu import DeviceError, Stopped
from gpuprof.characterize.record.samples import plain
from gpuprof.characterize.results.judging import Judging
from gpuprof.characterize.schedule import STEP, allotted, spare, step_facts

INTERRUPTED = "interrupted"
DIED = "died"
"""What a note says of a probe that has ended the process that holds the GPU."""
_REPEATS = 0.25
"""The part of the spare time that a run may take for measuring again what was throttled: what always is stays so."""


@dataclass
class _Deaths:
    """What has ended the process that holds the GPU: what is told of each probe, how many in a row, how many in all."""

    told: dict[str, str]
    in_a_row: int = 0
    in_all: int = 0

    def add(self, probe: str, why: str) -> None:
        """Count a probe."""
        self.told[probe] = f"the process that held the GPU had to be started again: {why}"
        self.in_a_row, self.in_all = self.in_a_row + 1, self.in_all + 1

    @property
    def hopeless(self) -> bool:
        """Tell whether the GPU is broken: ten in a row (some probes share code), or thirty of some ten seconds each."""
        return self.in_a_row >= 10 or self.in_all >= 30


class RunOutcome(NamedTuple):
    """The results of a run in the order of its steps; `cut_short` says why not all were measured."""

    results: tuple[Result, ...]
    cut_short: str | None


def run(
    context: MeasurementContext, steps: Sequence[Step], judging: Callable[[], Judging], seconds: float
) -> RunOutcome:
    """Measure the steps within `seconds`; `judging` gives what results are judged by, with what is known by then.

    What hangs or traps costs its own step: the GPU is opened again for the next one. A GpuprofError of the sample file
    goes upwards; what is in the file stays good.
    """
    results: list[Result] = []
    ends, deaths = context.gpu.now() + seconds, _Deaths(_died(context))
    context.repeat_s = _REPEATS * spare(steps, seconds)
    facts = environment_facts(context.gpu.properties) | compiler_facts(context.checked)
    context.store.note("environment", facts=facts)
    log(context, "before")
    for number, step in enumerate(steps):
        place = {"number": number + 1, "total": len(steps)}
        context.tell(Started(step.probe.id, step.probe.title, step.regime, data=step.data, **place))
        share = allotted(steps[number:], ends - context.gpu.now())
        cut_short = _there(context)
        if cut_short is None:
            failures: list[StepFailure] = []
            began = context.gpu.now()
            cut_short = _survived(context, replace(step, seconds=share), deaths, failures)
            if step.seconds:  # an earlier run has not measured it already
                whole = cut_short is None and not failures
                facts = step_facts(step, context.effort, context.checked, context.gpu.now() - began, whole=whole)
                context.store.note(STEP, probe=step.probe.id, facts=facts)
            results += _told(context, step, failures, judging())
        if cut_short is not None:
            return RunOutcome(tuple(results), cut_short)
    log(context, "after")
    return RunOutcome(tuple(results), None)


def _survived(context: MeasurementContext, step: Step, deaths: _Deaths, failures: list[StepFailure]) -> str | None:
    """Measure a step, adding what fails of it, and open the GPU again after what is fatal.

    Return why the run must end, where it must.
    """
    launched = context.launcher.launched
    try:
        for step_failure in _step(context, step, deaths.told):
            failures.append(step_failure)
        context.look()
    except (Stopped, KeyboardInterrupt):
        return INTERRUPTED
    except DeviceError as error:
        context.store.note(DIED, probe=step.probe.id, why=plain(error.message))
        deaths.add(step.probe.id, error.message)
        failures.append(failure(step, None, deaths.told[step.probe.id]))
        return _begun_again(context, error, hopeless=deaths.hopeless)
    if context.launcher.launched > launched:
        deaths.in_a_row = 0
    return None


def _there(context: MeasurementContext) -> str | None:
    """Open the GPU again where it was lost while nothing ran: that is no probe's doing. Return why the run must end."""
    try:
        context.gpu.free_bytes()
    except (Stopped, KeyboardInterrupt):
        return INTERRUPTED
    except DeviceError as error:
        if error.fatal:
            context.store.note("lost", why=plain(error.message))
            return _begun_again(context, error, hopeless=False)
    return None


def _begun_again(context: MeasurementContext, error: DeviceError, *, hopeless: bool) -> str | None:
    """Open the GPU again after what was fatal. Return why the run must end, where that cannot be."""
    context.launcher.forget()
    if hopeless:
        return f"the GPU was lost: {error.message}"
    try:
        context.gpu.restart()
        context.look()
    except (Stopped, KeyboardInterrupt):
        return INTERRUPTED
    except DeviceError as lost:
        return f"the GPU was lost: {error.message}; {lost.message}"
    return None


def _step(context: MeasurementContext, step: Step, died: dict[str, str]) -> Iterator[StepFailure]:
    """Measure one step, yielding what failed of it. What was deadly is not tried again, nor as another's load."""
    deadly = next((name for name in (step.probe.id, step.probe.load) if name in died), None)
    if deadly is not None:
        yield failure(step, None, died[deadly] if deadly == step.probe.id else f"{deadly}: {died[deadly]}")
        return
    try:
        gated = _gated(context, step)
        if gated is not None:
            yield gated
        else:
            yield from method_of(step.probe).measure(context, step)
    except DeviceError as error:
        if error.fatal:
            raise
        yield failure(step, None, error.message)
    _release(context)


def _release(context: MeasurementContext) -> None:
    """Give memory back; what cannot be given back is told. Raises what is fatal: it is the last kernel's."""
    try:
        context.launcher.release()
    except DeviceError as error:
        if error.fatal:
            raise
        context.tell(Remark(None, error.message))


def _gated(context: MeasurementContext, step: Step) -> StepFailure | None:
    """Say why none of a probe's kernels may be timed, where that is so."""
    if step.probe.kernel is None or passed(context, step.probe):
        return None
    variants = context.checked.get(step.probe.id, ())
    why = variants[0].judgement.why if variants else "it was not compiled"
    return failure(step, None, f"its code was not timed: {why}")


def _told(
    context: MeasurementContext, step: Step, failures: Sequence[StepFailure], judging: Judging
) -> tuple[Result, ...]:
    """Return the results of a step, and tell them."""
    results = results_of(step, context.samples(), failures, judging)
    for result in results:
        context.tell(result)
    return results


def log(context: MeasurementContext, what: str) -> None:
    """Keep a look at the GPU in the sample file, if it can be had: clocks, power, temperature, how long it took."""
    with contextlib.suppress(DeviceError, Stopped):
        began = context.gpu.now()
        facts = telemetry_facts(context.look())
        context.store.note(what, facts=facts | {"look_s": context.gpu.now() - began})


def _died(context: MeasurementContext) -> dict[str, str]:
    """Return the probes that ended earlier runs, and how."""
    return {
        note.probe: f"it died in an earlier run: {note.why or ''}"
        for note in context.store.notes
        if note.what == DIED and note.probe is not None
    }
