"""Whole runs of the library on a virtual clock that charges what a real device does: in time, and no point is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gpuprof.characterize.characterization import Characterization, Wanted, characterize
from gpuprof.characterize.measure.effort import EFFORTS
from gpuprof.characterize.measure.events import Event, Finished, Result, RunPlanned, Started
from gpuprof.characterize.measure.forecast import Where
from gpuprof.characterize.measure.points import step_points
from gpuprof.characterize.measure.step import MeasurementContext, Step
from gpuprof.characterize.on_gpu.result_checks import CORRECT, verify
from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record.samples import read_samples
from gpuprof.characterize.record.series import Series
from gpuprof.characterize.record.store import FINAL, Store
from gpuprof.characterize.schedule import plan
from gpuprof.characterize.sheet.measured import Measured, load_measured
from gpuprof.hardware.library import SpecLibrary
from gpuprof.resources import data_dir
from tests.cuda_tools import ALL_VARIANTS
from tests.fake_gpu import compiled
from tests.virtual_gpu import H200, VirtualGpu

LIBRARY = SpecLibrary(folders=(data_dir("specs"),))
pytestmark = pytest.mark.slow
LIMITS_S = {"quick": 90.0, "default": 360.0, "full": 1500.0}


@dataclass(frozen=True)
class Ran:
    """A run, the time on its GPU, what it told when, the series that it has left, and the file with its values."""

    mode: str
    run: Characterization
    clock: float
    at: tuple[tuple[Event, float], ...]
    series: tuple[Series, ...]
    written: Measured

    def of(self, kind: type) -> list[Event]:
        return [event for event, _ in self.at if isinstance(event, kind)]


@pytest.fixture(scope="module")
def library() -> tuple[Probe, ...]:
    return tuple(load_probes(probe_folder()))


@pytest.fixture(scope="module")
def at_once() -> Iterator[None]:
    """What takes the host's time, which no virtual clock charges, is left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _file: None)
        patch.setattr("gpuprof.characterize.on_gpu.chase.random_cycle", lambda nodes, *_: np.arange(nodes, dtype="u4"))
        # The fake computes nothing: only its walks lead somewhere.
        patch.setattr(
            "gpuprof.characterize.measure.points.verify",
            lambda probe, ready: verify(probe, ready) if probe.check in {None, "chain"} else CORRECT,
        )  # fmt: skip
        yield


@pytest.fixture(scope="module")
def finished(
    library: tuple[Probe, ...], tmp_path_factory: pytest.TempPathFactory, at_once: None
) -> Callable[[str], Ran]:
    """Runs of whole modes, each once."""
    return cache(lambda mode: run_of(library, mode, tmp_path_factory.mktemp(mode)))


def run_of(library: tuple[Probe, ...], mode: str, folder: Path) -> Ran:
    """Run a whole mode."""
    gpu, at = VirtualGpu(library), list[tuple[Event, float]]()
    wanted = Wanted(library, mode, output=folder / "virtual.measured.yaml")
    run = characterize(
        gpu, wanted, library=LIBRARY, tell=lambda event: at.append((event, gpu.clock)), compile_all=compiled
    )
    return Ran(
        mode=mode,
        run=run,
        clock=gpu.clock,
        at=tuple(at),
        series=read_samples(run.samples.read_bytes(), "virtual").series,
        written=load_measured(run.path),
    )


@pytest.fixture(params=["quick", "default", "full"] if ALL_VARIANTS else ["quick"])
def ran(request: pytest.FixtureRequest, finished: Callable[[str], Ran]) -> Ran:
    """A run of each mode."""
    return finished(request.param)


def steps_of(library: tuple[Probe, ...], mode: str) -> tuple[Step, ...]:
    return plan(library, Where("sm_90a", H200, 138.0 * 2**30), mode, EFFORTS[mode]).steps


def test_run_ends_within_its_time(ran: Ran) -> None:
    assert ran.run.outcome.cut_short is None
    (end,) = ran.of(Finished)
    assert isinstance(end, Finished)
    assert end.seconds == pytest.approx(ran.clock, abs=1)
    assert ran.clock <= LIMITS_S[ran.mode]


def test_run_takes_what_was_forecast(ran: Ran, library: tuple[Probe, ...]) -> None:
    """It ends sooner where intervals are small soon, and not much before every point has been measured once."""
    (planned,) = ran.of(RunPlanned)
    assert isinstance(planned, RunPlanned)
    least_s = sum(step.least_s for step in steps_of(library, ran.mode))
    assert 0.8 * least_s <= ran.clock <= 1.05 * planned.seconds


def test_step_takes_no_more_than_its_share(ran: Ran, library: tuple[Probe, ...]) -> None:
    steps = {(step.probe.id, step.regime, step.data): step for step in steps_of(library, ran.mode)}
    began = [(event, at) for event, at in ran.at if isinstance(event, Started)]
    late = {}
    for (event, start), (_, end) in itertools.pairwise([*began, (None, ran.clock)]):
        assert event is not None
        step = steps[event.probe, event.regime, event.data]
        if end - start > 1.1 * max(step.seconds, step.least_s) + 0.5:
            late[event.probe, event.regime, event.data] = end - start, step.least_s, step.seconds
    assert not late


def test_no_point_is_lost(ran: Ran, library: tuple[Probe, ...]) -> None:
    there = {
        (series.probe, series.config.fixed(axes(probe)), (series.config.regime, series.config.data))
        for series in ran.series if series.round == FINAL
        for probe in library if probe.id == series.probe
    }  # fmt: skip
    checked = compiled(library, "sm_90a", lambda *_: None)
    context = MeasurementContext(VirtualGpu(library), "sm_90a", checked, Store(None), EFFORTS[ran.mode])
    planned = lost = 0
    for step in steps_of(library, ran.mode):
        if step.probe.kernel is None or step.probe.method in {"power", "resident"}:
            continue
        for point in step_points(context, step):
            planned += 1
            lost += (step.probe.id, point.fixed, (step.regime, step.data)) not in there
    assert planned > 50
    assert lost == 0


def test_every_probe_comes_to_a_result_that_is_written(ran: Ran) -> None:
    values = ran.run.measured.values
    assert ran.written.values.keys() == values.keys()
    told = {event.name.split(" ")[0] for event in ran.of(Result) if isinstance(event, Result)}
    assert told == {event.probe for event in ran.of(Started) if isinstance(event, Started)}
    for name, value in values.items():
        assert value.verdict == "verified" or value.reasons, name
        assert not any("cannot be evaluated" in reason for reason in value.reasons), name


def test_no_true_value_is_rejected(ran: Ran) -> None:
    """Nine tenths of each limit, at the clock that kernel and NVML agree on. The fake does not count blocks at once."""
    values = ran.run.measured.values
    rejected = {name: value.reasons for name, value in values.items() if value.verdict == "rejected"}
    assert {name for name in rejected if not name.startswith("occupancy/resident-")} == set()
    assert sum(value.usable for value in values.values()) > 0.9 * len(values)
    assert sum(value.verdict == "verified" for value in values.values()) > 0.5 * len(values)


def axes(probe: Probe) -> tuple[str, ...]:
    return (*probe.series, *([probe.along] if probe.along else []))
