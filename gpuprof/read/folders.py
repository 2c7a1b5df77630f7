"""Folders instead of files: traces of the ranks of one run are read; for others the error lists what is there."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.errors import InputError
from gpuprof.read.identify import look_at, typed
from gpuprof.read.readers import TRACE, can_be_read, has_name_of_a_file, kind_of, known
from gpuprof.read.recognise import recognised
from gpuprof.timeline.trace import Trace
from gpuprof.units import counted

_MOST_FOLDERS, _MOST_ENTRIES, _MOST_FILES, _MOST_BYTES = 500, 20_000, 500, 2**17
"""So many folders are listed, so many names of each are sorted, and so many bytes of so many files are looked at."""
_MOST_NAMED = 8
_MOST_OF_TRACE = 2**26
"""PyTorch 1.8 wrote behind the events of which rank they are."""
_DISTRIBUTED = re.compile(rb'"distributedInfo"\s*:\s*\{([^{}]{0,999})')
_RANK = re.compile(rb'"rank"\s*:\s*(\d{1,6})')
_RANKS = re.compile(rb'"world_size"\s*:\s*(\d{1,6})')
_RANK_IN_NAME = re.compile(r"(?:(?<![a-z])rank[-_]?|-TP-)(\d{1,6})(?!\d|-[A-Z]P-)", re.IGNORECASE)
"""As programs, vLLM and SGLang name traces; if ranks are split by more than tensors, that part is no rank."""
_UNFINISHED = (".tmp", ".part", ".crdownload")
"""How the name of a file ends that PyTorch's profiler is writing, or left when it was stopped."""
_TIME_IN_NAME = re.compile(r"\.(\d{1,20})(?=\.pt\.trace\.json)")
"""As tensorboard_trace_handler writes it, behind the name of the process."""


class _Rank(NamedTuple):
    """Which rank of how many a trace is of; of how many is None if the trace does not say."""

    rank: int
    ranks: int | None


def files_named(names: Iterable[str]) -> list[str]:
    """Return the files that names mean: a folder means its traces if they are of the ranks of one run.

    Raises InputError for any other folder, with its contents.
    """
    files: list[str] = []
    for name in names:
        files += map(str, _read_of(Path(name))) if _is_folder(name) else [name]
    return files


def with_ranks(traces: Sequence[Trace]) -> Sequence[Trace]:
    """Return several traces with the ranks in their names, if each has another one there and none says its own."""
    ranks = [rank for trace in traces if (rank := _rank_in(trace.file)) is not None]
    say_none = all(trace.rank is None for trace in traces)
    if say_none and len(set(ranks)) == len(traces) > 1 and _count_ranks(ranks):
        return [replace(trace, rank=rank) for trace, rank in zip(traces, ranks, strict=True)]
    return traces


def _count_ranks(numbers: Sequence[int]) -> bool:
    """Return whether numbers count ranks: from 0 on, or one after the other, unlike the ranks of matrices."""
    return min(numbers) == 0 or max(numbers) - min(numbers) < len(numbers)


def _is_folder(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except (OSError, ValueError):
        return False


def _read_of(folder: Path) -> Sequence[Path]:
    """Return the files of a folder that are read. Raises InputError if nothing says which."""
    found = _found_in(folder)
    readable = [path for path, called in found.items() if can_be_read(called)]
    if not readable:
        raise _unreadable(folder, found)
    kinds = Counter(found[path] for path in readable)
    place = readable[0].parent
    if kinds.keys() != {TRACE}:
        # What gpuprof has written itself has all that the reports beside it have.
        example = min(readable, key=lambda path: path.name != "session.json")
    elif place == folder:
        return _ranks_of_one_run(folder, readable)
    else:
        example = place
    listed = ", ".join(counted(number, re.sub("^an? ", "", called)) for called, number in kinds.most_common())
    where = f" in {place}" if place != folder else ""
    hint = f"name what you want to see, such as {typed(example)}"
    others = _beside(place) if example == place else []
    if others:
        names = ", ".join(path.name for path in others[:_MOST_NAMED])
        where += f"; {counted(len(others), 'folder')} beside it {'have' if len(others) > 1 else 'has'} traces, too: "
        where += names + (", …" if len(others) > _MOST_NAMED else "")
        hint += f"; if they are ranks of one run, name them all: {typed(place.parent)}/*/"
    raise InputError(f"{folder} is a folder: {listed}{where}", hint)


def _beside(place: Path) -> list[Path]:
    """Return the other folders beside one that have a trace themselves."""
    folders = sorted(path for path in islice(place.parent.iterdir(), _MOST_FOLDERS) if path != place and path.is_dir())
    return [folder for folder in folders if TRACE in _kinds_in(folder, _names_in(folder)).values()]


def _found_in(folder: Path) -> dict[Path, str]:
    """Return what the files of a folder are called, or those of the first below it, preferably of one to be read."""
    refused: dict[Path, str] = {}
    for place, folders, names in islice(os.walk(folder), _MOST_FOLDERS):
        folders.sort()
        found = _kinds_in(Path(place), names)
        if any(map(can_be_read, found.values())):
            return found
        refused = refused or found
    return refused


def _names_in(folder: Path) -> list[str]:
    return [path.name for path in islice(folder.iterdir(), _MOST_ENTRIES)] if os.access(folder, os.R_OK) else []


def _kinds_in(folder: Path, names: Sequence[str]) -> dict[Path, str]:
    """Return what the files of a folder are called that are known."""
    found = {}
    finished = [name for name in names[:_MOST_ENTRIES] if not name.endswith(_UNFINISHED)]
    for name in sorted(finished, key=lambda name: (not has_name_of_a_file(name), name))[:_MOST_FILES]:
        path = folder / name
        called = recognised(str(path), _MOST_BYTES)
        if called is not None:
            found[path] = called
    return found


def _unreadable(folder: Path, found: Iterable[Path]) -> InputError:
    """Return why nothing of a folder can be read; of the first file that is known, what to do instead."""
    what, hint = "a folder without anything that gpuprof reads", f"gpuprof reads {known()}"
    try:
        if not any(folder.iterdir()):
            what = "an empty folder"
        for path in found:
            kind_of(look_at(path, str(path), _MOST_BYTES))
    except InputError as error:
        return InputError(f"{folder} is {what}: {error.message}", error.hint)
    except OSError as error:
        return InputError(f"{folder} cannot be read: {(error.strerror or str(error)).lower()}")
    return InputError(f"{folder} is {what}", hint)


def _ranks_of_one_run(folder: Path, traces: Sequence[Path]) -> Sequence[Path]:
    """Return traces in the order of ranks. Raises InputError if they are not of the ranks of one run."""
    if len(traces) == 1:
        return traces
    ranks = {path: rank for path in traces if (rank := _rank(path)) is not None}
    known_ranks = len(ranks) == len(traces) and _count_ranks([rank.rank for rank in ranks.values()])
    by_time = sorted(traces, key=lambda path: (_TIME_IN_NAME.findall(path.name), path.stat().st_mtime))
    newest: dict[object, Path] = {}
    for path in by_time:
        newest[ranks[path] if known_ranks else _TIME_IN_NAME.sub("", path.name)] = path
    if len(newest) < len(traces):
        files = " ".join(map(typed, [*newest.values()][-_MOST_NAMED:]))
        of = counted(len(newest), "rank") if known_ranks else counted(len(newest), "process", "es")
        newest_of = "newest of each" if len(newest) > 1 else "newest"
        raise InputError(
            f"{folder} has {len(traces)} traces of {of}, recorded one after the other, and not one for each rank",
            f"name the {newest_of}: {files}",
        )
    if not known_ranks or len({rank.ranks for rank in ranks.values()}) > 1:
        raise InputError(
            f"{folder} has {len(traces)} traces, and they do not say that they are of the ranks of one run",
            f"name one, such as {typed(by_time[-1])}; "
            f"if they are ranks of one run, name them all: {typed(folder)}/*.json*",
        )
    return sorted(traces, key=lambda path: ranks[path].rank)


def _rank(path: Path) -> _Rank | None:
    """Return the rank that a trace says, or else its name; None if its process ran alone."""
    with suppress(InputError, OSError):
        look = look_at(path, str(path))
        info = _DISTRIBUTED.search(look.sample) or _DISTRIBUTED.search(look.first(_MOST_OF_TRACE))
        said = _RANK.search(info[1]) if info else None
        if info and said:
            ranks = _RANKS.search(info[1])
            rank = _Rank(int(said[1]), int(ranks[1]) if ranks else None)
            return rank if rank.ranks != 1 else None
    named = _rank_in(path.name)
    return _Rank(named, None) if named is not None else None


def _rank_in(file: str) -> int | None:
    """Return the rank in the name of a file."""
    match = _RANK_IN_NAME.search(Path(file).name)
    return int(match[1]) if match else None
