"""ncu's summaries, --print-summary: launches of a kernel as one, with minimum, maximum and average of each metric."""

from __future__ import annotations

import csv
import io

import pytest

from gpuprof.errors import InputError
from gpuprof.model.analyse import analyse
from gpuprof.model.recorded import Report
from gpuprof.model.run_totals import run_of
from gpuprof.model.session import KernelProfile
from gpuprof.read.ncu_csv import read_ncu_csv
from gpuprof.read.ncu_text import has_launch, read_ncu_text
from tests import builders
from tests.table import each_row
from tests.worded import grouped

DURATION, CYCLES = "gpu__time_duration.sum", "gpc__cycles_elapsed.max"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
SECTION = "GPU Speed Of Light Throughput"
METRICS = ("Metric Name", "Metric Unit", "Minimum", "Maximum", "Average")
ROWS = {
    "scale": (
        ("Elapsed Cycles", "cycle", "7000.00", "9000.00", "8000.00"),
        ("Duration", "usecond", "3.50", "4.50", "4.00"),
        ("DRAM Throughput", "%", "40.00", "60.00", "50.25"),
    ),
    "copy": (
        ("Elapsed Cycles", "cycle", "900.00", "900.00", "900.00"),
        ("Duration", "msecond", "1.50", "1.50", "1.50"),
        ("DRAM Throughput", "%", "0.00", "0.00", "0.00"),
    ),
}
INVOCATIONS = {"scale": 7, "copy": 1}
NOTE = """\
  Note: The shown averages are calculated as the arithmetic mean of the metric values after the evaluation of the
  metrics for each individual kernel launch.
"""
TABLE = """\
      Section: GPU Speed Of Light Throughput
      --------------- ----------- ------- ------- -------
      Metric Name     Metric Unit Minimum Maximum Average
      --------------- ----------- ------- ------- -------
{}
      --------------- ----------- ------- ------- -------

"""
RAW_ROW = "  {:39} {:11} {:9} {:9} {:9}"


def table(name: str) -> str:
    return TABLE.format("\n".join(f"      {a:15} {b:>11} {c:>7} {d:>7} {e:>7}" for a, b, c, d, e in ROWS[name]))


def raw_table(name: str) -> str:
    names = {"Elapsed Cycles": CYCLES, "Duration": DURATION, "DRAM Throughput": "dram__throughput.avg.pct_of_peak"}
    rows = [RAW_ROW.format(names[label], *cells) for label, *cells in ROWS[name]]
    head = RAW_ROW.format("Metric Name", *METRICS[1:])
    dashes = "  " + " ".join(["-" * 39, "-" * 11, *["-" * 9] * 3])
    attribute = RAW_ROW.format("device__attribute_display_name", "", "", "", "NVIDIA T4")
    return "\n".join([head, dashes, attribute, *rows, "", ""])


PER_KERNEL = "[41] app@127.0.0.1\n" + "".join(
    f"  {name}(float *) (16, 2, 1)x(256, 1, 1), Device 0, CC 8.6, Invocations {number}\n{table(name)}"
    for name, number in INVOCATIONS.items()
)
PER_GPU = "[41] app@127.0.0.1\n  Device 0, CC 8.6\n" + "".join(
    f"    {name}(float *) (16, 2, 1)x(256, 1, 1), Invocations {number}\n{table(name)}"
    for name, number in INVOCATIONS.items()
)
PER_NVTX = "== NVTX State ==\n<default domain>\n  <Forward>\n" + PER_KERNEL.partition("\n")[2]
RAW = "[41] app@127.0.0.1\n" + "".join(
    f"  {name}(float *) (16, 2, 1)x(256, 1, 1), Device 0, CC 8.6, Invocations {number}\n{raw_table(name)}"
    for name, number in INVOCATIONS.items()
)


def csv_rows(*launch: str, order: tuple[str, ...]) -> str:
    """A summary as CSV; `launch` are columns before those of the kernel, and `order` all of the kernel's."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    given = {"Process ID": "41", "Process Name": "app", "Host Name": "127.0.0.1", "Domain": "<default domain>"}
    given["Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"] = ' "Forward:none:none:none:none:none:none" '
    writer.writerow([*launch, *order, "Section Name", *METRICS])
    for name, rows in ROWS.items():
        kernel = {
            "Kernel Name": f"{name}(float *)", "Block Size": "(256, 1, 1)", "Grid Size": "(16, 2, 1)",
            "Device": "0", "CC": "8.6", "Invocations": str(INVOCATIONS[name]),
        }  # fmt: skip
        writer.writerows([*map({**given, **kernel}.__getitem__, (*launch, *order)), SECTION, *row] for row in rows)
    return out.getvalue()


PROCESS = ("Process ID", "Process Name", "Host Name")
CSV_PER_KERNEL = csv_rows(
    *PROCESS, order=("Kernel Name", "Block Size", "Grid Size", "Device", "CC", "Invocations")
)  # fmt: skip
CSV_PER_GPU = csv_rows(*PROCESS, order=("Device", "CC", "Kernel Name", "Block Size", "Grid Size", "Invocations"))
CSV_PER_NVTX = csv_rows(
    "Domain", "Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    order=("Kernel Name", "Block Size", "Grid Size", "Device", "CC", "Invocations"),
)  # fmt: skip


def read(text: str) -> Report:
    reader = read_ncu_csv if text.startswith('"') else read_ncu_text
    return reader(text, "page", "00")


def kernels(text: str, *, at_once: bool = True) -> tuple[KernelProfile, ...]:
    return analyse([read(text)], builders.hardware_of, "1", one_of_a_kind=at_once).session.kernels


@each_row("text", [PER_KERNEL, PER_KERNEL + NOTE, PER_GPU, PER_NVTX, CSV_PER_KERNEL, CSV_PER_GPU, CSV_PER_NVTX])
def test_a_kernel_of_a_summary_is_a_group_of_launches_with_their_average(text: str) -> None:
    report = read(text)
    scale, copy = report.launches
    assert (scale.name, scale.grid, scale.block, scale.invocations) == ("scale", (16, 2, 1), (256, 1, 1), 7)
    assert scale.duration_range_s == pytest.approx((3.5e-6, 4.5e-6))
    assert [scale.metrics.number(name) for name in (DURATION, CYCLES, DRAM)] == pytest.approx([4e-6, 8000, 50.25])
    assert (copy.invocations, copy.metrics.number(DURATION)) == (1, 1.5e-3)
    assert report.devices[0].compute_capability == "8.6"
    has_range = "Forward" in text
    assert scale.ranges == (("Forward",) if has_range else ())
    assert scale.process == (None if has_range else 41)
    assert len(report.warnings) == 1 and "averages" in report.warnings[0]


def test_a_summary_without_its_column_of_invocations_counts_each_kernel_once_with_a_warning() -> None:
    columns = ("Kernel Name", "Block Size", "Grid Size", "Device", "CC")
    report = read(csv_rows(*PROCESS, order=columns))
    assert [launch.invocations for launch in report.launches] == [1, 1]
    assert len(report.warnings) == 1 and "Invocations" in report.warnings[0]


def test_a_raw_page_of_a_summary_has_values_from_the_left_and_attributes_without_ends() -> None:
    report = read(RAW + NOTE)
    scale, _ = report.launches
    assert scale.metrics.number(DURATION) == pytest.approx(4e-6)
    assert scale.duration_range_s == pytest.approx((3.5e-6, 4.5e-6))
    assert report.devices[0].name == "NVIDIA T4"
    assert len(report.warnings) == 1
    cut = read(RAW.rstrip()[:-2])
    assert "dram__throughput.avg.pct_of_peak" not in cut.launches[1].metrics.names()


def test_a_raw_page_as_csv_has_names_of_metrics_without_a_section() -> None:
    page = (
        CSV_PER_KERNEL.replace(f'"{SECTION}",', "")
        .replace('"Section Name",', "")
        .replace('"Duration"', f'"{DURATION}"')
    )
    scale, _ = read(page).launches
    assert scale.invocations == 7
    assert scale.metrics.number(DURATION) == pytest.approx(4e-6)


def test_kernels_behind_attributes_of_the_gpu_in_too_few_columns_are_read() -> None:
    """Read what ncu 2024.1 prints with --print-summary per-gpu --page raw --csv."""
    header, *lines = CSV_PER_GPU.replace(f'"{SECTION}",', "").replace('"Section Name",', "").splitlines()
    cells = [["0", "", "", "", "", "device__attribute_chip", "", "", "", "358"] * 3, *csv.reader(lines)]
    flat = [cell for row in cells for cell in row]
    width = len(header.split(","))
    out = io.StringIO()
    rows = [flat[at : at + width] for at in range(0, len(flat), width)]
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    report = read(f"{header}\n{out.getvalue()}")
    assert [(launch.name, launch.invocations) for launch in report.launches] == [("scale", 7), ("copy", 1)]
    assert [launch.metrics.number(DURATION) for launch in report.launches] == pytest.approx([4e-6, 1.5e-3])


def test_metrics_without_cells_shift_no_kernel_of_a_summary() -> None:
    """Read what ncu 2024.1 prints with --print-summary per-kernel --print-details all --csv: 15 cells in each line."""
    header, *lines = csv.reader(io.StringIO(CSV_PER_KERNEL))
    without = lines[0][: len(PROCESS) + 7]
    flat = [cell for row in (lines[0], without, *lines[1:], [*without, ""]) for cell in row]
    out = io.StringIO()
    rows = [flat[at : at + len(header)] for at in range(0, len(flat), len(header))]
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([header, *rows])
    report, whole = read(out.getvalue()), read(CSV_PER_KERNEL)
    assert [(launch.name, launch.invocations) for launch in report.launches] == [("scale", 7), ("copy", 1)]
    for launch, expected in zip(report.launches, whole.launches, strict=True):
        assert launch.metrics.names() == expected.metrics.names()
        assert launch.metrics.number(DURATION) == expected.metrics.number(DURATION)
    assert report.warnings == whole.warnings


@each_row("text", [PER_KERNEL, CSV_PER_GPU])
@each_row("at_once", [True, False])
def test_times_are_those_of_all_launches_and_no_percentile_is_made_up(text: str, at_once: bool) -> None:
    scale, copy = kernels(text, at_once=at_once)
    assert scale.launches == 7
    assert [scale.duration_s, scale.time_total_s] == pytest.approx([4e-6, 28e-6])
    assert (scale.duration_percentiles_s, scale.launch_times) == (None, None)
    assert scale.averages is not None
    assert (scale.averages.min_s, scale.averages.max_s) == pytest.approx((3.5e-6, 4.5e-6))
    assert (copy.launches, copy.averages, copy.duration_s) == (1, None, copy.time_total_s)


def test_the_same_kernel_of_two_processes_is_one_group_of_all_launches() -> None:
    text = PER_KERNEL + PER_KERNEL.replace("[41]", "[42]").replace("Invocations 7", "Invocations 3")
    analysis = analyse([read(text)], builders.hardware_of, "1")
    scale = next(kernel for kernel in grouped(analysis.session).kernels if kernel.name == "scale")
    at_once = next(kernel for kernel in kernels(text) if kernel.name == "scale")
    for kernel in (scale, at_once):
        assert kernel.launches == 10
        assert kernel.time_total_s == pytest.approx(40e-6)
        assert kernel.averages is not None and kernel.duration_percentiles_s is None
    assert run_of(analysis.session).launches == 12


@each_row("text", [NOTE, CSV_PER_NVTX.partition("\n")[0] + "\n"])
def test_a_summary_without_kernels_is_no_report(text: str) -> None:
    with pytest.raises(InputError):
        read(text)


def test_launches_of_a_summary_are_found_in_a_log() -> None:
    assert has_launch("hello\n" + PER_KERNEL)
    assert has_launch("hello\n" + PER_GPU)
    assert not has_launch("the cache has 3 levels, Invocations 7\n")
