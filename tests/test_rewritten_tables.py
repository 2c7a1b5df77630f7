"""ncu's tables as people rewrite them: made-up Markdown, whose values are those of the same table as ncu prints it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuprof
from gpuprof.errors import InputError
from gpuprof.model.recorded import Launch, Report
from gpuprof.read.details_labels import SECTIONS, is_known, labels, metric_name, needs_unit
from gpuprof.read.files import read_file
from gpuprof.read.metric_units import unit_of
from gpuprof.read.ncu_text import has_launch, read_ncu_text
from gpuprof.read.recognise import recognised
from tests.table import each_row

TIME = "gpu__time_duration.sum"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
HEADS = "| Metric Name | Metric Unit | Metric Value |\n|---|---|---|\n"
TABLE = f"""{HEADS}| Duration | us | 200.00 |
| DRAM Throughput | % | 12.50 |
| Memory Throughput | % | 25.00 |
"""


def read(text: str) -> Report:
    assert has_launch(text)
    return read_ncu_text(text, "README.md", "00")


def numbers(launch: Launch) -> dict[str, float | str]:
    return {name: metric.value for name in launch.metrics.names() if (metric := launch.metrics.get(name)) is not None}


def values(text: str, name: str) -> list[float | None]:
    return [launch.metrics.number(name) for launch in read(text).launches]


class Row(NamedTuple):
    """A metric of a section, as ncu prints it."""

    section: str
    label: str
    unit: str
    value: str


class Measured(NamedTuple):
    """Rows, each with a value of each launch."""

    rows: tuple[Row, ...]
    values: tuple[tuple[str, ...], ...]


def printed_unit(name: str) -> str:
    """Return a unit that ncu prints a metric in."""
    unit = unit_of(name) or ""
    return {"ns": "us", "nsecond": "us", "s": "us", "hz": "Ghz", "byte/s": "Gbyte/s", "byte/block": "Kbyte/block"}.get(
        unit, unit
    )


PRINTED = sorted(
    {
        (section, label, printed_unit(metric_name(section, label)))
        for section in SECTIONS - {"GPU Speed Of Light"}
        for label in labels()
        if "Roofline" not in section
        and is_known(section, label, "")
        and unit_of(metric_name(section, label)) is not None
    }
)
DECIMALS = st.decimals(2, 9_999, places=2).map(lambda number: f"{number:,}")
NUMBERS = st.one_of(DECIMALS, st.integers(2, 10**9).map(lambda number: f"{number:,}"))


@st.composite
def measured(draw: st.DrawFn, launches: int) -> Measured:
    """Draw some rows of ncu's tables, in the order of their sections, and DRAM Throughput."""
    places = draw(st.sets(st.sampled_from(PRINTED), min_size=1, max_size=12))
    places.add(("GPU Speed Of Light Throughput", "DRAM Throughput", "%"))
    # One label of each metric: versions of ncu differ in some, and none prints both.
    one_each = {metric_name(section, label): (section, label, unit) for section, label, unit in sorted(places)}
    rows = tuple(Row(*place, value="") for place in sorted(one_each.values()))
    return Measured(
        rows,
        tuple(
            tuple(draw(DECIMALS if row.label == "DRAM Throughput" else NUMBERS) for row in rows)
            for _ in range(launches)
        ),
    )


def as_ncu_prints(name: str, rows: Sequence[Row]) -> str:
    """Write a launch as ncu does."""
    dashes = f"    {'-' * 60} {'-' * 20} {'-' * 20}\n"
    text = f"  {name}(float *) (16, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0\n"
    for section in dict.fromkeys(row.section for row in rows):
        lines = [f"    {r.label:<60} {r.unit:>20} {r.value:>20}\n" for r in rows if r.section == section]
        head = f"    {'Metric Name':<60} {'Metric Unit':>20} {'Metric Value':>20}\n"
        text += f"    Section: {section}\n{dashes}{head}{dashes}{''.join(lines)}{dashes}\n"
    return text


def as_markdown(rows: Sequence[Row], columns: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    """Write sections with a heading and a Markdown table each, with a column for each launch."""
    text = ""
    for section in dict.fromkeys(row.section for row in rows):
        text += (
            f"### {section}\n\n| Metric Name | Metric Unit | {' | '.join(heads)} |\n|---|:-:|{'---:|' * len(heads)}\n"
        )
        for place, row in enumerate(rows):
            if row.section == section:
                text += f"| {row.label} | {row.unit} | {' | '.join(column[place] for column in columns)} |\n"
        text += "\n"
    return text


@given(st.integers(1, 3).flatmap(measured))
def test_a_table_that_was_rewritten_as_markdown_has_the_values_of_ncu_s_own(drawn: Measured) -> None:
    names = [f"kernel_{number}" for number in range(len(drawn.values))]
    printed = "".join(
        as_ncu_prints(name, [row._replace(value=value) for row, value in zip(drawn.rows, column, strict=True)])
        for name, column in zip(names, drawn.values, strict=True)
    )
    wide = as_markdown(drawn.rows, drawn.values, names)
    one_by_one = "".join(
        f"## {name} (CC 8.0)\n\n{as_markdown(drawn.rows, [column], ['Metric Value'])}"
        for name, column in zip(names, drawn.values, strict=True)
    )
    expected = read(printed)
    for text in (wide, one_by_one):
        report = read(text)
        assert [launch.name for launch in report.launches] == names
        assert [numbers(launch) for launch in report.launches] == [numbers(launch) for launch in expected.launches]
        assert not any("left out" in warning for warning in report.warnings)


def test_a_label_that_two_sections_have_is_of_one_launch_where_their_headings_stand() -> None:
    rows = (
        Row("GPU Speed Of Light Throughput", "DRAM Throughput", "%", ""),
        Row("Scheduler Statistics", "Issued Warp Per Scheduler", "", ""),
        Row("Warp State Statistics", "Issued Warp Per Scheduler", "", ""),
    )
    (launch,) = read(as_markdown(rows, [("50.00", "0.60", "0.60")], ["Metric Value"])).launches
    assert numbers(launch) == {DRAM: 50, "smsp__issue_active.avg.per_cycle_active": 0.6}


@given(measured(1), st.booleans())
def test_a_table_of_two_columns_has_the_values_of_ncu_s_own_or_none(drawn: Measured, has_unit: bool) -> None:
    rows = [row._replace(value=value) for row, value in zip(drawn.rows, drawn.values[0], strict=True)]
    printed = numbers(read(as_ncu_prints("k", rows)).launches[0])
    lines = [f"| {row.label} | {row.value} {row.unit if has_unit else ''} |\n" for row in rows]
    text = f"# Results\n\nMetric | Value\n--- | ---\n{''.join(lines)}"
    if not has_launch(text):
        return
    for launch in read(text).launches:
        assert numbers(launch).items() <= printed.items()
        assert has_unit or not any(needs_unit(name) for name in numbers(launch))


def test_a_document_s_table_of_one_kernel_is_a_launch_that_its_heading_names(tmp_path: Path) -> None:
    text = f"## my_kernel (CC 7.5)\n\n### GPU Speed Of Light Throughput\n\n{TABLE}\n### Occupancy\n\n{HEADS}"
    text += "| Achieved Occupancy | % | **50.00** |\n| Registers Per Thread | register/thread | 40 |\n"
    path = tmp_path / "README.md"
    path.write_text(text)
    assert recognised(str(path)) == "output of ncu"
    report = read_file(str(path))
    assert isinstance(report, Report)
    (launch,) = report.launches
    assert (launch.name, launch.grid, launch.stream) == ("my_kernel", None, None)
    assert numbers(launch) == {
        TIME: pytest.approx(200e-6), DRAM: 12.5, OCCUPANCY: 50, "launch__registers_per_thread": 40,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 25,
    }  # fmt: skip
    assert report.devices[0].compute_capability == "7.5"
    assert report.warnings == (
        "no line names the launch whose sections start in line 5: the shape of its grid, its stream are not known, and "
        "its GPU is taken to have the compute capability 7.5 of this text",
    )
    assert gpuprof.load(path).kernels[0].label == "my_kernel"


def test_rows_with_labels_units_or_values_of_others_are_left_out_and_counted() -> None:
    text = f"""{TABLE}| L2 throughput | % | 99.00 |
| L2 Cache Throughput | GB/s | 99.00 |
| L1/TEX Cache Throughput | % | about 99 |
| SM Active Cycles | cycle | 9 | 9 |
| # SMs | SM | 80 |
"""
    report = read(text)
    assert len(numbers(report.launches[0])) == 4
    assert (
        report.warnings[1] == "4 rows are left out from line 6 on: their label, unit or value is not as ncu prints it"
    )


@each_row(
    ("row", "is_read"),
    [
        ("Achieved Occupancy | 93.19", True),
        ("Achieved Occupancy | 93.19%", True),
        ("Achieved Occupancy (%) | 93.19", True),
        ("Achieved Occupancy | 0.9319", False),
        ("Achieved Occupancy | 0.93 %", True),
        ("achieved occupancy | 93.19", False),
        ("Achieved Occupancy | 93.19 → 95", False),
        ("Achieved Occupancy | +93.19", False),
        ("Duration | 99.49", False),
        ("Duration | 99.49 us", True),
        ("Duration [us] | 99.49", True),
        ("Duration | 99.49 µs", True),
        ("Duration | 99.49 kB", False),
        ("Memory Throughput | 99.49", False),
        ("Memory Throughput | 99.49 Gbyte/s", True),
        ("Memory Throughput | 99.49 GB/s", False),
        ("SM Frequency | 1.20 Ghz", False),
        ("`smsp__inst_executed.sum` | 1,200", True),
        ("smsp\\_\\_inst\\_executed.sum | 1,200 inst", True),
        ("smsp__inst_executed.sum | 1,200 sector", False),
        ("dram__bytes_read.sum | 1,200", False),
        ("dram__bytes_read.sum | 1.20 Mbyte", True),
    ],
)
def test_a_number_that_may_be_another_metric_is_not_read(row: str, is_read: bool) -> None:
    text = f"| Metric | Value |\n|---|---|\n| Block Limit Warps | 8 |\n| No Eligible | 12.00 % |\n| {row} |\n"
    (launch,) = read(text).launches
    assert len(numbers(launch)) == (3 if is_read else 2)


def test_columns_that_compare_or_say_something_are_no_launches() -> None:
    text = """| Metric | Before | After | Delta | Change of it | Remarks | Peak |
|---|---|---|---|---|---|---|
| Duration | 200.00 us | 100.00 us | 100.00 us | -50.0 | it is faster | 90.00 us |
| DRAM Throughput | 20.00 % | 40.00 % | 20.00 % | +20.0 | | 92.00 % |
"""
    report = read(text)
    assert [launch.demangled for launch in report.launches] == ["(unnamed 1)", "(unnamed 2)"]
    assert values(text, DRAM) == [20, 40]
    assert values(text, TIME) == pytest.approx([200e-6, 100e-6])
    assert report.warnings[1] == "the text calls (unnamed 1) 'Before', (unnamed 2) 'After'"
    assert report.warnings[2] == (
        "columns of rewritten tables are left out that are no launch's: Delta, Change of it, Remarks, Peak"
    )


@each_row("head", ["Theoretical", "Predicted by the model", "Estimated"])
def test_a_column_of_what_was_worked_out_is_no_launch(head: str) -> None:
    text = f"| Metric | {head} | Measured |\n|---|---|---|\n| DRAM Throughput | 92.50 % | 71.30 % |\n"
    assert values(text, DRAM) == [71.3]


def test_a_column_of_sections_before_the_labels_changes_nothing() -> None:
    text = """| Section | Metric | Naive | Shared |
|---|---|---|---|
| Speed Of Light | Duration | 447.00 us | 142.00 us |
| Scheduler | No Eligible | **99.12%** | 87.58% |
"""
    assert values(text, TIME) == pytest.approx([447e-6, 142e-6])
    assert values(text, "smsp__issue_inst0.avg.pct_of_peak_sustained_active") == [99.12, 87.58]


def test_a_table_may_have_a_launch_a_row_with_labels_as_heads() -> None:
    text = """| Kernel | Duration (us) | DRAM Throughput [%] | Compute (SM) Throughput (%) | Speed |
|---|---|---|---|---|
| gemm | 200.00 | 20.00 | 60.00 | 1x |
| `void copy<float>(float *)` | 100.00 | 90.00 | | |
| gemm | 210.00 | 21.00 | 61.00 | |
| Total | 510.00 | 50.00 | 50.00 | |
"""
    report = read(text)
    assert [launch.name for launch in report.launches] == ["gemm", "copy", "gemm"]
    assert values(text, TIME) == pytest.approx([200e-6, 100e-6, 210e-6])
    assert values(text, "sm__throughput.avg.pct_of_peak_sustained_elapsed") == [60, None, 61]
    assert report.warnings[1].startswith("1 row is left out from line 6 on")


def test_numbers_as_heads_are_kernels_that_another_table_names() -> None:
    text = """| ID | Kernel Name | Description |
|---|---|---|
| 1 | first_of_them | slow |
| 2 | second | fast |

| Metric Name | Metric Unit | 1 | 2 |
|---|---|---|---|
| DRAM Throughput | % | 20.00 | 40.00 |
"""
    assert [launch.name for launch in read(text).launches] == ["first_of_them", "second"]


@each_row(
    ("between", "launches"),
    [
        ("## Memory Workload Analysis\n", 1),
        ("## Memory\n", 1),
        ("### What the caches do\n", 1),
        ("Some words.\n", 1),
        ("## After\n", 2),
        ("**Kernel: `other`**\n", 2),
        ("### other_kernel\n", 2),
        ("other(float *) (16, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0\n", 2),
    ],
)
def test_a_heading_that_is_no_section_s_begins_the_next_launch(between: str, launches: int) -> None:
    text = f"## Before\n\n{TABLE}\n{between}\n{HEADS}| L2 Hit Rate | % | 80.00 |\n"
    assert len(read(text).launches) == launches


def test_a_label_that_comes_again_is_of_the_next_launch() -> None:
    text = f"## my_kernel\n\n{TABLE}\nand then\n\n{TABLE.replace('12.50', '37.50')}"
    assert values(text, DRAM) == [12.5, 37.5]
    assert [launch.name for launch in read(text).launches] == ["my_kernel", ""]
    twice = f"{TABLE}| DRAM Throughput | % | 37.50 |\n"
    assert not has_launch(twice)


def test_ncu_s_own_line_above_a_rewritten_table_names_its_launch() -> None:
    line = "  copy(float *) (16, 2, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0\n"
    report = read(f"{line}\n{TABLE}")
    (launch,) = report.launches
    assert (launch.name, launch.grid, launch.block) == ("copy", (16, 2, 1), (256, 1, 1))
    assert launch.metrics.number(DRAM) == 12.5
    assert report.warnings == ()


def test_tables_beside_output_of_ncu_are_not_read_and_told() -> None:
    row = Row("GPU Speed Of Light Throughput", "DRAM Throughput", "%", "90.00")
    report = read(f"{as_ncu_prints('k', [row])}\n\n# All of it\n\n{TABLE}")
    assert [launch.metrics.number(DRAM) for launch in report.launches] == [90]
    assert report.warnings == ("the tables of ncu that are rewritten in this text, beside its output, are not read",)


@each_row("mark", ["", "- ", "* **"], ids=["plain", "list", "bold"])
def test_lines_of_label_and_value_are_read_if_all_of_them_are_ncu_s(mark: str) -> None:
    colon = ":**" if "**" in mark else ":"
    lines = [("Duration", "99.49 us"), ("DRAM Throughput", "28.55%"), ("Registers Per Thread", "16")]
    text = "## Before\n\n```\n" + "".join(f"{mark}{label}{colon}   {value}\n" for label, value in lines) + "```\n"
    (launch,) = read(text).launches
    assert numbers(launch) == {TIME: pytest.approx(99.49e-6), DRAM: 28.55, "launch__registers_per_thread": 16}
    for other in ("Compute Throughput: 40.23%", "L2 Hit Rate: 60.70%  <- low", "And so on."):
        assert not has_launch(text.replace("Before\n\n```\n", f"Before\n\n```\n{other}\n"))
        assert not has_launch(text.replace("16\n", f"16\n{other}\n"))


@each_row(
    "text",
    [
        "| Parameter | Value |\n|---|---|\n| Block Size | 256 |\n| Grid Size | 4096 |\n| Duration | 12.00 ms |\n",
        "Block Size: 256\nThreads: 4096\nDuration: 12 ms\n",
        "| Kernel | Time | Speedup |\n|---|---|---|\n| gemm | 12.0 | 1.5 |\n",
        "| GPU | DRAM Frequency (GHz) | SM Frequency (GHz) |\n|---|---|---|\n| H100 | 2.62 | 1.98 |\n",
    ],
    ids=["table", "lines", "other", "clocks of GPUs"],
)
def test_labels_that_programs_have_as_well_are_no_table_of_ncu(text: str, tmp_path: Path) -> None:
    assert not has_launch(text)
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(InputError, match="is not output of ncu"):
        read_file(str(tmp_path / "README.md"))


@each_row(
    "text",
    [
        "| | one | other |\n|---|---|---|\n| DRAM throughput | 46.79% | 53.56% |\n",
        "| Metric | Target | Critical If Below |\n|---|---|---|\n| Achieved Occupancy | 50-80% | 30% |\n",
        "Achieved Occupancy:   93.19%  → high\nCompute Throughput:  40.23%\n",
        "| Kernel | Achieved Occupancy |\n|---|---|\n| gemm | 12.0 or so |\n",
    ],
    ids=["small letters", "goals", "lines", "heads"],
)
def test_a_refusal_says_that_a_table_looks_rewritten_and_what_to_do(text: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(InputError, match="looks like ncu's table rewritten") as caught:
        read_file(str(tmp_path / "README.md"))
    assert caught.value.hint is not None and "--page details" in caught.value.hint
    assert not has_launch(text)
