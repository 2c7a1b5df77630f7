"""`gpuprof specs list|show|check|match`: the hardware database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprof.errors import InputError, SpecError
from gpuprof.hardware.library import SpecLibrary, load_gpu
from gpuprof.hardware.parse import ARCH_NAME
from gpuprof.hardware.specs import ArchSpec, ComputeKey, Fact, GpuSpec, Link, compute_rates
from gpuprof.present.text import printable
from gpuprof.units import format_binary, format_si

if TYPE_CHECKING:
    from gpuprof.hardware.check import Difference
    from gpuprof.model.report import RecordedDevice

_MARK = "*"
_LISTED = (ComputeKey("fp32"), ComputeKey("tensor.fp16", "fp32"), ComputeKey("tensor.fp8", "fp32"))
_form = click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)


@click.group("specs")
def command() -> None:
    """List, show, check and match hardware specs.

    Specs are looked for in $GPUPROF_SPECS (else gpuprof/specs in the user's config folder), then among the packaged.
    """


@command.command("list")
@_form
def list_(form: str) -> None:
    """List products and architectures with their main numbers."""
    library = SpecLibrary()
    gpus, archs = tuple(_readable_gpus(library)), tuple(_readable_archs(library))
    if form == "json":
        _write_json({"gpus": [_gpu_row(gpu) for gpu in gpus], "architectures": [_arch_row(arch) for arch in archs]})
    else:
        _write((*_gpu_table(gpus), "", *_arch_table(archs)))


@command.command("show")
@click.argument("name")
@_form
def show(name: str, form: str) -> None:
    """Show all that is known of NAME: a product (spec name, title or device name) or an architecture (sm_90)."""
    library = SpecLibrary()
    arch = library.arch(name)
    if arch is not None:
        if form == "json":
            _write_json(_arch_json(arch))
        else:
            _write(_arch_lines(arch))
        return
    if ARCH_NAME.fullmatch(name):
        known = ", ".join(path.stem for path in _arch_files(library))
        raise InputError(f"no spec describes the architecture {name}", f"there are {known}")
    gpu = library.gpu(name)
    rates = _rates(library, gpu)
    if form == "json":
        _write_json(_gpu_json(gpu, rates))
    else:
        _write(_gpu_lines(gpu, rates))


@command.command("check")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check specs: all that are in reach, or FILEs. Prints FILE:LINE: SEVERITY: MESSAGE; exit code 5 for errors."""
    from gpuprof.hardware.check import check_files, check_library

    library = SpecLibrary()
    result = check_files(files, library) if files else check_library(library)
    _write(str(finding) for finding in result.findings)
    errors, warnings = result.count("error"), result.count("warning")
    click.echo(
        f"{_plural(result.files, 'file')}, {_plural(errors, 'error')}, {_plural(warnings, 'warning')}; "
        f"{result.unconfirmed} of {result.facts} facts are unconfirmed",
        err=True,
    )
    if errors:
        raise SpecError(f"{_plural(errors, 'error')} in {_plural(result.files, 'spec file')}")


@command.command("match")
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...")
def match(reports: tuple[str, ...]) -> None:
    """Tell which spec describes the GPUs of REPORTs, why, and where the report and the spec differ."""
    library = SpecLibrary()
    for report in reports:
        devices = _devices(report)
        _write([report, *(line for device in devices for line in _match_lines(library, device))])
        if not devices:
            _write(["  names no GPU"])


def _write(lines: Iterable[str]) -> None:
    """Print lines as UTF-8 whatever the locale, with what could steer a terminal made visible."""
    for line in lines:
        click.echo(f"{printable(line)}\n".encode("utf-8", "backslashreplace"), nl=False)


def _write_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# list


def _readable_gpus(library: SpecLibrary) -> Iterator[GpuSpec]:
    for path in library.gpu_files():
        try:
            yield load_gpu(path)
        except SpecError as error:
            _left_out(error)


def _readable_archs(library: SpecLibrary) -> Iterator[ArchSpec]:
    for path in _arch_files(library):
        try:
            arch = library.arch(path.stem)
        except SpecError as error:
            _left_out(error)
        else:
            if arch is not None:
                yield arch


def _arch_files(library: SpecLibrary) -> list[Path]:
    """Return the architecture files in the order of their compute capability."""
    return sorted(library.arch_files(), key=lambda path: (len(path.stem), path.stem))


def _left_out(error: SpecError) -> None:
    click.echo(f"left out: {printable(error.message)}", err=True)


def _gpu_table(gpus: Iterable[GpuSpec]) -> Iterator[str]:
    head = ("name", "arch", "SMs", "boost", "DRAM", "FP32", "FP16 tensor", "FP8 tensor")
    units = ("", "", "", "MHz", "GB/s", "TFLOP/s", "TFLOP/s", "TFLOP/s")
    yield from _table((head, units, *(_gpu_cells(gpu) for gpu in gpus)), left=2)
    yield f"Rated, dense, FP32 accumulation. {_MARK} unconfirmed: see `gpuprof specs show NAME`."


def _gpu_cells(gpu: GpuSpec) -> tuple[str, ...]:
    return (
        gpu.name,
        gpu.arch,
        _cell(gpu.facts.get("sm_count"), 1),
        _cell(gpu.facts.get("boost_clock"), 1e6),
        _cell(gpu.rated.get(ComputeKey("dram")), 1e9),
        *(_cell(_rated(gpu, key), 1e12) for key in _LISTED),
    )


def _rated(gpu: GpuSpec, key: ComputeKey) -> Fact | None:
    """Return a rated peak; where FP16 is not rated, that of BF16, which has the same rate."""
    if key.path == "tensor.fp16" and key not in gpu.rated:
        key = ComputeKey("tensor.bf16", key.accumulator)
    return gpu.rated.get(key)


def _cell(fact: Fact | None, scale: float) -> str:
    if fact is None:
        return "–"
    value = fact.value / scale
    text = f"{value:.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"
    return text + ("" if fact.confirmed else _MARK)


def _arch_table(archs: Iterable[ArchSpec]) -> Iterator[str]:
    head = ("arch", "family", "chips", "warps/SM", "FP32", "FP16 tensor")
    units = ("", "", "", "", "FLOP/clk/SM", "FLOP/clk/SM")
    yield from _table((head, units, *(_arch_cells(arch) for arch in archs)), left=3)


def _arch_cells(arch: ArchSpec) -> tuple[str, ...]:
    tensor = _fastest(arch, "tensor.fp16", "fp32")
    warps, fp32 = arch.limits.get("warps_per_sm"), arch.compute.get(ComputeKey("fp32"))
    return (arch.name, arch.family, _chips(arch), _cell(warps, 1), _cell(fp32, 1), _cell(tensor, 1))


def _fastest(arch: ArchSpec, path: str, accumulator: str) -> Fact | None:
    rates = [fact for key, fact in arch.compute.items() if key[:2] == (path, accumulator)]
    return max(rates, key=lambda fact: fact.value, default=None)


def _chips(arch: ArchSpec) -> str:
    return f"{arch.chips[0]}–{arch.chips[-1]}" if len(arch.chips) > 1 else "".join(arch.chips)


def _table(rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    """Yield aligned lines: the first `left` columns to the left, numbers to the right, their marks hanging out."""
    widths = [max(len(row[column].rstrip(_MARK)) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = []
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            bare = cell.rstrip(_MARK)
            cells.append(bare.ljust(width) if column < left else bare.rjust(width) + cell[len(bare) :].ljust(1))
        yield " ".join(cells).rstrip()


def _gpu_row(gpu: GpuSpec) -> dict[str, object]:
    facts = {
        "sm_count": gpu.facts.get("sm_count"),
        "boost_clock_hz": gpu.facts.get("boost_clock"),
        "dram_bytes_per_s": gpu.rated.get(ComputeKey("dram")),
        "fp32_flop_per_s": _rated(gpu, _LISTED[0]),
        "tensor_fp16_flop_per_s": _rated(gpu, _LISTED[1]),
        "tensor_fp8_flop_per_s": _rated(gpu, _LISTED[2]),
    }
    return {
        "name": gpu.name,
        "title": gpu.title,
        "arch": gpu.arch,
        **{name: fact.value if fact is not None else None for name, fact in facts.items()},
        "unconfirmed": [name for name, fact in facts.items() if fact is not None and not fact.confirmed],
        "file": gpu.file,
    }


def _arch_row(arch: ArchSpec) -> dict[str, object]:
    return {
        "name": arch.name,
        "compute_capability": arch.compute_capability,
        "family": arch.family,
        "chips": list(arch.chips),
        "file": arch.file,
    }


# show


def _rates(library: SpecLibrary, gpu: GpuSpec) -> Mapping[ComputeKey, Fact]:
    arch = library.arch(gpu.arch)
    if arch is None:
        click.echo(f"no spec describes {gpu.arch}, so the rates per SM are not known", err=True)
        return {}
    return compute_rates(arch, gpu)


def _gpu_lines(gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> Iterator[str]:
    yield f"{gpu.title} ({gpu.name}), {gpu.arch}"
    yield f"  {gpu.file}"
    yield from (f"  matches the name {name!r}" for name in gpu.match.names)
    yield from (f"  matches the PCI id {pci_id}" for pci_id in gpu.match.pci_ids)
    if gpu.match.sm_count is not None:
        yield f"  only with {gpu.match.sm_count} SMs"
    if gpu.match.memory_bytes is not None:
        yield f"  only with about {format_si(gpu.match.memory_bytes, 'B')} of memory"
    yield from _section("facts", gpu.facts)
    yield from _heading("rated peaks (dense)", gpu.rated)
    for key, fact in gpu.rated.items():
        yield from _fact_lines(str(key), fact, _implied_text(key, fact, gpu, rates))
    yield from _section("rates per SM and clock (dense)", {str(key): fact for key, fact in rates.items()})


def _implied_text(key: ComputeKey, fact: Fact, gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> str:
    """Return the clock that a peak implies, and SMs × rate × clock beside it."""
    from gpuprof.hardware.check import implied_peak

    if fact.clock_hz is None:
        return ""
    text = f" at {_amount('clock', fact.clock_hz, 'Hz')}"
    implied = implied_peak(key, fact, gpu, rates)
    if implied is None:
        return text
    rate, peak = implied
    product = f"{gpu.number('sm_count'):g} SMs × {rate.value:g} × {_amount('clock', fact.clock_hz, 'Hz')}"
    return f"{text}; {product} = {format_si(peak, fact.unit, 4)}"


def _arch_lines(arch: ArchSpec) -> Iterator[str]:
    yield f"{arch.name}: {arch.family}, compute capability {arch.compute_capability}, {', '.join(arch.chips)}"
    yield f"  {arch.file}"
    yield f"  counter names of {arch.ncu_chip}" if arch.ncu_chip else "  no list of counter names was at hand"
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


def _fact_lines(name: str, fact: Fact, addition: str = "") -> Iterator[str]:
    values = ", ".join(_amount(name, value, fact.unit) for value in fact.values or (fact.value,))
    yield f"  {name:<28} {values}{addition}{'' if fact.confirmed else '  (unconfirmed)'}"
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


def _link_text(link: Link) -> str:
    terms = " + ".join(name if factor == 1 else f"{factor:g} × {name}" for name, factor in link.terms)
    basis = "" if link.basis == "counted" else f" ({link.basis})"
    return f"{link.how}{basis}{': ' if terms else ''}{terms}"


def _gpu_json(gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]) -> dict[str, object]:
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


def _arch_json(arch: ArchSpec) -> dict[str, object]:
    return {
        "kind": "arch",
        **_arch_row(arch),
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


def _link_json(link: Link) -> dict[str, object]:
    return {
        "how": link.how,
        "basis": link.basis,
        "definition": link.definition,
        "terms": dict(link.terms),
        "file": link.place.file,
        "line": link.place.line,
    }


# match


def _devices(name: str) -> tuple[RecordedDevice, ...]:
    """Return the GPUs of a report, or those of a session as far as it keeps them."""
    from gpuprof.model.report import RecordedDevice, Report
    from gpuprof.read.files import read_file

    file = read_file(name)
    if isinstance(file, Report):
        return file.devices
    return tuple(
        RecordedDevice(name=device.name, compute_capability=device.compute_capability, sm_count=device.sm_count)
        for device in file.devices
    )


def _match_lines(library: SpecLibrary, device: RecordedDevice) -> Iterator[str]:
    from gpuprof.hardware.check import compare_device, match_reasons

    yield f"  {_device_text(device)}"
    spec = library.match(device)
    if spec is None:
        arch = library.arch_of(device.compute_capability) if device.compute_capability else None
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


def _comparison(rows: Iterable[Difference]) -> Iterator[str]:
    yield f"{'':<12} {'report':>12} {'spec':>12}"
    for row in rows:
        recorded, specified = (
            _amount("memory_size" if row.what == "memory size" else row.what, value, row.unit)
            if value is not None
            else "–"
            for value in (row.recorded, row.specified)
        )
        yield f"{row.what:<12} {recorded:>12} {specified:>12}{'  differs' if row.differs else ''}"
