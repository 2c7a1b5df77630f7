"""The units behind a stall reason, as far as a profile has them: hit rates, DRAM, pipes, the size of a block."""

from __future__ import annotations

from collections.abc import Container, Iterator

from gpuprof.diagnose.case import SHARED_STALLS
from gpuprof.diagnose.needs import pipe_name
from gpuprof.diagnose.rule import AT_MEMORY
from gpuprof.model.session import KernelProfile, Pipe
from gpuprof.units import WARP_THREADS, format_binary, format_si, significant
from gpuprof.words.explain_node import ExplanationNode, missing_node, percent_node

_PIPES_SHOWN = 3
_PASSES_BY = 1.1
"""Above this ratio of L2 to L1 traffic, much of it does not pass through L1."""


def cause_nodes(kernel: KernelProfile, reason: str) -> Iterator[ExplanationNode]:
    """Yield the units behind a reason, as far as the report has them."""
    if reason in AT_MEMORY.reasons:
        yield from _memory_path(kernel)
    elif reason in SHARED_STALLS:
        yield from _shared_memory(kernel)
    elif reason == "math_pipe_throttle":
        yield from pipe_nodes(kernel, _MATH_PIPES)
    elif reason == "barrier" and kernel.block is not None:
        threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
        text = f"per block of {threads} threads wait for the slowest"
        yield ExplanationNode("cause", text, float(-(-threads // WARP_THREADS)), unit="warp")
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
        moved = traffic.get(level)
        if moved is None or moved.hit_rate is None:
            yield missing_node(f"{level.upper()} hit rate", "MemoryWorkloadAnalysis")
            continue
        rate = f"{format_si(moved.bytes_per_s, 'B/s')} requested" if moved.bytes_per_s is not None else ""
        yield percent_node("cause", f"{level.upper()} hit rate", moved.hit_rate, rate)
    dram = next((unit.fraction for unit in kernel.throughput if unit.unit == "dram"), None)
    moved = traffic.get("dram")
    rate = format_si(moved.bytes_per_s, "B/s") if moved is not None and moved.bytes_per_s is not None else ""
    if dram is not None:
        yield percent_node("cause", "of DRAM peak bandwidth", dram, rate)
    else:
        yield missing_node("DRAM utilisation", "SpeedOfLight")
    amounts = [moved.bytes for level in ("l1", "l2", "dram") if (moved := traffic.get(level)) is not None]
    known = [amount for amount in amounts if amount is not None]
    if len(known) == 3:
        yield ExplanationNode("cause", _path_text(*known))


def _path_text(l1: float, l2: float, dram: float) -> str:
    """Write which part of L1's bytes goes on to L2 and DRAM; just the bytes if L2 moves more, as bulk copies do."""
    if l1 > 0 and l2 <= _PASSES_BY * l1:
        to_l2, to_dram = significant(100 * l2 / l1), significant(100 * dram / l1)
        return f"of 100 B requested from L1, {to_l2} B go on to L2 and {to_dram} B to DRAM"
    return f"{format_si(l1, 'B')} requested from L1, {format_si(l2, 'B')} from L2, {format_si(dram, 'B')} from DRAM"


def _shared_memory(kernel: KernelProfile) -> Iterator[ExplanationNode]:
    """Yield how busy the pipes behind the memory queue are; bank conflicts have their own finding."""
    pipes = {pipe.name: pipe for pipe in kernel.pipes}
    known = [(pipes[name], text) for name, text in _QUEUE_PIPES.items() if name in pipes]
    for pipe, text in known:
        yield _busy(pipe, text)
    if not known:
        yield missing_node("pipes", "ComputeWorkloadAnalysis")
    if kernel.shared_memory_per_block:
        yield ExplanationNode("cause", f"{format_binary(kernel.shared_memory_per_block)} of shared memory per block")


_QUEUE_PIPES = {
    "lsu": "LSU pipe (loads and stores, shared memory included)",
    "xu": "XU pipe (special functions and conversions)",
}


def _busy(pipe: Pipe, text: str) -> ExplanationNode:
    """Say how busy a pipe is, and in which cycles, by the name of its metric."""
    cycles = next((f" in {cycles} cycles" for cycles in ("elapsed", "active") if pipe.metric.endswith(cycles)), "")
    return percent_node("cause", f"busy{cycles}: {text}", pipe.fraction)


_MATH_PIPES = ("fma", "fmaheavy", "alu", "fp64", "fp16", "tensor")
"""Pipes that the scheduler feeds itself; special functions, branches and memory wait in a queue of their own."""


def pipe_nodes(kernel: KernelProfile, of: Container[str] | None = None) -> Iterator[ExplanationNode]:
    """Yield the three busiest pipes, of those named."""
    pipes = [pipe for pipe in kernel.pipes if of is None or pipe.name in of]
    busiest = sorted(pipes, key=lambda pipe: -pipe.fraction)[:_PIPES_SHOWN]
    for pipe in busiest:
        yield _busy(pipe, f"{pipe_name(pipe.name)} pipe")
    if not busiest:
        yield missing_node("pipes", "ComputeWorkloadAnalysis")
