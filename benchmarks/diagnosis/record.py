"""Records the cases under ncu on the GPU at hand: one report a case, with our counters beside NVIDIA's rules."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.diagnosis.case import Case
from gpuprof.characterize.probes.probe import target_of
from gpuprof.collect.command import Filters, NcuCommand
from gpuprof.collect.counter_sets import DEFAULT
from gpuprof.collect.installation import choose_ncu
from gpuprof.collect.machine import InstalledGpu, gpus_here
from gpuprof.collect.metrics import metrics_of
from gpuprof.collect.ncu_help import options_of
from gpuprof.errors import EnvironmentProblem, GpuprofError, ProgramFailed
from gpuprof.hardware.library import SpecLibrary

RULES_SET = "full"
"""Whose rules speak beside ours: all of NVIDIA's, as `ncu --set full` applies them."""
RECORDED = "recorded.json"
"""Which version of each case its report is of."""
CASE_S = 20.0
"""How long a case may take (an estimate: none was measured)."""
_TIMEOUT_S = 180.0
_TOLD = 300
"""Characters of what a program said last."""


class Recorded(NamedTuple):
    """What went wrong, and the cases that time did not suffice for."""

    problems: tuple[str, ...]
    left: tuple[str, ...]


def record(
    cases: Sequence[Case],
    folder: Path,
    device: int,
    tell: Callable[[str], None],
    *,
    ncu: str | None = None,
    seconds: float = math.inf,
) -> Recorded:
    """Record every case that the GPU can run, in so many seconds; `ncu` is the one to take.

    Each report is there when the next case begins, and a report of the same version of its case is kept: what a run
    was cut in goes on. Raises EnvironmentProblem without ncu or a GPU whose architecture is known.
    """
    until = time.monotonic() + seconds
    program = choose_ncu(os.environ, ncu).path
    gpu = _gpu(device)
    arch, target = SpecLibrary().arch_of(gpu.compute_capability), target_of(gpu.compute_capability)
    if arch is None:
        raise EnvironmentProblem(f"no spec describes {gpu.name}, {gpu.arch}", "gpuprof specs list shows all")
    folder.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    left, longest_s = [], CASE_S
    for case in cases:
        asked = command(program, case, folder, metrics_of(arch, DEFAULT), device)
        if target not in case.targets:
            tell(f"{case.name}: not for {gpu.arch}")
        elif asked.output.exists() and recorded(folder).get(case.name) == case.digest():
            tell(f"{case.name}: there already")
        elif time.monotonic() + longest_s > until:
            left.append(case.name)
        else:
            began = time.monotonic()
            problems += _recorded(asked, case, tell)
            longest_s = max(longest_s, time.monotonic() - began)
    return Recorded(tuple(problems), tuple(left))


def recorded(folder: Path) -> dict[str, str]:
    """Return the hash of each case whose report lies in a folder."""
    file = folder / RECORDED
    digests = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {str(name): str(digest) for name, digest in digests.items()}


def command(ncu: Path, case: Case, folder: Path, metrics: Sequence[str], device: int) -> NcuCommand:
    """Return ncu's command line for a case: clocks as they are, caches flushed; the program says what is profiled."""
    return NcuCommand(
        ncu=ncu,
        program=(sys.executable, "-m", "benchmarks.diagnosis.launch", str(device), case.name),
        output=folder / f"{case.name}.ncu-rep",
        log=folder / f"{case.name}.log",
        metrics=tuple(metrics),
        stock_set=RULES_SET,
        source=True,
        filters=Filters(kernel="^(slow|fixed)$", name_base="function"),
        targets="application-only",
        from_start=False,
        known=options_of(ncu),
        source_folders=(case.source.parent,),
    )


def _gpu(device: int) -> InstalledGpu:
    gpus = gpus_here(os.environ)
    if device >= len(gpus):
        raise EnvironmentProblem(f"there is no GPU {device} here", "gpuprof doctor shows details")
    return gpus[device]


def _recorded(asked: NcuCommand, case: Case, tell: Callable[[str], None]) -> list[str]:
    """Record one case under another name, which becomes its own where all went well; return what went wrong."""
    draft = replace(asked, output=asked.output.with_suffix(".draft.ncu-rep"))
    try:
        _run(draft, case, tell)
    except GpuprofError as error:
        draft.output.unlink(missing_ok=True)
        return [f"{case.name}: {error.message}"]
    draft.output.replace(asked.output)
    asked.log.unlink(missing_ok=True)
    known = {**recorded(asked.output.parent), case.name: case.digest()}
    (asked.output.parent / RECORDED).write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return []


def _run(asked: NcuCommand, case: Case, tell: Callable[[str], None]) -> None:
    """Run one case as `gpuprof run` runs programs. Raises GpuprofError unless both kernels are there once and agree."""
    from gpuprof.collect.execution import Execution
    from gpuprof.collect.ncu_runs import NcuRuns
    from gpuprof.collect.progress import ProgressLine
    from gpuprof.collect.request import ProfileRequest
    from gpuprof.read.ncu_rep import read_ncu_rep

    place, line = asked.output.parent, ProgressLine()
    request = ProfileRequest(asked.program, place, annotate=False, output="stderr", timeout_s=_TIMEOUT_S, on_event=line)
    runs = NcuRuns(Execution(request, os.environ, tell), read_ncu_rep, tell)
    done = runs.run(case.name, asked, len(case.entries))
    if done.ended.code:
        what = "; ".join(failure.what for failure in done.failures) or f"it ended with {done.ended.code}"
        raise ProgramFailed(f"{what}: {done.ended.tail.strip()[-_TOLD:]}")
    names = [launch.name for report in done.reports.values() for launch in report]
    if sorted(names) != sorted(case.entries):
        raise ProgramFailed(f"the report has {', '.join(names)}, not each of {', '.join(case.entries)} once")
