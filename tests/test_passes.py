"""In how many passes ncu collects a counter set: as CUPTI's own scheduler says for every chip, and as seen on a GPU."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.passes import CHIPS, arch_of, counters_of, find_cupti, main
from gpuprof.collect.cost import SCHEDULED
from gpuprof.collect.metrics import metrics_of, opcodes_give_tensor_work, question_metrics
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES
from tests.table import each_row

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "data" / "gpu" / "nvidia-h100-80gb-hbm3" / "passes"
NOT_ON_BLACKWELL = {
    "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum",
    "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum",
    "lts__t_sectors_srcunit_tex_aperture_sysmem_op_write.sum",
}
"""ncu 2025.3 passes over a name with a suffix that it does not know, without a word."""
UNKNOWN = {
    "sm_100": {
        *NOT_ON_BLACKWELL,
        "sm__ops_path_tensor_op_utcqmma_src_fp8_dst_fp16.sum",
        "sm__ops_path_tensor_op_utcqmma_src_fp8_dst_fp32.sum",
    },
    "sm_103": NOT_ON_BLACKWELL,
    "sm_120": NOT_ON_BLACKWELL,
}


SERVER = """
import json, sys
from benchmarks.passes import Scheduler, find_cupti
scheduler = Scheduler(find_cupti())
for line in sys.stdin:
    what, chip, metrics = json.loads(line)
    print(json.dumps(getattr(scheduler, what)(chip, metrics)), flush=True)
"""


class Asked:
    """CUPTI's scheduler in a process of its own: the report reader brings another libnvperf_host of the same name."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def passes(self, chip: str, metrics: Sequence[str]) -> int | None:
        found = self._asked("passes", chip, metrics)
        assert found is None or isinstance(found, int)
        return found

    def unknown(self, chip: str, metrics: Sequence[str]) -> set[str]:
        found = self._asked("unknown", chip, metrics)
        assert isinstance(found, list)
        return set(found)

    def _asked(self, what: str, chip: str, metrics: Sequence[str]) -> object:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, chip, list(metrics)]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Asked]:
    """CUPTI's host library; it needs no GPU."""
    if find_cupti() is None:
        pytest.skip("there is no CUPTI here: pip install nvidia-cuda-cupti-cu12")
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Asked(process)


def known_on(arch: str, name: str) -> list[str]:
    return [metric for metric in counters_of(arch_of(arch), name) if metric not in UNKNOWN.get(arch, ())]


@pytest.mark.slow
@each_row("arch", CHIPS)
def test_the_table_of_passes_is_what_the_scheduler_says(scheduler: Asked, arch: str) -> None:
    for name, said in SCHEDULED[arch]._asdict().items():
        assert scheduler.passes(CHIPS[arch], known_on(arch, name.replace("_", "-"))) == (said or 1)
        unknown = sorted(UNKNOWN.get(arch, set()) & set(counters_of(arch_of(arch), name)))
        assert scheduler.unknown(CHIPS[arch], unknown) == set(unknown)


def test_an_h100_takes_two_passes_for_limits_and_nine_for_all_counters_of_the_default(scheduler: Asked) -> None:
    assert scheduler.passes("GH100", known_on("sm_90", "limits")) == 2
    assert scheduler.passes("GH100", known_on("sm_90", "all")) == 9


def test_an_h100_took_as_many_passes_as_the_scheduler_says_and_few_more(scheduler: Asked) -> None:
    """What was recorded asked for seven counters of tensor work, each of which takes a pass."""
    for name, told, beside in (("roofline", 18, 2), ("diagnose", 27, 3)):
        asked = re.search(r" --metrics (\S+)", (RECORDED / f"{name}.sh").read_text())
        assert asked is not None
        counters = [metric for metric in asked[1].split(",") if not metric.startswith(("launch__", "sass__", "group:"))]
        counters = [metric for metric in counters if "pcsamp" not in metric and "maximum_warps" not in metric]
        log = (RECORDED / name / "profile.log").read_text()
        assert set(re.findall(r"(\d+) passes", log)) == {str(told)}
        assert scheduler.passes("GH100", counters) == told - beside


def test_opcodes_give_tensor_work_in_one_pass_where_single_warps_do_it() -> None:
    """What Hopper's groups of warps do may be counted once or four times, and tcgen05 has no shapes: counters tell."""
    for name in CHIPS:
        arch = arch_of(name)
        assert {WARP_OPCODES, THREAD_OPCODES} <= {*question_metrics(arch, ["work"])}
        tensor = {metric for metric in metrics_of(arch, "roofline") if "ops_path_tensor" in metric}
        assert bool(tensor) is (name in ("sm_90", "sm_100", "sm_103")) is not opcodes_give_tensor_work(arch)
        assert not [metric for metric in tensor if "fp64" in metric or "int1" in metric]


@each_row("arch", ["sm_90", "sm_120"])
def test_the_clock_of_the_gpcs_takes_no_pass(scheduler: Asked, arch: str) -> None:
    clock, known = "gpc__cycles_elapsed.avg.per_second", known_on(arch, "limits")
    others = [metric for metric in known if metric != clock]
    assert len(others) == len(known) - 1
    assert scheduler.passes(CHIPS[arch], known) == scheduler.passes(CHIPS[arch], others)


COSTS = """
from benchmarks import passes
passes.counters_of = lambda *_: ["sm__throughput.avg.pct_of_peak_sustained_elapsed", "dram__bytes_read.sum"]
passes.main(["--cost", "limits", "--arch", "sm_90"])
"""


@pytest.mark.slow
def test_costs_are_told_by_metric(scheduler: Asked) -> None:
    done = subprocess.run([sys.executable, "-c", COSTS], cwd=ROOT, capture_output=True, text=True, check=True)
    first, row = done.stdout.splitlines()
    assert re.match(r"\d+ passes for 2 metrics", first)
    assert re.fullmatch(r"  -7   8 alone  sm__throughput.avg.pct_of_peak_sustained_elapsed", row)


def test_without_a_library_the_hint_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.passes.find_cupti", lambda: None)
    assert main([]) != 0
    assert "nvidia-cuda-cupti" in capsys.readouterr().err
