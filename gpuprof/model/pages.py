"""Pages of a text that are of the same launches: ncu was run, or its report printed, for a part of the metrics each.

A run of ncu measures the same metrics of all launches of a kernel. So launches of a kernel and configuration that have
none in common are no two launches of a run: they are the same ones, once on each page.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from msgspec.structs import replace

from gpuprof.model.groups import collected
from gpuprof.model.recorded import DictMetrics, Launch, Metric, Report
from gpuprof.model.sources import kind_named
from gpuprof.units import counted

_TOLD_BY_THE_PROGRAM = ("launch__", "device__attribute_")
"""Beginnings of the names of what is not measured; it is on a page of any section that shows it."""


def with_pages_together(report: Report) -> Report:
    """Return a report whose launches are whole; as it is unless it is a text in which some are on several pages."""
    if not kind_named(report.kind).is_text:
        return report
    places = collected((_shape(launch, place), place) for place, launch in enumerate(report.launches))
    whole: dict[int, Launch | None] = {}
    for group in places:
        whole.update(_together([(place, report.launches[place]) for place in group]))
    if not whole:
        return report
    launches = (whole.get(place, launch) for place, launch in enumerate(report.launches))
    number = sum(launch is not None for launch in whole.values())
    told = (
        f"metrics of {counted(number, 'launch', 'es')} are on several pages that have none in common: "
        "they are taken together"
    )
    return replace(
        report,
        launches=tuple(launch for launch in launches if launch is not None),
        warnings=(*report.warnings, told),
    )


def _shape(launch: Launch, place: int) -> Hashable:
    """Return what launches on several pages share; what has no known grid or block is on one."""
    if launch.grid is None or launch.block is None:
        return place
    return launch.device, launch.demangled, launch.grid, launch.block, launch.ranges


def _together(placed: Sequence[tuple[int, Launch]]) -> Mapping[int, Launch | None]:
    """Return the launches at the places of the first page, and None at those of the others; nothing of a single page.

    The first launch of a page is the first of each other one, and so on, where all have equally many. What measured
    nothing is no page.
    """
    pages = collected((_measured(launch), (place, launch)) for place, launch in placed)
    names = [_measured(page[0][1]) for page in pages]
    apart = sum(map(len, names)) == len(frozenset[str]().union(*names))
    if len(pages) == 1 or not all(names) or not apart or len(set(map(len, pages))) > 1:
        return {}
    whole: dict[int, Launch | None] = {}
    for parts in zip(*pages, strict=True):
        united = _united([launch for _, launch in parts])
        if united is None:
            return {}
        whole.update({place: None for place, _ in parts})
        whole[parts[0][0]] = united
    return whole


def _measured(launch: Launch) -> frozenset[str]:
    return frozenset(name for name in launch.metrics.names() if not name.startswith(_TOLD_BY_THE_PROGRAM))


def _united(parts: Sequence[Launch]) -> Launch | None:
    """Return a launch with what each page has of it; None where they contradict each other."""
    metrics: dict[str, Metric] = {}
    for table in (launch.metrics for launch in parts):
        for name in table.names():
            metric = table.get(name)
            if metric is not None and metrics.setdefault(name, metric).value != metric.value:
                return None
    return replace(parts[0], metrics=DictMetrics(metrics))
