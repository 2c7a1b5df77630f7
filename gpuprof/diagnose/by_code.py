"""Which accesses cause excess, by the code, where a report counts no excess by instruction: what no other can cause.

It takes a walk through the code, so that it is only imported where excess sectors are worth it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.code.lanes.access import Access, accesses, merges, needed, wavefronts
from gpuprof.code.lanes.constants import constants_for
from gpuprof.code.lanes.values import LANES
from gpuprof.diagnose.access_shape import MOST, CodeShape, LaneShape, ShapeName
from gpuprof.diagnose.case import EXECUTED, Case
from gpuprof.diagnose.lane_shapes import (
    BROKEN_CODE,
    EDGE,
    MOST_ROUNDS,
    LaunchedCode,
    global_requests,
    launched_code,
)
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Evidence, Location

_Key = TypeVar("_Key", bound=Hashable)
_EACH = {"load": "loads", "store": "stores"}
_SHARED = "shared"
_GLOBAL_OPCODES = {"LD": "load", "LDG": "load", "ST": "store", "STG": "store"}
_SHARED_OPCODES = dict.fromkeys(("LDS", "STS", "LDSM", "STSM", "ATOMS", "LDGSTS", "LD", "ST", "ATOM"), _SHARED)
_BANK_BYTES = 4


class ConflictPlace(NamedTuple):
    """The only line that can cause most bank conflicts by the code, and what tells it."""

    location: Location
    evidence: Evidence


class _Suspect(Struct, frozen=True):
    """An access, and how many excess sectors or wavefronts it causes at most, in a request and in all of them."""

    item: ProfiledInstruction
    kind: str
    shape: LaneShape | None
    a_request: float
    most: float


class _Caused(NamedTuple):
    """Whether some accesses cause most of the excess; `share`: how much surely, None where that is not counted."""

    most: bool
    share: float | None


def shape_by_code(case: Case, excess: Mapping[str, float | None]) -> CodeShape | None:
    """Return the shape of the only accesses that can cause most excess by the code; None where others can, too.

    `excess`: the sectors that loads and stores move for nothing, of those of them that do; None where their number was
    not counted. Of these accesses a line is named where those on it alone can cause most.
    """
    runs = _counts_runs(case)
    every = [suspect for suspect in _suspects(case, counted=runs) if suspect.kind in excess]
    counted = excess if runs else dict.fromkeys(excess)
    causes = {
        name: alike
        for name, alike in _grouped(every, _shape_name).items()
        if name not in {None, "misaligned"} and _caused(alike, every, counted).most
    }
    if len(causes) != 1:
        return None
    (alike,) = causes.values()
    return _told(case, alike, _only_line(alike, every, counted), _caused(alike, every, counted).share)


def only_line(case: Case, excess: Mapping[str, float | None]) -> Location | None:
    """Return the only line that can cause most of the excess, judged by opcodes and executions alone."""
    runs = _counts_runs(case)
    named = _named_suspects(case, _GLOBAL_OPCODES, counted=runs)
    every = [suspect for suspect in named if suspect.kind in excess]
    return _place(case, _only_line(every, every, excess if runs else dict.fromkeys(excess)))


def _named_suspects(case: Case, kinds: Mapping[str, str], *, counted: bool) -> Iterator[_Suspect]:
    """Yield accesses known by their opcodes alone. Each may touch one place per lane.

    Yield nothing if some instructions are outside the kernel's own machine code, since they could be accesses too.
    """
    code = case.code
    if not code or code[-1].pc - code[0].pc >= len(case.machine_code):
        return
    for item, opcode in zip(code, case.opcode_names, strict=True):
        kind = kinds.get(opcode.partition(".")[0])
        runs = item.counts.get(EXECUTED, 0.0) if counted else 1.0
        if kind is not None and runs:
            yield _Suspect(item, kind, None, a_request=LANES, most=LANES * runs)


def _counts_runs(case: Case) -> bool:
    return bool(case.recorded.launch.metrics.instances(EXECUTED))


def conflicts_by_code(case: Case, conflicts: float) -> ConflictPlace | None:
    """Return the only line that can cause most of so many wavefronts from conflicts; None where others can, too."""
    every = _shared_suspects(case) if _counts_runs(case) else ()
    line = _only_line(every, every, {_SHARED: conflicts})
    place, share = _place(case, line), _caused(line, every, {_SHARED: conflicts}).share
    if place is None or share is None:
        return None
    return ConflictPlace(place, Evidence("", 100 * share, "%", threshold=MOST.value, role="of-one-line"))


def _shared_suspects(case: Case) -> Sequence[_Suspect]:
    """Return the executed accesses to shared memory that can have bank conflicts."""
    if not case.has_sass:
        return tuple(_named_suspects(case, _SHARED_OPCODES, counted=True))
    launch = _whole_code(case)
    try:
        most = _conflicts_at_most(launch) if launch is not None else {}
    except BROKEN_CODE:
        return ()
    asked = ((item, most.get(item.pc, 0.0), item.counts.get(EXECUTED, 0.0)) for item in case.code)
    return [
        _Suspect(item, _SHARED, None, a_request=extra, most=extra * runs) for item, extra, runs in asked if extra * runs
    ]


@lru_cache(maxsize=32)
def _conflicts_at_most(launch: LaunchedCode) -> Mapping[int, float]:
    """Return by its address how many wavefronts beyond need a request of each shared-memory access takes at most.

    The first and the last warp of a block are followed, and the worse one counts.
    """
    constants = constants_for(launch.target, launch.block, launch.grid)
    last = (math.prod(launch.block) - 1) // LANES
    most: dict[int, float] = {}
    for warp in dict.fromkeys((0, last)):
        for access in accesses(launch.code, launch.block, constants, warp, MOST_ROUNDS):
            if access.space in {"shared", "generic"}:
                most[access.address] = max(most.get(access.address, 0.0), _extra_wavefronts(access))
    return most


def _extra_wavefronts(access: Access) -> float:
    passes = wavefronts(access)
    if passes is None or access.holds.startswith("first turn") or access.kind == "copy" or merges(access):
        return LANES - max(1.0, access.width_bytes / _BANK_BYTES)
    return float(max(0, passes - needed(access)))


def _suspects(case: Case, *, counted: bool) -> Iterator[_Suspect]:
    """Return the global loads and stores of a case that run; each runs once where that was not counted."""
    launch = _whole_code(case)
    try:
        known = global_requests(launch) if launch is not None else {}
    except BROKEN_CODE:
        return
    for item in case.code:
        request = known.get(item.pc)
        runs = item.counts.get(EXECUTED, 0.0) if counted else 1.0
        if request is not None and runs:
            yield _Suspect(item, request.kind, request.shape, a_request=request.most, most=runs * request.most)


def _whole_code(case: Case) -> LaunchedCode | None:
    """Return the code of a case; None where a part of it cannot be read, which could be what causes the excess."""
    launch = launched_code(case)
    return launch if launch is not None and len(launch.code) == len(case.code) else None


def _grouped(suspects: Sequence[_Suspect], by: Callable[[_Suspect], _Key]) -> dict[_Key, list[_Suspect]]:
    groups: dict[_Key, list[_Suspect]] = {}
    for suspect in suspects:
        groups.setdefault(by(suspect), []).append(suspect)
    return groups


def _shape_name(suspect: _Suspect) -> ShapeName | None:
    return suspect.shape.name if suspect.shape is not None else None


def _line(suspect: _Suspect) -> tuple[str | None, int]:
    item = suspect.item
    return (item.file, item.line) if item.file is not None and item.line is not None else (None, item.pc)


def _only_line(
    among: Sequence[_Suspect], every: Sequence[_Suspect], excess: Mapping[str, float | None]
) -> Sequence[_Suspect]:
    """Return those on the line that causes most of the excess alone; nothing where there is none, or two cause half."""
    lines = [line for line in _grouped(among, _line).values() if _caused(line, every, excess).most]
    return lines[0] if len(lines) == 1 else ()


def _caused(group: Sequence[_Suspect], every: Sequence[_Suspect], excess: Mapping[str, float | None]) -> _Caused:
    """Say how much excess these cause at least: what was counted but for the most that others can cause.

    Where it was not counted, they cause most if no other access can cause more than edges do.
    """
    numbers = {kind: number for kind, number in excess.items() if number is not None}
    if len(numbers) < len(excess):
        loud, all_loud = (sum(suspect.a_request > EDGE for suspect in some) for some in (group, every))
        return _Caused(loud == all_loud > 0, None)
    surely = 0.0
    for kind, number in numbers.items():
        own, whole = (sum(suspect.most for suspect in some if suspect.kind == kind) for some in (group, every))
        surely += max(0.0, min(own, number - (whole - own)))
    total = sum(numbers.values())
    share = min(1.0, surely / total) if total > 0 else 0.0
    return _Caused(100 * share >= MOST.value, share)


def _told(case: Case, alike: Sequence[_Suspect], line: Sequence[_Suspect], share: float | None) -> CodeShape | None:
    worst = max(line or alike, key=lambda suspect: suspect.most)
    if worst.shape is None:
        return None
    return CodeShape(
        lanes=worst.shape,
        instructions=len(alike),
        accesses=_EACH[worst.kind] if len({suspect.kind for suspect in alike}) == 1 else "accesses",
        share=share,
        location=_place(case, line),
    )


def _place(case: Case, line: Sequence[_Suspect]) -> Location | None:
    """Return the place of accesses of one line; the share that it has of the excess is not known."""
    most = {suspect.item.pc: suspect.most for suspect in line}
    place = case.place(lambda item: most.get(item.pc, 0.0))
    return replace(place, share=None) if place is not None else None
