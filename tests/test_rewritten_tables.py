"""ncu's tables as people rewrite them: made-up Markdown, whose values are those of the same table as ncu prints it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuprof
from gpuprof.errors import InputError
from gpuprof.model.recorded import Launch, Report
from gpuprof.read.details_labels import SECTIONS, is_known, labels, metric_name
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


@settings(max_examples=15)
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
    assert len(report.warnings) == 1 and "line 5" in report.warnings[0]
    assert gpuprof.load(path).kernels[0].label == "my_kernel"


LINE = "  copy(float *) (16, 2, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0\n"
LAUNCHES: dict[str, tuple[str, list[str], list[float | None]]] = {
    "columns that compare or say something": (
        """| Metric | Before | After | Delta | Change of it | Remarks | Peak |
|---|---|---|---|---|---|---|
| Duration | 200.00 us | 100.00 us | 100.00 us | -50.0 | it is faster | 90.00 us |
| DRAM Throughput | 20.00 % | 40.00 % | 20.00 % | +20.0 | | 92.00 % |
""",
        ["(unnamed 1)", "(unnamed 2)"], [20, 40],
    ),
    **{f"a column that is {head}": (
        f"| Metric | {head} | Measured |\n|---|---|---|\n| DRAM Throughput | 92.50 % | 71.30 % |\n",
        ["(unnamed)"], [71.3],
    ) for head in ("Theoretical", "Predicted by the model", "Estimated")},
    "a column of sections": (
        """| Section | Metric | Naive | Shared |
|---|---|---|---|
| Speed Of Light | DRAM Throughput | 44.70 % | 14.20 % |
| Scheduler | No Eligible | **99.12%** | 87.58% |
""",
        ["(unnamed 1)", "(unnamed 2)"], [44.7, 14.2],
    ),
    "a launch a row": (
        """| Kernel | Duration (us) | DRAM Throughput [%] | Compute (SM) Throughput (%) | Speed |
|---|---|---|---|---|
| gemm | 200.00 | 20.00 | 60.00 | 1x |
| `void copy<float>(float *)` | 100.00 | 90.00 | | |
| gemm | 210.00 | 21.00 | 61.00 | |
| Total | 510.00 | 50.00 | 50.00 | |
""",
        ["gemm", "void copy<float>(float *)", "gemm"], [20, 90, 21],
    ),
    "numbers as heads, which another table names": (
        "| ID | Kernel Name | Description |\n|---|---|---|\n| 1 | first_of_them | slow |\n| 2 | second | fast |\n\n"
        "| Metric Name | Metric Unit | 1 | 2 |\n|---|---|---|---|\n| DRAM Throughput | % | 20.00 | 40.00 |\n",
        ["first_of_them", "second"], [20, 40],
    ),
    "a label that comes again": (
        f"## my_kernel\n\n{TABLE}\nand then\n\n{TABLE.replace('12.50', '37.50')}",
        ["my_kernel", "(unnamed)"], [12.5, 37.5],
    ),
    "ncu's own line above": (f"{LINE}\n{TABLE}", ["copy(float *)"], [12.5]),
    "beside output of ncu": (
        as_ncu_prints("k", [Row("GPU Speed Of Light Throughput", "DRAM Throughput", "%", "90.00")])
        + f"\n# All\n\n{TABLE}",
        ["k(float *)"], [90],
    ),
    "rows of others": (
        f"{TABLE}| L2 throughput | % | 99.00 |\n| L2 Cache Throughput | GB/s | 99.00 |\n"
        "| L1/TEX Cache Throughput | % | about 99 |\n| SM Active Cycles | cycle | 9 | 9 |\n| # SMs | SM | 80 |\n",
        ["(unnamed)"], [12.5],
    ),
}  # fmt: skip


@each_row("name", LAUNCHES)
def test_launches_of_rewritten_tables_are_those_that_were_measured(name: str) -> None:
    text, names, dram = LAUNCHES[name]
    report = read(text)
    assert [launch.demangled for launch in report.launches] == names
    assert [launch.metrics.number(DRAM) for launch in report.launches] == dram
    if name == "rows of others":
        assert len(numbers(report.launches[0])) == 4 and report.warnings[1].startswith("4 rows ")


@each_row(
    ("row", "is_read"),
    [
        *((row, True) for row in (
            "Achieved Occupancy | 93.19", "Achieved Occupancy | 93.19%", "Achieved Occupancy (%) | 93.19",
            "Achieved Occupancy | 0.93 %", "Duration | 99.49 us", "Duration [us] | 99.49", "Duration | 99.49 µs",
            "Memory Throughput | 99.49 Gbyte/s", "`smsp__inst_executed.sum` | 1,200",
            "smsp\\_\\_inst\\_executed.sum | 1,200 inst", "dram__bytes_read.sum | 1.20 Mbyte")),
        *((row, False) for row in (
            "Achieved Occupancy | 0.9319", "achieved occupancy | 93.19", "Achieved Occupancy | 93.19 → 95",
            "Achieved Occupancy | +93.19", "Duration | 99.49", "Duration | 99.49 kB", "Memory Throughput | 99.49",
            "Memory Throughput | 99.49 GB/s", "SM Frequency | 1.20 Ghz", "smsp__inst_executed.sum | 1,200 sector",
            "dram__bytes_read.sum | 1,200")),
    ],
)  # fmt: skip
def test_a_number_that_may_be_another_metric_is_not_read(row: str, is_read: bool) -> None:
    text = f"| Metric | Value |\n|---|---|\n| Block Limit Warps | 8 |\n| No Eligible | 12.00 % |\n| {row} |\n"
    (launch,) = read(text).launches
    assert len(numbers(launch)) == (3 if is_read else 2)


@each_row(
    ("text", "is_rewritten"),
    [
        *((text, False) for text in (
            "| Parameter | Value |\n|---|---|\n| Block Size | 256 |\n| Grid Size | 4096 |\n| Duration | 12.00 ms |\n",
            "Block Size: 256\nThreads: 4096\nDuration: 12 ms\n",
            "| Kernel | Time | Speedup |\n|---|---|---|\n| gemm | 12.0 | 1.5 |\n",
            "| GPU | DRAM Frequency (GHz) | SM Frequency (GHz) |\n|---|---|---|\n| H100 | 2.62 | 1.98 |\n")),
        *((text, True) for text in (
            "| | one | other |\n|---|---|---|\n| DRAM throughput | 46.79% | 53.56% |\n",
            "| Metric | Target | Critical If Below |\n|---|---|---|\n| Achieved Occupancy | 50-80% | 30% |\n",
            "Achieved Occupancy:   93.19%  → high\nCompute Throughput:  40.23%\n",
            "| Kernel | Achieved Occupancy |\n|---|---|\n| gemm | 12.0 or so |\n")),
    ],
)  # fmt: skip
def test_labels_that_programs_have_as_well_are_no_table_of_ncu(text: str, is_rewritten: bool, tmp_path: Path) -> None:
    assert not has_launch(text)
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(InputError) as caught:
        read_file(str(tmp_path / "README.md"))
    assert ("rewritten" in caught.value.message) is is_rewritten
    assert not is_rewritten or "--page details" in (caught.value.hint or "")
