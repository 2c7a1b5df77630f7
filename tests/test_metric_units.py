"""Units of metrics by their names, against NVIDIA's reader: of real reports, and of every metric that ncu offers."""

from __future__ import annotations

import csv
import gzip
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.recordings.report_file import dim3
from gpuprof.read.metric_units import READ_TWO_WAYS, unit_of
from gpuprof.read.wire import message, number
from gpuprof.units import ncu_unit
from tests import ncu_bytes
from tests.conftest import SHARED
from tests.cuda_tools import ALL_VARIANTS
from tests.table import each_row

CHIPS = {"gv100": 320, "tu102": 354, "ga100": 368, "ga102": 370, "ga10b": 379, "gh100": 384, "ad102": 402}
"""The attribute `implementation` of each chip, by which NVIDIA's reader knows its metrics."""
USUAL_CHIPS = ("tu102", "gh100")
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
UNKNOWN = (r"regex:all\.(sum|min|max|avg|pct|ratio|max_rate)$", "derived_tempMetric")
"""How names start that are none."""


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
    path = SHARED / "ncu-metrics" / f"{chip}.csv.gz"
    if not path.is_file():
        pytest.skip("no lists of metrics lie beside the checkout (../shared/ncu-metrics)")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return [(row[0], row[1]) for row in csv.reader(file) if row and row[0] != "Metric name"]


def _suffixes(kind: str) -> tuple[str, ...]:
    if kind == "Ratio":
        return (".ratio", ".pct", ".max_rate")
    return COUNTER_SUFFIXES if kind == "Counter" else (".avg.pct_of_peak_sustained_elapsed",)


def test_units_of_real_reports_are_those_of_nvidia_s_reader(real_report: Path) -> None:
    import ncu_report

    context = ncu_report.load_report(str(real_report))
    compared = 0
    for index in range(context.num_ranges()):
        actions = context.range_by_idx(index)
        for at in range(actions.num_actions()):
            action = actions.action_by_idx(at)
            for name in action.metric_names():
                theirs, ours = action.metric_by_name(name).unit(), unit_of(name)
                compared += 1
                if name.startswith(UNKNOWN):
                    assert ours is None
                elif theirs != ours:
                    assert (name, theirs) in READ_TWO_WAYS.items()
    assert compared > 100


@each_row("chip", CHIPS)
def test_units_of_what_ncu_offers_are_those_of_nvidia_s_reader(chip: str) -> None:
    if chip not in USUAL_CHIPS and not ALL_VARIANTS:
        return  # tried with GPUPROF_ALL_VARIANTS=1
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


def test_for_a_chip_that_it_does_not_know_nvidia_s_reader_guesses_and_gpuprof_does_not() -> None:
    name = "dram__bytes.sum.per_second"
    assert read_by_nvidia([name], CHIPS["gh100"]) == {name: "byte/s"}
    assert read_by_nvidia([name], 379) == {name: "byte"}
    assert unit_of(name) == "byte/s"


@each_row(
    ("name", "unit"),
    [
        ("gpu__time_duration.sum", "ns"),
        ("profiler__pmsampler_interval_time", "ns"),
        ("sm__cycles_elapsed.avg.per_second", "hz"),
        ("sm__cycles_active.avg.per_cycle_elapsed", ""),
        ("sm__warps_active.avg.per_cycle_active", "warp"),
        ("sm__warps_launched.sum.per_cycle_elapsed", "warp/cycle"),
        ("l1tex__data_bank_conflicts_pipe_lsu.sum.per_second", "1/s"),
        ("pmsampling:sm__ctas_launched.sum", "block"),
        ("device__attribute_clock_rate", ""),
        ("foo__bars.sum", None),
        ("foo__bars.sum.pct_of_peak_sustained_elapsed", "%"),
        ("foo__bars.ratio", None),
        ("foo__bytes.median", None),
        ("", None),
    ],
)
def test_examples(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


def test_only_time_is_recorded_in_a_scaled_unit() -> None:
    bases = {base for chip in USUAL_CHIPS for base, kind in _offered(chip) if kind == "Counter"}
    scaled = {base for base in bases if ncu_unit(unit_of(f"{base}.sum") or "")[0] != 1}
    assert scaled and all(base.startswith("gpu__time_") for base in scaled)


@given(st.text())
def test_any_name_has_a_unit_or_none(name: str) -> None:
    unit = unit_of(name)
    assert unit is None or len(unit) < 20


def test_a_name_of_any_length_takes_no_time() -> None:
    assert unit_of("l1tex__average_warps_issue_stalled_" * 1_000_000 + ".ratio") is None
