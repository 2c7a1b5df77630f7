"""Which steps a run has, in which order, and how long each may take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.characterize.gates.table import why_not
from gpuprof.characterize.measure.effort import QUICK, Effort
from gpuprof.characterize.measure.forecast import Where
from gpuprof.characterize.measure.step import Step
from gpuprof.characterize.methods.method import PHASES
from gpuprof.characterize.methods.table import method_of
from gpuprof.characterize.record.configurations import CUBIN
from gpuprof.hardware.specs import INSTRUCTIONS

if TYPE_CHECKING:
    from gpuprof.characterize.gates.check import Checked
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.record.series import Parameter, RunNote

    Compiled = Mapping[str, Sequence[Checked]]
    """The kernels of each probe."""

STEP = "step"
"""What a note is called that says how long a step took, and whether all of it was measured."""
_TELLING = ("regime", "data", "code", "of_s")
"""Its facts that tell which step it was, and in which mode."""
_QUICK = (
    "clocks/idle", "clocks/ffma", "clocks/dram-read", "launch/null-queued", "launch/null-synchronous",
    "latency/l1", "latency/l2", "latency/shared", "latency/dram",
    "bandwidth/dram-read", "bandwidth/dram-write", "bandwidth/dram-copy", "bandwidth/l2-read", "bandwidth/l1-read",
    "bandwidth/shared-read", "instruction/ffma-throughput",
    "copies/host-to-device-pinned", "copies/device-to-host-pinned",
)  # fmt: skip
"""A minute's worth; to these come the fastest matrix instruction of each type."""
_FULL_FAMILIES = ("atomics",)
_FULL_PROBES = ("latency/tlb", "latency/tlb-packed")
"""What takes long and few need: left to --full, or to --only."""

_MOST = 3.0
"""A step may take so many times what was forecast for it beyond its needs: on a slow host calls take longer."""


class Schedule(NamedTuple):
    """Steps in their order, and probes that are left out, with the reason."""

    steps: tuple[Step, ...]
    left_out: tuple[tuple[Probe, str], ...]


def plan(probes: Sequence[Probe], where: Where, mode: str, effort: Effort, *, named: bool = False) -> Schedule:
    """Return what a mode measures on a GPU: from idle over latencies and short bursts to sustained load.

    `named`: the user has chosen the probes, so that the mode leaves none of them out.
    """
    target = where.target
    able = [probe for probe in probes if target in probe.targets]
    wanted = able if named else [probe for probe in able if _in_mode(probe, mode, able)]
    left_out = [(probe, why_not(probe, target)) for probe in probes if target not in probe.targets]
    steps = [step for probe in wanted for step in _steps(probe, effort, where)]
    steps.sort(key=lambda step: PHASES.index(method_of(step.probe).phase(step)))
    return Schedule(tuple(steps), tuple(left_out))


def step_facts(step: Step, effort: Effort, checked: Compiled, seconds: float, *, whole: bool) -> dict[str, Parameter]:
    """Return what a run notes of a step behind it, for a run that goes on. `whole`: nothing of it is missing."""
    return {
        "regime": step.regime, "data": step.data, "code": _code(step.probe, checked), "of_s": effort.total_s,
        "seconds": seconds, "whole": whole,
    }  # fmt: skip


def gone_on_with(
    schedule: Schedule, notes: Iterable[RunNote], effort: Effort, checked: Compiled
) -> tuple[Schedule, float]:
    """Return a schedule in which what earlier runs of this mode have measured takes no time, and the seconds they took.

    So a run that was cut takes no longer in all than one that was not. Kernels that were compiled anew count anew.
    """
    steps, seconds = {_key(step, effort, checked): step for step in schedule.steps}, 0.0
    for note in notes:
        key = (note.probe, *(note.facts.get(fact) for fact in _TELLING))
        took = note.facts.get("seconds")
        if note.what == STEP and key in steps and isinstance(took, float):
            seconds += took
            if note.facts.get("whole") is True:
                steps[key] = replace(steps[key], seconds=0.0, least_s=0.0, good_s=0.0)
    return schedule._replace(steps=tuple(steps.values())), seconds


def _key(step: Step, effort: Effort, checked: Compiled) -> tuple[object, ...]:
    facts = step_facts(step, effort, checked, 0.0, whole=True)
    return step.probe.id, *(facts[fact] for fact in _TELLING)


def _code(probe: Probe, compiled: Compiled) -> str:
    """Return what tells the kernels of a probe, or of its load, from others."""
    kernels = (*compiled.get(probe.id, ()), *compiled.get(probe.load or "", ()))
    together = "".join(checked.compiled.sha256 for checked in kernels if checked.compiled is not None)
    return sha256(together.encode()).hexdigest()[:CUBIN]


def duration_s(steps: Sequence[Step], seconds: float) -> float:
    """Return how long steps will take of so much time: all that they may, else at least what they need."""
    return max(sum(step.least_s for step in steps), min(seconds, sum(step.seconds for step in steps)))


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


def _in_mode(probe: Probe, mode: str, able: Sequence[Probe]) -> bool:
    if mode == "full":
        return True
    if mode == "quick":
        return probe.id in _QUICK or probe in _best_matrices(able)
    return not (probe.family in _FULL_FAMILIES or method_of(probe).only_full or probe.id in _FULL_PROBES)


def _best_matrices(probes: Iterable[Probe]) -> list[Probe]:
    """Return for each matrix type the probes of the newest instruction family that has it here."""
    best: dict[str, tuple[int, list[Probe]]] = {}
    for probe in probes:
        keys = [limit.compute for limit in probe.limits if limit.compute and limit.fraction == 1]
        if not method_of(probe).ceiling or not keys or not keys[0].path.startswith("tensor."):
            continue
        rank = INSTRUCTIONS.index(keys[0].instruction or INSTRUCTIONS[0])
        best_rank, best_probes = best.get(keys[0].path, (-1, []))
        if rank > best_rank:
            best[keys[0].path] = rank, [probe]
        elif rank == best_rank:
            best_probes.append(probe)
    return [probe for _, best_probes in best.values() for probe in best_probes]


def _steps(probe: Probe, effort: Effort, where: Where) -> Iterator[Step]:
    quick = effort.total_s <= QUICK.total_s
    for regime in probe.regimes:
        if quick and regime == "sustained" and "short" in probe.regimes:
            continue
        for data in probe.data:
            step = Step(probe, regime, data)
            cost = method_of(probe).forecast(step, where, effort)
            yield replace(step, seconds=cost.seconds, least_s=cost.least_s, good_s=cost.good_s)
