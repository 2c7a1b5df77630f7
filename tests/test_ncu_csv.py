"""The CSV of ncu: hand-made pages with every trap, and real exports against the reports they came from."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.errors import GpuprofError, InputError
from gpuprof.model.recorded import Launch, Report
from gpuprof.read.details_labels import metric_name
from gpuprof.read.ncu_csv import read_ncu_csv
from gpuprof.read.printed_launch import short_name
from gpuprof.read.printed_numbers import MetricColumn, metric_of
from gpuprof.units import ncu_unit
from tests.table import each_row

PUSH_POP = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
START_STOP = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
OLD_LAUNCH = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "Context",
    "Stream",
)
LAUNCH = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC",
)  # fmt: skip
METRIC = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")
RULE = ("Rule Name", "Rule Type", "Rule Description")
SPEEDUP = ("Estimated Speedup Type", "Estimated Speedup")
NAME = "void ns::copy<float, (int)4>(float *, const float *)"


def shared_reports() -> Path:
    """Return the folder of real reports, or skip."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "reports"
    if not folder.is_dir():
        pytest.skip(f"no real reports: {folder} does not exist")
    return folder


def as_csv(*rows: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


def launch_cells(number: int = 0, name: str = NAME) -> tuple[str, ...]:
    return (
        str(number), "41", "app", "127.0.0.1", name, "1", "7", "(256, 1, 1)", "(16, 2, 1)", "0", "8.0",
    )  # fmt: skip


def old_cells(number: int = 0) -> tuple[str, ...]:
    return (str(number), "41", "app", "127.0.0.1", NAME, "2022-Dec-28 11:18:16", "1", "7")


def raw_page(columns: dict[str, tuple[str, Sequence[str]]]) -> str:
    """Build a raw page of metric columns: name → (unit, one value for each launch)."""
    count = len(next(iter(columns.values()))[1])
    units = ("",) * len(LAUNCH) + tuple(unit for unit, _ in columns.values())
    rows = [launch_cells(k) + tuple(values[k] for _, values in columns.values()) for k in range(count)]
    return as_csv(LAUNCH + tuple(columns), units, *rows)


def details_page(*rows: tuple[str, str, str, str]) -> str:
    return as_csv(LAUNCH + METRIC + RULE, *(launch_cells() + row + ("",) for row in rows))


def read(text: str) -> Report:
    return read_ncu_csv(text, "page.csv", "00")


def only(report: Report) -> Launch:
    (launch,) = report.launches
    return launch


def value(launch: Launch, name: str) -> float | str | None:
    metric = launch.metrics.get(name)
    return None if metric is None else metric.value


class TestRawPage:
    def test_values_come_in_base_units_with_the_digits_that_were_printed(self) -> None:
        report = read(
            raw_page(
                {
                    "dram__bytes.sum.per_second": ("Gbyte/second", ["1.234500"]),
                    "gpu__time_duration.sum": ("usecond", ["9.34"]),
                    "sm__cycles_elapsed.avg.per_second": ("cycle/nsecond", ["1.06"]),
                    "dram__bytes.sum.peak_sustained": ("Kbyte/cycle", ["1.28"]),
                    "launch__grid_size": ("", ["32"]),
                }
            )
        )
        metrics = only(report).metrics
        assert report.kind == "ncu-csv-raw"
        assert report.warnings == ()
        bandwidth = metrics.get("dram__bytes.sum.per_second")
        assert bandwidth is not None
        assert bandwidth.value == pytest.approx(1.2345e9)
        assert (bandwidth.unit, bandwidth.digits) == ("byte/s", 7)
        duration = metrics.get("gpu__time_duration.sum")
        assert duration is not None
        assert duration.value == pytest.approx(9.34e-6)
        assert (duration.unit, duration.digits) == ("s", 3)
        clock = metrics.get("sm__cycles_elapsed.avg.per_second")
        assert clock is not None
        assert clock.value == pytest.approx(1.06e9)
        assert clock.unit == "Hz"
        assert metrics.number("dram__bytes.sum.peak_sustained") == pytest.approx(1280)
        grid_size = metrics.get("launch__grid_size")
        assert grid_size is not None
        assert grid_size.digits is None, "a whole number is printed exactly"

    @each_row(
        ("cell", "number"),
        [
            ("1 200 345", 1200345),
            ("512\u202f004,25", 512004.25),
            ("512\u00a0004,25", 512004.25),
            ("12'345'678.25", 12345678.25),
            ("12.345.678", 12345678),
        ],
    )
    def test_thousands_are_grouped_as_the_user_s_language_does(self, cell: str, number: float) -> None:
        report = read(raw_page({"a__x.sum": ("", [cell]), "b__y.sum": ("", ["7"])}))
        assert value(only(report), "a__x.sum") == pytest.approx(number)
        assert value(only(report), "b__y.sum") == 7

    @each_row(
        ("cell", "number"),
        [("1,788,903", 1788903), ("17,88,903", 1788903), ("1,00,50,45,526.96", 1005045526.96), ("65,537", 65537)],
    )
    def test_groups_of_digits_are_of_three_or_as_in_india_of_two(self, cell: str, number: float) -> None:
        assert value(only(read(raw_page({"m__x.sum": ("", [cell])}))), "m__x.sum") == number

    @each_row("cell", ["17,88,90", "1,7,889", "17,,889", ",889", "178,89,903"])
    def test_other_groups_are_no_number(self, cell: str) -> None:
        assert value(only(read(raw_page({"m__x.sum": ("", [cell])}))), "m__x.sum") == cell

    def test_launch_columns_become_the_launch(self) -> None:
        launch = only(read(raw_page({"m__x.sum": ("", ["1"])})))
        assert launch.name == "copy"
        assert launch.demangled == NAME
        assert (launch.grid, launch.block) == ((16, 2, 1), (256, 1, 1))
        assert (launch.process, launch.process_name, launch.context, launch.stream) == (41, "app", 1, 7)
        assert launch.metrics.names() == ("m__x.sum",)

    @each_row("cell", ["", "n/a", "(!) n/a", "nan", "-nan", "inf", "-inf", "no data", "1e999"])
    def test_what_is_not_a_value_is_missing_and_not_zero(self, cell: str) -> None:
        launch = only(read(raw_page({"a__x.sum": ("inst", [cell]), "b__x.sum": ("inst", ["5"])})))
        assert launch.metrics.names() == ("b__x.sum",)

    def test_text_stays_text(self) -> None:
        launch = only(read(raw_page({"launch__func_cache_config": ("", ["CachePreferNone"])})))
        assert value(launch, "launch__func_cache_config") == "CachePreferNone"
        assert launch.metrics.number("launch__func_cache_config") is None

    def test_a_value_with_its_instances_behind_is_the_value(self) -> None:
        launch = only(read(raw_page({"a__x.sum": ("inst", ["6 (1; 2; 3)"]), "b": ("", ["GPU (0)"])})))
        assert value(launch, "a__x.sum") == 6
        assert value(launch, "b") == "GPU (0)"

    def test_zeros_of_a_launch_whose_duration_is_nan_are_left_out_with_a_warning(self) -> None:
        report = read(
            raw_page(
                {
                    "gpu__time_duration.sum": ("usecond", ["-nan", "2.50"]),
                    "lts__t_sectors.sum": ("sector", ["0.000000", "0.000000"]),
                    "launch__registers_per_thread": ("register/thread", ["32", "32"]),
                }
            )
        )
        unmeasured, measured = report.launches
        assert unmeasured.metrics.names() == ("launch__registers_per_thread",)
        assert measured.metrics.number("lts__t_sectors.sum") == 0
        assert report.warnings == (
            "the launch in line 3 was not measured (its duration is nan): its zeros are left out",
        )

    def test_a_byte_prefix_below_the_stroke_is_undone_as_ncu_applied_it(self) -> None:
        launch = only(read(raw_page({"d__pct": ("%/Kbyte", ["7.949000"]), "e": ("byte/sector", ["32"])})))
        metric = launch.metrics.get("d__pct")
        assert metric is not None
        assert metric.value == pytest.approx(7949)
        assert metric.unit == "%/byte"
        assert value(launch, "e") == 32

    def test_a_page_without_units_is_read_with_a_warning(self) -> None:
        report = read(as_csv((*LAUNCH, "a__x.sum"), (*launch_cells(), "3")))
        assert value(only(report), "a__x.sum") == 3
        assert "no row of units" in report.warnings[0]

    def test_a_short_row_keeps_what_it_has_and_is_reported(self) -> None:
        text = raw_page({"a__x.sum": ("inst", ["1", "2"]), "b__x.sum": ("inst", ["3", "4"])})
        report = read(text.removesuffix(',"4"\n') + "\n")
        assert [launch.metrics.names() for launch in report.launches] == [
            ("a__x.sum", "b__x.sum"),
            ("a__x.sum",),
        ]
        assert report.warnings == (
            "1 row was dropped or shortened for missing, extra or garbled cells, the first in line 4",
        )

    def test_a_row_with_too_many_cells_is_dropped_and_reported(self) -> None:
        text = raw_page({"a__x.sum": ("inst", ["1", "2"])})
        report = read(text.replace('"8.0","2"', '"8.0","2","9"'))
        assert len(report.launches) == 1
        assert "line 4" in report.warnings[0]

    def test_attributes_describe_the_device_in_hertz_and_bytes(self) -> None:
        attributes = {
            "display_name": ("", ["NVIDIA A100 80GB PCIe"]),
            "multiprocessor_count": ("", ["108"]),
            "compute_capability_major": ("", ["8"]),
            "compute_capability_minor": ("", ["0"]),
            "gpu_pci_device_id": ("", [str(0x20B510DE)]),
            "clock_rate": ("", ["1410000"]),
            "memory_clock_rate": ("", ["1512000"]),
            "global_memory_bus_width": ("", ["5120"]),
            "total_memory": ("Gbyte", ["85.097971712"]),
            "l2_cache_size": ("Mbyte", ["41.943040"]),
        }
        page = raw_page({f"device__attribute_{name}": column for name, column in attributes.items()})
        (device,) = read(page).devices
        assert device.name == "NVIDIA A100 80GB PCIe"
        assert (device.compute_capability, device.pci_id, device.sm_count) == ("8.0", "10de:20b5", 108)
        assert (device.max_sm_clock_hz, device.max_memory_clock_hz) == (1.41e9, 1.512e9)
        assert (device.memory_bus_bits, device.memory_bytes, device.l2_bytes) == (5120, 85097971712, 41943040)

    def test_each_gpu_is_listed_once(self) -> None:
        rows = [(*launch_cells(k)[:9], gpu, "8.0", "1") for k, gpu in enumerate(("0", "1", "0"))]
        report = read(as_csv((*LAUNCH, "a__x.sum"), ("",) * 12, *rows))
        assert [launch.device for launch in report.launches] == [0, 1, 0]
        assert len(report.devices) == 2

    @each_row(
        ("cell", "ranges"),
        [
            ("", ()),
            ('1163636  "<default domain>:Fused-GEMM:none:none:none:none:none:none" ', ("Fused-GEMM",)),
            ('7  "<default domain>:a:none:none:none:none:none:none" "torch:aten::mm:none:1:2:3:4:x" ',
             ("a", "torch:aten::mm")),
            ('7  "<default domain>:say "hi" now:none:none:none:none:none:none" ', ('say "hi" now',)),
        ],
    )  # fmt: skip
    def test_nvtx_columns_become_range_names(self, cell: str, ranges: tuple[str, ...]) -> None:
        header = (*LAUNCH[:4], PUSH_POP, START_STOP, *LAUNCH[4:], "a__x.sum")
        row = (*launch_cells()[:4], cell, "", *launch_cells()[4:], "1")
        launch = only(read(as_csv(header, ("",) * len(header), row)))
        assert launch.ranges == ranges
        assert launch.metrics.names() == ("a__x.sum",)

    def test_dimensions_of_an_unmeasured_launch_are_missing(self) -> None:
        cells = tuple("(0, 0, 0)" if cell.startswith("(") else cell for cell in launch_cells())
        launch = only(read(as_csv((*LAUNCH, "a__x.sum"), ("",) * 12, (*cells, "1"))))
        assert launch.grid is None
        assert launch.block is None


class TestDetailsPage:
    def test_a_label_is_told_apart_by_its_section(self) -> None:
        report = read(
            details_page(
                ("GPU Speed Of Light Throughput", "Memory Throughput", "%", "6.22"),
                ("Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "80.38"),
                ("GPU Speed Of Light Throughput", "Duration", "usecond", "9.34"),
                ("Launch Statistics", "# SMs", "SM", "108"),
            )
        )
        launch = only(report)
        assert report.kind == "ncu-csv-details"
        assert launch.metrics.number("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed") == 6.22
        assert launch.metrics.number("dram__bytes.sum.per_second") == pytest.approx(80.38e9)
        duration = launch.metrics.get("gpu__time_duration.sum")
        assert duration is not None
        assert duration.value == pytest.approx(9.34e-6)
        assert duration.digits == 3
        assert report.devices[0].sm_count == 108
        assert report.devices[0].compute_capability == "8.0"
        assert report.sections == (
            "GPU Speed Of Light Throughput", "Memory Workload Analysis", "Launch Statistics",
        )  # fmt: skip

    def test_command_line_metrics_keep_their_names(self) -> None:
        launch = only(
            read(
                details_page(
                    ("Command line profiler metrics", "dram__bytes_read.sum", "Kbyte", "32.77"),
                    ("Command line profiler metrics", "flop_count_hp.sum", "", "n/a"),
                    ("Command line profiler metrics", "sm__inst_executed.sum", "inst", "(!) n/a"),
                )
            )
        )
        assert launch.metrics.names() == ("dram__bytes_read.sum",)
        assert launch.metrics.number("dram__bytes_read.sum") == pytest.approx(32770)

    def test_an_unknown_label_is_kept_under_its_section(self) -> None:
        launch = only(read(details_page(("My Section", "My Label", "%", "1.5"))))
        assert launch.metrics.number("details:My Section:My Label") == 1.5

    def test_the_more_precise_of_two_prints_stays(self) -> None:
        launch = only(
            read(
                details_page(
                    ("GPU Speed Of Light Throughput", "Elapsed Cycles", "cycle", "10.5"),
                    ("Command line profiler metrics", "gpc__cycles_elapsed.max", "cycle", "10.512"),
                    ("GPU Speed Of Light Throughput", "Elapsed Cycles", "cycle", "10.51"),
                )
            )
        )
        assert launch.metrics.number("gpc__cycles_elapsed.max") == 10.512

    def test_thousands_separators_are_not_cells_or_decimals(self) -> None:
        launch = only(read(details_page(("Launch Statistics", "Threads", "thread", "21,760"))))
        assert launch.metrics.number("launch__thread_count") == 21760

    def test_rules_are_the_details_of_their_launch(self) -> None:
        speedup = (
            "Occupancy",
            "",
            "",
            "",
            "TheoreticalOccupancy",
            "OPT",
            "Line 1,\nline 2",
            "global",
            "45.64",
        )
        plain = ("SpeedOfLight", "", "", "", "SOLBottleneck", "WRN", "Small grid", "", "")
        metric = ("Launch Statistics", "Threads", "thread", "32", "")
        header = LAUNCH + METRIC + RULE + SPEEDUP
        report = read(as_csv(header, *(launch_cells() + row for row in (metric, speedup, plain))))
        first, second = only(report).details.rule_results()
        assert (first.rule, first.section, first.kind) == (
            "TheoreticalOccupancy",
            "Occupancy",
            "optimization",
        )
        assert first.message == "Line 1,\nline 2"
        assert (first.speedup_percent, first.speedup_scope) == (45.64, "global")
        assert (second.kind, second.speedup_percent, second.speedup_scope) == ("warning", None, None)
        assert report.warnings == ()

    def test_the_clock_under_a_roof_and_the_clock_of_the_achieved_work_are_two_metrics(self) -> None:
        header = (*LAUNCH, "Section Name", "Body Item Label", *METRIC[1:])
        section = "GPU Speed Of Light Roofline Chart"
        rows = [
            (
                section,
                "",
                "Theoretical Predicated-On FFMA Thread Instructions Executed",
                "inst/cycle",
                "21,760",
            ),
            (section, "Single Precision Roofline", "SM Frequency", "Ghz", "2.01"),
            (section, "Single Precision Achieved Value", "SM Frequency", "Ghz", "2.02"),
            (section, "Single Precision Roofline", "Theoretical DRAM Bytes Accessible", "byte/cycle", "128"),
        ]
        metrics = only(read(as_csv(header, *(launch_cells() + row for row in rows)))).metrics
        assert metrics.number("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained") == 21760
        assert metrics.number("sm__cycles_elapsed.avg.per_second") == pytest.approx(2.01e9)
        assert metrics.number("smsp__cycles_elapsed.avg.per_second") == pytest.approx(2.02e9)
        assert metrics.number("dram__bytes.sum.peak_sustained") == 128

    def test_columns_in_another_order_are_read(self) -> None:
        header = ("ID", "Process ID", *METRIC, "Kernel Name")
        row = ("0", "41", "Launch Statistics", "Threads", "thread", "32", NAME)
        report = read(as_csv(header, row, row[:-1]))
        assert only(report).metrics.number("launch__thread_count") == 32
        assert "line 3" in report.warnings[0]

    def test_labels_of_2019_and_2020_are_known(self) -> None:
        section = "GPU Speed Of Light"
        assert metric_name(section, "SOL FB", "%") == "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
        assert metric_name(section, "SM [%]", "%") == "sm__throughput.avg.pct_of_peak_sustained_elapsed"
        assert metric_name(section, "Memory Frequency", "Hz") == "dram__cycles_elapsed.avg.per_second"

    @each_row(
        ("label", "metric"),
        [
            ("Memory [%]", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"),
            ("Compute (SM) [%]", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
            ("SM [%]", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        ],
    )
    def test_labels_of_2021_are_known(self, label: str, metric: str) -> None:
        assert metric_name("GPU Speed Of Light Throughput", label, "%") == metric

    def test_a_label_in_a_table_is_not_taken_for_the_header_of_the_section(self) -> None:
        assert metric_name("Memory Workload Analysis", "L2 Hit Rate", "%", "Some Table") == (
            "details:Memory Workload Analysis:Some Table:L2 Hit Rate"
        )


class TestDecimalComma:
    def test_numbers_of_a_language_with_decimal_commas_are_read_as_such(self) -> None:
        launch = only(
            read(
                details_page(
                    ("GPU Speed Of Light Throughput", "DRAM Throughput", "%", "19,27"),
                    ("GPU Speed Of Light Throughput", "Elapsed Cycles", "cycle", "13.494"),
                    ("GPU Speed Of Light Throughput", "SM Active Cycles", "cycle", "9.423.123,456"),
                    ("Launch Statistics", "Grid Size", "", "32"),
                )
            )
        )
        assert value(launch, "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed") == 19.27
        assert value(launch, "gpc__cycles_elapsed.max") == 13494
        assert value(launch, "sm__cycles_active.avg") == pytest.approx(9423123.456)
        assert value(launch, "launch__grid_size") == 32

    def test_a_list_beside_numbers_with_points_is_no_number(self) -> None:
        launch = only(read(raw_page({"m__x.sum": ("", ["1,25"]), "m__y.sum": ("%", ["12.50"])})))
        assert (value(launch, "m__x.sum"), value(launch, "m__y.sum")) == ("1,25", 12.5)


class TestMixedOutput:
    page = as_csv(
        OLD_LAUNCH + METRIC,
        (*old_cells(0), "Command line profiler metrics", "gpu__time_duration.sum", "nsecond", "8,992"),
        (*old_cells(1), "Command line profiler metrics", "gpu__time_duration.sum", "nsecond", "9,056.50"),
    )

    def test_lines_of_the_program_and_of_ncu_are_skipped(self) -> None:
        header, first, second = self.page.splitlines()
        text = "\n".join(
            ["==PROF== Connected to process 41", '1 4 "8', "1,2,3", header, '"quoted" speech', first, "",
             "==WARNING== slow", second, "done", "==PROF== Disconnected", ""],
        )  # fmt: skip
        report = read(text)
        assert [launch.metrics.number("gpu__time_duration.sum") for launch in report.launches] == [
            pytest.approx(8.992e-6),
            pytest.approx(9.0565e-6),
        ]
        assert report.warnings == ()
        assert report.launches[0].grid is None
        assert report.devices[0].compute_capability is None

    def test_output_without_a_line_end_before_the_header_does_not_hide_it(self) -> None:
        assert len(read("Done." + self.page).launches) == 2

    def test_another_header_starts_another_table(self) -> None:
        report = read(self.page + "second run\n" + self.page)
        assert len(report.launches) == 4

    def test_windows_line_ends_and_a_byte_order_mark_are_read(self) -> None:
        assert len(read("\ufeff" + self.page.replace("\n", "\r\n")).launches) == 2

    def test_a_page_saved_again_without_quotes_is_read(self) -> None:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(csv.reader(io.StringIO(self.page)))
        assert len(read(out.getvalue()).launches) == 2

    def test_a_row_torn_by_the_programs_output_is_dropped_and_counted(self) -> None:
        header, first, second = self.page.splitlines()
        torn = first[: first.index("gpu__time") + 4] + "hello"
        report = read("\n".join([header, torn, second, ""]))
        assert len(report.launches) == 1
        assert report.warnings == (
            "1 row was dropped or shortened for missing, extra or garbled cells, the first in line 2",
        )

    def test_an_error_of_ncu_beside_the_table_is_a_warning(self) -> None:
        report = read(self.page + "==ERROR== The application returned an error code (1).\n")
        assert report.warnings == ("ncu reported an error: The application returned an error code (1).",)

    def test_a_file_of_cut_rows_only_says_so(self) -> None:
        header, first, _ = self.page.splitlines()
        with pytest.raises(InputError, match=r"has a header but no kernels; the file ends inside the row .* line 2"):
            read(header + "\n" + first[:40])

    def test_a_file_cut_inside_a_field_keeps_what_was_read_and_warns(self) -> None:
        report = read(self.page[:-6])
        assert len(report.launches) == 1
        assert report.warnings[0] == "the file ends inside the row that starts in line 3: it is truncated"


class TestUnreadable:
    @each_row(
        ("text", "message"),
        [
            ("", "is empty"),
            ("hello\n", "is not output of ncu"),
            ("==ERROR== No permission\n==WARNING== No kernels were profiled.\n", "'No permission'"),
            ("==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
            (as_csv((*LAUNCH, "a__x.sum"), ("",) * 12), "has a header but no kernel"),
        ],
    )
    def test_a_file_without_launches_says_what_it_is_and_how_to_export(self, text: str, message: str) -> None:
        with pytest.raises(InputError, match=message) as caught:
            read(text)
        assert str(caught.value).startswith("page.csv ")
        assert "--page raw --csv" in (caught.value.hint or "")

    @given(st.text())
    @settings(deadline=None)
    def test_arbitrary_text_raises_nothing_else(self, text: str) -> None:
        with pytest.raises(GpuprofError):
            read(text)

    @given(st.lists(st.text(alphabet='"\n,0123456789.eE+-()% nainf/\x00', max_size=30), max_size=8))
    @settings(deadline=None)
    def test_arbitrary_cells_below_a_header_raise_nothing_else(self, lines: list[str]) -> None:
        for page in (raw_page({"a__x.sum": ("inst", ["1"])}), details_page(("Occupancy", "X", "%", "1"))):
            report = read(page + "\n".join(f'"1","2",{line}' for line in lines))
            assert report.launches

    pages = (
        (
            raw_page(
                {
                    "a__x.sum": ("Kbyte", ["1.25", "2.5"]),
                    "launch__func_cache_config": ("", ["none", "none"]),
                    "b__x.sum": ("inst", ["12", "13"]),
                }
            ),
            ("12", "13"),
        ),
        (
            details_page(
                ("Launch Statistics", "Threads", "thread", "21,760"),
                ("Occupancy", "Block Limit SM", "block", "32"),
            ),
            ("21,760", "32"),
        ),
        (TestMixedOutput.page, ("8,992", "9,056.50")),
    )

    @given(
        st.sampled_from([page for page, _ in pages]),
        st.floats(0, 1),
        st.integers(0, 40),
        st.text(max_size=40),
    )
    @settings(deadline=None)
    def test_a_page_altered_anywhere_raises_nothing_else(
        self, page: str, where: float, removed: int, added: str
    ) -> None:
        at = int(where * len(page))
        try:
            report = read(page[:at] + added + page[at + removed :])
        except GpuprofError:
            return
        assert report.launches

    @each_row(("page", "values"), pages)
    def test_a_cut_file_gives_a_prefix_and_a_warning_or_an_error(self, page: str, values: tuple[str, ...]) -> None:
        whole = read(page)
        for cut in range(len(page)):
            try:
                part = read(page[:cut])
            except GpuprofError:
                continue
            assert len(part.launches) <= len(whole.launches)
            for left, right in zip(part.launches, whole.launches, strict=False):
                for name in left.metrics.names():
                    assert left.metrics.get(name) == right.metrics.get(name), (cut, name)
            last_line = page[:cut].rpartition("\n")[2]
            value_is_complete = last_line.endswith(tuple(f'"{x}"{end}' for x in values for end in ("", ",", ',""')))
            assert part.warnings or last_line == "" or value_is_complete, cut


class TestShortName:
    @each_row(
        ("demangled", "name"),
        [
            ("warmingUp(float *)", "warmingUp"),
            ("set_halo_values_x_396_gpu", "set_halo_values_x_396_gpu"),
            ("void smem_blocking<(int)32>(int, const float *)", "smem_blocking"),
            (
                "void at::native::<unnamed>::gather<float, void at::f(T1)::[lambda() (instance 1)]>(int)",
                "gather",
            ),
            ("void at::native::(anonymous namespace)::up<float, float>(int, Acc<float, 4ul>)", "up"),
            ("enable_if<!T7, void>::type kernel<int, 0, gemv<const __nv_bfloat16>>(T13)", "kernel"),
            ("std::enable_if<(T1 > 5), unsigned long>::type *ns::pick<T1>(T1)", "pick"),
            ("void ns::Functor<int>::operator ()() const", "operator()"),
            ("_ZN3foo3barEv", "_ZN3foo3barEv"),
            ("", ""),
        ],
    )
    def test_the_base_name_has_no_type_scope_arguments_or_parameters(self, demangled: str, name: str) -> None:
        assert short_name(demangled) == name


def actions(report: Path) -> Iterator[Any]:
    """Yield the launches of a report as NVIDIA's own reader gives them."""
    ncu_report = pytest.importorskip("ncu_report")
    context = ncu_report.load_report(str(report))
    for number in range(context.num_ranges()):
        yield from context.range_by_idx(number)


def printed(path: Path) -> tuple[list[str], list[list[str]]]:
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, rows


def exported(kind: str) -> list[str]:
    folder = Path(__file__).resolve().parents[2] / "shared" / "reports" / "ncu-2024.1-export"
    return sorted(path.name.removesuffix(f".{kind}.csv") for path in folder.glob(f"*.{kind}.csv")) or ["absent"]


def last_place(cell: str, unit: str) -> float:
    """Return half a unit in the last printed place, in the base unit."""
    places = len(cell.partition(".")[2])
    factor = 1e3 if unit == "%/Kbyte" else ncu_unit(unit)[0]
    return 0.5001 * factor * 10.0**-places if places else 0.0


def differs(ours: float | str | None, theirs: object, unit: str, tolerance: float) -> bool:
    if isinstance(theirs, (int, float)) and not isinstance(ours, str):
        if not math.isfinite(theirs):
            return ours is not None
        if ours is None:
            return theirs != 0  # a CSV leaves empty where ncu_report gives 0 for metrics that have instances only
        return abs(ours - theirs * ncu_unit(unit)[0]) > tolerance + 1e-9 * abs(ours)
    return ours != (theirs or None)


class TestRealPages:
    @each_row("stem", exported("raw"))
    def test_a_raw_page_equals_the_report_it_was_printed_from(self, stem: str) -> None:
        folder = shared_reports()
        path = folder / "ncu-2024.1-export" / f"{stem}.raw.csv"
        report = read(path.read_text("utf-8"))
        header, (units, *rows) = printed(path)
        recorded = list(actions(folder / f"{stem}.ncu-rep"))
        assert len(report.launches) == len(recorded) == len(rows)
        wrong, compared = [], 0
        for launch, action, row in zip(report.launches, recorded, rows, strict=True):
            known = set(action.metric_names())
            assert launch.name == action.name(action.NameBase_FUNCTION)
            for name, unit, cell in zip(header, units, row, strict=True):
                # ncu prints NaN samples as 0.000000; nothing in the page tells them apart.
                metric = action.metric_by_name(name) if name in known else None
                if metric is None or (name.startswith("pmsampling:") and math.isnan(metric.value() or 0.0)):
                    continue
                ours = value(launch, name)
                compared += ours is not None
                if differs(ours, metric.value(), metric.unit(), last_place(cell, unit)):
                    wrong.append((name, cell, unit, ours, metric.value(), metric.unit()))
        assert wrong == []
        assert compared > 250 * len(rows)

    @each_row("stem", exported("details"))
    def test_a_details_page_equals_the_report_it_was_printed_from(self, stem: str) -> None:
        folder = shared_reports()
        path = folder / "ncu-2024.1-export" / f"{stem}.details.csv"
        report = read(path.read_text("utf-8"))
        header, rows = printed(path)
        recorded = list(actions(folder / f"{stem}.ncu-rep"))
        assert len(report.launches) == len(recorded)
        at = [header.index(column) for column in METRIC]
        wrong, compared = [], set()
        for row in rows:
            section, label, unit, cell = (row[index] for index in at)
            if not label or cell in {"n/a", "nan"}:
                continue
            number = int(row[0])
            name = metric_name(section, label, ncu_unit(unit)[1])
            metric = recorded[number].metric_by_name(name)
            assert metric is not None, (section, label, name)
            ours = value(report.launches[number], name)
            compared.add((number, name))
            if ours is None or differs(ours, metric.value(), metric.unit(), last_place(cell, unit)):
                wrong.append((section, label, cell, unit, ours, metric.value(), metric.unit()))
        assert wrong == []
        assert len(compared) == sum(len(launch.metrics.names()) for launch in report.launches)

    def test_rules_of_a_details_page_are_those_of_the_report(self) -> None:
        folder = shared_reports()
        page = folder / "ncu-2024.1-export" / "gpu_workshop-MW_Baseline.details.csv"
        kinds = {0: "none", 1: "ok", 2: "optimization", 3: "warning", 4: "error"}
        report = read(page.read_text("utf-8"))
        for launch, action in zip(report.launches, actions(folder / "gpu_workshop-MW_Baseline.ncu-rep"), strict=True):
            messages = [
                entry | entry["rule_message"] for entry in action.rule_results_as_dicts() if entry["rule_message"]
            ]
            theirs = {
                (entry["rule_identifier"], entry["section_identifier"], kinds[int(entry["type"])])
                for entry in messages
                if entry["message"]
            }
            ours = {(rule.rule, rule.section, rule.kind) for rule in launch.details.rule_results()}
            assert ours == theirs

    def test_old_details_with_the_output_of_the_program(self) -> None:
        report = read((shared_reports() / "csv" / "interpolate-with-program-output.csv").read_text("utf-8"))
        assert len(report.launches) == 198
        assert {len(launch.metrics.names()) for launch in report.launches} == {21}
        assert {launch.name for launch in report.launches} == {"upsample_bilinear2d_out_frame"}
        assert report.warnings == ("ncu reported an error: The application returned an error code (1).",)

    def test_details_of_a_torch_program(self) -> None:
        report = read((shared_reports() / "csv" / "bert-torch-details.csv").read_text("utf-8"))
        first = report.launches[0]
        assert len(report.launches) == 26
        assert report.warnings == ()
        assert first.name == "distribution_elementwise_grid_stride_kernel"
        assert first.metrics.number("sm__cycles_elapsed.avg.per_second") == pytest.approx(967585940.83)
        assert value(first, "launch__func_cache_config") == "cudaFuncCachePreferNone"
        assert first.grid is None, "the page has the number of blocks, not its dimensions"
        assert first.metrics.number("launch__grid_size") == 256
        assert not any(name.startswith("details:") for x in report.launches for name in x.metrics.names())

    def test_details_of_an_rtx_5090(self) -> None:
        report = read((shared_reports() / "csv" / "rtx5090-details.csv").read_text("utf-8"))
        launch = only(report)
        assert (launch.name, launch.grid, launch.block) == ("kernel", (1712, 1, 1), (16, 4, 1))
        assert report.devices[0].compute_capability == "12.0"
        assert launch.metrics.number("dram__bytes.sum.per_second") == pytest.approx(958.09e9)
        assert launch.metrics.number("gpu__time_duration.sum") == pytest.approx(18.34e-6)
        assert launch.metrics.get("flop_count_sp.sum") is None
        assert {rule.speedup_percent for rule in launch.details.rule_results()} == {None, 45.64}
        assert not any(name.startswith("details:") for name in launch.metrics.names())

    def test_roofline_rows_of_an_rtx_5090(self) -> None:
        launch = only(read((shared_reports() / "csv" / "rtx5090-roofline-section.csv").read_text("utf-8")))
        ffma = launch.metrics.number("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained")
        assert ffma == 21760 == 170 * 128
        assert launch.metrics.number("dram__cycles_elapsed.avg.per_second") == pytest.approx(13.77e9)
        assert not any(name.startswith("details:") for name in launch.metrics.names())

    def test_a_file_of_errors_is_named_as_such(self) -> None:
        text = (shared_reports() / "csv" / "errors-only.csv").read_text("utf-8")
        with pytest.raises(InputError, match=r"error code \(2\)"):
            read(text)


@each_row("label", ["gpu__time_active.avg", "Made Up (gpu__time_active.avg)"])
def test_a_label_that_is_or_holds_the_name_of_a_metric_stands_for_it(label: str) -> None:
    report = read(details_page(("GPU Speed Of Light Throughput", label, "usecond", "9.25")))
    assert value(only(report), "gpu__time_active.avg") == pytest.approx(9.25e-6)


def test_zeros_of_a_launch_that_was_not_measured_are_left_out_of_a_details_page_too() -> None:
    section = "GPU Speed Of Light Throughput"
    report = read(details_page((section, "Duration", "usecond", "(!) nan"), (section, "DRAM Throughput", "%", "0.00")))
    assert list(only(report).metrics.names()) == []
    assert any("was not measured" in warning for warning in report.warnings)


def test_letters_in_a_number_are_told_and_a_list_of_instances_alone_is_none() -> None:
    header = (
        '"ID","Process ID","Kernel Name","Context","Stream","gpu__time_duration.sum","dram__bytes.sum","l.sum","n"\n'
    )
    units = '"","","","","","us","byte","inst",""\n'
    report = read_ncu_csv(f'{header}{units}"0","41","scale","1","7","3.5","1x8","(1; 2)","(!) nan (0; 0)"\n', "f", "")
    (launch,) = report.launches
    assert "dram__bytes.sum" not in launch.metrics.names()
    assert "n" not in launch.metrics.names()
    assert launch.metrics.number("gpu__time_duration.sum") == pytest.approx(3.5e-6)
    assert report.warnings == (
        "1 row was dropped or shortened for missing, extra or garbled cells, the first in line 3",
    )


def test_blanks_at_the_ends_of_lines_are_no_part_of_a_column_or_a_cell() -> None:
    printed = details_page(("Command line profiler metrics", "gpu__time_duration.sum", "us", "5.00"))
    report = read("".join(f"{line} \n" for line in printed.splitlines()))
    assert report.kind == "ncu-csv-details"
    assert value(only(report), "gpu__time_duration.sum") == pytest.approx(5e-6)
    raw = raw_page({"gpu__time_duration.sum": ("us", ["5.00"])})
    report = read("".join(f"{line}\t\n" for line in raw.splitlines()))
    assert report.warnings == () and value(only(report), "gpu__time_duration.sum") == pytest.approx(5e-6)


PRINTED_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,2}(?:,\d{3}){0,3}|\d{1,9})(?:\.\d{0,6})?(?:e[+-]?\d{1,2})?", re.ASCII)


def as_printed(cell: str) -> tuple[float, int | None]:
    """Read a number digit by digit: its value, and the digits that were kept of one with a point."""
    digits = [char for char in cell.partition("e")[0] if char.isdigit()]
    kept = len("".join(digits).lstrip("0")) if "." in cell else None
    return float(cell.replace(",", "")), kept


@given(
    st.lists(
        st.one_of(
            st.from_regex(PRINTED_NUMBER, fullmatch=True),
            st.text(alphabet="0123456789,.eE+-() !naif;_\u202f\u0661", max_size=12),
        ),
        max_size=6,
    ),
    st.sampled_from(["", "%", "Mbyte", " usecond ", "%/Kbyte", "Gbyte/second"]),
)
def test_a_column_reads_each_cell_as_a_cell_alone_is_read(cells: Sequence[str], unit: str) -> None:
    """Whatever stood in it before, and again where the same cell comes twice."""
    column = MetricColumn("m", unit)
    assert [column.metric(cell) for cell in [*cells, *cells]] == [metric_of(cell, unit) for cell in [*cells, *cells]]


@given(st.from_regex(PRINTED_NUMBER, fullmatch=True))
def test_a_number_has_the_value_and_the_digits_that_are_printed(cell: str) -> None:
    assert cell.isascii()
    for text in (cell, f" {cell} ", f"(!) {cell}", f"{cell} (1; 2)"):
        metric = metric_of(text, "")
        assert metric is not None
        assert (metric.value, metric.digits) == as_printed(cell)


@each_row("cell", ["-1,000.00", "inf", "-inf", "1e400", "1e300", "-0.5"])
def test_an_impossible_duration_is_told_and_not_used(cell: str) -> None:
    raw = (
        '"ID","Process ID","Kernel Name","gpu__time_duration.sum","l.sum"\n"","","","ns","inst"\n'
        f'"0","41","good","5.00","7"\n"1","41","bad","{cell}","8"\n'
    )
    header = '"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    details = "".join(
        f'"{number}","41","{name}","GPU Speed Of Light Throughput","Duration","ns","{value}"\n'
        for number, name, value in ((0, "good", "5.00"), (1, "bad", cell))
    )
    for page, line in ((raw, 4), (header + details, 3)):
        report = read_ncu_csv(page, "f", "")
        assert [launch.metrics.number("gpu__time_duration.sum") for launch in report.launches] == [5e-9, None]
        told = f"the launch in line {line} has an impossible duration, {cell}, which is not used"
        assert [warning for warning in report.warnings if "impossible" in warning] == [told]


def test_a_number_with_groups_by_narrow_spaces_is_found_in_any_column_of_metrics() -> None:
    """12 345,5 of a computer in France, behind a device whose name has a space and digits."""
    page = (
        '"ID","Process ID","Kernel Name","device__attribute_display_name","l.sum"\n"","","","","inst"\n'
        '"0","41","scale","A100 80GB","7"\n"1","41","scale","A100 80GB","12\u202f345,5"\n'
    )
    assert [launch.metrics.number("l.sum") for launch in read_ncu_csv(page, "f", "").launches] == [7, 12345.5]
