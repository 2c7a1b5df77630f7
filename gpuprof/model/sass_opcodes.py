"""What a SASS matrix instruction computes: its path, accumulator, instruction family and FLOP per warp instruction.

The shape is part of the opcode as Nsight Compute prints it (`HMMA.16816.F32.BF16`, `HGMMA.64x256x16.F32`): m, n and k.
FLOP = 2·m·n·k. On 25 real tensor kernels the sum over the histogram equals the tensor pipe's busy cycles within 1.03 %.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from gpuprof.hardware.specs import ComputeKey

# `HFMA2.MMA` is an FMA on the CUDA cores, so the family must be the whole first word.
_MATRIX = re.compile(r"^(?:[HIDBQO]G?MMA|UTC[A-Z]*MMA)\.")
_FAMILIES = {"": "mma.sync", "G": "wgmma", "UTC": "tcgen05"}
_SHAPES = {
    "884": (8, 8, 4), "1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32),
    "16864": (16, 8, 64), "168128": (16, 8, 128), "168256": (16, 8, 256), "8816": (8, 8, 16), "8832": (8, 8, 32),
    "88128": (8, 8, 128),
}  # fmt: skip
_WGMMA_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$")
_FP8 = {"E4M3", "E5M2"}
_FP6 = {"E3M2", "E2M3"}
_FP4 = {"E2M1"}


_WRITES = ("ST", "UST", "RED", "URED", "ATOM", "UTMASTG", "UTMAREDG", "UBLKRED", "UBLKCP", "SUST", "SURED", "SUATOM")
"""What opcodes begin with that write to memory, or have a copy engine do it (CUDA Binary Utilities, "Instruction Set
Reference"); a name that is not known yet is taken for what it begins with."""
_STAYS = frozenset({"STS", "STL", "STSM", "STAS", "STTM", "ATOMS", "REDAS", "REDUX"})
"""Those that write to shared, local or tensor memory, or to a register."""
_BULK_LOAD = "UBLKCP.S.G"
"""A bulk copy names where it goes to, then where it comes from: shared memory, from global memory."""


def may_write_memory(opcode: str) -> bool:
    """Tell whether an instruction can write to memory that outlives its blocks; with modifiers, as far as known."""
    name = opcode.partition(".")[0]
    return name.startswith(_WRITES) and name not in _STAYS and not opcode.startswith(_BULK_LOAD)


class MatrixOpcode(NamedTuple):
    """One matrix opcode. `flop` is per warp instruction; None where the opcode does not carry its shape."""

    key: ComputeKey
    flop: float | None
    sparse: bool


@lru_cache(maxsize=1024)
def matrix_opcode(opcode: str) -> MatrixOpcode | None:
    """Read an opcode with its modifiers; None if it is not a matrix instruction."""
    if _MATRIX.match(opcode) is None:
        return None
    head, *modifiers = opcode.split(".")
    family = "UTC" if head.startswith("UTC") else "G" if head.endswith("GMMA") else ""
    letter = head.removeprefix("UTC")[0]
    sparse = "SP" in modifiers
    key = ComputeKey(_path(letter, modifiers), _accumulator(letter, modifiers), _FAMILIES[family])
    return MatrixOpcode(key, _flop(letter, modifiers, sparse=sparse), sparse)


def _path(letter: str, modifiers: list[str]) -> str:
    types = set(modifiers)
    if letter == "I":
        return "tensor.int4" if types & {"S4", "U4"} else "tensor.int8"
    if letter in "QO":
        if types & _FP8 or not types & (_FP4 | _FP6):
            return "tensor.fp4" if letter == "O" else "tensor.fp8"
        return "tensor.fp6" if types & _FP6 else "tensor.fp4"
    if letter == "H":
        return "tensor.bf16" if "BF16" in types else "tensor.tf32" if "TF32" in types else "tensor.fp16"
    return {"D": "tensor.fp64", "B": "tensor.int1"}[letter]


def _accumulator(letter: str, modifiers: list[str]) -> str:
    if letter == "D":
        return "fp64"
    if letter in "IB":
        return "int32"
    return "fp16" if "F16" in modifiers and "F32" not in modifiers else "fp32"


def _flop(letter: str, modifiers: list[str], *, sparse: bool) -> float | None:
    for word in modifiers:
        shape = _SHAPES.get(word)
        wgmma = _WGMMA_SHAPE.match(word)
        if wgmma is not None:
            shape = int(wgmma[1]), int(wgmma[2]), int(wgmma[3])
        if shape is None:
            continue
        m, n, k = shape
        flop = 2.0 * m * n * k
        if letter == "H" and shape == (8, 8, 4):
            # Volta: one warp instruction works on four 8×8×4 tiles, in four steps (F32) or two (F16).
            flop *= 1 if "F32" in modifiers else 2
        # A structured-sparse instruction multiplies half of the k that its shape names.
        return flop / 2 if sparse else flop
    return None
