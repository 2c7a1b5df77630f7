"""Tells the calls of a kernel that are jumps from those that come back."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from gpuprof.code.sass.instruction import JUMPS, Instruction

_LEAVES = JUMPS | {"EXIT", "RET", "KILL", "BSSY"}


def jumping_calls(code: Sequence[Instruction]) -> frozenset[int]:
    """Return the addresses of calls that are jumps: ptxas leaves a long loop by `@P0 CALL.REL.NOINC`.

    From where such a call leads, no RET is reached, in whichever function of the kernel there is one.
    """
    near = [
        instruction for instruction in code if instruction.is_a("CALL.REL.NOINC") and instruction.target is not None
    ]
    if not near:
        return frozenset()
    addresses = [instruction.address for instruction in code]
    index = {address: place for place, address in enumerate(addresses)}
    starts = {0, len(code)}
    for place, instruction in enumerate(code):
        if instruction.target is not None:
            starts.add(bisect_left(addresses, instruction.target))
        if instruction.name in _LEAVES:
            starts.add(place + 1)
    returning = _returning(code, sorted(starts), index)
    return frozenset(
        call.address
        for call in near
        if call.target is not None and call.target in index and index[call.target] not in returning
    )


def _returning(code: Sequence[Instruction], starts: Sequence[int], index: Mapping[int, int]) -> set[int]:
    """Return the beginnings of the blocks from which a RET may be reached, calls taken to come back."""
    before: dict[int, list[int]] = {}
    waiting: list[int] = []
    for start, end in pairwise(starts):
        last = code[end - 1]
        if last.name == "RET":
            waiting.append(start)
        for following in _following(last, end, index):
            before.setdefault(following, []).append(start)
    returning: set[int] = set()
    while waiting:
        start = waiting.pop()
        if start not in returning:
            returning.add(start)
            waiting += before.get(start, ())
    return returning


def _following(last: Instruction, end: int, index: Mapping[int, int]) -> Iterator[int]:
    """Yield where control may go on behind the last instruction of a block; behind BSSY also where lanes reconverge."""
    if last.name in JUMPS | {"BSSY"} and last.target is not None and last.target in index:
        yield index[last.target]
    conditional = last.predicate is not None or (last.name in JUMPS and len(last.operands) > 1)
    if conditional or last.name not in JUMPS | {"EXIT", "RET", "KILL"}:
        yield end
