"""The memory requests of an instruction: their space, bytes per lane, and the operand with the address."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from gpuprof.sass.instruction import Instruction, once_for_each_operation
from gpuprof.units import WARP_THREADS as LANES

Space = Literal["global", "shared", "local", "generic"]
RequestKind = Literal["load", "store", "atomic", "copy"]

_REQUESTS: dict[str, tuple[RequestKind, tuple[Space, ...]]] = {
    "LDG": ("load", ("global",)),
    "STG": ("store", ("global",)),
    "ATOMG": ("atomic", ("global",)),
    "REDG": ("atomic", ("global",)),
    "RED": ("atomic", ("global",)),
    "LDS": ("load", ("shared",)),
    "LDSM": ("load", ("shared",)),
    "STS": ("store", ("shared",)),
    "STSM": ("store", ("shared",)),
    "ATOMS": ("atomic", ("shared",)),
    "LDL": ("load", ("local",)),
    "STL": ("store", ("local",)),
    "LD": ("load", ("generic",)),
    "ST": ("store", ("generic",)),
    "ATOM": ("atomic", ("generic",)),
    "LDGSTS": ("copy", ("shared", "global")),
}
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "F64": 8, "U64": 8, "S64": 8, "128": 16, "256": 32}
_VECTOR = re.compile(r"B?F(\d{1,3})x(\d{1,3})")
_WIDEST = 32
_MATRICES = re.compile(r"(?:LDSM|STSM)\.16\.MT?88(?:\.([24]))?")
_MATRIX_NAMES = {"LDSM", "STSM"}
_ROW_BYTES = 16


class LaneRequest(Struct, frozen=True):
    """One side of a memory instruction. `lanes` is the mask of lanes whose addresses count; 0 if unknown."""

    space: Space
    kind: RequestKind
    width_bytes: int
    operand: str
    lanes: int

    @property
    def wide(self) -> bool:
        """Return whether the address takes two registers."""
        return self.space in {"global", "generic"}


def requests(instruction: Instruction) -> tuple[LaneRequest, ...]:
    """Return the requests of a memory instruction; none for other instructions and for those that never run."""
    return _requests(instruction) if instruction.name in _REQUESTS else ()


@once_for_each_operation
def _requests(instruction: Instruction) -> tuple[LaneRequest, ...]:
    if instruction.idle:
        return ()
    kind, spaces = _REQUESTS[instruction.name]
    places = [operand for operand in instruction.operands if "[" in operand and not operand.startswith("c[")]
    width, lanes = width_bytes(instruction), _lanes(instruction)
    return tuple(LaneRequest(space, kind, width, place, lanes) for space, place in zip(spaces, places, strict=False))


def width_bytes(instruction: Instruction) -> int:
    """Return the bytes that each lane moves. For LDSM and STSM, return the bytes of the row at a lane's address."""
    if instruction.name in _MATRIX_NAMES:
        return _ROW_BYTES
    for part in instruction.opcode.split("."):
        vector = _VECTOR.fullmatch(part)
        if vector:
            return min(_WIDEST, int(vector[1]) * int(vector[2]) // 8)
        if part in _WIDTHS:
            return _WIDTHS[part]
    return 4


def registers_moved(instruction: Instruction) -> int | None:
    """Return the most registers that a memory instruction moves per data operand; None for other instructions.

    32 bytes are in two groups of four.
    """
    if instruction.name not in _REQUESTS:
        return None
    if instruction.name in _MATRIX_NAMES:
        return _matrices(instruction) or 4
    return min(4, -(-width_bytes(instruction) // 4))


def _lanes(instruction: Instruction) -> int:
    """Return the mask of lanes whose addresses count: eight for each matrix of LDSM and STSM (PTX ISA, ldmatrix)."""
    return (1 << (8 * _matrices(instruction) if instruction.name in _MATRIX_NAMES else LANES)) - 1


def _matrices(instruction: Instruction) -> int:
    """Return how many matrices LDSM or STSM moves; 0 if its form is unknown."""
    match = _MATRICES.fullmatch(instruction.opcode)
    return int(match[1] or "1") if match else 0
