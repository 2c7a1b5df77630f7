"""The words that all presenters share: names of paths, levels, units and stall reasons, and figures with them."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.model.session import Device, KernelProfile, RooflinePoint, Session, Source, Throughput, Work
from gpuprof.model.summary import main_point, main_stall, nearest_limit
from gpuprof.units import format_percent, format_si

NOT_COLLECTED = "not collected"
_MOST_OF_THE_TIME = 0.9
_NEARLY_ALL = 0.995
LEVEL_NAMES = {"l1": "L1", "l2": "L2", "dram": "DRAM"}
UNIT_NAMES = {"sm": "SM", "memory": "Memory", **LEVEL_NAMES}


def path_name(path: str) -> str:
    """Write a compute path as engineers do: "tensor.bf16" → "tensor BF16"."""
    head, _, kind = path.rpartition(".")
    return f"{head} {kind.upper()}".strip()


def stall_name(reason: str) -> str:
    """Write a stall reason without underscores."""
    return reason.replace("_", " ")


def work_unit(path: str, per_second: bool = True) -> str:
    """Return FLOP or OP, per second or not: integer work is counted in operations."""
    unit = "OP" if "int" in path else "FLOP"
    return f"{unit}/s" if per_second else unit


def duration(seconds: float | None) -> str:
    """Write a duration with three significant digits."""
    return format_si(seconds, "s") if seconds is not None else NOT_COLLECTED


def percent(fraction: float | None) -> str:
    """Write a fraction as percent."""
    return format_percent(fraction) if fraction is not None else NOT_COLLECTED


def limit_text(kernel: KernelProfile) -> str:
    """Write the unit that works closest to its peak: "DRAM 81 %"."""
    limit = nearest_limit(kernel)
    return f"{UNIT_NAMES[limit.unit]} {format_percent(limit.fraction)}" if limit is not None else NOT_COLLECTED


def throughput_text(unit: Throughput) -> str:
    """Write a unit's speed of light: "L1 13 % of active cycles"."""
    what = f" {unit.definition}" if unit.definition else ""
    return f"{UNIT_NAMES[unit.unit]} {format_percent(unit.fraction)}{what}"


def stall_text(kernel: KernelProfile) -> str:
    """Write the main stall: "long scoreboard 53 %"."""
    stall = main_stall(kernel)
    return f"{stall_name(stall.reason)} {format_percent(stall.share)}" if stall is not None else NOT_COLLECTED


def roof_text(kernel: KernelProfile) -> str:
    """Write the fraction of the at-clock DRAM roofline.

    "int 25 %" for a kernel without floating-point work, "≥ 3.0 %" where tensor work was not collected, so that the
    kernel may be closer to its roof, and "no FLOP" where all work was counted and there was none.
    """
    point = main_point(kernel)
    unknown = [what for entry in kernel.missing for what in entry.what.split(", ") if what.startswith("work.")]
    if point is not None:
        prefix = "int " if point.path == "int32" else "≥ " if any("tensor" in what for what in unknown) else ""
        return prefix + format_percent(point.fraction_of_roof)
    done = any(work.flop or work.flop_per_s for work in kernel.work)
    return "no FLOP" if kernel.work and not done and not unknown else NOT_COLLECTED


def work_text(work: Work) -> str:
    """Write the work of a path as a total, or as a rate where only that is known."""
    mark = " (estimated)" if work.basis == "estimated" else ""
    if work.flop is not None:
        return f"{path_name(work.path)} {format_si(work.flop, work_unit(work.path, per_second=False))}{mark}"
    rate = format_si(work.flop_per_s, work_unit(work.path)) if work.flop_per_s is not None else NOT_COLLECTED
    return f"{path_name(work.path)} {rate}{mark}"


def roof_value(point: RooflinePoint) -> str:
    """Write what the roof allows at a point's intensity."""
    return format_si(point.roof_flop_per_s, work_unit(point.path))


def point_text(point: RooflinePoint) -> str:
    """Write a roofline point as a sentence part: achieved, intensity, percent of which roof, and which side binds."""
    unit = work_unit(point.path)
    return (
        f"{format_si(point.flop_per_s, unit)} at {_intensity(point)} of {LEVEL_NAMES[point.level]}: "
        f"{format_percent(point.fraction_of_roof)} of {format_si(point.roof_flop_per_s, unit)} "
        f"{point.ceiling.replace('-', ' ')}, on the {point.bound} side"
    )


def _intensity(point: RooflinePoint) -> str:
    return f"{format_si(point.intensity, work_unit(point.path, per_second=False))}/B"


def dims(size: tuple[int, int, int] | None) -> str:
    """Write a grid or block without trailing ones: (65535, 1, 1) → "65535", (32, 24, 1) → "32×24"."""
    if size is None:
        return NOT_COLLECTED
    kept = size if size[2] != 1 else size[:2] if size[1] != 1 else size[:1]
    return "×".join(str(value) for value in kept)


def device_text(device: Device) -> str:
    """Write a GPU with its architecture, SM count and the spec it is held against."""
    name = device.name or "GPU of unknown name"
    parts = (
        f"compute capability {device.compute_capability}" if device.compute_capability else "",
        f"{device.sm_count} SMs" if device.sm_count else "",
        f"spec {device.spec}" if device.spec else "no product spec: ceilings from the architecture and the report",
    )
    return f"{name} ({', '.join(part for part in parts if part)})"


def source_text(source: Source) -> str:
    """Write what recorded a source, and how it held clocks and caches."""
    tool = " ".join(part for part in (source.tool, source.tool_version) if part)
    clocks = f"clock control {source.clock_control}" if source.clock_control else "clock control not recorded"
    caches = f"cache control {source.cache_control}" if source.cache_control else "cache control not recorded"
    return f"{tool}, {clocks}, {caches}"


def verdict(session: Session) -> str:
    """Write how few kernels take most of the profiled time, in one sentence and without a diagnosis."""
    where = _where(session.devices)
    launches = sum(kernel.launches for kernel in session.kernels)
    times: dict[str, float] = {}
    for kernel in session.kernels:
        if kernel.time_total_s is not None:
            times[kernel.label] = times.get(kernel.label, 0.0) + kernel.time_total_s
    total_s = sum(times.values())
    if not session.kernels:
        return f"No kernel was profiled: these are the ceilings of {where} by its spec."
    if total_s <= 0:
        return f"{count(launches, 'profiled launch', 'es')} on {where}; durations were not collected."
    ranked, covered, needed = sorted(times.values(), reverse=True), 0.0, 0
    while covered < _MOST_OF_THE_TIME * total_s:
        covered, needed = covered + ranked[needed], needed + 1
    share = _share_text(covered / total_s, whole=needed == len(ranked))
    subject = f"{needed} of {len(ranked)} kernels" if needed < len(ranked) else count(needed, "kernel")
    verb = "takes" if needed == 1 else "take"
    timed = sum(kernel.launches for kernel in session.kernels if kernel.time_total_s is not None)
    in_launches = f" profiled in {count(timed, 'launch', 'es')}" if timed != len(ranked) else ""
    untimed = f" {count(launches - timed, 'more launch', 'es')} without a duration." if timed < launches else ""
    time = f"{format_si(total_s, 's')} of {'GPU time' if in_launches else 'profiled GPU time'}{in_launches}"
    return f"{subject} {verb} {share} of {time} on {where}.{untimed}"


def _share_text(share: float, *, whole: bool) -> str:
    text = format_percent(share)
    return "all" if whole else "nearly all" if share >= _NEARLY_ALL else text


def count(number: int, noun: str, plural: str = "s") -> str:
    """Write a number and its noun: "1 launch", "10 000 launches"."""
    return f"{number:,} {noun}{plural if number != 1 else ''}".replace(",", "\u202f")


def _where(devices: Sequence[Device]) -> str:
    names = [device.name or "a GPU of unknown name" for device in devices]
    if len(names) != 1:
        return f"{len(names)} GPUs ({', '.join(names)})" if names else "an unknown GPU"
    name = names[0]
    if devices[0].name is None:
        return name
    return f"{'an' if name[0] in 'AEIOaeio' or name.startswith(('NVIDIA', 'H', 'L', 'RTX')) else 'a'} {name}"
