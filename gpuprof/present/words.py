"""The words that all presenters share: names of paths, levels, units and stall reasons, and figures with them."""

from __future__ import annotations

from gpuprof.model.session import Device, KernelProfile, RooflinePoint, Session, Source, Work
from gpuprof.model.summary import main_point, main_stall, nearest_limit
from gpuprof.units import format_percent, format_si

NOT_COLLECTED = "not collected"
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


def stall_text(kernel: KernelProfile) -> str:
    """Write the main stall: "long scoreboard 53 %"."""
    stall = main_stall(kernel)
    return f"{stall_name(stall.reason)} {format_percent(stall.share)}" if stall is not None else NOT_COLLECTED


def roof_text(kernel: KernelProfile) -> str:
    """Write the fraction of the at-clock DRAM roofline: "52 %"; "no FLOP" where the kernel does no arithmetic."""
    point = main_point(kernel)
    if point is not None:
        return format_percent(point.fraction_of_roof)
    counted = [work for work in kernel.work if work.path != "int32"]
    return "no FLOP" if counted and not any(work.flop or work.flop_per_s for work in counted) else NOT_COLLECTED


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
        f"{format_percent(point.fraction_of_roof)} of {format_si(point.roof_flop_per_s, unit)} {point.ceiling} "
        f"({point.bound} side)"
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


def totals_text(session: Session) -> str:
    """Write the one sentence that opens every view: how many launches, how long, on what."""
    known = [kernel.time_total_s for kernel in session.kernels if kernel.time_total_s is not None]
    launches = sum(kernel.launches for kernel in session.kernels)
    count = f"{launches:,} profiled launch{'es' if launches != 1 else ''}".replace(",", " ")
    names = " and ".join(device.name or "a GPU of unknown name" for device in session.devices)
    if not known:
        return f"{count} on {names}; durations were not collected."
    leaders = _leaders(session, sum(known))
    return f"{count}, {format_si(sum(known), 's')} GPU time on {names}. {leaders}"


def _leaders(session: Session, total_s: float) -> str:
    """Say how few kernels take most of the time: the smallest number that reaches nine tenths."""
    times: dict[str, float] = {}
    for kernel in session.kernels:
        times[kernel.label] = times.get(kernel.label, 0.0) + (kernel.time_total_s or 0.0)
    ranked = sorted(times.values(), reverse=True)
    if len(ranked) == 1:
        return "All of it in one kernel."
    covered, needed = 0.0, 0
    for time_s in ranked:
        covered, needed = covered + time_s, needed + 1
        if covered >= 0.9 * total_s:
            break
    if needed == len(ranked):
        return f"All {needed} kernels matter: no fewer take 90 % of it."
    verb = "takes" if needed == 1 else "take"
    return f"{needed} of {len(ranked)} kernels {verb} {format_percent(covered / total_s)} of it."
