"""A run under ncu to its report: what goes wrong is put right once where a remedy exists, else it is an error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import structs

from gpuprof.collect.command import NcuCommand, as_ncu_may_call
from gpuprof.collect.commands import with_remedy
from gpuprof.collect.execution import Execution
from gpuprof.collect.failures import NcuFailure, failures_in, failures_of, unknown_failure
from gpuprof.collect.process import Ended
from gpuprof.collect.shell import shell_line
from gpuprof.errors import DamagedInput, GpuprofError, Interrupted, ProgramFailed
from gpuprof.model.recorded import Report
from gpuprof.own_files import read_plain


class ReadReport(Protocol):
    """Reads a report of ncu, as `read_ncu_rep` does."""

    def __call__(self, path: Path, *, salvage: bool = False) -> Report:
        """Return the report; with `salvage` what could be read of one that is cut. Raises InputError."""
        ...


STOPPED = {
    "timeout": "--timeout reached: the program was ended",
    "interrupt": "interrupted: the program was ended",
}
SURVEY = "survey"
"""The stage that times all kernels."""
_PATIENCE_S = 30.0
_PROFILE_AGAIN = "profile the program again"
_TIMES_ALONE = (
    "times alone take no permission: with Nsight Systems (nsys) installed, or cupti-python for Python, type "
    "gpuprof run --set times"
)
_REMEDY_WORDS = {
    "application-replay": "with application replay, which runs the program once per pass",
    "without-metrics": "without them; they are marked as missing",
    "whole-graphs": "with whole graphs as one launch",
}


class NcuRun(NamedTuple):
    """What a run under ncu has left: its reports by rank (None without ranks), how it ended, what failed meanwhile.

    `error` says so if ncu did not come to a good end, or a report is cut, although there are reports.
    """

    reports: Mapping[int | None, Report]
    ended: Ended
    failures: tuple[NcuFailure, ...]
    error: GpuprofError | None = None


class NcuRuns:
    """Runs commands of ncu with an execution; `read` reads what they write, `remark` tells the user of remedies."""

    def __init__(self, execution: Execution, read: ReadReport, remark: Callable[[str], None]) -> None:
        self._execution, self._read, self._remark = execution, read, remark
        self._damage: DamagedInput | None = None

    def run(self, stage: str, command: NcuCommand, planned: int | None, *, may_be_empty: bool = False) -> NcuRun:
        """Run a command, with the remedies that its failures allow. Raises what remains of the failures.

        With `may_be_empty` there may be no report where nothing went wrong but that no kernel was profiled.
        A remedy is tried if it leads to a command that was not tried: metrics are left out until none is refused.
        """
        tried: list[NcuCommand] = []
        while True:
            tried.append(command)
            self._damage = None
            ended = self._execution.by_ncu(command, stage, planned)
            failures = _of_others(failures_of(self._log_text(command), ended.tail), command, ended)
            reports = self._recorded(command.output)
            if reports:
                return NcuRun(reports, ended, failures, self._shortfall(command, ended, failures))
            if may_be_empty and ended.stopped_by is None and [first.cause for first in failures[:1]] == ["no-kernels"]:
                return NcuRun({}, ended, failures)
            remedy, changed = _remedy(failures, command, tried) if ended.stopped_by is None else (None, command)
            if remedy is None:
                raise self._error(stage, command, ended, failures)
            command = changed
            self._remark(f"{remedy.what}: trying again {_REMEDY_WORDS[remedy.remedy or '']}")

    def _log_text(self, command: NcuCommand) -> str:
        return "\n".join(map(_text, self._execution.files(command.log).values()))

    def _recorded(self, output: Path) -> dict[int | None, Report]:
        """Return the reports that ncu wrote, by rank, if they hold a launch; what cannot be read is set aside."""
        reports = {}
        for rank, file in self._execution.files(output).items():
            try:
                report = self._read_what_is_there(file)
            except DamagedInput as error:
                self._remark(set_aside(file, error))
                self._damage = DamagedInput(error.message, _PROFILE_AGAIN)
                continue
            if any(True for _ in report):
                reports[rank] = structs.replace(report, rank=rank)
        return reports

    def _read_what_is_there(self, file: Path) -> Report:
        """Read a report; one that was cut, as by a crash, keeps the launches that are whole, and says so."""
        try:
            return self._read(file)
        except DamagedInput as error:
            report = self._read(file, salvage=True)
            self._damage = DamagedInput(error.message, _PROFILE_AGAIN)
            return report

    def _error(self, stage: str, command: NcuCommand, ended: Ended, failures: tuple[NcuFailure, ...]) -> GpuprofError:
        if ended.stopped_by is not None:
            return stopped_error(ended.stopped_by)
        if self._damage is not None and all(failure.note or failure.cause == "stopped" for failure in failures):
            return self._damage
        first = self._first(command, ended, failures or self._refusal(command))
        if stage == SURVEY and first.cause == "permission":
            first = replace(first, hint=f"{_TIMES_ALONE}; for counters {first.hint}")
        return _with_ranges(first, command.filters.ranges).error(self._log_with_text(command))

    def _shortfall(self, command: NcuCommand, ended: Ended, failures: tuple[NcuFailure, ...]) -> GpuprofError | None:
        """Return by what error a run is not whole although it left reports; None if it was ended by us, or as asked."""
        if command.kill or ended.stopped_by is not None:
            return None
        if ended.code == 0:
            return self._damage
        serious = tuple(failure for failure in failures if not failure.note)
        return self._first(command, ended, serious).error(self._log_with_text(command))

    def _first(self, command: NcuCommand, ended: Ended, failures: tuple[NcuFailure, ...]) -> NcuFailure:
        return failures[0] if failures else unknown_failure(self._log_text(command), ended.tail, ended.code)

    def _log_with_text(self, command: NcuCommand) -> str | None:
        return next(map(str, self._execution.files(command.log).values())) if self._log_text(command) else None

    def _refusal(self, command: NcuCommand) -> tuple[NcuFailure, ...]:
        """Return what ncu has against the options, which it prints among the program's output: ask it with another."""
        output, log = command.output.with_suffix(".tmp.ncu-rep"), command.log.with_suffix(".tmp.log")
        asked = replace(command, program=("true",), output=output, log=log)
        try:
            completed = subprocess.run(
                asked.argv(), env=self._execution.environ, capture_output=True, timeout=_PATIENCE_S, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return ()
        finally:
            for left in (*as_ncu_may_call(output), log):
                left.unlink(missing_ok=True)
        failures = failures_in((completed.stdout + completed.stderr).decode(errors="replace"))
        return tuple(failure for failure in failures if failure.cause == "options")


def _with_ranges(failure: NcuFailure, ranges: Sequence[str]) -> NcuFailure:
    """Say of a range that has no kernel how ncu wants it written: a name alone is one that is started and ended.

    One that is pushed has what its own thread launches: https://github.com/meta-pytorch/tritonbench/issues/87.
    """
    if failure.cause != "no-kernels" or not ranges:
        return failure
    alone = next((item for item in ranges if not set("/[]") & set(item)), None)
    if alone is not None:
        pushed = shell_line(("--range", f"{alone}/"))
        hint = f"a range that is pushed and popped, as Python's are, is {pushed}; else {failure.hint}"
    else:
        hint = f"{failure.hint}; a pushed range has what its own thread launches, a backward pass is of another"
    return replace(failure, hint=hint)


def stopped_error(by: str) -> GpuprofError:
    """Return the error of a run that was ended before anything was recorded."""
    kind = Interrupted if by == "interrupt" else ProgramFailed
    return kind(STOPPED[by], "nothing was recorded in this run")


def set_aside(file: Path, error: DamagedInput) -> str:
    """Rename what cannot be read, so that it is not taken for a result and is not lost; return what to say of it."""
    names = (f"{file.name}.unread", *(f"{file.name}.{number}.unread" for number in range(2, 1000)))
    kept = next(place for name in names if not os.path.lexists(place := file.with_name(name)))
    file.replace(kept)
    return f"{error.message}; it is kept as {kept.name}"


def _of_others(failures: tuple[NcuFailure, ...], command: NcuCommand, ended: Ended) -> tuple[NcuFailure, ...]:
    """Leave out that the program was ended, if it was by us, or by ncu as we had asked."""
    ours = {"stopped", "program-failed"} if ended.stopped_by is not None else {"stopped"} if command.kill else set()
    return tuple(failure for failure in failures if failure.cause not in ours)


def _remedy(
    failures: tuple[NcuFailure, ...], command: NcuCommand, tried: Sequence[NcuCommand]
) -> tuple[NcuFailure | None, NcuCommand]:
    """Return the first failure whose remedy leads to a command that was not tried yet, and that command.

    A note is put right only if nothing else is said before it.
    """
    for failure in (*failures[:1], *(later for later in failures[1:] if not later.note)):
        if failure.remedy is not None and (changed := with_remedy(command, failure)) not in tried:
            return failure, changed
    return None, command


def _text(path: Path) -> str:
    try:
        return read_plain(path).decode(errors="replace")
    except OSError:
        return ""
