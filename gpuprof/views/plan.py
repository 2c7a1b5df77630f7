"""The plan of a profile as text: which kernels, how often, and what share of the time they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.collect.cost import forecast_of
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_percent, format_si
from gpuprof.words.profile_values import count_text, dims_text, verdict_text
from gpuprof.words.recommendations import headline_text

if TYPE_CHECKING:
    from gpuprof.collect.cost import ForecastRun
    from gpuprof.collect.events import ProfilePlanned
    from gpuprof.collect.plan import PlannedKernel, ProfilePlan
    from gpuprof.collect.selection import Selection
    from gpuprof.model.session import Session

_NAME_SHOWN = 60
_KERNELS_SHOWN = 20


def timeline_lines(session: Session) -> Iterator[str]:
    """Yield the verdict on the times of a survey, before anything is counted."""
    headline = headline_text(session)
    yield f"by times alone: {f'{headline} ' if headline else ''}{verdict_text(session)}"


def plan_lines(plan: ProfilePlan, selection: Selection) -> Iterator[str]:
    """Yield the plan: one line of totals, one for each kernel, and what is left out."""
    kernels = count_text(len(plan.kernels), "kernel")
    share = f", {format_percent(plan.coverage)} of the GPU's time" if plan.coverage is not None else ""
    times = f" ({format_si(plan.time_s, 's')})" if plan.time_s else ""
    yield f"survey: {count_text(plan.seen, 'launch', 'es')}{times}"
    yield f"plan: {kernels}{share}, {_selection_text(plan, selection)}"
    by_number = selection.by == "names"
    for kernel in plan.kernels[:_KERNELS_SHOWN]:
        yield f"  {_kernel_line(kernel, plan, by_number=by_number)}"
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


def _selection_text(plan: ProfilePlan, selection: Selection) -> str:
    """Say which launches stand for the kernels: consecutive or marked ones, or those of their names and numbers."""
    if selection.by != "names":
        where = f"{count_text(selection.launches, 'launch', 'es')} of marked parts of one step"
        if selection.window is not None:
            first = selection.window.skip + 1
            where = f"launches {first} to {first + selection.launches - 1} of the program"
        absent = [kernel for kernel in plan.kernels if kernel.shape not in selection.shapes]
        how = "by name, in one more run" if plan.is_worth_a_run(absent) else "left out: not worth another run"
        without = f"; {len(absent)} of them {how}" if absent else ""
        return f"in {where}{without}"
    launches = sum(len(kernel.invocations) for kernel in plan.kernels)
    extra = selection.launches - launches
    surplus = f"; ncu also profiles {count_text(extra, 'other launch', 'es')} of the same names" if extra else ""
    return f"at {count_text(launches, 'launch', 'es')}{surplus}"


def forecast_line(planned: ProfilePlanned) -> str:
    """Write what profiling will cost from here on, and what ncu's full set of all launches would."""
    forecast = forecast_of(planned)
    runs = ", then ".join(map(_run_text, forecast.runs))
    times = "twice" if len(forecast.runs) > 1 else "once"
    full = f"; ncu --set full of all launches would take about {_time(forecast.full_s)}" if forecast.full_s else ""
    if planned.program_s is None:
        beside, within = f", plus the program's own time {times}", ""
    else:
        took = format_si(planned.program_s, "s")
        beside, within = "", f"; this includes the program's own time {times} ({took} in the survey)"
    return f"forecast: about {_time(forecast.seconds)} more{beside}, by the times of an H100: {runs}{within}{full}"


def _run_text(run: ForecastRun) -> str:
    least = "at most " if run.at_most else ""
    more = f" ({run.tensor_passes} with counters of tensor work)" if run.tensor_passes is not None else ""
    return f"{least}{count_text(run.launches, 'launch', 'es')} × about {run.passes} passes{more}"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _kernel_line(kernel: PlannedKernel, plan: ProfilePlan, *, by_number: bool) -> str:
    share = f"{format_percent(kernel.time_s / plan.time_s)}, " if plan.time_s else ""
    shape = f"grid {dims_text(kernel.shape.grid)}, block {dims_text(kernel.shape.block)}"
    operator = f", {printable(kernel.shape.operator)}" if kernel.shape.operator else ""
    # ncu counts what other operators launch of the same name, grid and block, too.
    which = f"launch {', '.join(map(str, kernel.invocations))} of {sum(kernel.counts)}"
    launches = which if by_number else count_text(kernel.launches, "launch", "es")
    return f"{share}{_name(kernel)}, {shape}{operator}: {launches}"


def _name(kernel: PlannedKernel) -> str:
    name = printable(kernel.demangled)
    return cut_middle(name, _NAME_SHOWN)
