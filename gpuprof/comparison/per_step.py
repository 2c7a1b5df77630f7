"""Figures of a step instead of a run, so that traces of different numbers of steps compare."""

from __future__ import annotations

from statistics import fmean

from msgspec.structs import replace

from gpuprof.comparison.contract import PER_STEP, KernelChange
from gpuprof.model.session import DeviceTimeline, Session

_LAUNCHES = "launches"


def computing_gpus(session: Session) -> tuple[DeviceTimeline, ...]:
    """Return the GPUs of a trace that ran kernels or CUDA graphs; those that only copy count if there are no others."""
    gpus = session.timeline.devices if session.timeline is not None else ()
    return tuple(gpu for gpu in gpus if gpu.kernel_s or gpu.graphs is not None) or gpus


def has_all_launches(session: Session) -> bool:
    """Return whether no kernel of a trace ran outside of the judged parts of its GPUs."""
    return not any(map(_has_others, computing_gpus(session)))


def _has_others(gpu: DeviceTimeline) -> bool:
    """Return whether kernels of a GPU ran outside of its judged part, or may have: it was not counted."""
    outside = (gpu.start_up, gpu.warm_up, gpu.between)
    return gpu.after_s > 0 or any(part is not None and part.launches != 0 for part in outside)


def steps_of(session: Session) -> float | None:
    """Return the steps that the kernels of a session ran in, on average over its GPUs; None if a GPU has none.

    A survey has the kernels outside of the steps, too.
    """
    devices = computing_gpus(session)
    if not devices or not all(device.steps for device in devices) or any(file.is_survey for file in session.sources):
        return None
    return fmean(device.steps for device in devices)


def named_per_step(change: KernelChange) -> KernelChange:
    """Return a change per step with launches that are named so."""
    work = change.work
    notes = [replace(note, names=tuple(map(_named, note.names))) for note in work.notes]
    counts = [replace(count, name=_named(count.name)) for count in work.counts]
    causes = []
    for cause in change.causes:
        values = [replace(value, name=_named(value.name)) for value in cause.values]
        causes.append(replace(cause, values=tuple(values)))
    work = replace(work, counts=tuple(counts), notes=tuple(notes))
    return replace(change, work=work, causes=tuple(causes))


def _named(name: str) -> str:
    return f"{name}{PER_STEP}" if name == _LAUNCHES else name
