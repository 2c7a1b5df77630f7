"""The rule on what a GPU does between kernels, which only a timeline tells."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.case import Case, Pauses
from gpuprof.diagnose.rule import Rule, Threshold, Verdict
from gpuprof.model.session import Evidence, Session
from gpuprof.units import format_percent, format_si

IDLE = Threshold("idle share of the span", 10.0, "%", "less is the price of launching kernels one after the other")
MOSTLY = Threshold(
    "share of the idle time in short or long pauses", 50.0, "%", "most of it says which kind of pause it is"
)

_SHORT = (
    "Most of the idle time are pauses under 20 µs: the CPU launches kernels no faster than the GPU ends them.",
    'Launch less often: CUDA graphs (torch.compile with mode="reduce-overhead"), fused kernels, foreach or fused '
    "optimisers, larger batches.",
)
_LONG = (
    "Most of the idle time are pauses of 1 ms and longer: the program waits for data, for a synchronisation or for "
    "itself.",
    "Look at what the CPU does there: data loading (num_workers, pin_memory, prefetch), .item() and printing of "
    "tensors, copies without non_blocking, compilation or warm-up inside the measured time.",
)
_BETWEEN = (
    "The CPU launches the next kernel late: between its launches it works or waits for the GPU.",
    "Take synchronisations (.item(), .cpu(), print) and Python work out of the loop, or launch it as a CUDA graph.",
)


def pauses_of(session: Session) -> dict[int, Pauses]:
    """Return, by the number of the kernel that ends most idle time of a GPU, that GPU's pauses."""
    if session.timeline is None:
        return {}
    places = {kernel.id: (kernel.source, kernel.device) for kernel in session.kernels}
    found: dict[int, Pauses] = {}
    for device in sorted(session.timeline.devices, key=lambda one: one.gaps.total_s if one.gaps is not None else 0.0):
        here = (device.source, device.device)
        first = next((wait for wait in session.timeline.waits if places.get(wait.kernel) == here), None)
        if first is not None:
            found[first.kernel] = Pauses(device, first)
    return found


def _launch_gaps(case: Case) -> Iterator[Verdict]:
    if case.pauses is None:
        return
    device, wait = case.pauses
    gaps = device.gaps
    if gaps is None or device.span_s <= 0 or 100 * gaps.total_s / device.span_s < IDLE.value:
        return
    share = gaps.total_s / device.span_s
    why, advice = _kind_of_pause(gaps.short_s / gaps.total_s, gaps.long_s / gaps.total_s)
    yield Verdict(
        headline=(
            f"Launch gaps: the GPU is idle {format_percent(share)} of {format_si(device.span_s, 's')}, "
            f"{format_si(wait.idle_s, 's')} of it before launches of this kernel"
        ),
        why=f"{why} The profiler itself makes pauses longer.",
        advice=advice,
        confidence="inferred",
        gain=None,
        gain_of_run=share,
        evidence=(
            Evidence("", 100 * share, "%", IDLE.value, "idle share of the span"),
            Evidence("", float(gaps.count), "pause", None, "pauses"),
            Evidence("", gaps.median_s, "s", None, "median pause"),
            Evidence("", gaps.longest_s, "s", None, "longest pause"),
            Evidence("", float(wait.pauses), "pause", None, "pauses that a launch of this kernel ended"),
        ),
    )


def _kind_of_pause(short: float, long: float) -> tuple[str, str]:
    if 100 * short >= MOSTLY.value:
        return _SHORT
    return _LONG if 100 * long >= MOSTLY.value else _BETWEEN


RULES = (
    Rule(
        "launch-gaps",
        "The GPU is idle between kernels",
        "defect",
        "The pauses of a timeline between a GPU's first and last activity, and which kernel each of them ends at.",
        (IDLE, MOSTLY),
        "The idle share of the span: at most all pauses go. It is a share of the run, not of a kernel.",
        "There is no timeline, or the GPU is idle under 10 % of it. It is told of the kernel that ends most idle time.",
        _launch_gaps,
        by_times=True,
    ),
)
