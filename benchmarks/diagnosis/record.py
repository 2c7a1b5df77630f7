"""Records the cases under ncu on the GPU at hand: one report a case, with our counters beside NVIDIA's rules.

Several cases run in one program under one ncu, whose starts cost more than the launches; its report is cut into one a
case afterwards. A case that fails or hangs costs the others nothing but a start.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.diagnosis.case import Case
from benchmarks.diagnosis.launch import CASE_LIMIT_S
from benchmarks.diagnosis.progress import AGREES, BEGUN, LAUNCHED, told
from benchmarks.diagnosis.split import split
from gpuprof.characterize.probes.probe import target_of
from gpuprof.collect.command import Filters, NcuCommand
from gpuprof.collect.counter_sets import DEFAULT
from gpuprof.collect.installation import choose_ncu
from gpuprof.collect.machine import InstalledGpu, gpus_here
from gpuprof.collect.metrics import metrics_of
from gpuprof.collect.ncu_help import options_of
from gpuprof.errors import EnvironmentProblem, GpuprofError, ProgramFailed
from gpuprof.hardware.library import SpecLibrary
from gpuprof.read.protobuf import Malformed

RULE_SECTIONS = (
    "SpeedOfLight", "SpeedOfLight_RooflineChart", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Chart", "MemoryWorkloadAnalysis_Tables", "SchedulerStats", "WarpStateStats",
    "InstructionStats", "LaunchStats", "Occupancy", "SourceCounters", "WorkloadDistribution",
)  # fmt: skip
"""The sections of ncu's full set that NVIDIA's rules on a kernel belong to.

Left out are charts without a rule, NVLink, NUMA, and samples over time, which take most of the full set's time and
nine tenths of its bytes; their rule says no more than that there are too few of them.
"""
PROGRAM = (sys.executable, "-m", "benchmarks.diagnosis.launch")
RECORDED = "recorded.json"
"""Which version of each case its report is of."""
FAILED = "failed.json"
"""Which version of a case has failed: it comes last the next time."""
BATCHES = "batches"
"""The folder of reports of several cases, and of what ncu and the program said of them where something was wrong."""
UNSURE = ".unsure.ncu-rep"
"""What the name of a report ends in whose kernels disagreed, or were not compared: it is kept, and not scored."""
START_S = 20.0
"""How long ncu, Python and CuPy may take to start, and to end (an estimate)."""
CASE_S = 4.0
"""How long a case may take: two launches of 1.9 s each, as ncu's full set took on an H100."""
BATCH = 17
"""So many cases at most run in one program: what is lost where ncu itself fails."""
_LONGEST_S = 86400.0
_TOLD = 300
"""Characters of what a program said last."""


class Recorded(NamedTuple):
    """What went wrong, and the cases that time did not suffice for."""

    problems: tuple[str, ...]
    left: tuple[str, ...]


class _Batch(NamedTuple):
    """What became of the cases of one program: recorded, or wrong and why; and whether somebody asked to stop."""

    recorded: frozenset[str]
    wrong: dict[str, str]
    stopped: bool


class _Ended(NamedTuple):
    """How a run under ncu ended: what was said last, the error that left no report, whether somebody asked to stop."""

    said: str
    error: GpuprofError | None
    stopped: bool


def record(
    cases: Sequence[Case],
    folder: Path,
    device: int,
    tell: Callable[[str], None],
    *,
    ncu: str | None = None,
    seconds: float = math.inf,
) -> Recorded:
    """Record every case that the GPU can run, in so many seconds, in their order; `ncu` is the one to take.

    A report of the same version of its case is kept: what a run was cut in goes on. Raises EnvironmentProblem without
    ncu or a GPU whose architecture is known.
    """
    until = time.monotonic() + seconds
    program = choose_ncu(os.environ, ncu).path
    gpu = _gpu(device)
    arch, target = SpecLibrary().arch_of(gpu.compute_capability), target_of(gpu.compute_capability)
    if arch is None:
        raise EnvironmentProblem(f"no spec describes {gpu.name}, {gpu.arch}", "gpuprof specs list shows all")
    folder.mkdir(parents=True, exist_ok=True)
    waiting = list(_missing(cases, folder, target, tell))
    problems: dict[str, str] = {}
    metrics = metrics_of(arch, DEFAULT)
    case_s = CASE_S
    while waiting:
        began = time.monotonic()
        fitting = min(BATCH, (until - began - START_S) / case_s)
        if fitting < 1:
            break
        batch = waiting[: int(fitting)]
        asked = command(program, batch, folder, metrics, device, seconds=until - began - START_S - case_s)
        try:
            done = _recorded(asked, batch, until - began, tell)
        except GpuprofError as error:
            problems[batch[0].name] = error.message
            break
        case_s = max(CASE_S, (time.monotonic() - began - START_S) / len(batch))
        problems |= done.wrong
        _note_failures(folder, batch, done.wrong)
        waiting = [case for case in waiting if case.name not in {*done.recorded, *done.wrong}]
        if done.stopped or not (done.recorded or done.wrong):
            break
    return Recorded(tuple(f"{name}: {why}" for name, why in problems.items()), tuple(case.name for case in waiting))


def _missing(cases: Sequence[Case], folder: Path, target: str | None, tell: Callable[[str], None]) -> Iterator[Case]:
    """Yield the cases that are still to be recorded; those that failed before come last."""
    there, failed = recorded(folder), _digests(folder / FAILED)
    later = []
    for case in cases:
        if target not in case.targets:
            tell(f"{case.name}: not for {target}")
        elif (folder / f"{case.name}.ncu-rep").exists() and there.get(case.name) == case.digest():
            tell(f"{case.name}: there already")
        elif failed.get(case.name) == case.digest():
            later.append(case)
        else:
            yield case
    yield from later


def recorded(folder: Path) -> dict[str, str]:
    """Return the hash of each case whose report lies in a folder."""
    return _digests(folder / RECORDED)


def report_of(folder: Path, name: str) -> Path | None:
    """Return where a case's report lies: in a folder, or in one of its folders; None where it does not."""
    names = (f"{name}.ncu-rep", f"{name}.ncu-repz")
    places = (
        *(folder / file for file in names),
        *(place for file in names for place in sorted(folder.glob(f"*/{file}"))),
    )
    return next((place for place in places if place.is_file() and place.parent.name != BATCHES), None)


def _digests(file: Path) -> dict[str, str]:
    digests = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {str(name): str(digest) for name, digest in digests.items()}


def _write(file: Path, digests: dict[str, str]) -> None:
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    draft.replace(file)


def _note_failures(folder: Path, batch: Sequence[Case], wrong: dict[str, str]) -> None:
    if wrong:
        failed = {case.name: case.digest() for case in batch if case.name in wrong}
        _write(folder / FAILED, {**_digests(folder / FAILED), **failed})


def command(
    ncu: Path, cases: Sequence[Case], folder: Path, metrics: Sequence[str], device: int, *, seconds: float
) -> NcuCommand:
    """Return ncu's command line for cases: clocks as they are, caches flushed; the program says what is profiled.

    The program begins none of them after so many seconds.
    """
    output = folder / BATCHES / f"{cases[0].name}.ncu-rep"
    limits = (str(device), f"{min(max(seconds, 0.0), _LONGEST_S):.0f}", str(output.with_suffix(".jsonl")))
    return NcuCommand(
        ncu=ncu,
        program=(*PROGRAM, *limits, *(case.name for case in cases)),
        output=output,
        log=output.with_suffix(".log"),
        metrics=tuple(metrics),
        sections=RULE_SECTIONS,
        rules=True,
        source=True,
        filters=Filters(kernel="^(slow|fixed)$", name_base="function", profiler_calls="awaited"),
        targets="application-only",
        known=options_of(ncu),
        source_folders=(cases[0].source.parent,),
    )


def _gpu(device: int) -> InstalledGpu:
    gpus = gpus_here(os.environ)
    if device >= len(gpus):
        raise EnvironmentProblem(f"there is no GPU {device} here", "gpuprof doctor shows details")
    return gpus[device]


def _recorded(asked: NcuCommand, batch: Sequence[Case], seconds: float, tell: Callable[[str], None]) -> _Batch:
    """Run cases in one program under ncu, and keep a report of each whose kernels are there once and agree.

    Raises GpuprofError where not one of them was begun.
    """
    folder, progress = asked.output.parent.parent, asked.output.with_suffix(".jsonl")
    asked.output.parent.mkdir(exist_ok=True)
    progress.unlink(missing_ok=True)
    ended = _run(asked, batch, min(seconds, START_S + CASE_LIMIT_S * len(batch)), tell)
    steps = told(progress)
    if not steps:
        raise ended.error or ProgramFailed(f"no case was begun: {ended.said}")
    reports = _cut(asked.output, {case.name: case.entries for case in batch if case.name in steps}, tell)
    wrong: dict[str, str] = {}
    kept: dict[str, str] = {}
    culprit = any(step.state == BEGUN for step in steps.values())
    for case in (case for case in batch if case.name in steps):
        step = steps[case.name]
        if step.state == AGREES and case.name in reports:
            (folder / f"{case.name}.ncu-rep").write_bytes(reports[case.name])
            (folder / f"{case.name}{UNSURE}").unlink(missing_ok=True)
            kept[case.name] = case.digest()
            continue
        if case.name in reports:  # it may be the tolerance that is wrong
            (folder / f"{case.name}{UNSURE}").write_bytes(reports[case.name])
        if step.state == BEGUN:
            if not ended.stopped:
                wrong[case.name] = f"the program ended with it: {ended.said}"
        elif step.state != LAUNCHED or not (culprit or ended.stopped):
            wrong[case.name] = step.why or f"{' and '.join(case.entries)} are not in the report, or not compared"
    _write(folder / RECORDED, {**recorded(folder), **kept})
    for file in (asked.log, progress) if not wrong else ():
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        asked.output.parent.rmdir()
    return _Batch(frozenset(kept), wrong, stopped=ended.stopped)


def _cut(report: Path, launched: dict[str, Sequence[str]], tell: Callable[[str], None]) -> dict[str, bytes]:
    """Return a report for each case of one of several; none, which is told, where they cannot be told apart."""
    if not report.exists():
        return {}
    try:
        reports = split(report.read_bytes(), launched)
    except (GpuprofError, Malformed) as error:
        tell(f"{report} cannot be cut, and is kept: {error}")
        return {}
    report.unlink()
    return reports


def _run(asked: NcuCommand, batch: Sequence[Case], seconds: float, tell: Callable[[str], None]) -> _Ended:
    """Run a program under ncu as `gpuprof run` does; tell how that ended."""
    from gpuprof.collect.execution import Execution
    from gpuprof.collect.ncu_runs import NcuRuns
    from gpuprof.collect.progress import ProgressLine
    from gpuprof.collect.request import ProfileRequest
    from gpuprof.read.ncu_rep import read_ncu_rep

    place, line = asked.output.parent, ProgressLine()
    request = ProfileRequest(asked.program, place, annotate=False, output="stderr", timeout_s=seconds, on_event=line)
    execution = Execution(request, os.environ, tell)
    stage = f"{batch[0].name} and {len(batch) - 1} more" if len(batch) > 1 else batch[0].name
    try:
        done = NcuRuns(execution, read_ncu_rep, tell).run(stage, asked, sum(len(case.entries) for case in batch))
    except GpuprofError as error:
        return _Ended(error.message, error=error, stopped=execution.stopped_by == "interrupt")
    what = [failure.what for failure in done.failures] or [f"it ended with {done.ended.code}"]
    said = "; ".join([*what, done.ended.tail.strip()[-_TOLD:]])
    return _Ended(said, error=None, stopped=execution.stopped_by == "interrupt")
