"""What the program under ncu has done so far, a line a step: what runs ncu reads it, however the program has ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

BEGUN, LAUNCHED, AGREES, WRONG = "begun", "launched", "agrees", "wrong"
"""A case that stays begun has ended the program; one that stays launched was not compared before another one did."""


class Step(NamedTuple):
    """How far a case has come: begun, both kernels launched, they agree; or something is wrong, and what."""

    state: str
    why: str = ""


def tell(file: Path, case: str, step: Step) -> None:
    """Write down how far a case has come; it is in the file when this returns."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps([case, *step]) + "\n")


def told(file: Path) -> dict[str, Step]:
    """Return how far each case came, in the order in which they were begun; a line that is cut off is left out."""
    steps: dict[str, Step] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            case, state, why = json.loads(line)
        except ValueError:
            continue
        steps[case] = Step(state, why)
    return steps
