"""A drawn timeline: for each GPU when its kernels, copies and exchange ran, as outlines over bins of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gpuprof.model.field_types import StripKind
from gpuprof.model.session import LongPause, Session, StripRow, TimeStrip
from gpuprof.model.time_by import own_labels
from gpuprof.present.page.parts import label
from gpuprof.units import format_si, round_step
from gpuprof.words.timeline import device_fact, pause_text

_NAME_LENGTH = 60
_OTHERS = "other kernels"
_LEFT, _RIGHT = 76.0, 886.0
_ABOVE, _BELOW, _BETWEEN = 18.0, 18.0, 5.0
_HEIGHTS: dict[StripKind, float] = {"kernels": 64.0, "graphs": 14.0, "copies": 14.0, "exchange": 14.0}
_KERNEL_COLOURS, _GREY = ("line-l1", "line-dram", "line-l2", "line-fp64", "line-fp32"), "line-int32"
_COLOURS: dict[StripKind, str] = {"graphs": "line-int32", "copies": "line-tensor", "exchange": "muted"}
_LEAST_HEIGHT = 1.0
_LEAST_PAUSE, _LETTER = 3.0, 6.3
"""A pause narrower than this is not hatched. The width of a letter decides which labels have room."""
_LEAST_BIN_S = 1e-12
_MOST_STEPS = 8


class Shape(Struct, frozen=True):
    """An area over the base line of a band, and its colour among the variables of the page."""

    outline: str
    colour: str


class Band(Struct, frozen=True):
    """Kernels, whole graphs, copies or exchange: the taller areas come first, so that the lower ones lie on them."""

    name: str
    base: float
    middle: float
    shapes: tuple[Shape, ...]


class Hatch(Struct, frozen=True):
    """A long pause: where it is, what is said of it, and the part of that which has room above it."""

    left: float
    width: float
    text: str
    label: str
    middle: float


class TimeTick(Struct, frozen=True):
    """A moment on the axis of time."""

    x: float
    text: str


class ColourKey(Struct, frozen=True):
    """What a colour stands for."""

    name: str
    colour: str


class Drawing(Struct, frozen=True):
    """The drawn timeline of a GPU. `caption` is what is said of the GPU first."""

    id: str
    caption: str
    description: str
    height: float
    top: float
    base: float
    bands: tuple[Band, ...]
    hatches: tuple[Hatch, ...]
    ticks: tuple[TimeTick, ...]
    keys: tuple[ColourKey, ...]


def timeline_drawings(session: Session) -> Iterator[Drawing]:
    """Yield the drawn timeline of each GPU that has one."""
    devices = session.timeline.devices if session.timeline is not None else ()
    strips = [device.strip for device in devices if device.strip is not None]
    labels = own_labels(session.kernels)
    names = {kernel.id: label(labels[kernel.demangled], _NAME_LENGTH).text for kernel in session.kernels}
    kernels = dict.fromkeys(row.kernel for strip in strips for row in strip.rows if row.kernel in names)
    colours = dict(zip(kernels, _KERNEL_COLOURS, strict=False))
    keys = {kernel: ColourKey(names[kernel], colour) for kernel, colour in colours.items() if kernel is not None}
    for number, device in enumerate(devices):
        if device.strip is not None and device.strip.rows and device.strip.bin_s >= _LEAST_BIN_S:
            yield _drawing(f"strip-{number}", device.strip, ": ".join(device_fact(session, device)), keys)


def _drawing(name: str, strip: TimeStrip, caption: str, keys: Mapping[int, ColourKey]) -> Drawing:
    span_s = strip.bin_s * len(strip.rows[0].busy)
    scale = (_RIGHT - _LEFT) / span_s
    base, bands = _ABOVE - _BETWEEN, []
    for kind in dict.fromkeys(row.kind for row in strip.rows):
        base += _BETWEEN + _HEIGHTS[kind]
        rows = [row for row in strip.rows if row.kind == kind]
        shapes = tuple(_shapes(rows, base, _HEIGHTS[kind], keys))[::-1]
        bands.append(Band(kind, base=base, middle=base - _HEIGHTS[kind] / 2 + 4, shapes=shapes))
    pauses = "; ".join(f"{pause_text(pause)}, after {format_si(pause.start_s, 's')}" for pause in strip.pauses)
    return Drawing(
        id=name,
        caption=caption,
        description=f"{caption}. Longest pauses: {pauses}." if pauses else f"{caption}.",
        height=base + _BELOW,
        top=_ABOVE,
        base=base,
        bands=tuple(bands),
        hatches=tuple(_hatches(strip.pauses, scale)),
        ticks=tuple(_ticks(span_s, scale)),
        keys=tuple(dict.fromkeys(_key(row, keys) for row in strip.rows if row.kind == "kernels")),
    )


def _key(row: StripRow, keys: Mapping[int, ColourKey]) -> ColourKey:
    """Return what the colour of a row of kernels stands for; a kernel that was left out is one of the others."""
    others = ColourKey(_OTHERS, _GREY)
    return keys.get(row.kernel, others) if row.kernel is not None else others


def _shapes(rows: Sequence[StripRow], base: float, height: float, keys: Mapping[int, ColourKey]) -> Iterator[Shape]:
    """Yield the areas of a band, each on top of those before: it reaches down to the base line behind them."""
    tops = [0.0] * len(rows[0].busy)
    for row in rows:
        tops = [min(1.0, top + busy) for top, busy in zip(tops, row.busy, strict=True)]
        yield Shape(_outline(tops, base, height), _COLOURS.get(row.kind) or _key(row, keys).colour)


def _outline(tops: Sequence[float], base: float, height: float) -> str:
    """Return a path of steps over bins; what took any time can be seen, so that a blank is idle."""
    width = (_RIGHT - _LEFT) / len(tops)
    path, last = [f"M{_LEFT:g} {base:g}"], 0.0
    for place, top in enumerate(tops):
        here = round(max(_LEAST_HEIGHT, top * height), 1) if top > 0 else 0.0
        if here != last:
            path.append(f"H{_LEFT + place * width:.4g}V{base - here:.4g}")
            last = here
    path.append(f"H{_RIGHT:g}V{base:g}Z")
    return "".join(path)


def _hatches(pauses: Sequence[LongPause], scale: float) -> Iterator[Hatch]:
    """Yield the pauses wide enough to be seen; the longest ones have the first choice of room for their labels."""
    taken: list[tuple[float, float]] = []
    for pause in sorted(pauses, key=lambda pause: -pause.length_s):
        left, width = _LEFT + pause.start_s * scale, pause.length_s * scale
        if width < _LEAST_PAUSE or left + width > _RIGHT + _LEAST_PAUSE:
            continue
        text = pause_text(pause)
        half = len(text) * _LETTER / 2
        middle = min(max(left + width / 2, _LEFT + half), _RIGHT - half)
        room = (middle - half, middle + half)
        has_room = all(room[1] < start or end < room[0] for start, end in taken)
        if has_room:
            taken.append(room)
        yield Hatch(
            left=round(left, 1),
            width=round(width, 1),
            text=text,
            label=text if has_room else "",
            middle=round(middle, 1),
        )


def _ticks(span_s: float, scale: float) -> Iterator[TimeTick]:
    """Yield round moments in milliseconds from the first activity on."""
    step_s = round_step(span_s / _MOST_STEPS)
    for place in range(int(span_s / step_s) + 1):
        yield TimeTick(round(_LEFT + place * step_s * scale, 1), f"{place * step_s * 1e3:.6g}")
