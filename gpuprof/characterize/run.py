"""`characterize` from the GPU to the measured file: environment, plan, compiled kernels, samples, results."""

from __future__ import annotations

import contextlib
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
from gpuprof.characterize.measure.events import Compiling, Finished, Planned, Remark, Tell, silence
from gpuprof.characterize.measure.schedule import Plan, Where, duration_s, plan
from gpuprof.characterize.measure.step import Bench, Step
from gpuprof.characterize.methods import results_of
from gpuprof.characterize.on_gpu.compiler import fitting_nvrtc
from gpuprof.characterize.on_gpu.environment import (
    Place,
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
from gpuprof.characterize.record.samples import Header, SampleFile
from gpuprof.characterize.record.store import Store
from gpuprof.characterize.results.judging import Counted, Judging
from gpuprof.characterize.runner import INTERRUPTED, Outcome, run
from gpuprof.characterize.sheet.measured import Measured
from gpuprof.characterize.sheet.measured_text import measured_text
from gpuprof.characterize.sheet.normal import Published
from gpuprof.code.nvrtc import Nvrtc
from gpuprof.errors import GpuprofError, UsageError
from gpuprof.hardware.certificates import CERTIFICATES, certificate_text
from gpuprof.hardware.library import SpecLibrary, user_spec_dir
from gpuprof.hardware.specs import GpuSpec
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
class Run:
    """What a run has left: the measured values and where they are, the outcome with what each value should be."""

    measured: Measured
    path: Path
    samples: Path
    outcome: Outcome
    product: GpuSpec | None

    def published(self) -> dict[str, Published]:
        """Return the published range of each value that has one."""
        return {one.name: one.expected for one in self.outcome.results if one.expected is not None}


def characterize(
    gpu: Gpu,
    wanted: Wanted,
    *,
    library: SpecLibrary | None = None,
    tell: Tell = silence,
    stop: Callable[[], bool] = lambda: False,
    compile_all: Compile | None = None,
) -> Run:
    """Measure a GPU and write what was found, also when the run is cut short.

    `compile_all` None: the probes are compiled with the NVRTC that fits the driver. Raises EnvironmentProblem for a GPU
    that is busy or unknown or whose driver loads no code that is compiled here, UsageError for a file that is there
    already, GpuprofError where nothing can be written, and Stopped where `stop` says so before anything is measured.
    """
    began, place = gpu.now(), place_of(gpu.properties, library or SpecLibrary())
    found = _neighbours(gpu, wanted, tell)
    path, date = wanted.output or default_path(file_name(gpu.properties, place.product)), _now()
    _refuse_overwrite(path, wanted)
    effort = EFFORTS[wanted.mode]
    compile_all = compile_all or fitting_compiler(gpu, place.target)
    where = Where(place.target, gpu.properties, gpu.free_bytes())
    steps = plan(wanted.probes, where, wanted.mode, effort, named=wanted.named)
    checked = _compiled(steps, wanted, place.target, tell, stop, compile_all)
    # Only now: a run that cannot begin must not remove the samples of an earlier one.
    store = _store(samples_path(path), wanted, header(gpu.properties, date))
    for remark in (*notes(gpu.properties, found), *store.remarks, *_left_out(steps)):
        tell(Remark(None, remark))
    bench = Bench(gpu, place.target, checked, store, effort, tell, stop)
    left_s = _time_left(effort, gpu.now() - began)
    _tell_plan(bench, steps, left_s)

    def written(outcome: Outcome) -> Measured:
        measured = _measured(bench, place, found, outcome, date, path)
        write_whole(path, measured_text(measured))
        return measured

    outcome, verified = run(bench, steps.steps, lambda: _judging(place, bench, {}), left_s), Verified({}, None)
    measured = written(outcome)
    if wanted.counters and outcome.cut_short is None:
        outcome, verified = _verified(bench, steps.steps, place, wanted, outcome)
        measured = written(outcome)
    if verified.ncu is not None:
        tell(Remark(None, _certified(place, wanted, verified, measured)))
    tell(Finished(gpu.now() - began, outcome.cut_short is not None))
    return Run(measured, path, samples_path(path), outcome, place.hardware.gpu)


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
    found: dict[str, tuple[Checked, ...]] = {}
    for one in check(chosen, lambda done: tell(done, len(chosen)), nvrtc=nvrtc):
        found[one.variant.probe.id] = (*found.get(one.variant.probe.id, ()), one)
    return found


def write_whole(path: Path, text: str) -> None:
    """Write a file, all or nothing. Raises GpuprofError where that fails."""
    draft = path.with_name(f".{path.name}-{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise GpuprofError(
            f"cannot write {path}: {error.strerror or error}", "the samples are kept; go on with --resume"
        ) from error


def _neighbours(gpu: Gpu, wanted: Wanted, tell: Tell) -> Others:
    found = others(gpu)
    if not wanted.force:
        refuse_busy(found)
    elif found.busy:
        tell(Remark(None, f"others keep the GPU {found.busy:.0%} busy"))
    return found


def _refuse_overwrite(path: Path, wanted: Wanted) -> None:
    if wanted.force or wanted.resume:
        return
    for file in (path, samples_path(path)):
        if file.exists():
            raise UsageError(f"{file} is there already", "pass --force to measure anew, --resume to go on, or -o FILE")


def _store(samples: Path, wanted: Wanted, first: Header) -> Store:
    """Begin the sample file, or go on with it; make its folder."""
    try:
        samples.parent.mkdir(parents=True, exist_ok=True)
        if wanted.force and not wanted.resume:
            samples.unlink(missing_ok=True)
        return Store(SampleFile(samples, first, resume=wanted.resume and samples.exists()))
    except OSError as error:
        raise GpuprofError(
            f"cannot write {samples}: {error.strerror or error}", "choose another place with -o"
        ) from error


def _left_out(found: Plan) -> list[str]:
    if not found.left_out:
        return []
    names = ", ".join(probe.id for probe, _ in found.left_out)
    return [f"not for this GPU: {names}"]


def _compiled(
    steps: Plan, wanted: Wanted, target: str, tell: Tell, stop: Callable[[], bool], compile_all: Compile
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


def _tell_plan(bench: Bench, found: Plan, left_s: float) -> None:
    needed_s = duration_s(found.steps, left_s)
    bench.tell(Planned(tuple(step.probe.id for step in found.steps), needed_s))
    if needed_s > left_s:
        needed = format_si(needed_s, "s", 3)
        bench.tell(Remark(None, f"each point once takes about {needed}: longer than this mode should take"))


def _judging(place: Place, bench: Bench, counters: dict[str, Counted]) -> Judging:
    return Judging(
        place.hardware,
        place.target,
        bench.checked,
        memory_clock(bench.telemetry),
        link_of(bench.telemetry),
        place.product,
        bench.gpu.properties.power_limit_w,
        counters,
    )


def _verified(
    bench: Bench, steps: Sequence[Step], place: Place, wanted: Wanted, outcome: Outcome
) -> tuple[Outcome, Verified]:
    """Count the work of the kernels with ncu, and judge the results by it."""
    verified = verify_counters(bench, steps, place.hardware.arch, wanted.device)
    again = _recounted(bench, steps, place, outcome, verified.counted)
    return again._replace(cut_short=INTERRUPTED if verified.interrupted else None), verified


def _recounted(
    bench: Bench, steps: Sequence[Step], place: Place, outcome: Outcome, counted: dict[str, Counted]
) -> Outcome:
    """Judge all results again, by what ncu counted of the probes' kernels."""
    judging = _judging(place, bench, counted)
    again = {one.name: one for step in steps for one in results_of(step, bench.samples(), (), judging)}
    for one in again.values():
        bench.tell(one)
    return Outcome(tuple(again.get(one.name, one) for one in outcome.results), None)


def _measured(bench: Bench, place: Place, found: Others, outcome: Outcome, date: str, path: Path) -> Measured:
    properties = bench.gpu.properties
    return Measured(
        name=path.name.removesuffix(MEASURED_SUFFIX),
        device=device(properties),
        conditions=conditions(properties, bench.telemetry, found, date),
        values={one.name: one.value for one in outcome.results},
        curves={one.name: one.curve for one in outcome.results if one.curve is not None},
        spec=place.product,
    )


def _certified(place: Place, wanted: Wanted, verified: Verified, measured: Measured) -> str:
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
        return "no certificate of the counters: ncu counted no work that is known"
    folder = wanted.output.parent if wanted.output is not None else user_spec_dir() / CERTIFICATES
    path = folder / f"{certificate.arch}-ncu-{certificate.ncu[0]}.yaml"
    write_whole(path, certificate_text(on_file(certificate, path)))
    return f"certificate of the counters: {path}"


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
