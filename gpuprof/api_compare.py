"""What Python programs compare: `gpuprof.compare(base, new)` compares two runs, and holds them against limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from gpuprof._version import __version__
from gpuprof.api import load_recorded, refuse_twice
from gpuprof.collect.files_of_run import parts_of_runs
from gpuprof.comparison.compare import Compared
from gpuprof.comparison.compare import compare as compare_runs
from gpuprof.comparison.gate.accepted import Accepted, accepted_of
from gpuprof.comparison.gate.gate import gated
from gpuprof.comparison.gate.limits import TOTAL_TIME, GateLimit, limits_of
from gpuprof.comparison.pair import NamedMatch
from gpuprof.comparison.selection import narrowed
from gpuprof.comparison.sides import Run, has_graphs
from gpuprof.errors import InputError, UsageError
from gpuprof.privacy.border import report_name
from gpuprof.privacy.source_files import PathMap
from gpuprof.words.comparison import with_sentences

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
    keep_private: bool = False,
) -> Compared:
    """Compare two sides: the files of each are runs of one program, whatever `load` reads.

    `match` are pairs of expressions that name kernels of both sides; `kernel` and `exclude` choose among the compared.
    `fail_on` are limits, such as "instructions:1%": the comparison then has a `gate`, which `unclear` results fail
    if they are to; `accept` is a file of accepted regressions. `keep_private` as for `load`.

    Raises a GpuprofError, as `load` does; InputError for a side without kernels and CUDA graphs, and if no limit can be
    checked; UsageError for what names no kernel.
    """
    limits = limits_of(fail_on, "fail_on")
    if unclear not in ("pass", "fail"):
        raise UsageError(f"unclear cannot be {unclear!r:.80}", "choose one of pass, fail")
    accepted = accepted_regressions(accept) if accept is not None else ()
    refuse_one_run(_several(base), _several(new))
    sides = [runs_of(_several(files), spec=spec, salvage=salvage, keep_private=keep_private) for files in (base, new)]
    named = [NamedMatch(*names) for names in match]
    compared = narrowed(
        compare_runs(sides[0], sides[1], __version__, named), (kernel,) if kernel is not None else (), exclude
    )
    refuse_unfit(compared, limits)
    if limits:
        compared = gated(compared, limits, unclear_fails=unclear == "fail", accepted=accepted, today=today())
    return worded(compared)


def runs_of(
    paths: Sequence[str],
    *,
    spec: str | None = None,
    salvage: bool = False,
    keep_private: bool = False,
    path_maps: Sequence[PathMap] = (),
) -> list[Run]:
    """Read the files of a side, a run each; the reports that `gpuprof run` leaves in a folder are one run.

    Raises InputError for a file that is given twice, and if all are empty.
    """
    refuse_twice(list(paths))
    runs = []
    for counted, answers in parts_of_runs(paths):
        parts = (*counted, *answers)
        loaded = load_recorded(
            *parts, spec=spec, salvage=salvage, groups=True, keep_private=keep_private, path_maps=path_maps
        )
        runs.append(Run(parts[0] if keep_private else report_name(parts[0]), loaded.session))
    if not any(run.session.kernels or has_graphs(run.session) for run in runs):
        files = ", ".join(f"{path:.100}" for path in paths) or "a side"
        raise InputError(f"{files}: no kernel was recorded", "record it again; gpuprof show lists what each file has")
    return runs


def refuse_one_run(base: Sequence[str], new: Sequence[str]) -> None:
    """Raise InputError if both sides have parts of one run of gpuprof."""
    for counted, answers in parts_of_runs(dict.fromkeys((*base, *new))):
        parts = {*counted, *answers}
        if len(parts) > 1 and parts & {*base} and parts & {*new}:
            raise InputError(
                f"{' and '.join(map(report_name, sorted(parts)))} are of one run: they have different counters of it",
                "compare its session.json with that of another run",
            )


def refuse_unfit(compared: Compared, limits: Sequence[GateLimit]) -> None:
    """Raise InputError if there are limits for kernels, both sides have some, and no kernel is on both."""
    about_kernels = any(limit.quantity != TOTAL_TIME for limit in limits)
    have_kernels = compared.base.kernels and compared.new.kernels
    if about_kernels and have_kernels and all(change.is_one_sided for change in compared.comparison.kernels):
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


def worded(compared: Compared) -> Compared:
    """Return the comparison with its sentences; nothing is added to it afterwards."""
    return replace(compared, comparison=with_sentences(compared.comparison))


def today() -> date:
    """Return the day by which accepted regressions end, the same for everyone: that of UTC."""
    return datetime.now(timezone.utc).date()


def _several(files: Files) -> list[str]:
    return [os.fspath(files)] if isinstance(files, (str, os.PathLike)) else [os.fspath(file) for file in files]
