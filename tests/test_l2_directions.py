"""L2 takes fewer bytes than it gives: peaks by direction, ceilings of kernels that write, and limits of probes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuprof.characterize.judge.limits import Bound, probe_limit
from gpuprof.characterize.judge.verdict import limit_check
from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.model.ceilings import Limit, bandwidth_at_clock
from gpuprof.model.quantities import Clocks
from gpuprof.model.session import KernelProfile
from gpuprof.recordings import recordings
from tests import builders
from tests.readings import report_of, session_of, unpacked
from tests.table import each_row

H100 = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"
OWN = ("run-launches/full.ncu-rep", "passes/full/profile.ncu-rep")
RECORDINGS = {recording.name: recording for recording in recordings()}
PROBES = {probe.id: probe for probe in load_probes(probe_folder())}
SECTORS = "lts__t_sectors_srcunit_tex"
READ, WRITTEN = "l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_l1tex2xbar_write_bytes.sum"


# Peaks.


def place(name: str) -> Path:
    return H100 / name if name in OWN else unpacked(RECORDINGS[name])


@each_row(("name", "product"), [
    *((name, "h100-sxm") for name in OWN), ("a100-gemm", "a100-80gb-pcie"), ("a40-beamformer", "a40"),
])  # fmt: skip
def test_slices_of_the_spec_are_as_wide_as_reports_say(name: str, product: str) -> None:
    metrics, bandwidth = report_of(place(name)).launches[0].metrics, builders.product(product).arch.bandwidth
    for direction, fact in (("read", "l2_slice"), ("write", "l2_slice_write")):
        assert bandwidth[fact].value == 32 * (metrics.number(f"{SECTORS}_op_{direction}.avg.peak_sustained") or 0)


def l2_limit(direction: str, product: str, target: str, clocks: Clocks) -> Bound:
    limit = PROBES[f"bandwidth/l2-{direction}"].limit(target, {})
    assert limit is not None
    found = probe_limit(limit, builders.product(product), clocks, "B/s")
    assert isinstance(found, Bound)
    return found


@each_row(("product", "target", "clocks", "read", "write", "certain"), [
    # 80 slices × 64 or 32 B × 1.709 GHz; 96 slices on a GH200.
    ("h100-sxm", "sm_90a", Clocks(sm_hz=1.98e9), 8.75e12, 4.375e12, True),
    ("gh200-96gb", "sm_90a", Clocks(sm_hz=1.98e9), 10.5e12, 5.25e12, True),
    ("h200-sxm", "sm_90a", Clocks(sm_hz=1.98e9), 10.5e12, 5.25e12, False),
    # L2's clock goes with the SMs' on an A100: 80 × 64 B × 1.41 GHz at most.
    ("a100-80gb-sxm", "sm_80", Clocks(sm_hz=1.41e9), 7.219e12, 3.610e12, False),
    # 64 slices × 32 B in either direction × 1.3 GHz.
    ("v100-sxm2-32gb", "sm_70", Clocks(sm_hz=1.53e9, own_l2_hz=1.3e9), 2.662e12, 2.662e12, True),
    # Without a count of slices, ports: 56 SMs × 64 or 32 B × 1.44 GHz.
    ("a30", "sm_80", Clocks(sm_hz=1.44e9), 5.161e12, 2.580e12, True),
])  # fmt: skip
def test_limits_of_l2_by_direction(
    product: str, target: str, clocks: Clocks, read: float, write: float, certain: bool
) -> None:
    for direction, expected in (("read", read), ("write", write)):
        limit = l2_limit(direction, product, target, clocks)
        assert limit.value == pytest.approx(expected, rel=1e-3)
        assert limit.confirmed == certain
        assert limit_check(0.9 * expected, "B/s", limit).state == "passed"
        assert limit_check(1.05 * expected, "B/s", limit).state == ("failed" if certain else "missing")


def test_published_writes_of_an_h100_are_possible() -> None:
    # mt4g, H100 80GB HBM3: 3.75 TB/s.
    check = limit_check(3.75e12, "B/s", l2_limit("write", "h100-sxm", "sm_90a", Clocks(sm_hz=1.98e9)))
    assert check.state == "passed" and check.number == pytest.approx(0.857, rel=1e-3)


# Ceilings of kernels.


@each_row(("product", "metrics", "terabytes"), [
    # Reads take two sectors a cycle and both directions together no more: 80 × 64 B × 1.709 GHz.
    ("h100-sxm", {READ: 3e6, WRITTEN: 0.0}, 8.75), ("h100-sxm", {READ: 2e6, WRITTEN: 1e6}, 8.75),
    ("h100-sxm", {READ: 1e6, WRITTEN: 1e6}, 8.75),
    # 3 MB of which 2 are written take as long as these 2 at 4.375 TB/s; writes alone have that.
    ("h100-sxm", {READ: 1e6, WRITTEN: 2e6}, 6.5625), ("h100-sxm", {READ: 0.0, WRITTEN: 1e6}, 4.375),
    # The same in sectors; what is neither read nor written are atomics.
    ("h100-sxm", {f"{SECTORS}.sum": 3e4, f"{SECTORS}_op_read.sum": 1e4}, 6.5625),
    # Ports also carry what SMs send each other.
    ("h100-sxm", {READ: 0.0, WRITTEN: 1e6, f"{SECTORS}.sum": 3e4, f"{SECTORS}_op_read.sum": 3e4}, 8.75),
    # One direction tells of no mix.
    ("h100-sxm", {WRITTEN: 1e6}, 8.75), ("h100-sxm", {READ: 0.0, WRITTEN: 0.0}, 8.75), ("h100-sxm", {}, 8.75),
    # Slices of a V100 take as much as they give: 64 × 32 B × 1.709 GHz.
    ("v100-sxm2-32gb", {READ: 0.0, WRITTEN: 1e6}, 3.5),
])  # fmt: skip
def test_ceiling_is_that_of_the_mix_of_directions(product: str, metrics: Mapping[str, float], terabytes: float) -> None:
    limit = l2_ceiling(product, metrics, Clocks(sm_hz=1.98e9, own_l2_hz=1.709e9))
    assert limit.value == pytest.approx(terabytes * 1e12, rel=1e-4)
    reads = limit.of_reads or limit
    assert reads.value == pytest.approx(3.5e12 if product.startswith("v100") else 8.75e12, rel=1e-4)


def l2_ceiling(product: str, metrics: Mapping[str, float], clocks: Clocks) -> Limit:
    limit = bandwidth_at_clock("l2", builders.metrics(metrics), builders.product(product), clocks)
    assert limit is not None
    return limit


def test_l2_has_the_clock_of_the_spec_where_none_was_recorded() -> None:
    clocks = Clocks(sm_hz=1.5e9)
    assert l2_ceiling("h100-sxm", {}, clocks).value == pytest.approx(5120 * 1.709e9)
    assert l2_ceiling("a100-80gb-sxm", {}, clocks).value == pytest.approx(5120 * 1.5e9)


@each_row("name", [*OWN, "a100-gemm", "a40-beamformer"])
def test_recorded_launches_use_as_much_of_l2_as_ncu_says(name: str) -> None:
    """ncu has a percentage for both directions and one for each; the largest is what L2 cannot exceed.

    On an A40 L2's clock was not recorded, and the SMs' in its place is 4 to 6 % higher.
    """
    seen, path = 0, place(name)
    for kernel, launch in zip(session_of(path).kernels, report_of(path).launches, strict=True):
        percent = "{}.avg.pct_of_peak_sustained_elapsed".format
        shares = [launch.metrics.number(percent(SECTORS + part)) for part in ("", "_op_read", "_op_write")]
        largest, used = max(share or 0.0 for share in shares) / 100, used_of_l2(kernel)
        if used is None or not largest:
            continue
        seen += 1
        least = 0.94 if name.startswith("a40") else 0.999
        assert least < used / largest < 1.001, kernel.name
    assert seen


def used_of_l2(kernel: KernelProfile) -> float | None:
    """Return the traffic of L2 over the roof that a point has below the ridge."""
    point = next((point for point in kernel.roofline if point.level == "l2" and point.bound == "memory"), None)
    moved = next((moved.bytes_per_s for moved in kernel.traffic if moved.level == "l2"), None)
    return moved * point.intensity / point.roof_flop_per_s if point is not None and moved else None


def test_ceilings_of_the_gpu_are_those_of_reads_whatever_its_longest_kernel_writes() -> None:
    session = session_of(place(OWN[0]))
    transpose = max(session.kernels, key=lambda kernel: kernel.time_total_s or 0.0)
    (ceiling,) = (ceiling for ceiling in session.ceilings if ceiling.id == "at-clock/l2")
    (roof,) = (
        point.roof_flop_per_s / point.intensity
        for point in transpose.roofline
        if (point.level, point.ceiling) == ("l2", "at-clock")
    )
    # 8 of 9 bytes are written: 4.3752 TB/s × 9/8.
    assert ceiling.value == pytest.approx(8.7503e12, rel=1e-4)
    assert roof == pytest.approx(4.9221e12, rel=1e-4)
