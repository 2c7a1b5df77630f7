"""From a YAML tree to typed specs. Anything unknown, missing or unsourced is an error at its file and line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuprof.errors import SpecError
from gpuprof.hardware.specs import (
    ACCUMULATORS,
    INSTRUCTIONS,
    PATHS,
    SCALAR_PATHS,
    ArchSpec,
    Chain,
    ComputeKey,
    Fact,
    GpuSpec,
    Link,
    Match,
)
from gpuprof.hardware.yaml_tree import Node
from gpuprof.units import parse_quantity

SOURCE_KINDS = ("datasheet", "programming guide", "header", "measured", "derived", "reported")
HOWS = (
    "total", "per-second", "per-sm-cycle", "per-dram-cycle", "thread-opcodes", "tensor-opcodes", "percent-of-peak",
)  # fmt: skip
BASES = ("counted", "derived", "estimated")

_ARCH_KEYS = {
    "schema", "kind", "name", "base", "compute_capability", "family", "chips", "ncu_chip", "sources",
    "limits", "compute", "operations", "bandwidth", "counters", "stalls",
}  # fmt: skip
_GPU_KEYS = {"schema", "kind", "name", "title", "arch", "sources", "match", "facts", "rated", "compute"}
_FACT_KEYS = {"value", "source", "confirmed", "note", "clock"}
_LIMIT_UNITS = {"warp", "thread", "block", "register", "scheduler", "B"}
_OPERATION_UNITS = {"result/clk/SM", "lane/clk/SM"}
GPU_FACTS = {
    "sm_count": "SM", "base_clock": "Hz", "boost_clock": "Hz", "memory_size": "B", "memory_bus": "bit",
    "memory_rate": "bit/s", "memory_clock": "Hz", "l2_size": "B", "l2_bandwidth": "B/clk", "power_limit": "W",
}  # fmt: skip
LIMIT_NAMES = {
    "threads_per_warp", "threads_per_block", "sub_partitions", "registers_per_sm", "registers_per_block",
    "registers_per_thread", "register_allocation_unit", "warp_allocation_granularity", "static_shared_per_block",
    "warps_per_sm", "threads_per_sm", "blocks_per_sm", "shared_per_sm", "shared_per_block_optin",
    "shared_reserved_per_block", "shared_allocation_unit", "l1_and_shared_per_sm", "shared_carveouts",
    "tensor_memory_per_sm", "blocks_per_cluster",
}  # fmt: skip


def parse_arch(tree: Node, *, generic: bool = False) -> ArchSpec:
    """Turn a merged arch tree into an ArchSpec. Raises SpecError at the first broken rule.

    `generic` allows the shared base, which is no architecture of its own.
    """
    top = _top(tree, "arch", _ARCH_KEYS)
    sources = _sources(top)
    return ArchSpec(
        name=_text(top, "name", tree),
        compute_capability="" if generic else _text(top, "compute_capability", tree),
        family="unknown" if generic else _text(top, "family", tree),
        chips=_texts(top.get("chips")),
        ncu_chip=top["ncu_chip"].text("ncu_chip") if "ncu_chip" in top else None,
        limits=_facts(top.get("limits"), sources, _limit_units),
        compute=_without_none(_compute(top.get("compute"), sources, instruction=True)),
        operations=_facts(top.get("operations"), sources, lambda _name: _OPERATION_UNITS),
        bandwidth=_facts(top.get("bandwidth"), sources, lambda _name: {"B/clk/SM"}),
        stalls=_texts(top.get("stalls")),
        counters=_counters(top.get("counters")),
        file=tree.place.file,
    )


def parse_gpu(tree: Node) -> GpuSpec:
    """Turn a product tree into a GpuSpec. Raises SpecError at the first broken rule."""
    top = _top(tree, "gpu", _GPU_KEYS)
    sources = _sources(top)
    facts = _facts(top.get("facts"), sources, _gpu_fact_units)
    if "sm_count" not in facts:
        raise SpecError(f"{tree.place}: facts must give sm_count")
    return GpuSpec(
        name=_text(top, "name", tree),
        title=_text(top, "title", tree),
        arch=_text(top, "arch", tree),
        match=_match(top.get("match")),
        facts=facts,
        rated=_rated(top.get("rated"), sources),
        compute=_compute(top.get("compute"), sources, instruction=True),
        file=tree.place.file,
        place=tree.place,
    )


def _top(tree: Node, kind: str, known: set[str]) -> Mapping[str, Node]:
    top = tree.mapping("a spec file")
    _refuse_unknown(top, known)
    if _text(top, "schema", tree) != "1":
        raise SpecError(
            f"{top['schema'].place}: schema {top['schema'].value} is not known; this gpuprof reads schema 1"
        )
    if _text(top, "kind", tree) != kind:
        raise SpecError(f"{top['kind'].place}: kind must be {kind}")
    return top


def _refuse_unknown(mapping: Mapping[str, Node], known: set[str]) -> None:
    for key, node in mapping.items():
        if key not in known:
            raise SpecError(f"{node.place}: unknown key {key!r}; known: {', '.join(sorted(known))}")


def _text(mapping: Mapping[str, Node], key: str, parent: Node) -> str:
    node = mapping.get(key)
    if node is None:
        raise SpecError(f"{parent.place}: {key} is missing")
    text = node.text(key).strip()
    if not text or text.upper() in {"TODO", "TBD", "FIXME", "?", "XXX"}:
        raise SpecError(f"{node.place}: {key} is a placeholder: {text!r}")
    return text


def _texts(node: Node | None) -> tuple[str, ...]:
    return tuple(item.text("an item") for item in node.sequence("this")) if node is not None else ()


def _sources(top: Mapping[str, Node]) -> dict[str, tuple[str, str]]:
    sources: dict[str, tuple[str, str]] = {}
    for name, node in top["sources"].mapping("sources").items() if "sources" in top else ():
        entry = node.mapping(f"source {name}")
        _refuse_unknown(entry, {"kind", "text"})
        kind = _text(entry, "kind", node)
        if kind not in SOURCE_KINDS:
            raise SpecError(f"{node.place}: source kind {kind!r} is not one of {', '.join(SOURCE_KINDS)}")
        sources[name] = (kind, _text(entry, "text", node))
    return sources


def _facts(
    node: Node | None, sources: Mapping[str, tuple[str, str]], units: Callable[[str], set[str]]
) -> dict[str, Fact]:
    if node is None:
        return {}
    return {
        name: _fact(child, name, sources, units(name) if callable(units) else units)
        for name, child in node.mapping("this").items()
    }


def _limit_units(_name: str) -> set[str]:
    return _LIMIT_UNITS


def _gpu_fact_units(name: str) -> set[str]:
    unit = GPU_FACTS.get(name)
    return {unit} if unit is not None else set()


def _fact(node: Node, name: str, sources: Mapping[str, tuple[str, str]], units: set[str]) -> Fact:
    entry = node.mapping(name)
    _refuse_unknown(entry, _FACT_KEYS)
    if not units:
        raise SpecError(f"{node.place}: unknown fact {name!r}")
    source_id = _text(entry, "source", node)
    if source_id not in sources:
        raise SpecError(f"{node.place}: source {source_id!r} of {name} is not in the sources table")
    kind, source = sources[source_id]
    if "value" not in entry:
        raise SpecError(f"{node.place}: {name} has no value")
    values, unit = _values(entry["value"], name)
    if unit not in units:
        raise SpecError(f"{node.place}: {name} is in {unit or 'no unit'}; expected {' or '.join(sorted(units))}")
    return Fact(
        value=values[-1],
        unit=unit,
        source=source,
        kind=kind,
        place=node.place,
        confirmed=_flag(entry.get("confirmed")),
        note=entry["note"].text("note") if "note" in entry else None,
        clock_hz=_clock(entry.get("clock")),
        values=values if len(values) > 1 else (),
    )


def _values(node: Node, name: str) -> tuple[tuple[float, ...], str]:
    items = node.value if isinstance(node.value, tuple) else (node,)
    quantities = []
    for item in items:
        try:
            quantities.append(parse_quantity(item.text(name)))
        except ValueError as error:
            raise SpecError(f"{item.place}: {name}: {error}") from error
    units = {quantity.unit for quantity in quantities}
    if len(units) != 1:
        raise SpecError(f"{node.place}: {name} must be in one unit")
    if any(quantity.value < 0 for quantity in quantities):
        raise SpecError(f"{node.place}: {name} is negative")
    return tuple(quantity.value for quantity in quantities), units.pop()


def _flag(node: Node | None) -> bool:
    if node is None:
        return True
    if node.value not in {"true", "false"}:
        raise SpecError(f"{node.place}: confirmed must be true or false")
    return node.value == "true"


def _clock(node: Node | None) -> float | None:
    if node is None:
        return None
    values, unit = _values(node, "clock")
    if unit != "Hz":
        raise SpecError(f"{node.place}: clock must be in Hz, MHz or GHz")
    return values[0]


def parse_compute_key(text: str, node: Node, *, instruction: bool) -> ComputeKey:
    """Read "fp32" or "tensor.fp16 fp32 mma.sync" (without the instruction for rated peaks)."""
    parts = text.split()
    if not parts or parts[0] not in PATHS:
        raise SpecError(f"{node.place}: {text!r} is not a compute path; known: {', '.join(PATHS)}")
    if parts[0] in SCALAR_PATHS:
        if len(parts) != 1:
            raise SpecError(f"{node.place}: {parts[0]} takes no accumulator")
        return ComputeKey(parts[0])
    wanted = 3 if instruction else 2
    if len(parts) != wanted or parts[1] not in ACCUMULATORS or (instruction and parts[2] not in INSTRUCTIONS):
        form = "PATH ACCUMULATOR INSTRUCTION" if instruction else "PATH ACCUMULATOR"
        raise SpecError(f"{node.place}: {text!r} is not of the form {form}")
    return ComputeKey(parts[0], parts[1], parts[2] if instruction else None)


def _compute(
    node: Node | None, sources: Mapping[str, tuple[str, str]], *, instruction: bool
) -> dict[ComputeKey, Fact | None]:
    rates: dict[ComputeKey, Fact | None] = {}
    for text, child in node.mapping("compute").items() if node is not None else ():
        key = parse_compute_key(text, child, instruction=instruction)
        unit = "OP/clk/SM" if "int" in key.path else "FLOP/clk/SM"
        rates[key] = None if child.value is None else _fact(child, text, sources, {unit})
    return rates


def _without_none(rates: Mapping[ComputeKey, Fact | None]) -> dict[ComputeKey, Fact]:
    return {key: fact for key, fact in rates.items() if fact is not None}


def _rated(node: Node | None, sources: Mapping[str, tuple[str, str]]) -> dict[ComputeKey, Fact]:
    rated: dict[ComputeKey, Fact] = {}
    for text, child in node.mapping("rated").items() if node is not None else ():
        if text == "dram":
            rated[ComputeKey("dram")] = _fact(child, text, sources, {"B/s"})
            continue
        key = parse_compute_key(text, child, instruction=False)
        fact = _fact(child, text, sources, {"OP/s"} if "int" in key.path else {"FLOP/s"})
        if fact.clock_hz is None:
            raise SpecError(f"{child.place}: rated {text} must name the clock it implies")
        rated[key] = fact
    return rated


def _match(node: Node | None) -> Match:
    entry = node.mapping("match") if node is not None else {}
    _refuse_unknown(entry, {"names", "pci_ids", "sm_count", "memory_size"})
    pci_ids = _texts(entry.get("pci_ids"))
    for pci_id in pci_ids:
        if pci_id != pci_id.lower() or len(pci_id) != 9 or pci_id[4] != ":":
            raise SpecError(f"{entry['pci_ids'].place}: {pci_id!r} is not a PCI id such as 10de:20b5")
    sm_count = _values(entry["sm_count"], "sm_count")[0][0] if "sm_count" in entry else None
    memory = _values(entry["memory_size"], "memory_size")[0][0] if "memory_size" in entry else None
    return Match(_texts(entry.get("names")), pci_ids, round(sm_count) if sm_count is not None else None, memory)


def _counters(node: Node | None) -> dict[str, Chain]:
    if node is None:
        return {}
    return {name: _chain(child, name) for name, child in node.mapping("counters").items()}


def _chain(node: Node, name: str) -> Chain:
    links = tuple(_link(child, name) for child in node.sequence(name))
    if not links:
        raise SpecError(f"{node.place}: {name} has no link")
    return links


def _link(node: Node, name: str) -> Link:
    entry = node.mapping(f"a link of {name}")
    _refuse_unknown(entry, {"how", "terms", "basis", "definition"})
    how = _text(entry, "how", node)
    if how not in HOWS:
        raise SpecError(f"{node.place}: how {how!r} is not one of {', '.join(HOWS)}")
    basis = entry["basis"].text("basis") if "basis" in entry else "counted"
    if basis not in BASES:
        raise SpecError(f"{node.place}: basis {basis!r} is not one of {', '.join(BASES)}")
    terms = entry["terms"].mapping("terms") if "terms" in entry else {}
    if not terms and how != "tensor-opcodes":
        raise SpecError(f"{node.place}: a link of {name} has no terms")
    definition = entry["definition"].text("definition") if "definition" in entry else None
    return Link(how, tuple((metric, _factor(child)) for metric, child in terms.items()), basis, definition, node.place)


def _factor(node: Node) -> float:
    try:
        return float(node.text("a factor"))
    except ValueError as error:
        raise SpecError(f"{node.place}: {node.value!r} is not a number") from error
