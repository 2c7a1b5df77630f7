"""Equal launches as one kernel: analysed at once they give what grouping a whole session gives."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuprof.diagnose.diagnose import diagnose
from gpuprof.diagnose.grouping import grouped
from gpuprof.model.analyse import analyse
from gpuprof.model.recorded import Launch
from gpuprof.model.session import KernelProfile, Session
from tests import builders


def launches() -> list[Launch]:
    """Seven launches: five of one kernel in two grids, one of another, one of unknown grid."""
    times = (3e-3, 1e-3, 2e-3, 5e-3, 4e-3)
    same = [builders.launch({"gpu__time_duration.sum": time}, name="a") for time in times]
    wide = [replace(launch, grid=(7, 1, 1)) for launch in same[3:]]
    other = builders.launch({"gpu__time_duration.sum": 9e-3}, name="b")
    return [*same[:3], *wide, other, replace(other, grid=None)]


def by_either_way() -> tuple[Session, Session]:
    whole = diagnose(analyse([builders.report(*launches())], builders.hardware_of, "1"))
    return grouped(whole), diagnose(
        analyse([builders.report(*launches())], builders.hardware_of, "1", one_of_a_kind=True)
    )


def summary(kernel: KernelProfile) -> tuple[object, ...]:
    gains = [(finding.rule, finding.gain_kernel) for finding in kernel.findings]
    times = kernel.duration_s, kernel.duration_percentiles_s, kernel.launch_times
    return kernel.id, kernel.label, kernel.launches, times, kernel.counts, kernel.lines, gains


def test_the_launch_of_median_duration_speaks_for_its_kind() -> None:
    _, at_once = by_either_way()
    # 3, 1 and 2 ms: launch 2; 5 and 4 ms: the shorter of the two, launch 4.
    assert [(kernel.id, kernel.launches, kernel.duration_s) for kernel in at_once.kernels] == [
        (2, 3, 2e-3),
        (4, 2, 4e-3),
        (5, 1, 9e-3),
        (6, 1, 9e-3),
    ]
    assert at_once.kernels[0].time_total_s == pytest.approx(6e-3)
    assert at_once.kernels[0].time_share == pytest.approx(6 / 33)


def test_both_ways_give_the_same_groups() -> None:
    later, at_once = by_either_way()
    assert list(map(summary, at_once.kernels)) == list(map(summary, later.kernels))
    assert [item.findings for item in at_once.opportunities] == [item.findings for item in later.opportunities]
    assert at_once.verdict == later.verdict
