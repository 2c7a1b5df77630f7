"""CUDA graphs that were recorded as a whole, without their kernels and copies. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.model.groups import by_key, spread
from gpuprof.model.session import WholeGraph, WholeGraphs
from gpuprof.timeline.trace import GRAPH, Activity

_LONGEST = 3


def whole_graphs(activities: Sequence[Activity], any_s: float) -> WholeGraphs | None:
    """Return the graphs among a GPU's activities; `any_s` is the time with any of them. None without any."""
    times = by_key((activity.name, activity.duration_s) for activity in activities if activity.kind == GRAPH)
    if not times:
        return None
    graphs = []
    for name, times_s in times.items():
        known = spread(times_s)
        median_s = known.p50 if known is not None else None
        time_s = sum(time_s or 0.0 for time_s in times_s)
        graphs.append(WholeGraph(name=name, replays=len(times_s), time_s=time_s, median_s=median_s))
    graphs.sort(key=lambda graph: -graph.time_s)
    replays = sum(graph.replays for graph in graphs)
    return WholeGraphs(graphs=len(graphs), replays=replays, time_s=any_s, longest=tuple(graphs[:_LONGEST]))
