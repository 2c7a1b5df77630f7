"""Hardware specs as JSON values: the rows of the list, and all facts of a spec with their sources, in base units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gpuprof.hardware.specs import ArchSpec, ComputeKey, CounterLink, Fact, GpuSpec

_OF_FACT = ("unit", "kind", "source", "confirmed", "note", "clock_hz")


def main_facts(gpu: GpuSpec) -> dict[str, Fact | None]:
    """Return the facts that the list has of a product. A missing FP16 peak is that of BF16, which has the same rate."""
    fp16 = gpu.rated.get(ComputeKey("tensor.fp16", "fp32"))
    return {
        "sm_count": gpu.facts.get("sm_count"),
        "boost_clock_hz": gpu.facts.get("boost_clock"),
        "dram_bytes_per_s": gpu.rated.get(ComputeKey("dram")),
        "fp32_flop_per_s": gpu.rated.get(ComputeKey("fp32")),
        "tensor_fp16_flop_per_s": fp16 or gpu.rated.get(ComputeKey("tensor.bf16", "fp32")),
        "tensor_fp8_flop_per_s": gpu.rated.get(ComputeKey("tensor.fp8", "fp32")),
    }


def gpu_row(gpu: GpuSpec) -> dict[str, object]:
    """Return the row of a product in the list."""
    facts = main_facts(gpu)
    values = {name: fact.value if fact is not None else None for name, fact in facts.items()}
    unconfirmed = [name for name, fact in facts.items() if fact is not None and not fact.confirmed]
    return {**_fields(gpu, ("name", "title", "arch")), **values, "unconfirmed": unconfirmed, "file": gpu.file}


def arch_row(arch: ArchSpec) -> dict[str, object]:
    """Return the row of an architecture in the list."""
    return _fields(arch, ("name", "compute_capability", "family", "chips", "file"))


def gpu_json(gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> dict[str, object]:
    """Return everything about a product, with the rates per SM of its architecture."""
    from gpuprof.hardware.check import implied_peak

    rated = {}
    for key, fact in gpu.rated.items():
        implied = implied_peak(key, fact, gpu, rates)
        rated[str(key)] = {**_fact_json(fact), "sms_times_rate_times_clock": implied[1] if implied else None}
    return {
        "kind": "gpu",
        **_fields(gpu, ("name", "title", "arch", "file")),
        "match": _fields(gpu.match, ("names", "pci_ids", "sm_count", "memory_bytes")),
        "facts": _facts_json(gpu.facts),
        "rated": rated,
        "compute": _facts_json(rates),
    }


def arch_json(arch: ArchSpec) -> dict[str, object]:
    """Return everything about an architecture."""
    return {
        "kind": "arch",
        **arch_row(arch),
        "ncu_chip": arch.ncu_chip,
        "limits": _facts_json(arch.limits),
        "compute": _facts_json(arch.compute),
        "operations": _facts_json(arch.operations),
        "bandwidth": _facts_json(arch.bandwidth),
        "counters": {name: [_link_json(link) for link in links] for name, links in arch.counters.items()},
        "stalls": arch.stalls,
    }


def _facts_json(facts: Mapping[str, Fact] | Mapping[ComputeKey, Fact]) -> dict[str, object]:
    return {str(name): _fact_json(fact) for name, fact in facts.items()}


def _fact_json(fact: Fact) -> dict[str, object]:
    values = {"value": fact.value, "values": fact.values or None}
    return {**values, **_fields(fact, _OF_FACT), "file": fact.place.file, "line": fact.place.line}


def _link_json(link: CounterLink) -> dict[str, object]:
    terms = {"terms": dict(link.terms), "file": link.place.file, "line": link.place.line}
    return {**_fields(link, ("how", "basis", "definition")), **terms}


def _fields(record: Struct, names: Iterable[str]) -> dict[str, object]:
    return {name: getattr(record, name) for name in names}
