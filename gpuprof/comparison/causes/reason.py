"""A candidate cause: what moved, and by how much that alone changes the time."""

from __future__ import annotations

from msgspec import Struct

from gpuprof.comparison.contract import Certainty, ChangeCause, Direction, ValueChange


class Reason(Struct, frozen=True):
    """A candidate cause. `effect` is the logarithm of the ratio of times that follows: above zero slower, zero: none.

    `first`: ranked before reasons of the same effect, because it is the work of the busiest unit. `always`: listed
    even if its effect is small. `early`: listed right behind the first cause.
    """

    mechanism: str
    values: tuple[ValueChange, ...]
    effect: float
    certainty: Certainty
    kind: str = ""
    limiters: tuple[str, ...] = ()
    first: bool = False
    always: bool = False
    early: bool = False

    def cause(self, direction: Direction) -> ChangeCause:
        """Return it as a cause of the contract."""
        return ChangeCause(
            mechanism=self.mechanism,
            direction=direction,
            certainty=self.certainty,
            values=self.values,
            kind=self.kind,
            limiters=self.limiters,
        )
