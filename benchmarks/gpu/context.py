"""What a step works with: commands that are timed and written down, the programs, and the numbers that it tells."""

from __future__ import annotations

import contextlib
import gzip
import os
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
_TELL = 300


class OutOfTime(Exception):
    """The call's time is up."""


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
        call = next((call for call in reversed(self.calls) if call.name == name and _is_done(call)), None)
        if call is None or call.command != tuple(self.neutral(command)):
            return None
        well = expected is None or call.code in expected
        there = (file in self.left_out or (folder / file).exists() for file in call.files)
        return call if well and all(there) else None

    @property
    def done_s(self) -> float:
        """Return what the commands took that came to their end."""
        return sum(call.seconds for call in self.calls if _is_done(call))


def _is_done(call: Call) -> bool:
    return call.stopped_by is None and call.code != LEFT


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
    stopped: Sequence[int] = ()
    before: Before = field(default_factory=Before)
    keep: Callable[[StepContext], None] = _nothing
    calls: list[Call] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.calls = list(self.before.calls)

    @property
    def seconds(self) -> float:
        """Return how long the step has run, earlier tries included."""
        return self.before.seconds + time.monotonic() - self.began

    @property
    def left_s(self) -> float:
        """Return how much of the call's time is left."""
        return self.until - time.monotonic()

    def call(self, name: str, command: Sequence[str], expected: Collection[int] | None = (0,)) -> Call:
        """Run a command in the step's folder, and keep what it prints. None expects any exit code.

        What an earlier try has run to its end, and has left all its files of, is not run again. Raises OutOfTime where
        the call's time is up, Stopped where somebody asked for it.
        """
        done = self.before.of(name, command, expected, self.folder)
        return done or self._called(name, command, expected)

    def _called(self, name: str, command: Sequence[str], expected: Collection[int] | None) -> Call:
        if self.stopped:
            raise Stopped(name)
        if self.left_s <= 0:
            raise OutOfTime(f"{name} was not begun")
        before, began = _states(self.folder), self.seconds
        out, err = self.folder / f"{name}.out.txt", self.folder / f"{name}.err.txt"
        with _inside(self.folder), out.open("wb") as stdout:
            ended = run_process(command, environ=self.environ, stdout=stdout, timeout_s=self.left_s, quiet=True)
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
        if ended.stopped_by is not None:
            raise OutOfTime(f"{name} was ended")
        if expected is not None and ended.code not in expected:
            told = " ".join(ended.tail.split())[-_TELL:]
            self.problems.append(f"{name} ended with {ended.code}: {told}")
        self.keep(self)
        return made

    def gpuprof(self, name: str, *arguments: str, expected: Collection[int] | None = (0,)) -> Call:
        """Run a command of gpuprof."""
        return self.call(name, [self.tools.python, "-m", "gpuprof", *arguments], expected)

    def ncu(
        self,
        name: str,
        options: Sequence[str],
        program: Sequence[str],
        expected: Collection[int] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Call:
        """Run a program under ncu, with clocks as they are: NAME.ncu-rep is its report, NAME.log what ncu says."""
        added = [f"{variable}={value}" for variable, value in (variables or {}).items()]
        command = [
            *(("env", *added) if added else ()),
            str(self.tools.ncu), "--config-file", "off", "--clock-control", "none", *options,
            "--log-file", f"{name}.log", "--export", f"{name}.ncu-rep", "--force-overwrite", *program,
        ]  # fmt: skip
        return self.call(name, command, expected)

    def text(self, file: str) -> str:
        """Return a text that a command has left; an empty one where it left none."""
        path = self.folder / file
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def figure(self, name: str, value: float, unit: str) -> None:
        """Tell a number."""
        self.figures.append(Figure(name, float(value), unit))

    def launches(self, *arguments: str) -> list[str]:
        """Return the command line of the CUDA program, compiled where that was not done on this machine."""
        program = self.places.programs / "launches"
        if not program.exists():
            draft, source = program.with_name("launches.draft"), program.with_suffix(".cu")
            arch = self.tools.gpu.arch if self.tools.gpu is not None else "native"
            compiler = [str(self.tools.nvcc), "-O3", "-std=c++17", "-lineinfo", f"-arch={arch}"]
            done = self._called("compile", [*compiler, "-o", str(draft), str(source)], (0,))
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
