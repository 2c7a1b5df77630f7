"""Machine code with its counters, against the source page of ncu 2024.1."""

from __future__ import annotations

from gpuprof.annotated.listing import listing_of
from gpuprof.api import load_recorded
from tests.field.folder import report

REAL: dict[str, dict[int, tuple[int, int | None, dict[int, tuple[int, int]]]]] = {
    "cutlass-384": {0: (2840, 2106, {0: (121, 384), 0x3610: (178, 2304)})},
    "gpu_workshop-MW_Baseline": {2: (136 + 88 + 728, None, {}), 4: (160, None, {})},
    "nukexc-profile": {0: (3568, None, {})},
}
"""By report and launch what ncu prints on its source page: instructions, samples, and samples and executions of
single ones; a device function is a table of its own there."""


def test_reports_list_what_ncu_prints() -> None:
    for name, launches in REAL.items():
        loaded = load_recorded(report(f"{name}.ncu-rep"))
        for number, (count, samples, single) in launches.items():
            listing = listing_of(loaded.session, loaded.session.kernel(number), loaded.recorded[number])
            assert len(listing.instructions) == count
            assert samples is None or listing.samples == samples
            offsets = {each.offset: (each.samples, each.executed) for each in listing.instructions}
            assert {offset: offsets[offset] for offset in single} == single
