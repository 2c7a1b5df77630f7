"""Records the cases under ncu on the GPU at hand: one report a case, with our counters beside NVIDIA's rules."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.diagnosis.case import Case
from gpuprof.characterize.probes.probe import target_of
from gpuprof.collect.command import Filters, NcuCommand
from gpuprof.collect.counter_sets import DEFAULT, metrics_of
from gpuprof.collect.installation import choose_ncu
from gpuprof.collect.machine import Gpu, gpus_here
from gpuprof.errors import EnvironmentProblem, GpuprofError
from gpuprof.hardware.library import SpecLibrary

RULES_SET = "full"
"""Whose rules speak beside ours: all of NVIDIA's, as `ncu --set full` applies them."""
_TIMEOUT_S = 120.0


def record(cases: Sequence[Case], folder: Path, device: int, tell: Callable[[str], None]) -> list[str]:
    """Record every case that the GPU can run; return what went wrong. A report that is there already is kept.

    Raises EnvironmentProblem without ncu or a GPU whose architecture is known.
    """
    ncu = choose_ncu(os.environ).path
    gpu = _gpu(device)
    arch, target = SpecLibrary().arch_of(gpu.compute_capability), target_of(gpu.compute_capability)
    if arch is None:
        raise EnvironmentProblem(f"no spec describes {gpu.name}, {gpu.arch}", "gpuprof specs list shows all")
    folder.mkdir(parents=True, exist_ok=True)
    problems = []
    for case in cases:
        asked = command(ncu, case, folder, metrics_of(arch, DEFAULT), device)
        if target not in case.targets or asked.output.exists():
            tell(f"{case.name}: {'there already' if asked.output.exists() else f'not for {gpu.arch}'}")
            continue
        try:
            _run(asked, case, tell)
        except GpuprofError as error:
            problems.append(f"{case.name}: {error.message}")
    return problems


def command(ncu: Path, case: Case, folder: Path, metrics: Sequence[str], device: int) -> NcuCommand:
    """Return ncu's command line for a case: the last launch of each kernel, clocks as they are, caches flushed.

    `slow` may be launched again and again; the launches before its last are skipped.
    """
    return NcuCommand(
        ncu=ncu,
        program=(sys.executable, "-m", "benchmarks.diagnosis.launch", str(device), case.name),
        output=folder / f"{case.name}.ncu-rep",
        log=folder / f"{case.name}.log",
        metrics=tuple(metrics),
        stock_set=RULES_SET,
        source=True,
        filters=Filters(
            kernel="^(slow|fixed)$", name_base="function", launch_skip=case.launches[case.entries[0]].times - 1
        ),
        targets="application-only",
        source_folders=(case.source.parent,),
    )


def _gpu(device: int) -> Gpu:
    gpus = gpus_here(os.environ)
    if device >= len(gpus):
        raise EnvironmentProblem(f"there is no GPU {device} here", "gpuprof doctor says more")
    return gpus[device]


def _run(asked: NcuCommand, case: Case, tell: Callable[[str], None]) -> None:
    """Run one case as `gpuprof run` runs programs. Raises GpuprofError."""
    from gpuprof.collect.execution import Execution
    from gpuprof.collect.ncu_runs import NcuRuns
    from gpuprof.collect.request import Request
    from gpuprof.read.ncu_rep import read_ncu_rep

    request = Request(
        program=asked.program, folder=asked.output.parent, annotate=False, program_to_stderr=True, timeout_s=_TIMEOUT_S
    )
    runs = NcuRuns(Execution(request, os.environ, tell), read_ncu_rep, tell)
    runs.run(case.name, asked, len(case.entries))
