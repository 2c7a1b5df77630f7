"""What a run records, as values: timed launches, what was chosen for them and what was seen, and notes on the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

Parameter = str | int | float | bool
FixedValues = tuple[tuple[str, Parameter], ...]
"""The variables of a result that fix it, in the order of the probe."""


class Sample(NamedTuple):
    """One timed launch: how many iterations, seconds, cycles in the kernel, SM clock by NVML, throttle reasons.

    None where it was not recorded.
    """

    iterations: int
    time_s: float
    cycles: float | None = None
    sm_clock_hz: float | None = None
    reasons: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesConfig:
    """What was chosen for a series, which tells it from others of its probe. None where there was nothing to choose.

    `values` has compile-time parameters and run-time variables by the probe's names; `block` and `grid` are the launch
    configuration, `cubin` the first digits of the code's SHA-256, `allocation` the number of the memory's allocation,
    `sm` the SM of a series that is of one.
    """

    values: Mapping[str, Parameter]
    block: int | None = None
    grid: int | None = None
    data: str
    regime: str
    blocks_per_sm: int | None = None
    cubin: str | None = None
    allocation: int | None = None
    sm: int | None = None

    def __hash__(self) -> int:
        return hash(frozenset(self.settings().items()))

    def settings(self) -> dict[str, Parameter]:
        """Return what was chosen by name."""
        return dict(self.values) | _known(self, CHOSEN)

    def fixed(self, axes: Sequence[str]) -> FixedValues:
        """Return the values of axes, each of which is a parameter, a variable, or of the launch configuration.

        Raises ValueError for one that was not chosen.
        """
        settings = self.settings()
        missing = [axis for axis in axes if axis not in settings]
        if missing:
            raise ValueError(f"they lack {missing[0]}")
        return tuple((axis, settings[axis]) for axis in axes)

    def names(self) -> dict[str, str]:
        """Return parameters and variables as text: what counts of work are made of."""
        return {name: str(value) for name, value in self.values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What came of a series besides its samples. None where it was not looked for, or could not be told.

    `sms`: on how many SMs it ran; `ran`: the grid of a clustered launch that all fitted on the GPU; `result`: what the
    host found of the kernel's output; `at_once` and `calculated`: resident blocks per SM, counted and by CUDA.
    """

    sms: int | None = None
    ran: int | None = None
    result: str | None = None
    settled: bool | None = None
    at_once: int | None = None
    calculated: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    joule_per_iteration: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None

    def settings(self) -> dict[str, Parameter]:
        """Return what was seen by name."""
        return _known(self, OBSERVED)


CHOSEN = tuple(declared.name for declared in fields(SeriesConfig) if declared.name != "values")
OBSERVED = tuple(declared.name for declared in fields(Observed))


def _known(record: SeriesConfig | Observed, names: Sequence[str]) -> dict[str, Parameter]:
    return {name: value for name in names if (value := getattr(record, name)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The samples of one configuration of a probe. `round` tells the sweep (0) from what was measured again."""

    probe: str
    config: SeriesConfig
    seen: Observed = Observed()
    round: int
    samples: tuple[Sample, ...]

    @property
    def block(self) -> int:
        """Return the threads per block. Raises ValueError for a series that launched no kernel."""
        return _launched(self.config.block)

    @property
    def grid(self) -> int:
        """Return the blocks that were launched. Raises ValueError for a series that launched no kernel."""
        return _launched(self.seen.ran or self.config.grid)


def _launched(number: int | None) -> int:
    if number is None:
        raise ValueError("they lack what was launched")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """What happened to the run itself: its environment, how the GPU was before and after it, what was lost.

    `number` counts the notes, `time_s` is Unix time. `probe` and `why` are of a probe that ended the process that holds
    the GPU; `facts` is what the GPU said of itself.
    """

    number: int
    what: str
    time_s: float
    probe: str | None = None
    why: str | None = None
    facts: Mapping[str, Parameter] = field(default_factory=dict)
