"""Values of a session as text, alike in every view: names of paths, levels, units and stall reasons, and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gpuprof.diagnose.verdict import computes_integers
from gpuprof.model import recorded
from gpuprof.model.headline import limited_by, listed, main_point, main_stall, nearest_limit
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.model.recorded import GpuSamples, Missing
from gpuprof.model.run_totals import run_of, running_s
from gpuprof.model.session import (
    Averages,
    Ceiling,
    Copies,
    Device,
    KernelProfile,
    Occupancy,
    RooflinePoint,
    Session,
    Source,
    Work,
)
from gpuprof.model.sm_clocks import DRIVER, GPC_CYCLES, HIGHEST
from gpuprof.model.sources import kind_named
from gpuprof.model.stalls import stall_name
from gpuprof.model.timed import GRAPH_REPLAY
from gpuprof.timeline.trace import SET
from gpuprof.units import counted, format_binary, format_percent, format_si, significant
from gpuprof.words.whole_graphs import graphs_sentence

NOT_COLLECTED = "not collected"
NO_CEILING = "no ceiling known"
IMPOSSIBLE = "impossible"
_NEARLY_ALL = 0.995
_NO_MORE = 0.01
"""By so much achieved occupancy can be above the theoretical one: they are of different passes, and rounded."""
LEVEL_NAMES = {"l1": "L1", "l2": "L2", "dram": "DRAM"}
_CLOCK_SOURCES = {GPC_CYCLES: "cycles of the GPCs", DRIVER: "the driver", HIGHEST: "the product's limit"}
UNIT_NAMES = {"sm": "SM", "memory": "Memory", **LEVEL_NAMES}


def ceiling_name(ceiling: Ceiling) -> str:
    """Return the name of a ceiling's memory level or compute path."""
    return LEVEL_NAMES[ceiling.level] if ceiling.level is not None else path_name(ceiling.path or "")


def ceiling_text(ceiling: Ceiling) -> str:
    """Write the value of a ceiling with its unit."""
    return format_si(ceiling.value, "B/s" if ceiling.level is not None else work_unit(ceiling.path or ""))


def duration_text(seconds: float | None) -> str:
    """Write a duration with three significant digits."""
    return format_si(seconds, "s") if seconds is not None else NOT_COLLECTED


def range_text(averages: Averages) -> str:
    """Write the durations of the shortest and longest launch, behind their average; empty if they are not known."""
    if averages.min_s is None or averages.max_s is None:
        return ""
    return f", {format_si(averages.min_s, 's')} to {format_si(averages.max_s, 's')} each"


def time_text(kernel: KernelProfile) -> str:
    """Write the time of all launches of a kernel; of a whole graph beside kernels, which is in no sum, that of one."""
    if kernel.time_total_s is None and kernel.duration_source == GRAPH_REPLAY:
        return f"{duration_text(kernel.duration_s)} each"
    return duration_text(kernel.time_total_s)


def share_text(kernel: KernelProfile) -> str:
    """Write a kernel's share of the time of all; a whole graph beside kernels has none."""
    if kernel.time_total_s is None and kernel.duration_source == GRAPH_REPLAY:
        return "–"
    return percent_text(kernel.time_share)


def percent_text(fraction: float | None) -> str:
    """Write a fraction as percent."""
    return format_percent(fraction) if fraction is not None else NOT_COLLECTED


def limit_text(kernel: KernelProfile) -> str:
    """Write the unit that works closest to its peak: "DRAM 81 %", "L2 60 %+" where it is no less, "L1 ≤ 37 %"."""
    limit = nearest_limit(kernel)
    if limit is None:
        return NOT_COLLECTED
    bound, more = "≤ " if limit.bound == "at-most" else "", "+" if limit.bound == "at-least" else ""
    return f"{UNIT_NAMES[limit.unit]} {bound}{format_percent(limit.fraction)}{more}"


def stall_text(kernel: KernelProfile) -> str:
    """Write the main stall: "long scoreboard 53 %"."""
    stall = main_stall(kernel)
    return f"{stall_name(stall.reason)} {format_percent(stall.share)}" if stall is not None else NOT_COLLECTED


def roof_text(kernel: KernelProfile) -> str:
    """Write the fraction of the at-clock DRAM roofline.

    "int 25 %" for a kernel whose work are integers, "≥ 3.0 %" where tensor work was not collected, so that the
    kernel may be closer to its ceiling, "impossible" where a rate is above its ceiling, "no FLOP" or "no traffic" where
    it was counted and there was none, and "no ceiling known" where work and traffic were collected and the GPU's rates
    are not known.
    """
    point = roof_point(kernel)
    unknown = [path for path in missing_work(kernel) if path != "int32"]
    if above_ceiling(kernel, "dram") is not None:
        return IMPOSSIBLE
    if point is not None:
        prefix = "int " if point.path == "int32" else "≥ " if any("tensor" in path for path in unknown) else ""
        return prefix + format_percent(point.fraction_of_roof)
    counted = [work for work in kernel.work if work.flop or work.flop_per_s]
    if not computes_integers(kernel):
        counted = [work for work in counted if work.path != "int32"]
    if kernel.work and not counted and not unknown:
        return "no FLOP"
    rates = [
        traffic.bytes_per_s for traffic in kernel.traffic if traffic.level == "dram" and traffic.bytes_per_s is not None
    ]
    if not rates or not any(work.flop_per_s for work in counted):
        return NOT_COLLECTED
    return NO_CEILING if any(rates) else "no traffic"


def roof_point(kernel: KernelProfile) -> RooflinePoint | None:
    """Return the point under the DRAM roofline at clock; that of integers only if they are the work of the kernel."""
    point = main_point(kernel)
    if point is not None and point.path == "int32" and not computes_integers(kernel):
        return None
    return point


def above_ceiling(kernel: KernelProfile, level: str) -> Missing | None:
    """Return why a kernel has no roofline point at a level: the rate of its work or traffic is above the ceiling."""
    others = {f"roofline.{other}" for other in LEVEL_NAMES if other != level}
    for gap in kernel.missing:
        if any(what.startswith("roofline.") and what not in others for what in gap.what.split(", ")):
            return gap
    return None


def missing_work(kernel: KernelProfile) -> tuple[str, ...]:
    """Return the compute paths whose work is among what is missing for a kernel."""
    whats = (what for gap in kernel.missing for what in gap.what.split(", "))
    return tuple(what.removeprefix("work.") for what in whats if what.startswith("work."))


def remedy_for(kernel: KernelProfile, what: str) -> str:
    """Say what would collect a quantity that a kernel lacks."""
    gaps = (gap for gap in kernel.missing if gap.what == "counters" or what in gap.what.split(", "))
    return next((gap.how for gap in gaps), "collect with ncu --set full")


def paths_text(paths: Iterable[str]) -> str:
    """Write whose work is meant: "FP64, FP32 and tensor work". Tensor paths are told as one."""
    names = dict.fromkeys("tensor" if path.startswith("tensor.") else path_name(path) for path in paths)
    return f"{listed([*names])} work"


def occupancy_text(occupancy: Occupancy) -> str:
    """Write achieved and theoretical occupancy, and what limits the latter."""
    known = occupancy.achieved is not None
    achieved = f"{percent_text(occupancy.achieved)} achieved" if known else f"achieved {NOT_COLLECTED}"
    theoretical = f"{percent_text(occupancy.theoretical)} theoretical"
    if occupancy.theoretical is None:
        return f"{achieved}, theoretical not known"
    text = f"{achieved} of {theoretical}" if known else f"{theoretical}, {achieved}"
    if known and (occupancy.achieved or 0.0) > occupancy.theoretical * (1 + _NO_MORE):
        text = f"{achieved}, {theoretical}: the two disagree"
    return ", ".join(part for part in (text, limited_by(occupancy)) if part)


def occupied_text(kernel: KernelProfile) -> str:
    """Write achieved occupancy, or the theoretical one as its bound: "≤ 50 %"."""
    occupancy = kernel.occupancy
    if occupancy.achieved is None and occupancy.theoretical is not None:
        return f"≤ {format_percent(occupancy.theoretical)}"
    return percent_text(occupancy.achieved)


def issue_text(kernel: KernelProfile) -> str:
    """Write what the schedulers did: "62 % of issue slots used; warps per scheduler: 7.67 active, 1.51 eligible"."""
    scheduler = kernel.scheduler
    if scheduler is None:
        return ""
    slots = f" of {scheduler.warp_slots:.0f}" if scheduler.warp_slots is not None else ""
    active, eligible = scheduler.active_warps, scheduler.eligible_warps
    warps = [f"{significant(active, strip=True)} active{slots}"] if active is not None else []
    warps += [f"{significant(eligible, strip=True)} eligible"] if eligible is not None else []
    issue = scheduler.issue_active
    parts = [f"{format_percent(issue)} of issue slots used"] if issue is not None else []
    parts += [f"warps per scheduler: {', '.join(warps)}"] if warps else []
    return "; ".join(parts)


def cycles_of_pipes(kernel: KernelProfile) -> str:
    """Write what the fractions of the pipes refer to, by the names of their metrics; empty if they differ."""
    elapsed = {pipe.metric.endswith("_elapsed") for pipe in kernel.pipes}
    if len(elapsed) != 1:
        return ""
    return "of elapsed cycles" if True in elapsed else "of active cycles"


def work_text(work: Work) -> str:
    """Write the work of a path as a total, or as a rate where only that is known."""
    mark = " (estimated)" if work.basis == "estimated" else ""
    if work.flop is not None:
        return f"{path_name(work.path)} {format_si(work.flop, work_unit(work.path, per_second=False))}{mark}"
    rate = format_si(work.flop_per_s, work_unit(work.path)) if work.flop_per_s is not None else NOT_COLLECTED
    return f"{path_name(work.path)} {rate}{mark}"


def rate_text(path: str, per_second: float) -> str:
    """Write the rate of a path's work: "3.45 TFLOP/s"; of integers "2.32 TOP/s"."""
    return format_si(per_second, work_unit(path))


def intensity_text(path: str, intensity: float) -> str:
    """Write the arithmetic intensity of a path's work: "8.63 FLOP/B"."""
    return format_si(intensity, f"{work_unit(path, per_second=False)}/B")


def launch_text(kernel: KernelProfile) -> str:
    """Write grid and block in a few characters: "65535×128", "(32,24)×(16,16)"; empty where neither is known."""
    return recorded.configuration_text(kernel.grid, kernel.block)


def name_repeats(kernels: Iterable[KernelProfile]) -> bool:
    """Tell whether two of these entries have one name, so that their launch configurations tell them apart."""
    labels = [kernel.label for kernel in kernels]
    return len(set(labels)) < len(labels)


def resource_texts(kernels: Sequence[KernelProfile]) -> tuple[dict[int, str], dict[int, str]]:
    """Write registers and shared memory of each entry, by its number; nothing where none are told apart by them."""
    return _telling(kernels, registers_text), _telling(kernels, shared_text)


def _telling(kernels: Sequence[KernelProfile], text: Callable[[KernelProfile], str]) -> dict[int, str]:
    """Write a value of each entry where two of one name, grid and block differ in it."""
    like = {kernel.id: (kernel.label, kernel.grid, kernel.block) for kernel in kernels}
    texts = {kernel.id: text(kernel) for kernel in kernels}
    return texts if len({(like[number], texts[number]) for number in like}) > len(set(like.values())) else {}


def registers_text(kernel: KernelProfile) -> str:
    """Write the registers of a thread."""
    registers = kernel.registers_per_thread
    return str(registers) if registers is not None else NOT_COLLECTED


def shared_text(kernel: KernelProfile, what: str = "") -> str:
    """Write the shared memory of a block, and what the driver adds: "32 KiB + 1 KiB for the driver"."""
    shared, of_driver = kernel.shared_memory_per_block, kernel.shared_memory_of_driver
    if shared is None:
        return NOT_COLLECTED
    text = f"{format_binary(shared)}{what}"
    if shared and of_driver:
        text += f" + {format_binary(of_driver)} for the driver"
    return text


def dims_text(size: tuple[int, int, int] | None) -> str:
    """Write a grid or block without trailing ones: (65535, 1, 1) → "65535", (32, 24, 1) → "32×24"."""
    return recorded.dims_text(size) if size is not None else f"shape {NOT_COLLECTED}"


def grid_text(kernel: KernelProfile) -> str:
    """Write the grid; of one whose shape is missing the number of blocks may still be known."""
    return _size_text(kernel.grid, kernel.grid_size, "block")


def block_text(kernel: KernelProfile) -> str:
    """Write the block, or of how many threads it is."""
    return _size_text(kernel.block, kernel.block_size, "thread")


def _size_text(shape: tuple[int, int, int] | None, size: int | None, noun: str) -> str:
    known = f"{counted(size, noun)}, " if shape is None and size is not None else ""
    return known + dims_text(shape)


def device_text(device: Device) -> str:
    """Write a GPU with its architecture, SM count and the spec it is held against."""
    name = device.name or "GPU of unknown name"
    parts = (
        f"compute capability {device.compute_capability}" if device.compute_capability else "",
        f"{device.sm_count} SMs" if device.sm_count else "",
        f"spec {device.spec}" if device.spec else "no product spec",
    )
    return f"{name} ({', '.join(part for part in parts if part)})"


def source_text(source: Source) -> str:
    """Write what recorded a source, and how it held clocks and caches, which a timeline leaves alone."""
    tool = " ".join(part for part in (source.tool, source.tool_version) if part)
    if kind_named(source.kind).is_trace:
        return tool
    clocks = f"clock control {source.clock_control}" if source.clock_control else "clock control not recorded"
    caches = f"cache control {source.cache_control}" if source.cache_control else "cache control not recorded"
    return f"{tool}, {clocks}, {caches}"


def clock_text(kernel: KernelProfile) -> str:
    """Write the SM clock of a kernel, and beside it what the cycles of its SMs give where that is another number."""
    clock = format_si(kernel.sm_clock_hz or 0.0, "Hz")
    if kernel.sm_cycles_per_s is None or format_si(kernel.sm_cycles_per_s, "Hz") == clock:
        return clock
    said_by = _CLOCK_SOURCES.get(kernel.sm_clock_source or "", "another source")
    return f"{clock} by {said_by} ({format_si(kernel.sm_cycles_per_s, 'Hz')} by cycles of other passes)"


def samples_text(sampled: GpuSamples) -> str:
    """Write what the driver said of a GPU while the program ran: clocks, power, temperature, throttling."""
    parts = [f"{sampled.name}: {count_text(sampled.samples, 'sample')}"]
    clocks = (sampled.sm_clock_min_hz, sampled.sm_clock_median_hz, sampled.sm_clock_max_hz)
    if None not in clocks:
        low, mid, high = (format_si(clock or 0.0, "Hz") for clock in clocks)
        parts.append(f"SM clock {low} to {high}, median {mid}")
    if sampled.power_max_w is not None:
        parts.append(f"at most {format_si(sampled.power_max_w, 'W')}")
    if sampled.temperature_max_c is not None:
        parts.append(f"{sampled.temperature_max_c:.0f} °C")
    if sampled.throttling is None:
        parts.append("throttling not known")
    else:
        causes = (f"{cause.reason} in {format_percent(cause.share)}" for cause in sampled.throttling)
        parts.append(" and ".join(causes) or "not throttled")
    return ", ".join(parts)


def _only_copies(session: Session) -> str | None:
    """Write what the copies of the GPU that copies longest take of its time, and the most of them; None without any."""
    devices = session.timeline.devices if session.timeline is not None else ()
    copying = [device for device in devices if any(map(_is_copying, device.copies))]
    if not copying:
        return None
    device = max(copying, key=lambda device: device.busy_s)
    most = max(filter(_is_copying, device.copies), key=lambda copies: copies.time_s or 0.0)
    span_s = running_s(device)
    memory = f" ({most.memory})" if most.memory is not None else ""
    rate = f" at {format_si(most.bytes_per_s, 'B/s')}" if most.bytes_per_s is not None else ""
    return (
        f"copies take {format_percent(device.busy_s / span_s)} of {format_si(span_s, 's')}; {most.direction}{memory} "
        f"takes most of it, {format_si(most.time_s or 0.0, 's')}{rate}"
    )


def _is_copying(copies: Copies) -> bool:
    return bool(copies.time_s) and copies.direction != SET


def verdict_text(session: Session) -> str:
    """Write how few kernels take most of the profiled time, in one sentence and without a diagnosis."""
    where, run = _where(session.devices), run_of(session)
    if not run.launches and (of_graphs := graphs_sentence(session)):
        return f"No kernel was recorded on {where}. {of_graphs}"
    if not run.launches and (copying := _only_copies(session)) is not None:
        return f"No kernel ran on {where}: {copying}."
    if not run.launches:
        return f"No kernel was profiled: these are the ceilings of {where} by its spec."
    if run.time_s <= 0:
        return f"{count_text(run.launches, 'profiled launch', 'es')} on {where}; durations are not known."
    graphs = [kernel for kernel in session.kernels if kernel.duration_source == GRAPH_REPLAY]
    apart = sum(kernel.launches for kernel in graphs if kernel.time_total_s is None)
    timed, without = run.timed_launches, run.launches - run.timed_launches - apart
    noun, what = ("CUDA graph", "in replays under ncu") if graphs and not apart else ("kernel", "of GPU time")
    counts = []
    if timed != run.kernels:
        counts.append(count_text(timed, "launch", "es"))
    if run.kernels < run.timed_shapes < timed:
        counts.append(count_text(run.timed_shapes, "launch configuration"))
    untimed = f" {count_text(without, 'more launch', 'es')} without a duration." if without else ""
    time = f"{format_si(run.time_s, 's')} {what}"
    if run.main_kernels == run.kernels:
        listed = ", ".join((count_text(run.kernels, noun), *counts))
        return f"{listed}: {time} on {where}.{untimed}"
    share = run.main_time_s / run.time_s
    part = "nearly all" if share >= _NEARLY_ALL else format_percent(share)
    verb = "takes" if run.main_kernels == 1 else "take"
    listed = f" ({', '.join(counts)})" if counts else ""
    return f"{run.main_kernels} of {run.kernels} {noun}s {verb} {part} of {time}{listed} on {where}.{untimed}"


def row_noun(kernels: Sequence[KernelProfile]) -> tuple[str, str]:
    """Return the name of these entries, with the ending of its plural: they are kernels only if no function repeats.

    If one does, an entry is a launch, or all launches of a function in one configuration, or in one layer as well.
    """
    if len({kernel.numbered_name for kernel in kernels}) == len(kernels):
        return "kernel", "s"
    if all(kernel.launches == 1 for kernel in kernels):
        return "launch", "es"
    return ("launch configuration" if name_repeats(kernels) else "row"), "s"


def count_text(number: int, noun: str, plural: str = "s") -> str:
    """Write a number and its noun: "1 launch", "10 000 launches"."""
    return counted(number, noun, plural)


def _unnamed(device: Device) -> str:
    """Say what is known of a GPU whose name was not printed."""
    capability = device.compute_capability
    return f"a GPU of compute capability {capability} and unknown name" if capability else "a GPU of unknown name"


def _where(devices: Sequence[Device]) -> str:
    names = [device.name or _unnamed(device) for device in devices]
    if len(names) != 1:
        return f"{len(names)} GPUs ({', '.join(names)})" if names else "an unknown GPU"
    name = names[0]
    if devices[0].name is None:
        return name
    return f"{'an' if name[0] in 'AEIOaeio' or name.startswith(('NVIDIA', 'H', 'L', 'RTX')) else 'a'} {name}"
