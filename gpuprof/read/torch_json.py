"""Read the JSON of a PyTorch trace as batches of events, within limits and without a dictionary per event."""

from __future__ import annotations

import codecs
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any, BinaryIO

import msgspec
from msgspec import Raw, Struct

from gpuprof.errors import DamagedInput, InputError
from gpuprof.read.gzip_stream import Unzipped
from gpuprof.read.identify import GZIP
from gpuprof.read.text_encoding import UTF16_MARKS
from gpuprof.read.timeline_parts import count

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
_LATEST_US = 2**52
"""Times and durations are shorter: until the year 2112. The sum of two, in nanoseconds, fits into 64 bits."""
_LARGEST_DIM = 2**31
_MOST_DIMS = 64
"""PyTorch's own limit to the dimensions of a tensor."""
_EVENTS = "traceEvents"
_FIELDS = (
    *("deviceProperties", "distributedInfo", "baseTimeNanoseconds", "gpuprof"),
    *("with_stack", "record_shapes", "profile_memory"),
)
_SIGN = re.compile(r"[^ \t\n\r]")
_KEY = r'"(?:ph|name|cat|pid|tid|ts|dur|id|args|bp|s|cname)"\s*:'
_NEXT = re.compile(rf"\}}(?=\s*,\s*\{{\s*{_KEY})")
"""The end of an event before another one. No string has it: there the quote of the key would be escaped."""
_LAST = re.compile(rf'{_NEXT.pattern}|\}}(?=\s*\]\s*(?:,\s*"|\}}))')
"""The same, or the end of the last event."""
_SEARCHED = 2**15
"""Characters at the end of a piece in which the end of an event is looked for."""
_EVENTS_BEGIN = re.compile(rf'"{_EVENTS}"\s*:\s*(?=\[)')
_NO_NUMBER = re.compile(r"(?<=[:,\[])\s*-?(?:nan|inf)(?=\s*[,\]}])")
"""Numbers as C++ prints them that JSON does not have: a bandwidth over no time is `inf`."""
_NAME = re.compile(r'"name"\s*:\s*"')
_NAME_END = re.compile(r'"(?=\s*,\s*"(?:ph|cat|pid|tid|ts|dur|args|id)"\s*:)')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
"""An escape of JSON, or a backslash alone."""
_LONGEST_TOKEN = 16
"""JSON text that is cut off is wrong so near its end, if not in a string."""
_FEWER = "trace fewer steps: torch.profiler.schedule(wait=1, warmup=1, active=3)"
AGAIN = "copy it again; a trace is complete only once export_chrome_trace has returned"
_AGAIN_OR_PART = f"{AGAIN}; --salvage reads the events that are whole"


class TraceEvent(Struct, gc=False):
    """An event as written. Its numbers with a point are exact, and its arguments are JSON: see `decoded`."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Raw = Raw()


_EVENT_LIST = msgspec.json.Decoder(list[TraceEvent], float_hook=Decimal)
_ANY = msgspec.json.Decoder()


class TraceJson:
    """A trace as a stream of events. With `salvage` damaged events are left out, and a missing end is accepted.

    `fields` holds the needed fields outside the events, once all events are read; `warnings` say which may lack.
    """

    def __init__(self, file: BinaryIO, name: str, *, salvage: bool = False) -> None:
        self._name, self._salvage = name, salvage
        self._size = file.seek(0, os.SEEK_END)
        file.seek(0)
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        self._unzipped = Unzipped(file, name, self._check, _AGAIN_OR_PART, salvage=salvage) if packed else None
        self._most = _EVENTS_ALWAYS + self._size // _BYTES_PER_EVENT if packed else sys.maxsize
        self._check(self._size)
        self._values = _Values(_texts(self._unzipped.read1 if self._unzipped is not None else file.read), salvage)
        self.fields: dict[str, Any] = {}
        self.warnings: list[str] = []

    def events(self) -> Iterator[TraceEvent]:
        """Yield the events. Raises DamagedInput for broken data and InputError if a limit is exceeded."""
        try:
            for batch in self._batches():
                if self._values.count > self._most:
                    what = f"has more than {self._most:,} events in {self._size:,} packed bytes"
                    raise InputError(f"{self._name} {what}", _by_hand(self._name))
                yield from batch
        except (ValueError, RecursionError, ArithmeticError) as error:
            if self._values.is_complete:
                self.warnings.append("what follows its events is damaged and left out")
                return
            if not self._salvage or not self._values.count:
                raise self._damaged(error) from error
            where = "ends in" if isinstance(error, _EndsEarly) else "is broken at"
            number, read = self._values.count, self._values.count - self._values.damaged
            self._values.end = (
                f"the file {where} event {number + 1:,}: {read:,} events are read, how many are missing is not known"
            )
        except MemoryError as error:
            raise InputError(f"{self._name} is a trace too large for the memory of this machine", _FEWER) from error

    def _check(self, unpacked: int) -> None:
        """Raise InputError if a trace of that many bytes is too large to be read, or too large for its packed size."""
        check_size(unpacked, self._name)
        most = max(_ALWAYS, _MOST_TIMES * self._size)
        if unpacked > most:
            raise InputError(f"{self._name} is more than {most / 2**20:,.0f} MiB unpacked", _by_hand(self._name))

    def _batches(self) -> Iterator[list[TraceEvent]]:
        """Yield the events, many at a time, of an object that holds the list of them, or of the list alone."""
        values = self._values
        if values.next_sign() == "[":
            yield from values.events(may_end=True)
        else:
            values.skip("{")
            if not self._comes_to_events():
                raise DamagedInput(f"{self._name} is damaged: it has no list of {_EVENTS}", AGAIN)
            yield from values.events()
            if values.skip(",}") == "," and self._read_fields():
                raise DamagedInput(f"{self._name} is damaged: it has two lists of {_EVENTS}", AGAIN)
        if values.next_sign():
            raise ValueError("something follows its end")

    def _comes_to_events(self) -> bool:
        """Read the fields before the list of events; return whether there is one. A damaged field ends them."""
        try:
            return self._read_fields()
        except ValueError:
            with suppress(ValueError):
                self._values.take(_EVENTS_BEGIN)
                self.warnings.append("what precedes its events is damaged and left out in part")
                return True
            raise

    def _read_fields(self) -> bool:
        """Read fields up to the list of events or to the end of the object; return whether the list comes next."""
        values = self._values
        while True:
            field = values.value()
            if not isinstance(field, str):
                raise ValueError("the name of a field is not a text")
            values.skip(":")
            if field == _EVENTS and values.next_sign() == "[":
                return True
            value = values.value()
            if field in _FIELDS:
                self.fields[field] = value
            if values.skip(",}") == "}":
                return False

    def _damaged(self, error: Exception) -> DamagedInput:
        """Return an error with the place of the damage and, if it is known, the cause."""
        number = self._values.count + 1
        hint = AGAIN if self._salvage or not self._values.count else _AGAIN_OR_PART
        if isinstance(error, _EndsEarly):
            where = f"in event {number:,}" if number > 1 else "before its first event is complete"
            what = f"it ends {where}: it was cut off, or the program ended while it was written"
        elif isinstance(error, _Unescaped):
            what = f"in event {number:,} PyTorch wrote {error} without escaping it"
            hint = "--salvage reads the other events; record it again with with_stack=False or a newer PyTorch"
        else:
            said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            what = f"it is not valid JSON: {said:.100}"
        return DamagedInput(f"{self._name} is damaged: {what}", hint)

    @property
    def is_cut_off(self) -> bool:
        """Return whether the file ended before its events did; only with `salvage`."""
        return self._values.end is not None

    def left_out(self) -> Iterator[str]:
        """Say what was left out of the events, once all are read."""
        damaged = self._values.damaged
        if damaged:
            yield f"{damaged:,} of {self._values.count:,} events {'is' if damaged == 1 else 'are'} damaged and left out"
        if self._unzipped is not None and self._unzipped.damage is not None:
            yield self._unzipped.damage
        if self._values.end is not None:
            yield self._values.end


class _EndsEarly(ValueError):
    """The text ends too early."""


class _Unescaped(ValueError):
    """An event is broken by a text that was not escaped: which one, as far as that is known."""


class _Values:
    """A reader of JSON text that arrives in pieces; it holds only what is being read.

    `count` events were read, `damaged` ones of them left out. `end` says how the list ends if it has no end of its own,
    and `is_complete` that it has.
    """

    def __init__(self, texts: Iterator[str], salvage: bool) -> None:
        self._texts, self._salvage = texts, salvage
        self._decode = json.JSONDecoder(parse_float=Decimal, parse_constant=str, strict=False).raw_decode
        self._text = ""
        self._at = 0
        self._one_by_one_to = 0
        self.count = self.damaged = 0
        self.end: str | None = None
        self.is_complete = False

    def events(self, *, may_end: bool = False) -> Iterator[list[TraceEvent]]:
        """Yield the events of a list, as many at a time as are in memory. One that `may_end` needs no bracket."""
        self.skip("[")
        while (sign := self.next_sign()) != "]":
            if not sign and may_end:
                self.end = f"the list of events has no end: there may have been more than {self.count:,}"
                return
            yield self._in_memory()
            if self.next_sign() not in ("]", ""):
                self.skip(",")
        self.skip("]")
        self.is_complete = True

    def _in_memory(self) -> list[TraceEvent]:
        """Return the events that are complete in memory, at least the next one unless it is damaged."""
        if self._at >= self._one_by_one_to:
            end = self._at
            for match in _NEXT.finditer(self._text, max(end, len(self._text) - _SEARCHED)):
                end = match.end()
            try:
                events = _EVENT_LIST.decode(f"[{self._text[self._at : end]}]")
            except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError):
                events = []
            if events:
                self._at = end
                self.count += len(events)
                return events
            self._one_by_one_to = end if end > self._at else len(self._text)
        return self._next()

    def _next(self) -> list[TraceEvent]:
        """Return the next event, read tolerantly; none if it is damaged, or no event."""
        try:
            event = self.value()
        except (json.JSONDecodeError, _EndsEarly):
            event = self._repaired()
            self.damaged += event is None
        self.count += 1
        return [_as_event(event)] if isinstance(event, dict) else []

    def _repaired(self) -> object:
        """Return an event that cannot be decoded as it is, without numbers that are none; None if it is damaged.

        Raises ValueError with the reason unless damaged events may be left out.
        """
        written = self.take(_LAST)
        repaired = _NO_NUMBER.sub("null", written)
        with suppress(json.JSONDecodeError):
            event, end = self._decode(repaired)
            if end == len(repaired):
                return event
        if not self._salvage:
            self._explain(written)
        return None

    def _explain(self, event: str) -> None:
        """Raise the reason why an event cannot be decoded: with its texts escaped it can be, or not even then."""
        before, *after = _NAME.split(event, 1)
        name, *rest = _NAME_END.split("".join(after), 1)
        escaped = f'{before}"name": {json.dumps(name)}{"".join(rest)}'
        try:
            self._decode(_ESCAPE.sub(lambda match: match[0] if len(match[0]) > 1 else r"\\", escaped))
        except json.JSONDecodeError:
            self._decode(event)
        raise _Unescaped(f"the name {' '.join(name.split()):.60}" if json.dumps(name) != f'"{name}"' else "a text")

    def take(self, wanted: re.Pattern[str]) -> str:
        """Consume and return the text up to the end of the next match. Raises ValueError if none is near."""
        while (found := wanted.search(self._text, self._at)) is None:
            self._need_more()
        start, self._at = self._at, found.end()
        return self._text[start : self._at]

    def value(self) -> object:
        """Read one value."""
        self.next_sign()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                in_string = error.msg.startswith("Unterminated")
                if not in_string and error.pos < len(self._text) - _LONGEST_TOKEN:
                    raise
                self._need_more()
            else:
                if end < len(self._text) or not self._more():
                    self._at = end
                    return value

    def next_sign(self) -> str:
        """Return the next character that is not white space without consuming it; empty at the end."""
        while (sign := _SIGN.search(self._text, self._at)) is None:
            self._at = len(self._text)
            if not self._more():
                return ""
        self._at = sign.start()
        return sign[0]

    def skip(self, signs: str) -> str:
        """Consume and return one of these characters. Raises ValueError if another one comes next."""
        sign = self.next_sign()
        if not sign:
            raise _EndsEarly
        if sign not in signs:
            raise ValueError(f"{sign} where {' or '.join(signs)} should come")
        self._at += 1
        return sign

    def _need_more(self) -> None:
        """Read more of a value. Raises ValueError if there is no more, or too much."""
        if len(self._text) - self._at > _LARGEST_VALUE:
            raise ValueError(f"a value is broken, or takes more than {_LARGEST_VALUE:,} characters")
        if not self._more():
            raise _EndsEarly

    def _more(self) -> bool:
        """Read more text, at least as much as is left, so that a long value is not decoded once per piece."""
        rest, added = self._text[self._at :], ""
        while len(added) <= len(rest) and (piece := next(self._texts, "")):
            added += piece
        self._text, self._at, self._one_by_one_to = rest + added, 0, 0
        return added != ""


def _as_event(fields: dict[str, Any]) -> TraceEvent:
    """Return an event that the fast decoder refuses, with arguments that it accepts."""
    args = json.dumps(fields.pop("args", None), default=float, ensure_ascii=False).encode("utf-8", "replace")
    event = msgspec.convert(fields, TraceEvent)
    event.args = Raw(args)
    return event


def _texts(read: Callable[[int], bytes]) -> Iterator[str]:
    """Yield a text piece by piece."""
    first = read(_PIECE)
    encoding = "utf-16" if first.startswith(UTF16_MARKS) else "utf-8-sig"
    yield from codecs.iterdecode(chain([first], iter(partial(read, _PIECE), b"")), encoding, "replace")


def _by_hand(name: str) -> str:
    return f"if you trust the file, unpack it: gunzip -k {shlex.quote(name)}"


def check_size(size: int, name: str) -> None:
    """Raise InputError if a trace of that many bytes is too large to be read."""
    if size > LARGEST:
        raise InputError(f"{name} is a trace of more than {LARGEST / 2**20:,.0f} MiB unpacked", _FEWER)


def decoded(written: Raw, decoder: msgspec.json.Decoder[Any] = _ANY) -> Any:
    """Return JSON as a decoder has it; None if that is of another type."""
    try:
        return decoder.decode(written)
    except (msgspec.DecodeError, RecursionError):
        return None


def mapping(value: object) -> Mapping[str, Any]:
    """Return the fields of an object; none if it is not an object."""
    return value if isinstance(value, dict) else {}


def nanoseconds(value: object) -> int | None:
    """Return a time of a trace, in microseconds, as whole nanoseconds; None if it is not a time."""
    if isinstance(value, bool) or not isinstance(value, (Decimal, int)):
        return None
    return int(value * 1000) if -_LATEST_US < value < _LATEST_US else None


def dims(value: object) -> tuple[int, int, int] | None:
    """Return the three sizes of a grid or block; None if it is neither."""
    sizes = shape(value) or ()
    if len(sizes) != 3 or min(sizes) < 1 or max(sizes) >= _LARGEST_DIM:
        return None
    x, y, z = sizes
    return x, y, z


def shape(value: object) -> tuple[int, ...] | None:
    """Return the sizes of a tensor, none for a scalar; None if it is not a tensor."""
    if not isinstance(value, list) or len(value) > _MOST_DIMS:
        return None
    return tuple(value) if all(count(size) is not None for size in value) else None


def text_of(value: object) -> str | None:
    """Return a text that can be written as UTF-8; None if it is empty or not a text."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None
