"""Hardware specs as documents: the list, all facts of one spec, and how a recorded device matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from gpuprof.hardware.specs import ArchSpec, ComputeKey, CounterLink, Fact, GpuSpec
from gpuprof.units import format_binary, format_si, significant
from gpuprof.views import document as doc
from gpuprof.views.exports.hardware_specs import main_facts
from gpuprof.words.sentences import joined_by

if TYPE_CHECKING:
    from gpuprof.hardware.device import RecordedDevice

_MARK = "*"
_UNKNOWN = "–"
# The list has the main facts in these units.
_MAIN_COLUMNS = {"SMs": 1.0, "boost MHz": 1e6, "DRAM GB/s": 1e9, "FP32": 1e12, "FP16": 1e12, "FP8": 1e12}
_ARCH_COLUMNS = ("warps/SM", "FP32", "FP16")
_RATES = "rates per SM and clock (dense)"
# The memory of a board is sold in GB, memory on the chip in KiB and MiB.
_BOARD_MEMORY = "memory_size"

_Rows = Iterable[tuple[str, doc.Inline]]


def specs_document(gpus: Iterable[GpuSpec], archs: Iterable[ArchSpec]) -> doc.Document:
    """Return the list of products and of architectures with their main numbers."""
    products = []
    for gpu in gpus:
        facts = main_facts(gpu).values()
        products.append((gpu.name, gpu.arch, *map(_cell, facts, _MAIN_COLUMNS.values())))
    architectures = []
    for arch in archs:
        tensor = [fact for key, fact in arch.compute.items() if key[:2] == ("tensor.fp16", "fp32")]
        fastest = max(tensor, key=lambda fact: fact.value, default=None)
        rates = (arch.limits.get("warps_per_sm"), arch.compute.get(ComputeKey("fp32")), fastest)
        architectures.append((arch.name, arch.family, *map(_cell, rates)))
    rated = "Rated, dense, in TFLOP/s with FP32 accumulation; FP16 and FP8 on tensor cores."
    more = f"{rated} {_MARK} unconfirmed: see `gpuprof specs show NAME`."
    blocks = (
        _table(("product", "arch"), _MAIN_COLUMNS, products, more),
        _table(("arch", "family"), _ARCH_COLUMNS, architectures, "FP32 and FP16 (tensor cores) in FLOP/clock/SM."),
    )
    return doc.Document("specs", blocks)


def _table(
    texts: Iterable[str], numbers: Iterable[str], rows: Iterable[tuple[doc.Inline, ...]], more: str = ""
) -> doc.Table:
    columns = [doc.Column(name) for name in texts]
    for rank, name in enumerate(numbers):
        columns.append(doc.Column(name, "number", rank))
    return doc.Table("specs", tuple(columns), tuple(rows), more=more)


def _cell(fact: Fact | None, unit: float = 1.0) -> str:
    if fact is None:
        return _UNKNOWN
    return significant(fact.value / unit, 4, strip=True) + ("" if fact.confirmed else _MARK)


def spec_document(spec: GpuSpec | ArchSpec, rates: Mapping[ComputeKey, Fact] = {}) -> doc.Document:
    """Return all that is known of an architecture, or of a product, with the rates per SM of its architecture."""
    return _of_arch(spec) if isinstance(spec, ArchSpec) else _of_gpu(spec, rates)


def _of_gpu(gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> doc.Document:
    match = gpu.match
    rows = (
        ("file", gpu.file),
        ("names", ", ".join(match.names)),
        ("PCI ids", ", ".join(match.pci_ids)),
        ("only with", f"{match.sm_count} SMs" if match.sm_count is not None else ""),
        ("only with", f"about {format_si(match.memory_bytes, 'B')}" if match.memory_bytes is not None else ""),
    )
    sections = {
        "": rows,
        "facts": _rows(gpu.facts),
        "rated peaks (dense)": _rows(gpu.rated),
        _RATES: _rows(rates),
    }
    return _document(f"{gpu.title} ({gpu.name}), {gpu.arch}", sections)


def _of_arch(arch: ArchSpec) -> doc.Document:
    counters = []
    for quantity, links in arch.counters.items():
        for number, link in enumerate(links, start=1):
            basis = "" if link.basis == "counted" else f" ({link.basis})"
            text = joined_by(": ", link.how + basis, terms_text(link))
            counters.append((quantity if number == 1 else "", f"{number}. {text}"))
    rows = (
        ("chips", ", ".join(arch.chips)),
        ("compute", f"capability {arch.compute_capability}"),
        ("counters", f"names of {arch.ncu_chip}" if arch.ncu_chip else "no list of names available"),
        ("file", arch.file),
        ("stalls", ", ".join(arch.stalls)),
    )
    sections = {
        "": rows,
        "limits": _rows(arch.limits),
        _RATES: _rows(arch.compute),
        "operations": _rows(arch.operations),
        "bandwidth": _rows(arch.bandwidth),
        "counters, tried in order": counters,
    }
    return _document(f"{arch.name}, {arch.family}", sections)


def _document(title: str, sections: Mapping[str, _Rows]) -> doc.Document:
    return doc.Document(title, (doc.Heading(title), *_facts(sections)))


def _facts(sections: Mapping[str, _Rows]) -> Iterator[doc.Facts]:
    """Yield sections with their rows that have a value."""
    for name, rows in sections.items():
        shown = tuple(row for row in rows if row[1])
        if shown:
            yield doc.Facts(shown, name)


def _rows(facts: Mapping[str, Fact] | Mapping[ComputeKey, Fact]) -> Iterator[tuple[str, doc.Inline]]:
    for name, fact in facts.items():
        values = ", ".join(_amount(name, value, fact.unit) for value in fact.values or (fact.value,))
        clock = f" at {format_si(fact.clock_hz, 'Hz', 4)}" if fact.clock_hz is not None else ""
        yield str(name), doc.Cell(f"{values}{clock}{'' if fact.confirmed else ' (unconfirmed)'}", "strong")
        yield "", doc.Cell(f"{fact.kind}: {fact.source}, {PurePath(str(fact.place)).name}", "muted")
        if fact.note:
            yield "", doc.Cell(f"note: {fact.note}", "muted")


def _amount(name: object, value: float, unit: str) -> str:
    """Write a value with four digits and a prefix, or a rate per clock in full."""
    if unit == "B" and name != _BOARD_MEMORY:
        return format_binary(value, unit, 4)
    if unit in {"Hz", "B", "B/s", "FLOP/s", "OP/s", "bit/s"}:
        return format_si(value, unit, 4)
    return f"{value:g} {unit}"


def terms_text(link: CounterLink) -> str:
    """Write what a link takes of which metrics: "a + 2 × b"; of a product, whose factors are powers, "a × b ÷ c"."""
    if link.how != "product":
        return " + ".join(name if factor == 1 else f"{_factor(factor)} × {name}" for name, factor in link.terms)
    text = ""
    for name, power in link.terms:
        raised = name if abs(power) == 1 else f"{name}^{_factor(abs(power))}"
        text = joined_by(" ÷ " if power < 0 else " × ", text, raised)
    return text


def _factor(factor: float) -> str:
    return significant(factor, 6, strip=True)


def match_blocks(device: RecordedDevice, spec: GpuSpec | None, arch: ArchSpec | None) -> Iterator[doc.Block]:
    """Yield which spec describes a device, why, and where they differ; without a spec, what replaces it."""
    from gpuprof.hardware.check import compare_device, match_reasons

    if spec is None:
        known = arch.name if arch is not None else "what all architectures share"
        which = f"no product spec; using {known} and the report's own attributes"
    else:
        which = f"{spec.name} by {' and '.join(match_reasons(spec, device))}"
    rows = (
        ("GPU", device.name or "without a name"),
        ("PCI id", device.pci_id or ""),
        ("compute", f"capability {device.compute_capability or 'unknown'}"),
        ("spec", which),
        ("file", spec.file if spec is not None else ""),
    )
    yield from _facts({"": rows})
    if spec is None:
        return
    compared = []
    for row in compare_device(spec, device):
        cells = [f"{row.what} (differs)" if row.differs else row.what]
        for value in (row.recorded, row.specified):
            cells.append(_amount(row.what.replace(" ", "_"), value, row.unit) if value is not None else _UNKNOWN)
        compared.append(tuple(cells))
    yield _table(("fact",), ("report", "spec"), compared)
