"""Whether the counters of ncu agree with the work and bytes that probes claim: two launches of each under ncu.

The launches have N and 4N iterations; the difference of their counts is that of 3N iterations, without what a kernel
does before its loop. Several probes share a run of ncu, whose start takes longer than their launches.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.characterize.measure.events import Remark
from gpuprof.characterize.measure.step import MeasurementContext, Step
from gpuprof.characterize.methods.table import method_of
from gpuprof.characterize.record.configurations import series_work
from gpuprof.characterize.record.reduction import MULTIPLES
from gpuprof.characterize.record.series import Series
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.judging import CountedAndClaimed, assignment_of
from gpuprof.collect.command import Filters, NcuCommand
from gpuprof.collect.ncu_help import options_of
from gpuprof.errors import DamagedInput, EnvironmentProblem, GpuprofError, Interrupted
from gpuprof.hardware.certificates import base_names
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES, ArchSpec, Chain
from gpuprof.model.quantities import Clocks, evaluate
from gpuprof.model.quantities import Counted as Evaluated
from gpuprof.model.recorded import Launch, Report
from gpuprof.working_folder import python_command

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_TOTALS = ("total",)
"""Only counters that are sums of events can be subtracted from each other."""
_HISTOGRAMS = {"thread-opcodes": THREAD_OPCODES, "tensor-opcodes": WARP_OPCODES}
_WORK = ("flop", "op")
_ITERATIONS = 64
_TOGETHER = 10
"""Probes in a run of ncu: enough to share its start, few enough to lose little where one of them ends it."""
_START_S, _PROBE_S = 60.0, 10.0
"""Opening the GPU under ncu; compiling a probe, and some passes over its launches: what takes longer hangs."""


class Verified(NamedTuple):
    """What was counted of each probe, by which version of ncu ("2025.3.1"; None: there is none).

    `interrupted`: the user did not want the rest.
    """

    counted: dict[str, CountedAndClaimed]
    ncu: str | None
    interrupted: bool = False


class ToCount(NamedTuple):
    """A probe whose work ncu is to count: the configuration that is launched, and what it claims to do."""

    probe: Probe
    series: Series
    claims: Mapping[str, float]


def verify_counters(context: MeasurementContext, steps: Sequence[Step], arch: ArchSpec, device: int) -> Verified:
    """Run the best configuration of each countable probe under ncu on the same GPU; tell what could not be counted.

    Where the user does not want the rest, what was counted until then stays.
    """
    from gpuprof.collect.installation import choose_ncu
    from gpuprof.collect.machine import version_text

    by_probe: dict[str, CountedAndClaimed] = {}
    version: str | None = None
    try:
        ncu = choose_ncu(os.environ)
        version = version_text(ncu.version)
        asked = list(_to_count(context, steps, arch))
        for first in range(0, len(asked), _TOGETHER):
            if context.stop():
                return Verified(by_probe, version, interrupted=True)
            by_probe |= _counted_or_told(context, ncu.path, asked[first : first + _TOGETHER], arch, device)
            if not by_probe and first + _TOGETHER < len(asked):
                context.tell(
                    Remark(None, f"no other counters were verified: of the first {_TOGETHER} ncu counted none")
                )
                break
    except Interrupted:
        return Verified(by_probe, version, interrupted=True)
    except GpuprofError as error:
        context.tell(Remark(None, f"the counters were not verified: {error.message}"))
    return Verified(by_probe, version)


def _to_count(context: MeasurementContext, steps: Sequence[Step], arch: ArchSpec) -> Iterator[ToCount]:
    """Yield the probes that claim what can be counted here: what is emulated does other work than it claims."""
    for probe, series in _finals(context, steps):
        if _emulated(context, series):
            continue
        try:
            claims = claimed(probe, context.target, series, 3 * _ITERATIONS)
        except ValueError as error:
            context.tell(Remark(None, f"the counters of {probe.id} were not verified: {error}"))
            continue
        if claims and all(name in arch.counters for name in claims):
            yield ToCount(probe, series, claims)


def _emulated(context: MeasurementContext, series: Series) -> bool:
    """Tell whether other instructions stand in for those that the kernel of a series means."""
    return any(
        checked.compiled is not None
        and checked.judgement.gate == "emulated"
        and checked.compiled.sha256.startswith(series.config.cubin or " ")
        for checked in context.checked.get(series.probe, ())
    )


def _counted_or_told(
    context: MeasurementContext, ncu: Path, asked: Sequence[ToCount], arch: ArchSpec, device: int
) -> dict[str, CountedAndClaimed]:
    """Count probes in one run of ncu; what that leaves out, each by itself, so that one costs no other its counts.

    What hangs is not run again, and where one by itself has no counts either, the others are not tried. Raises what
    holds for all: no permission, Ctrl-C.
    """
    from gpuprof.collect.ncu_runs import STOPPED

    by_probe: dict[str, CountedAndClaimed] = {}
    why = "ncu recorded none of its launches"
    try:
        by_probe = _count(ncu, asked, arch, device)
    except (EnvironmentProblem, Interrupted):
        raise
    except (GpuprofError, ValueError) as error:
        why = error.message if isinstance(error, GpuprofError) else str(error)
    left = [counting for counting in asked if counting.probe.id not in by_probe]
    while len(asked) > 1 and left and why != STOPPED["timeout"] and not context.stop():
        by_probe |= _counted_or_told(context, ncu, [left.pop(0)], arch, device)
        if not by_probe:
            break
    for counting in left:
        context.tell(Remark(None, f"the counters of {counting.probe.id} were not verified: {why}"))
    return by_probe


def _finals(context: MeasurementContext, steps: Sequence[Step]) -> Iterator[tuple[Probe, Series]]:
    """Yield each countable probe of the run with the first configuration that was measured to the end."""
    for probe in {step.probe.id: step.probe for step in steps if method_of(step.probe).countable}.values():
        finals = (series for series in context.samples() if (series.probe, series.round) == (probe.id, FINAL))
        if (series := next(finals, None)) is not None:
            yield probe, series


def claimed(probe: Probe, target: str, series: Series, iterations: int) -> dict[str, float]:
    """Return what so many iterations do by the probe's account, named as the spec's counters: `traffic.dram`.

    Of a sparse product it is the half that is multiplied, as reports have it.
    """
    kernel, limit = probe.kernel, probe.limit(target, assignment_of(probe, series))
    if kernel is None or limit is None:
        return {}
    if limit.bandwidth is not None:
        amount = series_work(kernel, "byte", series)
        return {f"traffic.{limit.level}": amount * iterations} if amount else {}
    if limit.compute is not None:
        amounts = (series_work(kernel, what, series) for what in _WORK)
        done = next((amount for amount in amounts if amount), None)
        return {f"work.{limit.compute.path}": done * iterations / (2 if probe.sparse else 1)} if done else {}
    return {}


def counted(few: Launch, many: Launch, arch: ArchSpec, names: Sequence[str]) -> dict[str, float]:
    """Return what the launch with more iterations did beyond the other; what was not counted is left out."""
    differences = {}
    for name in names:
        chain = _sums(arch.counters[name])
        values = [evaluate(chain, name, launch.metrics, Clocks()) for launch in (few, many)] if chain else []
        numbers = [value.value for value in values if isinstance(value, Evaluated)]
        if len(numbers) == 2:
            differences[name] = numbers[1] - numbers[0]
    return differences


def counted_each(
    few: Launch, many: Launch, arch: ArchSpec, names: Sequence[str]
) -> dict[tuple[str, frozenset[str]], float]:
    """Return the same by every way of the chains that counts events, also by opcodes."""
    differences: dict[tuple[str, frozenset[str]], float] = {}
    for name in names:
        for link in arch.counters[name]:
            if link.how not in _TOTALS and link.how not in _HISTOGRAMS:
                continue
            less, more = (evaluate((link,), name, launch.metrics, Clocks()) for launch in (few, many))
            if isinstance(less, Evaluated) and isinstance(more, Evaluated):
                differences.setdefault((name, base_names(more.metrics)), more.value - less.value)
    return differences


def _sums(chain: Chain) -> Chain:
    return tuple(link for link in chain if link.how in _TOTALS)


def metrics_for(arch: ArchSpec, names: Sequence[str]) -> tuple[str, ...]:
    """Return the metrics of every way to count these quantities as sums of events."""
    links = [link for name in names for link in arch.counters[name]]
    wanted = [metric for link in links if link.how in _TOTALS for metric, _ in link.terms]
    return tuple(dict.fromkeys([*wanted, *(_HISTOGRAMS[link.how] for link in links if link.how in _HISTOGRAMS)]))


def command(ncu: Path, asked: Sequence[ToCount], metrics: Sequence[str], folder: Path, device: int = 0) -> NcuCommand:
    """Return ncu's command line for the two launches of each configuration. The clocks are left as they are."""
    counts = ",".join(str(multiple * _ITERATIONS) for multiple in (MULTIPLES[0], MULTIPLES[-1]))
    configurations = [
        word
        for counting in asked
        for word in (counting.probe.id, json.dumps(counting.series.config.settings(), separators=(",", ":")))
    ]
    entries = "|".join(counting.probe.kernel.entry for counting in asked if counting.probe.kernel is not None)
    return NcuCommand(
        ncu=ncu,
        program=tuple(python_command("gpuprof.characterize.counted_run", str(device), counts, *configurations)),
        output=folder / "counters.ncu-rep",
        log=folder / "counters.log",
        metrics=tuple(metrics),
        filters=Filters(kernel=f"^({entries})$", name_base="function"),
        cache_control="none",
        targets="application-only",
        known=options_of(ncu),
    )


def _count(ncu: Path, asked: Sequence[ToCount], arch: ArchSpec, device: int) -> dict[str, CountedAndClaimed]:
    """Run configurations under ncu and return what it counted, without those whose launches it has not recorded."""
    names = tuple(dict.fromkeys(name for counting in asked for name in counting.claims))
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
        wanted = command(ncu, asked, metrics_for(arch, names), Path(folder), device)
        launches: dict[str, list[Launch]] = {}
        for launch in _profiled(wanted, Path(folder), _START_S + _PROBE_S * len(asked)):
            launches.setdefault(launch.name, []).append(launch)
        by_probe: dict[str, CountedAndClaimed] = {}
        for probe, _, claims in asked:
            mine = launches.get(probe.kernel.entry if probe.kernel is not None else "", [])
            if len(mine) >= 2:
                few, many = mine[-2], mine[-1]
                # Which half of a sparse product counters count is what a certificate is to tell: no value hangs on it.
                told = None if probe.sparse else counted(few, many, arch, tuple(claims))
                by_probe[probe.id] = CountedAndClaimed(claims, told, counted_each(few, many, arch, tuple(claims)))
        return by_probe


def _profiled(asked: NcuCommand, folder: Path, seconds: float) -> Report:
    """Run a command of ncu as `gpuprof run` does, and read its report. Raises Interrupted, whatever it has left."""
    from gpuprof.collect.execution import Execution
    from gpuprof.collect.ncu_runs import NcuRuns, stopped_error
    from gpuprof.collect.progress import ProgressLine
    from gpuprof.collect.request import ProfileRequest
    from gpuprof.read.ncu_rep import read_ncu_rep

    request = ProfileRequest(
        asked.program, folder, annotate=False, output="stderr", timeout_s=seconds, on_event=ProgressLine()
    )
    runs = NcuRuns(Execution(request, os.environ, lambda _: None), read_ncu_rep, lambda _: None)
    run = runs.run("counters", asked, 2)
    if run.ended.stopped_by is not None:
        raise stopped_error(run.ended.stopped_by)
    if isinstance(run.error, DamagedInput):
        raise run.error
    return next(iter(run.reports.values()))
