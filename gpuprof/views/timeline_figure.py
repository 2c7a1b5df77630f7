"""The drawn timeline of a GPU: when its kernels, copies and exchange ran, in bins of time, with its pauses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from gpuprof.model.field_types import StripKind
from gpuprof.model.session import DeviceTimeline, Session, StripRow, TimeStrip
from gpuprof.model.time_by import own_labels
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_si, round_step
from gpuprof.views import document
from gpuprof.views.plot_files import figure_svg
from gpuprof.views.plot_values import Area, Axis, Plot, PlotLine, Sample
from gpuprof.words.timeline import device_fact, pause_text

_NAME = 44
_KERNEL_COLOURS = ("line-l1", "line-dram", "line-l2", "line-compute", "line-other")
_OTHERS = "line-unknown"
_COLOURS: Mapping[StripKind, str] = {"graphs": _OTHERS, "copies": "line-latency", "exchange": "muted"}
_HEIGHTS: Mapping[StripKind, float] = {"kernels": 64.0, "graphs": 14.0, "copies": 14.0, "exchange": 14.0}
_BETWEEN = 6.0
# What took any time can be seen, so that a blank is idle.
_LEAST_HEIGHT = 1.0
# Pauses of a smaller part of the timeline are not hatched.
_LEAST_PAUSE = 0.004
_LEAST_BIN_S = 1e-12
_MOST_TICKS = 8
# More steps than these would hide what they have.
_MOST_STEPS = 60


class _Key(NamedTuple):
    """What a kernel is called and how it is coloured."""

    name: str
    colour: str


def timeline_figures(session: Session) -> tuple[document.Figure, ...]:
    """Return the timeline of each GPU that has one."""
    devices = session.timeline.devices if session.timeline is not None else ()
    keys = _keys(session, devices)
    figures = []
    for number, device in enumerate(devices):
        strip = device.strip
        if strip is None or not strip.rows or strip.bin_s < _LEAST_BIN_S:
            continue
        plot = _plot(f"strip-{number}", strip, ": ".join(device_fact(session, device)), keys)
        caption = plot.title if len(devices) > 1 else ""
        figures.append(document.Figure(partial(figure_svg, plot, {}), plot.subtitle, (), f"figure-{plot.id}", caption))
    return tuple(figures)


def _keys(session: Session, devices: Sequence[DeviceTimeline]) -> dict[int | None, _Key]:
    """Return the names and colours of the kernels that have a row, by their id."""
    labels = own_labels(session.kernels)
    names = {kernel.id: cut_middle(printable(labels[kernel.demangled]), _NAME) for kernel in session.kernels}
    keys: dict[int | None, _Key] = {}
    for device in devices:
        for row in device.strip.rows if device.strip is not None else ():
            if row.kernel in names and row.kernel not in keys and len(keys) < len(_KERNEL_COLOURS):
                keys[row.kernel] = _Key(names[row.kernel], _KERNEL_COLOURS[len(keys)])
    return keys


def _plot(figure: str, strip: TimeStrip, title: str, keys: Mapping[int | None, _Key]) -> Plot:
    span_s = strip.bin_s * len(strip.rows[0].busy)
    kinds = list(dict.fromkeys(row.kind for row in strip.rows))
    areas: list[Area] = []
    ticks = []
    base = 0.0
    for kind in reversed(kinds):
        rows = [row for row in strip.rows if row.kind == kind]
        areas += reversed(list(_band(rows, base, strip.bin_s, keys)))
        ticks.append((base + _HEIGHTS[kind] / 2, str(kind)))
        base += _HEIGHTS[kind] + _BETWEEN
    pauses = list(_pauses(strip, span_s, base))
    keys_of_rows = [_key(row, keys) for row in strip.rows if row.kind == "kernels"]
    steps = list(_steps(strip, base))
    samples = [Sample(key.name, key.colour, "s") for key in dict.fromkeys(keys_of_rows)]
    if steps:
        samples.append(Sample("a step begins", "ink", stroke="dotted"))
    texts = "; ".join(pause.text for pause in pauses)
    step_s = round_step(span_s / _MOST_TICKS)
    moments = [place * step_s for place in range(int(span_s / step_s) + 1)]
    return Plot(
        id=figure,
        title=title,
        subtitle=f"{title}. Longest pauses: {texts}." if texts else f"{title}.",
        x=Axis("time, ms", (0.0, span_s), tuple((moment, f"{moment * 1e3:.6g}") for moment in moments)),
        y=Axis("", (0.0, base), tuple(ticks)),
        areas=(*pauses, *areas),
        lines=tuple(steps),
        samples=tuple(samples),
        height=base,
        columns=2,
    )


def _key(row: StripRow, keys: Mapping[int | None, _Key]) -> _Key:
    return keys.get(row.kernel, _Key("other kernels", _OTHERS))


def _band(rows: Sequence[StripRow], base: float, bin_s: float, keys: Mapping[int | None, _Key]) -> Iterator[Area]:
    """Yield the areas of a kind, each on top of those before; it reaches down to the base line behind them."""
    height = _HEIGHTS[rows[0].kind]
    parts = [0.0] * len(rows[0].busy)
    for number, row in enumerate(rows):
        edges: list[float] = []
        tops: list[float] = []
        for place, busy in enumerate(row.busy):
            parts[place] = min(1.0, parts[place] + busy)
            least = _LEAST_HEIGHT if parts[place] else 0.0
            top = base + max(least, round(parts[place] * height, 1))
            if not tops or top != tops[-1]:
                edges.append(place * bin_s)
                tops.append(top)
        edges.append(len(parts) * bin_s)
        key = _key(row, keys)
        colour = _COLOURS.get(row.kind, key.colour)
        text = key.name if row.kind == "kernels" else str(row.kind)
        yield Area(f"{row.kind}-{number}", tuple(edges), tuple(tops), base, colour, text=text)


def _steps(strip: TimeStrip, height: float) -> Iterator[PlotLine]:
    """Yield a line where each step begins."""
    if 1 < len(strip.steps_s) <= _MOST_STEPS:
        for number, start_s in enumerate(strip.steps_s):
            places = ((start_s, 0.0), (start_s, height))
            yield PlotLine(f"step-{number}", places, "ink", "dotted", text=f"step {number + 1} of these begins")


def _pauses(strip: TimeStrip, span_s: float, height: float) -> Iterator[Area]:
    for number, pause in enumerate(strip.pauses):
        if pause.length_s < _LEAST_PAUSE * span_s:
            continue
        edges = (pause.start_s, min(pause.start_s + pause.length_s, span_s))
        label = pause_text(pause)
        text = f"{label}, after {format_si(pause.start_s, 's')}"
        yield Area(f"pause-{number}", edges, (height,), 0.0, "muted", is_hatched=True, label=label, text=text)
