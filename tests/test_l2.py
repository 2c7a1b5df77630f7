"""How busy L2 is, and which of its parts limits, on everything recorded and on launches made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuprof
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.launch_analysis import with_l2_bounded
from gpuprof.model.session import KernelProfile, Session, Throughput
from tests.kernels import Made, busy, made
from tests.readings import report_of, session_of
from tests.rule_examples import FABRIC
from tests.table import each_row
from tests.worded import grouped

ROOT = Path(__file__).parent
H100 = ROOT / "data" / "gpu" / "nvidia-h100-80gb-hbm3"
TRANSFORMER = H100 / "run-transformer" / "run" / "session.json"
RECORDED = [*sorted(H100.rglob("*.ncu-rep")), *sorted((ROOT.parent / "recordings").glob("*.gz"))]
RULE = "l2-bandwidth"
TWO_RUNS = 0.002
"""NVIDIA's figure of memory and the parts of L2 are counted in different passes."""
WHOLE = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
TAGS = "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed"
FROM_SMS = "lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed"
TO_SMS = "lts__lts2xbar_cycles_active.avg.pct_of_peak_sustained_elapsed"
ATOMICS = "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed"
BYTES = {"gpu__time_duration.sum": 1e-3, "lts__t_sectors_srcunit_tex.sum": 1e8}


def units(kernel: KernelProfile) -> dict[str, float]:
    return {unit.unit: unit.fraction for unit in kernel.throughput}


def with_both(session: Session) -> list[dict[str, float]]:
    return [known for known in map(units, session.kernels) if known.keys() >= {"l2", "memory"}]


@each_row("path", RECORDED, ids=lambda path: str(path.relative_to(ROOT.parent)))
def test_l2_is_no_busier_than_nvidias_memory_speed_of_light(path: Path) -> None:
    for kernel in session_of(path).kernels:
        known = units(kernel)
        if known.keys() >= {"l2", "memory"}:
            assert known["l2"] <= known["memory"] + TWO_RUNS
        if "dram" in known and any(finding.rule == RULE for finding in kernel.findings):
            assert known["dram"] < known["l2"]


def test_enough_recorded_launches_have_both_figures() -> None:
    assert sum(len(with_both(session_of(path))) for path in RECORDED) >= 30


def test_a_saved_l2_that_is_busier_than_all_memory_is_missing() -> None:
    session = gpuprof.load(TRANSFORMER)
    graphs = H100 / "graphs" / "run" / "session.json"
    assert gpuprof.load(graphs, groups=True) == grouped(gpuprof.load(graphs))
    assert all(known["l2"] <= known["memory"] for known in with_both(session))
    lacking = [kernel for kernel in session.kernels if any(gap.what == "throughput.l2" for gap in kernel.missing)]
    assert len(lacking) == 70
    for kernel in lacking:
        assert "l2" not in units(kernel)
        assert not any(finding.rule == RULE for finding in kernel.findings)


def test_parts_of_l2_in_a_recorded_report() -> None:
    """By `ncu --import full.ncu-rep --page raw`: the largest part of L2 is 44.7 % of saxpy, 86.3 % of the transpose."""
    *_, saxpy, transpose = session_of(H100 / "run-launches" / "full.ncu-rep").kernels
    assert units(saxpy)["l2"] == pytest.approx(0.4475, abs=5e-4)
    assert units(transpose)["l2"] == pytest.approx(0.863, abs=5e-4)
    (finding,) = (finding for finding in transpose.findings if finding.rule == RULE)
    assert finding.evidence[0].metric == FROM_SMS
    assert "B/s" not in finding.headline


@each_row(
    ("parts", "metric", "has_bytes"),
    [
        ({}, "lts__t_sectors.avg.pct_of_peak_sustained_elapsed", True),
        ({TO_SMS: 80.0}, TO_SMS, True),
        ({TAGS: 80.0}, TAGS, False),
        ({FROM_SMS: 80.0}, FROM_SMS, False),
        ({ATOMICS: 80.0}, ATOMICS, False),
    ],
)
def test_the_part_that_limits_is_named_and_has_bytes_only_if_it_carries_them(
    parts: dict[str, float], metric: str, *, has_bytes: bool
) -> None:
    (finding,) = made(busy(dram=20, l2=70), parts, BYTES).findings(RULE)
    assert finding.evidence[0].metric == metric
    assert ("3.20 TB/s" in finding.headline) == has_bytes


@each_row(
    ("launch", "is_named"),
    [
        (made(busy(dram=60, l2=40), {FABRIC: 85.0}), True),
        (made({FABRIC: 85.0}), True),
        (made(busy(dram=60, l2=40), {FABRIC: 79.0}), False),
        (made(busy(dram=82, l2=40), {FABRIC: 85.0}), False),
        (made(busy(dram=60, l2=84), {FABRIC: 85.0}), False),
        (made(busy(dram=60, l2=40, sm=97), {FABRIC: 85.0}), False),
    ],
)
def test_the_fabric_is_a_limit_where_it_is_well_used_and_nothing_else_is(launch: Made, *, is_named: bool) -> None:
    named = [finding for finding in launch.findings(RULE) if finding.evidence[0].metric == FABRIC]
    assert bool(named) == is_named


@each_row(
    ("memory", "dram", "l1", "own", "expected"),
    [
        (0.55, 0.55, 0.20, 0.70, (0.55, "at-most")),
        (0.55, 0.30, 0.20, 0.70, (0.55, None)),
        (0.55, 0.30, 0.54, 0.70, (0.55, "at-most")),
        (0.85, 0.01, 0.20, 0.07, (0.07, "at-most")),
        (0.85, 0.01, None, 0.85, (0.85, "at-most")),
    ],
)
def test_a_figure_that_counts_the_fabric_bounds_l2(
    memory: float, dram: float, l1: float | None, own: float, expected: tuple[float, str | None]
) -> None:
    others = (Throughput("l1", l1),) if l1 is not None else ()
    given = (Throughput("memory", memory), Throughput("dram", dram), Throughput("l2", own, bound="at-most"), *others)
    (l2,) = (unit for unit in with_l2_bounded(given) if unit.unit == "l2")
    assert (l2.fraction, l2.bound) == expected


def test_only_where_l2_is_divided_its_own_figure_is_a_bound() -> None:
    launch = made(busy(memory=80, dram=80), {WHOLE: 70.0})
    on_a40 = Made(launch.values, device=RecordedDevice(name="NVIDIA A40", compute_capability="8.6", sm_count=84))
    for one, bound in ((launch, "at-most"), (on_a40, None)):
        (l2,) = (unit for unit in one.profile().throughput if unit.unit == "l2")
        assert (l2.fraction, l2.bound) == (0.7, bound)


def test_a_level_that_nothing_accessed_has_no_hit_rate() -> None:
    empty, _, saxpy, transpose = session_of(H100 / "run-launches" / "full.ncu-rep").kernels
    assert {moved.level: moved.hit_rate for moved in empty.traffic if not moved.bytes} == {"l1": None, "l2": None}
    for kernel in (saxpy, transpose):
        assert all(moved.hit_rate is not None for moved in kernel.traffic if moved.level != "dram")


@each_row(
    ("number", "packets"),
    [
        # A warp of saxpy loads two lines and fills four sectors: 2 + 4 packets for each of 524,288.
        (2, 6 * 524_288),
        # A warp of the transpose loads one line and fills a part of each of 32 sectors: 1 + 2 × 32.
        (3, 65 * 524_288),
    ],
)
def test_packets_to_l2_are_load_requests_and_sectors_of_stores(number: int, packets: int) -> None:
    metrics = list(report_of(H100 / "run-launches" / "full.ncu-rep"))[number].metrics
    slices, share = 80, metrics.number(FROM_SMS)
    cycles = metrics.number("lts__cycles_elapsed.avg")
    assert share is not None and cycles is not None
    assert slices * cycles * share / 100 == pytest.approx(packets, rel=0.01)


def test_an_undivided_l2_is_as_busy_as_nvidia_says() -> None:
    """By `ncu --page raw`: 35.06 % on an A40, as memory's accesses, and 31.13 % the busiest part that has a metric."""
    path = next(path for path in RECORDED if path.name.startswith("a40-beamformer"))
    (l2,) = (unit for unit in session_of(path).kernels[0].throughput if unit.unit == "l2")
    assert l2.fraction == pytest.approx(0.3506, abs=5e-5)
    assert l2.definition is None


@each_row(("own", "is_named"), [(70.0, True), (80.0, False)])
def test_a_part_is_named_only_if_it_is_as_busy_as_l2(own: float, *, is_named: bool) -> None:
    a40 = RecordedDevice(name="NVIDIA A40", compute_capability="8.6", sm_count=84)
    (finding,) = Made({**busy(dram=20, l2=20), TAGS: 70.0, WHOLE: own}, device=a40).findings(RULE)
    assert finding.evidence[0].metric == WHOLE and finding.evidence[0].value == own
    assert ("tag lookups" in finding.headline) == is_named
