"""What an expert expects of real reports: the cause of each kernel's time, and what fixes of them gained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).resolve().parents[2] / "tests" / "data" / "expected-causes.yaml"
NOTHING, SET_UP = "nothing", "setup-kernel"
"""What stands among causes and is no rule: a kernel without anything to fix, and one that only makes data."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of equal launches of a kernel: any of `causes` first, none of `misleads`.

    Without causes the report does not hold what would tell one. `access` is the shape of its global accesses, `kind`
    what it does in a language model, `built_for` the architecture of its code beside the `device` that it ran on.
    """

    report: str
    kernel: str
    launches: tuple[int, ...]
    causes: tuple[str, ...]
    also: tuple[str, ...]
    misleads: tuple[str, ...]
    state: str
    reason: str
    certainty: str
    access: str | None = None
    kind: str | None = None
    built_for: str | None = None
    device: str | None = None

    @property
    def where(self) -> str:
        """Write report, launches and kernel."""
        return f"{self.report} {spans(self.launches)} {self.kernel}"


@dataclass(frozen=True, slots=True)
class Pair:
    """The same work before and after a change; without fixes nothing was changed.

    With a `clock_drift` the two ran at clocks that differ, and so do their times without any change.
    """

    report: str
    launch: int
    kernel: str
    after: str
    fixes: tuple[str, ...]
    gain: float
    clock_drift: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """All that is expected."""

    kernels: tuple[Expected, ...]
    pairs: tuple[Pair, ...]

    @property
    def reports(self) -> tuple[str, ...]:
        """Return the names of the reports, in their order."""
        return tuple(dict.fromkeys(item.report for item in self.kernels))


def read_table(path: Path = TABLE) -> Table:
    """Read the table."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    kernels = tuple(map(_expected, document["kernels"]))
    return Table(kernels, tuple(map(_pair, document["pairs"])))


def spans(numbers: tuple[int, ...]) -> str:
    """Write numbers with runs as "0–3": those of launches."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _expected(entry: dict[str, Any]) -> Expected:
    lists = {name: tuple(entry[name]) for name in ("launches", "causes", "also", "misleads")}
    return Expected(**{**entry, **lists})


def _pair(entry: dict[str, Any]) -> Pair:
    before, after = entry["before"], entry["after"]
    return Pair(
        report=before["report"],
        launch=before["launch"],
        kernel=before["kernel"],
        after=after["kernel"],
        fixes=tuple(entry["fixes"]),
        gain=entry["gain"],
        clock_drift=entry.get("clock_drift", False),
    )
