"""Hardware specs as JSON: the list, and all facts of a spec with their sources, in base units."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, structs

from gpuprof.hardware.specs import ArchSpec, ComputeKey, CounterLink, Fact, GpuSpec


def main_facts(gpu: GpuSpec) -> dict[str, Fact | None]:
    """Return the facts that the list has of a product. A missing FP16 peak is that of BF16, which has the same rate."""
    rated = {str(key): fact for key, fact in gpu.rated.items()}
    return {
        "sm_count": gpu.facts.get("sm_count"),
        "boost_clock_hz": gpu.facts.get("boost_clock"),
        "dram_bytes_per_s": rated.get("dram"),
        "fp32_flop_per_s": rated.get("fp32"),
        "tensor_fp16_flop_per_s": rated.get("tensor.fp16 fp32") or rated.get("tensor.bf16 fp32"),
        "tensor_fp8_flop_per_s": rated.get("tensor.fp8 fp32"),
    }


def specs_lines(gpus: Iterable[GpuSpec], archs: Iterable[ArchSpec]) -> Iterator[str]:
    """Yield the list of products and of architectures with their main numbers."""
    of_arch = ("name", "compute_capability", "family", "chips", "file")
    architectures = [{name: getattr(arch, name) for name in of_arch} for arch in archs]
    yield _text({"gpus": [_gpu_row(gpu) for gpu in gpus], "architectures": architectures})


def _gpu_row(gpu: GpuSpec) -> dict[str, object]:
    facts = main_facts(gpu).items()
    row = {name: getattr(gpu, name) for name in ("name", "title", "arch")}
    row |= {name: getattr(fact, "value", None) for name, fact in facts}
    row["unconfirmed"] = [name for name, fact in facts if fact is not None and not fact.confirmed]
    return {**row, "file": gpu.file}


def spec_lines(spec: GpuSpec | ArchSpec, rates: Mapping[ComputeKey, Fact] = {}) -> Iterator[str]:
    """Yield everything about an architecture, or about a product, with the rates per SM of its architecture.

    The rates of an architecture are those of the products without exceptions.
    """
    yield _text(_of_arch(spec) if isinstance(spec, ArchSpec) else _of_gpu(spec, rates))


def _text(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=2, allow_nan=False)


def _of_gpu(gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> dict[str, object]:
    from gpuprof.hardware.check import implied_peak

    rated = {}
    for key, fact in gpu.rated.items():
        implied = implied_peak(key, fact, gpu, rates)
        rated[str(key)] = {**_record(fact), "sms_times_rate_times_clock": implied[1] if implied else None}
    record = _record(gpu)
    del record["line"]
    return {"kind": "gpu", **record, "rated": rated, "compute": _plain(rates)}


def _of_arch(arch: ArchSpec) -> dict[str, object]:
    record = _record(arch)
    del record["target"], record["geforce"]
    return {"kind": "arch", **record}


def _record(record: Struct) -> dict[str, object]:
    """Return the fields of a record; its place as a file and a line."""
    values = structs.asdict(record)
    place = values.pop("place", None)
    if isinstance(record, CounterLink):
        values["terms"] = dict(record.terms)
    if isinstance(record, Fact):
        values["values"] = record.values or None
    fields = {name: _plain(value) for name, value in values.items()}
    return fields if place is None else {**fields, "file": place.file, "line": place.line}


def _plain(value: object) -> object:
    if isinstance(value, Struct):
        return _record(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
