"""Folders instead of files: the traces of one run's ranks are read; for anything else the error says what is there."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.errors import InputError
from gpuprof.read.identify import SAMPLE_BYTES, look_at, typed
from gpuprof.read.readers import TRACE, can_be_read, has_name_of_a_file, kind_of, known
from gpuprof.read.recognise import recognised
from gpuprof.read.torch_json import count
from gpuprof.timeline.trace import Trace

_MOST_ENTRIES, _MOST_FILES, _LEVELS = 20_000, 500, 5
"""So many entries of a folder are listed, so many files of a level are looked at, and so many levels."""
_MOST_NAMED = 8
_MOST_OF_TRACE = 2**26
"""PyTorch 1.8 wrote who a rank is behind the events."""
_RANK_IN_NAME = re.compile(r"rank[-_]?(\d{1,6})", re.IGNORECASE)
_TIME_IN_NAME = re.compile(r"\.(\d{1,20})(?=\.pt\.trace\.json)")
_ENDING = re.compile(r"(?:\.pt\.trace)?\.json(?:\.gz)?$")


class _Found(NamedTuple):
    path: Path
    called: str


class _Rank(NamedTuple):
    """Which rank of how many a trace is of; of how many is None if the trace does not say."""

    rank: int
    ranks: int | None


def files_named(names: Iterable[str]) -> list[str]:
    """Return the files that names mean: a folder means its traces if they are of the ranks of one run.

    Raises InputError for a folder with anything else, with what is in it.
    """
    files: list[str] = []
    for name in names:
        files += map(str, _read_of(Path(name))) if _is_folder(name) else [name]
    return files


def with_missing_ranks(traces: Sequence[Trace]) -> list[Trace]:
    """Return traces, the first with a warning if they are of fewer ranks than their run had."""
    ranks = {trace.rank for trace in traces}
    size = max((trace.ranks or 0 for trace in traces), default=0)
    first, *others = traces
    if None not in ranks and 1 < len(ranks) == len(traces) < size:
        text = f"{len(traces)} of the {size} ranks of the run are shown"
        first = replace(first, warnings=(*first.warnings, text))
    return [first, *others]


def _is_folder(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except (OSError, ValueError):
        return False


def _read_of(folder: Path) -> Sequence[Path]:
    """Return the files of a folder that are read. Raises InputError if nothing says which."""
    found = _found_in(folder)
    readable = [entry for entry in found if can_be_read(entry.called)]
    if not found:
        what = "a folder without anything that gpuprof reads" if any(folder.iterdir()) else "an empty folder"
        raise InputError(f"{folder} is {what}", f"gpuprof reads {known()}")
    if not readable:
        raise _unreadable(folder, found[0].path)
    traces = [entry.path for entry in readable if entry.called == TRACE and entry.path.parent == folder]
    if len(traces) == len(readable):
        return _ranks_of_one_run(folder, traces)
    raise _several_kinds(folder, readable)


def _found_in(folder: Path) -> list[_Found]:
    """Return what can be read in a folder, or in the first level of folders in it with any; else what is known."""
    level = [folder]
    known_files: list[_Found] = []
    for _ in range(_LEVELS):
        files, level = _listed(level)
        files.sort(key=lambda path: (not has_name_of_a_file(path.name), path))
        named = ((path, recognised(str(path), SAMPLE_BYTES)) for path in files[:_MOST_FILES])
        found = [_Found(path, called) for path, called in named if called is not None]
        if any(can_be_read(entry.called) for entry in found):
            return found
        known_files = known_files or found
    return known_files


def _listed(folders: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return files that are not empty, and folders, in folders. Raises InputError if a single one cannot be listed."""
    files: list[Path] = []
    below: list[Path] = []
    left = _MOST_ENTRIES
    for folder in folders[:_MOST_FILES]:
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, left):
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        below.append(folder / entry.name)
                    elif _has_content(folder / entry.name):
                        files.append(folder / entry.name)
        except OSError as error:
            if len(folders) == 1:
                raise InputError(f"{folder} cannot be read: {(error.strerror or str(error)).lower()}") from error
    return files, sorted(below)


def _has_content(path: Path) -> bool:
    """Tell whether it is a file that is not empty; those of /proc, which may never end, have no size."""
    try:
        status = path.stat()
    except OSError:
        return False
    return S_ISREG(status.st_mode) and status.st_size > 0


def _unreadable(folder: Path, path: Path) -> InputError:
    """Return what the first file is, and what to do instead."""
    try:
        kind_of(look_at(path, str(path), SAMPLE_BYTES))
    except InputError as error:
        return InputError(f"{folder} is a folder without anything that gpuprof reads: {error.message}", error.hint)
    return InputError(f"{folder} is a folder", f"name a file in it: {typed(path)}")


def _several_kinds(folder: Path, found: Sequence[_Found]) -> InputError:
    """Return what is in a folder, and a file or folder of it to name: what gpuprof has written itself comes first."""
    kinds = Counter(re.sub("^an? ", "", entry.called) for entry in found)
    listed = ", ".join(f"{number} × {kind}" for kind, number in kinds.most_common())
    first = min(found, key=lambda entry: entry.path.name != "session.json").path
    inside = first if first.parent == folder or found[0].called != TRACE else first.parent
    return InputError(f"{folder} is a folder: {listed}", f"name what you want to see, such as {typed(inside)}")


def _ranks_of_one_run(folder: Path, traces: Sequence[Path]) -> Sequence[Path]:
    """Return traces in the order of ranks. Raises InputError if they are not of the ranks of one run."""
    if len(traces) == 1:
        return traces
    ranks = _ranks(traces)
    owners: list[_Rank | str] = [*ranks] or [_TIME_IN_NAME.sub("", path.name) for path in traces]
    newest: dict[_Rank | str, Path] = {}
    for path, owner in sorted(zip(traces, owners, strict=True), key=lambda pair: _age(pair[0])):
        newest[owner] = path
    if len(newest) < len(traces):
        files = " ".join(map(typed, list(newest.values())[-_MOST_NAMED:]))
        of = f"{len(newest)} {'ranks' if ranks else 'processes'}" if len(newest) > 1 else "one process"
        raise InputError(
            f"{folder} has {len(traces)} traces of {of}, recorded one after the other, and not one for each rank",
            f"name the newest{' of each' if len(newest) > 1 else ''}: {files}",
        )
    if not ranks or len({rank.ranks for rank in ranks}) > 1:
        endings = {match[0] for path in traces if (match := _ENDING.search(path.name))}
        every = f"{typed(folder)}/*{endings.pop() if len(endings) == 1 else '.json*'}"
        raise InputError(
            f"{folder} has {len(traces)} traces, and they do not say that they are of the ranks of one run",
            f"name one, such as {typed(max(traces, key=_age))}; if they are ranks of one run, name them all: {every}",
        )
    return [path for _, path in sorted(zip(ranks, traces, strict=True))]


def _ranks(traces: Sequence[Path]) -> list[_Rank]:
    """Return the rank of each trace: as the traces say, or else their names; none if neither says it of all."""
    for rank_of in (_rank_inside, _rank_in_name):
        ranks: list[_Rank] = []
        for path in traces:
            rank = rank_of(path)
            if rank is None:
                break
            ranks.append(rank)
        if len(ranks) == len(traces):
            return ranks
    return []


def _rank_inside(path: Path) -> _Rank | None:
    with suppress(InputError, OSError, ValueError, RecursionError):
        look = look_at(path, str(path))
        for size in (SAMPLE_BYTES, _MOST_OF_TRACE):
            _, name, behind = look.first(size).partition(b'"distributedInfo"')
            if name:
                text = behind.partition(b":")[2].lstrip().decode("utf-8", "replace")
                info, _ = json.JSONDecoder().raw_decode(text)
                rank = count(info.get("rank")) if isinstance(info, dict) else None
                return _Rank(rank, count(info.get("world_size"))) if rank is not None else None
    return None


def _rank_in_name(path: Path) -> _Rank | None:
    match = _RANK_IN_NAME.search(path.name)
    return _Rank(int(match[1]), None) if match else None


def _age(path: Path) -> tuple[int, float]:
    """Return what orders traces by time: the time in the name, as PyTorch puts it there, or else that of the file."""
    match = _TIME_IN_NAME.search(path.name)
    return (int(match[1]) if match else 0, path.stat().st_mtime)
