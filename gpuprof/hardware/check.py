"""Checks specs beyond what parsing needs: contradicting numbers, names that do not fit, doubles, recorded devices.

Rules are functions from a spec to findings; `check_files` applies them and goes on after a file that cannot be parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

from msgspec import Struct

from gpuprof.errors import SpecError
from gpuprof.hardware.certificates import Certificate, misnamed, read_certificate, tolerance
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import SpecLibrary, arch_tree, base_path, load_gpu, same_memory
from gpuprof.hardware.parse import parse_arch, parse_gpu
from gpuprof.hardware.specs import (
    COUNTS,
    LEVELS,
    PATHS,
    PIPES,
    ArchSpec,
    ComputeKey,
    CounterLink,
    Fact,
    GpuSpec,
    Match,
    compute_rates,
)
from gpuprof.hardware.yaml_tree import BrokenSpec, FileLine, YamlNode, load_tree
from gpuprof.units import format_si

_RATED_TOLERANCE = 0.02
"""Datasheets round to two or three digits."""
_DRAM_TOLERANCE = 0.05
"""Memory clocks and bandwidths are rounded separately."""
_BOOST_MARGIN = 1.02
_SAME = 0.005
_SPARSE = (1.9, 2.1)
"""Structured sparsity doubles the peak; rated numbers are dense."""

QUANTITIES = {
    "duration", "sm-clock", "gpc-clock", "dram-clock", "l2-clock", "idle.tensor", "peak.dram",
    *(f"{kind}.{path}" for kind in ("work", "peak") for path in PATHS),
    *(f"traffic.{level}" for level in LEVELS),
    *(f"throughput.{unit}" for unit in ("sm", "memory", *LEVELS)),
    "fabric.l2", "hit-rate.l1", "hit-rate.l2", "bytes-per-sector.ld", "bytes-per-sector.st",
    *(f"pipe.{pipe}" for pipe in PIPES),
    *(f"scheduler.{what}" for what in ("issue-active", "issue-slots", "eligible-warps", "active-warps")),
    *(f"count.{name}" for name in COUNTS),
}  # fmt: skip
"""What `counters` may describe."""

_METRIC = re.compile(r"(?:[a-z]+:)?(?=[A-Za-z0-9_]+?__[A-Za-z0-9_])[A-Za-z0-9_]+(?:\.[a-z0-9_]+)*")
_OPCODE = re.compile(r"[A-Z][A-Z0-9]*")


class SpecIssue(Struct, frozen=True):
    """What is wrong at a place. Severity: `error`, `warning`, or `info` for a contradiction that a note explains."""

    place: FileLine
    severity: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.severity}: {self.message}"


class SpecCheckResult(Struct, frozen=True):
    """The findings in order of file and line, and how many files and facts were looked at."""

    findings: tuple[SpecIssue, ...]
    files: int
    facts: int
    unconfirmed: int

    def count(self, severity: str) -> int:
        """Return the number of findings of that severity."""
        return sum(finding.severity == severity for finding in self.findings)


def check_library(library: SpecLibrary) -> SpecCheckResult:
    """Check every spec in reach."""
    return check_files(library.files(), library)


def check_files(paths: Iterable[Path], library: SpecLibrary) -> SpecCheckResult:
    """Check these files. Architectures that they name are looked for beside them, then in the library."""
    findings: list[SpecIssue] = []
    specs: list[ArchSpec | GpuSpec | Certificate] = []
    paths = tuple(paths)
    for path in paths:
        try:
            spec, issues = _check_file(path, replace(library, folders=(path.parent.parent, *library.folders)))
        except SpecError as error:
            findings.append(_broken(error, path))
        else:
            specs.append(spec)
            findings.extend(issues)
    findings.extend(_doubles([spec for spec in specs if isinstance(spec, GpuSpec)]))
    facts = [fact for spec in specs for fact in own_facts(spec)]
    order = {str(path): index for index, path in enumerate(paths)}
    findings.sort(key=lambda finding: (order.get(finding.place.file, len(order)), finding.place.line))
    unconfirmed = sum(not fact.confirmed for fact in facts)
    return SpecCheckResult(tuple(findings), len(paths), len(facts), unconfirmed=unconfirmed)


def own_facts(spec: ArchSpec | GpuSpec | Certificate) -> tuple[Fact, ...]:
    """Return the facts that stand in the spec's own file, not those of its base. A certificate has none."""
    if isinstance(spec, Certificate):
        return ()
    groups: tuple[Mapping[str, Fact] | Mapping[ComputeKey, Fact] | Mapping[ComputeKey, Fact | None], ...]
    if isinstance(spec, ArchSpec):
        groups = (spec.limits, spec.compute, spec.operations, spec.bandwidth)
    else:
        groups = (spec.facts, spec.rated, spec.compute)
    every = chain.from_iterable(group.values() for group in groups)
    return tuple(fact for fact in every if fact is not None and fact.place.file == spec.file)


def _error(place: FileLine, rule: str, message: str) -> SpecIssue:
    return SpecIssue(place=place, severity="error", rule=rule, message=message)


def _warning(place: FileLine, rule: str, message: str) -> SpecIssue:
    return SpecIssue(place=place, severity="warning", rule=rule, message=message)


def _broken(error: SpecError, path: Path) -> SpecIssue:
    if isinstance(error, BrokenSpec):
        return _error(error.place, "parse", error.problem)
    return _error(FileLine(str(path), 1), "parse", error.message)


def _certificate_findings(certificate: Certificate, tree: YamlNode, path: Path) -> Iterator[SpecIssue]:
    """Find a name of another `arch`, quantities that no counters are for, and counters that are too far off."""
    place, complaint = tree.place, misnamed(certificate, path)
    if complaint:
        yield _error(tree.mapping("a spec file")["arch"].place, "file-name", complaint)
    for agreement in certificate.agreements:
        if agreement.quantity.removesuffix(" sparse") not in QUANTITIES:
            yield _error(place, "certificate", f"{agreement.quantity} is not a quantity that counters measure")
        elif agreement.deviation > tolerance(agreement.quantity, certificate.level):
            counters = f"{agreement.quantity} by {', '.join(sorted(agreement.counters))}"
            message = f"{counters} is {agreement.deviation:.1%} off ({agreement.known}): it is not certified"
            yield SpecIssue(place=place, severity="info", rule="certificate", message=message)


def _check_file(path: Path, library: SpecLibrary) -> tuple[ArchSpec | GpuSpec | Certificate, list[SpecIssue]]:
    tree = load_tree(path)
    top = tree.mapping("a spec file")
    kind = top["kind"].text("kind") if "kind" in top else None
    if kind == "certificate":
        certificate = read_certificate(path)
        return certificate, list(_certificate_findings(certificate, tree, path))
    if kind == "arch":
        merged = arch_tree(path, library.folders)
        arch = parse_arch(merged, generic=path.stem == "base")
        return arch, [
            *_misnamed(arch.name, top, path),
            *_check_arch(arch, tree),
            *_removes_nothing(path, tree, library),
        ]
    if kind == "gpu":
        gpu = parse_gpu(tree)
        return gpu, [*_misnamed(gpu.name, top, path), *_check_gpu(gpu, top, library)]
    raise BrokenSpec(top["kind"].place if "kind" in top else tree.place, "kind must be arch or gpu")


def _misnamed(name: str, top: Mapping[str, YamlNode], path: Path) -> Iterator[SpecIssue]:
    if name != path.stem:
        yield _error(top["name"].place, "file-name", f"name {name!r} in a file called {path.name}")


# Architectures


def _check_arch(arch: ArchSpec, tree: YamlNode) -> Iterator[SpecIssue]:
    generic = not arch.compute_capability
    if not generic and arch.name != "sm_" + arch.compute_capability.replace(".", ""):
        place = tree.mapping("a spec file")["name"].place
        message = f"{arch.name} has compute capability {arch.compute_capability}"
        yield _error(place, "compute-capability", message)
    yield from _contradicting_limits(arch.limits)
    yield from _rising_ports(arch.bandwidth)
    yield from _strange_counters(arch)
    if not arch.stalls:
        yield _error(tree.place, "stalls", "the list of stall reasons is empty")


def _contradicting_limits(limits: Mapping[str, Fact]) -> Iterator[SpecIssue]:
    def error(name: str, message: str) -> SpecIssue:
        return _error(limits[name].place, "limits", message)

    value = {name: round(fact.value) for name, fact in limits.items()}
    if {"warps_per_sm", "threads_per_sm", "threads_per_warp"} <= value.keys():
        threads = value["warps_per_sm"] * value["threads_per_warp"]
        if threads != value["threads_per_sm"]:
            yield error(
                "threads_per_sm", f"{value['warps_per_sm']} warps are {threads} threads, not {value['threads_per_sm']}"
            )
    if {"shared_per_sm", "shared_per_block_optin"} <= value.keys():
        block = value["shared_per_block_optin"] + value.get("shared_reserved_per_block", 0)
        if block > value["shared_per_sm"]:
            yield error(
                "shared_per_block_optin", f"a block and its reserve take {block} B, an SM has {value['shared_per_sm']}"
            )
    if {"shared_per_sm", "shared_carveouts"} <= value.keys():
        largest = max(limits["shared_carveouts"].values or (limits["shared_carveouts"].value,))
        if largest != value["shared_per_sm"]:
            yield error(
                "shared_carveouts", f"the largest carve-out is {largest:g} B, an SM has {value['shared_per_sm']}"
            )
    for name in ("registers_per_sm", "registers_per_block", "register_allocation_unit"):
        if name in value and (value[name] < 1 or value[name] & (value[name] - 1)):
            yield error(name, f"{name} {value[name]} is not a power of two")


def _rising_ports(bandwidth: Mapping[str, Fact]) -> Iterator[SpecIssue]:
    if "l1" in bandwidth and "l2" in bandwidth and bandwidth["l1"].value < bandwidth["l2"].value:
        message = f"L2 gives an SM {bandwidth['l2'].value:g} B/clk, more than L1 with {bandwidth['l1'].value:g}"
        yield _error(bandwidth["l2"].place, "bandwidth", message)


def _strange_counters(arch: ArchSpec) -> Iterator[SpecIssue]:
    for quantity, links in arch.counters.items():
        here = [link for link in links if link.place.file == arch.file]
        if quantity not in QUANTITIES and here:
            yield _error(here[0].place, "quantity", f"{quantity!r} is not a quantity that gpuprof computes")
        yield from chain.from_iterable(_strange_terms(link) for link in here)


def _strange_terms(link: CounterLink) -> Iterator[SpecIssue]:
    pattern, what = (_OPCODE, "an opcode") if link.how == "thread-opcodes" else (_METRIC, "a metric name")
    for name, _ in link.terms:
        if not pattern.fullmatch(name):
            yield _error(link.place, "metric-name", f"{name!r} does not look like {what}")


def _removes_nothing(path: Path, tree: YamlNode, library: SpecLibrary) -> Iterator[SpecIssue]:
    """A `null` that removes nothing is a misspelt key."""
    top = tree.mapping("a spec file")
    if "base" not in top:
        return
    base = arch_tree(base_path(top["base"], path, library.folders), library.folders).mapping("a spec file")
    for section, node in top.items():
        if not isinstance(node.value, Mapping):
            continue
        inherited = base[section].value if section in base else None
        for key, child in node.value.items():
            if child.value is None and not (isinstance(inherited, Mapping) and key in inherited):
                yield _warning(child.place, "removes-nothing", f"the base has no {section} {key!r} to remove")


# Products


def _check_gpu(gpu: GpuSpec, top: Mapping[str, YamlNode], library: SpecLibrary) -> Iterator[SpecIssue]:
    if not gpu.match.names and not gpu.match.pci_ids:
        yield _warning(gpu.place, "match", "no name and no PCI id: no device will match this product")
    yield from _dram_off(gpu)
    yield from _above_boost(gpu)
    yield from _above_highest(gpu)
    arch = library.arch(gpu.arch)
    if arch is None:
        yield _error(top["arch"].place, "arch", f"arch {gpu.arch} is not found")
        return
    yield from _peaks_off(gpu, arch)
    yield from _rising_bandwidth(gpu, arch)
    for key, fact in gpu.compute.items():
        if fact is None and key not in arch.compute:
            place = top["compute"].mapping("compute")[str(key)].place if "compute" in top else gpu.place
            yield _warning(place, "removes-nothing", f"{gpu.arch} has no rate {str(key)!r} to remove")


def implied_peak(
    key: ComputeKey, rated: Fact, gpu: GpuSpec, rates: Mapping[ComputeKey, Fact]
) -> tuple[Fact, float] | None:
    """Return SMs × rate × clock for a rated peak, and the rate used; None if the rate or the clock is not known.

    The accumulator must agree; of several instruction families the fastest counts, because that is what is rated.
    """
    fitting = [rate for rate_key, rate in rates.items() if rate_key[:2] == key[:2]]
    sms = gpu.number("sm_count")
    if not fitting or rated.clock_hz is None or sms is None:
        return None
    rate = max(fitting, key=lambda fact: fact.value)
    return rate, sms * rate.value * rated.clock_hz


def _peaks_off(gpu: GpuSpec, arch: ArchSpec) -> Iterator[SpecIssue]:
    rates = compute_rates(arch, gpu)
    for key, rated in gpu.rated.items():
        if key.path == "dram":
            continue
        implied = implied_peak(key, rated, gpu, rates)
        if implied is None:
            message = f"rated {key} has no rate per SM and clock: neither {gpu.arch} nor this file gives it"
            yield _error(rated.place, "rate-missing", message)
            continue
        rate, peak = implied
        if abs(rated.value / peak - 1) > _RATED_TOLERANCE:
            yield _peak_finding(key, rated, peak, f"{gpu.number('sm_count'):g} SMs × {rate.value:g} {rate.unit}")


def _peak_finding(key: ComputeKey, rated: Fact, peak: float, product: str) -> SpecIssue:
    factor = rated.value / peak
    clock = format_si(rated.clock_hz or 0.0, "Hz", 4)
    message = (
        f"rated {key} is {format_si(rated.value, rated.unit, 4)}, but {product} × {clock} = "
        f"{format_si(peak, rated.unit, 4)} ({factor - 1:+.1%})"
    )
    if key.path.startswith("tensor.") and _SPARSE[0] <= factor <= _SPARSE[1]:
        return _error(rated.place, "sparse", f"{message}; looks like the sparse figure, rates are dense")
    return _unless_noted(rated, "rated-peak", message)


def _above_boost(gpu: GpuSpec) -> Iterator[SpecIssue]:
    boost = gpu.number("boost_clock")
    for key, rated in gpu.rated.items():
        if boost is None or rated.clock_hz is None or rated.clock_hz <= _BOOST_MARGIN * boost:
            continue
        clocks = f"{format_si(rated.clock_hz, 'Hz', 4)}, above the boost clock {format_si(boost, 'Hz', 4)}"
        message = f"rated {key} implies {clocks}"
        if key.path.startswith("tensor.") and _SPARSE[0] <= rated.clock_hz / boost <= _SPARSE[1]:
            message += "; looks like the sparse figure, rates are dense"
        yield _unless_noted(rated, "rated-clock", message)


def _above_highest(gpu: GpuSpec) -> Iterator[SpecIssue]:
    highest, boost = gpu.facts.get("highest_clock"), gpu.number("boost_clock")
    if highest is not None and boost is not None and boost > highest.value:
        clocks = f"{format_si(highest.value, 'Hz', 4)} is below the boost clock {format_si(boost, 'Hz', 4)}"
        yield _error(highest.place, "highest-clock", f"the highest clock {clocks}")


def _dram_off(gpu: GpuSpec) -> Iterator[SpecIssue]:
    rated, bus, rate = gpu.rated.get(ComputeKey("dram")), gpu.number("memory_bus"), gpu.number("memory_rate")
    if rated is None or not bus or not rate:
        return
    computed = bus * rate / 8
    if abs(rated.value / computed - 1) > _DRAM_TOLERANCE:
        message = (
            f"rated dram is {format_si(rated.value, 'B/s', 4)}, but {bus:g} bit × {format_si(rate, 'bit/s', 4)} ÷ 8 = "
            f"{format_si(computed, 'B/s', 4)} ({rated.value / computed - 1:+.1%})"
        )
        yield _unless_noted(rated, "rated-dram", message)


def _unless_noted(fact: Fact, rule: str, message: str) -> SpecIssue:
    """A contradiction that the file explains is information: datasheets do contradict themselves."""
    if fact.note is None:
        return _error(fact.place, rule, message)
    return SpecIssue(place=fact.place, severity="info", rule=rule, message=f"{message}; noted: {fact.note}")


def _rising_bandwidth(gpu: GpuSpec, arch: ArchSpec) -> Iterator[SpecIssue]:
    """Bandwidth falls with distance: L1 of all SMs at boost clock, then L2, then DRAM."""
    sms, boost, dram = gpu.number("sm_count"), gpu.number("boost_clock"), gpu.rated.get(ComputeKey("dram"))
    if sms is None or boost is None:
        return
    ports = {level: sms * fact.value * boost for level, fact in arch.bandwidth.items()}
    slices = gpu.facts.get("l2_bandwidth")
    l1, l2 = ports.get("l1"), slices.value * boost if slices is not None else ports.get("l2")
    if slices is not None and l1 is not None and l2 is not None and l2 > l1:
        message = f"L2 gives {format_si(l2, 'B/s')} at boost clock, more than L1 with {format_si(l1, 'B/s')}"
        yield _error(slices.place, "bandwidth", message)
    if l2 is not None and dram is not None and dram.value >= l2:
        message = f"DRAM is rated {format_si(dram.value, 'B/s')}, not less than L2 with {format_si(l2, 'B/s')}"
        yield _error(dram.place, "bandwidth", message)


# Several products


def _doubles(specs: Sequence[GpuSpec]) -> Iterator[SpecIssue]:
    """Two products of one folder that a device could both be. In different folders the nearer one wins."""
    checked = {spec.file for spec in specs}
    for spec, twin in combinations((*_neighbours(specs), *specs), 2):
        if twin.file not in checked or Path(spec.file).parent != Path(twin.file).parent:
            continue
        shared = {*spec.match.names, *spec.match.pci_ids} & {*twin.match.names, *twin.match.pci_ids}
        if shared and not _kept_apart(spec.match, twin.match):
            first = min(shared)
            message = f"{first!r} also matches {spec.name} ({spec.place}); tell them apart by sm_count or memory_size"
            yield _error(_match_place(twin, first), "ambiguous", message)


def _neighbours(specs: Sequence[GpuSpec]) -> Iterator[GpuSpec]:
    """Yield the readable products that lie beside the checked ones."""
    checked = {spec.file for spec in specs}
    for folder in sorted({Path(spec.file).parent for spec in specs}):
        for path in sorted(folder.glob("*.yaml")):
            if str(path) not in checked and path.is_file():
                with suppress(SpecError):
                    yield load_gpu(path)


def _kept_apart(match: Match, twin: Match) -> bool:
    if match.sm_count is not None and twin.sm_count is not None and match.sm_count != twin.sm_count:
        return True
    if match.memory_bytes is None or twin.memory_bytes is None:
        return False
    return not same_memory(match.memory_bytes, twin.memory_bytes)


def _match_place(spec: GpuSpec, text: str) -> FileLine:
    match = load_tree(Path(spec.file)).mapping("a spec file")["match"]
    for node in match.mapping("match").values():
        for item in node.value if isinstance(node.value, tuple) else ():
            if item.value == text:
                return item.place
    return match.place


# A recorded device against its product


class SpecMismatch(Struct, frozen=True):
    """One property as the report and as the spec give it, in base units; None where one of them does not."""

    what: str
    unit: str
    recorded: float | None
    specified: float | None
    differs: bool


def match_reasons(spec: GpuSpec, device: RecordedDevice) -> tuple[str, ...]:
    """Tell by what a device was recognised: PCI id, name, and the SM count or memory where the spec asks for them."""
    match = spec.match
    reasons = (
        ("PCI id", device.pci_id is not None and device.pci_id in match.pci_ids),
        ("name", device.name is not None and device.name in match.names),
        ("SM count", match.sm_count is not None and device.sm_count == match.sm_count),
        ("memory size", match.memory_bytes is not None and device.memory_bytes is not None),
    )
    return tuple(reason for reason, holds in reasons if holds)


def compare_device(spec: GpuSpec, device: RecordedDevice) -> tuple[SpecMismatch, ...]:
    """Set the report's own device attributes beside the spec's facts."""
    rows = (
        ("SM count", "SM", "sm_count", device.sm_count),
        ("boost clock", "Hz", "boost_clock", device.max_sm_clock_hz),
        ("memory bus", "bit", "memory_bus", device.memory_bus_bits),
        ("memory size", "B", "memory_size", device.memory_bytes),
        ("L2 size", "B", "l2_size", device.l2_bytes),
    )
    return tuple(_difference(what, unit, recorded, spec.number(name)) for what, unit, name, recorded in rows)


def _difference(what: str, unit: str, recorded: float | None, specified: float | None) -> SpecMismatch:
    if recorded is None or not specified:
        return SpecMismatch(what, unit, recorded, specified=specified, differs=False)
    same = same_memory(recorded, specified) if what == "memory size" else abs(recorded / specified - 1) < _SAME
    return SpecMismatch(what, unit, recorded, specified=specified, differs=not same)
