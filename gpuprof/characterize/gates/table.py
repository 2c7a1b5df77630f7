"""The gate's table: every chosen probe on every target, compiled, disassembled and judged, without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gpuprof.characterize.gates.check import Checked, check, variants
from gpuprof.characterize.gates.gate import Judgement
from gpuprof.characterize.probes.probe import Probe, targets_from
from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.tools.disassemble import find_disassemblers
from gpuprof.sass.tools.nvrtc import INSTALL_HINT

_WORST_FIRST = ("fail", None, "unsupported", "emulated", "pass")


class GateRow(NamedTuple):
    """One probe on one target: the worst of its variants."""

    probe: str
    arch: str
    judgement: Judgement


def gate_table(
    probes: Iterable[Probe], targets: Sequence[str], *, tell: Callable[[int, int], None] | None = None
) -> tuple[GateRow, ...]:
    """Judge each probe that has a kernel on each target; `tell` hears how many of how many are compiled.

    Raises EnvironmentProblem where there is no NVRTC or no nvdisasm at all.
    """
    if not find_disassemblers():
        raise EnvironmentProblem("nvdisasm was not found: the code cannot be checked", INSTALL_HINT)
    cells = [(probe, target) for probe in probes if probe.kernel is not None for target in targets]
    chosen = [variant for probe, target in cells for variant in variants(probe, target)]
    answers: dict[tuple[str, str], list[Checked]] = {}
    for checked in check(chosen, (lambda done: tell(done, len(chosen))) if tell else None):
        answers.setdefault((checked.variant.probe.id, checked.variant.target), []).append(checked)
    return tuple(_row(probe, target, answers.get((probe.id, target), [])) for probe, target in cells)


def _row(probe: Probe, target: str, answers: Sequence[Checked]) -> GateRow:
    if not answers:
        return GateRow(probe.id, target, Judgement("unsupported", why_not(probe, target), {}))
    worst = min(answers, key=lambda answer: _WORST_FIRST.index(answer.judgement.gate))
    judgement = worst.judgement
    if len(answers) > 1 and judgement.opcodes:
        chosen = " ".join(f"{name}={value}" for name, value in worst.variant.assignment.items())
        judgement = judgement._replace(why=f"{chosen}: {judgement.why}")
    return GateRow(probe.id, target, judgement)


def why_not(probe: Probe, target: str) -> str:
    """Say why a probe is not for a target."""
    if target in probe.unsupported:
        return probe.unsupported[target]
    if probe.targets == targets_from(probe.targets[0]):
        return f"needs {probe.targets[0]} or newer"
    return f"the probe is for {', '.join(probe.targets)}"
