"""No gain promises more of DRAM than a kernel can reach: as measured on a GPU of the kind, else as published."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import structs

from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ComputeKey
from gpuprof.model.ceilings import Hardware, Limit
from tests import builders
from tests.readings import session_of
from tests.table import each_row

H100 = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"


class Measured:
    """What `characterize` measured: DRAM alone."""

    def __init__(self, bytes_per_s: float) -> None:
        self.dram = Limit(bytes_per_s, None, "measured")

    def bandwidth(self, level: str) -> Limit | None:
        return self.dram if level == "dram" else None

    def compute(self, path: str, split: Mapping[ComputeKey, float] | None = None) -> Limit | None:
        return None


def test_the_gain_of_a_full_dram_is_what_is_left_to_what_reads_reach() -> None:
    """78.1 % of the peak is 0.781 ÷ 0.95 = 82.2 % of what an H100 reaches."""
    *_, saxpy, _ = session_of(H100 / "run-launches" / "full.ncu-rep").kernels
    (dram,) = (unit.fraction for unit in saxpy.throughput if unit.unit == "dram")
    (finding,) = (finding for finding in saxpy.findings if finding.rule == "dram-bandwidth")
    assert dram == pytest.approx(0.781, abs=5e-4)
    assert finding.gain_kernel == pytest.approx(1 - dram / 0.95)


@each_row(
    ("measured", "peak", "reached"),
    [
        (None, Limit(1e12, None, "peak"), 0.96),
        (Measured(0.9e12), Limit(1e12, None, "peak"), 0.9),
        (Measured(0.9e12), None, 0.96),
        (Measured(1.1e12), Limit(1e12, None, "peak"), 0.96),
    ],
)
def test_what_was_measured_counts_before_what_is_published(
    measured: Measured | None, peak: Limit | None, reached: float
) -> None:
    hardware: Hardware = structs.replace(builders.a100(), measured=measured)
    assert hardware.dram_reached(peak) == pytest.approx(reached)


def test_every_architecture_has_a_share_below_all_of_the_peak() -> None:
    library = SpecLibrary()
    shares = [arch.limits["dram_reached"] for path in library.arch_files() if (arch := library.arch(path.stem))]
    assert len(shares) >= 12
    assert all(85 <= share.value < 100 and share.kind == "measured" for share in shares)
