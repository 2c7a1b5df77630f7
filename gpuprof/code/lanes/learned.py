"""What instructions did with what they read, in any walk: code repeats itself, within a kernel and between kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpuprof.code.lanes.values import LaneValue

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
        self.results: dict[object, Learned] = {}
        self._values: dict[LaneValue, LaneValue] = {}
        self._constants: dict[frozenset[tuple[int, int]], Mapping[int, int]] = {}

    def same(self, held: LaneValue | None) -> LaneValue | None:
        """Return the one object that is equal to a value."""
        return held if held is None else self._values.setdefault(held, held)

    def same_constants(self, constants: Mapping[int, int]) -> Mapping[int, int]:
        """Return the one object that is equal to these constants."""
        return self._constants.setdefault(frozenset(constants.items()), constants)

    def note(self, key: object, inputs: object, puts: Puts) -> Puts:
        """Note what an instruction changed; return it with values that are one object each."""
        kept = tuple((name, self.same(held), self.same(guarded)) for name, held, guarded in puts)
        self.results[key] = Learned(inputs, kept)
        return kept

    def tidy(self) -> None:
        """Forget all when it is much. No walk may be under way."""
        if len(self._values) > _MOST_VALUES or len(self.results) > _MOST_RESULTS:
            self.results.clear()
            self._values.clear()
            self._constants.clear()


LEARNING = Learning()
"""Of this process."""
