"""The block structure of `.ncu-rep` files, walked before anything in them is believed.

Layout (ProfilerReport.proto, which NVIDIA ships in `extras/FileFormat` of Nsight Compute): the magic `NVR\\0`; a length
and a FileHeader message; then blocks, each a length, a BlockHeader message and a payload. The header declares how many
sources and results the payload holds; the payload is that many messages, each behind its length. Lengths are 32-bit
little endian.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct, field

from gpuprof.read.file_bytes import Bytes
from gpuprof.read.protobuf import FieldValue, Malformed, MessageFields, as_bytes, as_int, as_text, fields
from gpuprof.read.result_message import COMMAND_LIST, GRAPH, KERNEL, RANGE, ResultForm

MAGIC = b"NVR\0"
FORMAT = 7
"""The version of all reports from ncu 2020 to 2026."""

# Field numbers of FileHeader, BlockHeader, ReportSessionDetails, VersionInfo, ProcessInfo and ProfilerStringTable.
_FORMAT_VERSION = 1
_NUM_SOURCES, _NUM_RESULTS, SESSION, STRINGS, PAYLOAD_SIZE, PROCESS, _NUM_GRAPHS = 1, 2, 3, 4, 5, 6, 10
_FORMS = {_NUM_RESULTS: KERNEL, 7: RANGE, 8: COMMAND_LIST, 9: GRAPH}
"""What the entries behind the sources are, by the field that declares how many."""
_DECLARED = (_NUM_SOURCES, *_FORMS, _NUM_GRAPHS)
_KNOWN = 10
"""The highest field number of a BlockHeader that is known (Nsight Compute 2026.3)."""
_SESSION_CREATED, _SESSION_VERSION, _SESSION_COMMAND = 2, 8, 11
AGAIN = "copy the report again from where it was recorded, or profile again"
"""What to do about a damaged report."""
_MAX_HEADER = 64 * 1024 * 1024

_Messages = list[tuple[int, int]]


class Damage(NamedTuple):
    """Where a file stops making sense, and why."""

    offset: int
    why: str


class MessageSpan(Struct, frozen=True):
    """Where the message of a result lies in the file, of which kind it is, and which process it comes from."""

    start: int
    end: int
    form: ResultForm
    process: int | None


class Container(Struct, frozen=True):
    """What the blocks of a report declare. `results` counts kernels, ranges, command lists and graphs.

    `names` is the string table: launches refer to metrics by their place in it. `strange` says what gpuprof does not
    know of how the file is made, so that it may not find all results; `unknown`, what it does without.
    """

    results: int
    names: tuple[str, ...]
    versions: dict[str, str]
    command: str | None
    created_s: int | None
    processes: tuple[tuple[int, str], ...]
    spans: tuple[MessageSpan, ...]
    sources: tuple[tuple[int, int], ...]
    strange: str | None
    unknown: str | None
    damage: Damage | None


class _Walk(Struct):
    """What was gathered of the blocks so far."""

    results: int = 0
    strings: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    session: dict[int, FieldValue] = field(default_factory=dict)
    processes: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    spans: list[MessageSpan] = field(default_factory=list)
    sources: _Messages = field(default_factory=list)
    strange: str | None = None
    unknown: str | None = None

    def add(self, block: ReportBlock) -> None:
        """Take a block in."""
        process, declared, messages = None, block.declared, block.messages
        for number, value, at in block.fields:
            if number == SESSION:
                _read_session(as_bytes(value, at), at, self.versions, self.session)
            elif number == STRINGS:
                self.strings.extend(as_text(as_bytes(s, at)) for _, s, _ in fields(as_bytes(value, at), at))
            elif number == PROCESS:
                named = as_bytes(value, at)
                if named not in self.processes:
                    self.processes[named] = _process(named, at)
                process = self.processes[named][0]
            elif number > _KNOWN:
                self.unknown = self.unknown or _field(number)
        sources = declared.get(_NUM_SOURCES, 0)
        self.sources.extend(messages[:sources])
        there = [form for number, form in _FORMS.items() if declared.get(number)]
        self.results += sum(declared.get(number, 0) for number in _FORMS)
        if len(there) > 1:
            self.strange = self.strange or "a block has results of several kinds"
            return
        results = messages[sources + declared.get(_NUM_GRAPHS, 0) :] if there else ()
        self.spans.extend(MessageSpan(start, end, there[0], process=process) for start, end in results)


def walk(data: Bytes) -> Container:
    """Walk all blocks of a report. Damage is a value, not an error: the caller decides whether to salvage."""
    gathered, damage = _Walk(), None
    try:
        version = _version(data)
        if version != FORMAT:
            gathered.strange = f"its format is version {version}"
        for block in blocks(data):
            gathered.add(block)
    except Malformed as broken:
        damage = Damage(broken.at, broken.why)
        if isinstance(broken, _MoreThanKnown):
            gathered.unknown = _field(broken.field)
    command, created = gathered.session.get(_SESSION_COMMAND), gathered.session.get(_SESSION_CREATED)
    return Container(
        results=gathered.results,
        names=tuple(gathered.strings),
        versions=gathered.versions,
        command=as_text(command) if isinstance(command, bytes) else None,
        created_s=created if isinstance(created, int) else None,
        processes=tuple(dict.fromkeys(gathered.processes.values())),
        spans=tuple(gathered.spans),
        sources=tuple(gathered.sources),
        strange=gathered.strange,
        unknown=gathered.unknown,
        damage=damage,
    )


class _MoreThanKnown(Malformed):
    """A block that does not parse and has an unknown field; a newer ncu may have written it."""

    def __init__(self, broken: Malformed, field: int) -> None:
        super().__init__(broken.at, f"{broken.why}, and it has a field {field}, which this gpuprof does not know")
        self.field = field


class ReportBlock(Struct, frozen=True):
    """A block: where its header lies, the fields of that, what they declare, and where the messages lie."""

    header: tuple[int, int]
    fields: MessageFields
    declared: dict[int, int]
    messages: _Messages


def _version(data: Bytes) -> int:
    """Return the version of the format, 0 where the file does not tell."""
    if data[:4] != MAGIC:
        raise Malformed(0, "the file does not start with NVR")
    end = 8 + _length(data, 4)
    if end > len(data):
        raise Malformed(4, "the file header is cut off")
    entries = list(fields(data[8:end], 8))
    return next((value for number, value, _ in entries if number == _FORMAT_VERSION and isinstance(value, int)), 0)


def blocks(data: Bytes) -> Iterator[ReportBlock]:
    """Yield each block once its payload is known to be whole. Raises Malformed if it is not."""
    size = len(data)
    at = 8 + _length(data, 4)
    while at < size:
        start, length = at + 4, _length(data, at)
        if length == 0:  # a stretch of zeros would be millions of them
            raise Malformed(at, "a block header is empty")
        if length > _MAX_HEADER or start + length > size:
            raise Malformed(at, f"a block header of {length} bytes does not fit into the file")
        header = list(fields(data[start : start + length], start))
        declared = _declared(header)
        try:
            messages = _payload_messages(data, start + length, header, wanted=sum(declared.values()), block=at)
        except Malformed as broken:
            highest = max((number for number, _, _ in header), default=0)
            raise _MoreThanKnown(broken, highest) if highest > _KNOWN else broken from None
        yield ReportBlock(header=(start, start + length), fields=header, declared=declared, messages=messages)
        at = messages[-1][1] if messages else start + length


def _field(number: int) -> str:
    return f"a block has a field {number}"


def _declared(header: MessageFields) -> dict[int, int]:
    """Return how many entries of each kind a block's header declares."""
    return {number: as_int(value, where) for number, value, where in header if number in _DECLARED}


def _payload_messages(data: Bytes, at: int, header: MessageFields, *, wanted: int, block: int) -> _Messages:
    """Step over the messages of a payload; their number and lengths must be those that the header declares."""
    end = at + next((as_int(value, where) for number, value, where in header if number == PAYLOAD_SIZE), 0)
    if end > len(data):
        raise Malformed(block, f"a block declares {end - at} bytes and the file has {len(data) - at}")
    messages: _Messages = []
    while at < end:
        start = at + 4
        at = start + _length(data, at)
        if at == start:
            raise Malformed(block, "a block holds an empty entry")
        messages.append((start, at))
        if len(messages) > wanted:
            raise Malformed(block, f"a block declares {wanted} entries and holds more")
    if at != end or len(messages) != wanted:
        raise Malformed(block, f"a block declares {wanted} entries and holds {len(messages)}")
    return messages


def _length(data: Bytes, at: int) -> int:
    length = data[at : at + 4]
    if len(length) < 4:
        raise Malformed(at, "the file ends inside a length")
    return int.from_bytes(length, "little")


def _read_session(message: bytes, at: int, versions: dict[str, str], session: dict[int, FieldValue]) -> None:
    for number, value, where in fields(message, at):
        if number == _SESSION_VERSION:
            entry = {key: as_text(as_bytes(text, where)) for key, text, _ in fields(as_bytes(value, where), where)}
            versions[entry.get(1, "")] = entry.get(2, "")
        elif number in (_SESSION_COMMAND, _SESSION_CREATED):
            session[number] = value


def _process(message: bytes, at: int) -> tuple[int, str]:
    entry = {field: value for field, value, _ in fields(message, at)}
    number, name = entry.get(1, 0), entry.get(3, b"")
    return as_int(number, at), as_text(as_bytes(name, at))
