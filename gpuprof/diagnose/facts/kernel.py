"""All that is known of a kernel: the input of the rules."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from gpuprof.diagnose.facts.l1 import L1Facts
from gpuprof.model.field_types import Confidence
from gpuprof.model.session import Communication, Copies, DeviceTimeline, Wait


class OneGpu(Struct, frozen=True):
    """A GPU of a timeline, among all GPUs and files of the run; its rank, if it is known."""

    device: DeviceTimeline
    gpus: int
    files: int
    rank: int | None


class Pauses(Struct, frozen=True):
    """The pauses of the GPU that is idle longest in a timeline.

    `wait` is for the activity that ends most of the idle time, one of `ends` kernels and kinds of
    copies. `idle_share` is the idle time of all GPUs of the run over their spans.
    """

    gpu: OneGpu
    wait: Wait
    idle_share: float
    ends: int


class Exposed(Struct, frozen=True):
    """Copies (of one kind) or communication not overlapped by any kernel, for the worst GPU.

    `time_s` is that time, and `share` that of all GPUs of the run over their spans. If it waits for
    other ranks, `awaited` is the rank with the longest waits and its share of all waits.
    """

    gpu: OneGpu
    done: Copies | Communication
    time_s: float
    share: float
    awaited: tuple[int, float] | None = None


class Faster(Struct, frozen=True):
    """The fastest configuration in which the kernel of another kernel did the same work.

    `facts` is its launch of median duration. `duration_s` is the longest that this launch can take
    at the clocks of the slower case. `certainty` is the confidence that the work is the same.
    """

    facts: KernelFacts
    duration_s: float
    certainty: Confidence


@dataclass
class KernelFacts(L1Facts):
    """All that is known of one kernel. Fractions are of 1; a fact that is missing is None.

    `pauses` and `exposed` are those of the timeline, if this kernel reports them. `faster` is a
    configuration in which this kernel was faster for the same work.
    """

    pauses: Pauses | None = None
    exposed: tuple[Exposed, ...] = ()
    faster: Faster | None = None
