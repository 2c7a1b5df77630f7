"""The command lines of a request: its survey, by ncu or another tool, and the runs that count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from gpuprof.collect.annotate import marking
from gpuprof.collect.command import Filters, NcuCommand
from gpuprof.collect.counter_sets import SETS
from gpuprof.collect.failures import NcuFailure
from gpuprof.collect.files_of_run import (
    ANSWERS_FILE,
    ANSWERS_LOG,
    MARKS_FILE,
    PROFILE_FILE,
    PROFILE_LOG,
    SURVEY_FILE,
    SURVEY_LOG,
)
from gpuprof.collect.metrics import SHARED, TIME, limit_metrics, metrics_of, question_metrics
from gpuprof.collect.ncu_help import options_of
from gpuprof.collect.questions import QUESTIONS, Question
from gpuprof.collect.request import ProfileRequest
from gpuprof.collect.selection import Selection
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


def profile_command(request: ProfileRequest, ncu: Path, arch: ArchSpec, selection: Selection | None) -> NcuCommand:
    """Return the run that collects all counters of the set: of a selection, or of the launches that the user chose."""
    chosen = SETS[request.counters]
    command = _counting(request, ncu, selection, metrics_of(arch, request.counters))
    return replace(
        command,
        sections=chosen.sections,
        stock_set=chosen.stock_set,
        source="waits" in chosen.questions,
        kill=selection is None and request.launch_count is not None,
    )


def limits_command(request: ProfileRequest, ncu: Path, arch: ArchSpec, selection: Selection) -> NcuCommand:
    """Return the run that collects the limits of the selected launches."""
    return _counting(request, ncu, selection, limit_metrics(arch))


def answers_command(
    request: ProfileRequest,
    ncu: Path,
    arch: ArchSpec,
    selection: Selection,
    questions: Iterable[Question],
    *,
    with_limits: bool,
) -> NcuCommand:
    """Return the run that answers questions about the selected launches; `with_limits` if some have no limits yet."""
    asked = sorted(questions, key=QUESTIONS.index)
    metrics = (*(limit_metrics(arch) if with_limits else ()), *question_metrics(arch, asked))
    command = _counting(request, ncu, selection, tuple(dict.fromkeys(metrics)))
    folder = request.place
    return replace(command, output=folder / ANSWERS_FILE, log=folder / ANSWERS_LOG, source="waits" in asked)


def _counting(request: ProfileRequest, ncu: Path, selection: Selection | None, metrics: tuple[str, ...]) -> NcuCommand:
    filters = selection.filters if selection is not None else _asked_for(request)
    return _command(
        request,
        ncu,
        PROFILE_FILE,
        PROFILE_LOG,
        metrics=metrics,
        filters=replace(filters, ranges=(*request.ranges, *filters.ranges)),
        variables=marking(request.place / MARKS_FILE) if selection is not None and selection.marks is not None else {},
        cache_control=request.cache_control,
        replay_mode=request.replay_mode,
    )


def _asked_for(request: ProfileRequest) -> Filters:
    """Return the filters for launches that the user has chosen by number and name."""
    return Filters(
        kernel=request.kernel,
        launch_skip=request.launch_skip,
        launch_count=request.launch_count,
        name_base=request.kernel_base,
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
