"""What instructions did with what they read, in any walk: code repeats itself, within a kernel and between kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpuprof.sass.lanes.values import LaneValue, join

_MOST_VALUES, _MOST_RESULTS = 1 << 14, 1 << 16
"""A value of 32 lanes takes up to 1.5 KB."""

Puts = tuple[tuple[str, "LaneValue | None", "LaneValue | None"], ...]
"""Registers, what each then holds, and what in the lanes in which the instruction's predicate is true."""


class Learned(NamedTuple):
    """What an instruction changed. `inputs` are held so that no other object gets the identity of one."""

    inputs: object
    puts: Puts


class Learning:
    """What was found out, by the instruction and the identities of what it read; equal values are one object."""

    def __init__(self) -> None:
        self._results: dict[object, dict[object, Learned]] = {}
        self._joined: dict[tuple[int, int], LaneValue | None] = {}
        self._count = 0
        self._values: dict[LaneValue, LaneValue] = {}
        self._constants: dict[frozenset[tuple[int, int]], Mapping[int, int]] = {}

    def same(self, held: LaneValue | None) -> LaneValue | None:
        """Return the one object that is equal to a value."""
        return held if held is None else self._values.setdefault(held, held)

    def joined(self, first: LaneValue, second: LaneValue) -> LaneValue | None:
        """Return what holds for both of two values that are one object each."""
        key = id(first), id(second)
        if key not in self._joined:
            self._joined[key] = self.same(join(first, second))
        return self._joined[key]

    def same_constants(self, constants: Mapping[int, int]) -> Mapping[int, int]:
        """Return the one object that is equal to these constants."""
        return self._constants.setdefault(frozenset(constants.items()), constants)

    def results(self, *where: object) -> dict[object, Learned]:
        """Return what was found out where these were the same."""
        return self._results.setdefault(where, {})

    def learned(self, inputs: object, puts: Puts) -> Learned:
        """Return what an instruction changed with values that are one object each."""
        self._count += 1
        return Learned(inputs, tuple([(name, self.same(held), self.same(guarded)) for name, held, guarded in puts]))

    def tidy(self) -> None:
        """Forget all when it is much. No walk may be under way."""
        if len(self._values) > _MOST_VALUES or self._count > _MOST_RESULTS:
            self._count = 0
            self._results.clear()
            self._joined.clear()
            self._values.clear()
            self._constants.clear()


LEARNING = Learning()
"""Of this process."""
