"""`characterize` from the GPU to the measured file: environment, plan, compiled kernels, samples, results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from gpuprof.characterize.certify import certificate_of, on_file
from gpuprof.characterize.counters import Verified, verify_counters
from gpuprof.characterize.gates.check import Checked, check, variants
from gpuprof.characterize.measure.effort import EFFORTS, Effort
from gpuprof.characterize.measure.events import Compiling, Finished, Remark, RunPlanned, Tell, silence
from gpuprof.characterize.measure.forecast import Where
from gpuprof.characterize.measure.step import MeasurementContext, Step
from gpuprof.characterize.methods.table import results_of
from gpuprof.characterize.on_gpu.compiler import fitting_nvrtc
from gpuprof.characterize.on_gpu.environment import (
    GpuUnderTest,
    conditions,
    device,
    file_name,
    header,
    link_of,
    memory_clock,
    notes,
    others,
    place_of,
    refuse_busy,
)
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record.gpu import Gpu, Others, Stopped
from gpuprof.characterize.record.samples import SampleFile, SamplesHeader
from gpuprof.characterize.record.store import Store
from gpuprof.characterize.results.judging import CountedAndClaimed, Judging
from gpuprof.characterize.runner import INTERRUPTED, RunOutcome, run
from gpuprof.characterize.schedule import Schedule, duration_s, gone_on_with, plan
from gpuprof.characterize.sheet.measured import Measured
from gpuprof.characterize.sheet.measured_text import measured_text
from gpuprof.characterize.sheet.normal import Published
from gpuprof.errors import GpuprofError, UsageError
from gpuprof.hardware.certificates import CERTIFICATES, certificate_text
from gpuprof.hardware.library import SpecLibrary, user_spec_dir
from gpuprof.hardware.specs import GpuSpec
from gpuprof.own_files import write_whole
from gpuprof.sass.tools.nvrtc import Nvrtc
from gpuprof.units import format_si

SAMPLES_SUFFIX = ".samples.jsonl"
MEASURED_SUFFIX = ".measured.yaml"
_COMPILE_SHARE = 0.3
"""Compiling takes at most so much of the time that is meant for measuring."""

Compile = Callable[[Sequence[Probe], str, Callable[[int, int], None]], dict[str, tuple[Checked, ...]]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for. `output` None: the user's spec folder, where profiles of this GPU find it.

    `probes` is what may be measured; `named`: the user has chosen them, so that the mode leaves none of them out.
    `loads` has every probe, for those that run under the kernel of another.
    """

    probes: Sequence[Probe]
    mode: str = "default"
    named: bool = False
    loads: Sequence[Probe] = ()
    output: Path | None = None
    resume: bool = False
    force: bool = False
    counters: bool = False
    device: int = 0


@dataclass(frozen=True, slots=True)
class Characterization:
    """What a run has left: the measured values and where they are, the outcome with what each value should be."""

    measured: Measured
    path: Path
    samples: Path
    outcome: RunOutcome
    product: GpuSpec | None

    def published(self) -> dict[str, Published]:
        """Return the published range of each value that has one."""
        return {result.name: result.expected for result in self.outcome.results if result.expected is not None}


def characterize(
    gpu: Gpu,
    wanted: Wanted,
    *,
    library: SpecLibrary | None = None,
    tell: Tell = silence,
    stop: Callable[[], bool] = lambda: False,
    compile_all: Compile | None = None,
) -> Characterization:
    """Measure a GPU and write what was found, also when the run is cut short.

    `compile_all` None: the probes are compiled with the NVRTC that fits the driver. Raises EnvironmentProblem for a GPU
    that is busy or unknown or whose driver loads no code that is compiled here, UsageError for a file that is there
    already, GpuprofError where nothing can be written, and Stopped where `stop` says so before anything is measured.
    """
    began, place = gpu.now(), place_of(gpu.properties, library or SpecLibrary())
    neighbours = _neighbours(gpu, wanted, tell)
    path, date = wanted.output or default_path(file_name(gpu.properties, place.product)), _now()
    _refuse_overwrite(path, wanted)
    effort = EFFORTS[wanted.mode]
    compile_all = compile_all or fitting_compiler(gpu, place.target)
    where = Where(place.target, gpu.properties, gpu.free_bytes())
    steps = plan(wanted.probes, where, wanted.mode, effort, named=wanted.named)
    checked = _compiled(steps, wanted, place.target, tell, stop, compile_all)
    # Only now: a run that cannot begin must not remove the samples of an earlier one.
    store = _store(samples_path(path), wanted, header(gpu.properties, date))
    for remark in (*notes(gpu.properties, neighbours), *store.remarks, *_left_out(steps)):
        tell(Remark(None, remark))
    context = MeasurementContext(
        gpu=gpu, target=place.target, checked=checked, store=store, effort=effort, tell=tell, stop=stop
    )
    steps, before_s = gone_on_with(steps, store.notes, effort, checked)
    left_s = max(0.0, _time_left(effort, gpu.now() - began) - before_s)
    _tell_plan(context, steps, left_s)

    def written(outcome: RunOutcome) -> Measured:
        measured = _measured(context, place, neighbours, outcome, date, path)
        _write(path, measured_text(measured))
        return measured

    outcome, verified = run(context, steps.steps, lambda: _judging(place, context, {}), left_s), Verified({}, None)
    measured = written(outcome)
    if wanted.counters and outcome.cut_short is None:
        outcome, verified = _verified(context, steps.steps, place, wanted, outcome)
        measured = written(outcome)
    if verified.ncu is not None:
        tell(Remark(None, _certified(place, wanted, verified, measured)))
    tell(Finished(gpu.now() - began, outcome.cut_short is not None))
    return Characterization(
        measured=measured, path=path, samples=samples_path(path), outcome=outcome, product=place.hardware.gpu
    )


def default_path(name: str) -> Path:
    """Return where the measured file of a GPU is looked for when a program is profiled on it."""
    return user_spec_dir() / "measured" / f"{name}{MEASURED_SUFFIX}"


def samples_path(path: Path) -> Path:
    """Return where the raw samples of a measured file lie: beside it."""
    return path.with_name(path.name.removesuffix(MEASURED_SUFFIX).removesuffix(".yaml") + SAMPLES_SUFFIX)


def fitting_compiler(gpu: Gpu, target: str) -> Compile:
    """Return what compiles probes for a GPU: with the NVRTC whose code its driver was seen to load.

    Raises EnvironmentProblem where there is none.
    """
    return partial(compile_probes, nvrtc=fitting_nvrtc(gpu, target))


def compile_probes(
    probes: Sequence[Probe], target: str, tell: Callable[[int, int], None], nvrtc: Nvrtc | None = None
) -> dict[str, tuple[Checked, ...]]:
    """Compile and judge every variant of probes for a target; `nvrtc` None: with the first that knows it."""
    chosen = [variant for probe in probes for variant in variants(probe, target)]
    by_probe: dict[str, tuple[Checked, ...]] = {}
    for checked in check(chosen, lambda done: tell(done, len(chosen)), nvrtc=nvrtc):
        by_probe[checked.variant.probe.id] = (*by_probe.get(checked.variant.probe.id, ()), checked)
    return by_probe


def _write(path: Path, text: str) -> None:
    """Write a file, all or nothing. Raises GpuprofError where that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise GpuprofError(
            f"cannot write {path}: {error.strerror or error}", "the samples are kept; continue with --resume"
        ) from error


def _neighbours(gpu: Gpu, wanted: Wanted, tell: Tell) -> Others:
    neighbours = others(gpu)
    if not wanted.force:
        refuse_busy(neighbours)
    elif neighbours.busy:
        tell(Remark(None, f"other processes keep the GPU {neighbours.busy:.0%} busy"))
    return neighbours


def _refuse_overwrite(path: Path, wanted: Wanted) -> None:
    if wanted.force or wanted.resume:
        return
    for file in (path, samples_path(path)):
        if os.path.lexists(file):
            raise UsageError(
                f"{file} already exists", "add --force to measure again or --resume to continue, or choose -o FILE"
            )


def _store(samples: Path, wanted: Wanted, first: SamplesHeader) -> Store:
    """Begin the sample file, or go on with it; make its folder."""
    try:
        samples.parent.mkdir(parents=True, exist_ok=True)
        if wanted.force and not wanted.resume:
            samples.unlink(missing_ok=True)
        return Store(SampleFile(samples, first, resume=wanted.resume and os.path.lexists(samples)))
    except OSError as error:
        raise GpuprofError(
            f"cannot write {samples}: {error.strerror or error}", "choose another file with -o"
        ) from error


def _left_out(schedule: Schedule) -> list[str]:
    if not schedule.left_out:
        return []
    names = ", ".join(probe.id for probe, _ in schedule.left_out)
    return [f"not available on this GPU: {names}"]


def _compiled(
    steps: Schedule, wanted: Wanted, target: str, tell: Tell, stop: Callable[[], bool], compile_all: Compile
) -> dict[str, tuple[Checked, ...]]:
    """Compile what is measured. Raises Stopped between two kernels."""

    def compiled(done: int, total: int) -> None:
        if stop():
            raise Stopped
        tell(Compiling(done, total))

    return compile_all(_with_loads(steps.steps, (*wanted.probes, *wanted.loads)), target, compiled)


def _with_loads(steps: Iterable[Step], probes: Sequence[Probe]) -> list[Probe]:
    """Return the probes to be compiled: those that are measured, and those whose kernels are loads."""
    by_id = {probe.id: probe for probe in probes}
    wanted = dict.fromkeys(step.probe.id for step in steps)
    loads = dict.fromkeys(by_id[name].load or "" for name in wanted)
    return [by_id[name] for name in (wanted | loads) if name in by_id]


def _time_left(effort: Effort, passed_s: float) -> float:
    """Return the seconds that are left to measure. Compiling takes its share of the time at most."""
    return max(effort.total_s - passed_s, (1 - _COMPILE_SHARE) * effort.total_s)


def _tell_plan(context: MeasurementContext, schedule: Schedule, left_s: float) -> None:
    needed_s = duration_s(schedule.steps, left_s)
    context.tell(RunPlanned(tuple(step.probe.id for step in schedule.steps), needed_s))
    if needed_s > left_s:
        needed = format_si(needed_s, "s", 3)
        context.tell(Remark(None, f"measuring each point once takes about {needed}: longer than this mode should take"))


def _judging(place: GpuUnderTest, context: MeasurementContext, counters: dict[str, CountedAndClaimed]) -> Judging:
    return Judging(
        hardware=place.hardware, target=place.target, checked=context.checked,
        memory_clock_hz=memory_clock(context.telemetry), link=link_of(context.telemetry), product=place.product,
        power_limit_w=context.gpu.properties.power_limit_w, counters=counters,
    )  # fmt: skip


def _verified(
    context: MeasurementContext, steps: Sequence[Step], place: GpuUnderTest, wanted: Wanted, outcome: RunOutcome
) -> tuple[RunOutcome, Verified]:
    """Count the work of the kernels with ncu, and judge the results by it."""
    verified = verify_counters(context, steps, place.hardware.arch, wanted.device)
    again = _recounted(context, steps, place, outcome, verified.counted)
    return again._replace(cut_short=INTERRUPTED if verified.interrupted else None), verified


def _recounted(
    context: MeasurementContext,
    steps: Sequence[Step],
    place: GpuUnderTest,
    outcome: RunOutcome,
    counted: dict[str, CountedAndClaimed],
) -> RunOutcome:
    """Judge all results again, by what ncu counted of the probes' kernels."""
    judging = _judging(place, context, counted)
    again = {result.name: result for step in steps for result in results_of(step, context.samples(), (), judging)}
    for result in again.values():
        context.tell(result)
    return RunOutcome(tuple(again.get(result.name, result) for result in outcome.results), None)


def _measured(
    context: MeasurementContext, place: GpuUnderTest, neighbours: Others, outcome: RunOutcome, date: str, path: Path
) -> Measured:
    properties = context.gpu.properties
    return Measured(
        name=path.name.removesuffix(MEASURED_SUFFIX),
        device=device(properties),
        conditions=conditions(properties, context.telemetry, neighbours, date),
        values={result.name: result.value for result in outcome.results},
        curves={result.name: result.curve for result in outcome.results if result.curve is not None},
        spec=place.product,
    )


def _certified(place: GpuUnderTest, wanted: Wanted, verified: Verified, measured: Measured) -> str:
    """Write what the counts certify, if anything: where profiles look for it, or beside the user's measured file.

    What an earlier run has certified of other counters stays. Returns what was done.
    """
    certificate = certificate_of(
        verified.counted,
        wanted.probes,
        place.hardware.arch.name,
        ncu=verified.ncu,
        gpu=measured.device.name,
        driver=measured.conditions.driver,
        date=measured.conditions.date,
    )
    if not certificate.agreements or not certificate.ncu:
        return "no certificate of the counters: ncu counted none of the known work"
    folder = wanted.output.parent if wanted.output is not None else user_spec_dir() / CERTIFICATES
    path = folder / f"{certificate.arch}-ncu-{certificate.ncu[0]}.yaml"
    _write(path, certificate_text(on_file(certificate, path)))
    return f"certificate of the counters: {path}"


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
