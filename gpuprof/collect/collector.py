"""Runs a program for its survey, and then for its counters."""

from __future__ import annotations

import re
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
from gpuprof.collect.cost import (
    FULL_PASS_S,
    FULL_PASSES,
    PASS_S,
    START_S,
    answer_passes,
    forecast_of,
    limit_passes,
)
from gpuprof.collect.counter_sets import SETS
from gpuprof.collect.events import ProfilePlanned, ProfileRemark
from gpuprof.collect.execution import Execution
from gpuprof.collect.launches import Seen, launches_of
from gpuprof.collect.ncu_help import options_of
from gpuprof.collect.ncu_runs import STOPPED, SURVEY, NcuRun, NcuRuns, ReadReport, set_aside, stopped_error
from gpuprof.collect.plan import PlannedKernel, ProfilePlan, make_plan, not_seen_again
from gpuprof.collect.process import Ended
from gpuprof.collect.request import AGAIN, COUNTED_FILES, COUNTED_LOGS, MARKS_FILE, ProfileRequest, survey_files
from gpuprof.collect.selection import Selection, by_marks, by_names, by_position, by_profiler, within, without_peers
from gpuprof.collect.shell import shell_line
from gpuprof.collect.survey import Survey, of_one_kind
from gpuprof.collect.survey_tools import AUTO, INJECTED, NCU, TOOL_NAMES, results, tools_for
from gpuprof.collect.window import Window, aligned, choose_window
from gpuprof.errors import (
    DamagedInput,
    EnvironmentProblem,
    GpuprofError,
    InputError,
    Interrupted,
    ProgramFailed,
    UsageError,
)
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.kernel_match import name_patterns
from gpuprof.model.labels import short_name
from gpuprof.model.recorded import GpuSamples, Launch, Report
from gpuprof.model.surveyed import was_throttled
from gpuprof.model.trace import KERNEL, Trace, is_communication
from gpuprof.own_files import write_whole
from gpuprof.units import format_si

ReadSurvey = Callable[[Path], Report | Trace]
_MOST_S = 20.0
"""What the passes of a step may take in any case: some twice the program that our recordings are of."""
_NAMED = 5
"""So many kernels that did not come are named."""
_NOT_ALIGNED = ("the program launched other kernels than in the survey", "profile the program again")


@dataclass
class Collected:
    """How a run went: remarks for the user, and how program and run ended."""

    remarks: list[str] = field(default_factory=list)
    program_code: int | None = None


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
        self._fits = True
        """Whether the launches that came last by position were those of the survey."""

    def ended_early(self) -> GpuprofError | None:
        """Return the error of a program that did not come to a good end; None if it did."""
        if (by := self.execution.stopped_by) is not None:
            return (Interrupted if by == "interrupt" else ProgramFailed)(STOPPED[by])
        code = self.result.program_code
        return ProgramFailed(f"the program {_end_text(code)}") if code else None

    def was_stopped(self) -> bool:
        """Tell whether the last run was ended by the user or by --timeout."""
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
        yield from self._lines(self._answers_command(arch, answers, asked), answers)

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
        return self._own_work(self._survey())

    def _own_work(self, survey: Survey) -> Survey:
        """Leave out what autotuners tried, and say so."""
        own = survey.own_work()
        if own.tries.launches:
            took = f", {format_si(own.tries.time_s, 's')}," if own.tries.time_s else ""
            self._remark(f"autotuning: {own.tries.launches} launches{took} are not counted as the program's own work")
            told = self.result.remarks[-1]
            marked = (structs.replace(recording, warnings=(*recording.warnings, told)) for recording in own.recorded)
            own = replace(own, recorded=of_one_kind(marked))
        return own

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
        told = (*notes, *self._told_of(samples))
        shell = self.execution.commands[-1]
        return Survey(
            tuple(
                structs.replace(trace, command=shell, warnings=(*trace.warnings, *told), from_start=True)
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
            if isinstance(trace, Trace) and any(activity.kind == KERNEL for activity in trace.activities):
                traces.append(trace)
        return traces

    def planned(self, survey: Survey, arch: ArchSpec) -> ProfilePlanned:
        """Choose what to profile, and by which runs: limits and then answers, or everything in one."""
        counters = self.request.counters
        chosen, plan = SETS[counters], self._plan(survey)
        step = self._step(survey, plan, arch)
        together = ProfilePlanned(plan, arch, counters, survey.program_s, step, answers=None)
        if not chosen.in_stages:
            full_s = FULL_PASSES * FULL_PASS_S
            return replace(together, selection=self._ways(plan, step, survey, plan.kernels, full_s)[0])
        answers = self._ways(plan, step, survey, plan.worth_asking, self._answers_s(arch))[0]
        # Of a short program with few launches, another run would cost more than counters that nobody needs.
        return min(replace(together, answers=answers), together, key=lambda way: forecast_of(way).seconds)

    def _answers_s(self, arch: ArchSpec) -> float:
        """Return about how long the passes of a launch take for the answers."""
        return answer_passes(arch, SETS[self.request.counters].questions) * PASS_S

    def _plan(self, survey: Survey) -> ProfilePlan:
        """Return the kernels to profile. Raises UsageError if there are none."""
        request = self.request
        pattern = re.compile(request.kernel) if request.kernel is not None else None
        plan = make_plan(
            survey.launches(),
            coverage=request.coverage,
            samples=request.samples,
            pattern=pattern,
            base=request.kernel_base,
            exclude=name_patterns(request.exclude, "--exclude"),
            peers=request.peers,
        )
        if not plan.kernels:
            raise _nothing_planned(request, plan, self._list_them())
        return plan

    def _list_them(self) -> str:
        """Return the command that lists the kernels of the survey."""
        given = self.request.survey_file
        files = [given] if given is not None else survey_files(self.request.place)
        return f"list them: {shell_line(['gpuprof', 'show', *map(str, files[:1])])}"

    def _step(self, survey: Survey, plan: ProfilePlan, arch: ArchSpec) -> Selection:
        """Choose how ncu selects the launches of a plan: by position if that is possible, else by names."""
        request, passes = self.request, limit_passes(arch)
        named = by_names(plan, plan.kernels)
        if not self._can_count() or not survey.counts_all:
            return named
        most_s = max(_MOST_S, _twice(named, passes * PASS_S, survey.program_s))
        launches = survey.of_main_process(plan, self._rank())
        choose = partial(
            choose_window, launches, plan.kernels, steps=survey.steps_of(launches[0]), is_barred=self._barred(plan),
            most=int(most_s / (passes * PASS_S)),
        )  # fmt: skip
        window = choose(whole=request.kernel is None)
        if window is not None and passes * window.time_s > most_s:
            window = choose(whole=False)
        return without_peers(by_position(window, plan.kernels), self._peers(survey)) if window is not None else named

    def _peers(self, survey: Survey) -> set[str]:
        """Return the names of kernels that wait for another rank, which are not to be profiled."""
        names = {seen.demangled for seen in survey.launches()}
        return {name for name in names if is_communication(name)} if not self.request.peers else set()

    def _rank(self) -> int | None:
        """Return the rank that is profiled; None for all of them."""
        ranks = str(self.request.ranks)
        return int(ranks) if ranks.isdigit() else None

    def _can_count(self) -> bool:
        """Tell whether positions in the survey are those that ncu will count."""
        request = self.request
        is_plain = not request.ranges and request.graphs == "node" and request.samples == 1
        return is_plain and options_of(self._ncu).has(BY_POSITION)

    def _barred(self, plan: ProfilePlan) -> Callable[[Seen], bool]:
        """Return the test for launches that no window may have: those that wait for a peer, and those not wanted."""
        unwanted = {kernel.shape for kernel in (*plan.excluded, *plan.peers)}
        peers = self.request.peers
        return lambda seen: seen.shape in unwanted or (not peers and is_communication(seen.demangled))

    def profile(self, arch: ArchSpec, plan: ProfilePlan | None, selection: Selection | None) -> tuple[Report, ...]:
        """Run the program again and collect all counters of the chosen launches: a report for each profiled rank."""
        self._clear()

        def command(chosen: Selection | None) -> NcuCommand:
            return profile_command(self.request, self._ncu, arch, chosen)

        if plan is None or selection is None:
            return self._outcome(self._runs.run("profile", command(None), None))
        return self._collected("profile", command, plan, [selection])

    def limits(self, arch: ArchSpec, plan: ProfilePlan, selection: Selection) -> tuple[Report, ...]:
        """Run the program again and collect what limits the chosen launches: a report for each profiled rank."""
        self._clear()
        return self._collected(
            "limits", lambda chosen: limits_command(self.request, self._ncu, arch, chosen), plan, [selection]
        )

    def _clear(self) -> None:
        """Remove what runs that count have left in the folder before: the next ones may be fewer."""
        self.execution.remove(*(self.request.place / name for name in (*COUNTED_FILES, *COUNTED_LOGS)))

    def answers(
        self, arch: ArchSpec, plan: ProfilePlan, first: Selection, survey: Survey, asked: Asked
    ) -> tuple[Report, ...]:
        """Run the program once more for what is asked. `first` is how the limits were collected."""
        ways = self._ways(plan, first, survey, asked.kernels, self._answers_s(arch))
        return self._collected("answers", lambda chosen: self._answers_command(arch, chosen, asked), plan, ways)

    def _answers_command(self, arch: ArchSpec, selection: Selection, asked: Asked) -> NcuCommand:
        return answers_command(self.request, self._ncu, arch, selection, asked.questions, with_limits=asked.with_limits)

    def _ways(
        self, plan: ProfilePlan, first: Selection, survey: Survey, kernels: Sequence[PlannedKernel], launch_s: float
    ) -> list[Selection]:
        """Return how ncu can select some kernels of a plan, the best way first; another is for when nothing comes.

        Ways that need no names are the sturdy ones: of these that with the fewest launches is the best, if no kernel
        that it lacks is worth a run of its own. By names, if the sturdy one takes longer than two runs by names.
        `launch_s` is what the passes of a launch take.
        """
        named = by_names(plan, kernels)
        if not self._can_count() or not survey.counts_all:
            return [named]
        window, is_barred = first.window, self._barred(plan)
        begin = window.launches[0] if window is not None else survey.in_loop(kernels, self._rank())
        step = survey.step_number_of(begin) if self.request.annotate and begin is not None else None
        part = within(window, kernels, is_barred=is_barred) if window is not None and self._fits else None
        marked = None
        if step is not None and begin is not None:
            marked = by_marks(survey.step_around(begin), kernels, step, is_barred=is_barred)

        def cost(way: Selection) -> tuple[bool, int]:
            lacking = [kernel for kernel in kernels if kernel.shape not in way.shapes]
            return bool(lacking) and plan.is_worth_a_run(lacking), way.launches

        ways = sorted((way for way in (part, marked) if way is not None), key=cost)
        if not ways or ways[0].launches * launch_s > _twice(named, launch_s, survey.program_s):
            return [named]
        if ways == [marked]:
            ways.append(by_profiler(ways[0]))
        peers = self._peers(survey)
        return [without_peers(way, peers) for way in ways]

    def _collected(
        self, stage: str, command: Callable[[Selection], NcuCommand], plan: ProfilePlan, ways: Sequence[Selection]
    ) -> tuple[Report, ...]:
        """Run the program for a selection: in another way if nothing came, and by names for kernels that are lacking.

        Where an autotuner found its choices on disk, the program launches less than in the survey, and ncu 2025.3 was
        seen to miss numbers of kernels whose names are not mangled.
        """
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
            reports += self._again(stage, command, by_names(plan, lost, at_first=sure), next(again))
            lost = _lost(selection.kernels, reports)
        if not reports:
            raise done.failures[0].error() if done.failures else EnvironmentProblem(*_NOT_ALIGNED)
        if lost:
            self._remark(f"planned, but not counted: {_names_of(lost)}")
            told = self.result.remarks[-1]
            reports = tuple(structs.replace(report, warnings=(*report.warnings, told)) for report in reports)
        return reports

    def _again(
        self, stage: str, command: Callable[[Selection], NcuCommand], selection: Selection, again: str
    ) -> tuple[Report, ...]:
        """Collect the counters of kernels that did not come; if that fails, none, and what is there stays."""
        kernels = f"{len(selection.kernels)} planned kernel{'s' if len(selection.kernels) > 1 else ''}"
        how = {"names": "by name", "position": "by position", "marks": "with cudaProfilerStart"}[selection.by]
        self._remark(f"{kernels} did not come as planned: profiling them {how}")
        self._mark(selection)
        first = command(selection)
        output, log = (path.with_stem(f"{path.stem}{again}") for path in (first.output, first.log))
        try:
            changed = replace(first, output=output, log=log)
            done = self._runs.run(f"{stage} again", changed, selection.launches)
            return self._fitting(self._outcome(done), selection)
        except GpuprofError as error:
            self._remark(f"profiling again failed: {error.message}")
            return ()

    def _mark(self, selection: Selection) -> None:
        """Write what our hook is to mark in the next run of the program."""
        if selection.marks is not None:
            write_whole(self.request.place / MARKS_FILE, marks_text(selection.marks).encode())

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
        told = tuple(failure.what for failure in done.failures if failure.cause != "no-kernels")
        for text in told:
            self._remark(text)
        codes = [failure.code for failure in done.failures if failure.code is not None]
        self.result.program_code = codes[0] if codes else self.result.program_code
        samples = self.execution.samples()
        told = (*told, *self._told_of(samples))
        shell = self.execution.commands[-1]
        return tuple(
            structs.replace(report, command=shell, warnings=(*report.warnings, *told), samples=samples)
            for report in done.reports.values()
        )

    def _told_of(self, samples: tuple[GpuSamples, ...]) -> tuple[str, ...]:
        """Say so if the clocks of a GPU were lowered meanwhile."""
        if not was_throttled(samples):
            return ()
        self._remark("the GPU was throttled: times are at lowered clocks")
        return (self.result.remarks[-1],)

    def _remark(self, text: str) -> None:
        self.result.remarks.append(text)
        self.request.on_event(ProfileRemark(text))


def _nothing_planned(request: ProfileRequest, plan: ProfilePlan, list_them: str) -> UsageError:
    """Return why no kernel of the survey is to be profiled."""
    if plan.left_out:
        return UsageError("every kernel in the survey waits for another rank", "add --peers to profile them too")
    if plan.excluded and request.kernel is None:
        return UsageError("every kernel in the survey is excluded", "exclude fewer with --exclude")
    but = " and is not excluded" if plan.excluded else ""
    return UsageError(f"no kernel in the survey matches --kernel {request.kernel!r}{but}", list_them)


def _twice(named: Selection, launch_s: float, program_s: float | None) -> float:
    """Return what passes may take in a run that needs no names: as much as two runs by names, beside that one run.

    Names are the least sure way: if they fail, they take another run.
    """
    return 2 * named.launches * launch_s + (program_s or 0.0) + START_S


def _lost(kernels: Sequence[PlannedKernel], reports: tuple[Report, ...]) -> tuple[PlannedKernel, ...]:
    """Return what was planned and is in none of the reports."""
    return not_seen_again(kernels, [launch for report in reports for launch in launches_of(report)])


def _names_of(kernels: Sequence[PlannedKernel]) -> str:
    """Name the first few kernels, which take most time, by their functions, and count the others."""
    names = dict.fromkeys(short_name(kernel.demangled) for kernel in kernels)
    first, others = [*names][:_NAMED], len(names) - _NAMED
    return ", ".join([*first, f"and {others} more"] if others > 0 else first)


def _fitting_in(report: Report, window: Window) -> Report | None:
    """Return a report with the launches that align with a window, in the ranges of the survey; None if none do."""
    kernels = [launch for launch in report if launch.kind == "kernel" and None not in (launch.grid, launch.block)]
    seen = launches_of(report)
    kept: list[Launch] = []
    for process in dict.fromkeys(launch.process for launch in kernels):
        own = [place for place, launch in enumerate(kernels) if launch.process == process]
        pairs = aligned([seen[place] for place in own], window)
        for place, surveyed in pairs or ():
            kept.append(structs.replace(kernels[own[place]], ranges=surveyed.ranges))
    return structs.replace(report, launches=tuple(kept)) if kept else None


def _end_text(code: int) -> str:
    """Write how a program ended: "exited with code 3", "was ended by signal 9"."""
    return f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
