"""Hardware specs as JSON: the rows of the list, and all facts of one spec with their sources, in base units."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.hardware.specs import ArchSpec, ComputeKey, CounterLink, Fact, GpuSpec
from gpuprof.views.specs import main_facts

_MAIN_FACTS = (
    "sm_count",
    "boost_clock_hz",
    "dram_bytes_per_s",
    "fp32_flop_per_s",
    "tensor_fp16_flop_per_s",
    "tensor_fp8_flop_per_s",
)


def gpu_row(gpu: GpuSpec) -> dict[str, object]:
    """Return what the list says of a product."""
    facts = dict(zip(_MAIN_FACTS, main_facts(gpu), strict=True))
    return {
        "name": gpu.name,
        "title": gpu.title,
        "arch": gpu.arch,
        **{name: fact.value if fact is not None else None for name, fact in facts.items()},
        "unconfirmed": [name for name, fact in facts.items() if fact is not None and not fact.confirmed],
        "file": gpu.file,
    }


def arch_row(arch: ArchSpec) -> dict[str, object]:
    """Return what the list says of an architecture."""
    return {
        "name": arch.name,
        "compute_capability": arch.compute_capability,
        "family": arch.family,
        "chips": list(arch.chips),
        "file": arch.file,
    }


def gpu_json(gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> dict[str, object]:
    """Return all that is known of a product, with the rates per SM of its architecture."""
    from gpuprof.hardware.check import implied_peak

    rated: dict[str, object] = {}
    for key, fact in gpu.rated.items():
        implied = implied_peak(key, fact, gpu, rates)
        rated[str(key)] = {**_fact_json(fact), "sms_times_rate_times_clock": implied[1] if implied else None}
    return {
        "kind": "gpu",
        "name": gpu.name,
        "title": gpu.title,
        "arch": gpu.arch,
        "file": gpu.file,
        "match": {
            "names": list(gpu.match.names),
            "pci_ids": list(gpu.match.pci_ids),
            "sm_count": gpu.match.sm_count,
            "memory_bytes": gpu.match.memory_bytes,
        },
        "facts": _facts_json(gpu.facts),
        "rated": rated,
        "compute": _facts_json({str(key): fact for key, fact in rates.items()}),
    }


def arch_json(arch: ArchSpec) -> dict[str, object]:
    """Return all that is known of an architecture."""
    return {
        "kind": "arch",
        **arch_row(arch),
        "ncu_chip": arch.ncu_chip,
        "limits": _facts_json(arch.limits),
        "compute": _facts_json({str(key): fact for key, fact in arch.compute.items()}),
        "operations": _facts_json(arch.operations),
        "bandwidth": _facts_json(arch.bandwidth),
        "counters": {name: [_link_json(link) for link in links] for name, links in arch.counters.items()},
        "stalls": list(arch.stalls),
    }


def _facts_json(facts: Mapping[str, Fact]) -> dict[str, object]:
    return {name: _fact_json(fact) for name, fact in facts.items()}


def _fact_json(fact: Fact) -> dict[str, object]:
    return {
        "value": fact.value,
        "values": list(fact.values) or None,
        "unit": fact.unit,
        "kind": fact.kind,
        "source": fact.source,
        "confirmed": fact.confirmed,
        "note": fact.note,
        "clock_hz": fact.clock_hz,
        "file": fact.place.file,
        "line": fact.place.line,
    }


def _link_json(link: CounterLink) -> dict[str, object]:
    return {
        "how": link.how,
        "basis": link.basis,
        "definition": link.definition,
        "terms": dict(link.terms),
        "file": link.place.file,
        "line": link.place.line,
    }
