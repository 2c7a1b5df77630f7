"""A measured file, and two of them side by side, as JSON: keys that hold the unit, `null` for what is missing.

What stands in the file has the keys and the order of its fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from gpuprof.characterize.present.view import AssessedValue, View, family_of, normal_sentence, probe_of
from gpuprof.characterize.sheet.measured import Curve, Measured, MeasuredValue
from gpuprof.characterize.sheet.normal import Assessment, Published
from gpuprof.characterize.sheet.side_by_side import ComparedValue, differences, side_by_side

SCHEMA_VERSION = 1
_ONE_LINE_EACH = ("values", "curves", "rows", "differences")

Document = dict[str, object]


def measured_lines(view: View) -> Iterator[str]:
    """Yield a measured file with its assessment. Amounts are in base units; `unit` beside a value is its own."""
    measured = view.measured
    return _lines(
        {
            "schema_version": SCHEMA_VERSION,
            "kind": "measured",
            "name": measured.name,
            "spec": measured.spec,
            "normal": normal_sentence(view),
            "device": asdict(measured.device),
            "conditions": asdict(measured.conditions),
            "values": [_entry(entry) for entry in view.entries],
            "curves": [_curve(name, curve) for name, curve in measured.curves.items()],
        }
    )


def comparison_lines(base: Measured, new: Measured) -> Iterator[str]:
    """Yield two measured files side by side."""
    return _lines(
        {
            "schema_version": SCHEMA_VERSION,
            "kind": "measured-comparison",
            "base": _of(base),
            "new": _of(new),
            "differences": [condition._asdict() for condition in differences(base, new)],
            "rows": [_row(row) for row in side_by_side(base, new)],
        }
    )


def _lines(document: Mapping[str, object]) -> Iterator[str]:
    """Yield a document, a line for each value, curve, row and difference. Only ASCII, which steers no terminal."""
    yield "{"
    *_, last = document
    for key, content in document.items():
        comma = "," if key != last else ""
        if key in _ONE_LINE_EACH and isinstance(content, list) and content:
            yield f"  {json.dumps(key)}: ["
            yield from (f"    {_dump(item)}{',' if item is not content[-1] else ''}" for item in content)
            yield f"  ]{comma}"
        else:
            yield f"  {json.dumps(key)}: {_dump(content)}{comma}"
    yield "}"


def _dump(content: object) -> str:
    return json.dumps(content, allow_nan=False)


def _entry(entry: AssessedValue) -> Document:
    return {
        "name": entry.name,
        "family": entry.family,
        "probe": probe_of(entry.name),
        "title": entry.title,
        **asdict(entry.value),
        "assessment": _assessment(entry.assessment),
    }


def _assessment(assessment: Assessment) -> Document:
    return {
        "normal": assessment.word,
        "of_limit": assessment.of_limit,
        "of_rated": assessment.of_rated,
        "published": _published(assessment.expected),
        "causes": list(assessment.causes),
        "chosen_over": list(assessment.chosen_over),
        "passed_over_for": assessment.passed_over_for,
        "of_best": assessment.of_best,
    }


def _published(expected: Published | None) -> Document | None:
    """Return the range, which an assessment holds in the unit of its value."""
    if expected is None:
        return None
    return {"low": expected.low, "high": expected.high, "source": expected.source}


def _curve(name: str, curve: Curve) -> Document:
    return {"name": name, "family": family_of(name), "probe": probe_of(name), **asdict(curve)}


def _of(measured: Measured) -> Document:
    return {"name": measured.name, "device": asdict(measured.device), "conditions": asdict(measured.conditions)}


def _row(row: ComparedValue) -> Document:
    return {
        "name": row.name,
        "family": family_of(row.name),
        "base": _side(row.base),
        "new": _side(row.new),
        "ratio": row.ratio,
        "ratio_per_clock": row.per_clock,
        "verdict": row.word,
    }


def _side(value: MeasuredValue | None) -> Document | None:
    if value is None:
        return None
    return {
        "value": value.value,
        "unit": value.unit,
        "low": value.low,
        "high": value.high,
        "verdict": value.verdict,
        "clock_hz": value.evidence.clock_hz,
    }
