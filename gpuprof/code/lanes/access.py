"""Which addresses the lanes of a warp touch, by the compiled code alone, and what such a request costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from gpuprof.code.lanes.graph import graph_of
from gpuprof.code.lanes.operands import Reader, ThreadBlock
from gpuprof.code.lanes.requests import AccessKind, LaneRequest, Space, requests
from gpuprof.code.lanes.values import LANES, WORD
from gpuprof.code.lanes.walk import Walk
from gpuprof.code.sass import Instruction
from gpuprof.units import SECTOR_BYTES

Holds = Literal["always", "first turn", "block 0", "first turn of block 0"]

_SCOPES: tuple[tuple[bool, Holds, Holds], ...] = (
    (False, "always", "first turn"),
    (True, "block 0", "first turn of block 0"),
)
_ALL = (1 << LANES) - 1
_BANKS = 32
_BANK_BYTES = 4


@dataclass(frozen=True, slots=True)
class Access:
    """One memory instruction of one warp.

    `offsets`: for each lane how far its address lies from that of lane 0, in bytes; None where that is not known.
    Lane 0's address is `start` more than a multiple of `alignment`, a power of two: larger than the memory where all
    of it is known, 1 where nothing is. `active`: the lanes that may take part; none where the warp never comes to the
    instruction. `holds`: when that is so: in each iteration of the loops that the instruction is in, or in the first
    of each; in every block of the grid, or in block 0.
    """

    address: int
    opcode: str
    space: Space
    kind: AccessKind
    width_bytes: int
    offsets: tuple[int, ...] | None = None
    start: int = 0
    alignment: int = 1
    active: tuple[bool, ...] = (True,) * LANES
    holds: Holds = "always"

    @property
    def runs(self) -> bool:
        """Tell whether the warp may come to the instruction."""
        return any(self.active)


def accesses(
    code: Sequence[Instruction],
    block: tuple[int, int, int],
    constants: Mapping[int, int],
    warp: int = 0,
    most_rounds: int | None = None,
) -> tuple[Access, ...]:
    """Return what each memory instruction of a kernel does in one warp of a block of threads.

    `constants` are the known bytes of constant bank 0 by their offset: `constants.constants_for`. What is not
    given, and what is read from memory, is not known. Lanes that diverge are taken to reconverge as soon as their
    paths do, and indices not to wrap around between lanes. An LDGSTS has two entries, its shared and its global side.
    Nothing is known of code that takes more than `most_rounds` through its blocks to know.
    """
    asked = [(instruction, request) for instruction in code for request in requests(instruction)]
    known: dict[tuple[int, Space], Access] = {}
    graph = graph_of(code) if asked else None
    for first, every, once in _SCOPES:
        if graph is not None and (not first or any(access.offsets is None for access in known.values())):
            walk = Walk(graph, ThreadBlock(block, warp, first), constants, most_rounds)
            if not walk.settled:
                break
            walk.every_iteration(partial(_note_access, every, known))
            walk.first_iteration(partial(_note_access, once, known))
    return tuple(
        known.get((instruction.address, request.space), _unknown(instruction, request, 0 if graph else _ALL))
        for instruction, request in asked
    )


def _note_access(
    holds: Holds, known: dict[tuple[int, Space], Access], instruction: Instruction, reader: Reader
) -> None:
    """Note what is known of an instruction that the warp comes to, if nothing is known as yet."""
    for request in requests(instruction):
        old = known.get((instruction.address, request.space))
        if old is None or old.offsets is None:
            access = _access(instruction, request, reader, holds)
            if access.runs and (old is None or access.offsets is not None):
                known[instruction.address, request.space] = access


def _unknown(instruction: Instruction, request: LaneRequest, active: int) -> Access:
    lanes = tuple(bool(active >> lane & 1) for lane in range(LANES))
    address, opcode, width_bytes = instruction.address, instruction.opcode, request.width_bytes
    return Access(address, opcode, request.space, kind=request.kind, width_bytes=width_bytes, active=lanes)


def _access(instruction: Instruction, request: LaneRequest, reader: Reader, holds: Holds) -> Access:
    unknown = _unknown(instruction, request, reader.running() & (request.lanes or _ALL))
    where = reader.address(request.operand, wide=request.wide) if request.lanes else None
    if where is None:
        return unknown
    size = WORD * WORD if request.wide else WORD
    first = where.lanes[0]
    return replace(
        unknown,
        offsets=tuple((lane - first + size // 2) % size - size // 2 for lane in where.lanes),
        start=first % size % (1 << where.align),
        alignment=1 << where.align,
        holds=holds,
    )


def sectors(access: Access) -> int | None:
    """Return how many 32-byte sectors of global memory one request of the warp touches; None where that is not known.

    A sector is an aligned 32-byte chunk of a cache line (Nsight Compute, Kernel Profiling Guide, Metrics Decoder).
    Of lane 0's address, what is not known counts as zero: an unknown base is a multiple of 128.
    """
    if access.space != "global":
        return None
    spans = _spans(access)
    if spans is None:
        return None
    touched = (range(begin // SECTOR_BYTES, end // SECTOR_BYTES + 1) for begin, end in spans.values())
    return len({sector for span in touched for sector in span})


def _spans(access: Access) -> dict[int, tuple[int, int]] | None:
    """Return the first and the last byte that each lane touches, of those that take part."""
    if access.offsets is None:
        return None
    begins = (access.start + offset for offset in access.offsets)
    return {lane: (begin, begin + access.width_bytes - 1) for lane, begin in enumerate(begins) if access.active[lane]}


def ways(access: Access) -> int | None:
    """Return how many times as long as without bank conflicts one shared-memory request takes, rounded up: 1 is none.

    That is its wavefronts ÷ those that its width needs at least: 1 for lanes of 4 bytes and less, 2 of 8, 4 of 16.
    """
    served = _served(access)
    return served and -(-served[0] // served[1])


def wavefronts(access: Access) -> int | None:
    """Return in how many passes the banks serve one shared-memory request; None where that is not known."""
    served = _served(access)
    return served and served[0]


def _served(access: Access) -> tuple[int, int] | None:
    """Return the wavefronts of a shared-memory request, and how many there would be without conflicts.

    Successive 32-bit words lie in successive ones of 32 banks, each of which serves one word at a time, to all lanes
    that ask for it (CUDA C++ Programming Guide, Compute Capability 5.x, Shared Memory; 7.x and newer the same). Lanes
    of 8 bytes are served in halves of the warp, of 16 bytes in quarters, which the probes of bank-conflict measure.
    """
    if access.space != "shared":
        return None
    spans = _spans(access)
    if spans is None:
        return None
    together = LANES * _BANK_BYTES // max(_BANK_BYTES, access.width_bytes)
    groups: dict[int, set[int]] = {}
    for lane, (begin, end) in spans.items():
        groups.setdefault(lane // together, set()).update(range(begin // _BANK_BYTES, end // _BANK_BYTES + 1))
    passes = (max(Counter(word % _BANKS for word in group).values()) for group in groups.values())
    return sum(passes), len(groups)
