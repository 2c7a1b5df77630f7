"""In how many passes ncu collects a counter set: as CUPTI's own scheduler says for every chip, and as seen on a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.passes import CHIPS, Scheduler, arch_of, counters_of, find_cupti, main
from gpuprof.collect.metrics import forecast_passes, metrics_of
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES

RECORDED = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3" / "passes"
BESIDE = 3
"""Passes of opcodes, samples and ncu itself, which CUPTI does not schedule."""
NOT_ON_BLACKWELL = {
    "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum",
    "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum",
    "lts__t_sectors_srcunit_tex_aperture_sysmem_op_write.sum",
}
"""ncu 2025.3 passes over a name with a suffix that it does not know, without a word."""
UNKNOWN = {
    "sm_100": NOT_ON_BLACKWELL,
    "sm_103": NOT_ON_BLACKWELL,
    "sm_120": {*NOT_ON_BLACKWELL, "dram__sectors_write.sum"},
}


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    """CUPTI's host library; it needs no GPU."""
    library = find_cupti()
    if library is None:
        pytest.skip("there is no CUPTI here: pip install nvidia-cuda-cupti-cu12")
    return Scheduler(library)


@pytest.mark.parametrize("name", ["roofline", "diagnose"])
@pytest.mark.parametrize("arch", CHIPS)
def test_the_forecast_is_what_the_scheduler_says(scheduler: Scheduler, arch: str, name: str) -> None:
    metrics = counters_of(arch_of(arch), name)
    unknown = set(scheduler.unknown(CHIPS[arch], metrics))
    assert unknown == UNKNOWN.get(arch, set()) & set(metrics)
    passes = scheduler.passes(CHIPS[arch], [metric for metric in metrics if metric not in unknown])
    low, high = forecast_passes(arch_of(arch), name)
    assert passes is not None and low <= passes + BESIDE <= high


def test_an_h100_took_as_many_passes_as_the_scheduler_says_and_few_more(scheduler: Scheduler) -> None:
    """What was recorded asked for seven counters of tensor work, each of which takes a pass."""
    for name, told, beside in (("roofline", 18, 2), ("diagnose", 27, 3)):
        asked = re.search(r" --metrics (\S+)", (RECORDED / f"{name}.sh").read_text())
        assert asked is not None
        counters = [metric for metric in asked[1].split(",") if not metric.startswith(("launch__", "sass__", "group:"))]
        counters = [metric for metric in counters if "pcsamp" not in metric and "maximum_warps" not in metric]
        log = (RECORDED / name / "profile.log").read_text()
        assert set(re.findall(r"(\d+) passes", log)) == {str(told)}
        assert scheduler.passes("GH100", counters) == told - beside


def test_one_pass_of_opcodes_tells_tensor_work_where_their_shapes_do() -> None:
    for arch in CHIPS:
        for name in ("roofline", "diagnose"):
            metrics = metrics_of(arch_of(arch), name)
            assert WARP_OPCODES in metrics
            assert not [metric for metric in metrics if "ops_path_tensor" in metric]
        assert THREAD_OPCODES in metrics_of(arch_of(arch), "diagnose")


@pytest.mark.parametrize("name", ["roofline", "diagnose"])
@pytest.mark.parametrize("arch", CHIPS)
def test_the_clock_of_the_gpcs_takes_no_pass(scheduler: Scheduler, arch: str, name: str) -> None:
    clock, metrics = "gpc__cycles_elapsed.avg.per_second", counters_of(arch_of(arch), name)
    unknown = set(scheduler.unknown(CHIPS[arch], metrics))
    known = [metric for metric in metrics if metric not in unknown]
    assert clock in known
    others = [metric for metric in known if metric != clock]
    assert scheduler.passes(CHIPS[arch], known) == scheduler.passes(CHIPS[arch], others)


def test_costs_are_told_by_metric(scheduler: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cost", "roofline", "--arch", "sm_90"]) == 0
    first, *rows = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+ passes for 31 metrics; without each, and for each alone", first)
    assert any(row.startswith("  -3   8 alone  sm__throughput.avg.pct_of_peak") for row in rows)


def test_another_library_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.passes.find_cupti", lambda: None)
    assert main([]) != 0
    assert "hint: pip install nvidia-cuda-cupti" in capsys.readouterr().err
