"""Units of metrics by their names, against NVIDIA's reader."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpuprof.read.metric_units import READ_TWO_WAYS, unit_of
from tests.table import each_row
from tests.test_real_reports import native_actions

UNKNOWN = (r"regex:all\.(sum|min|max|avg|pct|ratio|max_rate)$", "derived_tempMetric")
"""How names start that are none."""


def test_units_of_recorded_metrics_are_those_of_nvidia_s_reader(real_report: Path) -> None:
    units = {
        (name, action.metric_by_name(name).unit())
        for action in native_actions(real_report)
        for name in action.metric_names()
    }
    assert len(units) > 100
    different = {(name, unit) for name, unit in units if unit_of(name) != unit}
    unknown = {(name, unit) for name, unit in units if name.startswith(UNKNOWN)}
    assert different - unknown <= READ_TWO_WAYS.items()
    assert all(unit_of(name) is None for name, _ in unknown)


@each_row(
    ("name", "unit"),
    [
        ("gpu__time_duration.sum", "ns"), ("profiler__pmsampler_interval_time", "ns"),
        ("sm__cycles_elapsed.avg.per_second", "hz"), ("sm__cycles_active.avg.per_cycle_elapsed", ""),
        ("sm__warps_active.avg.per_cycle_active", "warp"), ("sm__warps_launched.sum.per_cycle_elapsed", "warp/cycle"),
        ("l1tex__data_bank_conflicts_pipe_lsu.sum.per_second", "1/s"), ("pmsampling:sm__ctas_launched.sum", "block"),
        ("device__attribute_clock_rate", ""), ("foo__bars.sum", None),
        ("foo__bars.sum.pct_of_peak_sustained_elapsed", "%"), ("foo__bars.ratio", None), ("foo__bytes.median", None),
        ("", None),
    ],
)  # fmt: skip
def test_examples(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


@given(st.text())
def test_any_name_has_a_unit_or_none(name: str) -> None:
    unit = unit_of(name)
    assert unit is None or len(unit) < 20
