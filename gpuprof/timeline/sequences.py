"""The kernels of each stream and step in their order, with the operators that launched them and their shapes. Pure."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Hashable
from functools import lru_cache
from typing import NamedTuple

from gpuprof.model.torch_ranges import innermost_operator, operator_and_shapes
from gpuprof.timeline.steps import loop_of
from gpuprof.timeline.trace import Activity, TensorShape, Trace

_POINTWISE = re.compile(r"elementwise_kernel|multi_tensor_apply_kernel|fused_dropout_kernel|masked_fill_kernel")
_NO_POINTWISE = re.compile(r"FillFunctor|LpNorm|distribution_|[iI]ndex|gather|scatter|Adam|LAMB|S(?:GD|gd)")


class Launch(NamedTuple):
    """A kernel as launched: its operator with the shapes of the first tensors, "" and none if they are not known."""

    activity: Activity
    operator: str = ""
    shapes: tuple[TensorShape, ...] = ()

    @property
    def function(self) -> str:
        """The operator, or the kernel's name if no operator of a library launched it."""
        return self.operator if "::" in self.operator else self.activity.name

    @property
    def elements(self) -> int:
        """The elements of the largest tensor."""
        return max(map(math.prod, self.shapes), default=0)

    @property
    def is_pointwise(self) -> bool:
        """Whether it computes each element of its results from the elements at the same places of its inputs."""
        return self.activity.is_kernel and _is_pointwise(self.activity.name)


def sequences_of(trace: Trace) -> Collection[list[Launch]]:
    """Return what each stream did for each step of the program, or for all of it, in order.

    Streams of several processes can have the same number; of a launch whose call was not recorded it is not known.
    """
    streams: defaultdict[Hashable, list[Launch]] = defaultdict(list)
    are_several = len({activity.process for activity in trace.activities} - {None}) > 1
    starts_s = [step.start_s for step in loop_of(trace)]
    for activity in trace.activities:
        step = bisect_right(starts_s, activity.launch_s)
        stream = activity.device, activity.stream, are_several and activity.process, step
        operator = activity.operator or innermost_operator(activity.ranges)
        streams[stream].append(Launch(activity, *operator_and_shapes(operator)))
    return streams.values()


@lru_cache(maxsize=4096)
def _is_pointwise(kernel: str) -> bool:
    return _POINTWISE.search(kernel) is not None and _NO_POINTWISE.search(kernel) is None
