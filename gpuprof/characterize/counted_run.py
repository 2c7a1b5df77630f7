"""The program that runs under ncu for `--verify-counters`: configurations of probes, launched as often as asked.

Its arguments are DEVICE ITERATIONS,… [FAMILY/NAME CONFIGURATION]…, each configuration in JSON: what was chosen for its
series.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprof.characterize.measure.step import MeasurementContext, Step
from gpuprof.characterize.on_gpu.launcher import BrokenRun
from gpuprof.characterize.record.samples import series_config
from gpuprof.characterize.record.series import SeriesConfig
from gpuprof.errors import GpuprofError, UsageError

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.record.gpu import Gpu


def main(arguments: Sequence[str]) -> None:
    """Launch what the command line says; at the end, say what of it could not be launched."""
    from gpuprof.characterize.on_gpu.device import open_gpu
    from gpuprof.characterize.probes.library import load_probes, probe_folder, select

    device, counts, *named = arguments
    probes = load_probes(probe_folder())
    wanted = [
        (select(probes, [name])[0], series_config(json.loads(text), "the configuration"))
        for name, text in zip(named[::2], named[1::2], strict=True)
    ]
    problems = launch(open_gpu(int(device)), wanted, [int(count) for count in counts.split(",")])
    if problems:
        sys.exit("\n".join(problems))


def launch(gpu: Gpu, wanted: Sequence[tuple[Probe, SeriesConfig]], counts: Sequence[int]) -> list[str]:
    """Compile probes for this GPU, with the NVRTC that measuring takes, and launch one configuration of each.

    Return what could not be launched and why. Raises what ends all of them.
    """
    from gpuprof.characterize.characterization import fitting_compiler
    from gpuprof.characterize.probes.probe import target_of

    target = target_of(gpu.properties.compute_capability) or ""
    probes = [probe for probe, _ in wanted]
    checked = fitting_compiler(gpu, target)(probes, target, lambda _done, _total: None)
    context = MeasurementContext.without_samples(gpu, target, checked)
    problems = []
    for probe, config in wanted:
        try:
            _launch(context, probe, config, counts)
        except GpuprofError as error:
            if getattr(error, "fatal", False):
                raise
            problems.append(f"{probe.id}: {error.message}")
        context.launcher.release()
    return problems


def _launch(context: MeasurementContext, probe: Probe, config: SeriesConfig, counts: Sequence[int]) -> None:
    """Launch a configuration of a probe. Raises UsageError if it has no such one."""
    from gpuprof.characterize.measure.points import step_points, variant_of

    points = step_points(context, Step(probe, config.regime, config.data))
    every = [configuration for point in points for configuration in point.configurations]
    wanted = _without_run(config)
    configuration = next((candidate for candidate in every if _without_run(candidate.config) == wanted), None)
    if configuration is None:
        raise UsageError(f"it has no configuration {json.dumps(config.settings())}")
    ready = context.launcher.ready(variant_of(context, probe, configuration), configuration)
    ready.one_wave()
    for count in counts:
        with contextlib.suppress(BrokenRun):  # its clocks are those of one of ncu's passes: only what it counts matters
            ready.launch(count)


def _without_run(config: SeriesConfig) -> SeriesConfig:
    """Return what was chosen but for the allocation and the code's hash, which another run need not share."""
    return replace(config, cubin=None, allocation=None)
