"""The drawn timeline of a GPU: when its kernels, copies and exchange ran, in bins of time, with its pauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuprof.model.field_types import StripKind
from gpuprof.model.session import DeviceTimeline, LongPause, Session, StripRow, TimeStrip
from gpuprof.model.time_by import own_labels
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_si
from gpuprof.views import document
from gpuprof.views.plot import Colours, Drawing, figure_svg, write
from gpuprof.words.timeline import device_fact, pause_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Names and colours of the kernels that have a row, by their id.
_Keys = Mapping[int | None, tuple[str, str]]

_NAME = 44
_KERNEL_COLOURS = ("line-l1", "line-dram", "line-l2", "line-compute", "line-other")
_OTHERS = ("other kernels", "line-unknown")
_COLOURS: Mapping[StripKind, str] = {"graphs": "line-unknown", "copies": "line-latency", "exchange": "muted"}
_HEIGHTS: Mapping[StripKind, float] = {"kernels": 64.0, "graphs": 14.0, "copies": 14.0, "exchange": 14.0}
_BETWEEN = 6.0
# What took any time can be seen, so that a blank is idle.
_LEAST_HEIGHT = 1.0
# Pauses of a smaller part of the timeline are not hatched.
_LEAST_PAUSE = 0.004
_PAUSE_ROW = 11.0
_LEAST_BIN_S = 1e-12
# More steps than these would hide what they have.
_MOST_STEPS = 60


def timeline_figures(session: Session) -> tuple[document.Figure, ...]:
    """Return the timeline of each GPU that has one."""
    devices = session.timeline.devices if session.timeline is not None else ()
    keys = _keys(session, devices)
    figures = []
    for number, device in enumerate(devices):
        strip = device.strip
        if strip is None or not strip.rows or strip.bin_s < _LEAST_BIN_S:
            continue
        kinds = {row.kind for row in strip.rows}
        drawing = Drawing(
            id=f"strip-{number}",
            title=": ".join(device_fact(session, device)),
            subtitle="",
            draw=partial(_draw, strip, keys),
            height=sum(_HEIGHTS[kind] + _BETWEEN for kind in kinds),
            is_timeline=True,
        )
        pauses = "; ".join(_hover_text(pause) for pause in _shown_pauses(strip))
        alt = f"{drawing.title}. Longest pauses: {pauses}." if pauses else f"{drawing.title}."
        caption = drawing.title if len(devices) > 1 else ""
        figures.append(document.Figure(partial(figure_svg, drawing, {}), alt, (), f"figure-{drawing.id}", caption))
    return tuple(figures)


def _keys(session: Session, devices: Sequence[DeviceTimeline]) -> _Keys:
    labels = own_labels(session.kernels)
    names = {kernel.id: cut_middle(printable(labels[kernel.demangled]), _NAME) for kernel in session.kernels}
    keys: dict[int | None, tuple[str, str]] = {}
    for device in devices:
        for row in device.strip.rows if device.strip is not None else ():
            if row.kernel in names and row.kernel not in keys and len(keys) < len(_KERNEL_COLOURS):
                keys[row.kernel] = (names[row.kernel], _KERNEL_COLOURS[len(keys)])
    return keys


def _draw(strip: TimeStrip, keys: _Keys, ax: Axes, colours: Colours) -> None:
    span_s = _span_s(strip)
    ticks: dict[float, str] = {}
    base = 0.0
    for kind in reversed(list(dict.fromkeys(row.kind for row in strip.rows))):
        _draw_band([row for row in strip.rows if row.kind == kind], base, strip.bin_s, keys, ax, colours)
        ticks[base + _HEIGHTS[kind] / 2] = str(kind)
        base += _HEIGHTS[kind] + _BETWEEN
    ax.set(xlim=(0.0, span_s), ylim=(0.0, base), yticks=list(ticks), yticklabels=list(ticks.values()))
    ax.set_xlabel("time, ms")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value * 1e3:.6g}")
    for name, colour in dict.fromkeys(keys.get(row.kernel, _OTHERS) for row in strip.rows if row.kind == "kernels"):
        ax.plot([], [], linestyle="none", marker="s", color=colours[colour], label=name)
    for row, pause in enumerate(_shown_pauses(strip)):
        _draw_pause(pause, span_s, base, row, ax, colours)
    if 1 < len(strip.steps_s) <= _MOST_STEPS:
        look: dict[str, Any] = {"color": colours["ink"], "linestyle": "dotted", "linewidth": 0.8}
        ax.vlines(strip.steps_s, 0.0, base, gid="steps", label="steps begin", **look)
        ax.plot([], [], label="a step begins", **look)


def _draw_band(rows: Sequence[StripRow], base: float, bin_s: float, keys: _Keys, ax: Axes, colours: Colours) -> None:
    """Draw the rows of a kind, each on top of those before; it reaches down to the base line behind them."""
    parts = [0.0] * len(rows[0].busy)
    for number, row in enumerate(rows):
        edges: list[float] = []
        tops: list[float] = []
        for place, busy in enumerate(row.busy):
            parts[place] = min(1.0, parts[place] + busy)
            least = _LEAST_HEIGHT if parts[place] else 0.0
            top = base + max(least, round(parts[place] * _HEIGHTS[row.kind], 1))
            if not tops or top != tops[-1]:
                edges.append(place * bin_s)
                tops.append(top)
        edges.append(len(parts) * bin_s)
        name, colour = keys.get(row.kernel, _OTHERS)
        ax.stairs(
            tops, edges, baseline=base, fill=True, color=colours[_COLOURS.get(row.kind, colour)],
            zorder=3 - number / 100, gid=f"{row.kind}-{number}", label=name if row.kind == "kernels" else str(row.kind),
        )  # fmt: skip


def _draw_pause(pause: LongPause, end_s: float, top: float, row: int, ax: Axes, colours: Colours) -> None:
    """Hatch a pause and write its length and cause above it, in a row of its own."""
    muted = colours["muted"]
    edges = (pause.start_s, min(pause.start_s + pause.length_s, end_s))
    label = pause_text(pause)
    ax.stairs(
        [top], edges, fill=True, facecolor="none", edgecolor=muted, linewidth=0.0, hatch="////", zorder=2,
        gid=f"pause-{row}", label=_hover_text(pause),
    )  # fmt: skip
    middle = (edges[0] + edges[1]) / 2
    # The text stays inside the axes at their ends.
    align = ("left", "center", "right")[min(2, int(3 * middle / end_s))]
    place = dict(zip(("left", "center", "right"), (edges[0], middle, edges[1]), strict=True))[align]
    write(ax, (place, top), (0.0, 3.0 + _PAUSE_ROW * row), label, muted, ha=align, va="bottom")


def _shown_pauses(strip: TimeStrip) -> list[LongPause]:
    return [pause for pause in strip.pauses if pause.length_s >= _LEAST_PAUSE * _span_s(strip)]


def _hover_text(pause: LongPause) -> str:
    return f"{pause_text(pause)}, after {format_si(pause.start_s, 's')}"


def _span_s(strip: TimeStrip) -> float:
    return strip.bin_s * len(strip.rows[0].busy)
