"""Units of every metric that ncu offers for a chip, against NVIDIA's reader."""

from __future__ import annotations

import csv
import gzip
import struct
from collections.abc import Iterable
from typing import Any

import pytest

from benchmarks.recordings.report_file import dim3
from gpuprof.read.metric_units import unit_of
from gpuprof.read.wire import message, number
from tests import ncu_bytes
from tests.field.folder import folder

CHIPS = {"gv100": 320, "tu102": 354, "ga100": 368, "ga102": 370, "ga10b": 379, "gh100": 384, "ad102": 402}
"""The attribute `implementation` of each chip, by which NVIDIA's reader knows its metrics."""
COUNTER_SUFFIXES = (
    ".sum", ".avg.per_second", ".max.per_cycle_active", ".min.pct_of_peak_sustained_elapsed", ".sum.peak_sustained",
    ".sum.peak_sustained_elapsed", ".avg.peak_sustained_active.per_second",
)  # fmt: skip
NOT_OF_THE_CHIP = {
    "ga100": ("sm__pipe_tensor_op_dmma_cycles_active", "smsp__pipe_tensor_op_dmma_cycles_active"),
    "gh100": ("ctc__rx__cycles_active", "ctc__tx__cycles_active", "FE_A.TriageCompute.gr__cycles_active"),
    "gv100": ("sm__sass_", "smsp__sass_"),
}
"""Metrics that ncu 2024.1 offers and NVIDIA's newer reader does not know; it takes a word of the name for the unit."""
AT_ONCE = 1000
"""So many names a report: NVIDIA's reader looks for each among all."""


def read_by_nvidia(names: Iterable[str], chip: int) -> dict[str, str]:
    """Return the units that NVIDIA's reader gives these names in a report of that chip."""
    listed = ["device__attribute_implementation", *names]
    values = [number(5, chip), *(b"\x19" + struct.pack("<d", 1.0) for _ in listed[1:])]
    results = b"".join(message(13, number(1, index) + message(2, value)) for index, value in enumerate(values))
    launch = (
        b"".join(number(field, 1) for field in (1, 2, 3, 4)) + b"".join(message(field, b"k") for field in (5, 6, 7))
        + number(8, 3) + message(9, dim3((0, 0, 0))) + message(10, dim3((1, 1, 1))) + message(11, dim3((32, 1, 1)))
        + results + message(15, b"")
    )  # fmt: skip
    details = ncu_bytes.session_details("ncu", {"Nsight Compute Target": "2024.1.1.0 (build 1)"})
    data = ncu_bytes.report(ncu_bytes.block([], session=details), ncu_bytes.block([launch], listed, process=7))
    return {name: str(metric.unit()) for name, metric in _metrics(data) if metric is not None and name in listed[1:]}


def _metrics(data: bytes) -> list[tuple[str, Any]]:
    import ncu_report

    from gpuprof.code.tools.named_bytes import NamedBytes

    file = NamedBytes(data, "r.ncu-rep")
    action = ncu_report.load_report(file.path).range_by_idx(0).action_by_idx(0)
    return [(name, action.metric_by_name(name)) for name in action.metric_names()]


def _offered(chip: str) -> list[tuple[str, str]]:
    """Return the base names that ncu lists for a chip, with their types."""
    path = folder().parent / "ncu-metrics" / f"{chip}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return [(row[0], row[1]) for row in csv.reader(file) if row and row[0] != "Metric name"]


def _suffixes(kind: str) -> tuple[str, ...]:
    if kind == "Ratio":
        return (".ratio", ".pct", ".max_rate")
    return COUNTER_SUFFIXES if kind == "Counter" else (".avg.pct_of_peak_sustained_elapsed",)


@pytest.mark.parametrize("chip", CHIPS)
def test_units_of_what_ncu_offers_are_those_of_nvidia_s_reader(chip: str) -> None:
    names = [base + suffix for base, kind in _offered(chip) for suffix in _suffixes(kind)]
    other = NOT_OF_THE_CHIP.get(chip, ())
    compared = [name for name in names if not name.startswith(other)]
    theirs: dict[str, str] = {}
    for at in range(0, len(compared), AT_ONCE):
        theirs |= read_by_nvidia(compared[at : at + AT_ONCE], CHIPS[chip])
    assert len(theirs) > 3000
    different = {name: (unit, ours) for name, unit in theirs.items() if (ours := unit_of(name)) != unit}
    assert {name: pair for name, pair in different.items() if pair != ("s", "ns")} == {}
    assert all(name.startswith("gpu__time_") for name in different)
