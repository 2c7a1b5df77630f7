"""In how many passes CUPTI collects what gpuprof asks for on each chip, and which counters cost them; without a GPU.

python -m benchmarks.passes [--cupti LIBRARY]               everything on every chip that this CUPTI knows
python -m benchmarks.passes --cost all --arch sm_90         by how many passes it shrinks without each of its metrics

Opcodes (`sass__`) and samples of the program counter are not CUPTI's to schedule: they are listed with the metrics that
it does not count. ncu adds about two passes of its own, and one for opcodes and samples.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.command_line import run as run_command
from gpuprof.collect.cost import SCHEDULED
from gpuprof.collect.metrics import limit_metrics, question_metrics
from gpuprof.collect.questions import QUESTIONS
from gpuprof.errors import EnvironmentProblem
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ArchSpec

CHIPS: Mapping[str, str] = {
    "sm_70": "GV100", "sm_75": "TU102", "sm_80": "GA100", "sm_86": "GA102", "sm_89": "AD102", "sm_90": "GH100",
    "sm_100": "GB100", "sm_103": "GB110", "sm_120": "GB202",
}  # fmt: skip
"""A chip of each architecture. CUPTI 12.9 knows Volta, 13.0 no more."""
LIMITS, ANSWERS, ALL, TENSOR = "limits", "answers", "all", "tensor-work"
ASKED = (LIMITS, *QUESTIONS, ANSWERS, ALL)
"""The limits, each question, all questions but tensor work by counters, and these with the limits."""
_NO_COUNTERS = ("launch__", "sass__", "group:", "smsp__pcsamp", "sm__maximum_warps_per_active_cycle_pct")
"""Attributes of launches, counts by patched code, samples: CUPTI's host library does not schedule them."""
_RANGE_PROFILER = 0
"""The kind of profiler that CUPTI's host library schedules for."""


class Scheduler:
    """CUPTI's host library, which puts counters into passes (cupti_profiler_host.h of CUDA 12.6 and newer)."""

    def __init__(self, library: Path) -> None:
        try:
            self._cupti = ctypes.CDLL(str(library))
        except OSError as error:
            raise EnvironmentProblem(f"{library} cannot be loaded: {error}", "name libcupti.so with --cupti") from error

    def passes(self, chip: str, metrics: Sequence[str]) -> int | None:
        """Return the passes that metrics take together; None where one of them does not exist on the chip.

        Raises EnvironmentProblem where CUPTI does not know the chip.
        """
        host = _Initialize(kind=_RANGE_PROFILER, chip=chip.encode())
        code = self._code("Initialize", host)
        if code:
            raise EnvironmentProblem(f"this CUPTI refuses {chip} with {code}", "take an older one, or a newer one")
        try:
            names = (ctypes.c_char_p * len(metrics))(*(name.encode() for name in metrics))
            if self._code("ConfigAddMetrics", _AddMetrics(host=host.host, names=names, count=len(metrics))):
                return None
            size = _ImageSize(host=host.host)
            self._done("GetConfigImageSize", size)
            image = ctypes.create_string_buffer(size.bytes)
            place = ctypes.cast(image, ctypes.c_void_p)
            self._done("GetConfigImage", _Image(host=host.host, bytes=size.bytes, image=place))
            number = _Passes(bytes=size.bytes, image=place)
            self._done("GetNumOfPasses", number)
            return int(number.passes)
        finally:
            self._code("Deinitialize", _Host(host=host.host))

    def unknown(self, chip: str, metrics: Sequence[str]) -> tuple[str, ...]:
        """Return those metrics that the chip does not have."""
        return tuple(name for name in metrics if self.passes(chip, [name]) is None)

    def _code(self, call: str, parameters: ctypes.Structure) -> int:
        parameters.size = ctypes.sizeof(parameters)
        return int(self._cupti[f"cuptiProfilerHost{call}"](ctypes.byref(parameters)))

    def _done(self, call: str, parameters: ctypes.Structure) -> None:
        code = self._code(call, parameters)
        if code:
            raise EnvironmentProblem(f"CUPTI's cuptiProfilerHost{call} failed with {code}", None)


_HEAD = (("size", ctypes.c_size_t), ("private", ctypes.c_void_p))
_OBJECT = ("host", ctypes.c_void_p)
_BYTES, _PLACE = ("bytes", ctypes.c_size_t), ("image", ctypes.c_void_p)


class _Initialize(ctypes.Structure):
    _fields_ = (
        *_HEAD, ("kind", ctypes.c_int), ("chip", ctypes.c_char_p), ("availability", ctypes.c_void_p), _OBJECT,
    )  # fmt: skip


class _Host(ctypes.Structure):
    _fields_ = (*_HEAD, _OBJECT)


class _AddMetrics(ctypes.Structure):
    _fields_ = (*_HEAD, _OBJECT, ("names", ctypes.POINTER(ctypes.c_char_p)), ("count", ctypes.c_size_t))


class _ImageSize(ctypes.Structure):
    _fields_ = (*_HEAD, _OBJECT, _BYTES)


class _Image(ctypes.Structure):
    _fields_ = (*_HEAD, _OBJECT, _BYTES, _PLACE)


class _Passes(ctypes.Structure):
    _fields_ = (*_HEAD, _BYTES, _PLACE, ("passes", ctypes.c_size_t))


def find_cupti() -> Path | None:
    """Return the library of NVIDIA's wheel nvidia-cuda-cupti, where it is installed."""
    wheel = importlib.util.find_spec("nvidia")
    folders = list(wheel.submodule_search_locations or ()) if wheel is not None else []
    return next((file for folder in folders for file in sorted(Path(folder).glob("*/lib/libcupti.so.*"))), None)


def arch_of(name: str) -> ArchSpec:
    """Return an architecture of the packaged specs."""
    arch = SpecLibrary().arch(name)
    assert arch is not None, name
    return arch


def metrics_of(arch: ArchSpec, name: str) -> tuple[str, ...]:
    """Return the metrics of one of `ASKED`."""
    by_opcodes = [question for question in QUESTIONS if question != TENSOR]
    if name == LIMITS:
        return limit_metrics(arch)
    if name == ANSWERS:
        return question_metrics(arch, by_opcodes)
    if name == ALL:
        return tuple(dict.fromkeys((*limit_metrics(arch), *question_metrics(arch, by_opcodes))))
    return question_metrics(arch, [question for question in QUESTIONS if question == name])


def counters_of(arch: ArchSpec, name: str) -> list[str]:
    """Return the metrics of one of `ASKED` that are put into passes by CUPTI."""
    return [metric for metric in metrics_of(arch, name) if not metric.startswith(_NO_COUNTERS)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passes", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cupti", type=Path, metavar="LIBRARY", help="libcupti.so instead of that of NVIDIA's wheel")
    parser.add_argument("--cost", choices=ASKED, help="what each metric costs")
    parser.add_argument("--arch", choices=CHIPS, default="sm_90")
    parser.set_defaults(run=run)
    return run_command(parser, arguments)


def run(options: argparse.Namespace) -> int:
    """Do what the options say."""
    library = options.cupti or find_cupti()
    if library is None:
        raise EnvironmentProblem(
            "there is no CUPTI here", "pip install nvidia-cuda-cupti-cu12, or name one with --cupti"
        )
    scheduler = Scheduler(library)
    if options.cost is not None:
        lines = _costs(scheduler, arch_of(options.arch), options.cost)
    else:
        lines = (line for name in CHIPS for line in _rows(scheduler, arch_of(name)))
        print(f"{'arch':8}{'chip':8}{'asked':12}{'counters':>9}{'passes':>8}{'said':>6}  beside  not on this chip")
    for line in lines:
        print(line, flush=True)
    return 0


def _rows(scheduler: Scheduler, arch: ArchSpec) -> Iterator[str]:
    chip, said = CHIPS[arch.name], SCHEDULED[arch.name]._asdict()
    for name in ASKED:
        metrics = counters_of(arch, name)
        try:
            unknown = scheduler.unknown(chip, metrics)
        except EnvironmentProblem as problem:
            yield f"{arch.name:8}{chip:8}{problem.message}"
            return
        passes = scheduler.passes(chip, [metric for metric in metrics if metric not in unknown])
        beside = [metric for metric in metrics_of(arch, name) if metric.startswith(("sass__", "smsp__pcsamp"))]
        counted = "–" if passes is None else str(passes)
        row = f"{arch.name:8}{chip:8}{name:12}{len(metrics):9}{counted:>8}{said.get(name.replace('-', '_'), ''):>6}"
        yield f"{row}  {len(beside):6}  {' '.join(unknown)}"


def _costs(scheduler: Scheduler, arch: ArchSpec, name: str) -> Iterator[str]:
    chip, metrics = CHIPS[arch.name], counters_of(arch, name)
    metrics = [metric for metric in metrics if metric not in scheduler.unknown(chip, metrics)]
    every = scheduler.passes(chip, metrics)
    assert every is not None
    yield f"{every} passes for {len(metrics)} metrics; without each, and for each alone"
    for metric in metrics:
        without = scheduler.passes(chip, [other for other in metrics if other != metric]) or 0
        alone = scheduler.passes(chip, [metric])
        if without < every or alone != 1:
            yield f"{without - every:+4}  {alone:2} alone  {metric}"


if __name__ == "__main__":
    sys.exit(main())
