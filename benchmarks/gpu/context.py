"""What a step works with: commands that are timed and written down, the programs, and the numbers that it tells."""

from __future__ import annotations

import contextlib
import csv
import gzip
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.command_line import LEFT
from benchmarks.gpu.needs import Tools
from gpuprof.collect.process import run as run_process

PROGRAMS = Path(__file__).with_name("programs")
LARGE_TEXT = 2**20
"""What a command prints beyond this is kept compressed."""
_COMPILE_S = 200.0
_TELL = 300
_LONGER = 1.25
"""A command that was ended is given so much more time than it had, or not begun again."""
_LONGEST_S = 400.0
"""What is asked for it at most: a step has not much more."""


class OutOfTime(Exception):
    """The step's time is up."""


class Stopped(Exception):
    """Somebody asked to stop."""


@dataclass(frozen=True, slots=True)
class Call:
    """A command that ran: its exit code and seconds, when it began, who ended it, and the files it left."""

    name: str
    command: tuple[str, ...]
    code: int
    seconds: float
    began_s: float
    stopped_by: str | None
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that a step tells, with its unit."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Places:
    """Where things lie: a neutral scratch folder, gpuprof's tree in it, and the results."""

    scratch: Path
    out: Path

    @property
    def tree(self) -> Path:
        """Return a link to this gpuprof that tells nothing of where it is."""
        return self.scratch / "gpuprof"

    @property
    def programs(self) -> Path:
        """Return the folder with copies of the programs."""
        return self.scratch / "programs"

    def work(self, step: str) -> Path:
        """Return the folder that a step runs in."""
        return self.scratch / "steps" / step

    @property
    def steps(self) -> Path:
        """Return the folder of what all steps have left."""
        return self.out / "steps"

    def result(self, step: str) -> Path:
        """Return the folder that keeps what a step has left."""
        return self.steps / step


@dataclass(frozen=True, slots=True)
class Before:
    """What an earlier try, which was cut, has of a step: its calls, its seconds, and files that could not be kept.

    `neutral` makes of a command what is written down of it.
    """

    calls: tuple[Call, ...] = ()
    seconds: float = 0.0
    left_out: frozenset[str] = frozenset()
    neutral: Callable[[Sequence[str]], Sequence[str]] = tuple

    def of(self, name: str, command: Sequence[str], expected: Collection[int] | None, folder: Path) -> Call | None:
        """Return the call that this one would repeat: it ended well and left nothing to do, and its files are there."""
        call = next((call for call in reversed(self.calls) if _is_done(call, name)), None)
        if call is None or call.command != tuple(self.neutral(command)):
            return None
        well = expected is None or call.code in expected
        there = (file in self.left_out or (folder / file).exists() for file in call.files)
        return call if well and all(there) else None

    @property
    def done_s(self) -> float:
        """Return what the commands took that came to their end."""
        return sum(call.seconds for call in self.calls if _is_done(call, call.name))

    @property
    def longer_than_s(self) -> float:
        """Return what the command takes at least that was ended: longer than it had; 0 where none was."""
        return max((self.ended_s(call.name) for call in self.calls), default=0.0)

    def ended_s(self, name: str) -> float:
        """Return what a command takes at least, if its time was up before its end; 0 else."""
        mine = (call for call in self.calls if call.name == name and call.stopped_by == "timeout")
        return min(_LONGEST_S, max((_LONGER * call.seconds for call in mine), default=0.0))

    def has(self, name: str) -> bool:
        """Tell whether a call of this name has ended by itself, with nothing left to do."""
        return any(_is_done(call, name) for call in self.calls)


def _is_done(call: Call, name: str) -> bool:
    return call.name == name and call.stopped_by is None and call.code != LEFT


def _nothing(_: StepContext) -> None:
    """Keep nothing between two commands."""


@dataclass
class StepContext:
    """One step while it runs. `until` is when its time is up, by time.monotonic(); `stopped` has signals to stop.

    `keep` is called after each command, so that what it has left is not lost with what comes after it.
    """

    places: Places
    tools: Tools
    environ: dict[str, str]
    folder: Path
    until: float
    stopped: list[int] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    before: Before = field(default_factory=Before)
    keep: Callable[[StepContext], None] = _nothing

    def __post_init__(self) -> None:
        """Have the calls of an earlier try."""
        self.calls += self.before.calls

    @property
    def seconds(self) -> float:
        """Return how long the step has run, earlier tries included."""
        return self.before.seconds + time.monotonic() - self.began

    @property
    def left_s(self) -> float:
        """Return how much of the step's time is left."""
        return self.until - time.monotonic()

    def call(
        self, name: str, command: Sequence[str], expected: Collection[int] | None = (0,), timeout_s: float | None = None
    ) -> Call:
        """Run a command in the step's folder, and keep what it prints. None expects any exit code.

        What an earlier try has run to its end, and has left all its files of, is not run again. Raises OutOfTime where
        the step's time is up, Stopped where somebody asked for it.
        """
        done = self.before.of(name, command, expected, self.folder)
        return done or self._called(name, command, expected, timeout_s)

    def must_fit(self, seconds: float, what: str) -> None:
        """Raise OutOfTime, before a long command is begun in vain, where less time is left."""
        least = max(seconds, self.before.ended_s(what))
        if self.left_s < least and not self.before.has(what):
            raise OutOfTime(f"{what} takes {least:.0f} s and was not begun")

    def _called(
        self, name: str, command: Sequence[str], expected: Collection[int] | None, timeout_s: float | None
    ) -> Call:
        left = self.left_s
        if self.stopped:
            raise Stopped(name)
        if left <= 0:
            raise OutOfTime(f"{name} was not begun")
        mine = timeout_s is not None and timeout_s < left
        before, began = _states(self.folder), self.seconds
        out, err = self.folder / f"{name}.out.txt", self.folder / f"{name}.err.txt"
        with _inside(self.folder), out.open("wb") as stdout:
            ended = run_process(
                command, environ=self.environ, stdout=stdout, timeout_s=timeout_s if mine else left, quiet=True
            )
        err.write_text(ended.tail, encoding="utf-8")
        for text in (out, err):
            _shortened(text)
        files = tuple(sorted(path for path, state in _states(self.folder).items() if before.get(path) != state))
        made = Call(
            name=name,
            command=tuple(command),
            code=ended.code,
            seconds=ended.seconds,
            began_s=began,
            stopped_by=ended.stopped_by,
            files=files,
        )
        self.calls[:] = [*(call for call in self.calls if call.name != name), made]
        if ended.stopped_by == "interrupt":
            raise Stopped(name)
        if ended.stopped_by is not None and not mine:
            raise OutOfTime(f"{name} was ended")
        if expected is not None and ended.code not in expected:
            told = " ".join(ended.tail.split())[-_TELL:]
            self.problems.append(f"{name} ended with {ended.code}: {told}")
        self.keep(self)
        return made

    def gpuprof(self, name: str, *arguments: str, expected: Collection[int] | None = (0,)) -> Call:
        """Run a command of gpuprof."""
        return self.call(name, self.gpuprof_words(*arguments), expected)

    def gpuprof_words(self, *arguments: str) -> list[str]:
        """Return a command line of gpuprof; what runs programs under ncu takes the same ncu as all else."""
        own = (
            ["--ncu", str(self.tools.ncu)] if arguments[0] in {"run", "roofline"} and self.tools.ncu is not None else []
        )
        return [self.tools.python, "-m", "gpuprof", arguments[0], *own, *arguments[1:]]

    def ncu(
        self, name: str, options: Sequence[str], program: Sequence[str], expected: Collection[int] | None = None
    ) -> Call:
        """Run a program under ncu, with clocks as they are: NAME.ncu-rep is its report, NAME.log what ncu says."""
        command = [
            str(self.tools.ncu), "--config-file", "off", "--clock-control", "none", *options,
            "--log-file", f"{name}.log", "--export", f"{name}.ncu-rep", "--force-overwrite", *program,
        ]  # fmt: skip
        return self.call(name, command, expected)

    def together(self, name: str, commands: Mapping[str, Sequence[str]]) -> None:
        """Run commands side by side, as one call; what each prints is kept as its KEY.out.txt and KEY.err.txt."""
        begun = [f"{shlex.join(command)} >{key}.out.txt 2>{key}.err.txt &" for key, command in commands.items()]
        self.call(name, ["bash", "-c", "\n".join([*begun, "wait"])], None)
        for key in commands:
            for text in (self.folder / f"{key}.out.txt", self.folder / f"{key}.err.txt"):
                if text.exists():
                    _shortened(text)

    def listed(self, name: str, reports: Sequence[str], *options: str) -> dict[str, int]:
        """Write what reports hold as REPORT.csv, as ncu prints it; return the number of launches of each."""
        ncu = [str(self.tools.ncu), "--csv", "--page", "raw", *options, "--import"]
        there = [report for report in reports if (self.folder / f"{report}.ncu-rep").exists()]
        self.together(name, {f"{report}-list": [*ncu, f"{report}.ncu-rep"] for report in there})
        return {report: self._listed(report) if report in there else 0 for report in reports}

    def _listed(self, report: str) -> int:
        printed, table = self.folder / f"{report}-list.out.txt", self.folder / f"{report}.csv"
        if not printed.exists():
            return 0
        printed.replace(table)
        rows = list(csv.reader(table.read_text(encoding="utf-8", errors="replace").splitlines()))
        return len({row[0] for row in rows if row and row[0].isdigit()})

    def figure(self, name: str, value: float, unit: str) -> None:
        """Tell a number."""
        self.figures.append(Figure(name, float(value), unit))

    def launches(self, *arguments: str) -> list[str]:
        """Return the command line of the CUDA program."""
        return self.compiled("launches", *arguments)

    def compiled(self, name: str, *arguments: str) -> list[str]:
        """Return the command line of a program in CUDA; it is compiled where that was not done on this machine."""
        program = self.places.programs / name
        if not program.exists():
            draft, source = program.with_name(f"{name}.draft"), program.with_suffix(".cu")
            options = ("-O3", "-std=c++17", "-lineinfo", *_code(self.tools))
            compiler = [str(self.tools.nvcc), *options, "-o", str(draft), str(source)]
            done = self._called("compile", compiler, (0,), _COMPILE_S)
            if done.code:
                raise subprocess.CalledProcessError(done.code, compiler[0])
            draft.replace(program)
        return [str(program), *arguments]

    def script(self, name: str, *arguments: str) -> list[str]:
        """Return the command line of a program in Python."""
        return [self.tools.python, str(self.places.programs / f"{name}.py"), *arguments]

    def record(self) -> list[dict[str, object]]:
        """Return the calls as they are written down, where the command is called `words`."""
        rows = (asdict(call) for call in self.calls)
        return [{"words": row.pop("command"), **row} for row in rows]


def _code(tools: Tools) -> tuple[str, ...]:
    arch = tools.gpu.arch if tools.gpu is not None else "native"
    return (f"-arch={arch}",)


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder, so that reports name files and not folders."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _states(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file below a folder."""
    states = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                state = path.stat()
                states[str(path.relative_to(folder))] = (state.st_size, state.st_mtime_ns)
    return states


def _shortened(text: Path) -> None:
    """Remove an output that is empty, and compress a long one."""
    size = text.stat().st_size
    if not size:
        text.unlink()
    elif size > LARGE_TEXT:
        text.with_name(f"{text.name}.gz").write_bytes(gzip.compress(text.read_bytes(), mtime=0))
        text.unlink()
