"""The drawn timeline of a GPU: when its kernels, copies and exchange ran, in bins of time, with its pauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpuprof.model.field_types import StripKind
from gpuprof.model.session import LongPause, Session, StripRow, TimeStrip
from gpuprof.model.time_by import own_labels
from gpuprof.text import cut_middle
from gpuprof.units import format_si
from gpuprof.views import document
from gpuprof.views.plot import Colours, Drawing, figure_svg, write
from gpuprof.words.timeline import device_fact, pause_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The name of a kernel's row and its role of colour, by the id of the kernel.
_Keys = Mapping[int | None, tuple[str, str]]

# As many letters as a legend has room for.
_NAME = 40
_KERNEL_COLOURS = ("line-l1", "line-dram", "line-l2", "line-compute", "line-other")
_OTHERS = ("other kernels", "line-unknown")
_KINDS: Mapping[StripKind, tuple[str, str]] = {
    "graphs": ("graphs", "line-unknown"),
    "copies": ("copies", "line-latency"),
    "exchange": ("exchange", "muted"),
}
_HEIGHT = 64.0
_LOW_HEIGHT = 14.0
_BETWEEN = 6.0
# In points: any activity is visible, so that a blank is idle.
_LEAST_HEIGHT = 1.0
_TEXT_HEIGHT = 11.0
# Pauses shorter than this part of the timeline are not drawn.
_LEAST_PAUSE = 0.004
# Lines of more steps would hide the timeline.
_MOST_STEPS = 60


def timeline_figures(session: Session) -> tuple[document.Figure, ...]:
    """Return the timeline of each GPU that has one."""
    devices = session.timeline.devices if session.timeline is not None else ()
    keys = _keys(session, [row for device in devices if device.strip for row in device.strip.rows])
    figures = []
    for number, device in enumerate(devices):
        strip = device.strip
        if strip is None or not strip.rows:
            continue
        title = ": ".join(device_fact(session, device))
        bands = len({row.kind for row in strip.rows})
        drawing = Drawing(
            id=f"strip-{number}",
            title=title,
            draw=partial(_draw, strip, keys),
            height=_HEIGHT + _LOW_HEIGHT * (bands - 1) + _BETWEEN * bands,
            is_timeline=True,
        )
        alt = "; ".join([title, *map(_pause_text, strip.pauses)])
        svg = partial(figure_svg, drawing, {})
        caption = title if len(devices) > 1 else ""
        figures.append(document.Figure(svg, alt, id=f"figure-{drawing.id}", caption=caption))
    return tuple(figures)


def _keys(session: Session, rows: Sequence[StripRow]) -> _Keys:
    labels = own_labels(session.kernels)
    wholes = {kernel.id: labels[kernel.demangled] for kernel in session.kernels}
    drawn = [kernel for kernel in dict.fromkeys(row.kernel for row in rows) if kernel is not None and kernel in wholes]
    names = [cut_middle(wholes[kernel], _NAME) for kernel in drawn]
    keys: dict[int | None, tuple[str, str]] = {}
    for kernel, name, colour in zip(drawn, names, _KERNEL_COLOURS, strict=False):
        is_alone = names.count(name) == 1
        keys[kernel] = (name if is_alone else cut_middle(f"#{kernel} {wholes[kernel]}", _NAME), colour)
    return keys


def _draw(strip: TimeStrip, keys: _Keys, ax: Axes, colours: Colours) -> None:
    ticks: dict[float, str] = {}
    base = 0.0
    for kind in reversed(list(dict.fromkeys(row.kind for row in strip.rows))):
        height = _HEIGHT if kind == "kernels" else _LOW_HEIGHT
        parts = [0.0] * len(strip.rows[0].busy)
        for number, row in enumerate(row for row in strip.rows if row.kind == kind):
            # Each row stands on top of those before, and reaches down to the base line behind them.
            parts = [min(1.0, part + busy) for part, busy in zip(parts, row.busy, strict=True)]
            name, colour = _KINDS.get(kind) or keys.get(row.kernel, _OTHERS)
            edges, tops = _steps(parts, height)
            ax.stairs(
                [base + top for top in tops],
                [edge * strip.bin_s for edge in edges],
                baseline=base,
                fill=True,
                color=colours[colour],
                zorder=3 - number / 100,
                gid=f"{kind}-{number}",
                label=name,
            )
        ticks[base + height / 2] = kind
        base += height + _BETWEEN
    ax.set(xlim=(0.0, strip.bin_s * len(parts)), ylim=(0.0, base), xlabel="time, ms")
    ax.set_yticks(list(ticks), labels=list(ticks.values()))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value * 1e3:.6g}")
    for name, colour in dict.fromkeys(keys.get(row.kernel, _OTHERS) for row in strip.rows if row.kind == "kernels"):
        ax.plot([], [], linestyle="none", marker="s", color=colours[colour], label=name)
    _draw_pauses(strip, base, ax, colours["muted"])
    if 1 < len(strip.steps_s) <= _MOST_STEPS:
        ax.vlines(strip.steps_s, 0.0, base, colours["ink"], "dotted", gid="steps", label="steps begin")
        ax.plot([], [], ":", color=colours["ink"], label="a step begins")


def _draw_pauses(strip: TimeStrip, top: float, ax: Axes, colour: str) -> None:
    """Hatch pauses, and write each one's length and cause above the axes, in a row of its own."""
    least_s = _LEAST_PAUSE * strip.bin_s * len(strip.rows[0].busy)
    for number, pause in enumerate(pause for pause in strip.pauses if pause.length_s >= least_s):
        end_s = pause.start_s + pause.length_s
        ax.axvspan(
            pause.start_s,
            end_s,
            facecolor="none",
            edgecolor=colour,
            hatch="////",
            linewidth=0.0,
            gid=f"pause-{number}",
            label=_pause_text(pause),
        )
        place = ((pause.start_s + end_s) / 2, top)
        write(ax, place, (0.0, 3.0 + _TEXT_HEIGHT * number), pause_text(pause), colour, ha="center")


def _steps(parts: Sequence[float], height: float) -> tuple[list[int], list[float]]:
    """Return the edges and tops of bins, those of one height as one."""
    edges: list[int] = []
    tops: list[float] = []
    for place, part in enumerate(parts):
        top = max(_LEAST_HEIGHT, round(part * height, 1)) if part else 0.0
        if not tops or top != tops[-1]:
            edges.append(place)
            tops.append(top)
    return [*edges, len(parts)], tops


def _pause_text(pause: LongPause) -> str:
    return f"{pause_text(pause)}, after {format_si(pause.start_s, 's')}"
