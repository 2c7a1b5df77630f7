"""The program that runs under ncu for `--verify-counters`: one configuration of a probe, launched as often as asked.

`python -m gpuprof.characterize.counted_run DEVICE FAMILY/NAME CONFIGURATION ITERATIONS…`, the configuration as the
sample file has it, in JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuprof.characterize.measure.step import MeasurementContext, Step
from gpuprof.characterize.on_gpu.launcher import KernelLauncher
from gpuprof.characterize.record.configurations import Configuration, chosen
from gpuprof.errors import UsageError

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.record.gpu import Gpu


def main(words: Sequence[str]) -> None:
    """Launch what the command line says."""
    from gpuprof.characterize.on_gpu.device import open_gpu
    from gpuprof.characterize.probes.library import load_probes, probe_folder, select

    device, name, text, *counts = words
    (probe,) = select(load_probes(probe_folder()), [name])
    launch(open_gpu(int(device)), probe, json.loads(text), [int(count) for count in counts])


def launch(gpu: Gpu, probe: Probe, words: Mapping[str, str | int | float | bool], counts: Sequence[int]) -> None:
    """Compile the probe for this GPU, with the NVRTC that measuring takes, and launch one configuration of it.

    Raises UsageError if it has no such one.
    """
    from gpuprof.characterize.characterization import fitting_compiler
    from gpuprof.characterize.measure.kernel_steps import step_points, variant_of
    from gpuprof.characterize.probes.probe import target_of

    target = target_of(gpu.properties.compute_capability) or ""
    checked = fitting_compiler(gpu, target)([probe], target, lambda _done, _total: None)
    context = MeasurementContext.without_samples(gpu, target, checked)
    step = Step(probe, str(words["regime"]), str(words["data"]), 0.0)
    every = [one for point in step_points(context, step) for one in point.configurations]
    one = next((one for one in every if _is(one, words)), None)
    if one is None:
        raise UsageError(f"{probe.id} has no configuration {json.dumps(dict(words))}")
    ready = KernelLauncher(gpu).ready(variant_of(context, probe, one), one)
    ready.one_wave()
    for count in counts:
        ready.run(count)


def _is(one: Configuration, words: Mapping[str, str | int | float | bool]) -> bool:
    """Tell whether a configuration is the one that samples name, but for the allocation and the code's hash."""
    ignored = {"cubin", "allocation"}
    return {name: value for name, value in one.words().items() if name not in ignored} == {
        name: value for name, value in chosen(words).items() if name not in ignored
    }


if __name__ == "__main__":
    main(sys.argv[1:])
