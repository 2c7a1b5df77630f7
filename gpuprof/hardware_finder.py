"""Finds the hardware of a device: its spec, what was measured of it, and which counters are certified there."""

from __future__ import annotations

import os
from functools import cache, partial
from pathlib import Path

from msgspec.structs import replace

from gpuprof.errors import InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import SpecLibrary, load_gpu
from gpuprof.hardware.specs import GpuSpec
from gpuprof.model.ceilings import Hardware, MeasuredLimits


def gpu_named(spec: str, library: SpecLibrary) -> GpuSpec:
    """Return the GPU spec of a file, or of that name. Raises InputError if there is none."""
    is_file = spec.endswith((".yaml", ".yml")) or os.sep in spec
    return load_gpu(Path(spec)) if is_file else library.gpu(spec)


class HardwareFinder:
    """Finds what is known of a recorded GPU: its product spec, else its architecture, else what all GPUs share."""

    def __init__(self, spec: str | None = None) -> None:
        self._library = SpecLibrary()
        self._gpu: GpuSpec | None = None
        if spec is not None:
            self._gpu = gpu_named(spec, self._library)

    def __call__(self, device: RecordedDevice) -> Hardware:
        """Return the hardware of a device. Raises SpecError if a spec that matters is broken."""
        gpu = self._gpu or self._library.match(device)
        if device.compute_capability is not None:
            arch = self._library.arch_of(device.compute_capability)
        else:
            arch = self._library.arch(gpu.arch) if gpu is not None else None
        if gpu is not None and arch is not None and gpu.arch != arch.name and self._gpu is not None:
            raise InputError(
                f"the spec {gpu.name} is for {gpu.arch}, but the report was recorded on {arch.name}",
                f"name a spec for {arch.name}, or leave out --spec",
            )
        if gpu is not None and device.compute_capability is None:
            device = replace(device, compute_capability=gpu.arch.removeprefix("sm_"))
        measured = self._measured(device)
        certificates = self._library.certificates(arch.name) if arch is not None else ()
        known = arch if arch is not None else self._library.generic_arch()
        hardware = Hardware.of(known, gpu, device, measured, certificates)
        return replace(hardware, siblings=cache(partial(self._library.products_of, known.name)))

    def _measured(self, device: RecordedDevice) -> MeasuredLimits | None:
        """Return what `characterize` has measured on a GPU of this kind, from FOLDER/measured of the spec folders."""
        if not any((folder / "measured").is_dir() for folder in self._library.folders):
            return None
        from gpuprof.characterize.sheet.ceilings import MeasuredCeilings, find_measured

        measured = find_measured(self._library.folders, device)
        return MeasuredCeilings(measured) if measured is not None else None
