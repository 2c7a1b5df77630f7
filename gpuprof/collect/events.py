"""What profiling tells while it goes on: typed events for whoever shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gpuprof.collect.plan import ProfilePlan
from gpuprof.collect.selection import Selection
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.session import Session


class ProfileRemark(NamedTuple):
    """A sentence about what happens: which ncu is used, what is tried again, what was left out."""

    text: str


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The program starts. `number` counts its runs from 1; `stage` is "survey", "limits", "answers" or "profile", and
    with " again" a run for kernels that did not come in that stage.

    `by` is the tool that records it, of `survey_tools.TOOLS`; `planned` is how many launches it profiles, None where
    that is not known.
    """

    number: int
    stage: str
    by: str
    planned: int | None


@dataclass(frozen=True, slots=True)
class RunProgressed:
    """Told once a second: the passes of each launch that ncu has done, and the time gone since the start."""

    stage: str
    planned: int | None
    passes: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class TimelineJudged:
    """The survey has been made, and this is its diagnosed session: what its times tell, before anything is counted."""

    session: Session


@dataclass(frozen=True, slots=True)
class ProfilePlanned:
    """What will be profiled, on which chip, and how ncu is told of it. `survey_s` is how long the survey took.

    `answers` is what a second run selects at most, if the set takes one.
    """

    plan: ProfilePlan
    arch: ArchSpec
    counters: str
    survey_s: float | None
    selection: Selection
    answers: Selection | None


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The program has ended, or was ended: `stopped_by` is None, "timeout" or "interrupt"."""

    stage: str
    planned: int | None
    passes: tuple[int, ...]
    seconds: float
    stopped_by: str | None


ProfileEvent = ProfileRemark | RunStarted | RunProgressed | TimelineJudged | ProfilePlanned | RunEnded
TellEvent = Callable[[ProfileEvent], object]


def unheard(_: ProfileEvent) -> None:
    """Tell nobody."""
