"""Reads the attributes of a cubin: what `.nv.info` says of all its functions, and `.nv.info.NAME` of one kernel.

Their numbers are those that cuobjdump names EIATTR_..., found by comparing its text with the bytes, from CUDA 10 to 13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from msgspec import Struct

REGISTERS = 0x2F
FRAME_SIZE = 0x11
MIN_STACK_SIZE = 0x12
_MAX_THREADS = 0x05
_PARAMETER_BANK = 0x0A
_EXTERNS = 0x0F
_REQUIRED_BLOCK = 0x10
_PARAMETER = 0x17
_LARGE_PARAMETER = 0x45
"""EIATTR_KPARAM_INFO_V2, in place of the other where parameters take more than 4 KiB: 16 bits for the size."""
_SYSCALL_OFFSETS = 0x46
_BARRIERS = 0x4C
_SIZED = 4
"""The form of an attribute whose value has a length of its own; others have two bytes."""
_FORMS = (1, 2, 3, _SIZED)

Dims = tuple[int, int, int]


class CubinParameter(Struct, frozen=True, kw_only=True):
    """A parameter of a kernel: its place in the order, and where it lies behind the first one, in bytes."""

    ordinal: int
    offset: int
    size_bytes: int


class KernelAttributes(Struct, frozen=True, kw_only=True):
    """What a cubin says of one kernel. `externs` are symbols, by number."""

    barriers: int | None = None
    max_threads: int | None = None
    required_block: Dims | None = None
    parameters: tuple[CubinParameter, ...] = ()
    parameters_offset: int | None = None
    externs: tuple[int, ...] = ()
    syscalls: tuple[int, ...] = ()


def attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and value of each attribute. Raises ValueError where they do not parse."""
    at = 0
    while at + 4 <= len(content):
        form, number, length = struct.unpack_from("<BBH", content, at)
        if form not in _FORMS:
            raise ValueError(f"an attribute in it has the unknown form {form}")
        value = content[at + 4 : at + 4 + length] if form == _SIZED else content[at + 2 : at + 4]
        if form == _SIZED and len(value) != length:
            raise ValueError("it is truncated within its attributes")
        yield number, value
        at += 4 + (length if form == _SIZED else 0)
    if at != len(content):
        raise ValueError("it is truncated within its attributes")


def by_symbol(content: bytes) -> dict[int, dict[int, int]]:
    """Return what `.nv.info` says of functions: numbers by symbol, by attribute."""
    wanted: dict[int, dict[int, int]] = {REGISTERS: {}, FRAME_SIZE: {}, MIN_STACK_SIZE: {}}
    for number, value in attributes(content):
        if number in wanted and len(value) == 8:
            symbol, amount = struct.unpack("<II", value)
            wanted[number][symbol] = amount
    return wanted


def of_kernel(content: bytes) -> KernelAttributes:
    """Return what `.nv.info.NAME` says of its kernel."""
    by_number: dict[int, bytes] = {}
    parameters = set()
    for number, value in attributes(content):
        if number in (_PARAMETER, _LARGE_PARAMETER) and len(value) == 12:
            _, ordinal, offset, bits = struct.unpack("<IHHI", value)
            parameters.add((ordinal, offset, bits >> 18 if number == _PARAMETER else bits & 0xFFFF))
        by_number[number] = value
    bank = by_number.get(_PARAMETER_BANK, b"")
    return KernelAttributes(
        barriers=by_number[_BARRIERS][0] if _BARRIERS in by_number else None,
        max_threads=_product(_dims(by_number.get(_MAX_THREADS, b""))),
        required_block=_dims(by_number.get(_REQUIRED_BLOCK, b"")),
        parameters=tuple(
            CubinParameter(ordinal=at, offset=offset, size_bytes=size) for at, offset, size in sorted(parameters)
        ),
        parameters_offset=struct.unpack("<IHH", bank)[1] if len(bank) == 8 else None,
        externs=_numbers(by_number.get(_EXTERNS, b"")),
        syscalls=_numbers(by_number.get(_SYSCALL_OFFSETS, b"")),
    )


def _dims(value: bytes) -> Dims | None:
    if len(value) != 12:
        return None
    x, y, z = struct.unpack("<III", value)
    return (x, y, z) if x and y and z else None


def _product(dims: Dims | None) -> int | None:
    return dims[0] * dims[1] * dims[2] if dims else None


def _numbers(value: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(value) // 4}I", value[: len(value) // 4 * 4])
