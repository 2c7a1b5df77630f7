"""Launches of a kernel as text: configuration, times and traffic."""

from __future__ import annotations

from gpuprof.model.session import KernelProfile, Traffic
from gpuprof.units import format_percent, format_si, format_waves
from gpuprof.words.profile_values import (
    block_text,
    clock_text,
    count_text,
    dims_text,
    duration_text,
    grid_text,
    range_text,
    shared_text,
)


def launch_text(kernel: KernelProfile) -> str:
    """Write the configuration of a launch: grid, block, registers, shared memory and waves."""
    parts = [f"grid {grid_text(kernel)}", f"block {block_text(kernel)}"]
    if kernel.grid is None and kernel.block is None and kernel.grid_size is None and kernel.block_size is None:
        parts = [f"grid and block {dims_text(None)}"]
    if kernel.registers_per_thread is not None:
        parts.append(f"{kernel.registers_per_thread} registers per thread")
    if kernel.shared_memory_per_block is not None:
        parts.append(shared_text(kernel, " shared memory"))
    if kernel.waves is not None:
        parts.append(format_waves(kernel.waves))
    return ", ".join(parts)


def kernel_time_text(kernel: KernelProfile) -> str:
    """Write the time of one launch or of a group, its share of the run, and the SM clock."""
    if kernel.launches > 1:
        parts = [_launches_text(kernel)]
    else:
        parts = [duration_text(kernel.duration_s) if kernel.duration_s is not None else "duration not collected"]
    if kernel.time_share is not None:
        parts[0] += f", {format_percent(kernel.time_share)} of the run"
    if kernel.sm_clock_hz is not None:
        clock = f"SM clock {clock_text(kernel)}"
        parts.append(f"{clock}, throttled" if kernel.throttled else clock)
    return "; ".join(parts)


def _launches_text(kernel: KernelProfile) -> str:
    """Write the time of the launches of a group, how they differ, and which of them gives the other figures."""
    launches = count_text(kernel.launches, "equal launch", "es")
    spread = kernel.duration_percentiles_s
    total = f", {duration_text(kernel.time_total_s)} in all" if kernel.time_total_s is not None else ""
    if kernel.averages is not None:
        each = f", {duration_text(kernel.duration_s)} on average" if kernel.duration_s is not None else ""
        return f"{launches}{total}{each}{range_text(kernel.averages)}; figures are averages"
    if kernel.time_total_s is None and spread is None:
        return f"{launches}; figures are of the first"
    if spread is None:
        return f"{launches}{total}; figures are of the median"
    timed = f"{spread.count} of them timed, " if spread.count < kernel.launches else ""
    each = f"{format_si(spread.min, 's')} each"
    if spread.min != spread.max:
        each = f"{format_si(spread.min, 's')} to {format_si(spread.max, 's')} each, p95 {format_si(spread.p95, 's')}"
    which = f"one that took {duration_text(kernel.duration_s)}"
    if kernel.duration_s == spread.p50:
        which = f"the median, {duration_text(kernel.duration_s)}"
    return f"{launches}{total}, {timed}{each}; figures are of {which}"


def traffic_text(traffic: Traffic) -> str:
    """Write bytes in both directions, their rate, hits and counters; at L2 every write counts as a hit."""
    amounts = []
    if traffic.bytes is not None:
        amounts.append(format_si(traffic.bytes, "B"))
    if traffic.bytes_per_s is not None:
        amounts.append(format_si(traffic.bytes_per_s, "B/s"))
    if traffic.hit_rate is not None:
        amounts.append(f"{format_percent(traffic.hit_rate)} hit")
    mark = " (estimated)" if traffic.basis == "estimated" else ""
    return f"{', '.join(amounts)}{mark}: {traffic.definition}"
