"""The plan of a profile as text: which kernels, how often, and what share of the time they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.collect.metrics import forecast_passes
from gpuprof.present.session_text import count_text, dims_text
from gpuprof.present.text import cut_middle, printable
from gpuprof.units import format_percent, format_si

if TYPE_CHECKING:
    from gpuprof.collect.plan import PlannedKernel, ProfilePlan
    from gpuprof.hardware.specs import ArchSpec

_NAME_SHOWN = 60
_KERNELS_SHOWN = 20
_PASS_S = 0.03
"""What a pass takes beside the kernel: 28 to 30 ms under ncu 2025.3 on an H100 (docs/explanation/results.md)."""


def plan_lines(plan: ProfilePlan) -> Iterator[str]:
    """Yield the plan: one line of totals, one for each kernel, and what is left out."""
    kernels = count_text(len(plan.kernels), "kernel")
    share = f", {format_percent(plan.coverage)} of the GPU's time" if plan.coverage is not None else ""
    times = f" ({format_si(plan.time_s, 's')})" if plan.time_s else ""
    yield f"survey: {count_text(plan.seen, 'launch', 'es')}{times}"
    launches = sum(len(kernel.invocations) for kernel in plan.kernels)
    extra = plan.profiled - launches
    surplus = f"; ncu also profiles {count_text(extra, 'other launch', 'es')} of the same names" if extra else ""
    yield f"plan: profile {count_text(launches, 'launch', 'es')} of {kernels}{share}{surplus}"
    for kernel in plan.kernels[:_KERNELS_SHOWN]:
        yield f"  {_kernel_line(kernel, plan)}"
    if len(plan.kernels) > _KERNELS_SHOWN:
        yield f"  … and {len(plan.kernels) - _KERNELS_SHOWN} more"
    if peers := plan.left_out:
        names = ", ".join(_name(kernel) for kernel in peers[:3])
        more = f" and {len(peers) - 3} more" if len(peers) > 3 else ""
        yield f"left out, as they wait for another rank (--peers includes them): {names}{more}"
    if plan.excluded:
        yield _excluded_line(plan)


def _excluded_line(plan: ProfilePlan) -> str:
    kernels = count_text(len({kernel.demangled for kernel in plan.excluded}), "kernel")
    share = f", {format_percent(sum(kernel.time_s for kernel in plan.excluded) / plan.time_s)}" if plan.time_s else ""
    return f"excluded: {kernels}{share}{' of the time' if share else ''}"


def forecast_line(plan: ProfilePlan, arch: ArchSpec, counters: str, survey_s: float | None) -> str:
    """Write what profiling will cost: passes a launch, and about how long; `survey_s` is the first run's time."""
    low, high = forecast_passes(arch, counters)
    passes, replays = _between(low, high), _between(low * plan.profiled, high * plan.profiled)
    seconds = format_si(high * (plan.profiled * _PASS_S + _kernels_s(plan)), "s", 2)
    source = f"about {seconds} if each takes {format_si(_PASS_S, 's', 2)}, as on an H100"
    longer = f"; the program runs again ({format_si(survey_s, 's')} in the survey)" if survey_s is not None else ""
    return f"forecast: {passes} passes per launch, {replays} replays in all, {source}{longer}"


def _between(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _kernels_s(plan: ProfilePlan) -> float:
    """Return how long the profiled launches take by themselves; those whose time is not known count nothing."""
    return sum(kernel.time_s / kernel.launches * len(kernel.invocations) for kernel in plan.kernels if kernel.launches)


def _kernel_line(kernel: PlannedKernel, plan: ProfilePlan) -> str:
    share = f"{format_percent(kernel.time_s / plan.time_s)}, " if plan.time_s else ""
    which = ", ".join(map(str, kernel.invocations))
    shape = f"grid {dims_text(kernel.shape.grid)}, block {dims_text(kernel.shape.block)}"
    return f"{share}{_name(kernel)}, {shape}: launch {which} of {kernel.launches}"


def _name(kernel: PlannedKernel) -> str:
    name = printable(kernel.demangled)
    return cut_middle(name, _NAME_SHOWN)
