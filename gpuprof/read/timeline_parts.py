"""What the readers of timelines share: spans that were open at launches, names of CUDA calls, numbers of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TypeVar

from gpuprof.errors import DamagedInput
from gpuprof.model.groups import by_key
from gpuprof.read.step_ranges import ProgramRange, ThreadSpan
from gpuprof.timeline.trace import HostWait, ProgramStep

_DEEPEST = 100
"""No program nests its spans deeper; of a file that does, the innermost ones are kept."""
_MOST_DEVICES = 1000
"""More GPUs than any machine has; a file that names more is broken."""
_LARGEST_COUNT = 2**63
_FIRST_EPOCH_S, _LAST_EPOCH_S = 10**9, 253_402_300_799
"""A clock that counts from 1970 stands after 2001 and before the year 10000."""


_WAITS = re.compile(
    r"cu(?:da)?(?:(?=\w*Synchronize)|Memcpy(?!\w*Async|\w*Peer)|(?:Mem)?Free(?!Host|Array|Mipmapped|Async))\w*"
)
waits_for_gpu = lru_cache(1024)(_WAITS.fullmatch)
"""Return a match for the name of a call of CUDA that returns when the GPU has done what came before: `cudaFree_v3020`.

Freeing memory is one of them.
"""
launches_work = re.compile(r"cu(?:da)?(?:Graph)?(?:Launch(?!HostFunc)|Memcpy|Memset)\w*").fullmatch
"""Return a match for the name of a call of CUDA that launches something on a GPU."""
launches_graph = lru_cache(1024)(re.compile(r"cu(?:da)?GraphLaunch(?:_\w+)?").fullmatch)
"""Return a match for the name of a call that launches a graph: all of that has the correlation of this call."""
controls_profiler = re.compile(r"cu(?:da)?Profiler(?:Start|Stop)(?:_v\d+)?").fullmatch
"""Return a match for the name of a call that starts or stops a profiler."""


class CpuCall(ThreadSpan, frozen=True, gc=False):
    """A call that launched something or waited."""

    process: int | None

    def as_wait(self, origin: int, operator: str | None = None) -> HostWait:
        """Return it as a wait in a trace that begins at `origin`; `operator` is the one around it."""
        return HostWait((self.start - origin) / 1e9, (self.end - origin) / 1e9, self.process, operator)


AnySpan = TypeVar("AnySpan", bound=ThreadSpan)


def open_at_places(
    spans: Iterable[AnySpan], places: Iterable[CpuCall | None]
) -> dict[CpuCall | None, tuple[AnySpan, ...]]:
    """Return for each place the spans of its thread that were open then, outermost first."""
    spans_of = by_key((span.thread, span) for span in spans)
    places_of = by_key((place.thread, place) for place in set(places) if place is not None)
    open_spans: dict[CpuCall | None, tuple[AnySpan, ...]] = {}
    for thread, own in places_of.items():
        open_spans.update(_open_at(spans_of.get(thread, ()), sorted(own, key=attrgetter("start"))))
    return open_spans


def _open_at(spans: Sequence[AnySpan], places: Iterable[CpuCall]) -> Iterator[tuple[CpuCall, tuple[AnySpan, ...]]]:
    """Sweep over the spans of a thread and its places, which come in the order of their time.

    A span is open from its first to its last nanosecond. Of spans that begin and end together the earlier one is outer.
    """
    ordered = sorted(spans, key=lambda span: (span.start, -span.end))
    stack: list[AnySpan] = []
    following = 0
    for place in places:
        while following < len(ordered) and ordered[following].start <= place.start:
            # A span that ends as another one begins is before it: old traces have whole microseconds.
            _close(stack, ordered[following].start + 1)
            stack.append(ordered[following])
            following += 1
        _close(stack, place.start)
        yield place, tuple(span for span in stack[-_DEEPEST:] if span.end >= place.start)


def _close(stack: list[AnySpan], moment: int) -> None:
    while stack and stack[-1].end < moment:
        stack.pop()


def device_numbers(recorded: Iterable[int], name: str) -> list[int]:
    """Return the numbers of the GPUs that did something, sorted. Raises DamagedInput if they are beyond reason."""
    used = sorted(set(recorded))
    if len(used) > _MOST_DEVICES:
        raise DamagedInput(f"{name} is damaged: it names {len(used)} GPUs", "record it again")
    return used


def program_steps(steps: Iterable[ProgramRange], origin: int) -> tuple[ProgramStep, ...]:
    """Return steps as those of a trace that begins at `origin`, in the order of their start."""
    return tuple(
        ProgramStep(step.name, (step.start - origin) / 1e9, (step.end - step.start) / 1e9, thread=step.thread)
        for step in sorted(steps, key=attrgetter("start"))
    )


def impossible(durations: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Say which activities have impossible durations, which are not used."""
    for name, value in durations[:1]:
        activities = "activity has an" if len(durations) == 1 else "activities have an"
        yield f"{len(durations)} GPU {activities} impossible duration, not used: {name:.100} has {value:.40}"


def since_epoch(clock_ns: int) -> float | None:
    """Return the seconds since 1970 if a clock can have counted from then, else None."""
    seconds = clock_ns / 1e9
    return seconds if _FIRST_EPOCH_S <= seconds <= _LAST_EPOCH_S else None


def count(value: object) -> int | None:
    """Return a count; None if it is not one."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_COUNT:
        return value
    return None
