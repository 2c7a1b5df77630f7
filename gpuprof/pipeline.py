"""From a program to its session: survey, plan, limits, answers, join, diagnose. For `gpuprof.profile` and commands."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gpuprof._version import __version__
from gpuprof.collect.asking import asked_about, with_reasons
from gpuprof.collect.choices import DRY_ARCH
from gpuprof.collect.collector import Collector
from gpuprof.collect.command import as_ncu_may_call
from gpuprof.collect.counter_sets import SETS
from gpuprof.collect.events import ProfilePlanned, ProfileRemark, TimelineJudged
from gpuprof.collect.files_of_run import COUNTED_FILES
from gpuprof.collect.folder import logs_to_refuse, taken
from gpuprof.collect.installation import Ncu, choose_ncu
from gpuprof.collect.machine import Machine, gpus_here, version_text
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.collect.plan import ProfilePlan
from gpuprof.collect.request import ProfileRequest, checked, survey_files
from gpuprof.collect.shell import shell_line
from gpuprof.collect.survey import Survey
from gpuprof.diagnose.diagnose import diagnose
from gpuprof.diagnose.summary import with_verdict
from gpuprof.errors import EnvironmentProblem, GpuprofError, InputError, UsageError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import Analysis, analyse
from gpuprof.model.answers import with_answers
from gpuprof.model.exclusion import without_excluded
from gpuprof.model.recorded import Missing, Report
from gpuprof.model.session import Session
from gpuprof.model.surveyed import ONLY_TIMES, joined, only_timed
from gpuprof.own_files import make_folder
from gpuprof.privacy.border import with_clean_labels, without_private
from gpuprof.timeline.analysis import analyse_traces
from gpuprof.timeline.trace import Trace
from gpuprof.words.session import worded

_BY_NUMBER = "leave out --launch-skip and --launch-count"
_PROFILE_IT = "profile the program again"
_TIMERS = (
    "install Nsight Systems (nsys), or Nsight Compute; for Python, PyTorch or cupti-python in its environment will do"
)


class ProfileOutcome(NamedTuple):
    """The session, and the error that it is incomplete by; None where program and profile came to a good end.

    `Interrupted` is the error where the user ended it.
    """

    session: Session
    error: GpuprofError | None


def profiled(request: ProfileRequest, also: Sequence[Path] = ()) -> ProfileOutcome:
    """Profile a program. Reports and logs are left in the folder; the session is not written.

    `also` are files that the caller will write: none of them, and no report, is replaced unless `overwrite` is set.
    Raises a GpuprofError where nothing was recorded that a session could be made of.
    """
    if request.only_times:
        return timed(request, also)
    with _collecting(request, also) as (collector, finder):
        analysis, error = _analysed(collector, finder)
        return _outcome(analysis, request, error)


def timed(request: ProfileRequest, also: Sequence[Path] = ()) -> ProfileOutcome:
    """Run a program once to time its kernels, as the survey of `profiled` does; nothing is counted.

    `also` as for `profiled`. Raises a GpuprofError where nothing was recorded.
    """
    with _collecting(request, also) as (collector, finder):
        surveyed = _survey_analysis(collector.survey(), finder)
        return _outcome(only_timed(surveyed, ONLY_TIMES), request, collector.ended_early())


def _outcome(analysis: Analysis, request: ProfileRequest, error: GpuprofError | None) -> ProfileOutcome:
    return ProfileOutcome(_diagnosed(analysis, request), error)


def _diagnosed(analysis: Analysis, request: ProfileRequest) -> Session:
    """Return the diagnosed session without excluded kernels and, by default, without private data."""
    session = diagnose(analysis if request.keep_private else with_clean_labels(analysis))
    session = worded(with_verdict(without_excluded(session, request.exclude)))
    return session if request.keep_private else without_private(session)


def survey_tools(request: ProfileRequest, also: Sequence[Path] = ()) -> tuple[str, ...]:
    """Return the tools that the survey of a request would try, in order.

    Raises a GpuprofError for all that `profiled` would refuse before it runs anything.
    """
    checked_request, _, ncu = _prepared(request, also)
    return _collector(checked_request, ncu.path if ncu is not None else None).tools()


def planned(request: ProfileRequest, also: Sequence[Path] = ()) -> ProfilePlan:
    """Survey a program and return what would be profiled; the event `ProfilePlanned` has more. The survey is left.

    Raises a GpuprofError, as `profiled` does.
    """
    refuse_no_plan(request)
    with _collecting(request, also) as (collector, finder):
        return _plan(collector, collector.survey(), finder).plan


def refuse_no_plan(request: ProfileRequest) -> None:
    """Raise UsageError for a request that has no plan: launches by number need none, and times alone count nothing."""
    if request.only_times:
        raise UsageError("--plan-only plans what is counted, and --set times counts nothing", "leave out --plan-only")
    if request.selects_launches:
        raise UsageError("--plan-only cannot be combined with --launch-skip or --launch-count", _BY_NUMBER)


def command_lines(request: ProfileRequest, also: Sequence[Path] = ()) -> list[str]:
    """Return the command lines of a request for a shell; nothing is run, and ncu need not be here.

    Raises a GpuprofError for all that `profiled` would refuse before it runs anything.
    """
    request = checked(request)
    HardwareFinder(request.spec)
    arch = _arch(request.arch or DRY_ARCH)
    _refuse_overwrite(request, also)
    try:
        ncu = choose_ncu(os.environ, _ncu_named(request)).path
    except EnvironmentProblem as error:
        if request.ncu is not None:
            raise
        if not request.only_times:
            request.on_event(ProfileRemark(f"{error.message}: the commands call it ncu"))
        ncu = Path("ncu")
    return [shell_line(["mkdir", "-p", str(request.place)]), *_collector(request, ncu).command_lines(arch)]


@contextlib.contextmanager
def _collecting(asked: ProfileRequest, also: Sequence[Path]) -> Iterator[tuple[Collector, HardwareFinder]]:
    """Give what runs the program, with the folder to itself; a folder that was made for nothing is removed."""
    request, finder, chosen = _prepared(asked, also)
    folder = request.place
    try:
        made = make_folder(folder, ours=asked.folder is None)
    except OSError as error:
        raise UsageError(f"cannot create {folder}: {error.strerror}", "choose another folder with -o") from error
    if chosen is not None and not request.only_times:
        _remark_on(chosen, request)
    try:
        with taken(folder):
            yield _collector(request, chosen.path if chosen is not None else None), finder
    except BaseException:
        if made:
            with contextlib.suppress(OSError):  # something is in it, or the program has removed it
                folder.rmdir()
        raise


def _remark_on(ncu: Ncu, request: ProfileRequest) -> None:
    request.on_event(ProfileRemark(f"ncu: {ncu}"))
    driver = Machine().driver_version()
    if driver is not None and not ncu.suits(driver):
        needed = f"this ncu needs driver {ncu.oldest_driver} or newer; with {version_text(driver)} it may fail"
        request.on_event(ProfileRemark(needed))


def _prepared(asked: ProfileRequest, also: Sequence[Path]) -> tuple[ProfileRequest, HardwareFinder, Ncu | None]:
    """Return the checked request, and what it needs. Raises what can be refused before anything is run."""
    request, finder = checked(asked), HardwareFinder(asked.spec)
    if request.arch is not None:
        _arch(request.arch)
    _refuse_overwrite(request, also)
    return request, finder, _ncu_for(request)


def _ncu_for(request: ProfileRequest) -> Ncu | None:
    """Return the ncu to take; None where there is none and another tool can time the kernels, which is all it has to.

    Raises EnvironmentProblem where it is needed, or named.
    """
    try:
        return choose_ncu(os.environ, _ncu_named(request))
    except EnvironmentProblem as error:
        if request.ncu is not None or not request.only_times:
            raise
        if _collector(request, None).tools():
            return None
        raise EnvironmentProblem(f"nothing here times the kernels of this program: {error.message}", _TIMERS) from error


def _refuse_overwrite(request: ProfileRequest, also: Sequence[Path]) -> None:
    folder, given = request.place, request.survey_file
    surveys = survey_files(folder) if given is None else []
    profiles = [place for name in COUNTED_FILES for place in as_ncu_may_call(folder / name)]
    inputs = [str(given)] if given is not None else []
    refuse_overwrite([*profiles, *surveys, *logs_to_refuse(folder), *also], inputs, force=request.overwrite)


def _ncu_named(request: ProfileRequest) -> str | None:
    return os.fspath(request.ncu) if request.ncu is not None else None


def _collector(request: ProfileRequest, ncu: Path | None) -> Collector:
    from gpuprof.read.ncu_rep import read_ncu_rep

    return Collector(request, ncu, os.environ, read_ncu_rep, _read_survey)


def _read_survey(path: Path) -> Report | Trace:
    """Read a report of ncu, or a timeline. Raises InputError for anything else."""
    from gpuprof.read.files import read_file

    recorded = read_file(str(path))
    if isinstance(recorded, Session):
        raise InputError(f"{path} is a session and does not list single launches", "name the report it was made from")
    return recorded


def _analysed(collector: Collector, finder: HardwareFinder) -> tuple[Analysis, GpuprofError | None]:
    """Run the program as often as it takes; return what it recorded, and the error by which that is incomplete.

    What a survey has timed is kept where the profile that follows it fails.
    """
    request = collector.request
    if request.selects_launches:
        arch = _arch(request.arch) if request.arch is not None else _arch_here()
        return _analysis(collector.profile(arch, None), finder), collector.ended_early()
    survey = collector.survey()
    surveyed = _survey_analysis(survey, finder)
    if collector.was_stopped():
        # The survey was cut short: its times are all there is.
        return surveyed, collector.ended_early()
    request.on_event(TimelineJudged(_diagnosed(only_timed(surveyed, ONLY_TIMES), request)))
    planned = _plan(collector, survey, finder)
    try:
        analysis, failure = _counted(collector, surveyed, planned, finder)
        return analysis, collector.ended_early() or failure
    except GpuprofError as failure:
        error = collector.ended_early() if collector.was_stopped() else failure
        request.on_event(ProfileRemark(f"{failure.message}; only the times of the survey are known"))
        lacking = Missing("counters", failure.message, failure.hint or _PROFILE_IT)
        return only_timed(surveyed, lacking), error


def _plan(collector: Collector, survey: Survey, finder: HardwareFinder) -> ProfilePlanned:
    """Return what to profile on which chip, after the event of it."""
    request = collector.request
    arch = _arch(request.arch) if request.arch is not None else finder(survey.device).arch
    planned = collector.planned(survey, arch)
    request.on_event(planned)
    return planned


def _counted(
    collector: Collector, surveyed: Analysis, planned: ProfilePlanned, finder: HardwareFinder
) -> tuple[Analysis, GpuprofError | None]:
    """Return the survey with the counters of a plan, and what went wrong after those that are there.

    They come all in one run, or the limits first, and then the answers.
    """
    plan, arch = planned.plan, planned.arch
    if planned.answers is None:
        return joined(_analysis(collector.profile(arch, planned), finder), surveyed), None
    reports, failure = collector.limits(planned), None
    limits = joined(_analysis(reports, finder), surveyed).session
    asked = asked_about(plan, limits, arch, SETS[collector.request.counters])
    if asked.kernels and not collector.was_stopped():
        try:
            reports = with_answers(reports, collector.answers(planned, asked))
        except GpuprofError as error:
            failure, remark = error, f"{error.message}; only the limits of the kernels are known"
            collector.request.on_event(ProfileRemark(remark))
            reports = tuple(structs.replace(report, warnings=(*report.warnings, remark)) for report in reports)
    profiled = with_reasons(_analysis(reports, finder), plan, asked, arch, failure)
    return joined(profiled, surveyed), failure


def _analysis(reports: Sequence[Report], finder: HardwareFinder) -> Analysis:
    return analyse(reports, finder, __version__, one_of_a_kind=True)


def _survey_analysis(survey: Survey, finder: HardwareFinder) -> Analysis:
    traces = [recorded for recorded in survey.recorded if isinstance(recorded, Trace)]
    if not traces:
        return _analysis([report for report in survey.recorded if isinstance(report, Report)], finder)
    analysis = analyse_traces(traces, finder, __version__, whole=True)
    sources = tuple(structs.replace(source, samples=survey.samples) for source in analysis.session.sources)
    return structs.replace(analysis, session=structs.replace(analysis.session, sources=sources))


def _arch(name: str) -> ArchSpec:
    """Return the architecture of that name. Raises UsageError if there is no spec of it."""
    arch = SpecLibrary().arch(name)
    if arch is None:
        raise UsageError(f"no spec for the architecture {name}", "gpuprof specs list shows the known ones")
    return arch


def _arch_here() -> ArchSpec:
    """Return the architecture of this machine's GPUs. Raises EnvironmentProblem if it is not known, or not just one."""
    names = sorted({gpu.arch for gpu in gpus_here(os.environ)})
    if not names:
        raise EnvironmentProblem(
            "nvidia-smi lists no GPU, so the architecture is unknown", "name it with --arch, such as sm_90"
        )
    if len(names) > 1:
        # CUDA numbers GPUs otherwise than nvidia-smi, and the program sees those of CUDA_VISIBLE_DEVICES only.
        raise EnvironmentProblem(f"GPUs of several architectures here: {', '.join(names)}", "choose one with --arch")
    return _arch(names[0])
