"""Turns the code of many kernels into instructions with one call of nvdisasm per target.

nvdisasm takes 0.3 s to start, and 20 µs for an instruction; libraries repeat more than half of theirs. So the kernels
of a target are laid end to end as one raw binary, each instruction once. Its base is so high that an address differs
from any other number, and shows how far it is from the instruction that names it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.instruction import Instruction, Operation, names_address, parse_sass, with_addresses_moved
from gpuprof.sass.tools.programs import NotFinished, Program, find_programs, run

BRINGS_DISASSEMBLER = "python -m pip install 'gpuprof-cli[check]'"
_BEFORE_VOLTA = re.compile(r"sm_[1-6]\d")
"""Instructions of these have 8 bytes, which are not read."""
_VOLTA = ("sm_70", "sm_72")
_FIRST_WITHOUT_VOLTA = (13, 0)
_VOLTA_HINT = "that of CUDA 12 does: python -m pip install triton==3.4.0, or a CUDA 12 toolkit on PATH"
"""No package of nvdisasm alone reads Volta. Triton 3.4 and 3.6 have that of CUDA 12.8."""
_PATIENCE_S, _PATIENCE_S_PER_BYTE = 30.0, 0.0002
"""An instruction takes 25 µs, this allows a hundred times that."""
_MOST_TEXT, _MOST_TEXT_PER_BYTE = 2**20, 256
"""An instruction has 100 to 200 characters, this allows 4,096."""
_MOST_REASON = 300
_AT_ADDRESS = re.compile(r"\bat address 0x([0-9a-f]{1,16})\b")
_ADDRESS_LAST = re.compile(r"(.*[ ,])0x([0-9a-f]{10,})")
_BASE = 1 << 40
_UPPER = (1 << 64) - 1 - (((1 << 17) - 1) << 41)
"""The upper half of an instruction without its bits 105 to 121: cycles to wait, yield, barriers. The four bits of
`.reuse` behind them are in the text (sm_70 and newer)."""
_MOST_KNOWN = 1 << 19
"""When so many instructions are kept, all are dropped."""

Disassembler = Program
"""An nvdisasm."""
InstructionWord = tuple[int, int]


class PlacedText(NamedTuple):
    """An instruction without `.reuse`; with `jump`, an address follows, as an offset in the kernel."""

    text: str
    jump: int | None = None

    def at(self, start: int) -> str:
        """Return the text in a kernel that starts at an address."""
        return self.text if self.jump is None else f"{self.text}{hex(start + self.jump)}"


class _Text(NamedTuple):
    """The text of an instruction, and the address at which it was read if it names one."""

    operation: Operation
    read_at: int | None


_Known = dict[InstructionWord, "_Text | str"]
"""Disassembled instructions; a text is the reason why one is unknown."""
_KNOWN: dict[tuple[Disassembler, str], _Known] = {}


class _Refused(EnvironmentProblem):
    """Instructions that a disassembler does not know, by their numbers, if it names them."""

    def __init__(self, message: str, numbers: frozenset[int]) -> None:
        super().__init__(message)
        self.numbers = numbers


def find_disassemblers() -> tuple[Disassembler, ...]:
    """Return every nvdisasm in wheels, on PATH and in CUDA toolkits, newest first, one per version."""
    return find_programs("nvdisasm")


def disassembler_for(target: str) -> Disassembler | None:
    """Return the newest nvdisasm that may know the target, or None: those of CUDA 13 no longer read Volta."""
    if _BEFORE_VOLTA.fullmatch(target):
        return None
    for tool in find_disassemblers():
        if target not in _VOLTA or tool.version < _FIRST_WITHOUT_VOLTA:
            return tool
    return None


def brings(target: str, *, newer: bool = False) -> str:
    """Return how to get an nvdisasm that reads the target. `newer`: the present one is too old."""
    if target in _VOLTA:
        return _VOLTA_HINT
    if _BEFORE_VOLTA.fullmatch(target):
        return "gpuprof reads code for sm_70 and newer"
    return "python -m pip install --upgrade nvidia-cuda-nvdisasm" if newer else BRINGS_DISASSEMBLER


def disassemble(tool: Disassembler, target: str, codes: Sequence[bytes]) -> list[tuple[Instruction, ...]]:
    """Return the instructions of each kernel, addresses from its own start.

    Raises EnvironmentProblem if nvdisasm fails, or does not know a single instruction.
    """
    listings = []
    for listing in disassembled(tool, target, codes):
        if isinstance(listing, str):
            raise EnvironmentProblem(listing)
        listings.append(listing)
    return listings


def disassembled(tool: Disassembler, target: str, codes: Sequence[bytes]) -> list[tuple[Instruction, ...] | str]:
    """Return the same; for a kernel with an unknown instruction, the reason.

    Code repeats itself: nvdisasm reads each instruction word once, whatever its scheduling, and not again those of the
    last calls. Raises EnvironmentProblem if it fails otherwise.
    """
    known, kernels = _learned(tool, target, codes)
    return [_placed(known, kernel) for kernel in kernels]


def placed_texts(tool: Disassembler, target: str, codes: Sequence[bytes]) -> list[tuple[PlacedText, ...] | str]:
    """Return the texts of each kernel as reports have them; for a kernel with an unknown instruction, the reason.

    Raises EnvironmentProblem if nvdisasm fails otherwise.
    """
    known, kernels = _learned(tool, target, codes)
    return [_placed_texts(known, kernel) for kernel in kernels]


def _learned(tool: Disassembler, target: str, codes: Sequence[bytes]) -> tuple[_Known, list[list[InstructionWord]]]:
    """Return all known instructions, those of these kernels among them, and the instructions of each kernel."""
    if sum(map(len, _KNOWN.values())) > _MOST_KNOWN:
        _KNOWN.clear()
    known = _KNOWN.setdefault((tool, target), {})
    kernels = [_words(code) for code in codes]
    while new := _unknown(codes, kernels, known):
        try:
            known.update(zip(new, _read(tool, target, b"".join(new.values())), strict=True))
        except _Refused as error:
            if not error.numbers:
                raise
            known.update((word, error.message) for number, word in enumerate(new) if number in error.numbers)
    return known, kernels


def _words(code: bytes) -> list[InstructionWord]:
    """Return the instructions of a kernel without their scheduling, which no text shows."""
    halves = memoryview(code).cast("Q")
    return [(low, high & _UPPER) for low, high in zip(halves[::2], halves[1::2], strict=True)]


def _unknown(
    codes: Sequence[bytes], kernels: Sequence[Sequence[InstructionWord]], known: _Known
) -> dict[InstructionWord, bytes]:
    """Return the instructions that are not known yet, with their bytes."""
    unknown: dict[InstructionWord, bytes] = {}
    for code, kernel in zip(codes, kernels, strict=True):
        for index, word in enumerate(kernel):
            if word not in known and word not in unknown:
                unknown[word] = code[INSTRUCTION_BYTES * index : INSTRUCTION_BYTES * (index + 1)]
    return unknown


def _read(tool: Disassembler, target: str, code: bytes) -> list[_Text]:
    instructions = parse_sass(_run(tool, target, code))
    whole = len(code) // INSTRUCTION_BYTES
    if len(instructions) != whole:
        parsed = {(item.address - _BASE) // INSTRUCTION_BYTES for item in instructions}
        raise _Refused(
            f"{len(instructions)} of {whole} instructions could be parsed from the output of {tool}",
            frozenset(range(whole)) - parsed,
        )
    texts = []
    for item in instructions:
        texts.append(_Text(item.operation, item.address if names_address(item.operation, _BASE) else None))
    return texts


def _run(tool: Disassembler, target: str, code: bytes) -> str:
    """Return the text of nvdisasm for raw code, without its analysis of branches, which takes longer than the rest."""
    most = _MOST_TEXT + _MOST_TEXT_PER_BYTE * len(code)
    options = ["--binary", target.replace("sm_", "SM"), "--no-dataflow", "--base-address", hex(_BASE)]
    patience_s = _PATIENCE_S + _PATIENCE_S_PER_BYTE * len(code)
    outcome = run([str(tool.path), *options, "/dev/stdin"], patience_s, stdin=code, most_output=most + 1)
    if outcome.code:
        reason = " ".join(outcome.messages[: 4 * _MOST_REASON].split())[:_MOST_REASON].partition(" at address ")[0]
        addresses = [int(digits, 16) - _BASE for digits in _AT_ADDRESS.findall(outcome.messages)]
        raise _Refused(
            f"{tool} cannot read code for {target}: {reason or outcome.code}",
            frozenset(address // INSTRUCTION_BYTES for address in addresses if 0 <= address < len(code)),
        )
    if len(outcome.output) > most:
        raise NotFinished(f"{tool} wrote more than {most:,} bytes for {len(code):,} bytes of code")
    return outcome.output


def _placed(known: _Known, kernel: Sequence[InstructionWord]) -> tuple[Instruction, ...] | str:
    """Return instructions at their addresses, with the addresses in them moved; or why one of them is not known."""
    placed = []
    for address, word in zip(count(0, INSTRUCTION_BYTES), kernel, strict=False):
        text = known[word]
        if isinstance(text, str):
            return text
        operation, read_at = text
        if read_at is not None:
            operation = with_addresses_moved(operation, _BASE, address - read_at)
        placed.append(Instruction(address, operation))
    return tuple(placed)


def _placed_texts(known: _Known, kernel: Sequence[InstructionWord]) -> tuple[PlacedText, ...] | str:
    """Return the texts of instructions at their places; or why one of them is not known."""
    placed = []
    for address, word in zip(count(0, INSTRUCTION_BYTES), kernel, strict=False):
        text = known[word]
        if isinstance(text, str):
            return text
        spelled = _spelled(text.operation)
        if text.read_at is None:
            placed.append(PlacedText(spelled))
            continue
        named = _ADDRESS_LAST.fullmatch(spelled)
        if named is None:
            return f"the address in {spelled} is not its last operand"
        placed.append(PlacedText(named[1], int(named[2], 16) + address - text.read_at))
    return tuple(placed)


@lru_cache(maxsize=1 << 15)
def _spelled(operation: Operation) -> str:
    return str(Instruction(0, operation)).replace(".reuse", "")
