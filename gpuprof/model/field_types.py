"""What fields of the JSON contract can hold: the words where they are few, and numbers with their unit and bounds."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta

Severity = Literal["high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
Confidence = Literal["measured", "inferred", "guess"]
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)
GainKind = Literal["bound", "conditional"]
"""How far a gain holds: as an upper bound, or for what is held fixed."""
Bound = Literal["at-least", "at-most"]
"""Whether a fraction is only a lower or an upper bound."""
RunState = Literal["at-roof", "limited", "waiting", "unfilled", "short", "set-up", "void", "open"]
"""What the state of a run is called."""
CeilingOrigin = Literal["rated", "at-clock", "measured"]
"""Of a ceiling, and of what a fraction is a fraction of."""
ORIGINS: tuple[CeilingOrigin, ...] = get_args(CeilingOrigin)
Disagreement = Literal["product", "units", "sparse", "clock", "spec"]
"""Why a report implies another peak than the spec has: it is another product, a part of one, the spec's number is one
with sparsity or of another clock, or the spec is wrong."""
StripKind = Literal["kernels", "graphs", "copies", "exchange"]
"""What a row of a drawn timeline is of."""
PauseCause = Literal["start-up", "waited", "in-graph", "unknown"]
"""Why a GPU did nothing: the program loaded and compiled, it waited for the GPU, or two nodes of a CUDA graph."""
JudgedPart = Literal["all", "steps", "repetition"]
"""The part of a trace that is judged: all of it, the steps, or that in which kernels repeat."""
LateCause = Literal["computing", "copies", "idle"]
"""What a rank does for longer than those that wait for it: it computes, copies beside no kernel, or does nothing."""
LATE_CAUSES: tuple[LateCause, ...] = get_args(LateCause)
RooflineBound = Literal["memory", "compute"]
ThroughputUnit = Literal["sm", "memory", "dram", "l2", "l1"]
THROUGHPUT_UNITS: tuple[ThroughputUnit, ...] = get_args(ThroughputUnit)
StallFamily = Literal["counter", "sampled", "sampled-not-issued"]
Language = Literal["source", "sass"]


def about(text: str, most: int | None = None) -> Meta:
    """Return a field's description and the maximum length of its list.

    The maximum is at least ten times what sessions of real programs have; it bounds the time of views.
    """
    return Meta(description=text, max_length=most)


def _unit(name: str) -> Meta:
    return Meta(extra_json_schema={"x-unit": name})


Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_. -]{1,60}$(?!\n)")]
"""A word of an open list, which presenters show as it is."""
Whole = Annotated[int, Meta(ge=-(2**63) + 1, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
ByteCount = Annotated[Whole, _unit("B")]
Number = Annotated[float, Meta(ge=0, le=1e30)]
"""No quantity is negative or comes near 1e30; larger ones would break what is computed from them."""
Drawn = Annotated[float, Meta(gt=1e-30, le=1e30)]
"""A number with a place on logarithmic axes."""
Fraction = Annotated[Number, _unit("fraction")]
Gain = Annotated[float, Meta(ge=0, le=1 + 1e-9), _unit("fraction")]
"""A fraction of time: at most all of it, and what adding shares up can round."""
Seconds = Annotated[Number, _unit("s")]
Moment = Annotated[int, Meta(ge=0, le=253_402_300_799), _unit("s")]
"""Seconds since 1970, to the end of the year 9999."""
Hertz = Annotated[Number, _unit("Hz")]
ByteAmount = Annotated[Number, _unit("B")]
BytesPerSecond = Annotated[Number, _unit("B/s")]
Flop = Annotated[Number, _unit("FLOP")]
FlopPerSecond = Annotated[Number, _unit("FLOP/s")]
DrawnFlopPerSecond = Annotated[Drawn, _unit("FLOP/s")]
Intensity = Annotated[Drawn, _unit("FLOP/B")]
Watts = Annotated[Number, _unit("W")]
Celsius = Annotated[Number, _unit("°C")]
