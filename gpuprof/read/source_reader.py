"""Source and SASS of a report's launches: from the programs that it embeds, and from NVIDIA's reader what they lack.

NVIDIA's reader is loaded for a question that the embedded program leaves open: no nvdisasm for its chip, no cubin, an
address outside. nvdisasm takes 0.2 to 0.4 s to start, so the first question has the code of all kernels read at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple

from gpuprof.read.ncu_code import CodeReader, InstructionPlace
from gpuprof.read.source_data import SourceData
from gpuprof.read.source_text import FunctionCode, TextStore

_MOST_AHEAD = 2**19
"""Bytes of code that are read before they are asked for: 33,000 instructions, of 20 µs each."""
_MOST_KERNELS = 500


_VOLTA = ("sm_70", "sm_72")
_WITHOUT_VOLTA = (2026, 2)
"""From this release on, NVIDIA's reader has no text of Volta."""


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
    `native` makes the reader that is asked for the rest. `kernels` gives the number of a launch of each kernel.
    """

    __slots__ = ("_kernels", "_last", "_make_native", "_native", "_program_of", "_store", "_textless")

    def __init__(
        self,
        program_of: Callable[[int], LaunchProgram | None],
        native: Callable[[], CodeReader],
        kernels: Callable[[], Iterable[int]],
    ) -> None:
        self._program_of = program_of
        self._make_native = native
        self._native: CodeReader | None = None
        self._kernels = kernels
        self._store = TextStore()
        self._last: tuple[int, LaunchProgram | None] | None = None
        self._textless: set[str] = set()

    def prepare(self) -> None:
        """Let NVIDIA's reader begin where the first launch's program will be asked of it; there is such a launch."""
        program = self._program_of(0)
        if program is None or program.data.function(program.mangled) is None:
            self._asked().prepare()

    def sources(self, number: int) -> Mapping[str, str]:
        """Return embedded source text by file name; empty text where only the name was recorded."""
        program = self._program(number)
        sources = program.data.sources() if program is not None else None
        return sources if sources is not None else self._asked().sources(number)

    def places(self, number: int, pcs: Sequence[int]) -> dict[int, InstructionPlace]:
        """Return text and source position of these instructions."""
        program = self._program(number)
        if program is None:
            return self._asked().places(number, pcs)
        self._read(program)
        places = program.data.places(pcs, self._store, program.own)
        unknown = [pc for pc in pcs if pc not in places]
        if not unknown:
            return places
        lines = program.data.lines(unknown, program.own)
        target = program.data.target
        if len(lines) == len(unknown) and (target in self._textless or (target in _VOLTA and _has_forgotten_volta())):
            return places | {pc: InstructionPlace("", *(line or (None, None))) for pc, line in lines.items()}
        told = self._asked().places(number, unknown)
        if target is not None and lines and not self._store.reads(target) and not any(told[pc].sass for pc in lines):
            self._textless.add(target)
        return places | told

    def start(self, number: int) -> int | None:
        """Return the address of a launch's kernel; None where neither its program nor the launch tells it."""
        program = self._program(number)
        if program is None:
            return None
        start = program.data.starts.get(program.mangled)
        return start if start is not None or program.own is None else program.own[1]

    def text(self, number: int) -> Mapping[int, str] | None:
        """Return the SASS of a launch's kernel by offset, jumps to offsets, too; None where no nvdisasm tells it."""
        program = self._program(number)
        if program is None:
            return None
        self._read(program)
        return program.data.text(program.mangled, self._store)

    def _program(self, number: int) -> LaunchProgram | None:
        """Return a launch's program; the questions on a launch come one behind another."""
        if self._last is None or self._last[0] != number:
            self._last = number, self._program_of(number)
        return self._last[1]

    def _asked(self) -> CodeReader:
        if self._native is None:
            self._native = self._make_native()
        return self._native

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


@cache
def _has_forgotten_volta() -> bool:
    """Tell whether NVIDIA's reader, as it is installed, has no text of Volta; it need not be asked then."""
    from importlib.metadata import PackageNotFoundError, version  # takes 10 ms to import

    try:
        release = re.findall(r"\d+", version("ncu-report"))[:2]
    except PackageNotFoundError:
        return False
    return tuple(map(int, release)) >= _WITHOUT_VOLTA
