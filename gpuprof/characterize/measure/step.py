"""What is measured in one go: a probe in one regime with one kind of data; and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprof.characterize.measure.effort import DEFAULT, Effort
from gpuprof.characterize.measure.events import Tell, silence
from gpuprof.characterize.on_gpu.launcher import KernelLauncher
from gpuprof.characterize.record.configurations import CUBIN
from gpuprof.characterize.record.gpu import Gpu, Telemetry
from gpuprof.characterize.record.series import FixedValues, Series, SeriesConfig
from gpuprof.characterize.record.store import Store

if TYPE_CHECKING:
    from gpuprof.characterize.gates.check import Checked
    from gpuprof.characterize.probes.probe import Probe


@dataclass(frozen=True, slots=True)
class Step:
    """A probe in one regime with one kind of data, and the seconds that it may take.

    `least_s` is what it needs for each of its points once, which it takes in any case; `good_s` what it needs for all
    allocations of memory, which comes before what only makes intervals smaller.
    """

    probe: Probe
    regime: str
    data: str
    seconds: float = 0.0
    least_s: float = 0.0
    good_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Why a step, or one point of it, has no value. `fixed` None: none of its points has one."""

    probe: str
    regime: str
    data: str
    fixed: FixedValues | None
    why: str


@dataclass
class MeasurementContext:
    """What all steps of a run share: the GPU, the compiled kernels, the samples, the listener.

    `broken` has the configurations that cannot run, and why; `repeat_s` is what the run may still spend on measuring
    again what was throttled, besides the time of its steps.
    """

    gpu: Gpu
    target: str
    checked: Mapping[str, tuple[Checked, ...]]
    store: Store
    effort: Effort
    tell: Tell = silence
    stop: Callable[[], bool] = lambda: False
    telemetry: list[Telemetry] = field(default_factory=list)
    broken: dict[tuple[str, SeriesConfig], str] = field(default_factory=dict)
    repeat_s: float = 0.0

    def __post_init__(self) -> None:
        self.launcher = KernelLauncher(self.gpu, self.stop)

    @classmethod
    def without_samples(cls, gpu: Gpu, target: str, checked: Mapping[str, tuple[Checked, ...]]) -> MeasurementContext:
        """Return a context whose samples nobody keeps."""
        return cls(gpu, target, checked, store=Store(None), effort=DEFAULT)

    def samples(self) -> tuple[Series, ...]:
        """Return every series but those of other code: an earlier run may have had another compiler."""
        kernels = (checked.compiled for variants in self.checked.values() for checked in variants)
        cubins = {compiled.sha256[:CUBIN] for compiled in kernels if compiled is not None}
        return tuple(series for series in self.store.all() if series.config.cubin in {None, "", *cubins})

    def look(self) -> Telemetry:
        """Ask the driver how the GPU is, and remember it."""
        telemetry = self.gpu.telemetry()
        self.telemetry.append(telemetry)
        return telemetry
