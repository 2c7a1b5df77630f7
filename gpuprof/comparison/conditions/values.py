"""What conditions are made of: the values of each side, told short, and the kernels that both sides have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from gpuprof.comparison.contract import Affects, RunCondition
from gpuprof.comparison.sides import Side, SideKernel
from gpuprof.model.session import Device, Source
from gpuprof.model.surveyed import SURVEY

NOT_KNOWN = "not known"
_LONGEST = 200
"""Characters that are told of a value: a file may name anything."""
_SHOWN = 4
"""Values that are told of a side."""


def condition(name: str, values: Iterable[Sequence[str]], affects: Affects | None, sentence: str) -> RunCondition:
    """Return a condition with the values of the base and of the new side."""
    base, new = map(_told, values)
    return RunCondition(name=name, base=base, new=new, affects=affects, sentence=sentence)


def differ(base: Sequence[str], new: Sequence[str]) -> bool:
    """Tell whether both sides are known, and are not the same."""
    return bool(base) and bool(new) and set(base) != set(new)


def known(values: Iterable[str | None]) -> list[str]:
    """Return the values that are known, each once, in order."""
    return sorted({value for value in values if value})


def facts(base: Side, new: Side, of: Callable[[Device], str | None]) -> tuple[list[str], list[str]]:
    """Return what is known of the GPUs on which the kernels of each side ran."""
    return known(map(of, _devices(base))), known(map(of, _devices(new)))


def sources(side: Side) -> Iterator[Source]:
    """Yield the files of a side, of all runs."""
    for run in side.runs:
        yield from run.session.sources


def counting(side: Side) -> Iterator[Source]:
    """Yield the files that counters are from."""
    return (source for source in sources(side) if not source.is_survey)


def timing(side: Side) -> Iterator[Source]:
    """Yield the files that durations are from: a survey's where all are."""
    timed = {kernel.speaker.duration_source for kernel in side.kernels} - {None}
    surveyed = timed == {SURVEY}
    return (source for source in sources(side) if source.is_survey == surveyed)


def common(base: Side, new: Side) -> list[tuple[SideKernel, SideKernel]]:
    """Return the kernels that both sides have with one name, ranges and launch configuration."""
    partners = {kernel.key: kernel for kernel in new.kernels}
    return [(kernel, partners[kernel.key]) for kernel in base.kernels if kernel.key in partners]


def _told(values: Sequence[str]) -> str:
    if not values:
        return NOT_KNOWN
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(_cut(value) for value in values[:_SHOWN]) + more


def _cut(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"


def _devices(side: Side) -> Iterator[Device]:
    """Yield the GPUs that kernels of a side ran on; of a session without kernels, those that it names."""
    for run in side.runs:
        used = {kernel.device for kernel in run.session.kernels}
        for device in run.session.devices:
            if not used or device.id in used:
                yield device
