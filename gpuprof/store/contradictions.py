"""What the parts of a session say of one another: whatever the contract's types cannot tell is refused here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.errors import DamagedInput
from gpuprof.hardware.specs import PATHS
from gpuprof.model.field_types import Word
from gpuprof.model.profiler_lines import may_be_copied
from gpuprof.model.session import KernelProfile, LaunchCount, RunTotals, RunVerdict, Session, Timeline
from gpuprof.model.timed import TimedKernel

_MOST_WARNINGS = 10_000
"""Maximum for all sources together; each warning is printed."""
_PROFILERS = (["ncu"], ["nv-nsight-cu-cli"], ["gpuprof"])


class NamedFinding(Struct, frozen=True):
    """A finding, as far as others refer to it."""

    id: Word = ""
    cause: Word | None = None


class ReferredKernel(TimedKernel, frozen=True, kw_only=True):
    """A kernel, as far as its group, the verdict and recommendations need it."""

    findings: tuple[NamedFinding, ...]


Referred = KernelProfile | ReferredKernel


def refuse_contradictions(session: Session, kernels: Sequence[Referred], file: str) -> None:
    """Raise DamagedInput where a session, whose kernels are these, refers to what is not there or contradicts itself.

    What a kernel did is looked at by `refuse_contradicting_work`.
    """
    warnings = sum(len(source.warnings) for source in session.sources)
    if warnings > _MOST_WARNINGS:
        raise DamagedInput(f"{file} is damaged: it has {warnings:,} warnings, and {_MOST_WARNINGS:,} are read")
    _check_references(session, kernels, file)
    _check_judged(session, kernels, file)
    if session.run is not None:
        _check_run(session.run, kernels, file)


def without_foreign_command(session: Session) -> Session:
    """Return the session without its command unless that is safe to copy: its author may be a stranger."""
    verdict = session.verdict
    if verdict is None or verdict.command is None or may_be_copied(verdict.command):
        return session
    return replace(session, verdict=replace(verdict, command=None))


def refuse_contradicting_work(kernel: KernelProfile, file: str) -> None:
    """Raise DamagedInput if counts or lines of a kernel contradict each other, or a finding says nothing."""
    _check_paths((point.path for point in kernel.roofline), f"kernel {kernel.id}", file)
    if not all(finding.headline for finding in kernel.findings):
        raise DamagedInput(f"{file} is damaged: a finding of kernel {kernel.id} has no headline")
    refuse_contradicting_counts(kernel.id, kernel.counts, file)
    if kernel.lines_dropped < 0:
        raise DamagedInput(f"{file} is damaged: kernel {kernel.id} has fewer than no lines left out")


def refuse_contradicting_counts(kernel: int, counts: Sequence[LaunchCount], file: str) -> None:
    """Raise DamagedInput where counts of the kernel of that number contradict each other."""
    if len({count.name for count in counts}) < len(counts):
        raise DamagedInput(f"{file} is damaged: kernel {kernel} has two counts of one name")
    if not all(count.low <= count.value <= count.high for count in counts):
        raise DamagedInput(f"{file} is damaged: kernel {kernel} has a count outside of its least and most")


def _check_paths(paths: Iterable[str], of: str, file: str) -> None:
    unknown = next((path for path in paths if path not in PATHS), None)
    if unknown is not None:
        raise DamagedInput(f"{file} is damaged: {of} has the unknown compute path {unknown!r:.40}")


def _check_references(session: Session, kernels: Sequence[Referred], file: str) -> None:
    _check_paths((item.path for item in session.ceilings if item.path is not None), "a ceiling", file)
    if session.timeline is not None:
        _check_timeline(session.timeline, len(session.sources), file)
    numbers: set[int] = set()
    for kernel in kernels:
        if not 0 <= kernel.device < len(session.devices) or not 0 <= kernel.source < len(session.sources):
            raise DamagedInput(f"{file} is damaged: kernel {kernel.id} names a device or source that does not exist")
        if kernel.id in numbers:
            raise DamagedInput(f"{file} is damaged: two kernels have the number {kernel.id}")
        numbers.add(kernel.id)
        _check_times(kernel, file)


def _check_times(kernel: Referred, file: str) -> None:
    """Refuse launches of a kernel that contradict each other."""
    times = kernel.launch_times
    fault = None
    if times is not None and (times.dropped < 0 or len(times.durations_s) + times.dropped > kernel.launches):
        fault = "lists other launches than it has"
    elif times is not None and len(times.sm_clocks_hz) not in (0, len(times.durations_s)):
        fault = "has clocks of other launches than durations"
    if fault is not None:
        raise DamagedInput(f"{file} is damaged: kernel {kernel.id} {fault}")


def _check_timeline(timeline: Timeline, sources: int, file: str) -> None:
    """Refuse a timeline of files that are not there, or drawn of bins that do not go together."""
    for device in timeline.devices:
        bins = {len(row.busy) for row in device.strip.rows} if device.strip is not None else set()
        if len(bins) > 1 or 0 in bins:
            raise DamagedInput(f"{file} is damaged: the rows of its timeline have no bins, or unlike numbers of them")
    named = {device.source for device in timeline.devices} | {step.source for step in timeline.steps}
    named |= {flop.source for flop in timeline.model_flop}
    for source in named | {wait.source for wait in timeline.waits}:
        if not 0 <= source < sources:
            raise DamagedInput(f"{file} is damaged: its timeline names source {source}, which does not exist")


def _check_judged(session: Session, all_kernels: Sequence[Referred], file: str) -> None:
    """Refuse causes, recommendations and a verdict that name findings or kernels which are not there."""
    kernels = _kernels_of_findings(all_kernels, file)
    numbers = {kernel.id for kernel in all_kernels}
    if session.verdict is not None:
        _check_verdict(session.verdict, numbers, file)
    names: set[str] = set()
    for item in session.recommendations:
        lost = next((name for name in item.findings if name not in kernels), None)
        if lost is not None or not item.findings:
            what = "no finding" if lost is None else f"finding {lost}, which does not exist"
            raise DamagedInput(f"{file} is damaged: its recommendation {item.id} names {what}")
        if set(item.kernels) != {kernels[name] for name in item.findings}:
            raise DamagedInput(f"{file} is damaged: its recommendation {item.id} and its findings name unlike kernels")
        if item.id in names:
            raise DamagedInput(f"{file} is damaged: two recommendations have the id {item.id}")
        names.add(item.id)


def _check_verdict(verdict: RunVerdict, kernels: set[int], file: str) -> None:
    """Refuse a verdict on a kernel that is not there, or with a command to be copied that is none of gpuprof's."""
    if verdict.kernel not in {None, *kernels}:
        raise DamagedInput(f"{file} is damaged: its verdict names kernel {verdict.kernel}, which does not exist")
    if verdict.kernel is not None and not verdict.sentence:
        raise DamagedInput(f"{file} is damaged: its verdict has no sentence")
    if verdict.command is not None and not _runs_a_profiler(verdict.command):
        raise DamagedInput(f"{file} is damaged: the command in its verdict does not run a profiler")


def _runs_a_profiler(command: str) -> bool:
    """Tell whether a command line is as gpuprof writes it: one command, quoted so that a shell runs nothing else."""
    try:
        arguments = shlex.split(command)
    except ValueError:
        return False
    return arguments[:1] in _PROFILERS and command.isprintable() and shlex.join(arguments) == command


def _kernels_of_findings(all_kernels: Sequence[Referred], file: str) -> dict[str, int]:
    """Return the number of each finding's kernel by the finding's id."""
    kernels: dict[str, int] = {}
    for kernel in all_kernels:
        for finding in kernel.findings:
            if not finding.id:
                raise DamagedInput(f"{file} is damaged: a finding of kernel {kernel.id} has no id")
            if finding.id in kernels:
                raise DamagedInput(f"{file} is damaged: two findings have the id {finding.id}")
            kernels[finding.id] = kernel.id
        for finding in kernel.findings:
            if finding.cause is not None and (kernels.get(finding.cause) != kernel.id or finding.cause == finding.id):
                raise DamagedInput(f"{file} is damaged: kernel {kernel.id} lacks the finding {finding.cause}, a cause")
    return kernels


def _check_run(run: RunTotals, kernels: Sequence[Referred], file: str) -> None:
    """Refuse totals of a run that contradict each other, or that are less than the kernels of the session."""
    launches = sum(kernel.launches for kernel in kernels)
    shapes = run.kernels <= run.timed_shapes <= run.timed_launches
    counts = 0 <= run.main_kernels <= run.kernels and shapes and run.timed_launches <= run.launches >= launches
    if not counts or run.main_time_s > run.time_s or (run.time_s > 0) != (run.main_kernels > 0):
        raise DamagedInput(f"{file} is damaged: the totals of its run contradict each other or its kernels")
