"""The program that a report embeds for a launch, a `SourceData` message: sources, functions, lines and text.

Lines come from the line table of the cubin; the text of instructions where an nvdisasm knows the chip.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from gpuprof.errors import DamagedInput
from gpuprof.read.protobuf import Malformed, MessageFields, fields
from gpuprof.read.source_lines import ProgramLines, source_lines
from gpuprof.read.source_text import FunctionCode, TextStore
from gpuprof.sass.binary.cubin import target_of
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES, TEXT, Elf, ElfSection, cubin_elf, refusing_damage
from gpuprof.sass.tools.user_cache import user_cache

_BINARY, _FILES, _RELOCATIONS = 4, 8, 9
_MOST_CODE = 2**24
"""Bytes of a function that are disassembled: a million instructions."""


class InstructionPlace(NamedTuple):
    """The text of an instruction in the spelling of reports, empty where it is not known, and its source position."""

    sass: str
    file: str | None
    line: int | None


NOWHERE = InstructionPlace("", None, None)
"""An unknown instruction."""


_NO_LINES = ProgramLines((), {})


class FunctionSpan(NamedTuple):
    """Where a function lies in the memory of the GPU."""

    start: int
    end: int
    symbol: str


class SourceData:
    """The program of a launch, from the messages of its reference one behind another; the earliest has the cubin.

    Asked again, it remembers. Raises DamagedInput where the message does not parse.
    """

    def __init__(self, message: bytes) -> None:
        self._fields = _whole(message)

    def sources(self) -> dict[str, str]:
        """Return embedded source text by file name; empty text where only the name was recorded."""
        files = [value for field, value, _ in self._fields if field == _FILES and isinstance(value, bytes)]
        entries = [_whole(entry) for part in files for _, entry, _ in _whole(part) if isinstance(entry, bytes)]
        return {_text(entry, 1): _text(entry, 2) for entry in entries}

    @cached_property
    def cubin(self) -> bytes | None:
        """The cubin; None where there is none, or several that differ."""
        return next(iter(self._binaries)) if len(self._binaries) == 1 else None

    @cached_property
    def _binaries(self) -> frozenset[bytes]:
        values = (value for field, value, _ in self._fields if field == _BINARY and value)
        return frozenset(value for value in values if isinstance(value, bytes))

    @cached_property
    def starts(self) -> Mapping[str, int]:
        """The addresses of functions by their symbols; none in reports of old drivers."""
        starts: dict[str, int] = {}
        for part in (value for field, value, _ in self._fields if field == _RELOCATIONS and isinstance(value, bytes)):
            for kind, entry, _ in _whole(part):
                if kind == 1 and isinstance(entry, bytes):
                    function = _whole(entry)
                    address = next((value for field, value, _ in function if field == 2), 0)
                    if isinstance(address, int) and address:
                        starts[_text(function, 1)] = address
        return starts

    def places(
        self, pcs: Sequence[int], store: TextStore, own: tuple[str, int] | None = None
    ) -> dict[int, InstructionPlace]:
        """Return text and source position of these instructions, as far as they are known.

        `own` is a function that the launch itself says the address of.
        """
        by_span = _by_span(pcs, self._spans(own))
        codes = (self.function(span.symbol) for span in by_span)
        store.learn(code for code in codes if code is not None)
        places = dict.fromkeys(pcs, NOWHERE)
        for span, inside in by_span.items():
            code = self.function(span.symbol)
            text = store.text(code) if code is not None else None
            table = self._table if self._table is not None else _NO_LINES
            lines = table.at(span.symbol, (pc - span.start for pc in inside))
            for pc, position in zip(inside, lines, strict=True):
                file, line = position or (None, None)
                sass = text[(pc - span.start) // INSTRUCTION_BYTES].at(span.start) if text is not None else ""
                places[pc] = InstructionPlace(sass, file, line)
        return places

    def function(self, symbol: str) -> FunctionCode | None:
        """Return the machine code of a function; None where the cubin does not have it."""
        if symbol not in self._codes:
            self._codes[symbol] = self._code(symbol)
        return self._codes[symbol]

    @cached_property
    def _codes(self) -> dict[str, FunctionCode | None]:
        return {}

    @cached_property
    def _elf(self) -> Elf | None:
        if self.cubin is None:
            return None
        try:
            with refusing_damage("the cubin"):
                return cubin_elf(self.cubin)
        except DamagedInput:
            return None

    @cached_property
    def _sections(self) -> Mapping[str, ElfSection]:
        """The sections of functions by symbol; empty if the cubin is damaged.

        Where the machine code was taken out of a cubin, its line table tells the lines of functions by their sizes.
        """
        sections: dict[str, ElfSection] = {}
        for section in self._elf.sections if self._elf is not None else ():
            if section.name.startswith(TEXT):
                sections.setdefault(section.name.removeprefix(TEXT), section)
        return sections

    @cached_property
    def target(self) -> str | None:
        """What the cubin is for, such as "sm_90"; None where that is not known."""
        if self._elf is None:
            return None
        try:
            with refusing_damage("the cubin"):
                return target_of(self._elf)
        except DamagedInput:
            return None

    def _code(self, symbol: str) -> FunctionCode | None:
        section = self._sections.get(symbol)
        if section is None or self._elf is None or self.target is None:
            return None
        try:
            code = self._elf.content(section)
        except ValueError:
            return None
        if not code or len(code) > _MOST_CODE or len(code) % INSTRUCTION_BYTES:
            return None
        return FunctionCode(self.target, code)

    @cached_property
    def _table(self) -> ProgramLines | None:
        """The line table of the cubin; None if it is broken."""
        if self._elf is None or self.cubin is None or self._elf.named(".debug_line") is None:
            return _NO_LINES
        return source_lines(self.cubin, user_cache())

    @property
    def is_broken(self) -> bool:
        """Return whether there is a cubin that cannot be read."""
        return bool(self._binaries) and self.target is None

    @property
    def has_broken_lines(self) -> bool:
        """Return whether the cubin has a line table that cannot be read."""
        return self._table is None

    def _spans(self, own: tuple[str, int] | None) -> list[FunctionSpan]:
        """Return where functions lie, in order; none where they overlap, or where two addresses are told for one."""
        starts = dict(self.starts)
        if own is not None and starts.setdefault(*own) != own[1]:
            return []
        spans = sorted(
            FunctionSpan(start, start + self._sections[symbol].size, symbol)
            for symbol, start in starts.items()
            if symbol in self._sections
        )
        apart = all(before.end <= after.start for before, after in pairwise(spans))
        return spans if apart else []


def _by_span(pcs: Iterable[int], spans: Sequence[FunctionSpan]) -> dict[FunctionSpan, list[int]]:
    """Sort instructions by the functions that they lie in; those outside are left out."""
    starts = [span.start for span in spans]
    inside: dict[FunctionSpan, list[int]] = {}
    span = FunctionSpan(0, 0, "")
    here: list[int] = []
    for pc in pcs:
        if not span.start <= pc < span.end:
            at = bisect_right(starts, pc) - 1
            if at < 0 or pc >= spans[at].end:
                continue
            span = spans[at]
            here = inside.setdefault(span, [])
        if not (pc - span.start) % INSTRUCTION_BYTES:
            here.append(pc)
    return inside


def _whole(message: bytes) -> MessageFields:
    try:
        return list(fields(message, 0))
    except Malformed as broken:
        raise DamagedInput(
            "the embedded program is damaged", "everything but source and SASS can still be shown"
        ) from broken


def _text(message: MessageFields, number: int) -> str:
    """Return a text, bytes that are no UTF-8 included; empty where it was not recorded."""
    value = next((value for field, value, _ in message if field == number), b"")
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""
