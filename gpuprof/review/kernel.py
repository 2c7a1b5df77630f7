"""Compiled kernels and modules of input files, before they are disassembled, and how a kernel is launched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuprof.model.recorded import Dim3
from gpuprof.review.contract import ModuleForm
from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.sass.binary.cubin_attributes import CubinParameter

NO_CODE = "the file has no machine code of it"
NO_CODE_HINT = "check the program or its cubin instead"
SCALAR_BYTES = 8
"""A larger argument is a structure."""
_WORD_BYTES = 4


class ArgumentPart(NamedTuple):
    """A scalar argument, or a part of a structure argument `offset` bytes from its start.

    `path` follows the argument's name: ".stride" for a member, "+8" if members are not known, "" for all of it.
    """

    ordinal: int
    offset: int
    size_bytes: int
    path: str = ""
    name: str | None = None

    def __str__(self) -> str:
        """Return it as --arg names it: "3", "in.stride", "0+8"."""
        return f"{self.name or self.ordinal}{self.path}" if self.path else str(self.ordinal)

    @property
    def words(self) -> str:
        """Return it as sentences name it: "argument 3 (n)", "in.stride", "argument 0+8"."""
        if self.path and self.name:
            return str(self)
        return f"argument {self}" if self.path or not self.name else f"argument {self} ({self.name:.60})"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLaunch:
    """The known launch configuration and arguments. `arguments` are by ordinal; `parts` are parts of structures."""

    block: Dim3 | None = None
    grid: Dim3 | None = None
    dynamic_shared_bytes: int | None = None
    arguments: Mapping[int, int] = field(default_factory=dict)
    parts: Mapping[ArgumentPart, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledKernel:
    """One kernel for one target; from a report, one launch.

    - `lines` maps offsets of instructions to source lines, if its input reader knows them; None: they are in the cubin.
    - `argument_names` are by ordinal; `members` are the members of structure arguments.
    - `label` is the short name, which `review.py` sets.
    - `bare` is the reason why there is no machine code, if there is none.
    """

    name: str
    label: str = ""
    target: str
    origin: str
    cubin: bytes
    kernel: CubinKernel
    shape: KnownLaunch
    launch: int | None = None
    lines: Mapping[int, tuple[str, int]] | None = None
    argument_names: tuple[str | None, ...] = ()
    members: tuple[ArgumentPart, ...] = ()
    notes: tuple[str, ...] = ()
    bare: str | None = None

    @property
    def has_code(self) -> bool:
        """Return whether there is machine code to review."""
        return bool(self.kernel.code)

    def part_at(self, offset: int) -> ArgumentPart | None:
        """Return the part at an offset from the first parameter: a scalar argument, a member, or a word."""
        for parameter in self.kernel.parameters:
            inside = offset - parameter.offset
            if 0 <= inside < parameter.size_bytes:
                if parameter.size_bytes <= SCALAR_BYTES:
                    return ArgumentPart(parameter.ordinal, 0, parameter.size_bytes, name=self.name_of(parameter))
                for member in self.members:
                    if member.ordinal == parameter.ordinal and 0 <= inside - member.offset < member.size_bytes:
                        return member
                return self.word_of(parameter, inside - inside % _WORD_BYTES)
        return None

    def word_of(self, parameter: CubinParameter, offset: int) -> ArgumentPart:
        """Return the four bytes at an offset in an argument, or as many as there are."""
        size = min(_WORD_BYTES, parameter.size_bytes - offset)
        return ArgumentPart(parameter.ordinal, offset, size, f"+{offset}", self.name_of(parameter))

    def name_of(self, parameter: CubinParameter) -> str | None:
        """Return the name of an argument, if it is known."""
        return dict(enumerate(self.argument_names)).get(parameter.ordinal)

    def given(self) -> Iterator[tuple[int, int, int]]:
        """Yield the known arguments: offset from the first parameter, size in bytes, value."""
        for parameter in self.kernel.parameters:
            value = self.shape.arguments.get(parameter.ordinal)
            if value is not None:
                yield parameter.offset, parameter.size_bytes, value
            for part, value in self.shape.parts.items():
                if part.ordinal == parameter.ordinal:
                    yield parameter.offset + part.offset, part.size_bytes, value


@dataclass(frozen=True, slots=True, kw_only=True)
class InputModule:
    """The device code of one file or member: its kernels, or none if it is PTX that nothing compiled.

    `kernels` are those that `--kernel` selects. `holds` is the number of all its kernels, and `names` are their names.
    `tools` are the programs that compiled or unpacked it.
    """

    origin: str
    target: str
    form: ModuleForm
    holds: int
    kernels: tuple[CompiledKernel, ...]
    names: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
