"""The CSV of ncu: hand-made pages with every trap, and our own exports against the reports they came from."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.errors import GpuprofError, InputError
from gpuprof.model.recorded import Launch, Report
from gpuprof.read.ncu_csv import read_ncu_csv
from gpuprof.read.ncu_rep import read_ncu_rep
from tests.table import each_row

H100 = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"
PUSH_POP = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
START_STOP = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
OLD_LAUNCH = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream")
LAUNCH = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC",
)  # fmt: skip
METRIC = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")
RULE = ("Rule Name", "Rule Type", "Rule Description")
SPEEDUP = ("Estimated Speedup Type", "Estimated Speedup")
NAME = "void ns::copy<float, (int)4>(float *, const float *)"


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


def raw_page(columns: Mapping[str, tuple[str, Sequence[str]]]) -> str:
    """Build a raw page of metric columns: name → (unit, one value for each launch)."""
    count = len(next(iter(columns.values()))[1])
    units = ("",) * len(LAUNCH) + tuple(unit for unit, _ in columns.values())
    rows = [launch_cells(k) + tuple(values[k] for _, values in columns.values()) for k in range(count)]
    return as_csv(LAUNCH + tuple(columns), units, *rows)


def details_page(*rows: tuple[str, str, str, str]) -> str:
    return as_csv(LAUNCH + METRIC + RULE, *(launch_cells() + row + ("",) for row in rows))


def read(text: str) -> Report:
    return read_ncu_csv(text, "page.csv", "00")


def only(text: str) -> Launch:
    (launch,) = read(text).launches
    return launch


def value(launch: Launch, name: str) -> float | str | None:
    metric = launch.metrics.get(name)
    return None if metric is None else metric.value


def raw_value(cell: str, unit: str = "") -> float | str | None:
    """What is read of a cell of a raw page, whose other column is a whole number."""
    launch = only(raw_page({"m__x.sum": (unit, [cell]), "b__y.sum": ("", ["7"])}))
    assert value(launch, "b__y.sum") == 7
    return value(launch, "m__x.sum")


# Raw pages.


def test_values_come_in_base_units_with_the_digits_that_were_printed() -> None:
    printed = {
        "dram__bytes.sum.per_second": ("Gbyte/second", "1.234500", 1.2345e9, "byte/s", 7),
        "gpu__time_duration.sum": ("usecond", "9.34", 9.34e-6, "s", 3),
        "sm__cycles_elapsed.avg.per_second": ("cycle/nsecond", "1.06", 1.06e9, "Hz", 3),
        "dram__bytes.sum.peak_sustained": ("Kbyte/cycle", "1.28", 1280, "byte/cycle", 3),
        "launch__grid_size": ("", "32", 32, "", None), "d__pct": ("%/Kbyte", "7.949000", 7949, "%/byte", 7),
        "launch__func_cache_config": ("", "CachePreferNone", "CachePreferNone", "", None),
        "a__x.sum": ("inst", "6 (1; 2; 3)", 6, "inst", None), "b": ("", "GPU (0)", "GPU (0)", "", None),
    }  # fmt: skip
    report = read(raw_page({name: (unit, [cell]) for name, (unit, cell, *_) in printed.items()}))
    (launch,) = report.launches
    assert (report.kind, report.warnings, set(launch.metrics.names())) == ("ncu-csv-raw", (), set(printed))
    for name, (_, _, expected, unit, digits) in printed.items():
        metric = launch.metrics.get(name)
        assert metric is not None and (metric.unit, metric.digits) == (unit, digits)
        assert metric.value == (expected if isinstance(expected, str) else pytest.approx(expected))
    assert launch.metrics.number("launch__func_cache_config") is None


@each_row(
    ("cell", "number"),
    [
        ("1 200 345", 1200345), ("512\u202f004,25", 512004.25), ("512\u00a0004,25", 512004.25),
        ("12'345'678.25", 12345678.25), ("12.345.678", 12345678), ("1,788,903", 1788903), ("17,88,903", 1788903),
        ("1,00,50,45,526.96", 1005045526.96), ("65,537", 65537), *((cell, cell) for cell in (
            "17,88,90", "1,7,889", "17,,889", ",889", "178,89,903")),
        *((cell, None) for cell in ("", "n/a", "(!) n/a", "nan", "-nan", "inf", "-inf", "no data", "1e999")),
    ],
)  # fmt: skip
def test_digits_are_grouped_as_the_user_s_language_does_and_what_is_no_value_is_missing(
    cell: str, number: float | str | None
) -> None:
    assert raw_value(cell) == (pytest.approx(number) if isinstance(number, float) else number)


def test_a_comma_is_the_decimal_point_only_beside_numbers_that_have_one() -> None:
    assert raw_value("1,25") == 1.25
    launch = only(raw_page({"m__x.sum": ("", ["1,25"]), "m__y.sum": ("%", ["12.50"])}))
    assert (value(launch, "m__x.sum"), value(launch, "m__y.sum")) == ("1,25", 12.5)
    section = "GPU Speed Of Light Throughput"
    page = details_page(
        (section, "DRAM Throughput", "%", "19,27"), (section, "Elapsed Cycles", "cycle", "13.494"),
        (section, "SM Active Cycles", "cycle", "9.423.123,456"), ("Launch Statistics", "Grid Size", "", "32"),
    )  # fmt: skip
    names = (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "gpc__cycles_elapsed.max", "sm__cycles_active.avg",
        "launch__grid_size",
    )  # fmt: skip
    assert [value(only(page), name) for name in names] == [19.27, 13494, pytest.approx(9423123.456), 32]


def test_launch_columns_become_the_launch() -> None:
    launch = only(raw_page({"m__x.sum": ("", ["1"])}))
    assert (launch.name, launch.demangled, launch.grid, launch.block) == ("copy", NAME, (16, 2, 1), (256, 1, 1))
    assert (launch.process, launch.stream) == (41, 7)
    assert launch.metrics.names() == ("m__x.sum",)
    unmeasured = tuple("(0, 0, 0)" if cell.startswith("(") else cell for cell in launch_cells())
    launch = only(as_csv((*LAUNCH, "a__x.sum"), ("",) * 12, (*unmeasured, "1")))
    assert (launch.grid, launch.block) == (None, None)


def test_zeros_of_a_launch_whose_duration_is_nan_are_left_out_with_a_warning() -> None:
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
    (warning,) = report.warnings
    assert "line 3" in warning
    section = "GPU Speed Of Light Throughput"
    report = read(details_page((section, "Duration", "usecond", "(!) nan"), (section, "DRAM Throughput", "%", "0.00")))
    assert list(report.launches[0].metrics.names()) == [] and len(report.warnings) == 1


def test_rows_of_a_wrong_length_and_letters_in_numbers_are_counted_with_the_first_line() -> None:
    text = raw_page({"a__x.sum": ("inst", ["1", "2"]), "b__x.sum": ("inst", ["3", "4"])})
    short = read(text.removesuffix(',"4"\n') + "\n")
    assert [len(launch.metrics.names()) for launch in short.launches] == [2, 1]
    long = read(text.replace('"8.0","2"', '"8.0","2","9"'))
    assert len(long.launches) == 1
    header = '"ID","Process ID","Kernel Name","gpu__time_duration.sum","dram__bytes.sum","l.sum","n"\n"","","",'
    letters = read(f'{header}"us","byte","inst",""\n"0","41","scale","3.5","1x8","(1; 2)","(!) nan (0; 0)"\n')
    assert not {"dram__bytes.sum", "n"} & set(letters.launches[0].metrics.names())
    assert letters.launches[0].metrics.number("gpu__time_duration.sum") == pytest.approx(3.5e-6)
    for report, line in ((short, 4), (long, 4), (letters, 3)):
        (warning,) = report.warnings
        assert warning.startswith("1 row ") and warning.endswith(f" line {line}")


def test_attributes_describe_the_device_in_hertz_and_bytes() -> None:
    attributes = {
        "display_name": ("", ["NVIDIA A100 80GB PCIe"]), "multiprocessor_count": ("", ["108"]),
        "compute_capability_major": ("", ["8"]), "compute_capability_minor": ("", ["0"]),
        "gpu_pci_device_id": ("", [str(0x20B510DE)]), "clock_rate": ("", ["1410000"]),
        "memory_clock_rate": ("", ["1512000"]), "global_memory_bus_width": ("", ["5120"]),
        "total_memory": ("Gbyte", ["85.097971712"]), "l2_cache_size": ("Mbyte", ["41.943040"]),
    }  # fmt: skip
    page = raw_page({f"device__attribute_{name}": column for name, column in attributes.items()})
    (device,) = read(page).devices
    assert device.name == "NVIDIA A100 80GB PCIe"
    assert (device.compute_capability, device.pci_id, device.sm_count) == ("8.0", "10de:20b5", 108)
    assert (device.max_sm_clock_hz, device.max_memory_clock_hz) == (1.41e9, 1.512e9)
    assert (device.memory_bus_bits, device.memory_bytes, device.l2_bytes) == (5120, 85097971712, 41943040)
    rows = [(*launch_cells(k)[:9], gpu, "8.0", "1") for k, gpu in enumerate(("0", "1", "0"))]
    report = read(as_csv((*LAUNCH, "a__x.sum"), ("",) * 12, *rows))
    assert [launch.device for launch in report.launches] == [0, 1, 0] and len(report.devices) == 2


@each_row(
    ("cell", "ranges"),
    [
        ("", ()),
        ('1163636  "<default domain>:Fused-GEMM:none:none:none:none:none:none" ', ("Fused-GEMM",)),
        ('7  "<default domain>:a:none:none:none:none:none:none" "torch:aten::mm:none:1:2:3:4:x" ',
         ("a", "torch:aten::mm")),
        ('7  "<default domain>:gpuprof-chosen:none:none:none:none:none:none" '
         '"<default domain>:layers.0:none:none:none:none:none:none" ', ("layers.0",)),
        ('7  "<default domain>:say "hi" now:none:none:none:none:none:none" ', ('say "hi" now',)),
    ],
)  # fmt: skip
def test_nvtx_columns_become_range_names(cell: str, ranges: tuple[str, ...]) -> None:
    header = (*LAUNCH[:4], PUSH_POP, START_STOP, *LAUNCH[4:], "a__x.sum")
    row = (*launch_cells()[:4], cell, "", *launch_cells()[4:], "1")
    launch = only(as_csv(header, ("",) * len(header), row))
    assert (launch.ranges, launch.metrics.names()) == (ranges, ("a__x.sum",))


@each_row("name", ["graphs/node", "two-streams/global-function-4-8"])
def test_a_raw_page_of_our_own_has_the_values_of_the_report_it_was_printed_from(name: str) -> None:
    page, report = read((H100 / f"{name}.csv").read_text("utf-8")), read_ncu_rep(H100 / f"{name}.ncu-rep")
    compared = 0
    for ours, theirs in zip(page.launches, report.launches, strict=True):
        assert (ours.name, ours.grid, ours.block) == (theirs.name, theirs.grid, theirs.block)
        for metric in ours.metrics.names():
            mine, other = ours.metrics.get(metric), value(theirs, metric)
            assert mine is not None
            exactness = 1e-9 if mine.digits is None else 0.6 * 10.0 ** (1 - mine.digits)
            assert mine.value == (other if isinstance(other, str) else pytest.approx(other, rel=exactness)), metric
            compared += 1
    assert compared > 150 * len(page.launches)


# Pages of details.


def test_a_label_is_told_apart_by_its_section_and_names_the_section_if_it_is_unknown() -> None:
    light, command = "GPU Speed Of Light Throughput", "Command line profiler metrics"
    report = read(
        details_page(
            (light, "Memory Throughput", "%", "6.22"),
            ("Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "80.38"),
            (light, "Duration", "usecond", "9.34"),
            ("Launch Statistics", "# SMs", "SM", "108"),
            ("Launch Statistics", "Threads", "thread", "21,760"),
            (command, "dram__bytes_read.sum", "Kbyte", "32.77"),
            (command, "flop_count_hp.sum", "", "n/a"),
            (command, "sm__inst_executed.sum", "inst", "(!) n/a"),
            ("My Section", "My Label", "%", "1.5"),
            # The more precise of two prints stays.
            (light, "Elapsed Cycles", "cycle", "10.5"),
            (command, "gpc__cycles_elapsed.max", "cycle", "10.512"),
            (light, "Elapsed Cycles", "cycle", "10.51"),
            # A label may be or hold the name of a metric.
            (light, "gpu__time_active.avg", "usecond", "9.25"),
            (light, "Made Up (sm__made_up.avg)", "%", "9.5"),
        )
    )
    (launch,) = report.launches
    assert (report.kind, report.devices[0].compute_capability) == ("ncu-csv-details", "8.0")
    assert {name: launch.metrics.number(name) for name in launch.metrics.names()} == pytest.approx(
        {
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 6.22,
            "dram__bytes.sum.per_second": 80.38e9, "gpu__time_duration.sum": 9.34e-6, "launch__sm_count": 108,
            "launch__thread_count": 21760, "dram__bytes_read.sum": 32770, "details:My Section:My Label": 1.5,
            "gpc__cycles_elapsed.max": 10.512, "gpu__time_active.avg": 9.25e-6, "sm__made_up.avg": 9.5,
        }
    )  # fmt: skip


def test_rows_of_rules_are_no_metrics_and_no_damage() -> None:
    speedup = ("Occupancy", "", "", "", "TheoreticalOccupancy", "OPT", "Line 1,\nline 2", "global", "45.64")
    plain = ("SpeedOfLight", "", "", "", "SOLBottleneck", "WRN", "Small grid", "", "")
    metric = ("Launch Statistics", "Threads", "thread", "32", "")
    report = read(as_csv(LAUNCH + METRIC + RULE + SPEEDUP, *(launch_cells() + row for row in (metric, speedup, plain))))
    assert report.launches[0].metrics.names() == ("launch__thread_count",)
    assert report.warnings == ()


# Output of a program and of ncu around the table.

MIXED = as_csv(
    OLD_LAUNCH + METRIC,
    (*old_cells(0), "Command line profiler metrics", "gpu__time_duration.sum", "nsecond", "8,992"),
    (*old_cells(1), "Command line profiler metrics", "gpu__time_duration.sum", "nsecond", "9,056.50"),
)


def test_lines_of_the_program_and_of_ncu_are_skipped() -> None:
    header, first, second = MIXED.splitlines()
    text = "\n".join(
        ["==PROF== Connected to process 41", '1 4 "8', "1,2,3", header, '"quoted" speech', first, "",
         "==WARNING== slow", second, "done", "==PROF== Disconnected", ""],
    )  # fmt: skip
    report = read(text)
    times = [launch.metrics.number("gpu__time_duration.sum") for launch in report.launches]
    assert times == pytest.approx([8.992e-6, 9.0565e-6]) and report.warnings == ()
    assert (report.launches[0].grid, report.devices[0].compute_capability) == (None, None)


def test_line_ends_quotes_blanks_and_further_headers_lose_no_launch() -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(csv.reader(io.StringIO(MIXED)))
    texts = ("Done." + MIXED, "\ufeff" + MIXED.replace("\n", "\r\n"), out.getvalue(), MIXED.replace("\n", " \n"))
    assert [len(read(text).launches) for text in texts] == [2, 2, 2, 2]
    assert len(read(MIXED + "second run\n" + MIXED).launches) == 4
    raw = read(raw_page({"gpu__time_duration.sum": ("us", ["5.00"])}).replace("\n", "\t\n"))
    assert raw.warnings == () and value(raw.launches[0], "gpu__time_duration.sum") == pytest.approx(5e-6)


@each_row(
    "label",
    [
        "{}: ", "[1,{}]<stdout>:", "[1,{}]<stdout>: ", "[rank{}]:", "[default{}]:", "app-{}  | ",
        "2024-05-01T10:00:00.123Z {}: ", "app-{}  | 2024-05-01T10:00:00.5Z ", "[{}] ", "(Worker pid={}) ", "node{}: ",
        "[prterun-node01-12@1,{}]<stdout>: ",
    ],
)  # fmt: skip
def test_mixed_rows_of_several_ranks_are_read_rank_by_rank(label: str) -> None:
    rule = (*old_cells(1), "Launch Statistics", "", "", 'Two,\n"lines"')
    page = MIXED + as_csv(rule)
    pages = [page.splitlines(), page.replace("9,056.50", "7,000.00").splitlines()]
    mixed = [f"{label.format(rank)}{lines[at]}\n" for at in range(len(pages[0])) for rank, lines in enumerate(pages)]
    report = read("".join(["slurm starts\n", *mixed]))
    times = [launch.metrics.number("gpu__time_duration.sum") for launch in report.launches]
    assert times == pytest.approx([8.992e-6, 9.0565e-6, 8.992e-6, 7e-6]) and report.warnings == ()
    failed = read("".join([*mixed, f"{label.format(1)}==ERROR== Failed\n"]))
    assert len(failed.warnings) == 1 and "Failed" in failed.warnings[0]
    # Of a file that is cut, the row in which it ends is given with its line.
    cut = read("".join(mixed[::2])[:-6])
    assert len(cut.launches) == 2 and "line 4" in cut.warnings[0]


def test_rows_behind_the_time_of_a_log_are_read() -> None:
    stamped = "".join(f"2024-05-01T10:00:0{at}.{at}5Z {line}\n" for at, line in enumerate(MIXED.splitlines()))
    times = [launch.metrics.number("gpu__time_duration.sum") for launch in read(stamped).launches]
    assert times == pytest.approx([8.992e-6, 9.0565e-6])


def test_all_details_of_a_launch_are_read_and_nothing_is_said_to_be_broken() -> None:
    """Read what `--print-details all` of real ncu has: labels again and again, one that is empty, and another table."""
    cycles = [("DRAM Active Cycles", value) for value in ("1190.50", "1408", "928", "47620")]
    cycles += [("L1 Active Cycles", value) for value in ("19896.08", "25438", "0", "2148777")]
    distribution = ("GPU and Memory Workload Distribution", "Workload Distribution")
    metrics = [
        ("GPU Speed Of Light Throughput", "", "Duration", "us", "26.21"),
        ("Instruction Statistics", "", "", "inst", "125952"),
        *((*distribution, label, "cycle", value) for label, value in cycles),
    ]
    header = (*LAUNCH, "Section Name", "Body Item Label", *METRIC[1:], *RULE)
    gpus = [("GPU ID", "GPU Name", "NUMA ID by CPU Affinity", "CPU Affinity", "NUMA ID by Memory Affinity")]
    gpus += [(str(number), "NVIDIA A100 80GB PCIe", "0", "0-23", "0") for number in range(2)]
    rows = [[launch_cells(number) + metric + ("",) for metric in metrics] for number in range(2)]
    page = as_csv(header, *rows[0], *gpus, *rows[1], *gpus)
    report = read(page)
    assert [value(launch, "gpu__time_duration.sum") for launch in report.launches] == pytest.approx([26.21e-6] * 2)
    assert report.warnings == ()
    shortened = read(page.replace('"L1 Active Cycles","cycle","0",""', '"L1 Active Cycles"', 1))
    assert len(shortened.warnings) == 1 and "line 10" in shortened.warnings[0]


def test_errors_of_ncu_torn_rows_and_a_cut_end_are_warnings() -> None:
    header, first, second = MIXED.splitlines()
    torn = read("\n".join([header, first[: first.index("gpu__time") + 4] + "hello", second, ""]))
    assert len(torn.launches) == 1 and torn.warnings[0].endswith("line 2")
    assert "error code (1)" in read(MIXED + "==ERROR== The application returned an error code (1).\n").warnings[0]
    cut = read(MIXED[:-6])
    assert len(cut.launches) == 1 and "line 3" in cut.warnings[0] and "truncated" in cut.warnings[0]
    with pytest.raises(InputError, match="line 2"):
        read(header + "\n" + first[:40])


@each_row(
    ("text", "part"),
    [
        ("", "is empty"), ("hello\n", "output of ncu"),
        ("==ERROR== No permission\n==WARNING== No kernels were profiled.\n", "'No permission'"),
        ("==WARNING== No kernels were profiled.\n", "No kernels"),
        (as_csv((*LAUNCH, "a__x.sum"), ("",) * 12), "header"),
    ],
)  # fmt: skip
def test_a_file_without_launches_says_what_it_is_and_how_to_export(text: str, part: str) -> None:
    with pytest.raises(InputError, match=part) as caught:
        read(text)
    assert str(caught.value).startswith("page.csv ") and "--page raw --csv" in (caught.value.hint or "")


# Any text.


@given(st.text())
@settings(max_examples=20)
def test_arbitrary_text_raises_nothing_else(text: str) -> None:
    with pytest.raises(GpuprofError):
        read(text)


RAW = {
    "a__x.sum": ("Kbyte", ["1.25", "2.5"]), "launch__func_cache_config": ("", ["none", "none"]),
    "b__x.sum": ("inst", ["12", "13"]),
}  # fmt: skip
DETAILS = (("Launch Statistics", "Threads", "thread", "21,760"), ("Occupancy", "Block Limit SM", "block", "32"))
PAGES = {raw_page(RAW): ("12", "13"), details_page(*DETAILS): ("21,760", "32"), MIXED: ("8,992", "9,056.50")}
"""Pages, with the last cell of each of their lines."""


@given(st.sampled_from([*PAGES]), st.floats(0, 1), st.integers(0, 40), st.text(max_size=40))
def test_a_page_altered_anywhere_raises_nothing_else(page: str, where: float, removed: int, added: str) -> None:
    at = int(where * len(page))
    try:
        report = read(page[:at] + added + page[at + removed :])
    except GpuprofError:
        return
    assert report.launches


@each_row(("page", "values"), PAGES.items())
def test_a_cut_file_gives_a_prefix_and_a_warning_or_an_error(page: str, values: tuple[str, ...]) -> None:
    whole = read(page)
    for cut in range(0, len(page), 7):
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
