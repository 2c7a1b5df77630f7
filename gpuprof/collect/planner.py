"""Chooses by a survey what of a program is profiled, by which runs, and how ncu selects the launches in each."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property, partial

from gpuprof.collect.cost import FULL_PASS_S, FULL_PASSES, PASS_S, START_S, answer_passes, forecast_of, limit_passes
from gpuprof.collect.counter_sets import SETS
from gpuprof.collect.events import ProfilePlanned
from gpuprof.collect.launches import Seen
from gpuprof.collect.plan import PlannedKernel, ProfilePlan, make_plan
from gpuprof.collect.request import ProfileRequest, survey_files
from gpuprof.collect.selection import (
    Selection,
    by_marks,
    by_names,
    by_position,
    by_profiler,
    within,
    without_peers,
)
from gpuprof.collect.shell import shell_line
from gpuprof.collect.step_numbers import step_number
from gpuprof.collect.survey import Survey
from gpuprof.collect.window import Window, choose_window
from gpuprof.errors import UsageError
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.kernel_match import name_patterns
from gpuprof.timeline.intervals import TimeInterval
from gpuprof.timeline.steps import loop_of
from gpuprof.timeline.trace import ProgramStep, is_communication

_MOST_S = 20.0
"""The passes of a step may always take so long: about twice what those of our recorded transformer take."""


class Planner:
    """Plans one request by one survey. `knows_positions`: this ncu can count launches whatever their names."""

    def __init__(self, request: ProfileRequest, survey: Survey, arch: ArchSpec, *, knows_positions: bool) -> None:
        self._request, self._survey, self._arch = request, survey, arch
        is_plain = not request.ranges and request.graphs == "node" and request.samples == 1
        self._can_avoid_names = knows_positions and is_plain
        self._knows_positions = self._can_avoid_names and survey.counts_all
        """Whether positions in the survey are those that ncu will count."""

    def planned(self) -> ProfilePlanned:
        """Choose what to profile, and by which runs: limits and then answers, or everything in one.

        Raises UsageError if no kernel is to be profiled.
        """
        counters, plan = self._request.counters, self._plan
        first = self._first()
        together = ProfilePlanned(plan, self._arch, counters, self._survey.program_s, first, answers=None)
        if not SETS[counters].in_stages:
            return replace(together, selection=self.ways(first, plan.kernels)[0])
        in_stages = replace(together, answers=self.ways(first, plan.worth_asking)[0])
        # Of a short program with few launches, another run would cost more than counters that nobody needs.
        return min(in_stages, together, key=lambda way: forecast_of(way).seconds)

    def ways(self, first: Selection, kernels: Sequence[PlannedKernel], *, fits: bool = True) -> list[Selection]:
        """Return how ncu can select some kernels of the plan, the best way first; another is for when nothing comes.

        `first` is the selection for the limits, and `fits` says whether its launches came as in the survey. Ways that
        need no names are the reliable ones: of these that with the fewest launches is the best, if no kernel that it
        lacks is worth a run of its own. Names are taken if the reliable way takes longer than two runs by names.
        """
        named = self.by_names(kernels)
        if not self._can_avoid_names:
            return [named]
        part = None
        if first.window is not None and fits:
            part = within(first.window, kernels, is_barred=self._is_barred)
        marked = self._marked(first, kernels)

        def cost(way: Selection) -> tuple[bool, int]:
            lacking = [kernel for kernel in kernels if kernel.shape not in way.shapes]
            return bool(lacking) and self._plan.is_worth_a_run(lacking), way.launches

        ways = sorted((way for way in (part, marked) if way is not None), key=cost)
        launch_s = self._launch_s()
        if not ways or ways[0].launches * launch_s > self._twice_s(named, launch_s):
            return [named]
        if ways == [marked] and not self._survey.saw_profiler_calls:
            ways.append(by_profiler(ways[0]))
        return [self._as_surveyed(way) for way in ways]

    def by_names(self, kernels: Sequence[PlannedKernel], at_first: Collection[PlannedKernel] = ()) -> Selection:
        """Select kernels by names and launch numbers; those of `at_first` by the first two numbers."""
        return self._as_surveyed(by_names(self._plan, kernels, at_first))

    @cached_property
    def _plan(self) -> ProfilePlan:
        """The kernels to profile. Raises UsageError if there are none."""
        request = self._request
        pattern = re.compile(request.kernel) if request.kernel is not None else None
        plan = make_plan(
            self._survey.launches(),
            coverage=request.coverage,
            samples=request.samples,
            pattern=pattern,
            base=request.kernel_base,
            exclude=name_patterns(request.exclude, "--exclude"),
            peers=request.peers,
        )
        if not plan.kernels:
            raise _nothing_planned(request, plan)
        return plan

    @cached_property
    def _peers(self) -> frozenset[str]:
        """The names of kernels that wait for another rank, which are not to be profiled."""
        names = {seen.demangled for seen in self._survey.launches()}
        return frozenset(filter(is_communication, names)) if not self._request.peers else frozenset()

    @cached_property
    def _launches(self) -> Sequence[Seen]:
        """The launches of the process in which the kernels take most time, of the rank that is profiled."""
        ranks = str(self._request.ranks)
        return self._survey.of_main_process(self._plan, int(ranks) if ranks.isdigit() else None)

    @cached_property
    def _loop(self) -> Sequence[ProgramStep]:
        """The steps of that process."""
        timeline = self._survey.timeline_of(self._launches[0])
        return loop_of(timeline) if timeline is not None else ()

    @cached_property
    def _unwanted(self) -> frozenset[object]:
        return frozenset(kernel.shape for kernel in (*self._plan.excluded, *self._plan.peers))

    def _is_barred(self, seen: Seen) -> bool:
        """Return whether a launch must not be profiled: it waits for a peer, or is not wanted."""
        return seen.demangled in self._peers or seen.shape in self._unwanted

    def _as_surveyed(self, selection: Selection) -> Selection:
        """Select from all that the survey saw of the program, but no kernel that waits for another rank."""
        filters = selection.filters
        if filters.profiler_calls == "obeyed" and not self._survey.obeys_profiler_calls:
            selection = replace(selection, filters=replace(filters, profiler_calls="ignored"))
        return without_peers(selection, self._peers)

    def _first(self) -> Selection:
        """Choose how ncu selects the launches of the plan: by position if that is possible, else by marks or names."""
        kernels = self._plan.kernels
        window, named = self._window(), self.by_names(kernels)
        return self._as_surveyed(by_position(window, kernels)) if window is not None else self.ways(named, kernels)[0]

    def _window(self) -> Window | None:
        """Choose a step, or a part of one if its passes would take too long; None where positions cannot be used."""
        if not self._knows_positions:
            return None
        kernels, passes = self._plan.kernels, limit_passes(self._arch)
        most_s = max(_MOST_S, self._twice_s(self.by_names(kernels), passes * PASS_S))
        choose = partial(
            choose_window, self._launches, kernels, steps=[step.interval for step in self._loop],
            is_barred=self._is_barred, most=int(most_s / (passes * PASS_S)),
        )  # fmt: skip
        window = choose(whole=self._request.kernel is None)
        if window is not None and passes * window.time_s > most_s:
            window = choose(whole=False)
        return window

    def _marked(self, first: Selection, kernels: Sequence[PlannedKernel]) -> Selection | None:
        """Select parts of the step that was chosen, or of one of the program's loop; None if our hook can mark none."""
        timeline, steps = self._survey.timeline_of(self._launches[0]), self._loop
        if timeline is None or not self._request.annotate:
            return None
        if first.window is None:
            steps = steps[1:2] or steps  # the first one may warm up
        else:
            steps = [step for step in steps if _is_in(step.interval, first.window.launches[0])]
        number = step_number(timeline, steps[0]) if steps else None
        if number is None:
            return None
        interval = steps[0].interval
        around = [seen for seen in self._launches if _is_in(interval, seen)]
        return by_marks(around, kernels, number, is_barred=self._is_barred, ours=timeline.hook_ranges)

    def _launch_s(self) -> float:
        """Return about how long the passes of a launch take in a run that follows the limits, or in the only one."""
        chosen = SETS[self._request.counters]
        if not chosen.in_stages:
            return FULL_PASSES * FULL_PASS_S
        return answer_passes(self._arch, chosen.questions) * PASS_S

    def _twice_s(self, named: Selection, launch_s: float) -> float:
        """Return what the passes of a run that needs no names may take: then it takes as long as two runs by names.

        A selection by names is the least sure one, and another run follows if it fails.
        """
        return 2 * named.launches * launch_s + (self._survey.program_s or 0.0) + START_S


def _is_in(interval: TimeInterval, seen: Seen) -> bool:
    """Tell whether a launch was made between two times."""
    start_s, end_s = interval
    return seen.launched_s is not None and start_s <= seen.launched_s < end_s


def _nothing_planned(request: ProfileRequest, plan: ProfilePlan) -> UsageError:
    """Return why no kernel of the survey is to be profiled."""
    if plan.left_out:
        return UsageError("every kernel in the survey waits for another rank", "add --peers to profile them too")
    if plan.excluded and request.kernel is None:
        return UsageError("every kernel in the survey is excluded", "exclude fewer with --exclude")
    but = " and is not excluded" if plan.excluded else ""
    given = request.survey_file
    files = [given] if given is not None else survey_files(request.place)
    list_them = f"list them: {shell_line(['gpuprof', 'show', *map(str, files[:1])])}"
    return UsageError(f"no kernel in the survey matches --kernel {request.kernel!r}{but}", list_them)
