"""From a YAML tree to typed specs. Anything unknown, missing or unsourced is an error at its file and line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gpuprof.hardware.specs import (
    ACCUMULATORS,
    INSTRUCTIONS,
    PATHS,
    SCALAR_PATHS,
    ArchSpec,
    Chain,
    ComputeKey,
    CounterLink,
    Fact,
    GpuSpec,
    Match,
)
from gpuprof.hardware.yaml_tree import BrokenSpec, FileLine, YamlNode
from gpuprof.units import parse_quantity

SOURCE_KINDS = ("datasheet", "programming guide", "header", "measured", "derived", "reported")
HOWS = (
    "total", "product", "per-second", "per-sm-cycle", "per-dram-cycle", "thread-opcodes", "tensor-opcodes",
    "percent-of-peak",
)  # fmt: skip
BASES = ("counted", "derived", "estimated")

_ARCH_KEYS = {
    "schema", "kind", "name", "base", "compute_capability", "family", "chips", "ncu_chip", "compile",
    "sources", "limits", "compute", "operations", "bandwidth", "counters", "stalls",
}  # fmt: skip
_GPU_KEYS = {"schema", "kind", "name", "title", "arch", "sources", "match", "facts", "rated", "compute"}
_FACT_KEYS = {"value", "source", "confirmed", "note", "clock"}
_PCI_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
ARCH_NAME = re.compile(r"sm_[0-9]{2,4}[a-z]?")

GPU_FACTS = {
    "sm_count": "SM", "base_clock": "Hz", "boost_clock": "Hz", "memory_size": "B", "memory_bus": "bit",
    "memory_rate": "bit/s", "memory_clock": "Hz", "l2_size": "B", "l2_bandwidth": "B/clk", "power_limit": "W",
    "host_link": "B/s",
}  # fmt: skip
LIMITS = {
    "threads_per_warp": "thread", "threads_per_block": "thread", "sub_partitions": "scheduler",
    "registers_per_sm": "register", "registers_per_block": "register", "registers_per_thread": "register",
    "register_allocation_unit": "register", "warp_allocation_granularity": "warp", "warps_per_sm": "warp",
    "threads_per_sm": "thread", "blocks_per_sm": "block", "blocks_per_cluster": "block",
    "static_shared_per_block": "B", "shared_per_sm": "B", "shared_per_block_optin": "B",
    "shared_reserved_per_block": "B", "shared_allocation_unit": "B", "l1_and_shared_per_sm": "B",
    "shared_carveouts": "B", "tensor_memory_per_sm": "B",
}  # fmt: skip
NEEDED_LIMITS = (
    "threads_per_warp", "sub_partitions", "registers_per_sm", "register_allocation_unit", "warps_per_sm",
    "blocks_per_sm", "shared_per_sm", "shared_allocation_unit",
)  # fmt: skip
"""What occupancy is computed from: an architecture without one of them is no architecture."""
OPERATIONS = {
    "int32.multiply-add": "result/clk/SM", "special-function": "result/clk/SM", "shuffle": "result/clk/SM",
    "load-store": "lane/clk/SM",
}  # fmt: skip
BANDWIDTHS = {"shared": "B/clk/SM", "l1": "B/clk/SM", "l2": "B/clk/SM"}


def parse_arch(tree: YamlNode, *, generic: bool = False) -> ArchSpec:
    """Turn a merged arch tree into an ArchSpec. Raises BrokenSpec at the first broken rule.

    `generic` allows the shared base, which is no architecture of its own.
    """
    top = _top(tree, "arch", _ARCH_KEYS)
    sources = _sources(top)
    limits = _facts(top.get("limits"), sources, LIMITS)
    if not generic:
        _require_limits(limits, top.get("limits", tree))
    return ArchSpec(
        name=_text(top, "name", tree) if generic else _arch_name(top, "name", tree),
        compute_capability="" if generic else _text(top, "compute_capability", tree),
        family="unknown" if generic else _text(top, "family", tree),
        chips=_texts(top.get("chips")),
        ncu_chip=_optional_text(top, "ncu_chip"),
        target=_sourced_target(tree, sources),
        limits=limits,
        compute=_without_none(_compute(top.get("compute"), sources, instruction=True)),
        operations=_facts(top.get("operations"), sources, OPERATIONS),
        bandwidth=_facts(top.get("bandwidth"), sources, BANDWIDTHS),
        stalls=_texts(top.get("stalls")),
        counters=_counters(top.get("counters")),
        file=tree.place.file,
    )


def compile_target(tree: YamlNode) -> str | None:
    """Return the target that kernels for an architecture are compiled for, or None. Raises BrokenSpec.

    It is that of the file itself: a target is of one architecture, and none comes from a base.
    """
    top = tree.mapping("a spec file")
    node = top.get("compile")
    if node is None or node.value is None or node.place.file != tree.place.file:
        return None
    entry = node.mapping("compile")
    _refuse_unknown(entry, {"target", "source"})
    name, target = _arch_name(top, "name", tree), _text(entry, "target", node)
    if target not in {name, f"{name}a"}:
        raise BrokenSpec(entry["target"].place, f"target {target!r} is neither {name} nor {name}a")
    _text(entry, "source", node)
    return target


def _sourced_target(tree: YamlNode, sources: Mapping[str, tuple[str, str]]) -> str | None:
    target = compile_target(tree)
    if target is not None:
        source = tree.mapping("a spec file")["compile"].mapping("compile")["source"]
        if source.value not in sources:
            raise BrokenSpec(source.place, f"source {source.value!r} of compile is not in the sources table")
    return target


def parse_gpu(tree: YamlNode) -> GpuSpec:
    """Turn a product tree into a GpuSpec. Raises BrokenSpec at the first broken rule."""
    top = _top(tree, "gpu", _GPU_KEYS)
    sources = _sources(top)
    facts = _facts(top.get("facts"), sources, GPU_FACTS)
    if "sm_count" not in facts:
        raise BrokenSpec(tree.place, "facts must give sm_count")
    _whole(facts["sm_count"].value, facts["sm_count"].place)
    return GpuSpec(
        name=_text(top, "name", tree),
        title=_text(top, "title", tree),
        arch=_arch_name(top, "arch", tree),
        match=_match(top.get("match")),
        facts=facts,
        rated=_rated(top.get("rated"), sources),
        compute=_compute(top.get("compute"), sources, instruction=True),
        file=tree.place.file,
        place=tree.place,
    )


def _top(tree: YamlNode, kind: str, known: set[str]) -> Mapping[str, YamlNode]:
    top = tree.mapping("a spec file")
    _refuse_unknown(top, known)
    if _text(top, "schema", tree) != "1":
        raise BrokenSpec(top["schema"].place, f"schema {top['schema'].value} is not known; this gpuprof reads schema 1")
    if _text(top, "kind", tree) != kind:
        raise BrokenSpec(top["kind"].place, f"kind must be {kind}")
    return top


def _refuse_unknown(mapping: Mapping[str, YamlNode], known: set[str]) -> None:
    for key, node in mapping.items():
        if key not in known:
            raise BrokenSpec(node.place, f"unknown key {key!r}; known: {', '.join(sorted(known))}")


def _text(mapping: Mapping[str, YamlNode], key: str, parent: YamlNode) -> str:
    node = mapping.get(key)
    if node is None:
        raise BrokenSpec(parent.place, f"{key} is missing")
    text = node.text(key).strip()
    if not text or text.upper() in {"TODO", "TBD", "FIXME", "?", "XXX"}:
        raise BrokenSpec(node.place, f"{key} is a placeholder: {text!r}")
    return text


def _arch_name(mapping: Mapping[str, YamlNode], key: str, parent: YamlNode) -> str:
    name = _text(mapping, key, parent)
    if not ARCH_NAME.fullmatch(name):
        raise BrokenSpec(mapping[key].place, f"{key} {name!r} is not of the form sm_90")
    return name


def _optional_text(mapping: Mapping[str, YamlNode], key: str) -> str | None:
    node = mapping.get(key)
    return node.text(key) if node is not None and node.value is not None else None


def _texts(node: YamlNode | None) -> tuple[str, ...]:
    return tuple(item.text("an item") for item in node.sequence("this")) if node is not None else ()


def _require_limits(limits: Mapping[str, Fact], node: YamlNode) -> None:
    for name in NEEDED_LIMITS:
        if name not in limits:
            raise BrokenSpec(node.place, f"limits lack {name}")
        if limits[name].value <= 0:
            raise BrokenSpec(limits[name].place, f"{name} must be above zero")


def _sources(top: Mapping[str, YamlNode]) -> dict[str, tuple[str, str]]:
    sources: dict[str, tuple[str, str]] = {}
    for name, node in top["sources"].mapping("sources").items() if "sources" in top else ():
        entry = node.mapping(f"source {name}")
        _refuse_unknown(entry, {"kind", "text"})
        kind = _text(entry, "kind", node)
        if kind not in SOURCE_KINDS:
            raise BrokenSpec(node.place, f"source kind {kind!r} is not one of {', '.join(SOURCE_KINDS)}")
        sources[name] = (kind, _text(entry, "text", node))
    return sources


def _facts(node: YamlNode | None, sources: Mapping[str, tuple[str, str]], units: Mapping[str, str]) -> dict[str, Fact]:
    if node is None:
        return {}
    facts = {}
    for name, child in node.mapping("this").items():
        if name not in units:
            raise BrokenSpec(child.place, f"unknown fact {name!r}; known: {', '.join(sorted(units))}")
        facts[name] = _fact(child, name, sources, units[name])
    return facts


def _fact(node: YamlNode, name: str, sources: Mapping[str, tuple[str, str]], expected: str) -> Fact:
    entry = node.mapping(name)
    _refuse_unknown(entry, _FACT_KEYS)
    source_id = _text(entry, "source", node)
    if source_id not in sources:
        raise BrokenSpec(node.place, f"source {source_id!r} of {name} is not in the sources table")
    kind, source = sources[source_id]
    if "value" not in entry:
        raise BrokenSpec(node.place, f"{name} has no value")
    values, unit = _values(entry["value"], name)
    _require_unit(unit, expected, name, node)
    if len(values) > 1 and name != "shared_carveouts":
        raise BrokenSpec(node.place, f"{name} must be one value")
    return Fact(
        value=values[-1],
        unit=unit,
        source=source,
        kind=kind,
        place=node.place,
        confirmed=_flag(entry.get("confirmed")),
        note=_optional_text(entry, "note"),
        clock_hz=_clock(entry.get("clock")),
        values=values if len(values) > 1 else (),
    )


def _values(node: YamlNode, name: str) -> tuple[tuple[float, ...], str]:
    items = node.value if isinstance(node.value, tuple) else (node,)
    quantities = []
    for item in items:
        try:
            quantities.append(parse_quantity(item.text(name)))
        except ValueError as error:
            raise BrokenSpec(item.place, f"{name}: {error}") from error
    units = {quantity.unit for quantity in quantities}
    if len(units) != 1:
        raise BrokenSpec(node.place, f"{name} must be in one unit")
    if any(quantity.value < 0 for quantity in quantities):
        raise BrokenSpec(node.place, f"{name} is negative")
    if not all(math.isfinite(quantity.value) for quantity in quantities):
        raise BrokenSpec(node.place, f"{name} is too large for a number")
    return tuple(quantity.value for quantity in quantities), units.pop()


def _flag(node: YamlNode | None) -> bool:
    if node is None:
        return True
    text = node.text("confirmed")
    if text not in {"true", "false"}:
        raise BrokenSpec(node.place, "confirmed must be true or false")
    return text == "true"


def _clock(node: YamlNode | None) -> float | None:
    if node is None:
        return None
    return _positive(node, "clock", "Hz")


def _positive(node: YamlNode, name: str, expected: str) -> float:
    values, unit = _values(node, name)
    _require_unit(unit, expected, name, node)
    if len(values) != 1 or values[0] <= 0:
        raise BrokenSpec(node.place, f"{name} must be one number above zero")
    return values[0]


def _require_unit(unit: str, expected: str, name: str, node: YamlNode) -> None:
    if unit != expected:
        raise BrokenSpec(node.place, f"{name} is in {unit or 'no unit'}; expected {expected}")


def _whole(value: float, place: FileLine) -> int:
    if value < 1 or value != round(value):
        raise BrokenSpec(place, f"sm_count must be a whole number of SMs, not {value:g}")
    return round(value)


def parse_compute_key(text: str, node: YamlNode, *, instruction: bool) -> ComputeKey:
    """Read "fp32" or "tensor.fp16 fp32 mma.sync" (without the instruction for rated peaks)."""
    parts = text.split()
    if not parts or parts[0] not in PATHS:
        raise BrokenSpec(node.place, f"{text!r} is not a compute path; known: {', '.join(PATHS)}")
    if parts[0] in SCALAR_PATHS:
        if len(parts) != 1:
            raise BrokenSpec(node.place, f"{parts[0]} takes no accumulator")
        return ComputeKey(parts[0])
    wanted = 3 if instruction else 2
    if len(parts) != wanted or parts[1] not in ACCUMULATORS or (instruction and parts[2] not in INSTRUCTIONS):
        form = "PATH ACCUMULATOR INSTRUCTION" if instruction else "PATH ACCUMULATOR"
        raise BrokenSpec(node.place, f"{text!r} is not of the form {form}")
    return ComputeKey(parts[0], parts[1], parts[2] if instruction else None)


def _compute(
    node: YamlNode | None, sources: Mapping[str, tuple[str, str]], *, instruction: bool
) -> dict[ComputeKey, Fact | None]:
    rates: dict[ComputeKey, Fact | None] = {}
    for text, child in node.mapping("compute").items() if node is not None else ():
        key = parse_compute_key(text, child, instruction=instruction)
        unit = "OP/clk/SM" if "int" in key.path else "FLOP/clk/SM"
        rates[key] = None if child.value is None else _rate(child, text, sources, unit)
    return rates


def _rate(node: YamlNode, name: str, sources: Mapping[str, tuple[str, str]], unit: str) -> Fact:
    fact = _fact(node, name, sources, unit)
    if fact.value <= 0:
        raise BrokenSpec(node.place, f"{name} must be above zero; leave out what is not known or does not exist")
    return fact


def _without_none(rates: Mapping[ComputeKey, Fact | None]) -> dict[ComputeKey, Fact]:
    return {key: fact for key, fact in rates.items() if fact is not None}


def _rated(node: YamlNode | None, sources: Mapping[str, tuple[str, str]]) -> dict[ComputeKey, Fact]:
    rated: dict[ComputeKey, Fact] = {}
    for text, child in node.mapping("rated").items() if node is not None else ():
        if text == "dram":
            rated[ComputeKey("dram")] = _rate(child, text, sources, "B/s")
            continue
        key = parse_compute_key(text, child, instruction=False)
        fact = _rate(child, text, sources, "OP/s" if "int" in key.path else "FLOP/s")
        if fact.clock_hz is None:
            raise BrokenSpec(child.place, f"rated {text} must name the clock it implies")
        rated[key] = fact
    return rated


def _match(node: YamlNode | None) -> Match:
    entry = node.mapping("match") if node is not None else {}
    _refuse_unknown(entry, {"names", "pci_ids", "sm_count", "memory_size"})
    pci_ids = _texts(entry.get("pci_ids"))
    for pci_id in pci_ids:
        if not _PCI_ID.fullmatch(pci_id):
            raise BrokenSpec(entry["pci_ids"].place, f"{pci_id!r} is not a PCI id such as 10de:20b5")
    sm_count = memory = None
    if "sm_count" in entry:
        sm_count = _whole(_positive(entry["sm_count"], "sm_count", "SM"), entry["sm_count"].place)
    if "memory_size" in entry:
        memory = _positive(entry["memory_size"], "memory_size", "B")
    return Match(_texts(entry.get("names")), pci_ids, sm_count, memory)


def _counters(node: YamlNode | None) -> dict[str, Chain]:
    if node is None:
        return {}
    return {name: _chain(child, name) for name, child in node.mapping("counters").items()}


def _chain(node: YamlNode, name: str) -> Chain:
    links = tuple(_link(child, name) for child in node.sequence(name))
    if not links:
        raise BrokenSpec(node.place, f"{name} has no link")
    return links


def _link(node: YamlNode, name: str) -> CounterLink:
    entry = node.mapping(f"a link of {name}")
    _refuse_unknown(entry, {"how", "terms", "basis", "definition"})
    how = _text(entry, "how", node)
    if how not in HOWS:
        raise BrokenSpec(node.place, f"how {how!r} is not one of {', '.join(HOWS)}")
    basis = entry["basis"].text("basis") if "basis" in entry else "counted"
    if basis not in BASES:
        raise BrokenSpec(node.place, f"basis {basis!r} is not one of {', '.join(BASES)}")
    terms = entry["terms"].mapping("terms") if "terms" in entry else {}
    if not terms and how != "tensor-opcodes":
        raise BrokenSpec(node.place, f"a link of {name} has no terms")
    definition = _optional_text(entry, "definition")
    return CounterLink(
        how, tuple((metric, _factor(child)) for metric, child in terms.items()), basis, definition, node.place
    )


def _factor(node: YamlNode) -> float:
    text = node.text("a factor")
    try:
        factor = float(text)
    except ValueError as error:
        raise BrokenSpec(node.place, f"{text!r} is not a number") from error
    if not math.isfinite(factor):
        raise BrokenSpec(node.place, f"{text!r} is not a finite number")
    return factor
