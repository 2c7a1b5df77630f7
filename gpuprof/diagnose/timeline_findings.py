"""Findings on a timeline: how they name the GPU, and those on time that no kernel overlaps."""

from __future__ import annotations

from collections.abc import Callable

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import Threshold, percent
from gpuprof.model.findings import Amount, CaseName, Label
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import Copies, Evidence, Finding
from gpuprof.timeline.worst_gpu import Exposed, OneGpu

EXPOSED_SHARE = percent("exposed", 5.0)


def gpu_case(gpu: OneGpu) -> CaseName:
    """Return the case that names the GPU, by number and rank or file if there are several."""
    if gpu.gpus < 2:
        return "shared/gpu"
    if gpu.files < 2:
        return "shared/gpu-number"
    return "shared/gpu-of-rank" if gpu.rank is not None else "shared/gpu-of-file"


def gpu_labels(gpu: OneGpu) -> tuple[Label, ...]:
    """Return the number of the GPU and its rank, if known, for the case that names it."""
    rank = (str(gpu.rank),) if gpu.rank is not None else ()
    return labels_of(gpu=(str(gpu.device.ordinal),), rank=rank)


def gain_of_run(gpu: OneGpu, share: float, of_all: float) -> float:
    """Return the share of the run that a fix saves at most: GPUs that exchange data wait for the worst one."""
    return max(share, of_all) if gpu.exchanges else of_all


def exposed_finding(
    facts: KernelFacts,
    exposed: Exposed,
    change: CaseName,
    headline: tuple[CaseName, ...],
    why: tuple[CaseName, ...],
    *,
    amounts: tuple[Amount, ...] = (),
    labels: tuple[Label, ...] = (),
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    """Return a finding on time that no kernel overlaps.

    `headline` has the cases after the name of the GPU; `why` those before the share of all GPUs.
    """
    gpu = exposed.gpu
    span_s = running_s(gpu.device)
    if gpu.gpus > 1:
        why += ("shared/all-gpus",)
    return finding(
        facts,
        cases_of(change, ("name", gpu_case(gpu), *headline), why),
        amounts=(
            amounts_of(exposed=exposed.time_s / span_s, exposed_of_all=exposed.share)
            + amounts_of("s", span=span_s, time=exposed.time_s)
            + amounts_of("", gpus=gpu.gpus)
            + amounts
        ),
        labels=gpu_labels(gpu) + labels,
        confidence="inferred",
        gain_of_run=gain_of_run(gpu, exposed.time_s / span_s, exposed.share),
        # Copies belong to no kernel; communication has kernels of its own.
        everywhere=isinstance(exposed.done, Copies),
        evidence=(EXPOSED_SHARE.evidence(100 * exposed.time_s / span_s), *evidence),
    )


def exposed_rule(id_: str, check: Callable[[KernelFacts], Findings], *more: Threshold) -> Rule:
    """Return a rule on time that no kernel overlaps."""
    return Rule(id_, thresholds=(EXPOSED_SHARE, *more), check=check, by_times=True, of_run=True, place=AT_KERNEL)
