"""Hardware specs as documents: the list, all facts of one spec, and how a recorded device matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from gpuprof.hardware.specs import ArchSpec, ComputeKey, CounterLink, Fact, GpuSpec
from gpuprof.units import format_binary, format_si, significant
from gpuprof.views import document as doc
from gpuprof.views.exports.hardware_specs import main_facts

if TYPE_CHECKING:
    from gpuprof.hardware.check import SpecMismatch
    from gpuprof.hardware.device import RecordedDevice

_MARK = "*"
_UNKNOWN = "–"
# The list has the main facts in these units.
_MAIN_COLUMNS = {"SMs": 1.0, "boost MHz": 1e6, "DRAM GB/s": 1e9, "FP32": 1e12, "FP16": 1e12, "FP8": 1e12}
_RATES = "rates per SM and clock (dense)"


def list_view(gpus: Iterable[GpuSpec], archs: Iterable[ArchSpec]) -> doc.Document:
    """Return the list of products and of architectures with their main numbers."""
    columns = [doc.Column("product", "name"), doc.Column("arch")]
    for rank, name in enumerate(_MAIN_COLUMNS):
        columns.append(doc.Column(name, "number", rank))
    rates = "Rated, dense, in TFLOP/s with FP32 accumulation; FP16 and FP8 on tensor cores."
    products = doc.Table(
        "products",
        tuple(columns),
        tuple(_gpu_cells(gpu) for gpu in gpus),
        more=f"{rates} {_MARK} unconfirmed: see `gpuprof specs show NAME`.",
    )
    return doc.Document("specs", (products, _arch_table(archs)))


def _gpu_cells(gpu: GpuSpec) -> tuple[str, ...]:
    cells = [_cell(fact, unit) for fact, unit in zip(main_facts(gpu).values(), _MAIN_COLUMNS.values(), strict=True)]
    return (gpu.name, gpu.arch, *cells)


def _cell(fact: Fact | None, unit: float = 1.0) -> str:
    if fact is None:
        return _UNKNOWN
    value = fact.value / unit
    digits = 0 if value >= 100 or value == round(value) else 1
    return f"{value:.{digits}f}{'' if fact.confirmed else _MARK}"


def _arch_table(archs: Iterable[ArchSpec]) -> doc.Table:
    rows = []
    for arch in archs:
        tensor = [fact for key, fact in arch.compute.items() if key[:2] == ("tensor.fp16", "fp32")]
        fastest = max(tensor, key=lambda fact: fact.value, default=None)
        warps = arch.limits.get("warps_per_sm")
        rates = (_cell(arch.compute.get(ComputeKey("fp32"))), _cell(fastest))
        rows.append((arch.name, arch.family, "–".join(arch.chips[:1] + arch.chips[1:][-1:]), _cell(warps), *rates))
    columns = (
        doc.Column("arch", "name"),
        doc.Column("family"),
        doc.Column("chips"),
        doc.Column("warps/SM", "number"),
        doc.Column("FP32", "number"),
        doc.Column("FP16", "number"),
    )
    return doc.Table("architectures", columns, tuple(rows), more="FP32 and FP16 (tensor cores) in FLOP/clock/SM.")


def gpu_view(gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> doc.Document:
    """Return all that is known of a product, with the rates per SM of its architecture."""
    rows = [("file", gpu.file)]
    if gpu.match.names:
        rows.append(("names", ", ".join(gpu.match.names)))
    if gpu.match.pci_ids:
        rows.append(("PCI ids", ", ".join(gpu.match.pci_ids)))
    if gpu.match.sm_count is not None:
        rows.append(("only with", f"{gpu.match.sm_count} SMs"))
    if gpu.match.memory_bytes is not None:
        rows.append(("only with", f"about {format_si(gpu.match.memory_bytes, 'B')} of memory"))
    rated: list[tuple[str, doc.Inline]] = []
    for key, fact in gpu.rated.items():
        rated += _fact_rows(str(key), fact, _product_text(key, fact, gpu, rates))
    blocks = (
        doc.Heading(f"{gpu.title} ({gpu.name}), {gpu.arch}"),
        doc.Facts(tuple(rows)),
        _section("facts", gpu.facts),
        doc.Facts(tuple(rated), "rated peaks (dense)"),
        _section(_RATES, {str(key): fact for key, fact in rates.items()}),
    )
    return doc.Document(gpu.title, tuple(block for block in blocks if isinstance(block, doc.Heading) or block.rows))


def _product_text(key: ComputeKey, fact: Fact, gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> str:
    """Return SMs × rate × clock for a rated peak; empty if the rate or the clock is not known."""
    from gpuprof.hardware.check import implied_peak

    implied = implied_peak(key, fact, gpu, rates)
    if implied is None or fact.clock_hz is None:
        return ""
    rate, peak = implied
    clock = _amount("clock", fact.clock_hz, "Hz")
    return f"{gpu.number('sm_count'):g} SMs × {rate.value:g} × {clock} = {format_si(peak, fact.unit, 4)}"


def arch_view(arch: ArchSpec) -> doc.Document:
    """Return all that is known of an architecture."""
    counters: list[tuple[str, doc.Inline]] = []
    for quantity, links in arch.counters.items():
        for number, link in enumerate(links, start=1):
            counters.append((quantity if number == 1 else "", f"{number}. {_link_text(link)}"))
    blocks = (
        doc.Facts(
            (
                ("family", arch.family),
                ("chips", ", ".join(arch.chips)),
                ("compute", f"capability {arch.compute_capability}"),
                ("counters", f"names of {arch.ncu_chip}" if arch.ncu_chip else "no list of names available"),
                ("file", arch.file),
            )
        ),
        _section("limits", arch.limits),
        _section(_RATES, {str(key): fact for key, fact in arch.compute.items()}),
        _section("operations", arch.operations),
        _section("bandwidth", arch.bandwidth),
        doc.Facts(tuple(counters), "counters, tried in order"),
        doc.Facts((("", ", ".join(arch.stalls)),) if arch.stalls else (), "stall reasons"),
    )
    shown = tuple(block for block in blocks if block.rows)
    return doc.Document(arch.name, (doc.Heading(f"{arch.name}, {arch.family}"), *shown))


def _section(title: str, facts: Mapping[str, Fact]) -> doc.Facts:
    rows: list[tuple[str, doc.Inline]] = []
    for name, fact in facts.items():
        rows += _fact_rows(name, fact)
    return doc.Facts(tuple(rows), title)


def _fact_rows(name: str, fact: Fact, product: str = "") -> Iterator[tuple[str, doc.Inline]]:
    values = ", ".join(_amount(name, value, fact.unit) for value in fact.values or (fact.value,))
    clock = f" at {_amount('clock', fact.clock_hz, 'Hz')}" if fact.clock_hz is not None else ""
    yield name, doc.Cell(f"{values}{clock}{'' if fact.confirmed else ' (unconfirmed)'}", "strong")
    if product:
        yield "", product
    yield "", doc.Cell(f"{fact.kind}: {fact.source}, {PurePath(str(fact.place)).name}", "muted", whole=str(fact.place))
    if fact.note:
        yield "", doc.Cell(f"note: {fact.note}", "muted")


def _amount(name: str, value: float, unit: str) -> str:
    """Write a value as a person would: memory of the board in GB, memory on the chip in KiB and MiB, rates in full."""
    if unit == "B" and name != "memory_size":
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
        sign = " ÷ " if power < 0 else " × "
        raised = name if abs(power) == 1 else f"{name}^{_factor(abs(power))}"
        text = f"{text}{sign}{raised}" if text or power < 0 else raised
    return text if not text.startswith(" ") else f"1{text}"


def _factor(factor: float) -> str:
    return significant(factor, 6, strip=True)


def _link_text(link: CounterLink) -> str:
    terms = terms_text(link)
    basis = "" if link.basis == "counted" else f" ({link.basis})"
    return f"{link.how}{basis}{': ' if terms else ''}{terms}"


def match_blocks(device: RecordedDevice, spec: GpuSpec | None, arch: ArchSpec | None) -> Iterator[doc.Block]:
    """Yield which spec describes a device, why, and where they differ; without a spec, what replaces it."""
    from gpuprof.hardware.check import compare_device, match_reasons

    rows = [("GPU", _device_text(device))]
    if spec is None:
        known = arch.name if arch is not None else "what all architectures share"
        rows.append(("spec", f"no product spec; using {known} and the report's own attributes"))
        yield doc.Facts(tuple(rows))
        return
    rows.append(("spec", f"{spec.name} by {' and '.join(match_reasons(spec, device))}"))
    rows.append(("file", spec.file))
    yield doc.Facts(tuple(rows))
    columns = (doc.Column("fact"), doc.Column("report", "number"), doc.Column("spec", "number"), doc.Column(""))
    compared = tuple(
        (row.what, _compared(row, row.recorded), _compared(row, row.specified), "differs" if row.differs else "")
        for row in compare_device(spec, device)
    )
    yield doc.Table("report and spec", columns, compared)


def _device_text(device: RecordedDevice) -> str:
    known = []
    if device.pci_id:
        known.append(f"PCI id {device.pci_id}")
    if device.compute_capability:
        known.append(f"compute capability {device.compute_capability}")
    if device.sm_count is not None:
        known.append(f"{device.sm_count} SMs")
    if device.memory_bytes is not None:
        known.append(format_si(device.memory_bytes, "B"))
    name = device.name or "a GPU without a name"
    return f"{name} ({', '.join(known)})" if known else name


def _compared(row: SpecMismatch, value: float | None) -> str:
    name = "memory_size" if row.what == "memory size" else row.what
    return _amount(name, value, row.unit) if value is not None else _UNKNOWN
