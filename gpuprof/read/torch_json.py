"""Read the JSON of a PyTorch trace as batches of events, within limits and without a dictionary per event."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, BinaryIO, TypeVar

import msgspec
from msgspec import Raw, Struct

from gpuprof.errors import DamagedInput, InputError
from gpuprof.read.gzip_stream import Unzipped
from gpuprof.read.identify import GZIP
from gpuprof.read.text_encoding import UTF16_MARKS

LARGEST = 2**33
"""Largest unpacked trace, in bytes. It is read in pieces; only what is needed of each event is kept."""
_MOST_TIMES = 100
"""Largest ratio of unpacked to packed size. gzip shrinks 24 real traces 5 to 31 times."""
_ALWAYS = 16 * 2**20
"""Bytes that are unpacked whatever the size of the file."""
_EVENTS_ALWAYS, _BYTES_PER_EVENT = 60_000, 8
"""Maximum number of events of a packed trace: 60,000, plus one for each 8 bytes. 15 real ones have at least 10."""
_LARGEST_VALUE = 4 * 2**20
"""Characters of an event or of a field outside the events. The largest in 24 real traces has 7,000."""
_PIECE = 2**18
_LATEST_NS = 2**62
"""Times and durations are shorter: until the year 2116. The sum of two fits into 64 bits."""
_LARGEST_COUNT = 2**63
_LARGEST_DIM = 2**31
_MOST_DIMS = 64
"""PyTorch's own limit to the dimensions of a tensor."""
_EVENTS = "traceEvents"
_FIELDS = (
    *("schemaVersion", "displayTimeUnit", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "gpuprof"),
    *("with_stack", "record_shapes", "profile_memory", "viztracer_metadata", "metadata"),
)
_SIGN = re.compile(r"[^ \t\n\r]")
_KEY = r'"(?:ph|name|cat|pid|tid|ts|dur|id|args|bp|s|cname)"\s*:'
_NEXT = re.compile(rf"\}}(?=\s*,\s*\{{\s*{_KEY})")
"""The end of an event before another one. No string has it: there the quote of the key would be escaped."""
_LAST = re.compile(rf'{_NEXT.pattern}|\}}(?=\s*\]\s*(?:,\s*"|\}}))')
"""The same, or the end of the last event."""
_SEARCHED = 8192
"""Characters at the end of a piece in which the end of an event is looked for."""
_NAME = re.compile(r'("name"\s*:\s*)"(.*?)"(\s*,\s*"(?:ph|cat|pid|tid|ts|dur|args|id)"\s*:)', re.DOTALL)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
"""An escape of JSON, or a backslash alone."""
_LONGEST_TOKEN = 16
"""JSON text that is cut off is wrong so near its end, if not in a string."""
_FEWER = "trace fewer steps: torch.profiler.schedule(wait=1, warmup=1, active=3)"
_AGAIN = "copy it again; a trace is complete only once export_chrome_trace has returned"
_SALVAGE = "--salvage reads the events before the damage"

Decoded = TypeVar("Decoded")


class TraceEvent(Struct, gc=False):
    """An event as written. Its times and arguments are JSON: see `nanoseconds` and `decoded`."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Raw = Raw()
    dur: Raw = Raw()
    id: Any = None
    args: Raw = Raw()


_EVENT_LIST = msgspec.json.Decoder(list[TraceEvent])


class TraceJson:
    """A trace as a stream of events. With `salvage` damaged events are left out, and a missing end is accepted.

    `fields` holds the needed fields outside the events and `warnings` what was left out, once all events are read.
    """

    def __init__(self, file: BinaryIO, name: str, *, salvage: bool = False) -> None:
        self._name, self._salvage = name, salvage
        self._size = file.seek(0, os.SEEK_END)
        file.seek(0)
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        self._unzipped = _unzipped(file, name, self._size, salvage=salvage) if packed else None
        if self._unzipped is None:
            check_size(self._size, name)
        read = self._unzipped.read1 if self._unzipped is not None else file.read
        self._values = _Values(_texts(read), salvage=salvage)
        self.fields: dict[str, Any] = {}
        self.warnings: list[str] = []

    def events(self) -> Iterator[TraceEvent]:
        """Yield the events. Raises DamagedInput for broken data and InputError if a limit is exceeded."""
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[TraceEvent]]:
        """Yield the events, many at a time. Raises as `events` does."""
        most = _EVENTS_ALWAYS + self._size // _BYTES_PER_EVENT if self._unzipped is not None else None
        try:
            for batch in self._read():
                if most is not None and self._values.count > most:
                    raise InputError(
                        f"{self._name} has more than {most:,} events in {self._size:,} packed bytes",
                        _by_hand(self._name),
                    )
                yield batch
        except (ValueError, RecursionError, ArithmeticError) as error:
            if not self._salvage or not self._values.count:
                raise self._damaged(error) from error
            self._values.ended = error
        except MemoryError as error:
            raise InputError(f"{self._name} is a trace too large for the memory of this machine", _FEWER) from error
        self.warnings += self._left_out()

    def _read(self) -> Iterator[list[TraceEvent]]:
        """Read an object that holds the list of events, or the list alone."""
        if self._values.next_sign() == "[":
            yield from self._values.events(may_end=True)
        else:
            yield from self._from_object()
        if self._values.next_sign():
            raise ValueError("something follows its end")

    def _from_object(self) -> Iterator[list[TraceEvent]]:
        lists = 0
        for field in self._values.names():
            if field == _EVENTS and self._values.next_sign() == "[":
                yield from self._values.events()
                lists += 1
                continue
            value = self._values.value()
            if field in _FIELDS:
                self.fields[field] = value
        if lists != 1:
            raise DamagedInput(f"{self._name} is damaged: it has {lists or 'no'} lists of {_EVENTS}", _AGAIN)

    def _damaged(self, error: Exception) -> DamagedInput:
        """Say where the text is broken, and why as far as that shows."""
        number = self._values.count + 1
        hint = f"{_AGAIN}; {_SALVAGE}" if self._values.count else _AGAIN
        if isinstance(error, _EndsEarly):
            where = f"in event {number:,}" if number > 1 else "before its first event is complete"
            what = f"it ends {where}: it was cut off, or the program ended while it was written"
            return DamagedInput(f"{self._name} is damaged: {what}", hint)
        if isinstance(error, _Unescaped):
            return DamagedInput(
                f"{self._name} is damaged: PyTorch wrote a name in event {number:,} without escaping it: {error}",
                "--salvage reads the other events; record it again with with_stack=False or a newer PyTorch",
            )
        said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        return DamagedInput(f"{self._name} is damaged: it is not valid JSON: {said:.100}", hint)

    def _left_out(self) -> Iterator[str]:
        damaged, number = self._values.damaged, self._values.count
        if damaged:
            yield f"{damaged:,} of {number:,} events {'is' if damaged == 1 else 'are'} damaged and left out"
        if self._unzipped is not None and self._unzipped.damage is not None:
            yield self._unzipped.damage
        if self._values.ended is not None:
            where = "ends in" if isinstance(self._values.ended, _EndsEarly) else "is broken at"
            yield (
                f"the file {where} event {number + 1:,}: {number - damaged:,} events are read, how many are missing "
                "is not known, and shares and idle times are of those read"
            )
        elif self._values.open:
            yield f"the list of events has no end: there may have been more than {number:,}"


class _EndsEarly(ValueError):
    """The text ends where more has to come."""


class _Unescaped(ValueError):
    """An event is broken by a name that was not escaped."""


class _Values:
    """A reader of JSON text that arrives in pieces; it holds only what is being read.

    `count` events were read, `damaged` ones of them left out. `ended` is why there were no more; `open`: the list has
    no bracket at its end.
    """

    def __init__(self, texts: Iterator[str], *, salvage: bool) -> None:
        self._texts, self._salvage = texts, salvage
        self._decode = json.JSONDecoder(parse_float=Decimal, parse_constant=str, strict=False).raw_decode
        self._text = ""
        self._at = 0
        self.count = 0
        self.damaged = 0
        self.ended: Exception | None = None
        self.open = False

    def names(self) -> Iterator[str]:
        """Yield the names of an object's fields. The caller reads each value before the next name."""
        self._skip("{")
        if self.next_sign() == "}":
            self._skip("}")
            return
        while True:
            name = self.value()
            if not isinstance(name, str):
                raise ValueError("the name of a field is not a text")
            self._skip(":")
            yield name
            if self._skip(",}") == "}":
                return

    def events(self, *, may_end: bool = False) -> Iterator[list[TraceEvent]]:
        """Yield the events of a list, as many at a time as are in memory. One that `may_end` needs no bracket."""
        self._skip("[")
        while (sign := self.next_sign()) != "]":
            if not sign:
                if not may_end:
                    raise _EndsEarly
                self.open = True
                return
            yield self._in_memory()
            if (sign := self.next_sign()) == ",":
                self._skip(",")
            elif sign not in ("]", ""):
                raise ValueError(f"{sign} where , or ] should come")
        self._skip("]")

    def _in_memory(self) -> list[TraceEvent]:
        """Return the events that are complete in memory, at least the next one."""
        end = self._last_end(len(self._text) - _SEARCHED) or self._last_end(0)
        if end is None:
            return self._one_by_one(len(self._text))
        try:
            events = _EVENT_LIST.decode(f"[{self._text[self._at : end]}]")
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self._one_by_one(end)
        self._at = end
        self.count += len(events)
        return events

    def _last_end(self, start: int) -> int | None:
        """Return the end of the last event before another one that ends behind a place in the text."""
        end = None
        for match in _NEXT.finditer(self._text, max(self._at, start)):
            end = match.end()
        return end

    def _one_by_one(self, end: int) -> list[TraceEvent]:
        """Read events tolerantly up to a place in the text, at least one."""
        events: list[TraceEvent] = []
        text = self._text
        while True:
            try:
                event = self.value()
            except (json.JSONDecodeError, _EndsEarly):
                if not self._passed_damaged_event():
                    return events
                self.damaged += 1
            else:
                if isinstance(event, dict):
                    events.append(_as_event(event))
            self.count += 1
            if self._text is not text or self._at >= end or self.next_sign() != ",":
                return events
            self._skip(",")
            if self.next_sign() in ("", "]"):
                return events

    def _passed_damaged_event(self) -> bool:
        """Go to the end of an event that cannot be decoded, and tell whether it has one.

        Raises ValueError with the reason unless it may be.
        """
        while (end := _LAST.search(self._text, self._at)) is None:
            if len(self._text) - self._at > _LARGEST_VALUE:
                raise ValueError(f"a value is broken, or takes more than {_LARGEST_VALUE:,} characters")
            if not self._more():
                if not self._salvage:
                    raise _EndsEarly
                self._at = len(self._text)
                return False
        if not self._salvage:
            self._explain(self._text[self._at : end.end()])
        self._at = end.end()
        return True

    def _explain(self, event: str) -> None:
        """Raise the reason why an event cannot be decoded: with its name escaped it can be, or not even then."""
        name = _NAME.search(event)
        escaped = _NAME.sub(lambda match: match[1] + json.dumps(match[2]) + match[3], event, count=1)
        try:
            self._decode(_ESCAPE.sub(lambda match: match[0] if len(match[0]) > 1 else r"\\", escaped))
        except json.JSONDecodeError:
            self._decode(event)
        said = name[2] if name is not None else event
        raise _Unescaped(f"{' '.join(said.split()):.60}")

    def value(self) -> object:
        """Read one value."""
        self.next_sign()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
                if end < len(self._text) or not self._more():
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                in_string = error.msg.startswith("Unterminated")
                if not in_string and error.pos < len(self._text) - _LONGEST_TOKEN:
                    raise
                if len(self._text) - self._at > _LARGEST_VALUE:
                    raise ValueError(f"a value is broken, or takes more than {_LARGEST_VALUE:,} characters") from None
                if not self._more():
                    raise _EndsEarly from error

    def next_sign(self) -> str:
        """Return the next character that is not white space without consuming it; empty at the end."""
        while (sign := _SIGN.search(self._text, self._at)) is None:
            self._at = len(self._text)
            if not self._more():
                return ""
        self._at = sign.start()
        return sign[0]

    def _skip(self, signs: str) -> str:
        """Consume and return one of these characters. Raises ValueError if another one comes next."""
        sign = self.next_sign()
        if not sign:
            raise _EndsEarly
        if sign not in signs:
            raise ValueError(f"{sign} where {' or '.join(signs)} should come")
        self._at += 1
        return sign

    def _more(self) -> bool:
        """Read more text, at least as much as is left, so that a long value is not decoded once per piece."""
        rest = self._text[self._at :]
        pieces, added = [rest], 0
        while added <= len(rest) and (piece := next(self._texts, "")):
            pieces.append(piece)
            added += len(piece)
        self._text, self._at = "".join(pieces), 0
        return added > 0


def _as_event(fields: dict[str, Any]) -> TraceEvent:
    """Return an event that the fast decoder refuses."""
    values: dict[str, Any] = {key: fields.get(key) for key in ("ph", "cat", "name", "pid", "tid", "id")}
    written = {key: _written(fields[key]) for key in ("ts", "dur", "args") if fields.get(key) is not None}
    return TraceEvent(**values, **written)


def _written(value: object) -> Raw:
    """Return a value as JSON that any decoder accepts."""
    if isinstance(value, Decimal):
        return Raw(str(value))
    return Raw(json.dumps(value, default=float, ensure_ascii=False).encode("utf-8", "replace"))


def _unzipped(file: BinaryIO, name: str, size: int, *, salvage: bool) -> Unzipped:
    """Return what a packed trace holds, within the limits."""
    most = min(LARGEST, max(_ALWAYS, _MOST_TIMES * size))

    def check(unpacked: int) -> None:
        check_size(unpacked, name)
        if unpacked > most:
            raise InputError(f"{name} is more than {most / 2**20:,.0f} MiB unpacked", _by_hand(name))

    return Unzipped(file, name, check, f"{_AGAIN}; {_SALVAGE}", salvage=salvage)


def _texts(read: Callable[[int], bytes]) -> Iterator[str]:
    """Yield a text piece by piece."""
    piece = read(_PIECE)
    decoder = codecs.getincrementaldecoder("utf-16" if piece.startswith(UTF16_MARKS) else "utf-8-sig")("replace")
    while piece:
        if text := decoder.decode(piece):
            yield text
        piece = read(_PIECE)
    if text := decoder.decode(b"", final=True):
        yield text


def _by_hand(name: str) -> str:
    return f"if you trust the file, unpack it: gunzip -k {shlex.quote(name)}"


def check_size(size: int, name: str) -> None:
    """Raise InputError if a trace of that many bytes is too large to be read."""
    if size > LARGEST:
        raise InputError(f"{name} is a trace of more than {LARGEST / 2**20:,.0f} MiB unpacked", _FEWER)


def decoded(decoder: msgspec.json.Decoder[Decoded], written: Raw) -> Decoded | None:
    """Return the arguments of an event; None if they are of another type."""
    with contextlib.suppress(msgspec.DecodeError):
        return decoder.decode(written)
    with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
        return decoder.decode(_written(json.loads(bytes(written), strict=False)))
    return None


def nanoseconds(written: Raw) -> int | None:
    """Return a time of a trace, in microseconds, as whole nanoseconds; None for what is no time."""
    text = bytes(written)
    whole, _, fraction = text.partition(b".")
    try:
        exact = int(whole + fraction) if len(fraction) == 3 else int(text) * 1000
    except ValueError:
        exact = _from_decimal(text)
    return exact if -_LATEST_NS < exact < _LATEST_NS else None


def _from_decimal(text: bytes) -> int:
    """Return a time of another form, such as 1e3; one that is out of range for what is no time."""
    try:
        microseconds = Decimal(text.decode())
        return int(microseconds * 1000) if abs(microseconds) < _LATEST_NS else _LATEST_NS
    except ArithmeticError:
        return _LATEST_NS


def count(value: object) -> int | None:
    """Return a number of things, or of bytes; None for what is none."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_COUNT:
        return value
    return None


def dims(value: object) -> tuple[int, int, int] | None:
    """Return the three sizes of a grid or block; None for what is none."""
    if not isinstance(value, list) or len(value) != 3:
        return None
    x, y, z = (size if isinstance(size, int) and 1 <= size < _LARGEST_DIM else None for size in value)
    return None if x is None or y is None or z is None else (x, y, z)


def shape(value: object) -> tuple[int, ...] | None:
    """Return the sizes of a tensor, none for a scalar; None for what is no tensor."""
    if not isinstance(value, list) or len(value) > _MOST_DIMS:
        return None
    return tuple(value) if all(count(size) is not None for size in value) else None


def text_of(value: object) -> str | None:
    """Return a text that can be written as UTF-8; None for what is none, or empty."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None
