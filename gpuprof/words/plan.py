"""The plan of a profile as text: which kernels, how often, and what share of the time they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.collect.cost import forecast_of
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_percent, format_si
from gpuprof.words.profile_values import count_text, dims_text, verdict_text
from gpuprof.words.recommendations import headline_text
from gpuprof.words.sentences import joined_by, short_list

if TYPE_CHECKING:
    from gpuprof.collect.events import ProfilePlanned
    from gpuprof.collect.plan import PlannedKernel, ProfilePlan
    from gpuprof.collect.selection import Selection
    from gpuprof.model.session import Session

_NAME_SHOWN = 60
_KERNELS_SHOWN = 20
_NAMES_LISTED = 3


def timeline_lines(session: Session) -> Iterator[str]:
    """Yield the verdict on the times of a survey, before anything is counted."""
    yield joined_by(" ", "by times alone:", headline_text(session), verdict_text(session))


def plan_lines(plan: ProfilePlan, selection: Selection) -> Iterator[str]:
    """Yield the plan: a line of totals, one for each kernel, and those left out."""
    times = f" ({format_si(plan.time_s, 's')})" if plan.time_s else ""
    yield f"survey: {count_text(plan.seen, 'launch', 'es')}{times}"
    yield f"plan: {_total(plan.kernels, plan)}, {_selection_text(plan, selection)}"
    for kernel in plan.kernels[:_KERNELS_SHOWN]:
        shape = f"grid {dims_text(kernel.shape.grid)}, block {dims_text(kernel.shape.block)}"
        launches = count_text(kernel.launches, "launch", "es")
        if selection.by == "names":
            # ncu counts what other operators launch of the same name, grid and block, too.
            launches = f"launch {', '.join(map(str, kernel.invocations))} of {sum(kernel.counts)}"
        operator = printable(kernel.shape.operator or "")
        yield f"  {joined_by(', ', _share([kernel], plan), _name(kernel), shape, operator)}: {launches}"
    if len(plan.kernels) > _KERNELS_SHOWN:
        yield f"  … and {len(plan.kernels) - _KERNELS_SHOWN} more"
    if plan.left_out:
        names = short_list(list(map(_name, plan.left_out)), _NAMES_LISTED)
        yield f"left out, as they wait for another rank (--peers includes them): {names}"
    if plan.excluded:
        yield f"excluded: {_total(plan.excluded, plan)}"


def _total(kernels: Sequence[PlannedKernel], plan: ProfilePlan) -> str:
    share = _share(kernels, plan)
    return joined_by(", ", count_text(len(kernels), "kernel"), share and f"{share} of the GPU's time")


def _share(kernels: Sequence[PlannedKernel], plan: ProfilePlan) -> str:
    return format_percent(sum(kernel.time_s for kernel in kernels) / plan.time_s) if plan.time_s else ""


def _selection_text(plan: ProfilePlan, selection: Selection) -> str:
    """Write which launches are profiled: those of the kernels' names and numbers, consecutive or marked ones."""
    if selection.by == "names":
        launches = sum(len(kernel.invocations) for kernel in plan.kernels)
        extra = selection.launches - launches
        more = f"; ncu also profiles {count_text(extra, 'other launch', 'es')} of the same names" if extra else ""
        return f"at {count_text(launches, 'launch', 'es')}{more}"
    where = f"in {count_text(selection.launches, 'launch', 'es')} of marked parts of one step"
    if selection.window is not None:
        first = selection.window.skip + 1
        where = f"in launches {first} to {first + selection.launches - 1} of the program"
    absent = [kernel for kernel in plan.kernels if kernel.shape not in selection.shapes]
    if not absent:
        return where
    how = "by name, in one more run" if plan.is_worth_a_run(absent) else "left out: not worth another run"
    return f"{where}; {len(absent)} of them {how}"


def _name(kernel: PlannedKernel) -> str:
    return cut_middle(printable(kernel.demangled), _NAME_SHOWN)


def forecast_line(planned: ProfilePlanned) -> str:
    """Write how long profiling will still take, and how long ncu's full set for all launches would."""
    forecast = forecast_of(planned)
    runs = []
    for run in forecast.runs:
        least = "at most " if run.at_most else ""
        more = f" ({run.tensor_passes} with counters of tensor work)" if run.tensor_passes is not None else ""
        runs.append(f"{least}{count_text(run.launches, 'launch', 'es')} × about {run.passes} passes{more}")
    program = f"the program's own time {'twice' if len(forecast.runs) > 1 else 'once'}"
    how = f"by the times of an H100: {', then '.join(runs)}"
    line = f"forecast: about {_time(forecast.seconds)} more"
    if planned.program_s is None:
        line += f", plus {program}, {how}"
    else:
        line += f", {how}; this includes {program} ({format_si(planned.program_s, 's')} in the survey)"
    if forecast.full_s:
        line += f"; ncu --set full of all launches would take about {_time(forecast.full_s)}"
    return line


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
