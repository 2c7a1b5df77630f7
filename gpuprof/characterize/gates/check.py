"""Compiles kernels and judges them by their SASS: what may be timed, and as what."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from math import ceil
from typing import NamedTuple

from gpuprof.characterize.gates.compile import compile_kernel
from gpuprof.characterize.gates.gate import Judgement, judge
from gpuprof.characterize.probes.probe import Kernel, Probe
from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.binary.cubin import kernel_code
from gpuprof.sass.tools.compile import Compiled, NotCompiled
from gpuprof.sass.tools.disassemble import disassemble, disassembler_for, find_disassemblers
from gpuprof.sass.tools.nvrtc import Nvrtc, find_nvrtc

_TOGETHER = 200
"""So many kernels take 8 s to compile and 0.5 s to disassemble, most of which is the start."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A probe's kernel for one target, with one value for each parameter."""

    probe: Probe
    kernel: Kernel
    target: str
    assignment: Mapping[str, str]


class Checked(NamedTuple):
    """A variant, its cubin (None: it does not compile), and the gate's judgement of it."""

    variant: Variant
    compiled: Compiled | None
    judgement: Judgement


def variants(probe: Probe, target: str) -> Iterator[Variant]:
    """Yield a probe's variants for a target, the default first; none where it has no kernel for the target."""
    if probe.kernel is None or target not in probe.targets:
        return
    for assignment in probe.kernel.assignments(target):
        yield Variant(probe, probe.kernel, target, assignment=assignment)


def check(
    chosen: Sequence[Variant], tell: Callable[[int], None] | None = None, *, nvrtc: Nvrtc | None = None
) -> tuple[Checked, ...]:
    """Compile and judge variants, in their order; `tell` hears how many are compiled.

    `nvrtc` None: each target has the first NVRTC that knows it. Where no nvdisasm reads the target, the judgement's
    gate is None. Raises EnvironmentProblem where there is no NVRTC.
    """
    if nvrtc is None:
        find_nvrtc()
    numbers = count(1)

    def compile_one(variant: Variant) -> Compiled | NotCompiled:
        result = compile_kernel(variant.kernel, variant.target, variant.assignment, nvrtc)
        if tell is not None:
            tell(next(numbers))
        return result

    checked: dict[int, Checked] = {}
    # NVRTC compiles in parallel, but slows down when it has more threads than processors.
    with ThreadPoolExecutor(_processors()) as pool:
        for group in pool.map(lambda indices: _check({i: chosen[i] for i in indices}, compile_one), _groups(chosen)):
            checked |= group
    return tuple(checked[index] for index in range(len(chosen)))


def _processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _groups(chosen: Sequence[Variant]) -> Iterator[list[int]]:
    """Yield places of variants of one target: enough to share a run of nvdisasm, few enough to share the work.

    Neighbours go to different groups: variants of one probe take equally long, those of `wgmma` ten times the usual.
    """
    size = min(_TOGETHER, ceil(len(chosen) / _processors()))
    targets: dict[str, list[int]] = {}
    for index, variant in enumerate(chosen):
        targets.setdefault(variant.target, []).append(index)
    for indices in targets.values():
        groups = ceil(len(indices) / size)
        yield from (indices[first::groups] for first in range(groups))


def _check(
    group: Mapping[int, Variant], compile_one: Callable[[Variant], Compiled | NotCompiled]
) -> dict[int, Checked]:
    """Check variants of one target."""
    checked: dict[int, Checked] = {}
    compiled: dict[int, Compiled] = {}
    for index, variant in group.items():
        result = compile_one(variant)
        if isinstance(result, Compiled):
            compiled[index] = result
        else:
            judgement = Judgement("unsupported" if result.unsupported else "fail", result.why, {})
            checked[index] = Checked(variant, None, judgement)
    codes = {
        index: (group[index], kernel_code(built.cubin, group[index].kernel.entry)) for index, built in compiled.items()
    }
    for index, judgement in (_judge_code(codes) if codes else {}).items():
        checked[index] = Checked(group[index], compiled[index], judgement)
    return checked


def _judge_code(codes: Mapping[int, tuple[Variant, bytes]]) -> dict[int, Judgement]:
    target = next(iter(codes.values()))[0].target
    tool = disassembler_for(target)
    if tool is None:
        return dict.fromkeys(codes, Judgement(None, f"compiled but not checked: {_no_tool(target)}", {}))
    try:
        kernels = disassemble(tool, target, [code for _, code in codes.values()])
    except EnvironmentProblem as problem:
        return dict.fromkeys(codes, Judgement(None, f"compiled but not checked: {problem.message}", {}))
    return {
        index: judge(variant.kernel.gate.rules(target, variant.assignment), variant.assignment, code,
                     clocked=variant.kernel.clocked)
        for (index, (variant, _)), code in zip(codes.items(), kernels, strict=True)
    }  # fmt: skip


def _no_tool(target: str) -> str:
    tools = ", ".join(map(str, find_disassemblers()))
    hint = "the one of CUDA 12 does, such as in the package triton 3.4"
    return f"{tools} does not read {target}, {hint}" if tools else "nvdisasm was not found"
