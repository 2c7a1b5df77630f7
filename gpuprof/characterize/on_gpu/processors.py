"""The host's processors on the GPU's side: copies from the other side's memory cross the link between both."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable


def listed(numbers: Iterable[int]) -> str:
    """Write processors as Linux lists them: "0-15,64-79"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def numbers(text: str | None) -> frozenset[int]:
    """Read what `listed` has written."""
    runs = [run.partition("-") for run in (text or "").split(",") if run]
    return frozenset(number for first, _, last in runs for number in range(int(first), int(last or first) + 1))


def allowed(text: str | None) -> frozenset[int]:
    """Return those of them that this process may use; none where the system cannot tell."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset()
    return numbers(text) & os.sched_getaffinity(0)


def bind_near(text: str | None) -> None:
    """Keep this process, and with it the pages that it touches first, on those of them that it may use, if any."""
    if near := allowed(text):
        with contextlib.suppress(OSError):  # a container may forbid it
            os.sched_setaffinity(0, near)
