"""What a run tells while it goes on: typed events for whoever shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gpuprof.characterize.sheet.measured import Curve, MeasuredValue
from gpuprof.characterize.sheet.normal import Published


class RunPlanned(NamedTuple):
    """What will be measured, in this order, and within how many seconds."""

    steps: tuple[str, ...]
    seconds: float


class Compiling(NamedTuple):
    """How many of how many kernels are compiled."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Started:
    """A probe begins. `number` of `total`; `regime` and `data` where it has several."""

    probe: str
    title: str
    regime: str
    data: str
    number: int
    total: int


@dataclass(frozen=True, slots=True)
class ConfigurationTaken:
    """One configuration was measured: its name, how many samples, and its value in the probe's unit, if it has one."""

    probe: str
    configuration: str
    samples: int
    value: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Result:
    """A value with its verdict and evidence, the published range for it, and the curve that it is from."""

    name: str
    value: MeasuredValue
    expected: Published | None = None
    curve: Curve | None = None


class Remark(NamedTuple):
    """A sentence about what happened: throttling, a probe that was skipped, a run that was cut short."""

    probe: str | None
    text: str


class Finished(NamedTuple):
    """The run is over. `interrupted`: not all of the plan was measured."""

    seconds: float
    interrupted: bool


Event = RunPlanned | Compiling | Started | ConfigurationTaken | Result | Remark | Finished
Tell = Callable[[Event], None]


def silence(_: Event) -> None:
    """Tell nobody."""
