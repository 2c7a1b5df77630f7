"""Measure two programs on this GPU in turns: each is profiled once, then both are timed until verdicts are clear."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from gpuprof.collect.choices import SESSION_FILE
from gpuprof.collect.events import ProfileEvent, RunEnded, RunStarted, unheard
from gpuprof.collect.execution import StandardInput
from gpuprof.collect.files_of_run import PROGRAM_LOG
from gpuprof.collect.folder import taken
from gpuprof.collect.overwrite import refuse_overwrite
from gpuprof.collect.program_log import ProgramLog, program_log
from gpuprof.collect.request import ProfileRequest
from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import SideName
from gpuprof.comparison.sequential_test import (
    InterimCheck,
    Progress,
    StableVerdict,
    WatchedKernel,
    interim_check,
    side_of_turn,
    stable_verdicts,
    watched_kernels,
)
from gpuprof.comparison.sides import Run
from gpuprof.errors import EnvironmentProblem, GpuprofError, Interrupted, UsageError
from gpuprof.model.session import Session
from gpuprof.own_files import make_folder, refuse_linked
from gpuprof.pipeline import ProfileOutcome, profiled, survey_tools, timed

PAGE_FILE = "report.html"
SAMPLES = "samples"
_LAST = "last"
"""The folder of the timed run that is going on, or was the last one: reports of a thousand runs would fill a disk."""
BUDGET_S = 300.0


class SideStarted(NamedTuple):
    """A side is profiled."""

    side: SideName
    program: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerdictsChecked:
    """The verdicts were checked after so many rounds; `kernels` are those that decide, `left_s` is of the budget."""

    rounds: int
    kernels: int
    left_s: float
    check: InterimCheck


TellMeasuring = Callable[[SideStarted | VerdictsChecked], object]


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """Two programs, and the folder of all results. The folders of the requests are not used: they are in `folder`.

    `compare` compares the runs so far. `keep` writes a session and, of a profile, its page.
    """

    base: ProfileRequest
    new: ProfileRequest
    folder: Path
    compare: Callable[[Sequence[Run], Sequence[Run]], Compared]
    keep: Callable[[Session, Path, Path | None], object]
    budget_s: float = BUDGET_S
    tell: TellMeasuring = field(default=lambda _: None)
    clock: Callable[[], float] = time.monotonic

    def of(self, side: SideName) -> ProfileRequest:
        """Return the request for the profile of a side, in its folder."""
        request = self.base if side == "base" else self.new
        return replace(request, folder=self.folder / side)

    def files(self, side: SideName) -> tuple[Path, Path]:
        """Return the session of a side's profile, and its page."""
        return self.folder / side / SESSION_FILE, self.folder / side / PAGE_FILE

    def sample(self, side: SideName, number: int) -> Path:
        """Return the session of a run of a side, counted from 1, its profile being the first."""
        return self.folder / SAMPLES / f"{side}-{number:02d}.{SESSION_FILE}"


@dataclass(frozen=True, slots=True)
class RunsTaken:
    """The sessions of both sides, the profiles first; the last check, and the error that ended measuring if one did."""

    base: tuple[Path, ...]
    new: tuple[Path, ...]
    check: InterimCheck | None
    error: GpuprofError | None


def measured(request: MeasureRequest) -> RunsTaken:
    """Profile both programs, then time them in turns until the verdicts on time are clear or the budget is over.

    Everything is refused before anything is run that can be. Once both sides have a session, what goes wrong, and
    Ctrl-C, ends measuring, and what there is counts. Raises a GpuprofError before that, as `profiled` does.
    """
    tools = _common_tools(request)
    for name in ("base", "new", SAMPLES):
        refuse_linked(request.folder / name)
    refuse_overwrite(_samples_in(request.folder), force=request.base.overwrite)
    with _folder_of(request) as folder:
        for old in _samples_in(folder):
            old.unlink()
        turns = _Turns(request, tools)
        for side in ("base", "new"):
            turns.profile(side)
        check = None if turns.error is not None else turns.measure()
    error = turns.error or turns.uncounted
    return RunsTaken(base=tuple(turns.files["base"]), new=tuple(turns.files["new"]), check=check, error=error)


def _common_tools(request: MeasureRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tools that can time both programs, and those of the base. Raises what `profiled` would refuse."""
    base, new = (survey_tools(request.of(side), request.files(side)) for side in ("base", "new"))
    common = tuple(tool for tool in base if tool in new)
    if not common:
        raise EnvironmentProblem(
            f"one program is timed by {base[0]}, the other by {new[0]}: their times could not be compared",
            "--survey ncu times the kernels of both with ncu itself",
        )
    return common, base


def _samples_in(folder: Path) -> list[Path]:
    """Return the timed runs of an earlier measurement: they would count as runs of this one."""
    return sorted((folder / SAMPLES).glob(f"*.{SESSION_FILE}"))


@contextlib.contextmanager
def _folder_of(request: MeasureRequest) -> Iterator[Path]:
    """Give the folder to this measurement alone; one that was made for nothing is removed."""
    folder = request.folder
    try:
        made = make_folder(folder, ours=False)
    except OSError as error:
        raise UsageError(f"cannot create {folder}: {error.strerror}", "choose another folder with -o") from error
    try:
        with taken(folder):
            yield folder
    finally:
        if made:
            with contextlib.suppress(OSError):  # something is in it, or the program has removed it
                folder.rmdir()


class _Turns:
    """The runs of both sides. `files` are the sessions that were kept, `error` is what ended measuring early, and
    `uncounted` why a side has no counters: its kernels can be timed all the same."""

    def __init__(self, request: MeasureRequest, tools: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
        self.files: dict[SideName, list[Path]] = {"base": [], "new": []}
        self.error: GpuprofError | None = None
        self.uncounted: EnvironmentProblem | None = None
        self._request = request
        self._runs: dict[SideName, list[Run]] = {"base": [], "new": []}
        self._longest_s: dict[SideName, float] = {"base": 0.0, "new": 0.0}
        self._input = StandardInput()
        common, own = tools
        self._tool = None if common == own else common[0]
        """What times the kernels; None until the first survey has shown which tool sees them."""
        self._ends_s = request.clock() + request.budget_s

    def profile(self, side: SideName) -> None:
        """Profile a side in full; its survey is its first run. After a failure of the base the new side is tried, too.

        Raises a GpuprofError if nothing was recorded, or the user has stopped it before there is a new side.
        """
        request = self._request.of(side)
        self._request.tell(SideStarted(side, request.argv))
        self._input.rewind()
        heard = _Heard(request.on_event)
        outcome = profiled(self._by_tool(replace(request, on_event=heard)), self._request.files(side))
        self._tool = self._tool or heard.tool
        self._longest_s[side] = heard.seconds
        session_file, page_file = self._request.files(side)
        self._keep(side, outcome.session, session_file, page_file)
        error = _why(outcome, session_file.parent)
        if isinstance(error, EnvironmentProblem):
            self.uncounted = self.uncounted or error
        else:
            self.error = self.error or error
        if isinstance(error, Interrupted) and side == "base":
            raise Interrupted("interrupted: only the base was profiled", f"it is in {session_file.parent}")

    def measure(self) -> InterimCheck | None:
        """Time both sides in turns; return the last check, None if an error or the user has ended it."""
        stable: dict[Hashable, StableVerdict] = {}
        while True:
            compared = self._request.compare(self._runs["base"], self._runs["new"])
            kernels = watched_kernels(compared)
            stable = stable_verdicts(kernels, stable, self._rounds())
            check = self._check(kernels, stable, alike=compared.comparison.alike)
            if check.until is None:
                return check
            while self._rounds() < check.until and self._fits():
                if not self._round():
                    return None

    def _check(
        self, kernels: Sequence[WatchedKernel], stable: Mapping[Hashable, StableVerdict], *, alike: bool
    ) -> InterimCheck:
        progress = Progress(self._rounds(), self._left_s(), sum(self._longest_s.values()))
        check = interim_check(kernels, stable, progress, alike=alike)
        self._request.tell(
            VerdictsChecked(rounds=progress.rounds, kernels=len(kernels), left_s=progress.left_s, check=check)
        )
        return check

    def _rounds(self) -> int:
        return min(map(len, self._runs.values()))

    def _left_s(self) -> float:
        return max(0.0, self._ends_s - self._request.clock())

    def _fits(self) -> bool:
        """Return whether both runs of a round end within the budget, if they take as long as the longest so far."""
        return sum(self._longest_s.values()) <= self._left_s()

    def _round(self) -> bool:
        """Run both sides once more, in the order ABBA; stop if one does not fit. Return whether none has failed."""
        for turn in (2 * self._rounds(), 2 * self._rounds() + 1):
            side = side_of_turn(turn)
            if len(self._runs[side]) > turn // 2:
                continue
            if self._longest_s[side] > self._left_s():
                break
            if not self._sample(side):
                return False
        return True

    def _sample(self, side: SideName) -> bool:
        """Time a side once. A run that failed or was stopped does not count: it is cut short."""
        place = self._request.folder / SAMPLES / _LAST
        started_s = self._request.clock()
        self._input.rewind()
        try:
            with _kept_log(place) as log:
                outcome = timed(self._by_tool(_quiet(self._request.of(side), place, log)))
            self.error = _why(outcome, place)
            if self.error is None:
                file = self._request.sample(side, len(self._runs[side]) + 1)
                self._keep(side, outcome.session, file, None)
        except GpuprofError as error:
            self.error = error
        except OSError as error:
            self.error = UsageError(f"cannot write {place.parent}: {error.strerror or error}", "choose another with -o")
        self._longest_s[side] = max(self._longest_s[side], self._request.clock() - started_s)
        return self.error is None

    def _keep(self, side: SideName, session: Session, file: Path, page: Path | None) -> None:
        self._request.keep(session, file, page)
        self.files[side].append(file)
        self._runs[side].append(Run(str(file), session))

    def _by_tool(self, request: ProfileRequest) -> ProfileRequest:
        return replace(request, survey=self._tool) if self._tool is not None else request


class _Heard:
    """Passes events on, and keeps who made the survey, and how long that took."""

    def __init__(self, tell: Callable[[ProfileEvent], object]) -> None:
        self.tool: str | None = None
        self.seconds = 0.0
        self._tell = tell

    def __call__(self, event: ProfileEvent) -> None:
        """Take an event."""
        if isinstance(event, RunStarted) and event.stage == "survey":
            self.tool = event.by
        elif isinstance(event, RunEnded) and event.stage == "survey":
            self.seconds = event.seconds
        self._tell(event)


def _kept_log(place: Path) -> contextlib.AbstractContextManager[ProgramLog]:
    """Start the log of a timed run, replacing the previous one. Raises OSError and UsageError."""
    for folder in (place.parent, place):
        make_folder(folder, ours=True)
    log = place.parent / PROGRAM_LOG
    log.unlink(missing_ok=True)
    return program_log(log)


def _quiet(request: ProfileRequest, place: Path, log: ProgramLog) -> ProfileRequest:
    """Return the request for a timed run that replaces the previous one and logs the program's output."""

    def write(text: str) -> None:
        log.write(text.encode("utf-8", "backslashreplace"))

    return replace(request, folder=place, overwrite=True, output=write, on_event=unheard)


def _why(outcome: ProfileOutcome, place: Path) -> GpuprofError | None:
    """Return the error of a run that did not come to a good end."""
    if outcome.error is not None and not isinstance(outcome.error, Interrupted):
        outcome.error.hint = outcome.error.hint or f"what was recorded before is compared; logs are in {place}"
    return outcome.error
