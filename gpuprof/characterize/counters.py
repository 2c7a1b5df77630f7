"""Whether the counters of ncu agree with the work and bytes that probes claim: two launches of each under ncu.

The launches have N and 4N iterations; the difference of their counts is that of 3N iterations, without what a kernel
does before its loop.
"""

from __future__ import annotations

import json
import os
import sys
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
from gpuprof.errors import EnvironmentProblem, GpuprofError, Interrupted
from gpuprof.hardware.certificates import base_names
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES, ArchSpec, Chain
from gpuprof.model.quantities import Clocks, evaluate
from gpuprof.model.quantities import Counted as Evaluated
from gpuprof.model.recorded import Launch, Report

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_TOTALS = ("total",)
"""Only counters that are sums of events can be subtracted from each other."""
_HISTOGRAMS = {"thread-opcodes": THREAD_OPCODES, "tensor-opcodes": WARP_OPCODES}
_WORK = ("flop", "op")
_ITERATIONS = 64
_LONGEST_S = 300.0
"""Compiling one probe, opening the GPU and some passes over two short launches; a kernel that hangs takes longer."""


class Verified(NamedTuple):
    """What was counted of each probe, by which version of ncu ("2025.3.1"; None: there is none).

    `interrupted`: the user did not want the rest.
    """

    counted: dict[str, CountedAndClaimed]
    ncu: str | None
    interrupted: bool = False


def verify_counters(context: MeasurementContext, steps: Sequence[Step], arch: ArchSpec, device: int) -> Verified:
    """Run the best configuration of each countable probe under ncu on the same GPU; tell what could not be counted."""
    from gpuprof.collect.installation import choose_ncu
    from gpuprof.collect.machine import version_text

    by_probe: dict[str, CountedAndClaimed] = {}
    version: str | None = None
    try:
        ncu = choose_ncu(os.environ)
        version = version_text(ncu.version)
        for probe, series in _finals(context, steps):
            if context.stop():
                return Verified(by_probe, None, interrupted=True)
            by_probe |= _counted_or_told(context, ncu.path, probe, series, arch, device)
    except Interrupted:
        return Verified(by_probe, None, interrupted=True)
    except GpuprofError as error:
        context.tell(Remark(None, f"the counters were not verified: {error.message}"))
    return Verified(by_probe, version)


def _counted_or_told(
    context: MeasurementContext,
    ncu: Path,
    probe: Probe,
    series: Series,
    arch: ArchSpec,
    device: int,
) -> dict[str, CountedAndClaimed]:
    """Count one probe, if it claims what can be counted; where only that fails, the others go on.

    Raises what holds for all: no permission, Ctrl-C.
    """
    try:
        claims = claimed(probe, context.target, series, 3 * _ITERATIONS)
        if not claims or any(name not in arch.counters for name in claims):
            return {}
        return {probe.id: _count(ncu, probe, series, arch, claims, device)}
    except (EnvironmentProblem, Interrupted):
        raise
    except (GpuprofError, ValueError) as error:
        context.tell(Remark(None, f"the counters of {probe.id} were not verified: {error}"))
        return {}


def _finals(context: MeasurementContext, steps: Sequence[Step]) -> Iterator[tuple[Probe, Series]]:
    """Yield each countable probe of the run with the first configuration that was measured to the end."""
    for probe in {step.probe.id: step.probe for step in steps if method_of(step.probe).countable}.values():
        finals = (series for series in context.samples() if (series.probe, series.round) == (probe.id, FINAL))
        if (series := next(finals, None)) is not None:
            yield probe, series


def claimed(probe: Probe, target: str, series: Series, iterations: int) -> dict[str, float]:
    """Return what so many iterations do by the probe's account, named as the spec's counters: `traffic.dram`."""
    kernel, limit = probe.kernel, probe.limit(target, assignment_of(probe, series))
    if kernel is None or limit is None:
        return {}
    if limit.bandwidth is not None:
        amount = series_work(kernel, "byte", series)
        return {f"traffic.{limit.bandwidth}": amount * iterations} if amount else {}
    if limit.compute is not None:
        amounts = (series_work(kernel, what, series) for what in _WORK)
        done = next((amount for amount in amounts if amount), None)
        return {f"work.{limit.compute.path}": done * iterations} if done else {}
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


def command(
    ncu: Path, probe: Probe, series: Series, metrics: Sequence[str], folder: Path, device: int = 0
) -> NcuCommand:
    """Return ncu's command line for the two launches of one configuration. The clocks are left as they are."""
    kernel = probe.kernel
    config = json.dumps(series.config.settings(), separators=(",", ":"))
    counts = [str(multiple * _ITERATIONS) for multiple in (MULTIPLES[0], MULTIPLES[-1])]
    return NcuCommand(
        ncu=ncu,
        program=(sys.executable, "-m", "gpuprof.characterize.counted_run", str(device), probe.id, config, *counts),
        output=folder / "counters.ncu-rep",
        log=folder / "counters.log",
        metrics=tuple(metrics),
        filters=Filters(kernel=f"^{kernel.entry}$" if kernel is not None else None, name_base="function"),
        cache_control="none",
        targets="application-only",
        known=options_of(ncu),
    )


def _count(
    ncu: Path, probe: Probe, series: Series, arch: ArchSpec, claims: Mapping[str, float], device: int
) -> CountedAndClaimed:
    """Run one configuration under ncu and return what it counted."""
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as folder:
        asked = command(ncu, probe, series, metrics_for(arch, tuple(claims)), Path(folder), device)
        launches = list(_profiled(asked, Path(folder)))
        if len(launches) < 2:
            return CountedAndClaimed(claims, {})
        few, many, names = launches[-2], launches[-1], tuple(claims)
        return CountedAndClaimed(claims, counted(few, many, arch, names), counted_each(few, many, arch, names))


def _profiled(asked: NcuCommand, folder: Path) -> Report:
    """Run a command of ncu as `gpuprof run` does, and read its report. Raises Interrupted, whatever it has left."""
    from gpuprof.collect.execution import Execution
    from gpuprof.collect.ncu_runs import NcuRuns, stopped_error
    from gpuprof.collect.progress import ProgressLine
    from gpuprof.collect.request import ProfileRequest
    from gpuprof.read.ncu_rep import read_ncu_rep

    request = ProfileRequest(
        asked.program, folder, annotate=False, output="stderr", timeout_s=_LONGEST_S, on_event=ProgressLine()
    )
    runs = NcuRuns(Execution(request, os.environ, lambda _: None), read_ncu_rep, lambda _: None)
    run = runs.run("counters", asked, 2)
    if run.ended.stopped_by is not None:
        raise stopped_error(run.ended.stopped_by)
    return next(iter(run.reports.values()))
