"""session.json back into a Session, every field checked against the contract's types before it is believed."""

from __future__ import annotations

import gc
import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar, get_args

import msgspec

from gpuprof.errors import DamagedInput, InputError, hinted
from gpuprof.model.session import SCHEMA_VERSION, SchemaVersion, Session
from gpuprof.store.contradictions import (
    refuse_contradicting_work,
    refuse_contradictions,
    without_foreign_command,
)

_Kind = TypeVar("_Kind", bound=msgspec.Struct)
_FAULT = re.compile(r"(?s)(.*?)(?: - at `(\$[^`]*)`)?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_LONGEST = 200
_VALUES_ALWAYS, _BYTES_PER_VALUE = 1_000_000, 16
"""Maximum number of values: a million, plus one for each 16 bytes. Real sessions have at least 22 bytes for each."""
_SEPARATORS = (",", "[", "{")
_AGAIN = "copy it again, or write it again from its reports: gpuprof show REPORT --format json"
_MAKES_DECODER = threading.Lock()
_MARK, _UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def read_session(data: str | bytes, file: str) -> Session:
    """Read the JSON contract. Raises InputError for another version, DamagedInput for anything that breaks it.

    Bytes are UTF-8, or UTF-16 with a mark, and take half the memory of their text.
    """
    refuse_too_many_values([data], len(data), file)
    with hinted(_AGAIN), no_search_for_garbage():
        try:
            session = decoder_of(Session).decode(data.removeprefix(_MARK) if isinstance(data, bytes) else data)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            session = _read_slowly(data if isinstance(data, str) else _text(data), file)
        refuse_contradictions(session, session.kernels, file)
        for kernel in session.kernels:
            refuse_contradicting_work(kernel, file)
    return without_foreign_command(session)


def refuse_too_many_values(pieces: Iterable[str | bytes], size: int, file: str) -> None:
    """Raise InputError if JSON has more values than a session of its size can have; each value takes memory."""
    if size <= _VALUES_ALWAYS:
        return
    values = sum(_separators(piece) for piece in pieces)
    most = _VALUES_ALWAYS + size // _BYTES_PER_VALUE
    if values > most:
        raise InputError(f"{file} has some {values:,} values in {size:,} bytes, and {most:,} are read", _AGAIN)


def _separators(piece: str | bytes) -> int:
    if isinstance(piece, str):
        return sum(map(piece.count, _SEPARATORS))
    return sum(map(piece.count, map(str.encode, _SEPARATORS)))


@contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Spare the search for cycles while a session is made: it has none, and half the time would go into it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _text(data: bytes) -> str:
    return data.decode("utf-16" if data.startswith(_UTF16_MARKS) else "utf-8-sig", "replace")


def decoder_of(kind: type[_Kind]) -> msgspec.json.Decoder[_Kind]:
    """Return the decoder of a record, which one thread alone makes: msgspec crashes where two look at new types."""
    with _MAKES_DECODER:
        return _new_decoder(kind)


@cache
def _new_decoder(kind: type[_Kind]) -> msgspec.json.Decoder[_Kind]:
    return msgspec.json.Decoder(kind)


def _read_slowly(text: str, file: str) -> Session:
    """Read what msgspec's decoder refuses: say what is wrong with it, or take lone surrogates as other JSON readers do.

    A file's name can have them, where it is not UTF-8.
    """
    try:
        data = json.loads(text, parse_constant=_refuse_constant, object_hook=_without_foreign_names)
    except (ValueError, RecursionError) as error:
        raise DamagedInput(f"{file} is not valid JSON: {error}") from error
    if not isinstance(data, dict) or "schema_version" not in data:
        raise InputError(
            f"{file} is JSON, but not a gpuprof session: it has no schema_version",
            "gpuprof reads its own session.json, and JSON traces of PyTorch",
        )
    version = data["schema_version"]
    if version not in get_args(SchemaVersion):
        known = isinstance(version, (int, float))
        relation = "newer than" if known and version > SCHEMA_VERSION else "older than" if known else "not"
        raise InputError(
            f"{file} has session schema {version!r:.60}, {relation} the {SCHEMA_VERSION} that this gpuprof reads",
            "read it with the gpuprof that wrote it, or profile again",
        )
    try:
        return _converted(data, text)
    except msgspec.ValidationError as error:
        raise DamagedInput(f"{file} is damaged: {_fault(str(error), data)}") from error


def _without_foreign_names(record: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the fields whose names have lone surrogates: the contract has none, msgspec fails."""
    return {name: value for name, value in record.items() if not _SURROGATE.search(name)}


def _converted(data: Any, text: str) -> Session:
    """Return the session of a text. Raises msgspec.ValidationError where it breaks the contract."""
    try:
        return msgspec.convert(data, Session)
    except UnicodeEncodeError:  # A lone surrogate where another type belongs: without it, msgspec tells the place.
        return msgspec.convert(json.loads(text, object_hook=_without_surrogates), Session)


def _without_surrogates(record: dict[str, Any]) -> dict[str, Any]:
    """Return an object with other signs for lone surrogates in its texts and lists of texts."""
    return {
        name: [_replaced(part) for part in value] if isinstance(value, list) else _replaced(value)
        for name, value in _without_foreign_names(record).items()
    }


def _replaced(value: Any) -> Any:
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _fault(message: str, data: Any) -> str:
    """Return the decoder's message with the place first and the value there, as far as it is short."""
    fault = _FAULT.fullmatch(message)
    what, where = (fault[1], fault[2]) if fault else (message, None)
    value = data
    for name, number in _STEP.findall(where or ""):
        value = value[name] if name else value[int(number)]
    where = f"session{where[1:]}" if where else "session"
    if what.startswith("Object missing required field"):
        return f"{where} has no {what.split('`')[1]}"
    if what.startswith("Invalid enum value"):
        return f"{where} is {value!r:.60}, which is not one of its values"
    if "matching regex" in what:
        return f"{where} is {value!r:.60}, which is not a valid name"
    return f"{where} is {value!r:.60}: {what[:1].lower()}{what[1:_LONGEST]}"
