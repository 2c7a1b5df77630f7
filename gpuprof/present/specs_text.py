"""Hardware specs as lines of text: the list, all facts of one spec, and how a recorded device matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuprof.hardware.specs import ArchSpec, ComputeKey, CounterLink, Fact, GpuSpec
from gpuprof.present.console_parts import aligned
from gpuprof.units import format_binary, format_si, significant
from gpuprof.views.exports.hardware_specs import main_facts

if TYPE_CHECKING:
    from gpuprof.hardware.check import SpecMismatch
    from gpuprof.hardware.device import RecordedDevice

_MARK = "*"
_UNKNOWN = "–"
_SCALES = (1.0, 1e6, 1e9, 1e12, 1e12, 1e12)
"""What `main_facts` are divided by in the list."""


def gpu_table(gpus: Iterable[GpuSpec], width: int) -> Iterator[str]:
    """Yield the list of products with their main numbers, as many columns as fit."""
    head = ("name", "arch", "SMs", "boost", "DRAM", "FP32", "FP16 tensor", "FP8 tensor")
    units = ("", "", "", "MHz", "GB/s", "TFLOP/s", "TFLOP/s", "TFLOP/s")
    yield from _table((head, units, *(_gpu_cells(gpu) for gpu in gpus)), left=2, width=width)
    yield f"Rated, dense, FP32 accumulation. {_MARK} unconfirmed: see `gpuprof specs show NAME`."


def _gpu_cells(gpu: GpuSpec) -> tuple[str, ...]:
    cells = (_cell(fact, scale) for fact, scale in zip(main_facts(gpu).values(), _SCALES, strict=True))
    return (gpu.name, gpu.arch, *cells)


def _cell(fact: Fact | None, scale: float) -> str:
    if fact is None:
        return _UNKNOWN
    value = fact.value / scale
    text = f"{value:.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"
    return text + ("" if fact.confirmed else _MARK)


def arch_table(archs: Iterable[ArchSpec], width: int) -> Iterator[str]:
    """Yield the list of architectures with their main numbers, as many columns as fit."""
    head = ("arch", "family", "chips", "warps/SM", "FP32", "FP16 tensor")
    units = ("", "", "", "", "FLOP/clk/SM", "FLOP/clk/SM")
    yield from _table((head, units, *(_arch_cells(arch) for arch in archs)), left=3, width=width)


def _arch_cells(arch: ArchSpec) -> tuple[str, ...]:
    tensor = _fastest(arch, "tensor.fp16", "fp32")
    warps, fp32 = arch.limits.get("warps_per_sm"), arch.compute.get(ComputeKey("fp32"))
    return (arch.name, arch.family, _chips(arch), _cell(warps, 1), _cell(fp32, 1), _cell(tensor, 1))


def _fastest(arch: ArchSpec, path: str, accumulator: str) -> Fact | None:
    rates = [fact for key, fact in arch.compute.items() if key[:2] == (path, accumulator)]
    return max(rates, key=lambda fact: fact.value, default=None)


def _chips(arch: ArchSpec) -> str:
    return f"{arch.chips[0]}–{arch.chips[-1]}" if len(arch.chips) > 1 else "".join(arch.chips)


def _table(rows: Sequence[Sequence[str]], left: int, width: int) -> list[str]:
    """Return aligned lines: the first `left` columns to the left, numbers to the right, their marks hanging out.

    The last columns of numbers are left out where the lines would be too wide.
    """
    hanging = [(*row[:left], *(cell if cell.endswith(_MARK) else f"{cell} " for cell in row[left:])) for row in rows]
    lines = list(aligned(hanging, range(left, len(hanging[0])), " "))
    too_wide = max(map(len, lines)) > width and len(hanging[0]) > left
    return _table([row[:-1] for row in rows], left, width) if too_wide else lines


def gpu_lines(gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> Iterator[str]:
    """Yield all that is known of a product, with the rates per SM of its architecture."""
    yield f"{gpu.title} ({gpu.name}), {gpu.arch}"
    yield f"  {gpu.file}"
    if gpu.match.names:
        yield f"  matches the name {' or '.join(map(repr, gpu.match.names))}"
    if gpu.match.pci_ids:
        yield f"  matches the PCI id {' or '.join(gpu.match.pci_ids)}"
    if gpu.match.sm_count is not None:
        yield f"  only with {gpu.match.sm_count} SMs"
    if gpu.match.memory_bytes is not None:
        yield f"  only with about {format_si(gpu.match.memory_bytes, 'B')} of memory"
    yield from _section("facts", gpu.facts)
    yield from _heading("rated peaks (dense)", gpu.rated)
    for key, fact in gpu.rated.items():
        yield from _fact_lines(str(key), fact, _product_text(key, fact, gpu, rates))
    yield from _section("rates per SM and clock (dense)", {str(key): fact for key, fact in rates.items()})


def _product_text(key: ComputeKey, fact: Fact, gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> str | None:
    """Return SMs × rate × clock for a rated peak; None where the rate or the clock is not known."""
    from gpuprof.hardware.check import implied_peak

    implied = implied_peak(key, fact, gpu, rates)
    if implied is None or fact.clock_hz is None:
        return None
    rate, peak = implied
    clock = _amount("clock", fact.clock_hz, "Hz")
    return f"{gpu.number('sm_count'):g} SMs × {rate.value:g} × {clock} = {format_si(peak, fact.unit, 4)}"


def arch_lines(arch: ArchSpec) -> Iterator[str]:
    """Yield all that is known of an architecture."""
    yield f"{arch.name}: {arch.family}, compute capability {arch.compute_capability}, {', '.join(arch.chips)}"
    yield f"  {arch.file}"
    yield f"  counter names of {arch.ncu_chip}" if arch.ncu_chip else "  no list of counter names available"
    yield from _section("limits", arch.limits)
    yield from _section("rates per SM and clock (dense)", {str(key): fact for key, fact in arch.compute.items()})
    yield from _section("operations", arch.operations)
    yield from _section("bandwidth", arch.bandwidth)
    yield from _heading("counters, tried in order", arch.counters)
    for quantity, links in arch.counters.items():
        yield f"  {quantity}"
        yield from (f"      {number}. {_link_text(link)}" for number, link in enumerate(links, start=1))
    yield from _heading("stall reasons", arch.stalls)
    yield f"  {', '.join(arch.stalls)}"


def _section(title: str, facts: Mapping[str, Fact]) -> Iterator[str]:
    yield from _heading(title, facts)
    for name, fact in facts.items():
        yield from _fact_lines(name, fact)


def _heading(title: str, content: Iterable[object]) -> Iterator[str]:
    if content:
        yield ""
        yield title


def _fact_lines(name: str, fact: Fact, product: str | None = None) -> Iterator[str]:
    values = ", ".join(_amount(name, value, fact.unit) for value in fact.values or (fact.value,))
    clock = f" at {_amount('clock', fact.clock_hz, 'Hz')}" if fact.clock_hz is not None else ""
    yield f"  {name:<28} {values}{clock}{'' if fact.confirmed else '  (unconfirmed)'}"
    if product is not None:
        yield f"      {product}"
    yield f"      {fact.kind}: {fact.source}"
    if fact.note:
        yield f"      note: {fact.note}"
    yield f"      {fact.place}"


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


def match_lines(device: RecordedDevice, spec: GpuSpec | None, arch: ArchSpec | None) -> Iterator[str]:
    """Yield which spec describes a device, why, and where they differ; without a spec, what stands in for it."""
    from gpuprof.hardware.check import compare_device, match_reasons

    yield f"  {_device_text(device)}"
    if spec is None:
        what = arch.name if arch is not None else "what all architectures share"
        yield f"    no product spec; using {what} and the report's own attributes"
        return
    yield f"    {spec.name} by {' and '.join(match_reasons(spec, device))}"
    yield f"    {spec.file}"
    yield from (f"    {line}" for line in _comparison(compare_device(spec, device)))


def _device_text(device: RecordedDevice) -> str:
    parts = (
        f"PCI id {device.pci_id}" if device.pci_id else None,
        f"compute capability {device.compute_capability}" if device.compute_capability else None,
        f"{device.sm_count} SMs" if device.sm_count is not None else None,
        format_si(device.memory_bytes, "B") if device.memory_bytes is not None else None,
    )
    known = ", ".join(part for part in parts if part)
    return f"{device.name or 'a GPU without a name'}{f' ({known})' if known else ''}"


def _comparison(rows: Iterable[SpecMismatch]) -> Iterator[str]:
    compared = (
        (row.what, _compared(row, row.recorded), _compared(row, row.specified), "differs" if row.differs else "")
        for row in rows
    )
    return aligned([("", "report", "spec", ""), *compared], (1, 2))


def _compared(row: SpecMismatch, value: float | None) -> str:
    name = "memory_size" if row.what == "memory size" else row.what
    return _amount(name, value, row.unit) if value is not None else _UNKNOWN
