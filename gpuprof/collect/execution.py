"""Starts the runs of a program: alone or by ranks, its output shown once, its input read again, the GPUs watched."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpuprof.collect.annotate import MARK_FILE, annotated
from gpuprof.collect.command import NcuCommand, as_ncu_may_call
from gpuprof.collect.events import RunStarted
from gpuprof.collect.files_of_run import PROGRAM_LOG
from gpuprof.collect.frameworks import remark_on, variables_for
from gpuprof.collect.monitor import Monitor
from gpuprof.collect.process import Ended, run
from gpuprof.collect.program_log import program_log
from gpuprof.collect.progress import LaunchLog
from gpuprof.collect.ranks import ALL, RANK, SCRIPT, launcher_of, of_rank, rank_files, script_text
from gpuprof.collect.request import ProfileRequest
from gpuprof.collect.shell import shell_line
from gpuprof.collect.survey_tools import INJECTED, NCU, SurveyCommand
from gpuprof.model.recorded import GpuSamples
from gpuprof.own_files import write_whole

_STDOUT: Mapping[str, int | None] = {"inherit": None, "stderr": 2, "discard": subprocess.DEVNULL}
"""What the program gets as its stdout, by the words of a request."""
_INJECTIONS = ("CUDA_INJECTION64_PATH", "CUDA_INJECTION32_PATH", "NVTX_INJECTION64_PATH", MARK_FILE)


@dataclass(frozen=True, slots=True)
class _Started:
    """A command as it is executed: its arguments, the same as a line, variables, and a script to be written before.

    Variables for the chosen ranks alone are in the script.
    """

    argv: list[str]
    shell: str
    variables: Mapping[str, str]
    script: tuple[Path, str] | None


class Execution:
    """The runs of one request. `plain` is the environment without our annotation, `commands` what was executed.

    `stopped_by` says who ended the last run, as Ended does.
    """

    def __init__(self, request: ProfileRequest, environ: Mapping[str, str], remark: Callable[[str], None]) -> None:
        self.plain = clean_environment(environ)
        for_ncu = variables_for(request.argv, self.plain)
        self.environ = {**(annotated(self.plain) if request.annotate else self.plain), **for_ncu}
        self._first_remark = remark_on(request.argv, for_ncu)
        self.commands: list[str] = []
        self.stopped_by: str | None = None
        self._request, self._remark = request, remark
        self._launcher, self._ranks = launcher_of(request.argv), str(request.ranks)
        self._monitor = Monitor()
        self._stdin = StandardInput()
        self._attempts: dict[Path, int] = {}

    def by_ncu(self, command: NcuCommand, stage: str, planned: int | None) -> Ended:
        """Run a command of ncu, and report its progress."""
        if self._first_remark is not None:
            self._remark(self._first_remark)
            self._first_remark = None
        self._remove_stale(command)
        return self._with_events(command, {**self.environ, **command.variables}, stage, NCU, planned)

    def remove(self, *paths: Path) -> None:
        """Remove what an earlier run has left of files, or of those of its ranks."""
        for path in paths:
            while stale := self.files(path):
                for file in stale.values():
                    file.unlink()

    def _remove_stale(self, command: NcuCommand) -> None:
        """Remove what an earlier run has left; the log of a run of this request that failed stays, as NAME.1.log."""
        self.remove(command.output)
        number = self._attempts.get(command.log, 0)
        for log in self.files(command.log).values():
            if number:
                log.replace(log.with_name(f"{log.stem}.{number}{log.suffix}"))
            else:
                log.unlink()
        self._attempts[command.log] = number + 1

    def by_tool(self, command: SurveyCommand) -> Ended:
        """Run a command of another tool, for a survey."""
        command.prepare()
        return self._with_events(command, self.plain, "survey", command.tool, None)

    def samples(self) -> tuple[GpuSamples, ...]:
        """Return what the GPUs did during the last run."""
        return self._monitor.summary()

    def files(self, path: Path) -> dict[int | None, Path]:
        """Return what is there of a file that a run writes, or of those that its ranks write instead, by rank."""
        files: dict[int | None, Path] = {}
        for written in as_ncu_may_call(path):
            alone = {None: written} if os.path.lexists(written) else {}
            there = rank_files(written) if self._launcher is not None else alone
            files.update((rank, file) for rank, file in there.items() if rank not in files)
        return files

    def _first(self, path: Path) -> Path:
        if self._launcher is None:
            return path
        return of_rank(path, "0" if self._ranks == ALL else self._ranks)

    def _with_events(
        self,
        command: NcuCommand | SurveyCommand,
        environ: Mapping[str, str],
        stage: str,
        by: str,
        planned: int | None,
    ) -> Ended:
        """Run a command between the events of its start and its end."""
        on_event = self._request.on_event
        on_event(RunStarted(number=len(self.commands) + 1, stage=stage, by=by, planned=planned))
        log = LaunchLog(stage, self._first(command.log) if isinstance(command, NcuCommand) else None, planned, on_event)
        ended = self._run(command, environ, log.tick)
        log.end(ended.stopped_by)
        return ended

    def _run(self, command: NcuCommand | SurveyCommand, environ: Mapping[str, str], tick: Callable[[], None]) -> Ended:
        """Run a command. What the program prints is shown once; of the runs after the first it is kept in a log."""
        kept, again = self._request.place / PROGRAM_LOG, bool(self.commands)
        if again:
            self._rewind_stdin()
        else:
            kept.unlink(missing_ok=True)
        started = self._started(command)
        if self._request.stop():
            self.stopped_by = "interrupt"
            return Ended(code=0, tail="", seconds=0.0, stopped_by=self.stopped_by)
        if started.script is not None:
            place, text = started.script
            write_whole(place, text.encode("utf-8", "surrogateescape"), mode=0o755)
        self.commands.append(started.shell)
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(program_log(kept)) if again else None
            to = self._request.output
            stack.enter_context(self._monitor.watching())
            ended = run(
                started.argv,
                environ={**environ, **started.variables},
                stdout=_STDOUT[to] if isinstance(to, str) else None,
                write=to if callable(to) and log is None else None,
                keep=log.write if log is not None else None,
                timeout_s=self._request.timeout_s,
                quiet=again or to == "discard",
                tick=tick,
                stop=self._request.stop,
            )
        self.stopped_by = ended.stopped_by
        return ended

    def lines(self, command: NcuCommand | SurveyCommand) -> Iterator[str]:
        """Yield a command as lines for a shell; those of ranks begin with writing the script that starts each."""
        started = self._started(command)
        if started.script is not None:
            place, text = started.script
            yield f"{shell_line(['printf', '%s', text])} >{shell_line([str(place)])}"
            yield shell_line(["chmod", "+x", str(place)])
        yield started.shell

    def _started(self, command: NcuCommand | SurveyCommand) -> _Started:
        """Return how a command is started; ranks start by a script of ours."""
        if self._launcher is None or (isinstance(command, SurveyCommand) and command.tool not in INJECTED):
            own = command.variables if isinstance(command, SurveyCommand) else {}
            return _Started(argv=command.argv(), shell=command.shell(), variables=own, script=None)
        place = (self._request.place / SCRIPT).absolute()
        argv, variables = self._launcher.start(place)
        settings = [f"{name}={value}" for name, value in variables.items()]
        shell = shell_line([*(["env", *settings] if settings else []), *argv])
        return _Started(argv=argv, shell=shell, variables=variables, script=(place, self._rank_script(command)))

    def _rank_script(self, command: NcuCommand | SurveyCommand) -> str:
        """Return the script that runs a rank under ncu, or so that PyTorch records it."""
        assert self._launcher is not None
        python, ranks = self._launcher.python, self._ranks
        if isinstance(command, SurveyCommand):
            return script_text((), ranks, python, command.variables)
        output, log = (of_rank(path.absolute(), RANK) for path in (command.output, command.log))
        profiler = replace(command, program=(), output=output, log=log).argv()
        return script_text(profiler, ranks, python, command.variables)

    def _rewind_stdin(self) -> None:
        """Let the program read a file on standard input again from where it was; a pipe can be read only once."""
        if not self._stdin.rewind() and _stdin_is_pipe():
            self._remark("standard input is a pipe, so only the first run of the program could read it")


class StandardInput:
    """The place in standard input, so that each of several runs can read it from there."""

    def __init__(self) -> None:
        self._offset = _stdin_offset()

    def rewind(self) -> bool:
        """Put a file back to where it was; return whether it is one."""
        if self._offset is None:
            return False
        with contextlib.suppress(OSError):
            os.lseek(0, self._offset, os.SEEK_SET)
        return True


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program: without another tool's injection, which ncu refuses, or marks of a run."""
    return {name: value for name, value in environ.items() if name not in _INJECTIONS}


def _stdin_offset() -> int | None:
    """Return the place in standard input; None where it cannot be read twice."""
    try:
        return os.lseek(0, 0, os.SEEK_CUR) if stat.S_ISREG(os.fstat(0).st_mode) else None
    except OSError:
        return None


def _stdin_is_pipe() -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        return False
