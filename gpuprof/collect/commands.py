"""The command lines of a request: its survey, by ncu or another tool, and its profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuprof.collect.command import Filters, NcuCommand
from gpuprof.collect.counter_sets import SETS
from gpuprof.collect.failures import NcuFailure
from gpuprof.collect.metrics import SHARED, TIME, metrics_of
from gpuprof.collect.ncu_help import options_of
from gpuprof.collect.plan import ProfilePlan
from gpuprof.collect.request import PROFILE_FILE, PROFILE_LOG, SURVEY_FILE, SURVEY_LOG, ProfileRequest
from gpuprof.collect.survey_tools import INJECTED, SurveyCommand, find_nsys, injected_command, nsys_command
from gpuprof.errors import EnvironmentProblem
from gpuprof.hardware.specs import ArchSpec

ANOTHER_TOOL = "--survey ncu times the kernels with ncu itself"


def survey_command(request: ProfileRequest, ncu: Path) -> NcuCommand:
    """Return the first run under ncu: every launch with its time and nothing else, in one pass, caches left alone."""
    return _command(
        request,
        ncu,
        SURVEY_FILE,
        SURVEY_LOG,
        metrics=(TIME, *SHARED),
        filters=Filters(ranges=tuple(request.ranges)),
        cache_control="none",
    )


def tool_command(request: ProfileRequest, tool: str, environ: Mapping[str, str]) -> SurveyCommand:
    """Return the first run under another tool than ncu. Raises EnvironmentProblem if that is not here."""
    if tool in INJECTED:
        return injected_command(tool, request.argv, request.place, environ)
    nsys = find_nsys(environ)
    if nsys is None:
        raise EnvironmentProblem("nsys (Nsight Systems) was not found", ANOTHER_TOOL)
    return nsys_command(nsys, request.argv, request.place, environ, annotate=request.annotate)


def profile_command(request: ProfileRequest, ncu: Path, arch: ArchSpec, plan: ProfilePlan | None) -> NcuCommand:
    """Return the second run: the counters of the set, for the launches of the plan, else those asked for."""
    if plan is not None:
        filters = plan.filters()
    else:
        filters = Filters(
            kernel=request.kernel,
            launch_skip=request.launch_skip,
            launch_count=request.launch_count,
            name_base=request.kernel_base,
        )
    chosen = SETS[request.counters]
    return _command(
        request,
        ncu,
        PROFILE_FILE,
        PROFILE_LOG,
        metrics=metrics_of(arch, request.counters),
        filters=replace(filters, ranges=tuple(request.ranges)),
        cache_control=request.cache_control,
        replay_mode=request.replay_mode,
        sections=chosen.sections,
        stock_set=chosen.stock_set,
        source=chosen.source,
        kill=plan is None and request.launch_count is not None,
    )


def _command(request: ProfileRequest, ncu: Path, output: str, log: str, **options: object) -> NcuCommand:
    command = NcuCommand(
        ncu=ncu,
        program=request.argv,
        output=request.place / output,
        log=request.place / log,
        metrics=(),
        clock_control=request.clock_control,
        graphs=request.graphs,
        known=options_of(ncu),
    )
    return replace(command, **options)  # type: ignore[arg-type]


def with_remedy(command: NcuCommand, failure: NcuFailure) -> NcuCommand:
    """Return the command with what a failure allows to be changed."""
    if failure.remedy == "application-replay":
        return replace(command, replay_mode="application")
    if failure.remedy == "whole-graphs":
        return replace(command, graphs="graph", replay_mode="kernel", source=False)
    refused = {name.partition(".")[0] for name in failure.metrics}
    return replace(command, metrics=tuple(name for name in command.metrics if name.partition(".")[0] not in refused))
