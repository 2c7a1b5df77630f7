"""A reason for a change of time as it is weighed: what moved, and by how much that alone changes the time."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Certainty = Literal["counted", "inferred", "guess"]


class Reason(Struct, frozen=True):
    """What moved. `effect` is the logarithm of what it makes of the time: above zero slower, zero: nothing.

    `first` is told before what explains as much: what the busiest unit is kept busy with. `always` is told however
    little it explains, and `early` behind the first one at the latest.
    """

    mechanism: str
    sentence: str
    effect: float
    certainty: Certainty
    first: bool = False
    always: bool = False
    early: bool = False
    location: str = ""
