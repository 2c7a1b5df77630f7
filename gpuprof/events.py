"""What `gpuprof.profile` and `gpuprof.plan` tell `on_event`."""

from __future__ import annotations

from gpuprof.collect.events import (
    ProfileEvent,
    ProfilePlanned,
    ProfileRemark,
    RunEnded,
    RunProgressed,
    RunStarted,
    TimelineJudged,
)

__all__ = [
    "ProfileEvent", "ProfilePlanned", "ProfileRemark", "RunEnded", "RunProgressed", "RunStarted", "TimelineJudged",
]  # fmt: skip
