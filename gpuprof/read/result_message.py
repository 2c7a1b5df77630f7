"""The message of one profiled kernel, range, command list or graph: where its metrics lie, and its other fields.

A launch of a full set has more than a thousand metrics in some hundred kilobytes, of which few are asked for: the
message is split once, and a metric decoded when it is asked for. The attributes of a GPU are the same bytes in all
launches on it: they are split for the first one only.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from gpuprof.read.metric_values import Instance, Keys, MetricValue, metric_instances, metric_value
from gpuprof.read.protobuf import FIXED32, FIXED64, LENGTH, VARINT, Malformed, fields, varint

_SMALL = 0x80
"""Lengths and numbers below this are one byte."""
_NAME_TAG = 0x08
_LEAST_SIZE = 4
"""Of a metric whose name is read where it must be; smaller ones have a name and nothing else."""
_MOST_NAME = 1 << 14
_MOST_LAYOUTS = 1000
_MOST_RUNS = 8
"""So many GPUs of a report are known by the bytes of their attributes."""
_LEAST_TAG = 8
"""That of field 1: there is no field 0."""
_FIXED = {FIXED64: 8, FIXED32: 4}


class ResultForm(Struct, frozen=True):
    """The field numbers of a kind of result; all numbers up to `known` are known (Nsight Compute 2026.3)."""

    kind: str
    metrics: int
    nvtx: int
    clocks: int
    known: int
    display_name: int | None = None


KERNEL = ResultForm("kernel", metrics=13, nvtx=21, clocks=25, known=39)
RANGE = ResultForm("range", metrics=4, nvtx=10, clocks=12, known=23)
COMMAND_LIST = ResultForm("command list", metrics=4, nvtx=10, clocks=13, known=27, display_name=18)
GRAPH = ResultForm("graph", metrics=4, nvtx=10, clocks=13, known=26)


class AttributeRun:
    """The attributes of a GPU as they stand in the messages of all its launches, one behind the other."""

    __slots__ = ("content", "places", "values")

    def __init__(self, content: bytes, places: dict[int, int]) -> None:
        self.content = content
        self.places = places
        self.values: dict[int, MetricValue] = {}

    def value(self, name: int, base: int) -> MetricValue:
        """Return the value of an attribute, decoded once."""
        if name not in self.values:
            self.values[name] = metric_value(self.content, self.places[name], base)
        return self.values[name]


FieldPlace = tuple[int, int, int]
"""Where the content of a field starts and ends in its message, and its value, where it is a number."""


class Layout:
    """Which metrics a message has, in their order; equal messages share it. `runs` are its attributes of a GPU."""

    __slots__ = ("listed", "places", "runs")

    def __init__(self, names: tuple[int, ...], runs: tuple[AttributeRun, ...]) -> None:
        self.listed = names
        self.places = {name: place for place, name in enumerate(names)}
        self.runs = runs

    def names(self) -> Iterator[int]:
        """Yield the numbers of the names of the metrics."""
        yield from self.places
        for run in self.runs:
            yield from run.places

    def run_of(self, name: int) -> AttributeRun | None:
        """Return the attributes among which a name is."""
        return next((run for run in self.runs if name in run.places), None)


class ResultMessage(Struct, frozen=True):
    """A message, and where each metric of its layout starts in it."""

    data: bytes
    base: int
    layout: Layout
    starts: array[int]

    def has(self, name: int) -> bool:
        """Tell whether it has a metric of this name."""
        return name in self.layout.places or self.layout.run_of(name) is not None

    def value(self, name: int) -> MetricValue:
        """Return the value of a metric, None where it has none. Raises Malformed, or UnknownForm."""
        place = self.layout.places.get(name)
        if place is not None:
            try:
                return metric_value(self.data, self.starts[place], self.base)
            except IndexError:
                raise self._overwritten() from None
        run = self.layout.run_of(name)
        return run.value(name, self.base) if run is not None else None

    def instances(self, name: int, keys: Keys) -> list[Instance]:
        """Return the instances of a metric, none where it is not there. Raises Malformed, or UnknownForm."""
        place = self.layout.places.get(name)
        if place is not None:
            try:
                return metric_instances(self.data, self.starts[place], self.base, keys)
            except IndexError:
                raise self._overwritten() from None
        run = self.layout.run_of(name)
        return metric_instances(run.content, run.places[name], self.base, keys) if run is not None else []

    def _overwritten(self) -> Malformed:
        return Malformed(self.base, "the file has changed since it was opened")


class SplitMessage(ResultMessage, frozen=True):
    """A message as it was split, with the fields that are no metrics: for each number where their contents lie."""

    form: ResultForm
    others: Mapping[int, list[FieldPlace]]

    @property
    def strange(self) -> int | None:
        """The highest field number, where that is not known."""
        highest = max(self.others, default=0)
        return highest if highest > self.form.known else None

    def content(self, number: int) -> bytes | None:
        """Return the content of a field, the last one of its number; None where it is not there."""
        places = self.others.get(number)
        return self.data[places[-1][0] : places[-1][1]] if places else None

    def contents(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Yield the contents of all fields of a number, each behind its offset in the file."""
        for start, end, _ in self.others.get(number, ()):
            yield self.base + start, self.data[start:end]

    def number(self, number: int) -> int | None:
        """Return a field that is a number."""
        places = self.others.get(number)
        return places[-1][2] if places else None


class Splitter(Struct):
    """Splits the messages of a report; `attributes` are the numbers of the names of GPU attributes."""

    attributes: frozenset[int]
    _runs: list[AttributeRun] = field(default_factory=list)
    _layouts: dict[tuple[tuple[int, ...], tuple[int, ...]], Layout] = field(default_factory=dict)

    def split(self, data: bytes, base: int, form: ResultForm) -> SplitMessage:
        """Split the message that lies at an offset of the file. Raises Malformed where it does not parse."""
        names: list[int] = []
        starts: list[int] = []
        runs: list[AttributeRun] = []
        others: dict[int, list[FieldPlace]] = {}
        attributes, tag = self.attributes, form.metrics << 3 | LENGTH
        at, end = 0, len(data)
        try:
            while at < end:
                if data[at] != tag:
                    at = _other(data, at, base, others)
                    continue
                # As ncu writes them: TAG SIZE 08 NAME …, the size in one byte, the name's number in one or two.
                size, name = data[at + 1], data[at + 3]
                if name >= _SMALL:
                    name = name & 0x7F | data[at + 4] << 7
                if data[at + 2] != _NAME_TAG or not _LEAST_SIZE <= size < _SMALL or name >= _MOST_NAME:
                    name, size = _numbered(data, at, base)
                if name in attributes:
                    runs.append(self._run(data, at, base, tag))
                    at += len(runs[-1].content)
                else:
                    names.append(name)
                    starts.append(at)
                    at += size + 2
        except IndexError:
            at = end + 1
        if at != end:
            raise Malformed(base + end, "the message of a launch is cut off")
        layout = self._layout(names, runs)
        return SplitMessage(data, base, layout, starts=array("I", starts), form=form, others=others)

    def adopted(self, layout: Layout) -> Layout:
        """Return the layout of this splitter that is the same as one of another process."""
        runs = [self._equal(run) for run in layout.runs]
        return self._layout(layout.listed, runs)

    def _equal(self, run: AttributeRun) -> AttributeRun:
        known = next((other for other in self._runs if other.content == run.content), None)
        if known is None:
            known = run
            if len(self._runs) < _MOST_RUNS:
                self._runs.append(run)
        return known

    def _layout(self, names: Sequence[int], runs: Sequence[AttributeRun]) -> Layout:
        key = tuple(names), tuple(map(id, runs))
        layout = self._layouts.get(key)
        if layout is None:
            layout = Layout(key[0], tuple(runs))
            if len(self._layouts) < _MOST_LAYOUTS:
                self._layouts[key] = layout
        return layout

    def _run(self, data: bytes, start: int, base: int, tag: int) -> AttributeRun:
        """Return the attributes that start there."""
        known = next((run for run in self._runs if data.startswith(run.content, start)), None)
        if known is not None:
            return known
        run = _run_at(data, start, base, tag, self.attributes)
        if len(self._runs) < _MOST_RUNS:
            self._runs.append(run)
        return run


def _numbered(data: bytes, at: int, base: int) -> tuple[int, int]:
    """Return the number of the name of a metric of any form, and how far its end is behind its tag and one byte."""
    size, start = varint(data, at + 1, base)
    end = start + size
    if end > len(data):
        raise Malformed(base + at, "a metric is cut off")
    if size > _LEAST_SIZE and data[start] == _NAME_TAG:
        return varint(data, start + 1, base)[0], end - at - 2
    return _name(data[start:end], base + start), end - at - 2


def _run_at(data: bytes, start: int, base: int, tag: int, attributes: frozenset[int]) -> AttributeRun:
    """Return the attributes that follow each other from there on."""
    places: dict[int, int] = {}
    at = start
    while at < len(data) and data[at] == tag:
        name, size = _numbered(data, at, base)
        if name not in attributes:
            break
        places[name] = at - start
        at += size + 2
    return AttributeRun(data[start:at], places)


def _name(content: bytes, base: int) -> int:
    """Return the number of a metric's name. Raises Malformed where it has none."""
    for number, value, _ in fields(content, base):
        if number == 1 and isinstance(value, int):
            return value
    raise Malformed(base, "a metric has no name")


def _other(data: bytes, at: int, base: int, others: dict[int, list[FieldPlace]]) -> int:
    """Note a field that is no metric, and return where it ends."""
    tag, start = data[at], at + 1
    if tag >= _SMALL:
        tag, start = varint(data, at, base)
    wire = tag & 7
    number = data[start]
    if wire == LENGTH:
        start += 1
        if number >= _SMALL:
            number, start = varint(data, start - 1, base)
        end = start + number
    elif wire == VARINT:
        end = start + 1
        if number >= _SMALL:
            number, end = varint(data, start, base)
    elif wire in _FIXED:
        end = start + _FIXED[wire]
    else:
        raise Malformed(base + at, "the message of a launch has a field of unknown type")
    if tag < _LEAST_TAG:
        raise Malformed(base + at, "the message of a launch has a field without a number")
    if end > len(data):
        raise Malformed(base + at, "a field of a launch is cut off")
    known = others.get(tag >> 3)
    if known is None:
        others[tag >> 3] = [(start, end, number)]
    else:
        known.append((start, end, number))
    return end
