"""The curves of a measured file as figures: which belong together, their axes, reference lines and laws."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.characterize.maths.fit import LineFit, conflict_line
from gpuprof.characterize.present.page.curve_plot import (
    CurveAxis,
    CurvePlot,
    PlottedSeries,
    ReferenceLine,
    curve_drawing,
)
from gpuprof.characterize.present.view import family_of, family_title, probe_of, variant_of
from gpuprof.characterize.present.words import SI_UNITS, amount, plural
from gpuprof.characterize.results.names import NEAR_PEAK
from gpuprof.characterize.sheet.measured import LOWER_IS_BETTER, Curve, Measured
from gpuprof.units import significant
from gpuprof.views.plot import Drawing

CONFLICTS = "bank-conflict"
_SIZE = re.compile(r"-\d+$")
_BYTES = ("size", "span", "stride")
"""Axes that a probe names after what it varies; all of them are bytes."""
_OF_BYTES = re.compile(r" of \d+ bytes\b")
_MOST_LINES = 6
_BEYOND = 1.05
"""A value that lies further outside of the points is no place on their axis: a slope has the unit of its height."""
_LISTED = 120
_STEPS = 48
_SMALLEST, _LARGEST = 1e-30, 1e30
_SCALED = ("B", *SI_UNITS)
"""Units that stand beside the number of a tick because their prefix changes; others are named once at the axis."""
_WIDE = 100.0
"""What spans more than two decades is drawn on a logarithmic axis."""
_TALL = 6.0
"""So is the height over a logarithmic width: a law of proportion is a straight line only there."""
_LOG_MARGIN, _LINEAR_MARGIN = 1.12, 0.06
_DESCRIBED = 7


class CurveFigure(Struct, frozen=True):
    """One figure: its title, the drawing, what is to be said of its laws, and its points as rows of text."""

    title: str
    name: str
    drawing: Drawing
    notes: tuple[str, ...]
    rows: tuple[tuple[str, str, str], ...]


class _Group(NamedTuple):
    """Curves that share a figure: those of one probe, or of probes whose names differ in a size only."""

    stem: str
    units: tuple[str, str]
    curves: Mapping[str, Curve]


def figures(measured: Measured, titles: Mapping[str, str]) -> dict[str, tuple[CurveFigure, ...]]:
    """Return the figures of each family."""
    families: dict[str, list[CurveFigure]] = {}
    for number, group in enumerate(_groups(measured.curves)):
        figure = _figure(group, f"curve-{number}", measured, titles)
        families.setdefault(family_of(group.stem), []).append(figure)
    return {family: tuple(drawn) for family, drawn in families.items()}


def _groups(curves: Mapping[str, Curve]) -> Iterator[_Group]:
    members: dict[tuple[str, str, str], dict[str, Curve]] = {}
    for name, curve in curves.items():
        x_unit = "B" if curve.x_unit.lower() in _BYTES else curve.x_unit
        drawn = Curve(x_unit, curve.y_unit, tuple(sorted(filter(_drawable, curve.points))))
        if drawn.points:
            key = (_SIZE.sub("", probe_of(name)), drawn.x_unit, drawn.y_unit)
            members.setdefault(key, {})[name] = drawn
    for (stem, x_unit, y_unit), group in members.items():
        yield _Group(stem, (x_unit, y_unit), group)


def _drawable(point: tuple[float, float]) -> bool:
    """Tell whether an axis can hold a point: what is beyond these powers of ten was not measured."""
    return all(value == 0 or _SMALLEST < abs(value) < _LARGEST for value in point)


def _figure(group: _Group, name: str, measured: Measured, titles: Mapping[str, str]) -> CurveFigure:
    conflict = family_of(group.stem) == CONFLICTS
    columns = () if conflict else _reference_lines(group, measured, 0)
    near = () if conflict else _near_peak(group, measured)
    levels = () if conflict else _reference_lines(group, measured, 1)
    fits = {curve: _fitted(points) for curve, points in group.curves.items()} if conflict else {}
    series = [_series(curve, points, group, fits.get(curve)) for curve, points in group.curves.items()]
    law = _littles_law(group, columns, levels)
    if law:
        text = f"Little’s law, min({levels[0].text}, x ÷ latency), with its knee at {columns[0].text}"
        series[0] = replace(series[0], law=law, law_text=text)
    xs, ys = zip(*(point for line in series for point in (*line.points, *line.law)), strict=True)
    widest = 0.0 if group.units[0] == "B" else _WIDE
    x = _axis([*xs, *(line.value for line in (*columns, *near))], group.units[0], widest)
    y = _axis([*ys, *(line.value for line in levels)], group.units[1], _TALL if x.base else math.inf)
    title = _title(group, titles)
    ends = "; ".join(f"{line.titles[0]}, {line.titles[-1]}" for line in series[:_DESCRIBED])
    return CurveFigure(
        title=title,
        name=group.stem,
        drawing=curve_drawing(CurvePlot(x, y, series, (*columns, *near), levels), name, f"{title}: {ends}"),
        notes=(*_notes(series, fits), *_near_notes(near)),
        rows=_rows(series, group.units),
    )


def _axis(values: Sequence[float], unit: str, widest: float) -> CurveAxis:
    """Return an axis with room for all values, logarithmic if they span more than the factor `widest`."""
    low, high = min(values), max(values)
    is_scaled = unit in _SCALED
    named, tick = "" if is_scaled else plural(unit), partial(_tick, unit if is_scaled else "")
    if low > 0.0 and high > widest * low:
        return CurveAxis(named, tick, low / _LOG_MARGIN, high * _LOG_MARGIN, 2 if unit == "B" else 10)
    low, high = min(0.0, low), max(0.0, high)
    return CurveAxis(named, tick, low, high + ((high - low) * _LINEAR_MARGIN or 1.0))


def _tick(unit: str, value: float, _: object) -> str:
    number, _, scaled = amount(value, unit).partition(" ")
    return f"{float(number):g} {scaled}".rstrip()


def _title(group: _Group, titles: Mapping[str, str]) -> str:
    """Return the title of the probes if they have one in common, sizes left out, else their name."""
    probes = list(dict.fromkeys(map(probe_of, group.curves)))
    known = {titles.get(probe, "") for probe in probes}
    if len(known) > 1:
        known = {_OF_BYTES.sub("", title) for title in known}
    common = known.pop() if len(known) == 1 else ""
    return common or f"{family_title(family_of(group.stem))}: {group.stem.partition('/')[2] or group.stem}"


def _label(name: str, group: _Group) -> str:
    """Return what tells a curve from the others of its figure."""
    if len(group.curves) == 1:
        return ""
    several = len({probe_of(other) for other in group.curves}) > 1
    own = probe_of(name).partition("/")[2] or name
    return f"{own} {variant_of(name)}".strip() if several else variant_of(name) or own


def _reference_lines(group: _Group, measured: Measured, axis: int) -> tuple[ReferenceLine, ...]:
    """Return the values of these probes that lie on an axis: a capacity, a knee, a peak. Equal ones once.

    What 95 % of the peak takes is none of them: it is drawn apart from the knee.
    """
    covered = [point[axis] for curve in group.curves.values() for point in curve.points]
    values: dict[str, float] = {}
    for name, value in _values(group, measured, axis):
        inside = min(covered) <= value * _BEYOND and value <= max(covered) * _BEYOND
        if inside and not name.endswith(NEAR_PEAK):
            values.setdefault(amount(value, group.units[axis]), value)
    return tuple(ReferenceLine(value, text) for text, value in values.items()) if len(values) <= _MOST_LINES else ()


def _near_peak(group: _Group, measured: Measured) -> tuple[ReferenceLine, ...]:
    """Return what 95 % of the peak takes, as it is marked on the figure of these probes."""
    values = (value for name, value in _values(group, measured, 0) if name.endswith(NEAR_PEAK))
    return tuple(ReferenceLine(value, f"95 %: {amount(value, group.units[0])}") for value in values)


def _values(group: _Group, measured: Measured, axis: int) -> Iterator[tuple[str, float]]:
    """Yield the usable values of these probes that have the unit of an axis."""
    probes, unit = {probe_of(name) for name in group.curves}, group.units[axis]
    for name, value in measured.values.items():
        if unit and probe_of(name) in probes and value.unit == unit and value.usable and value.value:
            yield name, value.value


def _near_notes(near: Sequence[ReferenceLine]) -> Iterator[str]:
    for line in near:
        share, _, where = line.text.partition(": ")
        yield f"{share} of the peak needs {where}: plan with this number, as the curve is round at the knee."


def _fitted(curve: Curve) -> LineFit | None:
    """Return the line through cycles against the degree of a conflict; None where the points determine none."""
    try:
        return conflict_line(curve.points)
    except ValueError:
        return None


def _series(name: str, curve: Curve, group: _Group, fitted: LineFit | None) -> PlottedSeries:
    """Return a curve; that of a bank conflict with its line."""
    label = _label(name, group)
    titles = (f"{amount(y, group.units[1])} at {amount(x, group.units[0])}" for x, y in curve.points)
    series = PlottedSeries(label, curve.points, tuple(f"{label}: {title}" if label else title for title in titles))
    if family_of(group.stem) != CONFLICTS:
        return replace(series, is_joined=_in_a_row(curve))
    series = replace(series, law_text=_fit_text(fitted, group.units))
    if fitted is None:
        return series
    ends = (curve.points[0][0], curve.points[-1][0])
    law = tuple((x, fitted.intercept + fitted.slope * x) for x in ends)
    return replace(series, law=law, is_joined=False)


def _in_a_row(curve: Curve) -> bool:
    """Tell whether points follow each other: not where an x has several, and SMs are in no order."""
    return curve.x_unit != "SM" and all(before < after for (before, _), (after, _) in pairwise(curve.points))


def _littles_law(
    group: _Group, columns: Sequence[ReferenceLine], levels: Sequence[ReferenceLine]
) -> tuple[tuple[float, float], ...]:
    """Return min(peak, x ÷ latency) over a whole figure, by its knee and its peak; empty where it has not one of each.

    Latencies and times do not rise to a peak.
    """
    xs = [x for curve in group.curves.values() for x, _ in curve.points]
    low, high = min(xs), max(xs)
    if len(columns) != 1 or len(levels) != 1 or group.units[1] in LOWER_IS_BETTER or low <= 0:
        return ()
    knee, peak = columns[0].value, levels[0].value
    steps = (low * (high / low) ** (index / _STEPS) for index in range(_STEPS + 1))
    return tuple((x, min(peak, peak * x / knee)) for x in sorted({*steps, min(max(low, knee), high)}))


def _notes(series: Sequence[PlottedSeries], fits: Mapping[str, LineFit | None]) -> Iterator[str]:
    """Say what the dotted lines are, or why there is none."""
    if len(fits) > 1:
        laws = "; ".join(f"{line.label}: {line.law_text}" for line in series)
        yield f"Dotted: the straight line that fits the points of each. {laws}."
    elif series[0].law_text:
        text = series[0].law_text
        fitted = all(fit is not None and fit.misfit is None for fit in fits.values())
        yield f"Dotted: {text}." if fitted else f"{text[:1].upper()}{text[1:]}."


def _fit_text(fitted: LineFit | None, units: tuple[str, str]) -> str:
    """Write the line of a bank conflict: "1.00 cycles per way + 0.500"; or why there is none."""
    if fitted is None:
        return "too few points for a line"
    if fitted.misfit is not None:
        return fitted.misfit
    slope = f"{amount(fitted.slope, units[1])} per {units[0].removesuffix('s') or 'step'}"
    return f"{slope} {'+' if fitted.intercept >= 0 else '-'} {significant(abs(fitted.intercept))}"


def _rows(series: Sequence[PlottedSeries], units: tuple[str, str]) -> tuple[tuple[str, str, str], ...]:
    """Return the points as text; none where they are too many to read."""
    rows = tuple((line.label, amount(x, units[0]), amount(y, units[1])) for line in series for x, y in line.points)
    return rows if len(rows) <= _LISTED else ()
