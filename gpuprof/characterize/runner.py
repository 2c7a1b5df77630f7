"""Runs a plan step by step: samples to disk, results told as they come, whatever breaks kept to its own step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gpuprof.characterize.measure.events import Remark, Result, Started
from gpuprof.characterize.measure.kernel_steps import failure
from gpuprof.characterize.measure.step import Bench, Failure, Step
from gpuprof.characterize.methods import METHODS, results_of
from gpuprof.characterize.on_gpu.environment import as_words, compiler_words, environment_words
from gpuprof.characterize.record.gpu import DeviceError, Stopped
from gpuprof.characterize.record.samples import Parameter, Sample, Series
from gpuprof.characterize.results.judging import Judging

INTERRUPTED = "it was interrupted"
RUN = "run"
"""The probe name under which the sample file keeps what happened to the run itself."""
_MOST = 3.0
"""A step may take so many times what was forecast for it beyond its needs: on a slow host calls take longer."""
_REPEATS = 0.1
"""The part of the spare time that one step may take for measuring again what was throttled."""
_ALL_REPEATS = 0.25
"""The part of the first spare time that all steps together may take for it: what is throttled all the time stays so."""
_MOST_DEATHS = 10
"""Probes that share code may all hang. A GPU on which so many in a row die is broken."""
_MOST_DEATHS_IN_ALL = 30
"""Each takes some ten seconds: a run is not to last for an hour on a GPU where every other probe dies."""


class Outcome(NamedTuple):
    """The results of a run in the order of its steps; `cut_short` says why not all were measured."""

    results: tuple[Result, ...]
    cut_short: str | None


def run(bench: Bench, steps: Sequence[Step], judging: Callable[[], Judging], seconds: float) -> Outcome:
    """Measure the steps within `seconds`; `judging` gives what results are judged by, with what is known by then.

    What hangs or traps costs its own step: the GPU is opened again for the next one. A GpuprofError of the sample file
    goes upwards; what is in the file stays good.
    """
    results: list[Result] = []
    ends, deaths, deaths_in_all = bench.gpu.now() + seconds, 0, 0
    repeats_s = _ALL_REPEATS * spare(steps, seconds) if steps else 0.0
    died = _died(bench)
    _note(bench, {"what": "environment", **environment_words(bench.gpu.properties), **compiler_words(bench.checked)})
    log(bench, "before")
    for number, step in enumerate(steps):
        bench.tell(Started(step.probe.id, step.probe.title, step.regime, step.data, number + 1, len(steps)))
        left_s = ends - bench.gpu.now()
        share = allotted(steps[number:], left_s)
        may_repeat_s = bench.repeat_s = min(repeats_s, _REPEATS * spare(steps[number:], left_s))
        failures: list[Failure] = []
        cut_short = _there(bench)
        if cut_short is not None:
            return Outcome(tuple(results), cut_short)
        launched = bench.launcher.launched
        try:
            for one in _step(bench, step._replace(seconds=share), died):
                failures.append(one)
            bench.look()
            deaths = 0 if bench.launcher.launched > launched else deaths
        except (Stopped, KeyboardInterrupt):
            cut_short = INTERRUPTED
        except DeviceError as error:
            deaths, deaths_in_all = deaths + 1, deaths_in_all + 1
            _note_death(bench, step, error)
            died[step.probe.id] = f"the process that held the GPU had to be started again: {error.message}"
            failures.append(failure(step, None, died[step.probe.id]))
            cut_short = _begun_again(
                bench, error, hopeless=deaths >= _MOST_DEATHS or deaths_in_all >= _MOST_DEATHS_IN_ALL
            )
        repeats_s -= may_repeat_s - bench.repeat_s
        results += _told(bench, step, failures, judging())
        if cut_short is not None:
            return Outcome(tuple(results), cut_short)
    log(bench, "after")
    return Outcome(tuple(results), None)


def allotted(steps: Sequence[Step], left_s: float) -> float:
    """Return the seconds of the first of the steps that are left: what it needs, and its share of what is to spare.

    What all of them need to be good is shared out before what they might take besides; of that a step has more than was
    forecast where others have left it.
    """
    first, to_spare = steps[0], spare(steps, left_s)
    to_good = sum(step.good_s - step.least_s for step in steps)
    to_full = sum(step.seconds - step.good_s for step in steps)
    good = min(1.0, to_spare / to_good) if to_good > 0 else 0.0
    full = min(_MOST, max(0.0, to_spare - to_good) / to_full) if to_full > 0 else 0.0
    return first.least_s + (first.good_s - first.least_s) * good + (first.seconds - first.good_s) * full


def spare(steps: Sequence[Step], left_s: float) -> float:
    """Return the seconds that are left beyond what all steps need."""
    return max(0.0, left_s - sum(step.least_s for step in steps))


def _there(bench: Bench) -> str | None:
    """Open the GPU again where it was lost while nothing ran: that is no probe's doing. Return why the run must end."""
    try:
        bench.gpu.free_bytes()
    except (Stopped, KeyboardInterrupt):
        return INTERRUPTED
    except DeviceError as error:
        if error.fatal:
            _note(bench, {"what": "lost", "why": _plain(error.message)})
            return _begun_again(bench, error, hopeless=False)
    return None


def _begun_again(bench: Bench, error: DeviceError, *, hopeless: bool) -> str | None:
    """Open the GPU again after what was fatal. Return why the run must end, where that cannot be."""
    bench.launcher.forget()
    if hopeless:
        return f"the GPU was lost: {error.message}"
    try:
        bench.gpu.restart()
        bench.look()
    except (Stopped, KeyboardInterrupt):
        return INTERRUPTED
    except DeviceError as lost:
        return f"the GPU was lost: {error.message}; {lost.message}"
    return None


def _step(bench: Bench, step: Step, died: dict[str, str]) -> Iterator[Failure]:
    """Measure one step, yielding what failed of it. What was deadly is not tried again, nor as another's load."""
    deadly = next((name for name in (step.probe.id, step.probe.load) if name in died), None)
    if deadly is not None:
        yield failure(step, None, died[deadly] if deadly == step.probe.id else f"{deadly}: {died[deadly]}")
        return
    try:
        gated = _gated(bench, step)
        if gated is not None:
            yield gated
        else:
            yield from METHODS[step.probe.method].measure(bench, step)
    except DeviceError as error:
        if error.fatal:
            raise
        yield failure(step, None, error.message)
    _release(bench)


def _release(bench: Bench) -> None:
    """Give memory back; what cannot be given back is told. Raises what is fatal: it is the last kernel's."""
    try:
        bench.launcher.release()
    except DeviceError as error:
        if error.fatal:
            raise
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
        found = results_of(step, bench.samples(), failures, judging)
    except (ValueError, ArithmeticError) as error:
        senseless = failure(step, None, f"its samples cannot be evaluated: {error}")
        found = results_of(step, (), (senseless,), judging)
    for one in found:
        bench.tell(one)
    return found


def log(bench: Bench, what: str) -> None:
    """Keep a look at the GPU in the sample file, if it can be had: clocks, power, temperature, how long it took."""
    with contextlib.suppress(DeviceError, Stopped):
        began = bench.gpu.now()
        words = as_words(bench.look())
        _note(bench, {"what": what, **words, "look_s": bench.gpu.now() - began})


def _note_death(bench: Bench, step: Step, error: DeviceError) -> None:
    _note(bench, {"what": "died", "probe": step.probe.id, "why": _plain(error.message)})


def _note(bench: Bench, words: dict[str, Parameter]) -> None:
    number = sum(one.probe == RUN for one in bench.store.all())
    bench.store.add(Series(RUN, {"number": number, **words}, 0, (Sample(0, time.time()),)))


def _died(bench: Bench) -> dict[str, str]:
    """Return the probes that ended earlier runs, and how."""
    return {
        str(one.configuration["probe"]): f"it died in an earlier run: {one.configuration.get('why', '')}"
        for one in bench.store.all()
        if one.probe == RUN and one.configuration.get("what") == "died"
    }


def _plain(text: str) -> str:
    """Return a text that the sample file takes: one line of printable characters."""
    return "".join(char if char.isprintable() else " " for char in text)
