"""A copy of a report that NVIDIA's reader opens several times faster, and the device attributes that it lacks.

Left out are the definitions of sections; the results of rules and the metrics with long lists, which repeat from launch
to launch (occupancy curves, names of groups), both read from the whole file on demand; and the device attributes, which
are decoded here: the reader takes the units of all metrics from them, and that takes time and memory for each launch.
What is left out is found once and removed from the other launches as equal bytes.
Checked on 17 real reports: every metric has the value that the reader gives for the whole file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpuprof.read.container import Container, metric_result, raw_blocks, raw_fields, resized_header
from gpuprof.read.wire import prefixed

DEVICE_ATTRIBUTE = "device__attribute_"
_RESULT_METRIC, _RESULT_SECTION, _RESULT_RULE = 13, 17, 19
_MOST_TEMPLATES = 8
_LONG_METRIC = 300
_MOST_LONG = 64


Attributes = Mapping[str, float | str]


class LeanReport(NamedTuple):
    """The copy, and for each kernel launch the attributes of its GPU by their full names, in ncu's own units."""

    data: bytes
    attributes: tuple[Attributes, ...]
    left_out: frozenset[str]


def lean_copy(data: bytes, container: Container) -> LeanReport:
    """Copy an undamaged report without what is repeated. Raises nothing that `walk` would not have found."""
    shrinker = _Shrinker(container)
    out: list[bytes] = []
    for block in raw_blocks(data):
        payload = [data[start - 4 : end] for start, end in block.sources]
        payload += [prefixed(shrinker.shrink(data[start:end])) for start, end in block.kernels]
        payload += [data[start - 4 : end] for start, end in block.rest]
        content = b"".join(payload)
        out += [block.before, resized_header(data, block, len(content)), content]
    return LeanReport(b"".join(out), tuple(shrinker.attributes), frozenset(shrinker.left_out))


class _Shrinker:
    """Removes from each launch what an earlier launch already has."""

    def __init__(self, container: Container) -> None:
        names = enumerate(container.names)
        self._devices = {index: name for index, name in names if name.startswith(DEVICE_ATTRIBUTE)}
        self._sections: list[bytes] = []
        self._known: list[tuple[bytes, Attributes]] = []
        self._long: list[tuple[bytes, str]] = []
        self._names = container.names
        self._most_left = 0
        self.left_out: set[str] = set()
        self.attributes: list[Attributes] = []

    def shrink(self, message: bytes) -> bytes:
        """Return one launch's message without sections, rules and device attributes; note the attributes."""
        message = self._without_attributes(self._without_sections(message))
        for field, name in self._long:
            head, separator, tail = message.partition(field)
            if separator:
                message = head + tail
                self.left_out.add(name)
        if len(message) > self._most_left:
            self._note_long_metrics(message)
        return message

    def _note_long_metrics(self, message: bytes) -> None:
        """Remember the long metrics of a launch, so that they are removed from those that follow."""
        self._most_left = len(message) + _LONG_METRIC
        for field, start, end in raw_fields(message):
            index = _name_index(message, start, end) if field == _RESULT_METRIC and end - start > _LONG_METRIC else None
            if index is not None and index < len(self._names) and len(self._long) < _MOST_LONG:
                self._long.append((message[start:end], self._names[index]))

    def _without_attributes(self, message: bytes) -> bytes:
        """Remove the device attributes, and note them for this launch."""
        for run, attributes in self._known:
            head, separator, tail = message.partition(run)
            if separator:
                self.attributes.append(attributes)
                return head + tail
        places = [
            (start, end)
            for field, start, end in raw_fields(message)
            if field == _RESULT_METRIC and _name_index(message, start, end) in self._devices
        ]
        attributes = dict(self._attribute(message[start:end]) for start, end in places)
        self.attributes.append(attributes)
        run = message[places[0][0] : places[-1][1]] if places else b""
        if len(run) != sum(end - start for start, end in places) or not run:
            return message
        if len(self._known) < _MOST_TEMPLATES:
            self._known.append((run, attributes))
        head, _, tail = message.partition(run)
        return head + tail

    def _attribute(self, field: bytes) -> tuple[str, float | str]:
        """Decode one metric result: the number of its name, and its value."""
        name, value = metric_result(field)
        return self._devices.get(name, ""), value

    def _without_sections(self, message: bytes) -> bytes:
        """Remove the sections and, right behind them, the results of NVIDIA's rules."""
        for sections in self._sections:
            head, separator, tail = message.partition(sections)
            if separator:
                return head + _without_rules(tail)
        runs = [message[start:end] for field, start, end in raw_fields(message) if field == _RESULT_SECTION]
        sections = b"".join(runs)
        if not sections or sections not in message:
            return message
        if len(self._sections) < _MOST_TEMPLATES:
            self._sections.append(sections)
        head, _, tail = message.partition(sections)
        return head + _without_rules(tail)


def _without_rules(tail: bytes) -> bytes:
    """Drop the rule results from what follows the sections of a launch."""
    kept = [(start, end) for field, start, end in raw_fields(tail) if field != _RESULT_RULE]
    parsed = max((end for _, end in kept), default=0)
    return b"".join(tail[start:end] for start, end in kept) + (
        b"" if parsed == len(tail) or not kept else tail[parsed:]
    )


def _name_index(message: bytes, start: int, end: int) -> int | None:
    """Return the number of a metric's name in the report's string table: the first field of a metric result."""
    at = start + 1
    while message[at] & 0x80:
        at += 1
    content = message[at + 1 : end]
    if content[:1] != b"\x08":
        return None
    value = shift = 0
    for byte in content[1:6]:
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    return None
