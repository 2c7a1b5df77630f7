"""ncu's tables as people rewrite them: made-up Markdown, whose values are those of the same table as ncu prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuprof
from gpuprof.errors import InputError
from gpuprof.model.recorded import Launch, Report
from gpuprof.read.files import read_file
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
    "a label that comes again": (
        f"## my_kernel\n\n{TABLE}\nand then\n\n{TABLE.replace('12.50', '37.50')}",
        ["my_kernel", "(unnamed)"], [12.5, 37.5],
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
            "Achieved Occupancy | 93.19%", "Achieved Occupancy (%) | 93.19", "Duration | 99.49 us",
            "`smsp__inst_executed.sum` | 1,200", "dram__bytes_read.sum | 1.20 Mbyte")),
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
