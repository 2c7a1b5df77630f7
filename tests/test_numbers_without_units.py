"""Numbers that were printed without a unit: left out where ncu scales them, and a duration that the cycles give."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import pytest

from gpuprof.model.analyse import analyse
from gpuprof.model.quantities import EXPORT_REPORT
from gpuprof.model.recorded import Launch, Report
from gpuprof.read.ncu_csv import read_ncu_csv
from gpuprof.read.ncu_text import read_ncu_text
from tests import builders
from tests.table import each_row

DURATION, CYCLES = "gpu__time_duration.sum", "gpc__cycles_elapsed.max"
SECTION = "GPU Speed Of Light Throughput"
FIXED = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "41.2", "smsp__inst_executed.sum": "512",
    "lts__t_sectors.sum": "4096", "launch__registers_per_thread": "32", "launch__grid_size": "16",
    "launch__func_cache_config": "CachePreferNone", "sm__inst_executed.avg.per_cycle_active": "1.5",
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": "2.5", "device__attribute_total_memory": "4096",
}  # fmt: skip
SCALED = {
    "dram__bytes.sum": "8.388608", "dram__bytes.sum.per_second": "2.24", "launch__shared_mem_config_size": "32.77",
    "gpc__cycles_elapsed.avg.per_second": "2.21", "lts__t_sectors.sum.per_second": "1.25", "gpu__time_active.avg": "3",
    "dram__bytes.sum.peak_sustained": "1.28", "made__up.sum": "7",
    "derived__memory_l1_wavefronts_shared_excessive": "2",
}  # fmt: skip


def read(text: str) -> Report:
    return read_ncu_csv(text, "page.csv", "00")


def raw_page(cells: Mapping[str, str], *rows: str) -> str:
    header = ",".join(f'"{name}"' for name in ("ID", "Process ID", "Kernel Name", "CC", *cells))
    values = ",".join(f'"{cell}"' for cell in ("0", "41", "scale", "8.9", *cells.values()))
    return "\n".join([header, *rows, values, ""])


def only(text: str) -> Launch:
    (launch,) = read(text).launches
    return launch


@each_row("rows", [(), ('"","","","",' + ",".join(['""'] * 30),)])
def test_only_numbers_whose_unit_the_name_fixes_are_read_from_a_raw_page_without_units(rows: tuple[str, ...]) -> None:
    cells = FIXED | SCALED
    blank = tuple(",".join(['""'] * (4 + len(cells))) for _ in rows)
    report = read(raw_page(cells, *blank))
    names = set(report.launches[0].metrics.names())
    assert names - {"made__up.sum"} == set(FIXED)
    assert any("no unit" in warning and "such as" in warning for warning in report.warnings)
    assert all(report.launches[0].metrics.is_strange(name) for name in SCALED.keys() - {"made__up.sum"})


@each_row(
    ("duration", "cycles", "seconds"),
    [
        ("3.744", "8277", 3.744e-6), ("3744", "8277", 3.744e-6), ("3,744", "8,277", 3.744e-6),
        ("1.168078", "1577088000", 1.168078), ("17.6", "17174474", 17.6e-3), ("0.5", "60000000000", None),
        ("0", "8277", None), ("3.744", "0", None), ("3.744", "n/a", None), ("-3.744", "8277", None),
    ],
)  # fmt: skip
def test_a_duration_has_the_only_unit_in_which_its_cycles_make_a_clock(
    duration: str, cycles: str, seconds: float | None
) -> None:
    report = read(raw_page({DURATION: duration, CYCLES: cycles}))
    assert report.launches[0].metrics.number(DURATION) == (pytest.approx(seconds) if seconds is not None else None)
    assert len(report.warnings) == 1


def test_cycles_that_contradict_each_other_give_no_duration() -> None:
    cells = {DURATION: "3.744", CYCLES: "8277", "sm__cycles_elapsed.max": "8277000"}
    assert only(raw_page(cells)).metrics.number(DURATION) is None


def test_each_duration_of_a_details_page_has_its_own_unit() -> None:
    rows = [
        ("ID", "Process ID", "Kernel Name", "Section Name", "Metric Name", "Metric Unit", "Metric Value"),
        ("0", "1", "a", SECTION, "Duration", "", "3.74"), ("0", "1", "a", SECTION, "Elapsed Cycles", "", "8,277"),
        ("1", "1", "b", SECTION, "Duration", "", "1.25"), ("1", "1", "b", SECTION, "Elapsed Cycles", "", "2,500,000"),
        ("1", "1", "b", SECTION, "Memory Throughput", "", "62.5"),
        ("1", "1", "b", "GPU Speed Of Light", "Memory Throughput", "", "6.25"),
        ("1", "1", "b", "Memory Workload Analysis", "Memory Throughput", "", "806.5"),
        ("1", "1", "b", "Launch Statistics", "Shared Memory Configuration Size", "", "32.77"),
        ("1", "1", "b", "Launch Statistics", "Waves Per SM", "", "1.5"),
    ]  # fmt: skip
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    dropped = io.StringIO()
    csv.writer(dropped).writerows([*row[:5], row[6]] for row in rows)
    for text in (out.getvalue(), dropped.getvalue()):
        first, second = read(text).launches
        assert first.metrics.number(DURATION) == pytest.approx(3.74e-6)
        assert second.metrics.number(DURATION) == pytest.approx(1.25e-3)
        assert set(second.metrics.names()) == {
            DURATION, CYCLES, "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
            "launch__waves_per_multiprocessor",
        }  # fmt: skip


def test_a_unit_that_one_metric_lacks_beside_others_leaves_out_that_metric_alone() -> None:
    cells = {DURATION: "3.744", CYCLES: "8277", "dram__bytes.sum": "8.5", "made__up.sum": "7"}
    units = '"","","","","usecond","cycle","",""'
    report = read(raw_page(cells, units))
    assert set(report.launches[0].metrics.names()) == {DURATION, CYCLES, "made__up.sum"}
    assert len(report.warnings) == 1 and "dram__bytes.sum" in report.warnings[0]


def test_a_text_page_whose_column_of_units_was_cut_out_has_no_times_and_bytes() -> None:
    text = """\
  scale(float *) (16, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.9
    Section: GPU Speed Of Light Throughput
    Duration                              3.74
    DRAM Throughput                      62.50
    Section: Memory Workload Analysis
    Memory Throughput                   806.50
"""
    (launch,) = read_ncu_text(text, "page.txt", "00").launches
    assert set(launch.metrics.names()) == {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"}


def test_what_is_missing_for_want_of_a_unit_names_the_export_that_has_it() -> None:
    report = read(raw_page({DURATION: "3.744", "dram__bytes.sum": "8.5"}))
    session = analyse([report], builders.hardware_of, "1").session
    missing = {gap.what: gap for gap in session.kernels[0].missing}
    for what, name in (("duration", DURATION), ("traffic.dram", "dram__bytes.sum")):
        assert missing[what].how == EXPORT_REPORT
        assert missing[what].why.startswith(name)
    assert session.kernels[0].duration_s is None
