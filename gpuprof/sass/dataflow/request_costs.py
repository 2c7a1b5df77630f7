"""Costs of a memory request by the addresses of its lanes: sectors of global, wavefronts of shared memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from msgspec import Struct

from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.sass.requests import RequestKind, Space
from gpuprof.units import SECTOR_BYTES

_BANKS = 32
_BANK_BYTES = 4
_LINE_BYTES = 128
_MATRICES = ("LDSM", "STSM")


class Access(Struct, frozen=True):
    """One memory instruction of one warp.

    `offsets` has for each lane the distance of its address from lane 0's, in bytes; None if unknown. Lane 0's address
    is `start` more than a multiple of `alignment`, a power of two: 1 if nothing is known of it, larger than the memory
    if all is. `active` are the lanes that may take part; none if the warp never reaches the instruction.
    """

    address: int
    opcode: str
    space: Space
    kind: RequestKind
    width_bytes: int
    offsets: tuple[int, ...] | None = None
    start: int = 0
    alignment: int = 1
    active: tuple[bool, ...] = (True,) * LANES

    @property
    def runs(self) -> bool:
        """Return whether the warp may reach the instruction."""
        return any(self.active)


def sectors(access: Access) -> int | None:
    """Return how many 32-byte sectors of global or local memory one request touches; None if unknown.

    A sector is an aligned 32-byte chunk of a cache line (Nsight Compute, Kernel Profiling Guide, Metrics Decoder).
    The unknown part of lane 0's address counts as zero: an unknown base is a multiple of 128. In local memory the
    same words of all lanes lie side by side (CUDA C++ Programming Guide, Local Memory).
    """
    spans = _spans(access)
    if access.space not in {"global", "local"} or spans is None:
        return None
    if access.space == "local":
        together = SECTOR_BYTES // _BANK_BYTES
        return len({(lane // together, word) for lane, span in spans.items() for word in _pieces(span, _BANK_BYTES)})
    return len({sector for span in spans.values() for sector in _pieces(span, SECTOR_BYTES)})


def needed(access: Access) -> int:
    """Return the sectors (wavefronts, if shared) of a request if its lanes accessed consecutive addresses.

    Bytes that lanes are known to share count once.
    """
    served = _served(access) if access.kind == "load" and access.opcode.startswith("LDS.") else None
    if served is not None and not merges(access):
        return served[1]
    spans = _spans(access)
    if spans is None or access.space == "local":
        size = access.width_bytes if access.space != "local" else max(_BANK_BYTES, access.width_bytes)
        moved = sum(access.active) * size
    else:
        moved = len({byte for span in spans.values() for byte in _pieces(span, 1)})
    return -(-moved // (LANES * _BANK_BYTES if access.space == "shared" else SECTOR_BYTES))


def lane_stride(access: Access) -> int | None:
    """Return the bytes from each active lane to the next, if that is the same for all."""
    if access.offsets is None or sum(access.active) < 2:
        return None
    places = [(lane, offset) for lane, offset in enumerate(access.offsets) if access.active[lane]]
    strides = {(after - before) / (lane - other) for (other, before), (lane, after) in pairwise(places)}
    stride = strides.pop()
    return int(stride) if not strides and stride == int(stride) else None


def _spans(access: Access) -> dict[int, tuple[int, int]] | None:
    """Return the first and the last byte that each active lane touches."""
    if access.offsets is None:
        return None
    begins = (access.start + offset for offset in access.offsets)
    return {lane: (begin, begin + access.width_bytes - 1) for lane, begin in enumerate(begins) if access.active[lane]}


def _pieces(span: tuple[int, int], size: int) -> range:
    """Return the numbers of the aligned pieces of `size` bytes that a lane touches."""
    first, last = span
    return range(first // size, last // size + 1)


def ways(access: Access) -> int | None:
    """Return the degree of bank conflict of a shared-memory request, rounded up; 1 is no conflict.

    That is its wavefronts ÷ the least for its width: 1 for lanes of up to 4 bytes, 2 for 8, 4 for 16.
    """
    served = _served(access)
    return served and -(-served[0] // served[1])


def wavefronts(access: Access, source: Access | None = None) -> int | None:
    """Return the wavefronts of one shared-memory request; None if unknown.

    `source` is the global side of an LDGSTS: data from different cache lines is written in different wavefronts, as
    the counters of A100 show.
    """
    served = _served(access, source)
    return served and served[0]


def _served(access: Access, source: Access | None = None) -> tuple[int, int] | None:
    """Return the wavefronts of a shared-memory request, and its wavefronts without conflicts.

    Successive 32-bit words lie in successive ones of 32 banks, each of which serves one word at a time, to all lanes
    that ask for it (CUDA C++ Programming Guide, Compute Capability 5.x, Shared Memory; 7.x and newer the same). Lanes
    of 8 bytes are served in halves of the warp, of 16 bytes in quarters, which the probes of bank-conflict measure;
    of a load that is `_paired`, twice as many at a time.
    """
    spans = _spans(access)
    if access.space != "shared" or spans is None or (source is not None and source.offsets is None):
        return None
    together = LANES * _BANK_BYTES // max(_BANK_BYTES, access.width_bytes)
    paired = _is_wide_load(access) and _paired(spans, range(LANES))
    together *= 2 if paired else 1
    lines = {}
    if source is not None:
        lines = {lane: begin // _LINE_BYTES for lane, (begin, _) in (_spans(source) or {}).items()}
    groups: dict[tuple[int, int], set[int]] = {}
    for lane, span in spans.items():
        group = lane // together, lines.get(lane, 0)
        groups.setdefault(group, set()).update(_pieces(span, _BANK_BYTES))
    passes = sum(max(Counter(word % _BANKS for word in group).values()) for group in groups.values())
    return passes, min(passes, 2 * len(groups)) if paired else len(groups)


def merges(access: Access) -> bool:
    """Return whether lanes of a shared-memory request share words, so that its wavefronts are unknown.

    Atomics on one word are serialized. Lanes of 8 and 16 bytes may be served in larger groups if some lanes are
    inactive, if they store to the same words, or if only one half of the warp is `_paired`. In these cases
    `wavefronts` is an upper bound. Rows of an LDSM or STSM are served matrix by matrix.
    """
    spans = _spans(access)
    if access.space != "shared" or spans is None or access.opcode.startswith(_MATRICES):
        return False
    words = Counter(word for span in spans.values() for word in _pieces(span, _BANK_BYTES))
    apart = len(words) == sum(words.values())
    if access.kind == "atomic" and not apart:
        return True
    if access.width_bytes <= _BANK_BYTES or (apart and len(spans) == LANES):
        return False
    if _is_wide_load(access) and len(spans) == LANES:
        halves = {_paired(spans, range(first, first + LANES // 2)) for first in (0, LANES // 2)}
        if halves == {_paired(spans, range(LANES))}:
            return False
    at_least = max(Counter(word % _BANKS for word in words).values(), default=0)
    return at_least < (wavefronts(access) or 0)


def _is_wide_load(access: Access) -> bool:
    return access.kind == "load" and access.width_bytes > _BANK_BYTES and not access.opcode.startswith(_MATRICES)


def _paired(spans: Mapping[int, tuple[int, int]], lanes: Iterable[int]) -> bool:
    """Return whether each lane loads the same as lane ^ 1, or each the same as lane ^ 2.

    The register file takes 128 bytes a cycle, and twice that of such loads: one of 16 bytes a lane takes 2 wavefronts
    instead of 4 (https://forums.developer.nvidia.com/t/77228, by NVIDIA, on 7.0 to 7.5; the counters of
    A10G agree for 16 bytes). Other lanes that load the same save none.
    """
    where = list(lanes)
    for distance in (1, 2):
        if all(lane in spans and spans[lane] == spans.get(lane ^ distance) for lane in where):
            return True
    return False
