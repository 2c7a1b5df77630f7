"""ncu's CSV after pandas, Excel or another spreadsheet has saved it: the same launches with the same numbers."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.errors import InputError
from gpuprof.model.recorded import Report
from gpuprof.read.files import read_file
from gpuprof.read.ncu_csv import read_ncu_csv
from tests.table import each_row

LAUNCH = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC",
)  # fmt: skip
NAMES = ("void ns::copy<float, (int)4>(float *, const float *)", 'say(char const *, "x")')
LIGHT, STATS, COMMAND = "GPU Speed Of Light Throughput", "Launch Statistics", "Command line profiler metrics"
DETAILS = (
    (LIGHT, "Duration", "us", ("3.74", "78.53")),
    (LIGHT, "Elapsed Cycles", "cycle", ("8,277", "173,552")),
    (LIGHT, "DRAM Throughput", "%", ("0.00", "63.05")),
    ("Memory Workload Analysis", "Memory Throughput", "Gbyte/s", ("0.00", "412.19")),
    (STATS, "Registers Per Thread", "register/thread", ("16", "32")),
    (STATS, "Function Cache Configuration", "", ("CachePreferNone", "CachePreferNone")),
    (STATS, "Waves Per SM", "", ("0.03", "1.41")),
    (COMMAND, "smsp__inst_executed.sum", "inst", ("1,048,576", "32,768")),
)
RAW = (
    ("gpu__time_duration.sum", "usecond", ("3.744000", "78.528000")),
    ("gpc__cycles_elapsed.max", "cycle", ("8277", "173552")),
    ("dram__bytes.sum", "Mbyte", ("8.388608", "0.065536")),
    ("launch__waves_per_multiprocessor", "", ("0.125000", "1.500000")),
    ("launch__func_cache_config", "", ("CachePreferNone", "CachePreferNone")),
    ("smsp__inst_executed.sum", "inst", ("1048576", "32768")),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", ("41.200000", "12.100000")),
)


def launch_cells(number: int) -> tuple[str, ...]:
    return (str(number), "12342", "app", "127.0.0.1", NAMES[number], "1", "7", "(256, 1, 1)", "(16, 2, 1)", "0", "8.0")


def as_csv(rows: Sequence[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


def details_page() -> str:
    header = (*LAUNCH, "Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Description")
    rows = [
        (*launch_cells(number), section, label, unit, values[number], "", "")
        for number in (0, 1)
        for section, label, unit, values in DETAILS
    ]
    rule = (*launch_cells(1), LIGHT, "", "", "", "SOLBottleneck", "Line 1,\nline 2; it says")
    return as_csv([header, *rows, rule])


def raw_page() -> str:
    units = ("",) * len(LAUNCH) + tuple(unit for _, unit, _ in RAW)
    rows = [launch_cells(number) + tuple(values[number] for _, _, values in RAW) for number in (0, 1)]
    return as_csv([LAUNCH + tuple(name for name, _, _ in RAW), units, *rows])


PAGES = {"details": details_page(), "raw": raw_page()}


def read(text: str) -> Report:
    return read_ncu_csv(text, "page.csv", "00")


def numbers(report: Report) -> list[tuple[object, ...]]:
    """What is known of each launch, and the value of each of its metrics."""
    return [
        (
            launch.demangled, launch.grid, launch.block, launch.process, launch.stream,
            {name: metric.value for name in launch.metrics.names() if (metric := launch.metrics.get(name)) is not None},
        )
        for launch in sorted(report.launches, key=lambda launch: launch.demangled)
    ]  # fmt: skip


def assert_same(saved: str, page: str) -> None:
    report, original = read(saved), read(page)
    for mine, other in zip(numbers(report), numbers(original), strict=True):
        assert mine[:-1] == other[:-1]
        assert mine[-1] == pytest.approx(other[-1])
    assert {device.compute_capability for device in report.devices} == {"8.0"}
    assert report.warnings == ()


@given(
    page=st.sampled_from([*PAGES.values()]),
    types=st.sampled_from([None, str]),
    separator=st.sampled_from([(",", "."), (";", ","), (";", "."), ("\t", ","), ("\t", ".")]),
    index=st.sampled_from([None, "", "row", "Unnamed: 0"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    order=st.sampled_from(["same", "reversed", "kernel first"]),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from(["", "\ufeff", "sep=;\n"]),
)
@settings(max_examples=60)
def test_what_pandas_saves_is_read_as_what_ncu_printed(
    page: str, types: type | None, separator: tuple[str, str], index: str | None, quoting: int, order: str,
    end: str, mark: str,
) -> None:  # fmt: skip
    frame = pd.read_csv(io.StringIO(page), dtype=types)
    if order == "reversed":
        frame = frame[[*frame.columns[::-1]]]
    elif order == "kernel first":
        frame = frame[["Kernel Name", *frame.columns.drop("Kernel Name")]]
    delimiter, decimal = separator
    saved: str = frame.to_csv(  # type: ignore[call-overload]
        sep=delimiter, decimal=decimal, index=index is not None, index_label=index or None, quoting=quoting,
        lineterminator=end,
    )  # fmt: skip
    assert_same(mark + saved, page)


def excel_text(cell: str, decimal: str) -> str:
    """A cell as Excel writes it: numbers without needless zeros, in the user's language."""
    if re.fullmatch(r"[\d,]+\.\d+|[\d,]+", cell) is None:
        return cell
    return f"{float(cell.replace(',', '')):.10g}".replace(".", decimal).replace("e", "E")


@each_row(
    ("delimiter", "decimal", "encoding"),
    [
        (";", ",", "utf-8-sig"), (";", ",", "cp1252"), ("\t", ",", "utf-16"), ("\t", ".", "utf-16"),
        (",", ".", "utf-8"), ("\t", ",", "utf-16-le"), (";", ",", "utf-16-be"),
    ],
)  # fmt: skip
@each_row("page", PAGES.values())
def test_what_a_spreadsheet_saves_is_read_from_files_streams_and_archives(
    page: str, delimiter: str, decimal: str, encoding: str, tmp_path: Path
) -> None:
    rows = [[excel_text(cell, decimal) for cell in row] for row in csv.reader(io.StringIO(page))]
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerows([*rows, [""] * len(rows[0])])
    assert_same(out.getvalue(), page)
    data = out.getvalue().encode(encoding)
    (tmp_path / "saved.csv").write_bytes(data)
    (tmp_path / "saved.csv.gz").write_bytes(gzip.compress(data))
    for name in ("saved.csv", "saved.csv.gz"):
        report = read_file(str(tmp_path / name))
        assert isinstance(report, Report)
        assert numbers(report) == numbers(read(out.getvalue()))


def test_columns_and_rows_may_be_dropped_added_and_sorted() -> None:
    frame = pd.read_csv(io.StringIO(PAGES["raw"]), dtype=str)
    frame["speedup"] = "2.5"
    frame["note"] = "a; b"
    assert_same(frame.sort_values("Kernel Name").to_csv(), PAGES["raw"])
    few = read(frame[["Kernel Name", "gpu__time_duration.sum"]].to_csv())
    assert [launch.metrics.number("gpu__time_duration.sum") for launch in few.launches] == pytest.approx(
        [3.744e-6, 78.528e-6]
    )
    assert (few.launches[0].grid, few.launches[0].process, few.warnings) == (None, None, ())
    details = pd.read_csv(io.StringIO(PAGES["details"]), dtype=str)
    one = read(details[details["Metric Name"] == "Duration"].to_csv(sep=";"))
    assert [launch.metrics.names() for launch in one.launches] == [("gpu__time_duration.sum",)] * 2


def test_a_header_of_two_rows_has_the_units_in_the_second() -> None:
    frame = pd.read_csv(io.StringIO(PAGES["raw"]), header=[0, 1])
    assert_same(frame.to_csv(), PAGES["raw"])


def test_labels_without_the_column_of_sections_are_those_of_the_only_section_that_has_them() -> None:
    text = (
        "Kernel Name,Metric Name,Metric Unit,Metric Value\ngemm,Duration,us,142.5\ngemm,Memory Throughput,Gbyte/s,2.5\n"
    )
    (launch,) = read(text + "gemm,dram__bytes.sum,Kbyte,3.5\ngemm,Shared Memory,byte,1.0\n").launches
    assert launch.metrics.number("gpu__time_duration.sum") == pytest.approx(142.5e-6)
    assert launch.metrics.number("dram__bytes.sum.per_second") == 2.5e9
    assert launch.metrics.number("dram__bytes.sum") == 3500


def test_launches_of_one_id_in_tables_that_were_put_together_stay_apart() -> None:
    header = "ID,Process ID,Kernel Name,Section Name,Metric Name,Metric Unit,Metric Value\n"

    def rows(kernel: str, duration: float, unit: str = "us") -> str:
        values = ((LIGHT, "DRAM Throughput", "%", "63.05"), (LIGHT, "Duration", unit, str(duration)))
        return "".join(f"0,1,{kernel},{','.join(value)}\n" for value in values)

    def read_as(text: str, kept: Sequence[str]) -> list[tuple[str, float, float | None]]:
        report = read(pd.read_csv(io.StringIO(text))[[*kept]].to_csv(index=False))
        return [
            (
                launch.name,
                round(1e6 * (launch.metrics.number("gpu__time_duration.sum") or 0), 3),
                launch.metrics.number("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
            )
            for launch in report.launches
        ]

    columns = header.strip().split(",")
    two = header + rows("scale", 78.5) + rows("copy", 157.0)
    assert read_as(two, columns) == [("scale", 78.5, 63.05), ("copy", 157.0, 63.05)]
    assert read_as(two, [name for name in columns if name != "Process ID"]) == read_as(two, columns)
    again = header + rows("scale", 78.5) + rows("scale", 1.5, unit="ms")
    both = [("scale", 78.5, 63.05), ("scale", 1500.0, 63.05)]
    assert read_as(again, columns) == read_as(again, columns[2:]) == both
    # The same rows twice are the same launch.
    assert read_as(header + 2 * rows("scale", 78.5), columns) == both[:1]


def test_launches_of_raw_pages_that_were_put_together_have_the_units_of_their_own_page() -> None:
    pages = [
        f"ID,Kernel Name,gpu__time_duration.sum,smsp__inst_executed.sum\n,,{unit},inst\n0,{kernel},{time},7\n"
        for kernel, unit, time in (("scale", "usecond", 3.5), ("copy", "msecond", 4.5))
    ]
    joined = pd.concat([pd.read_csv(io.StringIO(page)) for page in pages])
    summed = joined.to_csv() + "2,,,8.0,14\n"
    for text, warnings in ((joined.to_csv(index=False), 0), (joined.to_csv(), 0), (summed, 1)):
        report = read(text)
        assert [launch.metrics.number("gpu__time_duration.sum") for launch in report.launches] == pytest.approx(
            [3.5e-6, 4.5e-3]
        )
        assert len(report.warnings) == warnings
    # Sorted, with both rows of units at the end, nothing says which one a duration has.
    for launch in read(joined.sort_values("Kernel Name").to_csv(index=False)).launches:
        assert launch.metrics.names() == ("smsp__inst_executed.sum",)


def test_mixed_rows_of_launches_that_no_column_distinguishes_are_left_out() -> None:
    rows = "Kernel Name;Metric Name;Metric Unit;Metric Value\nscale;gpu__time_duration.sum;ns;1500.5\n"
    mixed = "copy;gpu__time_duration.sum;ns;2000.5\ncopy;smsp__inst_executed.sum;inst;7\n"
    report = read(rows + mixed + "copy;gpu__time_duration.sum;ns;3000.505\n")
    assert [launch.name for launch in report.launches] == ["scale"]
    assert len(report.warnings) == 1 and "line 3" in report.warnings[0]


def test_labels_that_a_table_of_a_launch_repeats_begin_no_launch() -> None:
    """Read the workload distribution of a real report, as `--print-details all` prints it, without the column ID."""
    cycles = ("DRAM,1190.50", "DRAM,1408", "DRAM,928", "DRAM,47620", "L1,19896.08", "L1,25438", "L1,0", "L1,2148777")
    header = "Kernel Name,Grid Size,Section Name,Body Item Label,Metric Name,Metric Unit,Metric Value\n"

    def rows(duration: str) -> str:
        values = [f"{LIGHT},,Duration,usecond,{duration}"]
        for part, value in (cycle.split(",") for cycle in cycles):
            section = "GPU and Memory Workload Distribution,Workload Distribution"
            values.append(f"{section},{part} Active Cycles,cycle,{value}")
        return "".join(f'scale,"(96, 1, 1)",{value}\n' for value in values)

    for durations in (["26.21"], ["26.21", "10.86"]):
        report = read(header + "".join(map(rows, durations)))
        times = [launch.metrics.number("gpu__time_duration.sum") for launch in report.launches]
        assert times == pytest.approx([1e-6 * float(duration) for duration in durations])
        assert report.warnings == ()


# Numbers that can be read both ways.


@each_row(
    ("cells", "read_as"),
    [
        (("3,744", "8,277"), (None, None)), (("3.744", "8.277"), (None, None)), (("3,744", "0,125"), (3.744, 0.125)),
        (("3.744", "0.125"), (3.744, 0.125)), (("3,744", "12,5"), (3.744, 12.5)), (("3,744", "12.5"), (3744, 12.5)),
        (("1,5E+03", "3,744"), (1500, 3.744)), (("1.5e-05", "3.744"), (1.5e-5, 3.744)),
        (("1.234,5", "2.345"), (1234.5, 2345)), (("7", "8"), (7, 8)),
    ],
)  # fmt: skip
@each_row("delimiter", [";", "\t", ","])
def test_a_comma_or_point_before_three_digits_counts_only_beside_numbers_that_show_which_it_is(
    delimiter: str, cells: tuple[str, str], read_as: tuple[float | None, float | None]
) -> None:
    header = ("ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value")
    rows = [("0", "scale", f"sm__made_{place}.sum", "inst", cell) for place, cell in enumerate(cells)]
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([header, *rows])
    report = read(out.getvalue())
    if delimiter == "," and cells == ("3.744", "8.277"):
        read_as = 3.744, 8.277
    (launch,) = report.launches
    assert tuple(launch.metrics.number(f"sm__made_{place}.sum") for place in (0, 1)) == pytest.approx(read_as)
    assert len(report.warnings) == read_as.count(None) / 2


def test_a_column_of_numbers_follows_those_of_numbers_and_not_those_with_words() -> None:
    # pandas has written the numbers with commas, and left cells beside words as ncu printed them.
    header = "ID;Kernel Name;sm__shown.sum;sm__unclear.sum;sm__word.sum;sm__unclear_word.sum\n;;inst;inst;inst;inst\n"
    report = read(f"{header}0;scale;0,5;33,952;no data;no data\n1;scale;0,25;16,448;0.125;1,048\n")
    read_as = {"sm__shown.sum": 0.25, "sm__unclear.sum": 16.448, "sm__word.sum": 0.125}
    metrics = report.launches[1].metrics
    assert {name: metrics.number(name) for name in metrics.names()} == read_as
    assert len(report.warnings) == 1 and "1,048" in report.warnings[0]


def test_a_rounded_exponent_keeps_few_digits_and_commas_between_thousands_stay() -> None:
    (launch,) = read('Kernel Name,launch__grid_size,sm__x.sum\n,,inst\nscale,"1,048,576",1E+05\n').launches
    assert launch.metrics.number("launch__grid_size") == 1048576
    assert (launch.metrics.number("sm__x.sum"), launch.metrics.digits("sm__x.sum")) == (1e5, 1)


def test_the_last_value_is_left_out_if_no_line_break_ends_a_file_without_quotes() -> None:
    text = "Kernel Name,launch__grid_size,smsp__inst_executed.sum\n,,inst\nscale,8,78.53"
    report = read(text)
    assert report.launches[0].metrics.names() == ("launch__grid_size",)
    assert "line 3" in report.warnings[0]


@each_row(
    ("above", "last", "kept", "warned"),
    [
        (("78.53", "63.05"), "83.00", True, False),  # as many digits as all above it: whole
        (("78.53", "63.05"), "83.0", False, True),
        (("78.53", "63.1"), "83", True, True),  # a spreadsheet has left out zeros
        (("785", "63"), "83", True, True),
        (("785", "63"), "8.", False, True), (("785", "63"), "CachePrefer", False, True),
    ],
)  # fmt: skip
def test_a_whole_last_value_of_a_spreadsheet_is_kept_without_a_line_break(
    above: tuple[str, ...], last: str, kept: bool, warned: bool
) -> None:
    rows = [f"k{at},{at},{value}" for at, value in enumerate((*above, last))]
    report = read("\n".join(["Kernel Name,launch__grid_size,smsp__inst_executed.sum", ",,inst", *rows]))
    assert report.launches[2].metrics.names() == ("launch__grid_size", "smsp__inst_executed.sum")[: 1 + kept]
    assert len(report.warnings) == warned
    cut = read("\n".join(["Kernel Name,launch__grid_size,smsp__inst_executed.sum", ",,inst", *rows[:2], "k2,2"]))
    assert len(cut.launches) == 3 and "truncated" in cut.warnings[0]


@each_row(
    "text",
    [
        '"Kernel Name","scale__half.sum(float *)"\n"Address","Source"\n', "Kernel Name;Duration\nscale;3\n",
        "a;b\n1;2\n", "Kernel Name,gpu__time_duration.sum\n",
    ],
)  # fmt: skip
def test_other_tables_are_no_launches(text: str) -> None:
    with pytest.raises(InputError):
        read(text)


@given(
    page=st.sampled_from([*PAGES.values()]),
    where=st.floats(0, 1),
    removed=st.integers(0, 40),
    added=st.text(max_size=9),
)
@settings(max_examples=60)
def test_a_saved_page_altered_anywhere_gives_launches_or_an_error(
    page: str, where: float, removed: int, added: str
) -> None:
    saved = pd.read_csv(io.StringIO(page), dtype=str).to_csv(sep=";")
    at = int(where * len(saved))
    try:
        report = read(saved[:at] + added + saved[at + removed :])
    except InputError:
        return
    assert report.launches


def test_a_saved_page_cut_anywhere_has_no_other_number() -> None:
    for page in PAGES.values():
        saved = pd.read_csv(io.StringIO(page), dtype=str).to_csv(sep="\t")
        whole = {launch.demangled: launch.metrics for launch in read(saved).launches}
        for cut in range(0, len(saved), 5):
            try:
                part = read(saved[:cut])
            except InputError:
                continue
            for launch in part.launches:
                known = whole[launch.demangled]
                for name in launch.metrics.names():
                    assert launch.metrics.number(name) == known.number(name), (cut, name)
