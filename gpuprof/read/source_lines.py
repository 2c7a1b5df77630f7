"""The source lines of a cubin's functions, as NVIDIA's reader of reports tells them, kept in the user's cache."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from gpuprof.errors import DamagedInput
from gpuprof.sass.binary.line_program import FileAndLine
from gpuprof.sass.binary.line_table import LineRun, line_runs
from gpuprof.sass.tools.user_cache import UserCache, key_of

_KIND = "function lines 1"
_MOST_STORED = 64 * 2**20
_LARGEST_WITHOUT_CODE = 2**24
"""Of a cubin whose machine code was taken out, the functions are larger than the file."""


class ProgramLines(msgspec.Struct, frozen=True):
    """The lines of functions: files, and for each function numbers in fours: start, end, place of the file, line."""

    files: tuple[str, ...]
    functions: dict[str, tuple[int, ...]]

    def at(self, function: str, offsets: Iterable[int]) -> Iterator[FileAndLine | None]:
        """Yield the source line of each of these instructions of a function; None if it has none."""
        numbers = self.functions.get(function, ())
        starts = numbers[::4]
        for offset in offsets:
            first = 4 * (bisect_right(starts, offset) - 1)
            if first < 0 or offset >= numbers[first + 1]:
                yield None
            else:
                yield self.files[numbers[first + 2]], numbers[first + 3]


def source_lines(cubin: bytes, cache: UserCache) -> ProgramLines | None:
    """Return the lines of all functions, where inlining begins those of the call; None where the table is broken."""
    key = key_of(_KIND, cubin)
    stored = _unpacked(cache.read(key, _MOST_STORED), len(cubin))
    if stored is not None:
        return stored
    try:
        lines = _lines(line_runs(cubin, innermost=False))
    except DamagedInput:
        return None
    if lines.functions:
        cache.write(key, msgspec.json.encode(lines))
    return lines


def _lines(functions: Mapping[str, Sequence[LineRun]]) -> ProgramLines:
    names = dict.fromkeys(run.line[0] for runs in functions.values() for run in runs)
    places = {name: place for place, name in enumerate(names)}
    numbers = {
        function: tuple(chain.from_iterable((start, end, places[file], line) for start, end, (file, line) in runs))
        for function, runs in functions.items()
    }
    return ProgramLines(tuple(names), numbers)


def _unpacked(content: bytes | None, size: int) -> ProgramLines | None:
    """Read the lines of a cubin of a size; None for what they cannot be."""
    if content is None:
        return None
    try:
        stored = msgspec.json.decode(content, type=ProgramLines)
    except (msgspec.DecodeError, ValueError):
        return None
    most = max(2 * size, _LARGEST_WITHOUT_CODE)
    for numbers in stored.functions.values():
        if len(numbers) % 4 or max(numbers[1::4], default=0) > most:
            return None
        if not all(0 <= place < len(stored.files) for place in numbers[2::4]):
            return None
    return stored
