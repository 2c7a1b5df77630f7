"""Resident blocks: how many thread blocks are on an SM at once, by its own clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gpuprof.characterize.judge.verdict import agreement_check, gate_check, judge, not_applicable
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.measure.forecast import each_point_cost
from gpuprof.characterize.measure.points import keep, step_points, unless_unmeasured, variant_of, with_code
from gpuprof.characterize.measure.sampling import iterations
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.methods.method import Method
from gpuprof.characterize.record.series import Series
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.judging import NO_CLOCK, NO_LIMIT, Judging, evidence_of, shown
from gpuprof.characterize.results.names import series_name
from gpuprof.characterize.sheet.measured import MeasuredValue

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.record.configurations import ResultPoint


def measure(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Launch more blocks per SM than should fit, and look how many really were on an SM at once."""
    for point in step_points(context, step, overfull=True):
        yield from unless_unmeasured(step, point, partial(_resident, context, step, point))


def _resident(context: MeasurementContext, step: Step, point: ResultPoint) -> None:
    probe = step.probe
    most = max(point.configurations, key=lambda configuration: (configuration.blocks or 0, configuration.block))
    configuration = with_code(context, probe, most)
    if context.store.find(probe.id, configuration.config, FINAL) is not None:
        return
    ready = context.launcher.ready(variant_of(context, probe, configuration), configuration)
    count = iterations(ready, context.effort.window_s)
    sample, at_once = ready.run_at_once(count)
    calculated = context.gpu.blocks_at_once(ready.function, configuration.block, ready.shape.shared_bytes)
    ready.seen = replace(ready.seen, at_once=at_once, calculated=calculated)
    keep(context, probe, ready.series(probe.id, FINAL, [sample]))


def reduce(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield how many blocks were on an SM at once, against what CUDA's calculator says."""
    for taken in series:
        at_once, calculated = taken.seen.at_once, taken.seen.calculated
        if at_once is None or calculated is None:
            continue
        checked = judging.variant(taken)
        checks = (
            gate_check(checked.judgement if checked is not None else None),
            not_applicable("scaling", "blocks are counted, nothing is timed"),
            NO_CLOCK,
            NO_LIMIT,
            agreement_check("calculator", at_once, calculated, "block", "by CUDA's calculator", 0.0),
        )
        verdict = judge(checks)
        value = MeasuredValue(
            value=float(at_once), unit=probe.unit, verdict=verdict.word, reasons=verdict.reasons, samples=1,
            method="blocks that overlap by their SM's clock", configuration=shown(probe, taken),
            evidence=evidence_of(probe, judging, [taken], checks, probe.unit),
        )  # fmt: skip
        yield Result(series_name(probe, taken), value)


METHOD = Method(measure=measure, reduce=reduce, forecast=partial(each_point_cost, point_s=0.02, overfull=True))
