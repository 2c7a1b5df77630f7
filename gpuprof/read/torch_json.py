"""Read the JSON of a PyTorch trace as a stream of events, within limits, with times exact to the nanosecond."""

from __future__ import annotations

import codecs
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, BinaryIO

from gpuprof.errors import DamagedInput, InputError
from gpuprof.read.gzip_stream import Unzipped
from gpuprof.read.identify import GZIP, UTF16_MARKS

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
_LATEST_US = 10**18
"""No time of a trace comes near it: it is 30 000 years, in microseconds."""
_LARGEST_COUNT = 2**63
_LARGEST_DIM = 2**31
_MOST_DIMS = 64
"""PyTorch's own limit to the dimensions of a tensor."""
_EVENTS = "traceEvents"
_FIELDS = (
    *("deviceProperties", "distributedInfo", "baseTimeNanoseconds", "gpuprof"),
    *("with_stack", "record_shapes", "profile_memory"),
)
_SIGN = re.compile(r"[^ \t\n\r]")
_COMMA = re.compile(r"(?<![ \t\n\r])[ \t\n\r]*,[ \t\n\r]*")
"""The separator of two items, matched from the end of the first."""
_FEWER = "trace fewer steps: torch.profiler.schedule(wait=1, warmup=1, active=3)"
_AGAIN = "copy it again; a trace is complete only once export_chrome_trace has returned"


class TraceJson:
    """A trace as a stream of events. `fields` holds the needed fields outside the events once all events are read."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._name = name
        self._size = file.seek(0, os.SEEK_END)
        file.seek(0)
        self._packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        if not self._packed:
            check_size(self._size, name)
        self._values = _Values(_texts(_unpacked(file, name, self._size) if self._packed else file.read))
        self.fields: dict[str, Any] = {}

    def events(self) -> Iterator[object]:
        """Yield the events; numbers with a decimal point are Decimals.

        Raises DamagedInput for broken data and InputError if a limit is exceeded.
        """
        most = _EVENTS_ALWAYS + self._size // _BYTES_PER_EVENT
        try:
            for number, event in enumerate(self._read()):
                if self._packed and number > most:
                    raise InputError(
                        f"{self._name} has more than {most:,} events in {self._size:,} packed bytes",
                        _by_hand(self._name),
                    )
                yield event
        except (ValueError, RecursionError, ArithmeticError) as error:
            said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise DamagedInput(f"{self._name} is damaged: it is not valid JSON: {said:.100}", _AGAIN) from error
        except MemoryError as error:
            raise InputError(f"{self._name} is a trace too large for the memory of this machine", _FEWER) from error

    def _read(self) -> Iterator[object]:
        """Read an object that holds the list of events, or the list alone."""
        if self._values.next_sign() == "[":
            yield from self._values.items()
        else:
            yield from self._from_object()
        if self._values.next_sign():
            raise ValueError("something follows its end")

    def _from_object(self) -> Iterator[object]:
        lists = 0
        for field in self._values.names():
            if field == _EVENTS and self._values.next_sign() == "[":
                yield from self._values.items()
                lists += 1
                continue
            value = self._values.value()
            if field in _FIELDS:
                self.fields[field] = value
        if lists != 1:
            raise DamagedInput(f"{self._name} is damaged: it has {lists or 'no'} lists of {_EVENTS}", _AGAIN)


class _Values:
    """A reader of JSON text that arrives in pieces; it holds only the value being read."""

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts = texts
        self._decode = json.JSONDecoder(parse_float=Decimal, strict=False).raw_decode
        self._text = ""
        self._at = 0

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

    def items(self) -> Iterator[object]:
        """Yield the items of a list."""
        self._skip("[")
        if self.next_sign() == "]":
            self._skip("]")
            return
        yield self.value()
        yield from self._complete()
        while self._skip(",]") == ",":
            yield self.value()
            yield from self._complete()

    def _complete(self) -> Iterator[object]:
        """Yield the items that are complete in memory, up to the last one or a broken one."""
        text, decode = self._text, self._decode
        while comma := _COMMA.match(text, self._at):
            try:
                value, end = decode(text, comma.end())
            except json.JSONDecodeError:
                return
            if end == len(text):
                return
            self._at = end
            yield value

    def value(self) -> object:
        """Read one value."""
        self.next_sign()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
                if end < len(self._text) or not self._more():
                    self._at = end
                    return value
            except json.JSONDecodeError:
                rest = len(self._text) - self._at
                if rest > _LARGEST_VALUE:
                    raise ValueError(f"a value is broken, or takes more than {_LARGEST_VALUE:,} characters") from None
                if not self._more():
                    raise

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
        if not sign or sign not in signs:
            raise ValueError(f"{sign or 'the end'} where {' or '.join(signs)} should come")
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


def _unpacked(file: BinaryIO, name: str, size: int) -> Callable[[int], bytes]:
    """Return a function that reads unpacked bytes, within the limits for a packed trace."""
    most = min(LARGEST, max(_ALWAYS, _MOST_TIMES * size))

    def check(unpacked: int) -> None:
        check_size(unpacked, name)
        if unpacked > most:
            raise InputError(f"{name} is more than {most / 2**20:,.0f} MiB unpacked", _by_hand(name))

    return Unzipped(file, name, check, _AGAIN).read1


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


def nanoseconds(value: object) -> int | None:
    """Return a time of a trace, in microseconds, as whole nanoseconds; None for what is no time."""
    if isinstance(value, (int, Decimal)) and -_LATEST_US < value < _LATEST_US:
        return int(value * 1000)
    return None


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
