"""Short names that tell the files of a session from each other, for views that show kernels of several files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from gpuprof.model.session import KernelProfile, Session
from gpuprof.text import cut_middle, printable
from gpuprof.words.file_names import file_name

_LONGEST, _SHORTEST = 40, 3
_SEPARATORS = "-_. /\\"
_PART = re.compile(r"[^-_. /\\]*[-_. /\\]+|[^-_. /\\]+")


def in_source(session: Session, kernel: KernelProfile) -> str:
    """Write behind a kernel's name where it came from: " in Baseline", " on rank 3"; empty for one file."""
    name = source_name(session, kernel)
    if not name:
        return ""
    return f" {'on' if name == _rank_text(kernel) else 'in'} {name}"


def source_name(session: Session, kernel: KernelProfile) -> str:
    """Return the rank that a kernel ran on, else the short name of its file; empty for a session of one file.

    What was surveyed is one run, whatever its profile is in.
    """
    surveys = sum(source.is_survey for source in session.sources)
    if (len(session.sources) - surveys or surveys) < 2:
        return ""
    if kernel.rank is not None:
        return _rank_text(kernel)
    if surveys:
        return ""
    return short_names(tuple(source.file for source in session.sources))[kernel.source]


def _rank_text(kernel: KernelProfile) -> str:
    return f"rank {kernel.rank}" if kernel.rank is not None else ""


@lru_cache(maxsize=16)
def short_names(files: tuple[str, ...]) -> tuple[str, ...]:
    """Shorten the names of files to what tells them apart: "run-base.ncu-rep", "run-fused.ncu-rep" → "base", "fused".

    Files of one name in several folders keep what differs in their folders; where nothing differs, they are numbered.
    """
    paths = [printable(file) for file in files]
    names = [file_name(path) for path in paths]
    stems = [PurePosixPath(name).stem for name in names]
    for candidates in (_what_differs(stems), names, _what_differs(paths)):
        short = tuple(cut_middle(name, _LONGEST) for name in candidates)
        if all(short) and len(set(short)) == len(files):
            return short
    return tuple(f"file {number}" for number in range(1, len(files) + 1))


def _what_differs(names: Sequence[str]) -> list[str]:
    """Drop the parts that all names begin with, and those that all end with."""
    rests = _without_common_start([_PART.findall(name) for name in names])
    rests = [parts[::-1] for parts in _without_common_start([parts[::-1] for parts in rests])]
    return ["".join(parts).strip(_SEPARATORS) for parts in rests]


def _without_common_start(names: list[list[str]]) -> list[list[str]]:
    """Drop first parts while they are equal and what is left of each name is no mere letter or two."""
    while len({tuple(parts[:1]) for parts in names}) == 1:
        rest = [parts[1:] for parts in names]
        if min(len("".join(parts).strip(_SEPARATORS)) for parts in rest) < _SHORTEST:
            break
        names = rest
    return names
