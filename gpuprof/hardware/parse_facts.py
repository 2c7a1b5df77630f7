"""Reads the facts of a spec file: values with a unit, each with a source from the file's table, and rates by path."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpuprof.hardware.specs import ACCUMULATORS, INSTRUCTIONS, PATHS, SCALAR_PATHS, ComputeKey, Fact
from gpuprof.hardware.yaml_fields import Fields, quantity, require_unit
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode

_SOURCE_KINDS = ("datasheet", "programming guide", "header", "measured", "derived", "reported")
_FACT_KEYS = {"value", "source", "confirmed", "note", "clock"}

Sources = Mapping[str, tuple[str, str]]
"""Kind and text of each source, by the name that facts give."""


def spec_fields(node: YamlNode, what: str, known: Collection[str]) -> Fields:
    """Return the fields of a mapping of a spec file."""
    return Fields(node, what, known, within="")


def parse_sources(top: Fields) -> Sources:
    """Read the table `sources`."""
    sources = {}
    for name, node in top.mapping("sources").items():
        entry = spec_fields(node, f"source {name}", {"kind", "text"})
        sources[name] = (entry.choice("kind", _SOURCE_KINDS), entry.text("text"))
    return sources


def parse_facts(top: Fields, key: str, sources: Sources, units: Mapping[str, str]) -> dict[str, Fact]:
    """Read a table of facts. `units` has those that may stand there, and their units."""
    facts = {}
    for name, node in top.mapping(key).items():
        if name not in units:
            raise BrokenSpec(node.place, f"unknown fact {name!r}; known: {', '.join(sorted(units))}")
        facts[name] = _fact(node, name, sources, units[name])
    return facts


def _fact(node: YamlNode, name: str, sources: Sources, expected: str) -> Fact:
    entry = spec_fields(node, name, _FACT_KEYS)
    source_id = entry.text("source")
    if source_id not in sources:
        raise BrokenSpec(node.place, f"source {source_id!r} of {name} is not in the sources table")
    if "value" not in entry:
        raise BrokenSpec(node.place, f"{name} has no value")
    kind, source = sources[source_id]
    values, unit = _values(entry.required("value"), name)
    require_unit(unit, expected, name, node)
    if len(values) > 1 and name != "shared_carveouts":
        raise BrokenSpec(node.place, f"{name} must be one value")
    return Fact(
        value=values[-1],
        unit=unit,
        source=source,
        kind=kind,
        place=node.place,
        confirmed=entry.flag("confirmed", default=True),
        note=entry.text_or_null("note"),
        clock_hz=positive(entry, "clock", "Hz") if "clock" in entry else None,
        values=values if len(values) > 1 else (),
    )


def _values(node: YamlNode, name: str) -> tuple[tuple[float, ...], str]:
    quantities = [quantity(item, name) for item in node.entries()]
    units = {value.unit for value in quantities}
    if len(units) != 1:
        raise BrokenSpec(node.place, f"{name} must be in one unit")
    return tuple(value.value for value in quantities), units.pop()


def positive(entry: Fields, key: str, unit: str) -> float:
    """Read one amount above zero."""
    value = entry.amount(key, unit)
    if value <= 0:
        raise BrokenSpec(entry.place(key), f"{key} must be one number above zero")
    return value


def parse_rates(top: Fields, sources: Sources, table: str = "compute") -> dict[ComputeKey, Fact | None]:
    """Read a table of rates per clock and SM; None removes a rate of the architecture."""
    rates: dict[ComputeKey, Fact | None] = {}
    for text, node in top.mapping(table).items():
        key = parse_compute_key(text, node, instruction=True)
        unit = "OP/clk/SM" if "int" in key.path else "FLOP/clk/SM"
        rates[key] = None if node.value is None else _rate(node, text, sources, unit)
    return rates


def parse_rated(top: Fields, sources: Sources) -> dict[ComputeKey, Fact]:
    """Read the table `rated`: peaks per second, each of a compute path at the clock that it implies."""
    rated = {}
    for text, node in top.mapping("rated").items():
        if text == "dram":
            rated[ComputeKey("dram")] = _rate(node, text, sources, "B/s")
            continue
        key = parse_compute_key(text, node, instruction=False)
        fact = _rate(node, text, sources, "OP/s" if "int" in key.path else "FLOP/s")
        if fact.clock_hz is None:
            raise BrokenSpec(node.place, f"rated {text} must name the clock it implies")
        rated[key] = fact
    return rated


def _rate(node: YamlNode, name: str, sources: Sources, unit: str) -> Fact:
    fact = _fact(node, name, sources, unit)
    if fact.value <= 0:
        raise BrokenSpec(node.place, f"{name} must be above zero; leave out what is not known or does not exist")
    return fact


def parse_compute_key(text: str, node: YamlNode, *, instruction: bool) -> ComputeKey:
    """Read "fp32" or "tensor.fp16 fp32 mma.sync" (without the instruction for rated peaks)."""
    path, *rest = text.split() or [""]
    if path not in PATHS:
        raise BrokenSpec(node.place, f"{text!r} is not a compute path; known: {', '.join(PATHS)}")
    if path in SCALAR_PATHS:
        if rest:
            raise BrokenSpec(node.place, f"{path} takes no accumulator")
        return ComputeKey(path)
    options = (ACCUMULATORS, INSTRUCTIONS) if instruction else (ACCUMULATORS,)
    if len(rest) != len(options) or any(part not in allowed for part, allowed in zip(rest, options, strict=True)):
        form = "PATH ACCUMULATOR INSTRUCTION" if instruction else "PATH ACCUMULATOR"
        raise BrokenSpec(node.place, f"{text!r} is not of the form {form}")
    return ComputeKey(path, *rest)
