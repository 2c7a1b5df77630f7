"""Values of each side that conditions compare, and the kernels that both sides have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from gpuprof.comparison.contract import Affects, RunCondition
from gpuprof.comparison.sides import Side, SideKernel
from gpuprof.model.session import Device, Source
from gpuprof.model.surveyed import SURVEY

Value = TypeVar("Value", str, int)


def condition(
    name: str,
    values: Iterable[Iterable[str | float]],
    affects: Affects | None = None,
    *,
    kind: str = "",
    ratio: float | None = None,
) -> RunCondition:
    """Return a condition with the values of the base and of the new side."""
    base, new = map(tuple, values)
    return RunCondition(name=name, base=base, new=new, affects=affects, kind=kind, ratio=ratio)


def differ(base: Sequence[Value], new: Sequence[Value]) -> bool:
    """Return whether both sides are known and differ."""
    return bool(base) and bool(new) and set(base) != set(new)


def known(values: Iterable[Value | None]) -> list[Value]:
    """Return the known values, each once, in order."""
    return sorted({value for value in values if value})


def both(base: Side, new: Side, of: Callable[[Side], Iterable[Value | None]]) -> tuple[list[Value], list[Value]]:
    """Return the known values of each side."""
    return known(of(base)), known(of(new))


def sources(side: Side) -> Iterator[Source]:
    """Yield the files of a side, of all runs."""
    for run in side.runs:
        yield from run.session.sources


def counting(side: Side) -> Iterator[Source]:
    """Yield the files that counters are from."""
    return (source for source in sources(side) if not source.is_survey)


def timing(side: Side) -> Iterator[Source]:
    """Yield the files that durations are from: those of surveys if all durations are."""
    timed = {kernel.representative.duration_source for kernel in side.kernels} - {None}
    surveyed = timed == {SURVEY}
    return (source for source in sources(side) if source.is_survey == surveyed)


def common(base: Side, new: Side) -> list[tuple[SideKernel, SideKernel]]:
    """Return the kernels that both sides have with one name, ranges and launch configuration."""
    partners = {kernel.key: kernel for kernel in new.kernels}
    return [(kernel, partners[kernel.key]) for kernel in base.kernels if kernel.key in partners]


def devices(side: Side) -> Iterator[Device]:
    """Yield the GPUs that kernels of a side ran on; all GPUs of a session without kernels."""
    for run in side.runs:
        used = {kernel.device for kernel in run.session.kernels}
        for device in run.session.devices:
            if not used or device.id in used:
                yield device
