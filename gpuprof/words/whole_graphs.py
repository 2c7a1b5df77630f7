"""What is said of CUDA graphs that were recorded as a whole: their share of the time, and how to see into them."""

from __future__ import annotations

from gpuprof.model.run_totals import running_s
from gpuprof.model.session import Session, WholeGraphs
from gpuprof.units import counted, format_percent, format_si


def graphs_sentence(session: Session) -> str:
    """Return the share of whole graphs if they take more time than the kernels that were recorded; else nothing."""
    devices = session.timeline.devices if session.timeline is not None else ()
    graph_s = sum(device.graphs.time_s for device in devices if device.graphs is not None)
    span_s = sum(map(running_s, devices))
    if graph_s <= sum(device.kernel_s for device in devices) or span_s <= 0:
        return ""
    share = format_percent(min(1.0, graph_s / span_s))
    return f"Whole CUDA graphs take {share} of {format_si(span_s, 's')}: their kernels were not recorded."


def graphs_text(graphs: WholeGraphs) -> str:
    """Return how often whole graphs were replayed, and the median time of those with most time."""
    texts = []
    for graph in graphs.longest:
        median = f", median {format_si(graph.median_s, 's')}" if graph.median_s is not None else ""
        texts.append(f"{graph.name} {counted(graph.replays, 'time')}{median}")
    if graphs.graphs > len(texts):
        texts.append(f"{counted(graphs.graphs - len(texts), 'more graph')}")
    record = "nsys profile --cuda-graph-trace=node records their kernels"
    return f"{counted(graphs.replays, 'replay')} ({'; '.join(texts)}); {record}"
