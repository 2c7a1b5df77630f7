"""The pauses of a GPU on a timeline, and how findings name the GPU."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.diagnose.facts.kernel import Exposed, Pauses
from gpuprof.diagnose.rule import labels_of
from gpuprof.model.findings import Label
from gpuprof.model.groups import summed
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import DeviceTimeline, Session, Wait
from gpuprof.model.trace import KERNEL


def pauses_of(session: Session) -> dict[int, Pauses]:
    """Return the pauses of the GPU with most idle time, by the id of the kernel with the finding.

    Launches of that kernel end most of the idle time, or come next after the copies that end most
    of it.
    """
    timeline = session.timeline
    if timeline is None:
        return {}
    idle_devices = [(gpu.gaps.total_s, gpu) for gpu in timeline.devices if gpu.gaps is not None]
    if not idle_devices:
        return {}
    device = max(idle_devices, key=lambda pair: pair[0])[1]
    here = [wait for wait in timeline.waits if wait.source == device.source and wait.ordinal == device.ordinal]
    if not here:
        return {}
    wait = _longest(here)
    number = wait.kernel if wait.kernel is not None else _any_kernel(session, device, here)
    if number is None:
        return {}
    span_s = sum(map(running_s, timeline.devices))
    rivals = (other.idle_s for other in here if other is not wait and other.before == wait.before == KERNEL)
    pauses = Pauses(
        device,
        wait,
        idle_share=sum(idle_s for idle_s, _ in idle_devices) / span_s if span_s > 0 else 0.0,
        gpus=len(timeline.devices),
        files=len(session.sources),
        rank=rank_of(session, device),
        ends=len(here),
        most_s=max(other.idle_s for other in here),
        rival_s=max(rivals, default=0.0),
    )
    return {number: pauses}


def rank_of(session: Session, device: DeviceTimeline) -> int | None:
    """Return the rank of the source file of a GPU; None if it is not known."""
    ranks = session.timeline.source_ranks if session.timeline is not None else ()
    return ranks[device.source] if device.source < len(ranks) else None


def _longest(waits: Sequence[Wait]) -> Wait:
    """Return the longest wait of the kind of work (by `before`) that ends most of the idle time."""
    idle_s = summed((wait.before, wait.idle_s) for wait in waits)
    before = max(idle_s, key=lambda ended_by: idle_s[ended_by])
    return max((wait for wait in waits if wait.before == before), key=lambda wait: wait.idle_s)


def _any_kernel(session: Session, device: DeviceTimeline, waits: Sequence[Wait]) -> int | None:
    """Return some kernel of the GPU if no kernel comes after its longest pauses."""
    for wait in waits:
        if wait.kernel is not None:
            return wait.kernel
    for kernel in session.kernels:
        if kernel.source == device.source and kernel.device == device.device:
            return kernel.id
    return None


def gpu_case(found: Pauses | Exposed) -> str:
    """Return the case that names the GPU, by number and rank or file if there are several."""
    if found.gpus < 2:
        return "shared/gpu"
    if found.files < 2:
        return "shared/gpu-number"
    return "shared/gpu-of-rank" if found.rank is not None else "shared/gpu-of-file"


def gpu_labels(found: Pauses | Exposed) -> tuple[Label, ...]:
    """Return the number of the GPU and its rank, if known, for the case that names it."""
    rank = (str(found.rank),) if found.rank is not None else ()
    return labels_of(gpu=(str(found.device.ordinal),), rank=rank)
