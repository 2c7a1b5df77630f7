"""The time and the resources of a kernel on a timeline, as the metrics of a launch."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.model.recorded import Metric, plausible
from gpuprof.timeline.trace import Activity

_TIME, _REGISTERS = "gpu__time_duration.sum", "launch__registers_per_thread"
_STATIC, _DYNAMIC = "launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"


class ActivityMetrics:
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

    def number(self, name: str) -> float | None:
        """Return its value."""
        metric = self.get(name)
        return plausible(metric.value) if metric is not None else None

    def digits(self, name: str) -> int | None:  # noqa: ARG002
        """Return None: nothing was rounded."""
        return None

    def has(self, name: str) -> bool:
        """Return whether there is a metric of that name."""
        return self.get(name) is not None

    def is_strange(self, name: str) -> bool:  # noqa: ARG002
        """Return False: every value has a known form."""
        return False

    def names(self) -> tuple[str, ...]:
        """Return the names of all metrics, sorted."""
        return tuple(name for name in (_TIME, _REGISTERS, _DYNAMIC, _STATIC) if self.has(name))

    def instances(self, name: str) -> Mapping[str | int, float] | None:  # noqa: ARG002
        """Return None: no metric has values by instance."""
        return None
