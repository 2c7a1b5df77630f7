"""From a YAML tree to typed specs. Anything unknown, missing or unsourced is an error at its file and line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuprof.hardware.parse_facts import (
    Sources,
    parse_facts,
    parse_rated,
    parse_rates,
    parse_sources,
    positive,
    spec_fields,
)
from gpuprof.hardware.specs import BASES, ArchSpec, Chain, CounterLink, Fact, GpuSpec, Match
from gpuprof.hardware.yaml_fields import Fields, number
from gpuprof.hardware.yaml_tree import BrokenSpec, FileLine, YamlNode

HOWS = (
    "total", "product", "per-second", "per-sm-cycle", "per-dram-cycle", "thread-opcodes", "tensor-opcodes",
    "percent-of-peak", "largest",
)  # fmt: skip

_ARCH_KEYS = {
    "schema", "kind", "name", "base", "compute_capability", "family", "chips", "ncu_chip", "compile",
    "sources", "limits", "compute", "geforce", "operations", "bandwidth", "counters", "stalls",
}  # fmt: skip
_GPU_KEYS = {"schema", "kind", "name", "title", "arch", "sources", "match", "facts", "rated", "compute"}
_L2, _FABRIC = "throughput.l2", "fabric.l2"
_PCI_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
ARCH_NAME = re.compile(r"sm_[0-9]{2,4}[a-z]?")

GPU_FACTS = {
    "sm_count": "SM", "base_clock": "Hz", "boost_clock": "Hz", "highest_clock": "Hz", "memory_size": "B",
    "memory_bus": "bit", "memory_rate": "bit/s", "memory_clock": "Hz", "l2_size": "B", "l2_bandwidth": "B/clk",
    "l2_clock": "Hz", "power_limit": "W", "host_link": "B/s",
}  # fmt: skip
LIMITS = {
    "threads_per_warp": "thread", "threads_per_block": "thread", "sub_partitions": "scheduler",
    "registers_per_sm": "register", "registers_per_block": "register", "registers_per_thread": "register",
    "register_allocation_unit": "register", "warp_allocation_granularity": "warp", "warps_per_sm": "warp",
    "threads_per_sm": "thread", "blocks_per_sm": "block", "blocks_per_cluster": "block",
    "static_shared_per_block": "B", "shared_per_sm": "B", "shared_per_block_optin": "B",
    "shared_reserved_per_block": "B", "shared_allocation_unit": "B", "l1_and_shared_per_sm": "B",
    "shared_carveouts": "B", "tensor_memory_per_sm": "B", "dram_reached": "%", "fewest_sms": "SM",
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
BANDWIDTHS = {"shared": "B/clk/SM", "l1": "B/clk/SM", "l2": "B/clk/SM", "l2_write": "B/clk/SM"}
_SLICES = {"l2_slice": "B/clk", "l2_slice_write": "B/clk"}


def parse_arch(tree: YamlNode, *, generic: bool = False) -> ArchSpec:
    """Turn a merged arch tree into an ArchSpec. Raises BrokenSpec at the first broken rule.

    `generic` allows the shared base, which is no architecture of its own.
    """
    top = _top(tree, "arch", _ARCH_KEYS)
    sources = parse_sources(top)
    limits = parse_facts(top, "limits", sources, LIMITS)
    if not generic:
        _require_limits(limits, top.place("limits"))
    return ArchSpec(
        name=top.text("name") if generic else _arch_name(top, "name"),
        compute_capability="" if generic else top.text("compute_capability"),
        family="unknown" if generic else top.text("family"),
        chips=top.texts("chips") or (),
        ncu_chip=top.text_or_null("ncu_chip"),
        target=_sourced_target(top, sources),
        limits=limits,
        compute={key: fact for key, fact in parse_rates(top, sources).items() if fact is not None},
        geforce=parse_rates(top, sources, "geforce"),
        operations=parse_facts(top, "operations", sources, OPERATIONS),
        bandwidth=parse_facts(top, "bandwidth", sources, BANDWIDTHS | _SLICES),
        stalls=top.texts("stalls") or (),
        counters=_with_parts_first(
            {name: _chain(node, name) for name, node in top.mapping("counters").items()}, generic=generic
        ),
        file=tree.place.file,
    )


def _with_parts_first(counters: Mapping[str, Chain], *, generic: bool) -> Mapping[str, Chain]:
    """Return the counters with the parts of L2 before its own figure, if that counts the fabric between its halves too.

    The shared base is of any chip, so there it may.
    """
    chain = counters.get(_L2)
    if chain is None or not (generic or _FABRIC in counters):
        return counters
    return {**counters, _L2: tuple(sorted(chain, key=lambda link: link.how != "largest"))}


def compile_target(tree: YamlNode) -> str | None:
    """Return the target that kernels for an architecture are compiled for, or None. Raises BrokenSpec.

    It is that of the file itself: a target is of one architecture, and none comes from a base.
    """
    top = spec_fields(tree, "a spec file", _ARCH_KEYS)
    node = top.node("compile")
    if node is None or node.value is None or node.place.file != tree.place.file:
        return None
    entry = spec_fields(node, "compile", {"target", "source"})
    name, target = _arch_name(top, "name"), entry.text("target")
    if target not in {name, f"{name}a"}:
        raise BrokenSpec(entry.place("target"), f"target {target!r} is neither {name} nor {name}a")
    entry.text("source")
    return target


def _sourced_target(top: Fields, sources: Sources) -> str | None:
    target = compile_target(top.tree)
    if target is not None:
        source = top.mapping("compile")["source"]
        if source.value not in sources:
            raise BrokenSpec(source.place, f"source {source.value!r} of compile is not in the sources table")
    return target


def parse_gpu(tree: YamlNode) -> GpuSpec:
    """Turn a product tree into a GpuSpec. Raises BrokenSpec at the first broken rule."""
    top = _top(tree, "gpu", _GPU_KEYS)
    sources = parse_sources(top)
    facts = parse_facts(top, "facts", sources, GPU_FACTS)
    if "sm_count" not in facts:
        raise BrokenSpec(tree.place, "facts must give sm_count")
    _whole(facts["sm_count"].value, facts["sm_count"].place)
    return GpuSpec(
        name=top.text("name"),
        title=top.text("title"),
        arch=_arch_name(top, "arch"),
        match=_match(top),
        facts=facts,
        rated=parse_rated(top, sources),
        compute=parse_rates(top, sources),
        file=tree.place.file,
        place=tree.place,
    )


def _top(tree: YamlNode, kind: str, known: set[str]) -> Fields:
    top = spec_fields(tree, "a spec file", known)
    schema = top.text("schema")
    if schema != "1":
        raise BrokenSpec(top.place("schema"), f"schema {schema} is not known; this gpuprof reads schema 1")
    if top.text("kind") != kind:
        raise BrokenSpec(top.place("kind"), f"kind must be {kind}")
    return top


def _arch_name(top: Fields, key: str) -> str:
    name = top.text(key)
    if not ARCH_NAME.fullmatch(name):
        raise BrokenSpec(top.place(key), f"{key} {name!r} is not of the form sm_90")
    return name


def _require_limits(limits: Mapping[str, Fact], place: FileLine) -> None:
    for name in NEEDED_LIMITS:
        if name not in limits:
            raise BrokenSpec(place, f"limits lack {name}")
        if limits[name].value <= 0:
            raise BrokenSpec(limits[name].place, f"{name} must be above zero")


def _whole(value: float, place: FileLine) -> int:
    if value < 1 or value != round(value):
        raise BrokenSpec(place, f"sm_count must be a whole number of SMs, not {value:g}")
    return round(value)


def _match(top: Fields) -> Match:
    if "match" not in top:
        return Match(names=(), pci_ids=(), sm_count=None, memory_bytes=None)
    entry = spec_fields(top.required("match"), "match", {"names", "pci_ids", "sm_count", "memory_size"})
    pci_ids = entry.texts("pci_ids") or ()
    for pci_id in pci_ids:
        if not _PCI_ID.fullmatch(pci_id):
            raise BrokenSpec(entry.place("pci_ids"), f"{pci_id!r} is not a PCI id such as 10de:20b5")
    counted = "sm_count" in entry
    return Match(
        names=entry.texts("names") or (),
        pci_ids=pci_ids,
        sm_count=_whole(positive(entry, "sm_count", "SM"), entry.place("sm_count")) if counted else None,
        memory_bytes=positive(entry, "memory_size", "B") if "memory_size" in entry else None,
    )


def _chain(node: YamlNode, name: str) -> Chain:
    links = tuple(_link(child, name) for child in node.sequence(name))
    if not links:
        raise BrokenSpec(node.place, f"{name} has no link")
    return links


def _link(node: YamlNode, name: str) -> CounterLink:
    entry = spec_fields(node, f"a link of {name}", {"how", "terms", "basis", "definition"})
    how = entry.choice("how", HOWS)
    terms = entry.mapping("terms")
    if not terms and how != "tensor-opcodes":
        raise BrokenSpec(node.place, f"a link of {name} has no terms")
    return CounterLink(
        how=how,
        terms=tuple((metric, number(factor, metric)) for metric, factor in terms.items()),
        basis=entry.choice("basis", BASES, "counted"),
        definition=entry.text_or_null("definition"),
        place=node.place,
    )
