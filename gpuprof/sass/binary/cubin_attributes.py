"""Reads the attributes of a cubin: `.nv.info` of all its functions, `.nv.info.NAME` of one kernel.

Their numbers are those that cuobjdump names EIATTR_..., found by comparing its text with the bytes, from CUDA 10 to 13.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from msgspec import Struct

_SIZED = 4
"""The form of an attribute whose value has a length of its own; others have two bytes."""
_FORMS = (1, 2, 3, _SIZED)
_PARAMETER = 0x17
_LARGE_PARAMETER = 0x45
"""EIATTR_KPARAM_INFO_V2, instead of the other if parameters take more than 4 KiB: 16 bits for the size."""
_ANNOTATIONS, _SPILL_REFILL = 0x55, 1
_API_VERSION, _MARKS_SPILLS = 0x37, 129
"""The attribute with the release of the toolkit, ten times, and the first known to mark spills (of 12.9, 13.0, 13.4 and
13.5 all do)."""

Attributes = Mapping[int, Sequence[bytes]]
"""Values by the number of their attribute."""
Dims = tuple[int, int, int]


class CubinParameter(Struct, frozen=True, kw_only=True):
    """A parameter of a kernel: its place in the order, its offset from the first one and its size in bytes."""

    ordinal: int
    offset: int
    size_bytes: int


def attributes(content: bytes) -> dict[int, list[bytes]]:
    """Return the values of each attribute in their order. Raises ValueError if they do not parse."""
    found: dict[int, list[bytes]] = {}
    at = 0
    while at + 4 <= len(content):
        form, number, length = struct.unpack_from("<BBH", content, at)
        if form not in _FORMS:
            raise ValueError(f"an attribute in it has the unknown form {form}")
        start = at + 2
        at += 4
        if form == _SIZED:
            start = at
            at += length
        found.setdefault(number, []).append(content[start:at])
    if at != len(content):
        raise ValueError("it is truncated within its attributes")
    return found


def last_of(found: Attributes, number: int) -> bytes:
    """Return the last value of an attribute, empty if there is none."""
    values = found.get(number)
    return values[-1] if values else b""


def by_symbol(found: Attributes, number: int) -> dict[int, int]:
    """Return the numbers that an attribute gives to symbols."""
    return dict(struct.unpack("<II", value) for value in found.get(number, ()))


def numbers_in(value: bytes) -> tuple[int, ...]:
    """Return a value as numbers of 32 bits."""
    return struct.unpack(f"<{len(value) // 4}I", value[: len(value) // 4 * 4])


def dims_in(value: bytes) -> Dims | None:
    """Return a value as the three sizes of a block; None if it cannot be one."""
    if len(value) != 12 or 0 in numbers_in(value):
        return None
    x, y, z = numbers_in(value)
    return x, y, z


def parameters_in(found: Attributes) -> tuple[CubinParameter, ...]:
    """Return the parameters of a kernel in their order."""
    parameters = []
    for number in (_PARAMETER, _LARGE_PARAMETER):
        for value in found.get(number, ()):
            _, ordinal, offset, bits = struct.unpack("<IHHI", value)
            size = bits >> 18 if number == _PARAMETER else bits & 0xFFFF
            parameters.append(CubinParameter(ordinal=ordinal, offset=offset, size_bytes=size))
    return tuple(sorted(parameters, key=lambda parameter: parameter.ordinal))


def spills_in(found: Attributes) -> frozenset[int] | None:
    """Return the offsets of instructions that are marked as spills; None if the toolkit marks none."""
    spills = set()
    for value in found.get(_ANNOTATIONS, ()):
        numbers = numbers_in(value)
        for kind, offset in zip(numbers[::2], numbers[1::2], strict=False):
            if kind == _SPILL_REFILL:
                spills.add(offset)
    if not spills and int.from_bytes(last_of(found, _API_VERSION), "little") < _MARKS_SPILLS:
        return None
    return frozenset(spills)
