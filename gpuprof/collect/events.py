"""The events of profiling while it goes on, for whoever shows them."""

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
    """The program starts. `number` counts its runs from 1. `stage` is "survey", "limits", "answers" or "profile"; with
    " again" it is a run for kernels that did not come in that stage.

    `by` is the tool that records it, of `survey_tools.TOOLS`. `planned` is how many launches are profiled, None if that
    is not known.
    """

    number: int
    stage: str
    by: str
    planned: int | None


@dataclass(frozen=True, slots=True)
class RunProgressed:
    """Comes once a second: the passes of each launch that ncu has done, and the time since the start."""

    stage: str
    planned: int | None
    passes: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class TimelineJudged:
    """The survey has been made. `session` is what its times show, diagnosed before anything is counted."""

    session: Session


@dataclass(frozen=True, slots=True)
class ProfilePlanned:
    """What will be profiled, on which chip, and how ncu selects it.

    `program_s` is how long the program took in the survey; None if that was given as a file.
    `answers` is what the run for the answers selects at most; None if one run collects everything.
    """

    plan: ProfilePlan
    arch: ArchSpec
    counters: str
    program_s: float | None
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
    """Do nothing."""
