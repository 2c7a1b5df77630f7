"""The NVTX ranges of an export, and which of them are the steps of the program.

A step is what a thread does again and again, one step after the other. Ranges of functions come again, too, but a
thread spends most of its time outside of them, or in many kinds of them. These are the rules:
- the ranges of a kind differ in numbers only ("step 12"), and a thread has three or more of them;
- a kind whose name says that it is a step ("step", "train_iteration", "batch") fills at least half of the time from one
  start to the next, in most cases: loading data may have a range of its own;
- any other kind is in no range and fills nearly all of the time from its first start to its last: a function that most
  of an iteration consists of, such as a backward pass, is no step, and neither are the modules of one network;
- operators, gradients, layers and calls of libraries are never steps;
- a kind in a range of another one is a part of its steps.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from gpuprof.model.groups import by_key
from gpuprof.model.torch_ranges import readable_range
from gpuprof.read.nsys_export import Export

_PUSH_POP, _START_END = 59, 60
"""Types of NVTX events."""
_STEPS_AT_LEAST = 3
_NAMED_FILL, _FILL = 0.5, 0.85
_NUMBER = re.compile(r"(?<![\s_#:./=-])[\s_#:./=-]*\d+")
_STEP_WORDS = re.compile(
    r"(?:(?:the|one|my|main|global|profiler?|train(?:ing)?|eval(?:uation)?|valid(?:ation)?|test|infer(?:ence)?|mini|micro"
    r"|decod(?:e|ing)|generat(?:e|ion)|model|loop|time|simulation|solver|epoch|engine)[\s_./:#-]*)*"
    r"(?:step|iter|iteration|batch|frame|token|request|timestep|epoch)s?",
    re.IGNORECASE,
)
_PARTS = re.compile(
    r"\w+::|\w+Backward\d*\b|Optimizer\.|nn\.Module: |(?:py)?nccl|cu(?:blas|dnn|fft|sparse|solver|rand|tensor)|mpi_"
    r"|[\w .]*(?:layer|block)s?(?![a-z])|## Call |Torch-Compiled Region|CompiledFunction",
    re.IGNORECASE,
)
"""Names of operators, gradients, modules, layers, calls of libraries and parts of compiled functions."""


class NvtxRange(NamedTuple):
    """An NVTX range of a thread, in nanoseconds; `nested` unless it was started and ended by a handle."""

    name: str
    thread: Hashable
    start: int
    end: int
    nested: bool


def nvtx_ranges(export: Export) -> Iterator[NvtxRange]:
    """Yield the NVTX ranges that ended and have a name."""
    names: dict[str, str] = {}
    threads: dict[Hashable, Hashable] = {}
    for start, end, row in export.spans(("NVTX_EVENTS",), "eventType", "text", "textId", "globalTid"):
        kind = row["eventType"]
        text = export.string(row["text"]) or export.string(row["textId"])
        if kind not in (_PUSH_POP, _START_END, None) or not text:
            continue
        name = readable_range(text)
        thread = threads.setdefault(row["globalTid"], row["globalTid"])
        yield NvtxRange(names.setdefault(name, name), thread, start, end, nested=kind != _START_END)


class SplitRanges(NamedTuple):
    """The ranges that are steps, as the rules at the top of this file have it, and the others.

    A number that only counts is left out of the name of an outermost one, as it is of steps: "forward 12" → "forward".
    """

    steps: list[NvtxRange]
    others: list[NvtxRange]


def split_ranges(ranges: Iterable[NvtxRange]) -> SplitRanges:
    """Return steps and other ranges apart."""
    every = list(ranges)
    split = SplitRanges([], [span for span in every if not span.nested])
    for spans in by_key((span.thread, span) for span in every if span.nested).values():
        _split_thread(spans, split)
    return split


@lru_cache(maxsize=4096)
def step_name(name: str) -> str:
    """Return what the steps of a loop have in common: "step 12" → "step", "epoch_3/batch_7" → "epoch/batch"."""
    return _NUMBER.sub("", name).strip() or "range"


def _split_thread(spans: list[NvtxRange], split: SplitRanges) -> None:
    """Add the ranges of one thread: steps are of kinds that are loops, and in no other range of such a kind."""
    spans.sort(key=lambda span: (span.start, -span.end))
    of_kind: dict[str, list[NvtxRange]] = {}
    inner: set[str] = set()
    end = spans[0].start
    for span in spans:
        kind = step_name(span.name)
        members = of_kind.setdefault(kind, [])
        if not members or span.start >= members[-1].end:
            members.append(span)
        if span.start < end:
            inner.add(kind)
        end = max(end, span.end)
    loops = {kind for kind, members in of_kind.items() if _is_loop(kind, members, is_inner=kind in inner)}
    # The numbers in the names of ranges only count if none comes again.
    counting = {
        kind
        for kind, members in of_kind.items()
        if _STEPS_AT_LEAST <= len({span.name for span in members}) == len(members)
    }
    step_end = other_end = spans[0].start
    for span in spans:
        kind = step_name(span.name)
        if kind in loops and span.start >= step_end:
            split.steps.append(span)
            step_end = span.end
            continue
        is_outermost = span.start >= other_end
        split.others.append(span._replace(name=kind) if is_outermost and kind in counting else span)
        other_end = max(other_end, span.end)


def _is_loop(kind: str, spans: Sequence[NvtxRange], *, is_inner: bool) -> bool:
    """Return whether ranges of one kind, one after the other, are steps; `is_inner` if any is in another range."""
    if len(spans) < _STEPS_AT_LEAST or _PARTS.match(kind):
        return False
    lengths = [span.end - span.start for span in spans]
    periods = [after.start - span.start for span, after in pairwise(spans)]
    # Starts and ends are whole nanoseconds, and a range without length may be at the start of the next one.
    if _STEP_WORDS.fullmatch(kind):
        shares = [length / max(1, period) for length, period in zip(lengths, periods, strict=False)]
        return median(shares) >= _NAMED_FILL
    return not is_inner and sum(lengths[:-1]) / max(1, sum(periods)) >= _FILL
