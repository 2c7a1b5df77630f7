"""What Python programs use: `gpuprof.load(path)` gives a session that shows itself in notebooks."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from gpuprof._version import __version__
from gpuprof.diagnose.diagnose import diagnose
from gpuprof.diagnose.grouping import grouped
from gpuprof.errors import InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import SpecLibrary, load_gpu
from gpuprof.hardware.specs import GpuSpec
from gpuprof.model.analyse import analyse, spec_session
from gpuprof.model.ceilings import Hardware, MeasuredLimits
from gpuprof.model.recorded import Report
from gpuprof.model.session import Session
from gpuprof.model.timeline import analyse_traces
from gpuprof.model.trace import Trace
from gpuprof.notebook import LoadedSession
from gpuprof.read.files import STDIN, read_file


def load(
    *paths: str | os.PathLike[str], spec: str | None = None, salvage: bool = False, groups: bool = False
) -> LoadedSession:
    """Read reports, CSV exports, timelines or a session and analyse them.

    With `groups` equal launches (same name, grid, block and ranges) are one kernel, for which the launch of median
    duration speaks: much faster where a report has thousands of them. `spec` names a GPU spec, or a spec file, to use
    instead of the one that matches. `salvage` shows what can be read of damaged reports. Raises a GpuprofError
    (InputError, DamagedInput, SpecError …) with a hint.
    """
    if not paths:
        raise InputError("no file was named", "gpuprof show REPORT.ncu-rep")
    _refuse_twice([os.fspath(path) for path in paths])
    files = [read_file(os.fspath(path), salvage=salvage) for path in paths]
    traces = [file for file in files if isinstance(file, Trace)]
    if traces:
        if len(traces) < len(files):
            raise InputError(
                "timelines and reports are not shown together",
                "show each alone, or profile by the timeline: gpuprof run --survey",
            )
        return LoadedSession.of(diagnose(analyse_traces(traces, HardwareFinder(spec), __version__)))
    sessions = [file for file in files if isinstance(file, Session)]
    reports = [file for file in files if isinstance(file, Report)]
    if sessions:
        if len(files) > 1:
            raise InputError("a session can only be shown alone", "name the reports that it was made from instead")
        return LoadedSession.of(grouped(sessions[0]) if groups else sessions[0])
    return LoadedSession.of(diagnose(analyse(reports, HardwareFinder(spec), __version__, one_of_a_kind=groups)))


def load_spec(name: str) -> LoadedSession:
    """Return a session without kernels: the rated ceilings of a GPU spec or spec file. Raises InputError if unknown."""
    gpu = load_gpu(Path(name)) if _is_file(name) else SpecLibrary().gpu(name)
    return LoadedSession.of(spec_session(gpu, __version__))


def _is_file(spec: str) -> bool:
    return spec.endswith((".yaml", ".yml")) or os.sep in spec


def _refuse_twice(names: list[str]) -> None:
    """Raise InputError if a file is named twice: its time would count twice."""
    places = [os.path.realpath(name) if name != STDIN else name for name in names]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise InputError(f"{names[index]} is named twice", "name each file once")


class HardwareFinder:
    """Finds what is known of a recorded GPU: its product spec, else its architecture, else what all GPUs share."""

    def __init__(self, spec: str | None = None) -> None:
        self._library = SpecLibrary()
        self._gpu: GpuSpec | None = None
        if spec is not None:
            self._gpu = load_gpu(Path(spec)) if _is_file(spec) else self._library.gpu(spec)

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
                "name a spec of that architecture, or none",
            )
        if gpu is not None and device.compute_capability is None:
            device = replace(device, compute_capability=gpu.arch.removeprefix("sm_"))
        measured = self._measured(device)
        certificates = self._library.certificates(arch.name) if arch is not None else ()
        return Hardware.of(
            arch if arch is not None else self._library.generic_arch(), gpu, device, measured, certificates
        )

    def _measured(self, device: RecordedDevice) -> MeasuredLimits | None:
        """Return what `characterize` has measured on a GPU of this kind, from FOLDER/measured of the spec folders."""
        if not any((folder / "measured").is_dir() for folder in self._library.folders):
            return None
        from gpuprof.characterize.sheet.ceilings import MeasuredCeilings, find_measured

        measured = find_measured(self._library.folders, device)
        return MeasuredCeilings(measured) if measured is not None else None
