"""What Python programs use: `gpuprof.load(path)` gives a session that shows itself in notebooks.

`gpuprof.compare(base, new)` compares two, and holds them against limits; `gpuprof.check(file)` reviews kernels.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Literal

from msgspec.structs import replace as changed

from gpuprof._version import __version__
from gpuprof.comparison.compare import Compared
from gpuprof.comparison.compare import compare as compare_runs
from gpuprof.comparison.gate.accepted import Accepted, accepted_of
from gpuprof.comparison.gate.gate import Judged
from gpuprof.comparison.gate.gate import judged as judge
from gpuprof.comparison.gate.limits import TOTAL_TIME, GateLimit, limits_of
from gpuprof.comparison.pair import NamedMatch
from gpuprof.comparison.selection import narrowed
from gpuprof.comparison.sides import Run
from gpuprof.diagnose.diagnose import diagnose
from gpuprof.diagnose.grouping import grouped
from gpuprof.diagnose.summary import completed
from gpuprof.errors import InputError, UsageError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware_finder import HardwareFinder, gpu_named
from gpuprof.model.analyse import analyse, spec_session
from gpuprof.model.recorded import Report
from gpuprof.model.session import Session
from gpuprof.model.timeline import analyse_traces
from gpuprof.model.trace import Trace
from gpuprof.notebook import LoadedSession
from gpuprof.read.files import STDIN, read_file
from gpuprof.review.asked import GivenSize, request_of
from gpuprof.review.contract import Review


def load(
    *paths: str | os.PathLike[str], spec: str | None = None, salvage: bool = False, groups: bool = False
) -> LoadedSession:
    """Read reports, CSV exports, timelines or a session and analyse them.

    With `groups` equal launches (same name, grid, block and ranges) are one kernel, for which the launch of median
    duration speaks: much faster where a report has thousands of them. `spec` names a GPU spec, or a spec file, to use
    instead of the one that matches. `salvage` shows what can be read of damaged reports. Raises a GpuprofError
    (InputError, DamagedInput, SpecError …) with a hint.
    """
    if not paths:
        raise InputError("no file given", "name a report: gpuprof show REPORT.ncu-rep")
    _refuse_twice([os.fspath(path) for path in paths])
    files = [read_file(os.fspath(path), salvage=salvage) for path in paths]
    traces = [file for file in files if isinstance(file, Trace)]
    if traces:
        if len(traces) < len(files):
            raise InputError(
                "timelines and reports with counters cannot be shown together",
                "show them separately, or profile by the timeline: gpuprof run --survey TIMELINE -- PROGRAM",
            )
        return LoadedSession.of(diagnose(analyse_traces(traces, HardwareFinder(spec), __version__)))
    sessions = [file for file in files if isinstance(file, Session)]
    reports = [file for file in files if isinstance(file, Report)]
    if sessions:
        if len(files) > 1:
            raise InputError(
                "a session cannot be combined with other files",
                "show it alone, or its reports; to compare two runs: gpuprof compare BASE NEW",
            )
        session = completed(sessions[0])
        return LoadedSession.of(grouped(session) if groups else session)
    return LoadedSession.of(diagnose(analyse(reports, HardwareFinder(spec), __version__, one_of_a_kind=groups)))


Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A file, or several."""


def compare(
    base: Files,
    new: Files,
    *,
    match: Sequence[tuple[str, str]] = (),
    kernel: str | None = None,
    exclude: Sequence[str] = (),
    fail_on: Sequence[str] = (),
    unclear: Literal["pass", "fail"] = "pass",
    accept: str | os.PathLike[str] | None = None,
    spec: str | None = None,
    salvage: bool = False,
) -> Compared:
    """Compare two sides: the files of each are runs of one program, whatever `load` reads.

    `match` are pairs of expressions that name kernels of both sides; `kernel` and `exclude` choose among the compared.
    `fail_on` are limits, such as "instructions:1%": the comparison then has a `gate`, which `unclear` results fail
    where they are to; `accept` is a file of accepted regressions. Raises a GpuprofError, as `load` does; InputError for
    a side without kernels, and where nothing can be held against the limits; UsageError for what names no kernel.
    """
    limits = limits_of(fail_on, "fail_on")
    if unclear not in ("pass", "fail"):
        raise UsageError(f"unclear cannot be {unclear!r:.80}", "choose one of pass, fail")
    accepted = accepted_regressions(accept) if accept is not None else ()
    sides = [runs_of(_several(files), spec=spec, salvage=salvage) for files in (base, new)]
    named = [NamedMatch(*names) for names in match]
    compared = narrowed(compare_runs(sides[0], sides[1], __version__, named), kernel, exclude)
    refuse_unfit(compared, limits)
    if not limits:
        return compared
    return gated(compared, judge(compared, limits, unclear_fails=unclear == "fail", accepted=accepted, today=today()))


def runs_of(paths: Sequence[str], *, spec: str | None = None, salvage: bool = False) -> list[Run]:
    """Read the files of a side, a run each. Raises InputError for one that is given twice, and where all are empty."""
    _refuse_twice(list(paths))
    runs = [Run(path, load(path, spec=spec, salvage=salvage, groups=True)) for path in paths]
    if not any(run.session.kernels for run in runs):
        files = ", ".join(f"{path:.100}" for path in paths) or "a side"
        raise InputError(f"{files}: no kernel was recorded", "record it again; gpuprof show tells what a file has")
    return runs


def refuse_unfit(compared: Compared, limits: Sequence[GateLimit]) -> None:
    """Raise InputError where there are limits for kernels, and no kernel that both sides have."""
    about_kernels = any(limit.quantity != TOTAL_TIME for limit in limits)
    if about_kernels and not any(change.match not in ("new", "gone") for change in compared.comparison.kernels):
        raise InputError(
            "no kernel is on both sides: there is nothing to hold against the limits",
            "name those that belong together: --match OLD=NEW",
        )


def accepted_regressions(path: str | os.PathLike[str]) -> tuple[Accepted, ...]:
    """Read a file of accepted regressions. Raises InputError, with file and line, for one that is wrong."""
    name = os.fspath(path)
    try:
        with Path(name).open("rb") as file:
            data = file.read(_MOST_ACCEPTED + 1)
    except OSError as error:
        raise InputError(f"{name:.100} cannot be read: {(error.strerror or str(error)).lower()}") from error
    if len(data) > _MOST_ACCEPTED:
        raise InputError(f"{name:.100} has more than {_MOST_ACCEPTED // 2**20} MiB", "keep only what still holds")
    return accepted_of(data, name)


_MOST_ACCEPTED = 2**20


def gated(compared: Compared, judged: Judged) -> Compared:
    """Return the comparison with its gate, and what is to be said of accepted regressions among its notes."""
    comparison = changed(compared.comparison, gate=judged.gate, notes=(*compared.comparison.notes, *judged.notes))
    return replace(compared, comparison=comparison)


def today() -> date:
    """Return the day by which accepted regressions end, the same for everyone: that of UTC."""
    return datetime.now(timezone.utc).date()


def _several(files: Files) -> list[str]:
    return [os.fspath(files)] if isinstance(files, (str, os.PathLike)) else [os.fspath(file) for file in files]


def check(
    *files: str | os.PathLike[str],
    arch: str | Iterable[str] = (),
    kernel: str | None = None,
    block: GivenSize | None = None,
    grid: GivenSize | None = None,
    dynamic_shared: str | int | None = None,
    args: Mapping[str | int, int] | None = None,
    defines: Iterable[str] = (),
    include: Iterable[str | os.PathLike[str]] = (),
) -> Review:
    """Review compiled kernels without a GPU: sources, PTX, cubins, programs, libraries, Triton's cache, reports.

    `arch` names architectures to compile for or to choose ("sm_90"); `kernel` is an expression that names have, or
    "#N". `block`, `grid` and `dynamic_shared` say how kernels are launched, `args` the values of arguments by name or
    place. `defines` ("N=4096") and `include` are for compilers. Raises a GpuprofError: InputError, DamagedInput,
    EnvironmentProblem where a tool is missing, UsageError for what an argument cannot be.
    """
    from gpuprof.review.review import review

    request = request_of(
        files,
        arch=arch,
        kernel=kernel,
        block=block,
        grid=grid,
        dynamic_shared=dynamic_shared,
        args=args or {},
        defines=defines,
        include=include,
    )
    return review(request, __version__)


def load_spec(name: str) -> LoadedSession:
    """Return a session without kernels: the rated ceilings of a GPU spec or spec file. Raises InputError if unknown."""
    return LoadedSession.of(spec_session(gpu_named(name, SpecLibrary()), __version__))


def _refuse_twice(names: list[str]) -> None:
    """Raise InputError if a file is named twice: its time would count twice."""
    places = [os.path.realpath(name) if name != STDIN else name for name in names]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise InputError(f"{names[index]} is given twice", "name each file once")
