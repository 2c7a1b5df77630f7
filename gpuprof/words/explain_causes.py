"""The units behind a stall reason: hit rates, DRAM, pipes, the size of a block."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator

from gpuprof.diagnose.facts.waits import SHARED_STALLS
from gpuprof.diagnose.rule import AT_MEMORY
from gpuprof.model.session import KernelProfile, Pipe, Traffic
from gpuprof.units import WARP_THREADS, format_binary, format_si, significant
from gpuprof.words.explain_node import ExplanationNode, missing_node, percent_node
from gpuprof.words.unit_names import pipe_name

_PIPES_SHOWN = 3
_BYPASSED = 1.1
"""Above this ratio of L2 to L1 traffic, much of it bypasses L1."""


def cause_nodes(kernel: KernelProfile, reason: str) -> Iterator[ExplanationNode]:
    """Yield the units behind a reason, as far as the report has them."""
    if reason in AT_MEMORY.reasons:
        yield from _memory_path(kernel)
    elif reason in SHARED_STALLS:
        yield from _shared_memory(kernel)
    elif reason == "math_pipe_throttle":
        yield from pipe_nodes(kernel, _MATH_PIPES)
    elif reason == "barrier" and kernel.block is not None:
        threads = math.prod(kernel.block)
        text = f"per block of {threads} threads wait for the slowest"
        yield ExplanationNode("cause", text, float(math.ceil(threads / WARP_THREADS)), unit="warp")
    elif reason == "wait" and kernel.scheduler is not None and kernel.scheduler.active_warps is not None:
        text = "active per scheduler to hide the latency"
        yield ExplanationNode("cause", text, kernel.scheduler.active_warps, unit="warp")
    elif reason == "no_instruction" and kernel.waves is not None:
        note = "each SM starts with cold instruction caches" if kernel.waves < 1 else ""
        yield ExplanationNode("cause", "of blocks", kernel.waves, unit="wave", detail=note)


def _memory_path(kernel: KernelProfile) -> Iterator[ExplanationNode]:
    """Yield the hit rates of L1 and L2, how busy DRAM is, and the bytes at each level."""
    traffic = {moved.level: moved for moved in kernel.traffic}
    for level in ("l1", "l2"):
        yield _hit_rate(level, traffic.get(level))
    dram = next((unit.fraction for unit in kernel.throughput if unit.unit == "dram"), None)
    if dram is None:
        yield missing_node("DRAM utilisation", "SpeedOfLight")
    else:
        yield percent_node("cause", "of DRAM peak bandwidth", dram, _rate(traffic.get("dram")))
    amounts = [traffic[level].bytes for level in ("l1", "l2", "dram") if level in traffic]
    known = [amount for amount in amounts if amount is not None]
    if len(known) == 3:
        yield ExplanationNode("cause", _path_text(*known))


def _hit_rate(level: str, moved: Traffic | None) -> ExplanationNode:
    name = f"{level.upper()} hit rate"
    if moved is None or moved.hit_rate is None:
        return missing_node(name, "MemoryWorkloadAnalysis")
    rate = _rate(moved)
    return percent_node("cause", name, moved.hit_rate, f"{rate} requested" if rate else "")


def _rate(moved: Traffic | None) -> str:
    """Write the bandwidth of a level; empty if it is not known."""
    if moved is None or moved.bytes_per_s is None:
        return ""
    return format_si(moved.bytes_per_s, "B/s")


def _path_text(l1: float, l2: float, dram: float) -> str:
    """Write the parts of L1's bytes that go on to L2 and DRAM; all bytes if many bypass L1."""
    if l1 > 0 and l2 <= _BYPASSED * l1:
        to_l2 = significant(100 * l2 / l1)
        to_dram = significant(100 * dram / l1)
        return f"of 100 B requested from L1, {to_l2} B go on to L2 and {to_dram} B to DRAM"
    from_l1, from_l2, from_dram = (format_si(amount, "B") for amount in (l1, l2, dram))
    return f"{from_l1} requested from L1, {from_l2} from L2, {from_dram} from DRAM"


def _shared_memory(kernel: KernelProfile) -> Iterator[ExplanationNode]:
    """Yield how busy the pipes behind the memory queue are; bank conflicts have a finding."""
    pipes = {pipe.name: pipe for pipe in kernel.pipes}
    for name, text in _QUEUE_PIPES.items():
        if name in pipes:
            yield _busy(pipes[name], text)
    if _QUEUE_PIPES.keys().isdisjoint(pipes):
        yield missing_node("pipes", "ComputeWorkloadAnalysis")
    if kernel.shared_memory_per_block:
        size = format_binary(kernel.shared_memory_per_block)
        yield ExplanationNode("cause", f"{size} of shared memory per block")


_QUEUE_PIPES = {
    "lsu": "LSU pipe (loads and stores, shared memory included)",
    "xu": "XU pipe (special functions and conversions)",
}


def _busy(pipe: Pipe, text: str) -> ExplanationNode:
    """Return how busy a pipe is, and in which cycles, by the name of its metric."""
    busy = "busy"
    for cycles in ("elapsed", "active"):
        if pipe.metric.endswith(cycles):
            busy = f"busy in {cycles} cycles"
    return percent_node("cause", f"{busy}: {text}", pipe.fraction)


_MATH_PIPES = ("fma", "fmaheavy", "alu", "fp64", "fp16", "tensor")
"""Pipes that the scheduler feeds itself; special functions, branches and memory have a queue."""


def pipe_nodes(
    kernel: KernelProfile,
    names: Container[str] | None = None,
) -> Iterator[ExplanationNode]:
    """Yield the three busiest pipes, of those named."""
    pipes = [pipe for pipe in kernel.pipes if names is None or pipe.name in names]
    busiest = sorted(pipes, key=lambda pipe: -pipe.fraction)[:_PIPES_SHOWN]
    for pipe in busiest:
        yield _busy(pipe, f"{pipe_name(pipe.name)} pipe")
    if not busiest:
        yield missing_node("pipes", "ComputeWorkloadAnalysis")
