"""The pauses of a GPU on a timeline, and how findings name the GPU."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.diagnose.facts.kernel import OneGpu, Pauses
from gpuprof.diagnose.rule import labels_of
from gpuprof.model.findings import CaseName, Label
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import DeviceTimeline, KernelProfile, Session


def pauses_of(session: Session) -> dict[int, Pauses]:
    """Return the pauses of the GPU with most idle time, by the id of the kernel with the finding.

    Launches of that kernel end most of the idle time, or come next after the copies that do.
    """
    if session.timeline is None or not session.kernels:
        return {}
    devices = session.timeline.devices
    idle_s = {device: device.gaps.total_s for device in devices if device.gaps is not None}
    if not idle_s:
        return {}
    device = max(idle_s, key=lambda each: idle_s[each])
    waits = [wait for wait in session.timeline.waits if wait.source == device.source and wait.ordinal == device.ordinal]
    if not waits:
        return {}
    longest = max(waits, key=lambda wait: wait.idle_s)
    kernel = longest.kernel
    if kernel is None:
        kernel = longest_on(session, device, session.kernels).id
    span_s = sum(map(running_s, devices))
    idle_share = min(1.0, sum(idle_s.values()) / span_s) if span_s > 0 else 0.0
    return {kernel: Pauses(one_gpu(session, device), longest, idle_share, ends=len(waits))}


def longest_on(session: Session, device: DeviceTimeline, kernels: Sequence[KernelProfile]) -> KernelProfile:
    """Return the longest of these kernels on a GPU; without any there, the longest of all."""
    here = [kernel for kernel in kernels if (kernel.source, kernel.device) == (device.source, device.device)]
    return max(here or kernels or session.kernels, key=lambda kernel: kernel.time_total_s or 0.0)


def one_gpu(session: Session, device: DeviceTimeline) -> OneGpu:
    """Return a GPU of a timeline, among all of the run."""
    timeline = session.timeline
    gpus = len(timeline.devices) if timeline is not None else 0
    return OneGpu(device, gpus, len(session.sources), rank_of(session, device))


def rank_of(session: Session, device: DeviceTimeline) -> int | None:
    """Return the rank of the source file of a GPU; None if it is not known."""
    ranks = session.timeline.source_ranks if session.timeline is not None else ()
    return ranks[device.source] if device.source < len(ranks) else None


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
