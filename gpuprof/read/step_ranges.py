"""Which ranges of a program are its steps: NVTX ranges, and annotations of PyTorch's profiler.

A step is what a thread does again and again, one step after the other. Ranges of functions come again, too, but a
thread spends most of its time outside of them, or in many kinds of them. These are the rules:
- the ranges of a kind differ in numbers only ("step 12"), and a thread has three or more of them;
- a kind whose name says that it is a step ("train_iteration", "batch 7") fills at least a quarter of the time from one
  start to the next, in most cases: loading data may be outside of it. "step" alone may be that of an optimizer: half;
- any other kind has one name without a number that differs, or counts and ends with such a word ("denoise step 12"); it
  is in no range, launches at least half of what its thread does, or for half of the time, and fills nearly all of the
  time from its first start to its last: a function that most of an iteration consists of, such as a backward pass, is
  no step, and "stage 0", "stage 1" are parts of one pass;
- operators, gradients, layers and calls of libraries are never steps;
- a kind in a range of another one is a part of its steps, and an epoch is the steps in it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.groups import by_key

_STEPS_AT_LEAST = 3
_NAMED_FILL, _BARE_FILL, _FILL = 0.25, 0.5, 0.85
_NUMBER = re.compile(r"(?<![\s_#:./=-])[\s_#:./=-]*\d+")
_STEP_WORDS = re.compile(
    r"(?:(?:the|one|my|main|global|profiler?|train(?:ing)?|eval(?:uation)?|valid(?:ation)?|test|infer(?:ence)?|mini|micro"
    r"|decod(?:e|ing)|generat(?:e|ion)|model|loop|time|simulation|solver|epoch|engine)[\s_./:#-]*)*"
    r"(?:step|iter|iteration|batch|frame|token|request|timestep|epoch)s?",
    re.IGNORECASE,
)
_STEP_AT_END = re.compile(r"(?:step|iter|iteration|batch|frame|token)$", re.IGNORECASE)
_EPOCHS = re.compile(r"epochs?$", re.IGNORECASE)
_PARTS = re.compile(
    r"(?-i:[a-z_]\w*::|\w+(?:Backward\d*|Func|Function|Bwd|Fwd)\b)|Optimizer\.|nn\.Module: |(?:py)?nccl"
    r"|cu(?:blas|dnn|fft|sparse|solver|rand|tensor)|mpi_"
    r"|[\w .]*(?:layer|block)s?(?![a-z])|enumerate\(|## Call |Torch-Compiled Region|CompiledFunction",
    re.IGNORECASE,
)
"""Names of operators, gradients, modules, layers, calls of libraries, loaders and parts of compiled functions."""


class ThreadSpan(Struct, frozen=True, gc=False):
    """Something that a thread was doing from one nanosecond to another."""

    thread: Hashable
    start: int
    end: int


class ProgramRange(ThreadSpan, frozen=True, gc=False):
    """A range of a program; `nested` unless it was started and ended by a handle."""

    name: str
    nested: bool = True


class SplitRanges(NamedTuple):
    """The ranges that are steps, as the rules at the top of this file have it, and the others.

    Numbers are left out of the names of steps, and of an outermost range if they only count: "forward 12" → "forward".
    """

    steps: list[ProgramRange]
    others: list[ProgramRange]


def split_ranges(ranges: Iterable[ProgramRange], launches: Iterable[ThreadSpan]) -> SplitRanges:
    """Return steps and other ranges apart; `launches` are the calls that launched something."""
    every = list(ranges)
    split = SplitRanges([], [span for span in every if not span.nested])
    launched = by_key((call.thread, call.start) for call in launches)
    for thread, spans in by_key((span.thread, span) for span in every if span.nested).items():
        _split_thread(spans, sorted(launched.get(thread, ())) if launched else None, split)
    return split


@lru_cache(maxsize=4096)
def step_name(name: str) -> str:
    """Return what the steps of a loop have in common: "step 12" → "step", "epoch_3/batch_7" → "epoch/batch"."""
    return _NUMBER.sub("", name).strip() or "range"


def is_named_step(kind: str) -> bool:
    """Return whether a name without its numbers says that it is a step."""
    return _STEP_WORDS.fullmatch(kind) is not None


def _split_thread(spans: list[ProgramRange], launches: Sequence[int] | None, split: SplitRanges) -> None:
    """Add the ranges of one thread: steps are of kinds that are loops, and in no other range of such a kind.

    `launches` are the moments at which the thread launched something, in order; None if they are not known.
    """
    spans.sort(key=lambda span: (span.start, -span.end))
    kinds = {name: step_name(name) for name in {span.name for span in spans}}
    of_kind: dict[str, list[ProgramRange]] = {}
    inner: set[str] = set()
    end = spans[0].start
    for span in spans:
        members = of_kind.setdefault(kinds[span.name], [])
        if not members or span.start >= members[-1].end:
            members.append(span)
        if span.start < end:
            inner.add(kinds[span.name])
        end = max(end, span.end)
    loops = {
        kind
        for kind, members in of_kind.items()
        if (is_named_step(kind) or (kind not in inner and _launch_most(members, launches))) and _is_loop(kind, members)
    }
    loops = {kind for kind in loops if not _EPOCHS.search(kind)} or loops
    counting = {kind for kind, members in of_kind.items() if _counts(members)}
    step_end = other_end = spans[0].start
    for span in spans:
        kind = kinds[span.name]
        if kind in loops and span.start >= step_end:
            split.steps.append(replace(span, name=kind))
            step_end = span.end
            continue
        is_outermost = span.start >= other_end
        split.others.append(replace(span, name=kind) if is_outermost and kind in counting else span)
        other_end = max(other_end, span.end)


def _counts(spans: Sequence[ProgramRange]) -> bool:
    """Return whether the numbers in the names of ranges of one kind only count: none comes again."""
    return len(spans) >= _STEPS_AT_LEAST and len({span.name for span in spans}) == len(spans)


def _launch_most(spans: Iterable[ProgramRange], launches: Sequence[int] | None) -> bool:
    """Return whether a thread launches in these ranges half of all it does, or for half of the time that it launches.

    So they do if its launches are not known.
    """
    if launches is None:
        return True
    inside = sum(bisect_right(launches, span.end) - bisect_left(launches, span.start) for span in spans)
    if not inside:
        return False
    length = sum(span.end - span.start for span in spans)
    return 2 * inside >= len(launches) or 2 * length >= launches[-1] - launches[0]


def _is_loop(kind: str, spans: Sequence[ProgramRange]) -> bool:
    """Return whether ranges of one kind, one after the other, fill the time of their thread as steps do."""
    if len(spans) < _STEPS_AT_LEAST or _PARTS.match(kind):
        return False
    lengths = [span.end - span.start for span in spans]
    periods = [after.start - span.start for span, after in pairwise(spans)]
    if is_named_step(kind):
        least = _BARE_FILL if spans[0].name.lower() == "step" else _NAMED_FILL
        return median(_share(*of_one) for of_one in zip(lengths, periods, strict=False)) >= least
    if len({span.name for span in spans}) > 1 and not (_counts(spans) and _STEP_AT_END.search(kind)):
        return False
    return _share(sum(lengths[:-1]), sum(periods)) >= _FILL


def _share(length: int, period: int) -> float:
    return length / period if period else 0.0
