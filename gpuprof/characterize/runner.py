"""Runs a plan step by step: samples to disk, results told as they come, whatever breaks kept to its own step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuprof.characterize.measure.events import Remark, Result, Started
from gpuprof.characterize.measure.kernel_steps import failure
from gpuprof.characterize.measure.step import Bench, Failure, Step
from gpuprof.characterize.methods import METHODS, results_of
from gpuprof.characterize.on_gpu.environment import as_words, environment_words
from gpuprof.characterize.on_gpu.launcher import Stopped
from gpuprof.characterize.record.gpu import DeviceError, Telemetry
from gpuprof.characterize.record.samples import Parameter, Sample, Series
from gpuprof.characterize.results.judging import Judging

RUN = "run"
"""The probe name under which the sample file keeps what happened to the run itself."""
_MOST = 3.0
"""A step may take so many times its share where others took less than theirs."""


class Outcome(NamedTuple):
    """The results of a run in the order of its steps; `cut_short` says why not all were measured."""

    results: tuple[Result, ...]
    cut_short: str | None


def run(bench: Bench, steps: Sequence[Step], judging: Callable[[], Judging]) -> Outcome:
    """Measure the steps; `judging` gives what results are judged by, with what is known by then.

    A GpuprofError of the sample file goes upwards; what is in the file stays good.
    """
    results: list[Result] = []
    ends = bench.gpu.now() + sum(step.seconds for step in steps)
    died = _died(bench)
    _note(bench, {"what": "environment", **environment_words(bench.gpu.properties)})
    log(bench, "before", bench.look())
    for number, step in enumerate(steps):
        bench.tell(Started(step.probe.id, step.probe.title, step.regime, step.data, number + 1, len(steps)))
        left = sum(one.seconds for one in steps[number:])
        share = step.seconds * min(_MOST, max(0.0, ends - bench.gpu.now()) / left) if left else 0.0
        failures: list[Failure] = []
        try:
            failures += _step(bench, step._replace(seconds=share), died)
        except (Stopped, KeyboardInterrupt):
            return Outcome((*results, *_told(bench, step, failures, judging())), "it was interrupted")
        except DeviceError as error:
            _note_death(bench, step, error)
            failures.append(failure(step, None, error.message))
            return Outcome((*results, *_told(bench, step, failures, judging())), f"the GPU was lost: {error.message}")
        bench.look()
        results += _told(bench, step, failures, judging())
    log(bench, "after", bench.look())
    return Outcome(tuple(results), None)


def _step(bench: Bench, step: Step, died: dict[str, str]) -> list[Failure]:
    """Measure one step. What killed an earlier run is not tried again."""
    if step.probe.id in died:
        return [failure(step, None, f"it ended an earlier run: {died[step.probe.id]}")]
    try:
        gated = _gated(bench, step)
        return [gated] if gated is not None else list(METHODS[step.probe.method].measure(bench, step))
    except DeviceError as error:
        if error.fatal:
            raise
        return [failure(step, None, error.message)]
    finally:
        _release(bench)


def _release(bench: Bench) -> None:
    """Give memory back; a GPU that is lost has taken it with it."""
    try:
        bench.launcher.release()
    except DeviceError as error:
        bench.tell(Remark(None, error.message))


def _gated(bench: Bench, step: Step) -> Failure | None:
    """Say why none of a probe's kernels may be timed, where that is so."""
    found = bench.checked.get(step.probe.id, ())
    if step.probe.kernel is None or any(
        one.compiled is not None and one.judgement.gate in {"pass", "emulated", None} for one in found
    ):
        return None
    why = found[0].judgement.why if found else "it was not compiled"
    return failure(step, None, f"its code was not timed: {why}")


def _told(bench: Bench, step: Step, failures: Sequence[Failure], judging: Judging) -> tuple[Result, ...]:
    """Return the results of a step, and tell them. Samples that make no sense cost no other step its results."""
    try:
        found = results_of(step, bench.store.all(), failures, judging)
    except (ValueError, ArithmeticError) as error:
        senseless = failure(step, None, f"its samples cannot be evaluated: {error}")
        found = results_of(step, (), (senseless,), judging)
    for one in found:
        bench.tell(one)
    return found


def log(bench: Bench, what: str, telemetry: Telemetry) -> None:
    """Keep a look at the GPU in the sample file: clocks, power and temperature before and after a run."""
    _note(bench, {"what": what, **as_words(telemetry)})


def _note_death(bench: Bench, step: Step, error: DeviceError) -> None:
    _note(bench, {"what": "died", "probe": step.probe.id, "why": _plain(error.message)})


def _note(bench: Bench, words: dict[str, Parameter]) -> None:
    number = sum(one.probe == RUN for one in bench.store.all())
    bench.store.add(Series(RUN, {"number": number, **words}, 0, (Sample(0, time.time()),)))


def _died(bench: Bench) -> dict[str, str]:
    """Return the probes that ended earlier runs, and how."""
    return {
        str(one.configuration["probe"]): str(one.configuration.get("why", ""))
        for one in bench.store.all()
        if one.probe == RUN and one.configuration.get("what") == "died"
    }


def _plain(text: str) -> str:
    """Return a text that the sample file takes: one line of printable characters."""
    return "".join(char if char.isprintable() else " " for char in text)
