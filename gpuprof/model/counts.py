"""What a launch did, as counters have it: instructions, requests and sectors, which the same code gives again."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.hardware.specs import COUNTS, WARP_OPCODES, ArchSpec
from gpuprof.model.quantities import NO_CLOCKS, Counted, first_counted
from gpuprof.model.recorded import MetricTable, printed_rounding
from gpuprof.model.session import LaunchCount

_UNITS = {
    "instructions": "inst", "thread-instructions": "thread inst", "global-load-requests": "request",
    "global-store-requests": "request", "shared-wavefronts": "wavefront", "bank-conflicts": "wavefront",
}  # fmt: skip
"""What they are counted in; all others are in sectors of 32 bytes."""
_QUANTITIES = {name: f"count.{name}" for name in COUNTS}
"""What they are called among the counters of an architecture."""
_OPCODE = "opcode."
_NAME = re.compile("[A-Z][A-Z0-9_]{0,39}")
"""An opcode without its modifiers. What a damaged report has in its place is not taken."""
_SAME = 1e-12
"""A product of counters is off by less, as a fraction: what the numbers of a report round to."""


class _Value(NamedTuple):
    """What was counted of one launch, and by which counters."""

    value: float
    metric: str


class _Span(Struct):
    """A count, the least and most of the launches so far, and how many of them have it."""

    count: LaunchCount
    low: float
    high: float
    launches: int = 0

    def add(self, other: LaunchCount) -> None:
        """Take in what another launch has of it."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.launches += 1

    def result(self, histograms: int) -> LaunchCount:
        """Return the count with its least and most; of so many launches opcodes are known."""
        never = _is_opcode(self.count.name) and self.launches < histograms
        return replace(self.count, low=0.0 if never else self.low, high=self.high)


def launch_counts(
    metrics: MetricTable, arch: ArchSpec, absent: frozenset[str] = frozenset()
) -> tuple[LaunchCount, ...]:
    """Return the counts of one launch, as far as its report has them whole: what was printed rounded is none.

    `absent` are quantities that its report is known to have no metrics of.
    """
    return tuple(
        LaunchCount(
            name=name,
            value=counted.value,
            unit="inst" if _is_opcode(name) else _UNITS.get(name, "sector"),
            metric=counted.metric,
            low=counted.value,
            high=counted.value,
        )
        for name, counted in (*_by_chains(metrics, arch, absent), *_opcodes(metrics))
    )


def spanning(spoken: Sequence[LaunchCount], every: Iterable[Sequence[LaunchCount]]) -> tuple[LaunchCount, ...]:
    """Return the counts of the launch that speaks for a group, with the least and most of every launch in it.

    Only what the same counters tell is compared. An opcode that is not in the histogram of a launch was not executed.
    """
    if not spoken:
        return ()
    spans: dict[str, _Span] = {count.name: _Span(count, count.low, count.high) for count in spoken}
    told = any(map(_is_opcode, spans))
    histograms = 0
    for counts in every:
        has_opcodes = False
        for count in counts:
            opcode = _is_opcode(count.name)
            has_opcodes |= opcode
            span = spans.get(count.name)
            if span is None and opcode and told:
                span = spans[count.name] = _Span(replace(count, value=0.0), 0.0, count.high)
            if span is not None and span.count.metric == count.metric:
                span.add(count)
        histograms += has_opcodes
    return tuple(span.result(histograms) for span in spans.values())


def _by_chains(metrics: MetricTable, arch: ArchSpec, absent: frozenset[str]) -> Iterator[tuple[str, _Value]]:
    for name, quantity in _QUANTITIES.items():
        chain = arch.counters.get(quantity) if quantity not in absent else None
        counted = first_counted(chain, name, metrics, NO_CLOCKS) if chain is not None else None
        value = _whole(counted, metrics) if counted is not None else None
        if counted is not None and value is not None:
            yield name, _Value(value, counted.definition)


def _opcodes(metrics: MetricTable) -> Iterator[tuple[str, _Value]]:
    """Yield the executed warp instructions by opcode, without its modifiers, most first."""
    histogram: Mapping[str | int, float] = metrics.instances(WARP_OPCODES) or {}
    executed: dict[str, float] = {}
    for opcode, count in histogram.items():
        name = _name_of(str(opcode))
        if count > 0 and math.isfinite(count) and name:
            executed[name] = executed.get(name, 0.0) + count
    for name in sorted(executed, key=lambda name: (-executed[name], name)):
        yield name, _Value(float(executed[name]), WARP_OPCODES)


@lru_cache(maxsize=4096)
def _name_of(opcode: str) -> str:
    """Return what an opcode is counted as, without its modifiers: one text for all launches; empty for what is none."""
    name = opcode.partition(".")[0]
    return f"{_OPCODE}{name}" if _NAME.fullmatch(name) else ""


def _is_opcode(name: str) -> bool:
    return name.startswith(_OPCODE)


def _whole(counted: Counted, metrics: MetricTable) -> float | None:
    """Return the only whole number that fits the printed digits of counters; None if several fit, or none.

    A zero with decimals is exact only for a single counter: ratios, and bytes with a prefix, can round to it.
    """
    printed = [(metrics.number(name) or 0.0, metrics.digits(name)) for name in counted.metrics]
    rounding = sum(printed_rounding(number, digits) for number, digits in printed)
    nearest = float(round(counted.value))
    is_whole = math.isclose(counted.value, nearest, rel_tol=max(_SAME, rounding))
    if not rounding:
        return nearest if is_whole else counted.value
    is_open = counted.value * rounding >= 0.5 or (len(printed) > 1 and any(digits == 0 for _, digits in printed))
    return nearest if is_whole and not is_open else None
