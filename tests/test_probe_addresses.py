"""Probes of shared memory: by their compiled code, the lanes of a warp collide exactly as often as the sweep says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.diagnosis.access import POINTER, ArgumentBytes, constants_for
from gpuprof.characterize.gates.check import check, variants
from gpuprof.characterize.probes.library import load_probes, probe_folder, select
from gpuprof.characterize.probes.probe import Probe
from gpuprof.sass.binary.cubin import kernel_code
from gpuprof.sass.dataflow.request_costs import wavefronts
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.tools.disassemble import disassemble, disassembler_for
from tests.cuda_tools import kernel_of, needs_cuda_wheels
from tests.followed_code import accesses
from tests.table import each_row

PROBES = [
    probe
    for probe in select(load_probes(probe_folder()), ["bank-conflict"])
    if probe.name in {f"{kind}-{width}" for kind in ("load", "store") for width in (4, 8, 16)}
]


def wavefronts_of(probe: Probe, target: str, code: Sequence[Instruction], threads: int, ways: int) -> set[int | None]:
    """How many passes the shared accesses of a kernel take, for one value of the sweep."""
    known = [
        ArgumentBytes(4, ways) if argument.name == "ways"
        else ArgumentBytes(4) if argument.kind == "iterations" else POINTER
        for argument in kernel_of(probe).arguments
    ]  # fmt: skip
    block = (threads, 1, 1)
    made = accesses(code, block, constants_for(target, block, None, known))
    kind = probe.name.partition("-")[0]
    return {wavefronts(access) for access in made if access.space == "shared" and access.kind == kind}


@needs_cuda_wheels
@pytest.mark.compilers
@pytest.mark.parametrize("target", ["sm_80", "sm_120a"])
@each_row("probe", PROBES, ids=[probe.name for probe in PROBES])
def test_accesses_take_as_many_passes_as_the_probe_says(probe: Probe, target: str) -> None:
    (checked,) = check([next(variants(probe, target))])
    tool = disassembler_for(target)
    assert checked.compiled is not None and tool is not None
    kernel, assignment = kernel_of(probe), checked.variant.assignment
    (code,) = disassemble(tool, target, [kernel_code(checked.compiled.cubin, kernel.entry)])
    threads = kernel.launch.block[0].value(assignment)
    for ways in map(round, probe.sweeps["ways"].values):
        assert wavefronts_of(probe, target, code, threads, ways) - {None} == {ways}
