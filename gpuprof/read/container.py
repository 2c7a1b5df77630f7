"""The block structure of `.ncu-rep` files, walked before NVIDIA's reader is trusted with one.

Layout (ProfilerReport.proto, which NVIDIA ships in `extras/FileFormat` of Nsight Compute): the magic `NVR\\0`; a length
and a FileHeader message; then blocks, each a length, a BlockHeader message and a payload. The header declares how many
sources and results the payload holds; the payload is that many messages, each behind its length. Lengths are 32-bit
little endian.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gpuprof.read.file_bytes import Bytes
from gpuprof.read.wire import number, prefixed

MAGIC = b"NVR\0"

# Field numbers of BlockHeader, ReportSessionDetails, VersionInfo, ProcessInfo and ProfilerStringTable.
_NUM_SOURCES, _SESSION, _STRINGS, _PAYLOAD_SIZE, _PROCESS = 1, 3, 4, 5, 6
_NUM_RESULTS = (2, 7, 8, 9)
_SESSION_CREATED, _SESSION_VERSION, _SESSION_COMMAND = 2, 8, 11
# Of ProfileResult: launch dimensions, the first metric (nothing of use comes between), and whether clocks were locked.
_RESULT_MANGLED, _RESULT_GRID, _RESULT_BLOCK, _RESULT_METRICS = 5, 10, 11, 13
_RESULT_SOURCE, _RESULT_SECTION, _RESULT_CLOCKS = 15, 17, 25
# Of SourceData: what results refer to it by, and the cubin.
_SOURCE_REFERENCE, _SOURCE_BINARY = 1, 4
_MAX_HEADER = 64 * 1024 * 1024

FieldValue = int | bytes
MessageFields = list[tuple[int, FieldValue, int]]
Messages = list[tuple[int, int]]


class _Broken(Exception):
    """The bytes do not parse; `at` is the offset in the file."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


class Damage(NamedTuple):
    """Where a file stops making sense, and why."""

    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class Container:
    """What the blocks of a report declare. `results` counts kernels, ranges, command lists and graphs.

    `names` is the string table: launches refer to metrics by their place in it.
    """

    results: int
    names: tuple[str, ...]
    versions: dict[str, str]
    command: str | None
    created_s: int | None
    processes: tuple[tuple[int, str], ...]
    spans: tuple[MessageSpan, ...]
    sources: tuple[tuple[int, int], ...]
    damage: Damage | None


class MessageSpan(NamedTuple):
    """Where the message of one kernel launch lies in the file, and which process launched it."""

    start: int
    end: int
    process: int | None


def walk(data: bytes) -> Container:
    """Walk all blocks of a report. Damage is a value, not an error: the caller decides whether to salvage."""
    results, damage = 0, None
    strings: list[str] = []
    versions: dict[str, str] = {}
    session: dict[int, FieldValue] = {}
    processes: list[tuple[int, str]] = []
    spans: list[MessageSpan] = []
    sources: list[tuple[int, int]] = []
    try:
        for header, messages in _blocks(data):
            programs, kernels = _split_messages(header, messages)
            sources.extend(programs)
            first_process = len(processes)
            for field, value, at in header:
                if field == _SESSION:
                    _read_session(_as_bytes(value, at), at, versions, session)
                elif field == _STRINGS:
                    strings.extend(_text(_as_bytes(s, at)) for _, s, _ in fields(_as_bytes(value, at), at))
                elif field == _PROCESS:
                    processes.append(_process(_as_bytes(value, at), at))
                elif field in _NUM_RESULTS:
                    results += _as_int(value, at)
            process = processes[-1][0] if len(processes) > first_process else None
            spans.extend(MessageSpan(start, end, process) for start, end in kernels)
    except _Broken as broken:
        damage = Damage(broken.at, broken.why)
    command, created = session.get(_SESSION_COMMAND), session.get(_SESSION_CREATED)
    return Container(
        results=results,
        names=tuple(strings),
        versions=versions,
        command=_text(command) if isinstance(command, bytes) else None,
        created_s=created if isinstance(created, int) else None,
        processes=tuple(dict.fromkeys(processes)),
        spans=tuple(spans),
        sources=tuple(sources),
        damage=damage,
    )


def launch_dimensions(
    data: Bytes, span: MessageSpan
) -> tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]:
    """Return grid and block of a launch as its message records them; reports before 2021 have them nowhere else."""
    dimensions = _first_fields(data, span, (_RESULT_GRID, _RESULT_BLOCK), stop=_RESULT_METRICS)
    grid, block = dimensions.get(_RESULT_GRID), dimensions.get(_RESULT_BLOCK)
    return _dim3(grid, span), _dim3(block, span)


def clocks_locked(data: Bytes, span: MessageSpan) -> bool | None:
    """Tell whether ncu held the clocks while it profiled this launch; None where that was not recorded."""
    status = _first_fields(data, span, (_RESULT_CLOCKS,)).get(_RESULT_CLOCKS)
    return bool(_small_numbers(status, span).get(2, 0)) if isinstance(status, bytes) else None


def section_names(data: Bytes, span: MessageSpan) -> tuple[str, ...]:
    """Return the identifiers of the sections that ncu collected for a launch, as far as the message parses."""
    names: list[str] = []
    try:
        for field, value, at in fields(data[span.start : span.end], span.start):
            if field == _RESULT_SECTION and isinstance(value, bytes):
                identifier = next(fields(value, at))[1]
                names.append(_text(_as_bytes(identifier, at)))
    except (_Broken, StopIteration):
        pass
    return tuple(names)


@dataclass(frozen=True, slots=True)
class RawBlock:
    """Where the parts of one block lie: its header, and its messages by kind. `before` is what precedes the block."""

    before: bytes
    header: tuple[int, int]
    sources: Messages
    kernels: Messages
    rest: Messages


def raw_blocks(data: bytes) -> Iterator[RawBlock]:
    """Yield the blocks of an undamaged report."""
    at = 8 + _length(data, 4)
    before = data[:at]
    while at < len(data):
        start = at + 4
        header = (start, start + _length(data, at))
        entries = list(fields(data[slice(*header)], start))
        messages = _payload_messages(data, header[1], entries, at)
        sources, kernels = _split_messages(entries, messages)
        yield RawBlock(before, header, sources, kernels=kernels, rest=messages[len(sources) + len(kernels) :])
        before = b""
        at = messages[-1][1] if messages else header[1]


def raw_fields(message: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield field number, start and end (tag and length included) of each field, as far as the message parses."""
    start = 0
    try:
        for field, _, end in fields(message, 0):
            yield field, start, end
            start = end
    except _Broken:
        return


def metric_result(field: bytes) -> tuple[int, float | str]:
    """Decode a metric result, tag and length included: the number of its name in the string table, and its value.

    ProfileMetricResult: NameId = 1, MetricValue = 2; ProfileMetricValue: string = 1, float = 2, double = 3, uint32 = 4,
    uint64 = 5. What does not parse is not a number.
    """
    try:
        return _metric_result(field)
    except _Broken:
        return 0, math.nan


def _metric_result(result: bytes) -> tuple[int, float | str]:
    content = next((value for _, value, _ in fields(result, 0)), b"")
    name, value = 0, math.nan
    for field, part, _ in fields(_as_bytes(content, 0), 0):
        if field == 1:
            name = _as_int(part, 0)
        elif field == 2 and isinstance(part, bytes):
            for kind, raw, _ in fields(part, 0):
                return name, _metric_value(kind, raw)
    return name, value


def _metric_value(kind: int, raw: FieldValue) -> float | str:
    if isinstance(raw, int):
        return float(raw)
    if kind == 1:
        return _text(raw)
    form = {2: "<f", 3: "<d"}.get(kind)
    return float(struct.unpack(form, raw)[0]) if form is not None and len(raw) == struct.calcsize(form) else math.nan


def resized_header(data: bytes, block: RawBlock, payload_size: int) -> bytes:
    """Return a block's header, behind its length, that declares another payload size."""
    start, end = block.header
    out = b""
    for field, first, last in raw_fields(data[start:end]):
        kept = data[start + first : start + last]
        out += number(_PAYLOAD_SIZE, payload_size) if field == _PAYLOAD_SIZE else kept
    return prefixed(out)


def program_name(data: Bytes, span: MessageSpan) -> tuple[str, int] | None:
    """Return a launch's mangled kernel name and by which number it refers to its cubin; None where it does not."""
    program = _first_fields(data, span, (_RESULT_MANGLED, _RESULT_SOURCE))
    name, source = program.get(_RESULT_MANGLED), program.get(_RESULT_SOURCE)
    if not isinstance(name, bytes) or not isinstance(source, bytes):
        return None
    reference = _small_numbers(source, span).get(_SOURCE_REFERENCE)
    return (_text(name), reference) if reference is not None else None


def cubin_of(data: Bytes, container: Container, reference: int) -> bytes | None:
    """Return the cubin that launches refer to by this number; None where the report embeds none."""
    for start, end in container.sources:
        entry = _first_fields(data, MessageSpan(start, end, None), (_SOURCE_REFERENCE, _SOURCE_BINARY))
        binary = entry.get(_SOURCE_BINARY)
        if entry.get(_SOURCE_REFERENCE) == reference and isinstance(binary, bytes):
            return binary
    return None


def _first_fields(
    data: Bytes, span: MessageSpan, wanted: tuple[int, ...], stop: int | None = None
) -> dict[int, FieldValue]:
    """Return the wanted fields of a message, as far as it parses: what follows altered bytes is as good as missing."""
    values: dict[int, FieldValue] = {}
    try:
        for field, value, _ in fields(data[span.start : span.end], span.start):
            if field == stop:
                break
            if field in wanted:
                values.setdefault(field, value)
    except _Broken:
        pass
    return values


def _small_numbers(message: bytes, span: MessageSpan) -> dict[int, int]:
    """Return the integer fields of a small message; empty if it does not parse."""
    try:
        return {field: value for field, value, _ in fields(message, span.start) if isinstance(value, int)}
    except _Broken:
        return {}


def _dim3(message: FieldValue | None, span: MessageSpan) -> tuple[int, int, int] | None:
    """Read a Uint64x3; a launch whose profiling failed records zeros."""
    entry = _small_numbers(message, span) if isinstance(message, bytes) else {}
    x, y, z = entry.get(1, 0), entry.get(2, 0), entry.get(3, 0)
    return (x, y, z) if x and y and z else None


def _split_messages(header: MessageFields, messages: Messages) -> tuple[Messages, Messages]:
    """Pick the SourceData and the ProfileResult messages of a payload: sources first, ranges and graphs last."""
    declared = {
        field: _as_int(value, where) for field, value, where in header if field in (_NUM_SOURCES, _NUM_RESULTS[0])
    }
    first = declared.get(_NUM_SOURCES, 0)
    return messages[:first], messages[first : first + declared.get(_NUM_RESULTS[0], 0)]


def _blocks(data: bytes) -> Iterator[tuple[MessageFields, Messages]]:
    """Yield each block's header and where the messages of its payload lie, after the payload was found whole."""
    if data[:4] != MAGIC:
        raise _Broken(0, "the file does not start with NVR")
    size = _length(data, 4)
    at = 8 + size
    if at > len(data):
        raise _Broken(4, "the file header is cut off")
    list(fields(data[8:at], 8))
    while at < len(data):
        start = at
        size = _length(data, at)
        if size == 0:  # a stretch of zeros would be millions of them
            raise _Broken(start, "a block header is empty")
        if size > _MAX_HEADER or at + 4 + size > len(data):
            raise _Broken(start, f"a block header of {size} bytes does not fit into the file")
        header = list(fields(data[at + 4 : at + 4 + size], at + 4))
        messages = _payload_messages(data, at + 4 + size, header, start)
        yield header, messages
        at = messages[-1][1] if messages else at + 4 + size


def _payload_messages(data: bytes, at: int, header: MessageFields, block: int) -> Messages:
    """Step over the messages of a payload; their number and lengths must be those that the header declares."""
    declared = {field: _as_int(value, where) for field, value, where in header if field in (1, 2, 5, 7, 8, 9)}
    end = at + declared.pop(_PAYLOAD_SIZE, 0)
    if end > len(data):
        raise _Broken(block, f"a block declares {end - at} bytes and the file has {len(data) - at}")
    wanted = sum(declared.values())
    messages: Messages = []
    while at < end:
        start = at + 4
        at = start + _length(data, at)
        if at == start:
            raise _Broken(block, "a block holds an empty entry")
        messages.append((start, at))
    if at != end or len(messages) != wanted:
        raise _Broken(block, f"a block declares {wanted} entries and holds {len(messages)}")
    return messages


def _length(data: bytes, at: int) -> int:
    if at + 4 > len(data):
        raise _Broken(at, "the file ends inside a length")
    return int.from_bytes(data[at : at + 4], "little")


def fields(message: bytes, base: int) -> Iterator[tuple[int, FieldValue, int]]:
    """Yield (field number, value, where it ends) of a protobuf message at offset `base`: integers and byte strings.

    Bytes that do not parse end it with an error, which this module turns into damage.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at, base)
        field, wire = tag >> 3, tag & 7
        value: FieldValue
        if wire == 0:
            value, at = _varint(message, at, base)
        elif wire == 2:
            size, at = _varint(message, at, base)
            value = message[at : at + size]
            at += size
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value = message[at : at + size]
            at += size
        else:
            raise _Broken(base + at, "a header has a field of unknown type")
        if at > len(message):
            raise _Broken(base + at, "a header field is cut off")
        yield field, value, base + at


def _varint(message: bytes, at: int, base: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise _Broken(base + at, "a header number is cut off")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _read_session(message: bytes, at: int, versions: dict[str, str], session: dict[int, FieldValue]) -> None:
    for field, value, where in fields(message, at):
        if field == _SESSION_VERSION:
            entry = {
                number: _text(_as_bytes(text, where)) for number, text, _ in fields(_as_bytes(value, where), where)
            }
            versions[entry.get(1, "")] = entry.get(2, "")
        elif field in (_SESSION_COMMAND, _SESSION_CREATED):
            session[field] = value


def _process(message: bytes, at: int) -> tuple[int, str]:
    entry = {field: value for field, value, _ in fields(message, at)}
    number, name = entry.get(1, 0), entry.get(3, b"")
    return _as_int(number, at), _text(_as_bytes(name, at))


def _as_int(value: FieldValue, at: int) -> int:
    if isinstance(value, int):
        return value
    raise _Broken(at, "a header field has the wrong type")


def _as_bytes(value: FieldValue, at: int) -> bytes:
    if isinstance(value, bytes):
        return value
    raise _Broken(at, "a header field has the wrong type")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
