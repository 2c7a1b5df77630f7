"""The kernels of a trace as launches, with their time and their resources as metrics."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.model.recorded import Launch, LaunchDetails, Metric, MetricTable, Report, names_of
from gpuprof.timeline.trace import Activity, Trace

_TIME, _REGISTERS = "gpu__time_duration.sum", "launch__registers_per_thread"
_STATIC, _DYNAMIC = "launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"
_NO_DETAILS = LaunchDetails()


def as_report(trace: Trace) -> Report:
    """Return the kernels of a trace as launches with their times, registers and shared memory."""
    launches = tuple(_launches(trace))
    return Report(
        file=trace.file,
        sha256=trace.sha256,
        kind=trace.kind,
        tool=trace.tool,
        tool_version=trace.tool_version,
        launches=launches,
        devices=trace.devices,
        command=trace.command,
        driver=trace.driver,
        created_s=round(trace.created_s) if trace.created_s is not None else None,
        rank=trace.rank,
        names=names_of(launches),
        warnings=trace.warnings,
    )


def _launches(trace: Trace) -> Iterator[Launch]:
    """Yield the kernels; equal ranges are shared, because a trace can have a million kernels."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for activity in trace.activities:
        if not activity.is_kernel:
            continue
        ranges = (*activity.ranges, activity.operator) if activity.operator is not None else activity.ranges
        yield Launch(
            name=activity.name,
            demangled=activity.name,
            device=activity.device,
            process=activity.process,
            stream=activity.stream,
            grid=activity.grid,
            block=activity.block,
            ranges=known.setdefault(ranges, ranges),
            metrics=_ActivityMetrics(activity),
            details=_NO_DETAILS,
            mangled=activity.mangled,
        )


class _ActivityMetrics(MetricTable):
    """A metric table that makes a value when it is asked for: a timeline can have a million kernels."""

    __slots__ = ("_activity",)

    def __init__(self, activity: Activity) -> None:
        self._activity = activity

    def get(self, name: str) -> Metric | None:
        """Return the metric of that exact name."""
        activity = self._activity
        if name == _TIME and activity.duration_s is not None:
            return Metric(activity.duration_s, "s")
        if name == _REGISTERS and activity.registers_per_thread is not None:
            return Metric(float(activity.registers_per_thread), "register/thread")
        if name in (_STATIC, _DYNAMIC) and activity.shared_bytes is not None:
            return Metric(float(activity.shared_bytes) if name == _STATIC else 0.0, "B")
        return None

    def names(self) -> tuple[str, ...]:
        """Return the names of all metrics, sorted."""
        return tuple(filter(self.has, (_TIME, _REGISTERS, _DYNAMIC, _STATIC)))
