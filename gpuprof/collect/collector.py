"""Runs a program for its survey, and then for its counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from msgspec import structs

from gpuprof.collect.annotate import marks_text
from gpuprof.collect.asking import Asked
from gpuprof.collect.command import BY_POSITION, NcuCommand
from gpuprof.collect.commands import (
    ANOTHER_TOOL,
    answers_command,
    limits_command,
    profile_command,
    survey_command,
    tool_command,
)
from gpuprof.collect.counter_sets import SETS
from gpuprof.collect.events import ProfilePlanned, ProfileRemark
from gpuprof.collect.execution import Execution
from gpuprof.collect.files_of_run import AGAIN, COUNTED_FILES, COUNTED_LOGS, MARKS_FILE
from gpuprof.collect.launches import launches_of
from gpuprof.collect.ncu_help import options_of
from gpuprof.collect.ncu_runs import STOPPED, SURVEY, NcuRun, NcuRuns, ReadReport, set_aside, stopped_error
from gpuprof.collect.plan import PlannedKernel, ProfilePlan, not_seen_again
from gpuprof.collect.planner import Planner
from gpuprof.collect.process import Ended
from gpuprof.collect.request import ProfileRequest, survey_files
from gpuprof.collect.selection import Selection
from gpuprof.collect.shell import shell_line
from gpuprof.collect.survey import Survey, of_one_kind
from gpuprof.collect.survey_tools import AUTO, INJECTED, NCU, TOOL_NAMES, results, tools_for
from gpuprof.collect.window import Window, aligned
from gpuprof.errors import (
    DamagedInput,
    EnvironmentProblem,
    GpuprofError,
    InputError,
    Interrupted,
    ProgramFailed,
)
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.labels import short_name
from gpuprof.model.recorded import GpuSamples, Launch, Report
from gpuprof.model.surveyed import was_throttled
from gpuprof.own_files import write_whole
from gpuprof.timeline.trace import Trace
from gpuprof.units import format_si

ReadSurvey = Callable[[Path], Report | Trace]
_Command = Callable[[Selection], NcuCommand]
_NAMED = 5
"""So many kernels that did not come are named."""
_PROFILER_CALLS = (
    "the program calls cudaProfilerStart or cudaProfilerStop: gpuprof limits nothing by these calls, --range NVTX does"
)
_NOT_ALIGNED = "the program launched other kernels than in the survey"


@dataclass
class Collected:
    """How a run went: remarks for the user, how the program ended, and what else kept the run from being whole."""

    remarks: list[str] = field(default_factory=list)
    program_code: int | None = None
    error: GpuprofError | None = None


class Collector:
    """Runs one request. `ncu` is the executable, None where only another tool is to time the kernels; `read` reads
    what it wrote, `read_survey` what else a survey left."""

    def __init__(
        self,
        request: ProfileRequest,
        ncu: Path | None,
        environ: Mapping[str, str],
        read: ReadReport,
        read_survey: ReadSurvey,
    ) -> None:
        self.request, self._ncu = request, ncu or Path(NCU)
        self._without = (NCU,) if ncu is None else ()
        self.result = Collected()
        self.execution = Execution(request, environ, self._remark)
        self._runs = NcuRuns(self.execution, read, self._remark)
        self._read_survey = read_survey
        self._planner: Planner | None = None
        self._fits = True
        """Whether the launches that came last by position were those of the survey."""

    def ended_early(self) -> GpuprofError | None:
        """Return the error of a program, or of ncu, that did not come to a good end; None if both did."""
        if (by := self.execution.stopped_by) is not None:
            return (Interrupted if by == "interrupt" else ProgramFailed)(STOPPED[by])
        code = self.result.program_code
        return ProgramFailed(f"the program {_end_text(code)}") if code else self.result.error

    def was_stopped(self) -> bool:
        """Return whether the last run was ended by the user or by --timeout."""
        return self.execution.stopped_by is not None

    def command_lines(self, arch: ArchSpec) -> Iterator[str]:
        """Yield what would be executed, as lines for a shell; a plan is made only by a survey that the user gave."""
        request, execution = self.request, self.execution
        planned = self.planned(self.survey(), arch) if request.survey_file is not None else None
        tool = self.tools()[0] if planned is None and not request.selects_launches else None
        if tool is not None and tool != NCU:
            yield from execution.lines(tool_command(request, tool, execution.plain))
        changes = {name: value for name, value in execution.environ.items() if execution.plain.get(name) != value}
        if changes:
            yield shell_line(["export", *(f"{name}={value}" for name, value in changes.items())])
        if tool == NCU:
            yield from execution.lines(survey_command(request, self._ncu))
        if planned is not None:
            yield from self._counting_lines(planned)
        elif not request.only_times:
            yield from execution.lines(profile_command(request, self._ncu, arch, None))

    def _counting_lines(self, planned: ProfilePlanned) -> Iterator[str]:
        """Yield the runs that count. Before the first it is not known which questions are open: all are asked."""
        request, arch, selection, answers = self.request, planned.arch, planned.selection, planned.answers
        if answers is None:
            yield from self._lines(profile_command(request, self._ncu, arch, selection), selection)
            return
        yield from self._lines(limits_command(request, self._ncu, arch, selection), selection)
        asked = Asked(answers.kernels, frozenset(SETS[request.counters].questions), with_limits=False)
        yield from self._lines(self._answers_command(arch, asked)(answers), answers)

    def _lines(self, command: NcuCommand, selection: Selection) -> Iterator[str]:
        """Yield a command as lines for a shell, behind that which writes what our hook is to mark."""
        if selection.marks is not None:
            place = shell_line([str(self.request.place / MARKS_FILE)])
            yield f"{shell_line(['printf', '%s', marks_text(selection.marks)])} >{place}"
        yield from self.execution.lines(command)

    def tools(self) -> tuple[str, ...]:
        """Return the tools to try for the survey, in order. Only ncu takes launches by NVTX range."""
        request = self.request
        if request.survey != AUTO:
            tools: tuple[str, ...] = (str(request.survey),)
        else:
            tools = (NCU,) if request.ranges else tools_for(request.argv, self.execution.plain)
        return tuple(tool for tool in tools if tool not in self._without)

    def survey(self) -> Survey:
        """Run the program once to see which kernels matter, or read the survey that the user gave."""
        survey = self._survey().own_work()
        remarks = []
        if survey.tries.launches:
            took = f", {format_si(survey.tries.time_s, 's')}," if survey.tries.time_s else ""
            remarks.append(
                f"autotuning: {survey.tries.launches} launches{took} are not counted as the program's own work"
            )
        if survey.saw_profiler_calls:
            remarks.append(_PROFILER_CALLS)
        for text in remarks:
            self._remark(text)
        marked = (structs.replace(recording, warnings=(*recording.warnings, *remarks)) for recording in survey.recorded)
        return replace(survey, recorded=of_one_kind(marked))

    def _survey(self) -> Survey:
        if (file := self.request.survey_file) is not None:
            return Survey(of_one_kind([self._read_survey(file)]))
        for old in survey_files(self.request.place):
            old.unlink()
        first, *others = self.tools()
        for tool, following in zip((first, *others), (*others, None), strict=True):
            survey = self._survey_by_ncu() if tool == NCU else self._survey_by(tool)
            if survey is not None:
                return survey
            nothing = f"{TOOL_NAMES[tool]} saw no GPU activity"
            if following is None:
                raise EnvironmentProblem(nothing, ANOTHER_TOOL)
            self._remark(f"{nothing}: surveying with {TOOL_NAMES[following]} instead")
        raise AssertionError("there is always a tool")

    def _survey_by_ncu(self) -> Survey:
        done = self._runs.run(SURVEY, survey_command(self.request, self._ncu), None)
        reports = self._outcome(done)
        return Survey(reports, done.ended.seconds, reports[0].samples)

    def _survey_by(self, tool: str) -> Survey | None:
        """Run the program under another tool; None if that has recorded nothing that a GPU did."""
        command = tool_command(self.request, tool, self.execution.plain)
        ended = self.execution.by_tool(command)
        notes = command.collect()
        traces = self._timelines(results(self.request.place))
        for note in notes:
            self._remark(note)
        self._take_end(tool, ended, recorded=bool(traces))
        if not traces:
            return None
        samples = self.execution.samples()
        warnings = (*notes, *self._throttling(samples))
        shell = self.execution.commands[-1]
        return Survey(
            tuple(
                structs.replace(trace, command=shell, warnings=(*trace.warnings, *warnings), from_start=True)
                for trace in traces
            ),
            ended.seconds,
            samples,
        )

    def _take_end(self, tool: str, ended: Ended, *, recorded: bool) -> None:
        """Keep how the program ended. Raises an error if there is nothing to go on with and no sense in going on."""
        if ended.stopped_by is not None:
            if not recorded:
                raise stopped_error(ended.stopped_by)
            self._remark(STOPPED[ended.stopped_by])
        elif ended.code and (tool in INJECTED or recorded):
            self.result.program_code = ended.code
            if not recorded:
                raise ProgramFailed(f"the program {_end_text(ended.code)}", "its output says why")

    def _timelines(self, files: list[Path]) -> list[Trace]:
        """Read the timelines that a tool has left; those in which no GPU did anything are removed."""
        traces = []
        for file in files:
            try:
                trace = self._read_survey(file)
            except DamagedInput as error:
                self._remark(set_aside(file, error))
                continue
            except InputError:  # nothing of a GPU is in it
                file.unlink()
                continue
            if isinstance(trace, Trace) and any(activity.is_kernel for activity in trace.activities):
                traces.append(trace)
        return traces

    def planned(self, survey: Survey, arch: ArchSpec) -> ProfilePlanned:
        """Choose what to profile, and by which runs."""
        knows_positions = options_of(self._ncu).has(BY_POSITION)
        self._planner = Planner(self.request, survey, arch, knows_positions=knows_positions)
        return self._planner.planned()

    def profile(self, arch: ArchSpec, planned: ProfilePlanned | None) -> tuple[Report, ...]:
        """Run the program again and collect all counters of the chosen launches: a report for each profiled rank."""
        self._clear()
        command = partial(profile_command, self.request, self._ncu, arch)
        if planned is None:
            return self._outcome(self._runs.run("profile", command(None), None))
        return self._collected("profile", command, planned.plan, [planned.selection])

    def limits(self, planned: ProfilePlanned) -> tuple[Report, ...]:
        """Run the program again and collect what limits the chosen launches: a report for each profiled rank."""
        self._clear()
        command = partial(limits_command, self.request, self._ncu, planned.arch)
        return self._collected("limits", command, planned.plan, [planned.selection])

    def answers(self, planned: ProfilePlanned, asked: Asked) -> tuple[Report, ...]:
        """Run the program once more for what the limits, which came before, leave open."""
        assert self._planner is not None
        command = self._answers_command(planned.arch, asked)
        ways = self._planner.ways(planned.selection, asked.kernels, fits=self._fits)
        return self._collected("answers", command, planned.plan, ways)

    def _clear(self) -> None:
        """Remove what runs that count have left in the folder before: the next ones may be fewer."""
        self.execution.remove(*(self.request.place / name for name in (*COUNTED_FILES, *COUNTED_LOGS)))

    def _answers_command(self, arch: ArchSpec, asked: Asked) -> _Command:
        """Return what makes the command that answers open questions for a selection."""
        questions, with_limits = asked.questions, asked.with_limits
        return partial(answers_command, self.request, self._ncu, arch, questions=questions, with_limits=with_limits)

    def _collected(
        self, stage: str, command: _Command, plan: ProfilePlan, ways: Sequence[Selection]
    ) -> tuple[Report, ...]:
        """Run the program for a selection: in another way if nothing came, and by names for kernels that are lacking.

        Where an autotuner found its choices on disk, the program launches less than in the survey, and ncu 2025.3 was
        seen to miss numbers of kernels whose names are not mangled.
        """
        assert self._planner is not None
        selection, *others = ways
        self._mark(selection)
        done = self._runs.run(stage, command(selection), selection.launches, may_be_empty=True)
        reports = self._fitting(self._outcome(done), selection)
        again = iter(AGAIN)
        if not reports and others and not self.was_stopped():
            reports = self._again(stage, command, others[0], next(again))
        lost = _lost(selection.kernels, reports)
        if lost and plan.is_worth_a_run(lost) and not self.was_stopped():
            sure = [kernel for kernel in lost if selection.by == "names" or not kernel.is_mangled]
            reports += self._again(stage, command, self._planner.by_names(lost, at_first=sure), next(again))
            lost = _lost(selection.kernels, reports)
        if not reports:
            raise done.failures[0].error() if done.failures else self._not_aligned()
        if lost:
            self._remark(f"planned, but not counted: {_names_of(lost)}")
            remark = self.result.remarks[-1]
            reports = tuple(structs.replace(report, warnings=(*report.warnings, remark)) for report in reports)
        return reports

    def _again(self, stage: str, command: _Command, selection: Selection, again: str) -> tuple[Report, ...]:
        """Collect the counters of kernels that did not come; if that fails, none, and what is there stays."""
        kernels = f"{len(selection.kernels)} planned kernel{'s' if len(selection.kernels) > 1 else ''}"
        how = {"names": "by name", "position": "by position", "marks": "by marks"}[selection.by]
        self._remark(f"{kernels} did not come as planned: profiling again {how}")
        first = command(selection)
        output, log = (path.with_stem(f"{path.stem}{again}") for path in (first.output, first.log))
        try:
            self._mark(selection)
            changed = replace(first, output=output, log=log)
            done = self._runs.run(f"{stage} again", changed, selection.launches)
            return self._fitting(self._outcome(done), selection)
        except GpuprofError as error:
            self._remark(f"profiling again failed: {error.message}")
            return ()

    def _mark(self, selection: Selection) -> None:
        """Write what our hook is to mark in the next run of the program. Raises EnvironmentProblem if that fails."""
        if selection.marks is None:
            return
        place = self.request.place / MARKS_FILE
        try:
            write_whole(place, marks_text(selection.marks).encode())
        except OSError as error:
            hint = "make room, or choose another folder with -o"
            raise EnvironmentProblem(f"cannot write {place}: {error.strerror}", hint) from error

    def _not_aligned(self) -> EnvironmentProblem:
        given = self.request.survey_file is not None
        hint = "leave out --survey, or give one of this program" if given else "profile the program again"
        return EnvironmentProblem(_NOT_ALIGNED, hint)

    def _fitting(self, reports: tuple[Report, ...], selection: Selection) -> tuple[Report, ...]:
        """Return reports of a window with those launches alone that are what they were in the survey."""
        window = selection.window
        if window is None or not reports:
            return reports
        fitting = tuple(kept for report in reports if (kept := _fitting_in(report, window)) is not None)
        self._fits = bool(fitting)
        if not fitting:
            self._remark("the launches that came are not those of the survey: their counters are not used")
        return fitting

    def _outcome(self, done: NcuRun) -> tuple[Report, ...]:
        """Return what was recorded, with what went wrong meanwhile."""
        by = done.ended.stopped_by
        if by is not None:
            self._remark(STOPPED[by])
        warnings = [failure.what for failure in done.failures if failure.cause != "no-kernels"]
        if done.error is not None and not warnings:
            warnings = [done.error.message]
        self.result.error = self.result.error or done.error
        for text in warnings:
            if not any(remark.startswith(text) for remark in self.result.remarks):
                self._remark(text)
        codes = [failure.code for failure in done.failures if failure.code is not None]
        self.result.program_code = codes[0] if codes else self.result.program_code
        samples = self.execution.samples()
        warnings += self._throttling(samples)
        shell = self.execution.commands[-1]
        return tuple(
            structs.replace(report, command=shell, warnings=(*report.warnings, *warnings), samples=samples)
            for report in done.reports.values()
        )

    def _throttling(self, samples: tuple[GpuSamples, ...]) -> tuple[str, ...]:
        """Say so if the clocks of a GPU were lowered meanwhile."""
        if not was_throttled(samples):
            return ()
        self._remark("the GPU was throttled: times are at lowered clocks")
        return (self.result.remarks[-1],)

    def _remark(self, text: str) -> None:
        self.result.remarks.append(text)
        self.request.on_event(ProfileRemark(text))


def _lost(kernels: Sequence[PlannedKernel], reports: tuple[Report, ...]) -> tuple[PlannedKernel, ...]:
    """Return what was planned and is in none of the reports."""
    return not_seen_again(kernels, [launch for report in reports for launch in launches_of(report)])


def _names_of(kernels: Sequence[PlannedKernel]) -> str:
    """Name the first few kernels, which take most time, by their functions, and count the others."""
    names = dict.fromkeys(short_name(kernel.demangled) for kernel in kernels)
    first, others = [*names][:_NAMED], len(names) - _NAMED
    return ", ".join([*first, f"and {others} more"] if others > 0 else first)


def _fitting_in(report: Report, window: Window) -> Report | None:
    """Return a report with the launches that align with a window, in the ranges of the survey; None if none do.

    A window is of one process: if launches of several align, as few do by chance, those of the most are it.
    """
    kernels = [launch for launch in report if launch.kind == "kernel" and None not in (launch.grid, launch.block)]
    seen = launches_of(report)
    most: list[Launch] = []
    for process in dict.fromkeys(launch.process for launch in kernels):
        own = [place for place, launch in enumerate(kernels) if launch.process == process]
        pairs = aligned([seen[place] for place in own], window) or []
        kept = [structs.replace(kernels[own[place]], ranges=surveyed.ranges) for place, surveyed in pairs]
        most = max(most, kept, key=len)
    return structs.replace(report, launches=tuple(most)) if most else None


def _end_text(code: int) -> str:
    """Write how a program ended: "exited with code 3", "was ended by signal 9"."""
    return f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
