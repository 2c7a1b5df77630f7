"""The metrics of a report's launches, decoded when they are asked for.

What launches are asked for is nearly the same for all: the names that were asked of any are columns, and a launch keeps
its numbers of them in an array, so that thousands of launches take little memory and each message is split about once.
Texts are decoded each time; so are instances, but for those of the launch that was asked last.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterator, Mapping
from functools import lru_cache

from gpuprof.model.recorded import Metric, plausible
from gpuprof.read.metric_units import unit_of
from gpuprof.read.metric_values import Instance
from gpuprof.read.ncu_messages import LaunchMessages
from gpuprof.units import ncu_unit

_MISSING = math.nan


class NcuMetrics:
    """The metrics of one launch."""

    __slots__ = ("messages", "number_in_report", "values")

    def __init__(self, messages: LaunchMessages, number: int, values: array[float] | None = None) -> None:
        """`values` are those of the first columns, not a number where there is none."""
        self.messages = messages
        self.values = values if values is not None else array("d")
        self.number_in_report = number

    def get(self, name: str) -> Metric | None:
        """Return the metric of that exact name with its unit, which is empty where that is not known."""
        value: float | str | None = self.number(name)
        if value is None:
            value = self.text(name)
            return Metric(value, "") if value is not None else None
        return Metric(value, _unit(name)[1])

    def number(self, name: str) -> float | None:
        """Return its value in a base unit, where it is a number."""
        columns, values = self.messages.columns, self.values
        column = columns.get(name)
        if column is None:
            if not self.messages.lists(name):
                return None
            column = columns[name] = len(columns)
        if column >= len(values):
            values.extend(self._numbers(tuple(itertools.islice(columns, len(values), None))))
        value = values[column]
        return None if math.isnan(value) else value

    def single(self, name: str) -> float | None:
        """Return the same for a name that is asked of few launches: it does not become a column."""
        value = next(self._numbers((name,))) if self.messages.lists(name) else _MISSING
        return None if math.isnan(value) else value

    def digits(self, name: str) -> None:
        """Return nothing: a report keeps its numbers whole."""

    def text(self, name: str) -> str | None:
        """Return its value where it is text."""
        value = next(self.messages.values(self.number_in_report, (name,))) if self.messages.lists(name) else None
        return value if isinstance(value, str) else None

    def has(self, name: str) -> bool:
        """Tell whether there is an entry of that name, even one without a number."""
        return self.messages.lists(name) and self.messages.has(self.number_in_report, name)

    def is_strange(self, name: str) -> bool:
        """Return whether there is an entry of that name in an unknown form."""
        return self.has(name) and self.messages.is_strange(self.number_in_report, name)

    def names(self) -> tuple[str, ...]:
        """Return the names of all recorded metrics, sorted."""
        return self.messages.names(self.number_in_report)

    def instances(self, name: str) -> Mapping[str | int, float] | None:
        """Return a metric's values by opcode or by program counter; None where they have no such keys."""
        known = self.messages.instances_of_last(self.number_in_report)
        if name not in known:
            known[name] = self._instances(name)
        return known[name]

    def _instances(self, name: str) -> Mapping[str | int, float] | None:
        listed = self._listed(name)
        if not any(key is not None for key, _ in listed):
            return None
        values: dict[str | int, float] = {}
        for key, value in listed:
            if key is not None and value is not None and not isinstance(value, str):
                values[key] = values.get(key, 0) + value
        return values

    def addresses(self, name: str) -> tuple[int, ...]:
        """Return the addresses that a metric lists; none where it lists none."""
        return tuple(value for _, value in self._listed(name) if isinstance(value, int))

    def _listed(self, name: str) -> list[Instance]:
        return self.messages.instances(self.number_in_report, name) if self.messages.lists(name) else []

    def _numbers(self, names: tuple[str, ...]) -> Iterator[float]:
        """Yield the values of metrics in base units; not a number, where they are not numbers."""
        for name, value in zip(names, self.messages.values(self.number_in_report, names), strict=True):
            if value is None or isinstance(value, str):
                yield _MISSING
                continue
            known = plausible(float(value) * _unit(name)[0])
            yield known if known is not None else _MISSING


@lru_cache(maxsize=8192)
def _unit(name: str) -> tuple[float, str]:
    """Return what a metric of that name is multiplied with, and the base unit that it then has."""
    return ncu_unit(unit_of(name) or "")
