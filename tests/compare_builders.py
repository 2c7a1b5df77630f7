"""Hand-made kernels, sessions, runs and sides of a comparison, with numbers that can be worked out on paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gpuprof.comparison.contract import MatchKind
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import Run, Side, SideKernel, side_of
from gpuprof.model.groups import middle, spread
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import (
    SCHEMA_VERSION,
    Device,
    KernelProfile,
    LaunchCount,
    LaunchTimes,
    LineWork,
    Occupancy,
    Session,
    Source,
    Traffic,
    Work,
)
from tests.builders import A100

CLOCK_HZ = 1e9
"""SM clock of a launch where a test gives none: cycles are then nanoseconds."""


def kernel(
    name: str = "kernel", durations_s: Sequence[float] = (1e-5,), *, launches: int | None = None,
    grid: Dim3 | None = (64, 1, 1), block: Dim3 | None = (256, 1, 1), ranges: tuple[str, ...] = (),
    clocks_hz: Sequence[float] | None = None, counts: Mapping[str, float | tuple[float, float, float]] | None = None,
    traffic: Mapping[Any, float] | None = None, flop: Mapping[str, float] | None = None, registers: int | None = 32,
    shared_bytes: int | None = 0, occupancy: float | None = None, limiters: tuple[str, ...] = (),
    lines: Iterable[LineWork] = (), **fields: Any,
) -> KernelProfile:  # fmt: skip
    """A launch of each of these durations, as one entry; none: a kernel whose durations are not known.

    `counts` are values, or (value, low, high); `traffic` is bytes by level, `flop` FLOP by path; `fields` are any
    other of KernelProfile. `clocks_hz` are SM clocks, one for each duration; an empty one: not known.
    """
    times = tuple(durations_s)
    clocks = (CLOCK_HZ,) * len(times) if clocks_hz is None else tuple(clocks_hz)
    number = launches if launches is not None else max(1, len(times))
    sizes = traffic or {}
    every: dict[str, Any] = {
        "id": 0, "source": 0, "device": 0, "rank": None, "process": None, "stream": None, "name": name,
        "demangled": name, "label": name, "ranges": ranges, "grid": grid, "block": block,
        "registers_per_thread": registers, "shared_memory_per_block": shared_bytes, "launches": number,
        "duration_s": _middle(times), "duration_percentiles_s": spread(times) if len(times) > 1 else None,
        "duration_source": "gpu__time_duration.sum" if times else None,
        "time_total_s": sum(times) * number / len(times) if times else None, "time_share": None,
        "sm_clock_hz": _middle(clocks), "throttled": None,
        "work": tuple(Work(path, amount, None, "counted") for path, amount in (flop or {}).items()),
        "traffic": tuple(Traffic(level, amount, None, "made up", "counted") for level, amount in sizes.items()),
        "roofline": (), "throughput": (), "occupancy": Occupancy(occupancy, None, limiters), "stalls": (),
        "findings": (), "missing": (),
        "launch_times": LaunchTimes(durations_s=times, sm_clocks_hz=clocks) if number > 1 and times else None,
        "counts": tuple(count(key, value) for key, value in (counts or {}).items()), "lines": tuple(lines),
    }  # fmt: skip
    return KernelProfile(**{**every, **fields})


def count(name: str, value: float | tuple[float, float, float]) -> LaunchCount:
    middle, low, high = value if isinstance(value, tuple) else (value, value, value)
    return LaunchCount(name=name, value=middle, unit="counts", metric=f"made_up__{name}.sum", low=low, high=high)


def session(*kernels: KernelProfile, file: str = "made-up.ncu-rep", **fields: Any) -> Session:
    """A session of these kernels, numbered; their shares of the time are filled in. `fields` are any other of it."""
    total_s = sum(kernel.time_total_s or 0.0 for kernel in kernels)
    numbered = [_numbered(kernel, number, total_s) for number, kernel in enumerate(kernels)]
    every: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION, "gpuprof_version": "0", "sources": (source(file),), "devices": (device(),),
        "ceilings": (), "kernels": tuple(numbered),
    }  # fmt: skip
    return Session(**{**every, **fields})


def source(file: str = "made-up.ncu-rep", **fields: Any) -> Source:
    every: dict[str, Any] = {
        "file": file, "sha256": "0" * 64, "kind": "ncu-rep", "tool": "ncu", "tool_version": "2024.1.1.0",
        "clock_control": "base", "cache_control": "all", "command": None,
    }  # fmt: skip
    return Source(**{**every, **fields})


def device(**fields: Any) -> Device:
    every: dict[str, Any] = {
        "id": 0, "name": A100.name, "compute_capability": A100.compute_capability, "sm_count": A100.sm_count,
        "spec": "a100-80gb-pcie",
    }  # fmt: skip
    return Device(**{**every, **fields})


def run(*kernels: KernelProfile, file: str = "made-up.ncu-rep", **fields: Any) -> Run:
    """A run that launched these kernels; `fields` are any of Session."""
    return Run(file, session(*kernels, file=file, **fields))


def side(*kernels: KernelProfile, **fields: Any) -> Side:
    return side_of([run(*kernels, **fields)])


def pair(base: Side | SideKernel | None, new: Side | SideKernel | None, match: MatchKind = "exact") -> Pair:
    """Two kernels that belong together, or the first kernels of two sides; None: new or gone."""
    kinds: MatchKind = "new" if base is None else "gone" if new is None else match
    return Pair(kinds, _first(base), _first(new))


def pair_of(base: KernelProfile, new: KernelProfile, match: MatchKind = "exact") -> Pair:
    return pair(side(base), side(new), match)


def _first(what: Side | SideKernel | None) -> tuple[SideKernel, ...]:
    if what is None:
        return ()
    return (what.kernels[0],) if isinstance(what, Side) else (what,)


def _middle(values: Sequence[float]) -> float | None:
    return values[middle(values)] if values else None


def _numbered(kernel: KernelProfile, number: int, total_s: float) -> KernelProfile:
    share = kernel.time_total_s / total_s if kernel.time_total_s is not None and total_s > 0 else None
    return replace(kernel, id=number, time_share=share)
