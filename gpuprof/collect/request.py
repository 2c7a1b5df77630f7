"""What the user asked to be profiled, and the names of the files that it leaves."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import cast, get_args

from gpuprof.collect.choices import (
    CacheControl,
    ClockControl,
    CounterSetName,
    GraphProfiling,
    KernelBase,
    OutputTo,
    ReplayMode,
)
from gpuprof.collect.command import as_ncu_may_call
from gpuprof.collect.counter_sets import DEFAULT, SET_NAMES, TIMES
from gpuprof.collect.events import TellEvent, unheard
from gpuprof.collect.files_of_run import SURVEY_FILE
from gpuprof.collect.plan import COVERAGE
from gpuprof.collect.process import never
from gpuprof.collect.program import folder_name, runnable
from gpuprof.collect.shell import shell_line
from gpuprof.collect.survey_tools import AUTO, TOOLS, results
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import name_patterns
from gpuprof.own_files import refuse_linked

ProgramOutput = OutputTo | Callable[[str], object]


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What the user asked for: the arguments of `gpuprof.profile`, which says what each means."""

    program: Sequence[str | os.PathLike[str]]
    folder: str | os.PathLike[str] | None = None
    _: KW_ONLY
    counters: CounterSetName = DEFAULT
    coverage: float = COVERAGE
    samples: int = 1
    kernel: str | None = None
    kernel_base: KernelBase = "demangled"
    exclude: Sequence[str] = ()
    ranges: Sequence[str] = ()
    launch_skip: int = 0
    launch_count: int | None = None
    peers: bool = False
    survey: str | os.PathLike[str] = AUTO
    arch: str | None = None
    spec: str | None = None
    ncu: str | os.PathLike[str] | None = None
    clock_control: ClockControl = "none"
    cache_control: CacheControl = "all"
    replay_mode: ReplayMode = "kernel"
    graphs: GraphProfiling = "node"
    annotate: bool = True
    ranks: int | str = 0
    timeout_s: float | None = None
    overwrite: bool = False
    keep_private: bool = False
    output: ProgramOutput = "inherit"
    on_event: TellEvent = unheard
    stop: Callable[[], bool] = never

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the program's words as they are executed."""
        return tuple(os.fspath(word) for word in self.program)

    @property
    def place(self) -> Path:
        """Return the folder that takes all that is written."""
        return Path(self.folder if self.folder is not None else folder_name(self.argv))

    @property
    def survey_file(self) -> Path | None:
        """Return the file to plan by; None where a first run of the program makes the survey."""
        return Path(self.survey) if self.survey not in TOOLS else None

    @property
    def only_times(self) -> bool:
        """Return whether nothing is to be counted: the survey is all there is."""
        return self.counters == TIMES

    @property
    def selects_launches(self) -> bool:
        """Return whether the user has chosen launches by number, so that no survey is needed."""
        return self.launch_skip > 0 or self.launch_count is not None


_HELP = "see help(gpuprof.profile)"


def _is_words(value: object) -> bool:
    """Return whether it is a list of words, which may be paths; a str is one word."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and all(map(_is_path, value))


def _is_texts(value: object) -> bool:
    return _is_words(value) and all(map(_is_text, cast("Sequence[object]", value)))


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike)) and _is_text(os.fspath(value))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[object], bool]] = {
    "folder": _is_path,
    "coverage": _is_number,
    "samples": _is_whole,
    "kernel": _is_text,
    "exclude": _is_texts,
    "ranges": _is_texts,
    "launch_skip": _is_whole,
    "launch_count": _is_whole,
    "peers": _is_bool,
    "survey": _is_path,
    "arch": _is_text,
    "spec": _is_text,
    "ncu": _is_path,
    "annotate": _is_bool,
    "timeout_s": _is_number,
    "overwrite": _is_bool,
    "keep_private": _is_bool,
    "on_event": callable,
    "stop": callable,
}
"""What an argument's value is of; the others are words that are compared with all there are."""
_OPTIONAL = {"folder", "kernel", "launch_count", "arch", "spec", "ncu", "timeout_s"}


def checked(request: ProfileRequest) -> ProfileRequest:
    """Return a request that can be run: its program is found, its words are known, nothing in it contradicts the rest.

    Raises UsageError.
    """
    if not _is_words(request.program) or not request.program:
        raise UsageError(
            f"program must be a list of words, not {request.program!r}", 'such as ["./app", "--size", "64"]'
        )
    _refuse_values(request)
    _refuse_contradictions(request)
    try:
        re.compile(request.kernel or "")
    except re.error as error:
        raise UsageError(
            f"--kernel {request.kernel!r} is not a valid regular expression: {error}",
            r"escape special characters, such as \( or \*",
        ) from error
    name_patterns(request.exclude, "--exclude")
    if request.survey_file is not None and not request.survey_file.is_file():
        what = "not a regular file" if request.survey_file.exists() else "no such file"
        raise UsageError(f"--survey {request.survey}: {what}", f"name a file, or choose from: {', '.join(TOOLS)}")
    if "%" in str(request.place.absolute()):
        raise UsageError(
            f"the folder {request.place} has a % in its path, which ncu replaces", "choose another folder with -o"
        )
    if request.folder is None:
        refuse_linked(request.place)
    argv = runnable(request.argv)
    return replace(request, program=argv, folder=request.place)


def _refuse_values(request: ProfileRequest) -> None:
    """Raise UsageError for a value that an argument cannot have."""
    for name, is_of_type in _TYPES.items():
        value = getattr(request, name)
        if not is_of_type(value) and not (value is None and name in _OPTIONAL):
            raise UsageError(f"{name} cannot be {value!r}", _HELP)
    if not math.isfinite(request.coverage) or not math.isfinite(request.timeout_s or 0.0):
        raise UsageError("--coverage and --timeout must be finite numbers", "such as --coverage 95 --timeout 600")
    fits = {
        "counters": request.counters in SET_NAMES,
        "coverage": 0 < request.coverage <= 1,
        "samples": request.samples >= 1,
        "launch_skip": request.launch_skip >= 0,
        "launch_count": request.launch_count is None or request.launch_count >= 1,
        "timeout_s": request.timeout_s is None or request.timeout_s > 0,
        "clock_control": request.clock_control in get_args(ClockControl),
        "cache_control": request.cache_control in get_args(CacheControl),
        "replay_mode": request.replay_mode in get_args(ReplayMode),
        "kernel_base": request.kernel_base in get_args(KernelBase),
        "graphs": request.graphs in get_args(GraphProfiling),
        "output": callable(request.output) or request.output in get_args(OutputTo),
    }
    for name, is_right in fits.items():
        if not is_right:
            raise UsageError(f"{name} cannot be {getattr(request, name)!r}", _HELP)


def _refuse_contradictions(request: ProfileRequest) -> None:
    """Raise UsageError where options exclude each other."""
    if request.selects_launches and request.survey != AUTO:
        raise UsageError(
            "--survey cannot be combined with --launch-skip or --launch-count",
            "leave out --launch-skip and --launch-count",
        )
    if request.only_times:
        _refuse_without_counters(request)
    if not re.fullmatch(r"all|\d{1,6}", str(request.ranks)):
        raise UsageError(f"--ranks cannot be {request.ranks}", "name a rank, such as 0, or all")
    if request.graphs == "graph" and request.replay_mode == "application":
        raise UsageError(
            "--graphs graph cannot be combined with --replay application",
            "ncu replays whole graphs with --replay kernel",
        )


def _refuse_without_counters(request: ProfileRequest) -> None:
    """Raise UsageError for what has no meaning where kernels are only timed, all of them, in a run of the program."""
    if request.selects_launches:
        raise UsageError(
            "--set times cannot be combined with --launch-skip or --launch-count, which choose what is counted",
            "leave out --launch-skip and --launch-count",
        )
    if request.kernel is not None:
        raise UsageError(
            "--set times times every kernel, and --kernel chooses what is counted",
            "gpuprof show --kernel REGEX picks kernels of the result",
        )
    if request.samples != 1:
        raise UsageError(
            f"--set times times every launch, and --samples {request.samples} chooses what is counted",
            "leave out --samples",
        )
    if request.survey_file is not None:
        raise UsageError(
            f"--survey {request.survey} has the times already, and --set times counts nothing",
            shell_line(["gpuprof", "show", os.fspath(request.survey)]),
        )


def survey_files(folder: Path) -> list[Path]:
    """Return what the survey of an earlier run has left in a folder."""
    by_ncu = [file for file in as_ncu_may_call(folder / SURVEY_FILE) if os.path.lexists(file)]
    return [*by_ncu, *results(folder)]
