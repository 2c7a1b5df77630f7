"""The values of a metric in a report: what NVIDIA calls ProfileMetricResult, decoded where it lies.

ProfileMetricResult: NameId = 1, MetricValue = 2, MetricValueList = 3, Category = 4. A list element: CorrelationId = 1,
ElementValue = 2, InstanceValues = 3. ProfileMetricValue: string = 1, float = 2, double = 3, uint32 = 4, uint64 = 5.
Of a value that has several of them, the one of the lowest number counts, as with NVIDIA's reader.
The functions try the forms that ncu writes first, and parse by the rules whatever does not have them.
"""

from __future__ import annotations

import struct

from gpuprof.read.protobuf import FieldValue, as_bytes, as_text, fields, varint

MetricValue = float | int | str | None
Instance = tuple[int | str | None, MetricValue]
"""The key of an instance (an address, an opcode; None where it has none), and its value."""

Keys = dict[bytes, int | str]
"""What the keys of instances are, by their bytes."""

_VALUE, _ELEMENT = 2, 3
_KEY, _ELEMENT_VALUE = 1, 2
_FORMS = {2: "<f", 3: "<d"}
_NUMBERS = (4, 5)
_DOUBLE = struct.Struct("<d").unpack_from
_VALUE_TAG, _ELEMENT_TAG, _KEY_TAG = b"\x12\x1a\x0a"
_STRING_TAG, _DOUBLE_TAG, _UINT32_TAG, _UINT64_TAG = b"\x0a\x19\x20\x28"
_LEAST_ELEMENT = 9
"""Bytes of an element with a key and a value."""
_MOST_KEYS = 1 << 20
_DOUBLE_SIZE = 9
"""Tag and eight bytes."""
_NUMBER_TAGS = (_UINT64_TAG, _UINT32_TAG)
_NAME_TAG = 0x08
_SMALL = 0x80
"""Lengths and numbers below this are one byte."""


class UnknownForm(Exception):
    """A value of a type that gpuprof does not know. Fields beside a value that it does not know are passed over."""


def metric_value(data: bytes, start: int, base: int) -> MetricValue:
    """Return the value of the metric whose tag is there, None where none was recorded; `base` is the offset of `data`.

    Raises Malformed where it does not parse, IndexError where it is cut off, and UnknownForm for what is not known.
    """
    at, end = _content(data, start, base)
    if at + 2 < end and data[at] == _VALUE_TAG:
        size, tag = data[at + 1], data[at + 2]
        if tag == _DOUBLE_TAG and size == _DOUBLE_SIZE and at + 11 <= end:
            value: float = _DOUBLE(data, at + 3)[0]
            return value
        if tag in _NUMBER_TAGS and 1 < size < _SMALL and at + 2 + size <= end:
            number, stop = _number(data, at + 3)
            if stop == at + 2 + size:
                return number
    return _parsed_value(data[at:end], base + at)


def _content(data: bytes, start: int, base: int) -> tuple[int, int]:
    """Return where a metric goes on behind the number of its name, and where it ends."""
    size = data[start + 1]
    if size < _SMALL and data[start + 2] == _NAME_TAG:
        if data[start + 3] < _SMALL:
            return start + 4, start + 2 + size
        if data[start + 4] < _SMALL:
            return start + 5, start + 2 + size
    size, at = varint(data, start + 1, base)
    end = at + size
    if size > 1 and data[at] == _NAME_TAG:
        _, at = varint(data, at + 1, base)
    return at, end


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of at most ten bytes, and where it ends: behind all that it may take, where it does not end."""
    value = data[at] & 0x7F
    shift = 0
    while data[at] >= _SMALL:
        at += 1
        shift += 7
        if shift > 63 or at >= len(data):
            return 0, -1
        value |= (data[at] & 0x7F) << shift
    return value, at + 1


def _parsed_value(content: bytes, base: int) -> MetricValue:
    value: MetricValue = None
    for field, part, end in fields(content, base):
        if field == _VALUE:
            value = _decoded(as_bytes(part, end), end)
    return value


def _decoded(value: bytes, end: int) -> MetricValue:
    """Decode a ProfileMetricValue that ends at an offset; None for an empty one."""
    parts: dict[int, FieldValue] = {}
    for field, part, _ in fields(value, end - len(value)):
        parts[field] = part
    if not parts:
        return None
    kind = min(parts)
    raw = parts[kind]
    if kind == 1:
        return as_text(as_bytes(raw, end))
    if kind in _FORMS and isinstance(raw, bytes) and len(raw) == struct.calcsize(_FORMS[kind]):
        number: float = struct.unpack(_FORMS[kind], raw)[0]
        return number
    if kind in _NUMBERS and isinstance(raw, int):
        return raw & 0xFFFF_FFFF if kind == _NUMBERS[0] else raw & 0xFFFF_FFFF_FFFF_FFFF
    raise UnknownForm


def metric_instances(data: bytes, start: int, base: int, keys: Keys) -> list[Instance]:
    """Return the instances of the metric whose tag is there, in their order. Raises as `metric_value` does.

    `keys` remembers what the bytes of keys mean: the addresses of a kernel come with each of its metrics.
    """
    at, end = _content(data, start, base)
    instances: list[Instance] = []
    if at + 2 < end and data[at] == _VALUE_TAG and data[at + 1] < _SMALL:
        at += 2 + data[at + 1]
    while at + _LEAST_ELEMENT <= end and data[at] == _ELEMENT_TAG:
        # As ncu writes them: 1a SIZE 0a SIZE KEY 12 SIZE VALUE, all sizes in one byte.
        stop, key_end = at + 2 + data[at + 1], at + 4 + data[at + 3]
        if data[at + 1] >= _SMALL or not key_end + 3 < stop <= end or data[at + 2] != _KEY_TAG:
            break
        fits = data[key_end] == _VALUE_TAG and key_end + 2 + data[key_end + 1] == stop
        value = _instance_value(data, key_end + 2, stop) if fits else None
        if value is None:
            break
        key = keys.get(data[at + 4 : key_end])
        if key is None:
            key = _key(data[at + 4 : key_end], base + key_end, keys)
        instances.append((key, value))
        at = stop
    if at < end:
        return instances + _parsed_instances(data[at:end], base + at)
    return instances


def _instance_value(data: bytes, at: int, stop: int) -> float | None:
    """Return a whole number or a double whose tag is there; None for anything else."""
    if data[at] == _UINT64_TAG:
        first = data[at + 1]
        if first < _SMALL:
            return first if at + 2 == stop else None
        number, end = _number(data, at + 1)
        return number if end == stop else None
    if data[at] == _DOUBLE_TAG and at + _DOUBLE_SIZE == stop:
        value: float = _DOUBLE(data, at + 1)[0]
        return value
    return None


def _key(content: bytes, end: int, keys: Keys) -> int | str:
    """Decode the key of an instance, and remember it."""
    key = _decoded(content, end)
    if key is None or isinstance(key, float):
        raise UnknownForm
    if len(keys) < _MOST_KEYS:
        keys[content] = key
    return key


def _parsed_instances(content: bytes, base: int) -> list[Instance]:
    instances: list[Instance] = []
    for field, part, end in fields(content, base):
        if field == _ELEMENT:
            instances.append(_parsed_element(as_bytes(part, end), end))
    return instances


def _parsed_element(element: bytes, end: int) -> Instance:
    key = value = None
    for field, part, stop in fields(element, end - len(element)):
        if field == _KEY:
            key = _decoded(as_bytes(part, stop), stop)
        elif field == _ELEMENT_VALUE:
            value = _decoded(as_bytes(part, stop), stop)
    if isinstance(key, float):
        raise UnknownForm
    return key, value
