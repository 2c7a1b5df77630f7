"""Finds nvdisasm and turns the code of many kernels into instructions with one call per target.

nvdisasm takes 0.3 s to start, and 20 µs for an instruction; libraries repeat more than half of theirs. So what the
kernels of a target hold is laid end to end as one raw binary, each instruction once. Its base lies so high that an
address is told from any other number, and says how far it is from the instruction that names it.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import IO, NamedTuple

from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.instruction import Instruction, Operation, names_address, parse_sass, with_addresses_moved
from gpuprof.sass.tools.named_bytes import NamedBytes
from gpuprof.sass.tools.programs import Program, ended, find_programs, within

BRINGS_DISASSEMBLER = "python -m pip install 'gpuprof-cli[check]'"
_VOLTA_HINT = "put an nvdisasm of CUDA 12 on PATH: a toolkit's, or that in the package triton==3.6"
"""What reads code for Volta; no package of nvdisasm alone does."""
_LAST_WITH_VOLTA = (12, 9)
"""That of CUDA 12.8 reads sm_70, that of 13.1 does not, by their own lists; of 13.0 it is not known."""
_OLD_TARGETS = ("sm_50", "sm_52", "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72")
"""Targets that nvdisasm of CUDA 13 no longer reads."""
_PATIENCE_S, _PATIENCE_S_PER_BYTE = 30.0, 0.0002
"""How long nvdisasm may take: an instruction takes 25 µs, this gives it a hundred times that."""
_MOST_TEXT, _MOST_TEXT_PER_BYTE = 2**20, 256
"""Of its text. An instruction has 100 to 200 characters, this gives it 4,096."""
_MOST_REASON = 300
_AT_ADDRESS = re.compile(rb"\bat address 0x([0-9a-f]{1,16})\b")
_ADDRESS_LAST = re.compile(r"(.*[ ,])0x([0-9a-f]{10,})")
_BASE = 1 << 40
_SAID = (1 << 64) - 1 - (((1 << 17) - 1) << 41)
"""The upper half of an instruction without its bits 105 to 121: cycles to wait, yield, barriers. The four bits of
`.reuse` behind them are in the text (sm_70 and newer)."""
_MOST_KNOWN = 1 << 19
"""When so many instructions are kept, all are dropped."""

InstructionWord = tuple[int, int]


class _Text(NamedTuple):
    """What an instruction says, and where it was read if it names an address."""

    operation: Operation
    read_at: int | None


class NotAnswered(EnvironmentProblem):
    """A tool that did not end in time: to ask it for less is no use."""


class Disassembler(Program):
    """An nvdisasm that answers, and its version."""

    __slots__ = ()

    def reads(self, target: str) -> bool:
        """Return whether a disassembler may know the target. Those that know Volta do not know the newest."""
        return self.version <= _LAST_WITH_VOLTA if target in _OLD_TARGETS else True


class PlacedText(NamedTuple):
    """An instruction without `.reuse`; with `jump`, an address behind it, so far from the kernel's start."""

    text: str
    jump: int | None = None

    def at(self, start: int) -> str:
        """Return the text in a kernel that starts at an address."""
        return self.text if self.jump is None else f"{self.text}{hex(start + self.jump)}"


class _Refused(EnvironmentProblem):
    """What a tool says of instructions that it does not know. `numbers` are those that it names, by their places."""

    def __init__(self, message: str, numbers: frozenset[int]) -> None:
        super().__init__(message)
        self.numbers = numbers


_KNOWN: dict[tuple[Disassembler, str], dict[InstructionWord, _Text | str]] = {}
"""What disassemblers have said of instructions, for each target; as a text why they do not know one."""


def disassemble(tool: Disassembler, target: str, codes: Sequence[bytes]) -> list[tuple[Instruction, ...]]:
    """Return the instructions of each kernel, addresses from its own start.

    Raises EnvironmentProblem if nvdisasm fails, or if a single instruction is not understood.
    """
    listings = []
    for listing in disassembled(tool, target, codes):
        if isinstance(listing, str):
            raise EnvironmentProblem(listing)
        listings.append(listing)
    return listings


def disassembled(tool: Disassembler, target: str, codes: Sequence[bytes]) -> list[tuple[Instruction, ...] | str]:
    """Return the same; of a kernel with an instruction that nvdisasm says not to know, what it says.

    Code repeats itself: nvdisasm is asked for each instruction word once, whatever its scheduling, and not again for
    those of the last calls. Raises EnvironmentProblem if it fails otherwise.
    """
    known, by_kernel = _learned(tool, target, codes)
    return [_placed(known, kernel) for kernel in by_kernel]


def placed_texts(tool: Disassembler, target: str, codes: Sequence[bytes]) -> list[tuple[PlacedText, ...] | str]:
    """Return the texts of each kernel as reports have them; of a kernel with an unknown instruction, what it says.

    Raises EnvironmentProblem if nvdisasm fails otherwise.
    """
    known, by_kernel = _learned(tool, target, codes)
    return [_placed_texts(known, kernel) for kernel in by_kernel]


def _learned(
    tool: Disassembler, target: str, codes: Sequence[bytes]
) -> tuple[Mapping[InstructionWord, _Text | str], list[list[InstructionWord]]]:
    """Return what is known of instructions, all of these kernels among them, and the instructions of each kernel."""
    if sum(map(len, _KNOWN.values())) > _MOST_KNOWN:
        _KNOWN.clear()
    known = _KNOWN.setdefault((tool, target), {})
    by_kernel = [_words(code) for code in codes]
    while new := _new(codes, by_kernel, known):
        code = b"".join(new.values())
        try:
            known.update(zip(new, _read(tool, target, code), strict=True))
        except _Refused as error:
            if not error.numbers:
                raise
            known.update((word, error.message) for number, word in enumerate(new) if number in error.numbers)
    return known, by_kernel


def _words(code: bytes) -> list[InstructionWord]:
    """Return the instructions of a kernel, each without how it is scheduled, which no text shows."""
    halves = memoryview(code).cast("Q")
    return [(low, high & _SAID) for low, high in zip(halves[::2], halves[1::2], strict=True)]


def _new(
    codes: Sequence[bytes], by_kernel: Sequence[Sequence[InstructionWord]], known: Mapping[InstructionWord, object]
) -> dict[InstructionWord, bytes]:
    """Return the instructions that are not known as yet, as they are where they come last."""
    places: dict[InstructionWord, tuple[bytes, int]] = {}
    for code, kernel in zip(codes, by_kernel, strict=True):
        places.update((word, (code, index)) for index, word in enumerate(kernel) if word not in known)
    size = INSTRUCTION_BYTES
    return {word: code[size * at : size * (at + 1)] for word, (code, at) in places.items()}


def _placed(
    known: Mapping[InstructionWord, _Text | str], kernel: Sequence[InstructionWord]
) -> tuple[Instruction, ...] | str:
    """Return instructions at their addresses, and those that they name moved; or why one of them is not known."""
    placed = []
    for index, word in enumerate(kernel):
        text = known[word]
        if isinstance(text, str):
            return text
        operation, read_at = text
        address = index * INSTRUCTION_BYTES
        if read_at is not None:
            operation = with_addresses_moved(operation, _BASE, address - read_at)
        placed.append(Instruction.at(address, operation))
    return tuple(placed)


def _placed_texts(
    known: Mapping[InstructionWord, _Text | str], kernel: Sequence[InstructionWord]
) -> tuple[PlacedText, ...] | str:
    """Return the texts of instructions at their places; or why one of them is not known."""
    placed = []
    for index, word in enumerate(kernel):
        learned = known[word]
        if isinstance(learned, str):
            return learned
        operation, read_at = learned
        text = _spelled(operation)
        if read_at is None:
            placed.append(PlacedText(text))
            continue
        named = _ADDRESS_LAST.fullmatch(text)
        if named is None:
            return f"the address in {text} does not stand last"
        placed.append(PlacedText(named[1], int(named[2], 16) + index * INSTRUCTION_BYTES - read_at))
    return tuple(placed)


@lru_cache(maxsize=1 << 15)
def _spelled(operation: Operation) -> str:
    return str(Instruction.at(0, operation)).replace(".reuse", "")


def _read(tool: Disassembler, target: str, code: bytes) -> list[_Text]:
    """Have nvdisasm read instructions, and note of those that name an address where they were read."""
    instructions, whole = parse_sass(_run(tool, target, code)), len(code) // INSTRUCTION_BYTES
    if len(instructions) != whole:
        said = f"{len(instructions)} of {whole} instructions could be parsed from the output of {tool}"
        parsed = {(item.address - _BASE) // INSTRUCTION_BYTES for item in instructions}
        raise _Refused(said, frozenset(range(whole)) - parsed)
    return [
        _Text(item.operation, item.address if names_address(item.operation, _BASE) else None) for item in instructions
    ]


def _run(tool: Disassembler, target: str, code: bytes) -> str:
    """Run nvdisasm on raw code. Its analysis of indirect branches is left out: it takes longer than the rest.

    None of the files has a name in a folder, so that none is left where the process ends meanwhile.
    """
    most = _MOST_TEXT + _MOST_TEXT_PER_BYTE * len(code)
    with tempfile.TemporaryFile() as text, tempfile.TemporaryFile() as log:
        file = NamedBytes(code, "code.bin")
        command = [str(tool.path), "--binary", target.replace("sm_", "SM"), "--no-dataflow"]
        command += ["--base-address", hex(_BASE), file.path]
        patience_s = _PATIENCE_S + _PATIENCE_S_PER_BYTE * len(code)
        try:
            failed = ended(within(command), patience_s, stdout=text, stderr=log, pass_fds=file.handles)
        except subprocess.TimeoutExpired as error:
            raise NotAnswered(f"{tool.path} did not answer within {patience_s:.0f} s") from error
        except OSError as error:
            raise EnvironmentProblem(f"{tool.path} did not answer: {error}") from error
        if failed:
            reason = _reason(log).partition(" at address ")[0] or failed
            raise _Refused(f"{tool} cannot read code for {target}: {reason}", _refused(log, most, len(code)))
        size = text.seek(0, os.SEEK_END)
        if size > most:
            raise NotAnswered(f"{tool} wrote {size:,} bytes for {len(code):,} bytes of code")
        text.seek(0)
        return text.read().decode("utf-8", "replace")


def _reason(log: IO[bytes]) -> str:
    """Return the beginning of what it said of failing, on one line."""
    log.seek(0)
    return " ".join(log.read(_MOST_REASON * 4).decode("utf-8", "replace").split())[:_MOST_REASON]


def _refused(log: IO[bytes], most: int, size: int) -> frozenset[int]:
    """Return the numbers of the instructions that it said not to know: it names the address of each."""
    log.seek(0)
    addresses = (int(digits, 16) - _BASE for digits in _AT_ADDRESS.findall(log.read(most)))
    return frozenset(address // INSTRUCTION_BYTES for address in addresses if 0 <= address < size)


def find_disassemblers() -> tuple[Disassembler, ...]:
    """Return every nvdisasm in wheels, on PATH and in the CUDA toolkit, newest first, one per version."""
    return tuple(Disassembler(*tool) for tool in find_programs("nvdisasm"))


def disassembler_for(target: str) -> Disassembler | None:
    """Return the newest nvdisasm that reads the target, or None."""
    return next((tool for tool in find_disassemblers() if tool.reads(target)), None)


def brings(target: str, *, newer: bool = False) -> str:
    """Return how to get an nvdisasm that reads the target. `newer`: the one found is too old."""
    if target in _OLD_TARGETS:
        return _VOLTA_HINT
    return "python -m pip install --upgrade nvidia-cuda-nvdisasm" if newer else BRINGS_DISASSEMBLER
