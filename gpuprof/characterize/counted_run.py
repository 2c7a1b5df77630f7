"""The program that runs under ncu for `--verify-counters`: one configuration of a probe, launched as often as asked.

`python -m gpuprof.characterize.counted_run DEVICE FAMILY/NAME CONFIGURATION ITERATIONS…`, the configuration in
JSON: what was chosen for its series.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprof.characterize.measure.step import MeasurementContext, Step
from gpuprof.characterize.on_gpu.launcher import KernelLauncher
from gpuprof.characterize.record.samples import series_config
from gpuprof.characterize.record.series import SeriesConfig
from gpuprof.errors import UsageError

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.record.gpu import Gpu


def main(arguments: Sequence[str]) -> None:
    """Launch what the command line says."""
    from gpuprof.characterize.on_gpu.device import open_gpu
    from gpuprof.characterize.probes.library import load_probes, probe_folder, select

    device, name, text, *counts = arguments
    (probe,) = select(load_probes(probe_folder()), [name])
    config = series_config(json.loads(text), "the configuration")
    launch(open_gpu(int(device)), probe, config, [int(count) for count in counts])


def launch(gpu: Gpu, probe: Probe, config: SeriesConfig, counts: Sequence[int]) -> None:
    """Compile the probe for this GPU, with the NVRTC that measuring takes, and launch one configuration of it.

    Raises UsageError if it has no such one.
    """
    from gpuprof.characterize.characterization import fitting_compiler
    from gpuprof.characterize.measure.points import step_points, variant_of
    from gpuprof.characterize.probes.probe import target_of

    target = target_of(gpu.properties.compute_capability) or ""
    checked = fitting_compiler(gpu, target)([probe], target, lambda _done, _total: None)
    context = MeasurementContext.without_samples(gpu, target, checked)
    step = Step(probe, config.regime, config.data)
    every = [configuration for point in step_points(context, step) for configuration in point.configurations]
    wanted = _without_run(config)
    configuration = next((candidate for candidate in every if _without_run(candidate.config) == wanted), None)
    if configuration is None:
        raise UsageError(f"{probe.id} has no configuration {json.dumps(config.settings())}")
    ready = KernelLauncher(gpu).ready(variant_of(context, probe, configuration), configuration)
    ready.one_wave()
    for count in counts:
        ready.run(count)


def _without_run(config: SeriesConfig) -> SeriesConfig:
    """Return what was chosen but for the allocation and the code's hash, which another run need not share."""
    return replace(config, cubin=None, allocation=None)


if __name__ == "__main__":
    main(sys.argv[1:])
