"""How busy a unit is by its parts, if a report has no figure of the whole unit, and which part is the evidence."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.model.analyse import analyse
from tests import builders
from tests.table import each_row

_ELAPSED = "avg.pct_of_peak_sustained_elapsed"
ISSUE, FMA, XU = "sm__issue_active", "sm__pipe_fma_cycles_active", "sm__inst_executed_pipe_xu"
L1 = (
    "l1tex__data_pipe_lsu_wavefronts",
    "l1tex__f_wavefronts",
    "l1tex__lsuin_requests",
    "l1tex__m_xbar2l1tex_read_sectors",
)
CYCLES = {"sm__cycles_active.avg": 900.0, "sm__cycles_elapsed.max": 1000.0}


def case_of(busy: Mapping[str, float], more: Mapping[str, float] | None = None) -> KernelFacts:
    """A launch whose parts are busy for so many percent of the time, in a report that does not list its metrics."""
    values = {f"{part}.{_ELAPSED}": percent for part, percent in busy.items()}
    made = replace(builders.report(builders.launch({**values, **(more or {})})), names=None)
    analysis = analyse([made], builders.hardware_of, "1")
    return KernelFacts(analysis.session.kernels[0], analysis.recorded[0])


@each_row(
    ("busy", "unit", "evidence"),
    [
        ({ISSUE: 30.0, FMA: 40.0}, "sm", FMA),
        ({ISSUE: 30.0, FMA: 20.0}, "sm", ISSUE),
        (dict(zip(L1, (10.0, 20.0, 15.0, 5.0), strict=True)), "l1", "l1tex__f_wavefronts"),
        # NVIDIA's own figure of the unit is the evidence if it is there.
        ({ISSUE: 30.0, FMA: 40.0, "sm__throughput": 50.0}, "sm", "sm__throughput"),
    ],
)
def test_the_busiest_part_is_how_busy_a_unit_is_and_the_evidence(
    busy: Mapping[str, float], unit: str, evidence: str
) -> None:
    case = case_of(busy, CYCLES)
    (found,) = (known for known in case.kernel.throughput if known.unit == unit)
    assert found.fraction == max(busy.values()) / 100
    assert case.light_metric(unit) == f"{evidence}.{_ELAPSED}"


def test_of_an_sm_some_of_whose_pipes_were_not_counted_no_more_is_said_than_at_least() -> None:
    assert [known.bound for known in case_of({ISSUE: 30.0, FMA: 40.0}).kernel.throughput] == ["at-least"]
    assert not case_of({FMA: 40.0, XU: 10.0}).kernel.throughput, "without issue slots nothing is said"
