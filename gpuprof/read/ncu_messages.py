"""The values of a report's launches out of its messages, which are split when they are asked for."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuprof.errors import DamagedInput
from gpuprof.read.container import AGAIN, MessageSpan
from gpuprof.read.device_attributes import ATTRIBUTE
from gpuprof.read.file_bytes import Bytes
from gpuprof.read.metric_values import Instance, Keys, MetricValue, UnknownForm
from gpuprof.read.protobuf import Malformed
from gpuprof.read.result_message import Layout, ResultMessage, SplitMessage, Splitter

Instances = Mapping[str | int, float] | None
_KEPT = 4
"""So many messages stay in memory: what is asked of a launch is mostly asked in one go."""


class LaunchMessages:
    """The messages of the launches of a report, whose table of strings has `names`. Errors call the report `file`."""

    def __init__(self, file: str, data: Bytes, names: Sequence[str], spans: Sequence[MessageSpan]) -> None:
        self.file = file
        self.data = data
        self.spans = spans
        self.columns: dict[str, int] = {}
        self.table = names
        self._numbers: dict[str, int] = {}
        for number, name in enumerate(names):
            self._numbers.setdefault(name, number)
        self._splitter = Splitter(frozenset(at for at, name in enumerate(names) if name.startswith(ATTRIBUTE)))
        self._known: dict[int, tuple[Layout, array[int]]] = {}
        self._last: dict[int, ResultMessage] = {}
        self._names: dict[Layout, tuple[str, ...]] = {}
        self._keys: Keys = {}
        self._adopted: dict[int, tuple[Layout, Layout]] = {}
        self._last_instances: tuple[int, dict[str, Instances]] = -1, {}

    def leave_only(self, launches: Sequence[int]) -> None:
        """Leave these launches: what is asked of the first is then asked of the first of them."""
        self.spans = [self.spans[launch] for launch in launches]

    def split(self, launch: int) -> SplitMessage:
        """Split the message of a launch. Raises DamagedInput where it does not parse."""
        try:
            message = self.parsed(launch)
        except Malformed as broken:
            raise self.damaged("the message of a launch", broken) from broken
        self.know(launch, message.layout, message.starts)
        self._keep(launch, message)
        return message

    def know(self, launch: int, layout: Layout, starts: array[int]) -> None:
        """Remember where the metrics of a launch lie in its message."""
        self._known[launch] = layout, starts

    def adopt(self, launch: int, layout: Layout, starts: array[int]) -> None:
        """Remember the same as another process has found it, with the layout that all launches share."""
        known = self._adopted.get(id(layout))
        if known is None or known[0] is not layout:
            known = self._adopted[id(layout)] = layout, self._splitter.adopted(layout)
        self.know(launch, known[1], starts)

    def expect(self, names: Iterable[str]) -> None:
        """Decode the values of these metrics, too, as soon as one is asked for."""
        for name in names:
            if name in self._numbers:
                self.columns.setdefault(name, len(self.columns))

    def parsed(self, launch: int) -> SplitMessage:
        """Split the message of a launch. Raises Malformed where it does not parse."""
        span = self.spans[launch]
        return self._splitter.split(self._bytes(span), span.start, span.form)

    def damaged(self, what: str, broken: Malformed) -> DamagedInput:
        """Return the error that says where the file does not parse."""
        said = f"{self.file} is damaged: at byte {broken.at}, {what} cannot be read: {broken.why}"
        return DamagedInput(said, f"{AGAIN}; --salvage leaves out the launches that cannot be read")

    def lists(self, name: str) -> bool:
        """Tell whether the report has that name in its table of strings."""
        return name in self._numbers

    def values(self, launch: int, names: Iterable[str]) -> Iterator[MetricValue]:
        """Yield the values of metrics as they are recorded; None where one has none, or one that is not known."""
        message = self._message(launch)
        for name in names:
            try:
                yield message.value(self._numbers[name])
            except UnknownForm:
                yield None
            except Malformed as broken:
                raise self.damaged(f"the value of {name}", broken) from broken

    def instances(self, launch: int, name: str) -> list[Instance]:
        """Return the instances of a metric in their order, with their keys; none where their form is not known."""
        try:
            return self._message(launch).instances(self._numbers[name], self._keys)
        except UnknownForm:
            return []
        except Malformed as broken:
            raise self.damaged(f"the value of {name}", broken) from broken

    def instances_of_last(self, launch: int) -> dict[str, Instances]:
        """Return where instances of a launch are remembered, by the names of metrics, until another is asked for."""
        if self._last_instances[0] != launch:
            self._last_instances = launch, {}
        return self._last_instances[1]

    def is_strange(self, launch: int, name: str) -> bool:
        """Return whether a launch has a metric of that name in an unknown form."""
        message, number = self._message(launch), self._numbers[name]
        try:
            message.value(number), message.instances(number, self._keys)
        except UnknownForm:
            return True
        except Malformed as broken:
            raise self.damaged(f"the value of {name}", broken) from broken
        return False

    def has(self, launch: int, name: str) -> bool:
        """Tell whether a launch has a metric of that name, with a value or without."""
        return self._message(launch).has(self._numbers[name])

    def names(self, launch: int) -> tuple[str, ...]:
        """Return the names of the metrics of a launch, sorted."""
        layout = self._message(launch).layout
        if layout not in self._names:
            known = self.table
            self._names[layout] = tuple(sorted({known[number] for number in layout.names() if number < len(known)}))
        return self._names[layout]

    def _message(self, launch: int) -> ResultMessage:
        """Return the message of a launch that was split before; the last few stay in memory."""
        message = self._last.get(launch)
        if message is None:
            if launch not in self._known:
                return self.split(launch)
            span, (layout, starts) = self.spans[launch], self._known[launch]
            message = ResultMessage(self._bytes(span), span.start, layout, starts=starts)
            self._keep(launch, message)
        return message

    def _keep(self, launch: int, message: ResultMessage) -> None:
        if len(self._last) >= _KEPT:
            del self._last[next(iter(self._last))]
        self._last[launch] = message

    def _bytes(self, span: MessageSpan) -> bytes:
        """Return the bytes of a message; fewer, where the file has become shorter."""
        return self.data[span.start : span.end]
