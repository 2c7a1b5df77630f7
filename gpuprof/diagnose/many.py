"""The diagnoses of many kernels, made in several processes where that is worth it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from msgspec import Struct, structs

from gpuprof.diagnose.case import EXECUTED
from gpuprof.errors import DamagedInput
from gpuprof.model.analyse import Analysis
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Excerpt, Finding, KernelProfile, LineWork
from gpuprof.workers import Worth, made_by_workers

_WITH_CODE, _WITHOUT = Worth(48, each=8), Worth(1_000, each=400)
"""Kernels, of 10 ms each with counts of every instruction, 0.2 ms without."""


class Diagnosis(Struct, frozen=True):
    """What is found of a kernel: the fields of its profile that the diagnosis fills in."""

    findings: tuple[Finding, ...]
    excerpts: tuple[Excerpt, ...]
    missing: tuple[Missing, ...]
    lines: tuple[LineWork, ...]
    lines_dropped: int

    def of(self, kernel: KernelProfile) -> KernelProfile:
        """Return the profile of the kernel with them."""
        return structs.replace(
            kernel,
            findings=self.findings,
            excerpts=self.excerpts,
            missing=self.missing,
            lines=self.lines,
            lines_dropped=self.lines_dropped,
        )


def each_of(analysis: Analysis, diagnosis: Callable[[int], Diagnosis]) -> Iterator[Diagnosis]:
    """Yield the diagnosis of each kernel of an analysis, in their order; `diagnosis` makes one by its place."""
    order = _by_program(analysis)
    with_code = next((recorded for recorded in analysis.recorded if recorded.launch.metrics.has(EXECUTED)), None)
    if with_code is None:
        return made_by_workers(order, diagnosis, _WITHOUT)
    with contextlib.suppress(DamagedInput):
        # One call of nvdisasm reads the code of all kernels, which every process would do otherwise.
        with_code.launch.details.code_gaps()
    return made_by_workers(order, diagnosis, _WITH_CODE)


def _by_program(analysis: Analysis) -> list[int]:
    """Return the places of kernels, those of one launch together, and of one program: what is worked out serves all."""
    launches = [recorded.launch for recorded in analysis.recorded]
    first: dict[int, int] = {}
    for at, launch in enumerate(launches):
        first.setdefault(id(launch), at)
    return sorted(range(len(launches)), key=lambda at: (launches[at].mangled or "", first[id(launches[at])], at))
