"""What ncu prints without --csv: made-up pages with every trap of logs and documents."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import pytest

import gpuprof
from gpuprof.errors import InputError
from gpuprof.model.recorded import Launch, Report
from gpuprof.read.files import read_file
from gpuprof.read.ncu_text import has_launch, read_ncu_text
from tests.table import each_row

LAUNCH = "void scale<float, (int)4>(float *, int) (16, 2, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0"
TABLE = """    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    SM Frequency                    Ghz         1.25
    Elapsed Cycles                cycle      250,000
    Duration                         us       200.00
    DRAM Throughput                   %        12.50
    L1/TEX Cache Throughput           %      (!) n/a
    ----------------------- ----------- ------------
"""
RULES = """
    OPT   Est. Local Speedup: 12.5%
          The first sentence of a rule goes on in the line
          below.
    ----- -----------------------------------------------------
    INF   Another one.

    Section: Launch Statistics
    -------------------------------- --------------- -----------------------
    Metric Name                          Metric Unit            Metric Value
    -------------------------------- --------------- -----------------------
    Function Cache Configuration                     cudaFuncCachePreferNone
    Registers Per Thread             register/thread                      40
    # SMs                                         SM                     108
    Waves Per SM                                                        0.04
    -------------------------------- --------------- -----------------------
"""
PAGE = f"[41] app@127.0.0.1\n  {LAUNCH}\n{TABLE}{RULES}"


def table(rows: list[tuple[str, str, str]]) -> str:
    dashes = f"    {'-' * 50} {'-' * 11} {'-' * 12}\n"
    lines = [f"    {label:<50} {unit:>11} {value:>12}\n" for label, unit, value in rows]
    return "".join((dashes, f"    {'Metric Name':<50} Metric Unit Metric Value\n", dashes, *lines, dashes))


def read(text: str) -> Report:
    return read_ncu_text(text, "log.txt", "00")


def only(text: str) -> Launch:
    (launch,) = read(text).launches
    return launch


def numbers(launch: Launch) -> dict[str, float | str]:
    return {name: metric.value for name in launch.metrics.names() if (metric := launch.metrics.get(name)) is not None}


def test_a_page_of_details_is_read_with_its_launch_its_values_and_its_rules() -> None:
    report = read(PAGE)
    (launch,) = report.launches
    assert report.kind == "ncu-text"
    assert report.warnings == ()
    assert (launch.name, launch.demangled) == ("scale", "void scale<float, (int)4>(float *, int)")
    assert (launch.grid, launch.block, launch.stream) == ((16, 2, 1), (256, 1, 1), 7)
    assert launch.process == 41
    assert report.devices[0].compute_capability == "8.0"
    assert report.devices[0].sm_count == 108
    assert numbers(launch) == {
        "gpc__cycles_elapsed.avg.per_second": 1.25e9,
        "gpc__cycles_elapsed.max": 250_000,
        "gpu__time_duration.sum": pytest.approx(200e-6),
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 12.5,
        "launch__func_cache_config": "cudaFuncCachePreferNone",
        "launch__registers_per_thread": 40,
        "launch__sm_count": 108,
        "launch__waves_per_multiprocessor": 0.04,
    }


@each_row(
    "change",
    [
        lambda page: "\n".join(f">  {line}" for line in page.splitlines()),
        lambda page: "\n".join(f"2025-03-01T10:00:00.1234567Z {line}" for line in page.splitlines()),
        lambda page: "\n".join(line.strip() for line in page.splitlines()),
        lambda page: page.replace("\n", "\r\n"),
        lambda page: "\n".join(f"\x1b[1;32m{line}\x1b[0m" for line in page.splitlines()),
        lambda page: f'==PROF== Profiling "k" - 0: 0%\r==PROF== Profiling "k" - 0: 0%....100% - 41 passes\n{page}',
        lambda page: page.replace(LAUNCH, LAUNCH.replace(" (16,", "\n  (16,")),
        lambda page: page.replace("250,000", "250,000  # a remark: 12 34"),
        lambda page: page.replace("    Elapsed", "\n    # what comes next is long\n    Elapsed"),
        lambda page: page.replace("Est. Local Speedup", "Estimated Local Speedup"),
        lambda page: f"# A document\n\n```\n==PROF== Connected to process 41\n{page}```\nThe end: 12  13  14\n",
        lambda page: page.replace("  void", "  Warning: made up\n  void").replace(
            "    Section: Launch", "    Warning: Clocks were not fixed.\n    Section: Launch"
        ),
    ],
    ids=[
        "quoted", "timed", "no indent", "windows", "colours", "progress", "name above", "remark", "blank", "2022",
        "markdown", "warning",
    ],
)  # fmt: skip
def test_documents_and_logs_change_the_lines_around_and_not_the_values(change: Callable[[str], str]) -> None:
    plain, changed = only(PAGE), only(change(PAGE))
    assert has_launch(change(PAGE))
    assert numbers(changed) == numbers(plain)
    assert (changed.demangled, changed.grid, changed.block) == (plain.demangled, plain.grid, plain.block)


DASHES = f"    {'-' * 40} {'-' * 15} {'-' * 30}\n"
SPEED = "    Section: GPU Speed Of Light Throughput\n"
OCCUPANCY, WAVES = "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__waves_per_multiprocessor"
DRAM, TIME = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "gpu__time_duration.sum"
RAW = f"""  {LAUNCH}
  Metric Name                        Metric Unit   Metric Value
  -------------------------------- ------------- --------------
  dram__bytes.sum                         Mbyte           12.50
"""
PAGES: dict[str, tuple[str, dict[str, float | str]]] = {
    "single dashes and the languages of 2020": (
        "  gemv(float*,int), 2020-Mar-04 05:06:07, Context 1, Stream 7\n    Section: GPU Speed Of Light\n" + DASHES
        + "".join(f"    {label:<40} {unit:>15} {value:>30}\n" for label, unit, value in (
            ("Memory Frequency", "cycle/usecond", "900,50"), ("SOL FB", "%", "31,75"),
            ("Duration", "usecond", "640,25"), ("Elapsed Cycles", "cycle", "1 200 345"),
            ("SM Active Cycles", "cycle", "512\u202f004,25"))) + DASHES,
        {"dram__cycles_elapsed.avg.per_second": 900.5e6, DRAM: 31.75, TIME: 640.25e-6,
         "gpc__cycles_elapsed.max": 1_200_345, "sm__cycles_active.avg": 512_004.25},
    ),
    "raw names with values that go on below, and what the program printed": (
        RAW + """  device__attribute_display_name                   Made-Up GPU
                                                         9000
step 3  loss  12.5
  launch__func_cache_config                      cudaFuncCacheP
                                                      referNone
  sm__x.sum                                                 (!) nan (1; 2)
  nvlink__names
""",
        {"device__attribute_display_name": "Made-Up GPU 9000", "dram__bytes.sum": 12.5e6,
         "launch__func_cache_config": "cudaFuncCachePreferNone"},
    ),
    "tables in the body of a section": (
        f"  {LAUNCH}\n      Table Name : GPU Throughput\n" + table([("Memory [%]", "%", "4.25")])
        + "      Table Name : Warp State (All Cycles)\nprinted by the program\n"
        + table([("Stall Long Scoreboard", "inst", "10.25")]),
        {"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 4.25,
         "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 10.25},
    ),
    "pipes of charts, where a label means one metric": (
        f"  {LAUNCH}\n      Table Name : Pipe Utilization (% of active cycles)\n      Table Description : Made up.\n"
        + table([("ALU", "%", "9.25"), ("Tensor (All)", "%", "0.50"), ("Tensor (FP)", "%", "0.25")])
        + "    Section: Compute Workload Analysis\n"
        + "      Table Name : Pipe Utilization (% of peak instructions executed)\n" + table([("XU", "%", "1.25")]),
        {"sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active": 9.25,
         "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 0.5,
         "details::Pipe Utilization (% of active cycles):Tensor (FP)": 0.25,
         "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active": 1.25},
    ),
    "loose rows, where label and unit mean one metric": (
        f"""  {LAUNCH}
    Section: Launch Statistics
    Block Size                                    128   <- (16,8,1)
    Achieved Occupancy                        %        48.00
    SM Frequency                            Ghz         1.25
    Duration                                  %        48.00
    This is no row, and neither is the next               12
    Whatever It Is                   %                           50
""",
        {"launch__block_size": 128, OCCUPANCY: 48},
    ),
    "a table whose section's line is lost": (
        f"  {LAUNCH}\n{SPEED}" + table([("Duration", "us", "200.00")]) + "    Sec#ion: Memory Workload Analysis\n"
        + table([("Memory Throughput", "Gbyte/second", "724.20"), ("Duration", "us", "9.00")]),
        {TIME: 200e-6},
    ),
}  # fmt: skip


@each_row("name", PAGES)
def test_rows_are_read_as_the_metrics_that_they_mean_and_no_others(name: str) -> None:
    text, expected = PAGES[name]
    assert numbers(only(text)) == {
        metric: value if isinstance(value, str) else pytest.approx(value) for metric, value in expected.items()
    }


def test_sections_without_a_launch_s_line_are_a_launch_of_an_unknown_kernel(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(f"{TABLE}{RULES}")
    report = read_file(str(path))
    assert isinstance(report, Report)
    (launch,) = report.launches
    assert (launch.name, launch.demangled, launch.grid, launch.block) == ("", "(unnamed)", None, None)
    assert launch.stream is None
    assert numbers(launch) == numbers(only(PAGE))
    assert report.devices[0].compute_capability is None
    assert len(report.warnings) == 1 and "line 1" in report.warnings[0]
    session = gpuprof.load(path)
    assert session.kernels[0].label == "(unnamed)"
    assert session.verdict is not None and "--kernel-name" not in (session.verdict.command or "")


def test_labels_that_a_table_repeats_are_of_the_same_launch() -> None:
    cycles = [("DRAM Active Cycles", "cycle", value) for value in ("1190.50", "1408", "928", "47620")]
    section = "    Section: GPU and Memory Workload Distribution\n"
    page = f"  {LAUNCH}\n{section}    Table Name : Workload Distribution\n{table(cycles)}"
    unlabelled = page + "    Section: Instruction Statistics\n" + table([("", "inst", "125952")])
    for text in (page, PAGE + page.partition("\n")[2], unlabelled):
        report = read(text)
        assert ([launch.name for launch in report.launches], report.warnings) == (["scale"], ())


@each_row(
    "label",
    [
        "{}: ", "[1,{}]<stdout>: ", "[1,{}]<stdout>:", "[rank{}]: ", "[default{}]:", "app-{}  | ",
        "2024-05-01T10:00:00.123Z {}: ", "[{}] ", "[prterun-node01-12@1,{}]<stdout>: ", "(Worker pid={}, ip=10.0.0.1) ",
        "[pod/train-{}/main] ", "node0{}: [rank{}] ",
    ],
)  # fmt: skip
@each_row("page", [PAGE, f"  {LAUNCH}\n" + table([("gpc__cycles_elapsed.max", "cycle", "250,000")])])
def test_mixed_lines_of_several_ranks_are_read_rank_by_rank(label: str, page: str) -> None:
    other = page.replace("scale<", "other<").replace("250,000", "990,000")
    pages = [lines.splitlines() for lines in (page, other)]
    mixed = [f"{label.format(rank, rank)}{line}" for lines in zip_longest(*pages, fillvalue="")
             for rank, line in enumerate(lines)]  # fmt: skip
    text = "\n".join(["slurm starts", *mixed, ""])
    assert has_launch(text)
    report = read(text)
    assert [launch.name for launch in report.launches] == ["scale", "other"]
    assert [numbers(launch)["gpc__cycles_elapsed.max"] for launch in report.launches] == [250_000, 990_000]
    assert report.warnings == ()


@each_row(
    "label",
    [
        "2024-05-01 12:00:{:02} ", "2024-05-01 12:00:00,1{:02} INFO ", "[2024-05-01 12:00:{:02}] ",
        "May  1 12:00:{:02} node01 app[12]: ", "2024-05-01T12:00:00.123{:02}Z 01O ", "{:6}\t", "{}:", "$ ",
    ],
)  # fmt: skip
@each_row("page", [PAGE, PAGE.replace("    ", "  ").replace("  Section: GPU Speed Of Light Throughput\n", "")])
def test_lines_behind_a_time_or_a_number_are_read(label: str, page: str) -> None:
    text = "".join(f"{label.format(number)}{line}\n" for number, line in enumerate(page.splitlines()))
    found, expected = read(text), read(page)
    assert [launch.name for launch in found.launches] == ["scale"]
    assert numbers(found.launches[0]) == numbers(expected.launches[0]) != {}
    assert found.warnings == expected.warnings


def test_words_before_one_line_of_ncu_are_no_label() -> None:
    text = "Results\n" + PAGE.replace("    Section: GPU", "Done.    Section: GPU")
    assert numbers(only(text)) == numbers(only(PAGE))


@each_row("page", [PAGE, f"{TABLE}{RULES}{TABLE}"], ids=["named", "unnamed"])
def test_a_damaged_page_is_read_or_refused_and_nothing_else(page: str) -> None:
    chance = random.Random(len(page))
    for _ in range(40):
        lines = page.splitlines(keepends=True)
        chance.shuffle(lines) if chance.random() < 0.2 else lines.pop(chance.randrange(len(lines)))
        text = "".join(lines)
        start, end = sorted(chance.choices(range(len(text)), k=2))
        damaged = text[start:end] if chance.random() < 0.3 else text[:start] + chance.choice("9.,-:( \n\t") + text[end:]
        try:
            assert read(damaged).launches
        except InputError:
            assert not has_launch(damaged)
        else:
            assert has_launch(damaged)


@each_row(
    "text",
    [
        "A text.\n\n----- ---- -----\nName  Unit Value\n----- ---- -----\nDuration us 12\n----- ---- -----\n",
        "----- ---- -----\nThreads thread  12\nDuration  us  12\n----- ---- -----\nsmsp__inst_executed.sum  inst  12\n",
        "Section: Results\n----- ---- -----\nDuration  us  12\n----- ---- -----\n",
        "Section: Occupancy\nIt should be high.  It is 50.\n",
    ],
    ids=["table", "labels", "section", "words"],
)
def test_an_ordinary_table_or_section_is_no_output_of_ncu(text: str, tmp_path: Path) -> None:
    assert not has_launch(text)
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(InputError) as caught:
        read_file(str(tmp_path / "README.md"))
    assert caught.value.hint is not None
    # In front of a launch they are the document's, and nothing is said of them.
    assert read(f"{text}\n{PAGE}").warnings == ()


@each_row(
    ("text", "launches", "told"),
    [
        (f"{LAUNCH}\n    Section: Command line profiler metrics\n" + 2 * table([("smsp__inst.sum", "inst", "7")]),
         1, ["1 row "]),
        (f"{PAGE}\n  scale(float *) (16, x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0\n{TABLE}", 2, ["1 row "]),
        # The line of a launch is lost: nothing of its table goes to the launch above.
        (f"{LAUNCH}\n{TABLE}\n  scale(float *) (16, 1, 1)x(2\n{TABLE}{RULES}", 1, ["5 rows "]),
        (f"{LAUNCH}\n{TABLE[: TABLE.index('200.00') + 2]}", 1, ["line 8: it is truncated"]),
        (f"==ERROR== LaunchFailed\n  {LAUNCH}\n{SPEED}"
         + table([("DRAM Throughput", "%", "(!) nan"), ("Duration", "ns", "(!) nan")]), 1, ["line 2 ", "LaunchFailed"]),
        # One digit lost or added, letters, and dashes that are torn.
        *((f"{LAUNCH}\n{TABLE.replace(before, after)}", 1, [told]) for before, after, told in (
            ("      250,000\n", "      25,000\n", "line 7"), ("      250,000\n", "      1,250,000\n", "line 7"),
            ("         1.25\n", "         1x25\n", "1 row "), ("         1.25\n", "  a      1.25\n", "1 row "),
            ("    Elapsed Cycles                cycle      250,000\n", "    ----x--- ----------- ------\n", "1 row "))),
    ],
)  # fmt: skip
def test_what_is_left_out_or_damaged_is_told(text: str, launches: int, told: list[str]) -> None:
    report = read(text)
    assert len(report.launches) == launches
    assert all(part in warning for part, warning in zip(told, report.warnings, strict=True)), report.warnings


def test_ranges_and_sizes_of_a_launch_are_read_where_they_stand(tmp_path: Path) -> None:
    stack = "    NVTX Push/Pop Stack for Thread 12:\n     <default domain>\n        <0,step>\n        <1,layer: one>\n"
    assert only(PAGE.replace("    Section: GPU", f"{stack}    Section: GPU", 1)).ranges == ("step", "layer: one")
    line = "  add(float *), 2020-Oct-28 10:36:31, Context 1, Stream 7\n    Section: Launch Statistics\n"
    path = tmp_path / "log"
    path.write_text(line + table([("Grid Size", "", "4,096"), ("Block Size", "", "256")]))
    (kernel,) = gpuprof.load(path).kernels
    assert (kernel.grid, kernel.block, kernel.grid_size, kernel.block_size) == (None, None, 4096, 256)


@each_row(
    "text",
    [
        "-" * 100_000,
        "--- --" * 20_000,
        "(" + "1," * 3000 + ", Context ",
        "x (1, 1, 1)" * 9000 + ", Context 1, Stream 7",
        TABLE.replace("    Duration", f"{'x' * 12:>49}\n" * 9_000 + "    Duration"),
    ],
    ids=["dashes", "groups", "sizes", "launches", "lines"],
)
def test_the_time_does_not_grow_with_the_square_of_a_line_or_of_the_lines(text: str) -> None:
    started = time.process_time()
    read(f"{PAGE}\n{text}\n")
    assert time.process_time() - started < 1


@each_row(
    ("text", "message"),
    [
        ("    Section: Occupancy\n    See the table below.\n", "sections"),
        ("  Note: The shown averages are calculated as the arithmetic mean\n", "without kernels"),
        ('"Kernel Name","scale"\n"Address","Source"\n', "page of source"),
        ("==PROF== Report: /tmp/made up.ncu-rep\n", "/tmp/made up.ncu-rep"),
        ('Launch Settings\n"Launch Attribute","Value"\n', "page of the session"),
        # What people write by hand with ncu's labels.
        ("| Metric Name | Metric Value |\n|---|---|\n| DRAM Throughput | 12.50 % |\n", "in line 3,"),
        ("| Kernel | Achieved Occupancy (%) |\n|---|---|\n| gemm | 12.0 |\n", "'Achieved Occupancy' in line 1,"),
        ("- **DRAM throughput**: 83.37 %\n", "'DRAM Throughput' in line 1,"),
        ("Kernel.Name,Metric.Name\n", "is not output of ncu"),
        ('"Kernel","L2 Hit Rate"\n"gemm",12\n', "'L2 Hit Rate' in line 1,"),
        # Other text is not sent to ncu.
        ("| Parameter | Value |\n|---|---|\n| Block Size | 256 |\nDuration: 12 ms\n", "nothing in it"),
    ],
)  # fmt: skip
def test_what_else_ncu_prints_is_told_by_its_name(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_file(str(tmp_path / "log.txt"))
    assert caught.value.hint is not None
    assert not has_launch(text)
