"""What each stream did in each step, in its order. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Mapping

from gpuprof.model.launch_sequences import LaunchInSequence, LaunchSequence
from gpuprof.model.torch_ranges import innermost_operator, operator_and_shapes
from gpuprof.timeline.steps import loop_of
from gpuprof.timeline.trace import SDPA_MATH, Trace


def sequences_of(trace: Trace, ids: Mapping[int, int]) -> list[LaunchSequence]:
    """Return what each stream did for each step of the program, or for all of it, in order.

    `ids` are those of the kernels by the identity of launches. Streams of several processes can have the same number;
    of a launch whose call was not recorded it is not known.
    """
    streams: defaultdict[Hashable, list[LaunchInSequence]] = defaultdict(list)
    are_several = len({activity.process for activity in trace.activities} - {None}) > 1
    starts_s = [step.start_s for step in loop_of(trace)]
    for activity in trace.activities:
        step = bisect_right(starts_s, activity.launch_s)
        stream = activity.device, activity.stream, are_several and activity.process, step
        operator, shapes = operator_and_shapes(activity.operator or innermost_operator(activity.ranges))
        launch = LaunchInSequence(
            kernel=ids.get(id(activity)),
            name=activity.name,
            operator=operator,
            shapes=shapes,
            grid=activity.grid,
            block=activity.block,
            duration_s=activity.duration_s or 0.0,
            ranges=activity.ranges,
            in_sdpa=activity.in_sdpa or any(text.partition(" ")[0] == SDPA_MATH for text in activity.ranges),
        )
        streams[stream].append(launch)
    return [LaunchSequence(launches, not trace.incomplete) for launches in streams.values()]
