"""Profiles a program: survey, plan, collection, each a run of it under ncu, and what goes wrong put right once."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from gpuprof.collect.annotate import annotated
from gpuprof.collect.command import Filters, NcuCommand
from gpuprof.collect.counter_sets import DEFAULT, SETS, SHARED, TIME, metrics_of
from gpuprof.collect.failures import Failure, failures_in, failures_of, unknown_failure
from gpuprof.collect.monitor import Monitor
from gpuprof.collect.plan import COVERAGE, Plan, make_plan, not_seen_again
from gpuprof.collect.process import Ended, run
from gpuprof.collect.progress import Progress
from gpuprof.collect.survey import seen_in
from gpuprof.errors import DamagedInput, GpuprofError, Interrupted, ProgramFailed, UsageError
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.report import Report
from gpuprof.model.surveyed import was_throttled

SURVEY_FILE, PROFILE_FILE = "survey.ncu-rep", "profile.ncu-rep"
SURVEY_LOG, PROFILE_LOG = "survey.log", "profile.log"
PROGRAM_LOG = "program.log"

_MOST_REMEDIES = 3
_PATIENCE_S = 30.0
_STDERR = 2


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. `program` is a command and its words; `folder` takes all that is written."""

    program: tuple[str, ...]
    folder: Path
    counters: str = DEFAULT
    coverage: float = COVERAGE
    samples: int = 1
    kernel: str | None = None
    ranges: tuple[str, ...] = ()
    launch_skip: int = 0
    launch_count: int | None = None
    peers: bool = False
    survey: Path | None = None
    clock_control: str = "none"
    cache_control: str = "all"
    replay_mode: str = "kernel"
    targets: str = "all"
    graphs: str = "node"
    timeout_s: float | None = None
    annotate: bool = True
    program_to_stderr: bool = False

    @property
    def selects_launches(self) -> bool:
        """Tell whether the user has chosen launches by number, so that no survey is needed."""
        return self.launch_skip > 0 or self.launch_count is not None


@dataclass
class Collected:
    """How a run went: the commands as executed, remarks for the user, and how program and run ended."""

    commands: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    program_code: int | None = None
    stopped_by: str | None = None


ReadReport = Callable[[Path], Report]


class Collector:
    """Runs one request. `ncu` is the executable; `read` reads what it wrote, `read_survey` what the user gave."""

    def __init__(
        self,
        request: Request,
        ncu: Path,
        environ: Mapping[str, str],
        read: ReadReport,
        read_survey: ReadReport,
        tell: Callable[[str], None],
    ) -> None:
        self.request, self.ncu = request, ncu
        self._environ = clean_environment(environ)
        if request.annotate:
            self._environ = annotated(self._environ)
        self._read, self._read_survey, self._tell = read, read_survey, tell
        self._monitor = Monitor()
        self._stdin = _stdin_offset()
        self.result = Collected()

    def why_incomplete(self) -> str | None:
        """Return why the program did not come to a good end; None if it did."""
        if self.result.stopped_by is not None:
            return _STOPPED[self.result.stopped_by]
        code = self.result.program_code
        return f"the program ended with code {code}" if code else None

    def was_stopped(self) -> bool:
        """Tell whether the last run was ended by the user or by --timeout."""
        return self.result.stopped_by is not None

    def survey_command(self) -> NcuCommand:
        """Return the first run: every launch with its time and nothing else, in one pass, caches left alone."""
        wanted = self.request
        return self._command(
            SURVEY_FILE,
            SURVEY_LOG,
            metrics=(TIME, *SHARED),
            filters=Filters(ranges=wanted.ranges),
            cache_control="none",
        )

    def profile_command(self, arch: ArchSpec, plan: Plan | None) -> NcuCommand:
        """Return the second run: the counters of the set, for the launches of the plan, else those asked for."""
        wanted = self.request
        if plan is not None:
            filters = replace(plan.filters(), ranges=wanted.ranges)
        else:
            filters = Filters(wanted.kernel, None, wanted.launch_skip, wanted.launch_count, wanted.ranges)
        chosen = SETS[wanted.counters]
        return self._command(
            PROFILE_FILE,
            PROFILE_LOG,
            metrics=metrics_of(arch, wanted.counters),
            filters=filters,
            cache_control=wanted.cache_control,
            replay_mode=wanted.replay_mode,
            sections=chosen.sections,
            stock_set=chosen.stock_set,
            source=chosen.source,
            kill=plan is None and wanted.launch_count is not None,
        )

    def _command(self, output: str, log: str, **options: object) -> NcuCommand:
        wanted = self.request
        command = NcuCommand(
            ncu=self.ncu,
            program=wanted.program,
            output=wanted.folder / output,
            log=wanted.folder / log,
            metrics=(),
            clock_control=wanted.clock_control,
            targets=wanted.targets,
            graphs=wanted.graphs,
        )
        return replace(command, **options)  # type: ignore[arg-type]

    def survey(self) -> Report:
        """Run the program once to see which kernels matter, or read the survey that the user gave."""
        if self.request.survey is not None:
            return self._read_survey(self.request.survey)
        return self._run("survey", self.survey_command(), None)

    def plan(self, survey: Report) -> Plan:
        """Choose what to profile."""
        wanted = self.request
        pattern = re.compile(wanted.kernel) if wanted.kernel is not None else None
        plan = make_plan(
            seen_in(survey), coverage=wanted.coverage, samples=wanted.samples, pattern=pattern, peers=wanted.peers
        )
        if not plan.kernels:
            if plan.peers:
                raise UsageError("every kernel of the survey waits for another rank", "--peers profiles these too")
            raise UsageError(f"no kernel of the survey matches --kernel {wanted.kernel!r}", "gpuprof show lists them")
        return plan

    def profile(self, arch: ArchSpec, plan: Plan | None) -> Report:
        """Run the program again and collect the counters of the chosen launches."""
        report = self._run("profile", self.profile_command(arch, plan), plan)
        lost = not_seen_again(plan, seen_in(report)) if plan is not None else ()
        if lost:
            names = ", ".join(sorted({kernel.demangled for kernel in lost}))
            self._remark(f"planned, but not launched again: {names}")
            report = replace(report, warnings=(*report.warnings, self.result.remarks[-1]))
        return report

    def _run(self, stage: str, command: NcuCommand, plan: Plan | None) -> Report:
        """Run a command, with the remedies that its failures allow, each once. Raises what remains of them."""
        tried: set[str] = set()
        while True:
            progress = Progress(stage, command.log, plan.profiled if plan is not None else None)
            ended = self._execute(command, progress, again=bool(self.result.commands))
            failures = failures_of(_text(command.log), ended.tail)
            report = self._recorded(command.output)
            if report is not None:
                return self._outcome(report, command, ended, failures)
            remedy = _remedy(failures, tried)
            if remedy is None or ended.stopped_by is not None or len(tried) >= _MOST_REMEDIES:
                raise self._error(command, ended, failures)
            tried.add(remedy.cause)
            command = with_remedy(command, remedy)
            self._remark(f"{remedy.what}: trying again {_REMEDY_WORDS[remedy.remedy or '']}")

    def _execute(self, command: NcuCommand, progress: Progress, *, again: bool) -> Ended:
        kept = self.request.folder / PROGRAM_LOG
        for stale in (command.output, command.log, *(() if again else (kept,))):
            stale.unlink(missing_ok=True)
        if again:
            self._rewind_stdin()
        self.result.commands.append(command.shell())
        with contextlib.ExitStack() as stack:
            # What the program prints is shown once; of the runs after the first it is kept beside the reports.
            out: IO[bytes] | int | None = _STDERR if self.request.program_to_stderr else None
            if again:
                out = stack.enter_context(kept.open("ab"))
            stack.enter_context(self._monitor.watching())
            ended = run(
                command.argv(),
                environ=self._environ,
                stdout=out,
                timeout_s=self.request.timeout_s,
                quiet=again,
                tick=progress.tick,
            )
        progress.finish()
        return ended

    def _rewind_stdin(self) -> None:
        """Let the program read a file on standard input again from where it was; a pipe can be read only once."""
        if self._stdin is not None:
            with contextlib.suppress(OSError):
                os.lseek(0, self._stdin, os.SEEK_SET)
        elif _stdin_is_pipe():
            self._remark("standard input is a pipe: only the first run of the program could read it")

    def _outcome(self, report: Report, command: NcuCommand, ended: Ended, failures: tuple[Failure, ...]) -> Report:
        """Return what was recorded, with what went wrong meanwhile."""
        self.result.stopped_by = ended.stopped_by
        if ended.stopped_by is not None:
            self._remark(_STOPPED[ended.stopped_by])
        told = tuple(failure.what for failure in failures if failure.cause != "no-kernels")
        for text in told:
            self._remark(text)
        codes = [failure.code for failure in failures if failure.code is not None]
        self.result.program_code = codes[0] if codes else self.result.program_code
        samples = self._monitor.summary()
        if was_throttled(samples):
            self._remark("the GPU was throttled: times are those of lowered clocks")
            told = (*told, self.result.remarks[-1])
        return replace(report, command=command.shell(), warnings=(*report.warnings, *told), samples=samples)

    def _recorded(self, output: Path) -> Report | None:
        """Return the report if ncu wrote one that can be read and holds a launch; else remove what is left of it."""
        if not output.exists():
            return None
        try:
            report = self._read(output)
        except DamagedInput:
            output.unlink()
            return None
        return report if any(True for _ in report) else None

    def _error(self, command: NcuCommand, ended: Ended, failures: tuple[Failure, ...]) -> GpuprofError:
        self.result.stopped_by = ended.stopped_by
        log = str(command.log) if _text(command.log) else None
        if ended.stopped_by is not None:
            kind = Interrupted if ended.stopped_by == "interrupt" else ProgramFailed
            return kind(_STOPPED[ended.stopped_by], "nothing was recorded of this run")
        told = failures or self._refusal(command)
        first = told[0] if told else unknown_failure(_text(command.log) + ended.tail, ended.code)
        return first.error(log)

    def _refusal(self, command: NcuCommand) -> tuple[Failure, ...]:
        """Return what ncu has against the options, which it prints among the program's output: ask it with another."""
        asked = replace(command, program=("true",), output=command.output.with_suffix(".tmp.ncu-rep"))
        try:
            done = subprocess.run(
                asked.argv(), env=self._environ, capture_output=True, timeout=_PATIENCE_S, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ()
        finally:
            asked.output.unlink(missing_ok=True)
        found = failures_in((done.stdout + done.stderr).decode(errors="replace"))
        return tuple(failure for failure in found if failure.cause == "options")

    def _remark(self, text: str) -> None:
        self.result.remarks.append(text)
        self._tell(text)


_REMEDY_WORDS = {
    "application-replay": "with application replay, which runs the program once a pass",
    "without-metrics": "without them; they are marked as missing",
    "whole-graphs": "with whole graphs as one launch",
}
_STOPPED = {
    "timeout": "the time allowed by --timeout was up: the program was ended",
    "interrupt": "interrupted: the program was ended",
}


def with_remedy(command: NcuCommand, failure: Failure) -> NcuCommand:
    """Return the command with what a failure allows to be changed."""
    if failure.remedy == "application-replay":
        return replace(command, replay_mode="application")
    if failure.remedy == "whole-graphs":
        return replace(command, graphs="graph", replay_mode="kernel", source=False)
    refused = set(failure.metrics)
    return replace(command, metrics=tuple(name for name in command.metrics if name not in refused))


def _remedy(failures: tuple[Failure, ...], tried: set[str]) -> Failure | None:
    return next((one for one in failures if one.remedy is not None and one.cause not in tried), None)


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program under ncu: without another tool's injection, which ncu refuses."""
    return {name: value for name, value in environ.items() if name not in _INJECTIONS}


_INJECTIONS = ("CUDA_INJECTION64_PATH", "CUDA_INJECTION32_PATH", "NVTX_INJECTION64_PATH")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _stdin_offset() -> int | None:
    """Return where standard input stands; None where it cannot be read twice."""
    try:
        return os.lseek(0, 0, os.SEEK_CUR) if stat.S_ISREG(os.fstat(0).st_mode) else None
    except OSError:
        return None


def _stdin_is_pipe() -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        return False
