"""What NVIDIA's rules said of a launch, from the `RuleResult` messages of its report.

Field numbers are those of RuleResults.proto, which NVIDIA ships in `extras/FileFormat` of Nsight Compute. A rule has a
body of items; each item is a finding, with a message (text, type, title) and an estimate of the speed-up where it has
them. Where a field occurs twice the later one holds, and parts of messages are joined, as protocol buffers have it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

from gpuprof.errors import DamagedInput
from gpuprof.model.recorded import RuleResult

_RULE, _RULE_NAME, _BODY, _SECTION = 1, 2, 3, 4
_ITEM = 1
_ITEM_MESSAGE, _ITEM_SPEEDUP = 1, 10
_TEXT, _TYPE, _TITLE = 1, 2, 4
_SPEEDUP_SCOPE, _SPEEDUP_PERCENT = 1, 2
_KINDS = {0: "none", 1: "ok", 2: "warning", 3: "error", 4: "optimization"}
_SCOPES = {1: "local", 2: "global"}
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FIXED_SIZES = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_AGAIN = "copy the report again from where it was recorded, or profile again"


def rule_results(message: bytes) -> tuple[RuleResult, ...]:
    """Return the findings of one rule, which may have none or several; those of a report are in the order of the file.

    Raises DamagedInput for bytes that do not parse, or that lack what each finding has.
    """
    rule = _message(message)
    if not {_RULE, _RULE_NAME} <= rule.keys():
        raise _damaged("a rule has no name")
    identifier, section = _last_text(rule, _RULE), _last_text(rule, _SECTION)
    items = _message(b"".join(_all_bytes(rule, _BODY))).get(_ITEM, [])
    return tuple(_finding(identifier, section, item) for item in items if isinstance(item, bytes))


def _finding(rule: str, section: str, item: bytes) -> RuleResult:
    """Read one item. Without a message it is a finding of kind "none", as NVIDIA's reader has it."""
    parts = _message(item)
    said = _message(b"".join(_all_bytes(parts, _ITEM_MESSAGE)))
    kinds = [value & 0xFFFFFFFF for value in said.get(_TYPE, ()) if isinstance(value, int)]
    known = [_KINDS[kind] for kind in kinds if kind in _KINDS]
    if _ITEM_MESSAGE in parts and (_TEXT not in said or not known):
        raise _damaged("a message of a rule has no text or no known type")
    percent, scope = _speedup(_message(b"".join(_all_bytes(parts, _ITEM_SPEEDUP))))
    return RuleResult(
        rule=rule,
        section=section,
        kind=known[-1] if known else "none",
        title=_last_text(said, _TITLE),
        message=_last_text(said, _TEXT),
        speedup_percent=percent,
        speedup_scope=scope,
    )


def _speedup(estimate: dict[int, list[int | bytes | float]]) -> tuple[float | None, str | None]:
    """Return percent and scope; None for what is not there, or is no number."""
    values = [value for value in estimate.get(_SPEEDUP_PERCENT, ()) if isinstance(value, float)]
    scopes = [_SCOPES.get(value) for value in estimate.get(_SPEEDUP_SCOPE, ()) if isinstance(value, int)]
    percent = values[-1] if values and math.isfinite(values[-1]) else None
    return percent, scopes[-1] if scopes else None


def _all_bytes(fields: dict[int, list[int | bytes | float]], field: int) -> list[bytes]:
    return [value for value in fields.get(field, ()) if isinstance(value, bytes)]


def _last_text(fields: dict[int, list[int | bytes | float]], field: int) -> str:
    """Return a text; what is not UTF-8 in it is marked."""
    texts = _all_bytes(fields, field)
    return texts[-1].decode("utf-8", "replace") if texts else ""


def _message(data: bytes) -> dict[int, list[int | bytes | float]]:
    """Return the values of each field of a message: integers, bytes, and numbers of eight bytes as floats."""
    values: dict[int, list[int | bytes | float]] = {}
    for field, value in _fields(data):
        values.setdefault(field, []).append(value)
    return values


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes | float]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        field, form = tag >> 3, tag & 7
        if form == _VARINT:
            value, at = _varint(data, at)
            yield field, value
            continue
        if form == _BYTES:
            size, at = _varint(data, at)
        elif form in _FIXED_SIZES:
            size = _FIXED_SIZES[form]
        else:
            raise _damaged("a field is of a kind that reports do not have")
        end = at + size
        if end > len(data) or field == 0:
            raise _damaged("a field is cut off")
        content = data[at:end]
        at = end
        if form == _BYTES:
            yield field, content
        elif form == _EIGHT_BYTES:
            yield field, float(struct.unpack("<d", content)[0])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise _damaged("a number is cut off")


def _damaged(why: str) -> DamagedInput:
    return DamagedInput(f"a report is damaged: what a rule of NVIDIA's says cannot be read: {why}", _AGAIN)
