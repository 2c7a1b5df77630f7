"""Reports of which less was collected: what gpuprof says then, against what all counters of the same launch show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuprof._version import __version__
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.recorded import DictMetrics, LaunchDetails, Metric, Report
from gpuprof.model.session import Session
from gpuprof.read.files import read_file
from tests.worded import diagnose

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
FILES = sorted(path.name for path in RECORDINGS.glob("*.ncu-rep.gz"))
SPEED = (
    r"gpu__time_duration\.sum|(sm|gpu__\w+|lts|dram|l1tex)_*throughput\.avg\.pct_\w+|[sg][mp]c?__cycles_\w+\.(avg|max)"
)
VIEWS = {
    "speed of light": SPEED,
    "basic": rf"{SPEED}|launch__.*|sm__(maximum_)?warps.*",
    "warp states": r"smsp__(issue|average_warps|warps).*",
    "pipes": r"sm__(inst_executed_)?pipe.*",
    "memory": r"(dram|lts|l1tex)__.*|gpu__compute_memory.*",
    "source": r"(inst_executed|thread_inst.*|smsp__pcsamp.*|.*memory_l.*)",
    "launch": r"launch__.*",
    "L1 alone": r"l1tex__throughput\.avg\.pct_of_peak_sustained_active|gpu__time_duration\.sum",
    "DRAM alone": r"(gpu__)?dram__?throughput\.avg\.pct_\w+|gpu__time_duration\.sum",
}  # fmt: skip
UNITS = {"SM throughput": "sm", "DRAM bandwidth": "dram", "L2 bandwidth": "l2", "L1 throughput": "l1"}


def told(report: Report) -> Session:
    return diagnose(analyse([report], HardwareFinder(), __version__))


def poorer(report: Report, pattern: str) -> Report:
    """The report with the metrics of that pattern alone; its code stays where samples or executions do."""
    wanted = re.compile(rf"({pattern})\Z|device__.*")
    launches = []
    for launch in report.launches:
        table = launch.metrics
        names = [name for name in table.names() if wanted.match(name)]
        values: dict[str, Metric] = {name: metric for name in names if (metric := table.get(name)) is not None}
        by_instance: dict[str, Mapping[str | int, float]] = {
            name: known for name in names if (known := table.instances(name)) is not None
        }
        details: LaunchDetails = launch.details if "inst_executed" in names else LaunchDetails()
        launches.append(replace(launch, metrics=DictMetrics(values, by_instance), details=details))
    kept = frozenset(name for launch in launches for name in launch.metrics.names())
    return replace(report, launches=tuple(launches), names=kept)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "a40" in name else ()) for name in FILES]
)
def test_less_that_was_collected_is_never_told_as_more(name: str) -> None:
    report = read_file(str(RECORDINGS / name))
    assert isinstance(report, Report)
    full = told(report)
    for view, pattern in VIEWS.items():
        less = told(poorer(report, pattern))
        verdict = less.verdict
        assert verdict is not None and len(less.kernels) == len(full.kernels)
        if verdict.fraction is not None and verdict.ceiling in UNITS and verdict.kernel is not None:
            known: dict[str, float] = {item.unit: item.fraction for item in full.kernels[verdict.kernel].throughput}
            # Two passes of ncu differ by this.
            limit = max(known.get(UNITS[verdict.ceiling], 0.0), known.get("memory", 0.0)) + 0.03
            assert verdict.fraction <= limit, view
        for poor, rich in zip(less.kernels, full.kernels, strict=True):
            gains = {finding.rule: finding.gain_kernel for finding in rich.findings}
            for finding in poor.findings:
                known_gain = gains.get(finding.rule)
                if finding.gain_kind == "bound" and finding.gain_kernel is not None and known_gain is not None:
                    # Other known values can only lower an upper bound.
                    assert finding.gain_kernel >= known_gain - 0.01, (view, finding.headline)
