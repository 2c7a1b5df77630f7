"""What the readers of timelines share: which spans were open where something was launched, and which GPUs took part."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple, Protocol, TypeVar

from gpuprof.errors import DamagedInput
from gpuprof.timeline.trace import HostWait, ProgramStep

_DEEPEST = 100
"""No program nests its spans deeper; of a file that does, the innermost ones are kept."""
_MOST_DEVICES = 1000
"""More GPUs than any machine has; a file that names more is broken."""

_FIRST_EPOCH_S, _LAST_EPOCH_S = 10**9, 253_402_300_799
"""A clock that counts from 1970 stands after 2001 and before the year 10000."""


class ThreadSpan(Protocol):
    """Something that a thread was doing from one nanosecond to another."""

    @property
    def thread(self) -> Hashable:
        """Which thread did it."""
        ...

    @property
    def start(self) -> int:
        """When it began."""
        ...

    @property
    def end(self) -> int:
        """When it ended."""
        ...


_WAITS = re.compile(
    r"cu(?:da)?(?:(?=\w*Synchronize)|Memcpy(?!\w*Async|\w*Peer)|(?:Mem)?Free(?!Host|Array|Mipmapped|Async))\w*"
)
"""Calls of CUDA that return when the GPU has done what came before; freeing memory is one of them."""


class WaitSpan(NamedTuple):
    """A call that waited for a GPU, in nanoseconds, and its process and thread, if they are known."""

    start: int
    end: int
    process: int | None
    thread: Hashable = None

    @property
    def place(self) -> LaunchOrigin:
        """Where and when the program began to wait."""
        return LaunchOrigin(self.thread, self.start, self.process)


_LAUNCHES = re.compile(r"cu(?:da)?(?:Graph)?(?:Launch(?!HostFunc)|Memcpy|Memset)\w*")


@lru_cache(1024)
def launches_work(call: str) -> bool:
    """Tell whether a call of CUDA, by its name, launches something on a GPU."""
    return _LAUNCHES.fullmatch(call) is not None


_LAUNCHES_GRAPH = re.compile(r"cu(?:da)?GraphLaunch(?:_\w+)?")


@lru_cache(1024)
def launches_graph(call: str) -> bool:
    """Tell whether a call of CUDA, by its name, launches a graph: all of that has the correlation of this call."""
    return _LAUNCHES_GRAPH.fullmatch(call) is not None


@lru_cache(1024)
def waits_for_gpu(call: str) -> bool:
    """Tell whether a call of CUDA, by its name, waits for the GPU: `cudaStreamSynchronize_v3020`."""
    return _WAITS.fullmatch(call) is not None


_CONTROLS_PROFILER = re.compile(r"cu(?:da)?Profiler(?:Start|Stop)(?:_v\d+)?")


@lru_cache(1024)
def controls_profiler(call: str) -> bool:
    """Tell whether a call of CUDA, by its name, says to a profiler from where to where it is to record."""
    return _CONTROLS_PROFILER.fullmatch(call) is not None


def host_waits(
    spans: Iterable[WaitSpan], origin: int, operators: Iterable[str | None] = repeat(None)
) -> tuple[HostWait, ...]:
    """Return waits as those of a trace that begins at `origin`, in the order of their end, each with its operator."""
    waits = [
        HostWait((span.start - origin) / 1e9, (span.end - origin) / 1e9, span.process, operator)
        for span, operator in zip(spans, operators)  # noqa: B905
    ]
    waits.sort(key=lambda wait: (wait.end_s, wait.start_s))
    return tuple(waits)


class LaunchOrigin(NamedTuple):
    """Where and when something was launched, in nanoseconds."""

    thread: Hashable
    at: int
    process: int | None


AnySpan = TypeVar("AnySpan", bound=ThreadSpan)


def open_at_places(
    spans: Iterable[AnySpan], places: Iterable[LaunchOrigin | None]
) -> dict[LaunchOrigin | None, tuple[AnySpan, ...]]:
    """Return for each place the spans of its thread that were open then, outermost first."""
    spans_of: defaultdict[Hashable, list[AnySpan]] = defaultdict(list)
    for span in spans:
        spans_of[span.thread].append(span)
    places_of: defaultdict[Hashable, set[LaunchOrigin]] = defaultdict(set)
    for place in places:
        if place is not None:
            places_of[place.thread].add(place)
    open_spans: dict[LaunchOrigin | None, tuple[AnySpan, ...]] = {}
    for thread, own in places_of.items():
        open_spans.update(_open_at(spans_of.get(thread, ()), sorted(own, key=lambda place: place.at)))
    return open_spans


def _open_at(
    spans: Sequence[AnySpan], places: Iterable[LaunchOrigin]
) -> Iterator[tuple[LaunchOrigin, tuple[AnySpan, ...]]]:
    """Sweep over the spans of a thread and its places, which come in the order of their time.

    A span is open from its first to its last nanosecond. Of spans that begin and end together the earlier one is outer.
    """
    ordered = sorted(spans, key=lambda span: (span.start, -span.end))
    stack: list[AnySpan] = []
    following = 0
    for place in places:
        while following < len(ordered) and ordered[following].start <= place.at:
            _close(stack, ordered[following].start)
            stack.append(ordered[following])
            following += 1
        _close(stack, place.at)
        yield place, tuple(span for span in stack[-_DEEPEST:] if span.end >= place.at)


def _close(stack: list[AnySpan], moment: int) -> None:
    while stack and stack[-1].end < moment:
        stack.pop()


def device_numbers(recorded: Iterable[int], name: str) -> list[int]:
    """Return the numbers of the GPUs that did something, sorted. Raises DamagedInput if they are beyond reason."""
    used = sorted(set(recorded))
    if len(used) > _MOST_DEVICES:
        raise DamagedInput(f"{name} is damaged: it names {len(used)} GPUs", "record it again")
    return used


def program_step(name: str, thread: Hashable, start_ns: int, end_ns: int) -> ProgramStep:
    """Return a step; its times count from the start of the trace."""
    return ProgramStep(name, start_ns / 1e9, (end_ns - start_ns) / 1e9, thread=thread)


def left_out(number: int) -> tuple[str, ...]:
    """Say how many activities have no start, if any."""
    if not number:
        return ()
    if number == 1:
        return ("1 GPU activity has no start time and is left out",)
    return (f"{number} GPU activities have no start time and are left out",)


def impossible(durations: Sequence[tuple[str, object]]) -> tuple[str, ...]:
    """Return a warning about activities with impossible durations, which are not used."""
    if not durations:
        return ()
    name, value = durations[0]
    return (
        f"{len(durations)} GPU activit{'y has an' if len(durations) == 1 else 'ies have an'} impossible duration, not "
        f"used: {name:.100} has {value!s:.40}",
    )


def since_epoch(clock_ns: int) -> float | None:
    """Return the seconds since 1970 if a clock can have counted from then, else None."""
    return clock_ns / 1e9 if _FIRST_EPOCH_S <= clock_ns / 1e9 <= _LAST_EPOCH_S else None
