"""The reference of the probes: for each what it measures, how, and what would make it lie, from its own files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.characterize.probes.probe import Condition, Expected, PhysicalLimit, Probe
from gpuprof.units import format_percent, significant

INTRO = """What `gpuprof characterize` runs, by family. A probe is two files in `microkernels/`, a kernel and its
description; this page is made from them. [Measuring](../explanation/measuring.md) tells how a time becomes a value with
a verdict.

- **Limit**: what bounds the result physically. A value above 1.005 × of it is rejected.
- **Published**: what others have measured, in the unit of the result or as a share of the limit. A value outside is
  told, with the likely cause; it is not rejected.
"""
_LABELS = {"Mechanism": "Mechanism", "Formula": "Formula", "What would make it lie": "Would lie by"}
_SENTENCE = re.compile(r"^(Mechanism|Formula|What would make it lie): ")


def probes_page() -> str:
    """Return the page."""
    probes = load_probes(probe_folder())
    return "\n".join(["# Probes\n", INTRO, *_families(probes)]) + "\n"


def _families(probes: tuple[Probe, ...]) -> Iterator[str]:
    for family, members in groupby(probes, lambda probe: probe.family):
        yield f"## {family}\n"
        for probe in members:
            yield from _probe(probe)


def _probe(probe: Probe) -> Iterator[str]:
    yield f"### {probe.id}\n"
    yield f"{probe.title}.\n"
    yield f"- **Result**: {probe.quantity} in {probe.unit}; targets {_targets(probe)}"
    header = _header(probe.kernel.source) if probe.kernel is not None else {}
    for word, label in _LABELS.items():
        if word in header:
            yield f"- **{label}**: {header[word]}"
    if probe.limits:
        yield f"- **Limit**: {'; '.join(dict.fromkeys(_limit(limit) for limit in probe.limits))}"
    for expected in probe.expected:
        where = _where(expected.condition, expected.products)
        yield f"- **Published**: {_range(expected, probe.unit)}{where} ({expected.source})"
    yield ""


def _targets(probe: Probe) -> str:
    return ", ".join(target.removeprefix("sm_") for target in probe.targets)


def _header(source: Path) -> dict[str, str]:
    """Return the parts of the comment at the head of a kernel's file."""
    parts: dict[str, str] = {}
    part = "what"
    for line in source.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//"):
            break
        text = line.removeprefix("//").strip()
        sentence = _SENTENCE.match(text)
        if sentence:
            part, text = sentence[1], text[sentence.end() :]
        parts[part] = f"{parts.get(part, '')} {text}".strip()
    return parts


def _limit(limit: PhysicalLimit) -> str:
    bound = str(limit.compute) if limit.compute is not None else limit.bandwidth
    if bound is None:
        bound = f"{significant(limit.rate)}: {limit.source}" if limit.rate is not None else limit.operation or ""
    bound = bound if limit.fraction == 1 else f"{format_percent(limit.fraction)} of {bound}"
    bound += _where(limit.condition)
    return (
        bound if limit.floor is None else f"{bound}; believed from {format_percent(limit.floor)} of it on: {limit.why}"
    )


def _range(expected: Expected, unit: str) -> str:
    if expected.of_limit:
        return f"{format_percent(expected.low)} to {format_percent(expected.high)} of the limit"
    return f"{significant(expected.low)} to {significant(expected.high)} {unit}"


def _where(condition: Condition, products: tuple[str, ...] = ()) -> str:
    where = [*products, *(target.removeprefix("sm_") for target in condition.targets)]
    where += [f"{name} {', '.join(values)}" for name, values in condition.values]
    return f" on {', '.join(where)}" if where else ""
