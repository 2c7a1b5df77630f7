"""Specs compared with reports of others: a different product is recognised, and the matching one named."""

from __future__ import annotations

from pathlib import Path

from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.session import Denominator
from tests.field.folder import report
from tests.readings import report_of
from tests.table import each_row


def disagreeing(path: Path, spec: str) -> dict[str, Denominator]:
    checks = analyse([report_of(path)], HardwareFinder(spec), "0").session.denominators
    return {check.fact: check for check in checks if check.disagreement is not None}


@each_row(("name", "spec", "fits"), [
    ("cutlass-384.ncu-rep", "a100-40gb-sxm", "a100-80gb-pcie"), ("sglang-profile.ncu-rep", "h100-sxm", "h800-sxm"),
    ("sglang-profile.ncu-rep", "h200-sxm", "h800-sxm"), ("nukexc-profile.ncu-rep", "h100-sxm", "gh200-96gb"),
    ("gpu_workshop-MW_Baseline.ncu-rep", "v100-pcie-32gb", "v100-sxm2-32gb"),
    ("cudacode-profile.ncu-rep", "rtx-2070", None),
    # A text export: 256 of 512 bits.
    ("csv/rtx5090-details.csv", "rtx-5080", "rtx-5090"),
])  # fmt: skip
def test_another_product_is_told_and_named(name: str, spec: str, fits: str | None) -> None:
    wrong = disagreeing(report(name), spec)
    assert wrong
    if fits is not None:
        assert any(check.disagreement == "product" and fits in str(check.reason) for check in wrong.values())
    if name.startswith("csv/"):
        assert not disagreeing(report(name), "rtx-5090")
