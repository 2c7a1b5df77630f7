"""The time and the resources of a kernel on a timeline, as the metrics of a launch."""

from __future__ import annotations

from gpuprof.model.recorded import Metric, MetricTable
from gpuprof.timeline.trace import Activity

_TIME, _REGISTERS = "gpu__time_duration.sum", "launch__registers_per_thread"
_STATIC, _DYNAMIC = "launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"


class ActivityMetrics(MetricTable):
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
