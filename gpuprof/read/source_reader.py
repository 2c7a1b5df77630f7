"""Source and SASS of a report's launches, from the programs that it embeds.

nvdisasm takes 0.2 to 0.4 s to start, so the first question has the code of all kernels read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from gpuprof.model.recorded import SASS_TEXT, SOURCE_LINES, Missing
from gpuprof.read.source_data import NOWHERE, InstructionPlace, SourceData
from gpuprof.read.source_text import FunctionCode, TextStore

_MOST_AHEAD = 2**19
"""Bytes of code that are read before they are asked for: 33,000 instructions, of 20 µs each."""
_MOST_KERNELS = 500
_NO_CODE = Missing(SASS_TEXT, "the report has no machine code of it", "profile it again: ncu embeds what it runs")
_BROKEN_CODE = Missing(SASS_TEXT, "the cubin in the report is damaged", "profile it again")
_BROKEN_LINES = Missing(SOURCE_LINES, "the line table of the cubin in the report is damaged", "profile it again")


class LaunchProgram(NamedTuple):
    """The program of a launch, its kernel's symbol, and the addresses that the launch itself says functions to have."""

    data: SourceData
    mangled: str
    addresses: tuple[int, ...] = ()

    @property
    def own(self) -> tuple[str, int] | None:
        """The kernel and its address, where the launch tells that."""
        return (self.mangled, self.addresses[0]) if len(self.addresses) == 1 else None


class SourceReader:
    """Answers for the code of a report's launches, by number. Raises DamagedInput where nothing can be read of it.

    `program_of` gives a launch's program, None where it has none; launches of one program share the `SourceData`.
    `kernels` gives the number of a launch of each kernel.
    """

    __slots__ = ("_kernels", "_last", "_program_of", "_store")

    def __init__(self, program_of: Callable[[int], LaunchProgram | None], kernels: Callable[[], Iterable[int]]) -> None:
        self._program_of = program_of
        self._kernels = kernels
        self._store = TextStore()
        self._last: tuple[int, LaunchProgram | None] | None = None

    def sources(self, number: int) -> Mapping[str, str]:
        """Return embedded source text by file name; empty text where only the name was recorded."""
        program = self._program(number)
        return program.data.sources() if program is not None else {}

    def places(self, number: int, pcs: Sequence[int]) -> dict[int, InstructionPlace]:
        """Return the known texts and source positions of these instructions."""
        program = self._program(number)
        if program is None:
            return dict.fromkeys(pcs, NOWHERE)
        self._read(program)
        return program.data.places(pcs, self._store, program.own)

    def gaps(self, number: int) -> tuple[Missing, ...]:
        """Return what is missing of the code of a launch's kernel, with reasons."""
        program = self._program(number)
        if program is None:
            return (_NO_CODE,)
        lines = (_BROKEN_LINES,) if program.data.has_broken_lines else ()
        code = program.data.function(program.mangled)
        if code is None:
            return (_BROKEN_CODE if program.data.is_broken else _NO_CODE, *lines)
        self._read(program)
        text = self._store.without_text(code)
        return (text, *lines) if text is not None else lines

    def _program(self, number: int) -> LaunchProgram | None:
        """Return a launch's program; the questions on a launch come one behind another."""
        if self._last is None or self._last[0] != number:
            self._last = number, self._program_of(number)
        return self._last[1]

    def _read(self, program: LaunchProgram) -> None:
        """Read the code of a kernel; if nvdisasm has to be started for that, then for others, too."""
        code = program.data.function(program.mangled)
        if code is not None:
            self._store.learn((code,), self._others)

    def _others(self) -> Iterator[FunctionCode]:
        """Yield the code of kernels that were not read, as long as it is not too much."""
        left = _MOST_AHEAD
        seen = set()
        for number in islice(self._kernels(), _MOST_KERNELS):
            program = self._program_of(number)
            code = program.data.function(program.mangled) if program is not None else None
            if code is None or code in seen or self._store.knows(code):
                continue
            seen.add(code)
            left -= len(code.code)
            if left < 0:
                return
            yield code
