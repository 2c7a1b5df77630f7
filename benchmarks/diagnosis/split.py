"""Cuts a report of several cases into one a case: the same bytes of ncu's, with the launches of that case alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.recordings.report_parts import excerpt, raw_blocks
from gpuprof.errors import InputError
from gpuprof.read.ncu_details import reference_of
from gpuprof.read.nvtx_state import nvtx_ranges
from gpuprof.read.protobuf import all_bytes, by_number, last_number, last_text

_THREAD, _FUNCTION, _SOURCE, _NVTX = 1, 6, 15, 21
"""Fields of a ProfileResult."""


class _Seen(NamedTuple):
    """A launch of a report: where its message lies, its kernel, the ranges around it, and the number of its program."""

    place: int
    kernel: str
    ranges: tuple[str, ...]
    program: int | None


def split(data: bytes, launched: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    """Return a report for each case that has all its launches in a report: the kernels that were launched, by case.

    A launch is of the case whose name is that of the range around it; where no launch has a range, of the case whose
    turn it is. Raises InputError where the launches are then others than were made, Malformed for a damaged report.
    """
    seen = list(_launches(data))
    by_case: dict[str, list[_Seen]] = {name: [] for name in launched}
    if any(name in launch.ranges for launch in seen for name in launched):
        for launch in seen:
            for name in launched:
                if name in launch.ranges:
                    by_case[name].append(launch)
    else:
        made = [(name, kernel) for name, kernels in launched.items() for kernel in kernels][: len(seen)]
        if [kernel for _, kernel in made] != [launch.kernel for launch in seen]:
            raise InputError("no launch is in a range, and they are not those that were made", "record it again")
        for (name, _), launch in zip(made, seen, strict=True):
            by_case[name].append(launch)
    programs = _programs(data)
    return {
        name: excerpt(
            data,
            [launch.place for launch in launches],
            {place for launch in launches for place in programs.get(launch.program, ())},
        )
        for name, launches in by_case.items()
        if sorted(launch.kernel for launch in launches) == sorted(launched[name])
    }


def _launches(data: bytes) -> Iterator[_Seen]:
    for block in raw_blocks(data):
        for start, end in block.kernels:
            entries = by_number(data[start:end], start)
            thread, source = last_number(entries, _THREAD), all_bytes(entries, _SOURCE)
            yield _Seen(
                place=start,
                kernel=last_text(entries, _FUNCTION),
                ranges=tuple(name for state in all_bytes(entries, _NVTX) for name in nvtx_ranges(state, thread)),
                program=reference_of(source[-1]) if source else None,
            )


def _programs(data: bytes) -> dict[int | None, list[int]]:
    """Return where the messages of each program lie, by its number."""
    places: dict[int | None, list[int]] = {}
    for block in raw_blocks(data):
        for start, end in block.sources:
            places.setdefault(reference_of(data[start:end]), []).append(start)
    return places
