"""Specs on devices of reports of others, and the counters they name in ncu's lists of each chip's metrics."""

from __future__ import annotations

import csv
import gzip

from gpuprof.hardware.check import compare_device, match_reasons
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.recorded import Report
from gpuprof.read.files import read_file
from tests.field.folder import folder, report
from tests.table import each_row
from tests.test_specs import NOT_LISTED, PACKAGED, matched, packaged_archs


@each_row(
    ("file", "spec"),
    [
        ("cuda_learning_mojo-profile.ncu-rep", "gtx-1660-ti"),
        ("cudacode-profile.ncu-rep", "rtx-2080-ti"),
        ("cutlass-384.ncu-rep", "a100-80gb-pcie"),
        ("darknet-profile.nsight-cuprof-report", "jetson-agx-xavier"),
        ("esmm-research-profile-71fb9e5.ncu-rep", "a10g"),
        ("gpu_workshop-MW_Baseline.ncu-rep", "v100-sxm2-32gb"),
        ("hyper-spec-m-profile.ncu-rep", "rtx-2060-max-q"),
        ("indexspaces.jl-profile-3176628.ncu-rep", "a40"),
        ("nukexc-profile.ncu-rep", "gh200-96gb"),
        ("sglang-profile.ncu-rep", "h800-sxm"),
    ],
)
def test_devices_match_their_spec_and_agree_on_it(file: str, spec: str) -> None:
    read = read_file(str(report(file)), salvage=True)
    assert isinstance(read, Report)
    (device,) = read.devices
    gpu = matched(PACKAGED, device)
    assert gpu.name == spec and "name" in match_reasons(gpu, device)
    differing = {row.what for row in compare_device(gpu, device) if row.differs}
    # Board makers' cards are clocked higher than the reference; Xavier's report swaps its clocks.
    assert differing <= ({"boost clock"} if spec in {"gtx-1660-ti", "rtx-2080-ti", "jetson-agx-xavier"} else set())


@each_row("arch", [arch for arch in packaged_archs() if arch.ncu_chip], ids=lambda arch: arch.name)
def test_counters_and_stall_reasons_exist_on_the_chip(arch: ArchSpec) -> None:
    with gzip.open(folder().parent / "ncu-metrics" / f"{arch.ncu_chip}.csv.gz", "rt", encoding="utf-8") as file:
        known = {row["Metric name"] for row in csv.DictReader(file)}
    first = (links[0] for links in arch.counters.values() if links[0].how != "thread-opcodes")
    wanted = {name.partition(".")[0] for link in first for name, _ in link.terms}
    wanted |= {f"smsp__average_warps_issue_stalled_{reason}_per_issue_active" for reason in arch.stalls}
    assert sorted(name for name in wanted if not name.startswith(NOT_LISTED) and name not in known) == []
