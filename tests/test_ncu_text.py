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
from gpuprof.read.ncu_csv import read_ncu_csv
from gpuprof.read.ncu_text import has_launch, read_ncu_text
from gpuprof.read.recognise import recognised
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


TABLE_ONLY = f"{LAUNCH}\n{TABLE}"


def table(rows: list[tuple[str, str, str]]) -> str:
    """Return a table with ncu's header."""
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
    assert report.sections == ("GPU Speed Of Light Throughput", "Launch Statistics")
    assert (launch.name, launch.demangled) == ("scale", "void scale<float, (int)4>(float *, int)")
    assert (launch.grid, launch.block, launch.context, launch.stream) == ((16, 2, 1), (256, 1, 1), 1, 7)
    assert (launch.process, launch.process_name) == (41, "app")
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
    first, second = launch.details.rule_results()
    assert (first.kind, first.speedup_percent, first.speedup_scope) == ("optimization", 12.5, "local")
    assert first.message == "The first sentence of a rule goes on in the line below."
    assert (second.kind, second.message, second.speedup_percent) == ("ok", "Another one.", None)


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
    assert changed.details.rule_results() == plain.details.rule_results()
    assert (changed.demangled, changed.grid, changed.block) == (plain.demangled, plain.grid, plain.block)


def test_the_header_and_the_single_dashes_of_2020_are_read_with_numbers_of_the_user_s_language() -> None:
    dashes = f"    {'-' * 40} {'-' * 15} {'-' * 30}"
    rows = [
        ("Memory Frequency", "cycle/usecond", "900,50"),
        ("SOL FB", "%", "31,75"),
        ("Elapsed Cycles", "cycle", "1 200 345"),
        ("Duration", "usecond", "640,25"),
        ("SM Active Cycles", "cycle", "512\u202f004,25"),
    ]
    lines = [f"    {label:<40} {unit:>15} {value:>30}" for label, unit, value in rows]
    page = "\n".join(
        (
            "  gemv(float*,int), 2020-Mar-04 05:06:07, Context 1, Stream 7",
            "    Section: GPU Speed Of Light",
            dashes,
            *lines,
            dashes,
        )
    )
    launch = only(page)
    assert (launch.demangled, launch.grid) == ("gemv(float*,int)", None)
    assert numbers(launch) == {
        "dram__cycles_elapsed.avg.per_second": pytest.approx(900.5e6),
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 31.75,
        "gpc__cycles_elapsed.max": 1_200_345,
        "gpu__time_duration.sum": pytest.approx(640.25e-6),
        "sm__cycles_active.avg": pytest.approx(512_004.25),
    }


def test_a_page_of_raw_metrics_and_long_values_that_go_on_below_are_read() -> None:
    page = f"""  {LAUNCH}
  Metric Name                        Metric Unit   Metric Value
  -------------------------------- ------------- --------------
  device__attribute_display_name                   Made-Up GPU
                                                         9000
  dram__bytes.sum                         Mbyte           12.50
  launch__func_cache_config                      cudaFuncCacheP
                                                      referNone
  nvlink__names
"""
    assert numbers(only(page)) == {
        "device__attribute_display_name": "Made-Up GPU 9000",
        "dram__bytes.sum": pytest.approx(12.5e6),
        "launch__func_cache_config": "cudaFuncCachePreferNone",
    }


def test_tables_in_the_body_of_a_section_are_read_under_their_names() -> None:
    page = f"""  {LAUNCH}
      Table Name : GPU Throughput
      ---------------- ----------- ------------
      Metric Name      Metric Unit Metric Value
      ---------------- ----------- ------------
      Memory [%]                 %         4.25
      ---------------- ----------- ------------

      Table Name : Warp State (All Cycles)
      ------------------------ ----------- ------------
printed by the program
      Metric Name              Metric Unit Metric Value
      ------------------------ ----------- ------------
      Stall Long Scoreboard           inst        10.25
      ------------------------ ----------- ------------
"""
    launch = only(page)
    assert numbers(launch) == {
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 4.25,
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 10.25,
    }


def test_pipes_of_the_charts_are_read_where_their_labels_mean_one_metric() -> None:
    rows = [("ALU", "9.25"), ("Tensor (All)", "0.50"), ("Tensor (FP)", "0.25")]
    busy = table([(label, "%", value) for label, value in rows])
    issued = table([("XU", "%", "1.25"), ("FP16", "%", "2.50")])
    page = f"""  {LAUNCH}
      Table Name : Pipe Utilization (% of active cycles)
      Table Description : Made up.
{busy}
    Section: Compute Workload Analysis
      Table Name : Pipe Utilization (% of peak instructions executed)
{issued}"""
    assert numbers(only(page)) == {
        "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active": 9.25,
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 0.5,
        "details::Pipe Utilization (% of active cycles):Tensor (FP)": 0.25,
        "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active": 1.25,
        "sm__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_active": 2.5,
    }


@each_row("break_at", ["(256, 1, 1),", "Context 1,", "Context 1, Stream 7,"])
def test_a_launch_s_line_that_was_broken_behind_a_comma_is_one(break_at: str) -> None:
    page = PAGE.replace(f"{break_at} ", f"{break_at} \n      ")
    assert page != PAGE and has_launch(page)
    report = read(page)
    assert report.warnings == ()
    (launch,) = report.launches
    assert (launch.demangled, launch.block) == ("void scale<float, (int)4>(float *, int)", (256, 1, 1))
    assert numbers(launch) == numbers(only(PAGE))


def test_metrics_with_their_full_names_need_no_section() -> None:
    bare = table([("smsp__inst_executed.sum", "inst", "1,200"), ("lts__t_sectors.avg.per_second", "sector/s", "12.50")])
    page = f"""  {LAUNCH}
{TABLE}{bare}
    l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio      sector         2.50
    launch__registers_per_thread   40   <- few
    my__own   12.50
    gpc__cycles_elapsed.max   cycle   none
"""
    report = read(page)
    assert report.warnings == ()
    added = {
        name: value for name, value in numbers(report.launches[0]).items() if name not in numbers(only(TABLE_ONLY))
    }
    assert added == {
        "smsp__inst_executed.sum": 1200,
        "lts__t_sectors.avg.per_second": 12.5,
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": 2.5,
        "launch__registers_per_thread": 40,
    }


def test_full_names_that_a_launch_has_already_are_another_launch_s() -> None:
    first = table([("smsp__inst_executed.sum", "inst", "1200")])
    report = read(f"{LAUNCH}\n    Section: Command line profiler metrics\n{first}\n{first.replace('1200', '9900')}")
    assert numbers(report.launches[0]) == {"smsp__inst_executed.sum": 1200}
    assert "1 row is left out" in report.warnings[0]


def test_a_table_without_its_section_s_line_is_of_the_only_section_that_has_all_its_labels() -> None:
    scheduler = table([("One or More Eligible", "%", "42.25"), ("Eligible Warps Per Scheduler", "warp", "3.50")])
    memory = table([("Memory Throughput", "Gbyte/s", "250.00"), ("Mem Busy", "%", "12.50")])
    unknown = table([("Mem Busy", "%", "99.00"), ("Duration", "us", "99.00")])
    report = read(f"{LAUNCH}\n{TABLE}{scheduler}\n```\n```\n{memory}{unknown}```\n")
    values = numbers(report.launches[0])
    assert values["smsp__issue_active.avg.pct_of_peak_sustained_active"] == 42.25
    assert values["smsp__warps_eligible.avg.per_cycle_active"] == 3.5
    assert values["dram__bytes.sum.per_second"] == 250e9
    assert values["gpu__time_duration.sum"] == pytest.approx(200e-6)
    assert values["gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed"] == 12.5
    assert report.warnings == ("2 rows are left out from line 30 on: the line of their launch or section is missing",)


def test_a_loose_row_of_another_section_is_read_where_its_label_and_unit_mean_one_metric() -> None:
    page = f"""  {LAUNCH}
    Section: Launch Statistics
    Block Size                                    128   <- (16,8,1)
    Achieved Occupancy                        %        48.00
    SM Frequency                            Ghz         1.25
    Duration                                  %        48.00
"""
    assert numbers(only(page)) == {
        "launch__block_size": 128,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 48,
    }


def test_sections_without_a_launch_s_line_are_a_launch_of_an_unknown_kernel(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(f"{TABLE}{RULES}")
    report = read_file(str(path))
    assert isinstance(report, Report)
    (launch,) = report.launches
    assert (launch.name, launch.demangled, launch.grid, launch.block) == ("", "(unnamed)", None, None)
    assert (launch.context, launch.stream) == (None, None)
    assert numbers(launch) == numbers(only(PAGE))
    assert launch.details.rule_results() == only(PAGE).details.rule_results()
    assert report.devices[0].compute_capability is None
    assert report.warnings == (
        "no line names the launch whose sections start in line 1: its kernel, the shape of its grid, its stream and "
        "its GPU are not known",
    )
    session = gpuprof.load(path)
    assert session.kernels[0].label == "(unnamed)"
    assert session.verdict is not None and "--kernel-name" not in (session.verdict.command or "")


@each_row("label", ["{}: ", "[1,{}]<stdout>: ", "[1,{}]<stdout>:", "[rank{}]: ", "[default{}]:"])
def test_mixed_lines_of_several_ranks_are_read_rank_by_rank(label: str) -> None:
    other = PAGE.replace("scale<", "other<").replace("250,000", "990,000")
    pages = [page.splitlines() for page in (PAGE, other)]
    mixed = [f"{label.format(rank)}{line}" for lines in zip_longest(*pages, fillvalue="")
             for rank, line in enumerate(lines)]  # fmt: skip
    text = "\n".join(["slurm starts", *mixed, ""])
    assert has_launch(text)
    report = read(text)
    assert [launch.name for launch in report.launches] == ["scale", "other"]
    assert [numbers(launch)["gpc__cycles_elapsed.max"] for launch in report.launches] == [250_000, 990_000]
    for launch, page in zip(report.launches, (PAGE, other), strict=True):
        assert launch.details.rule_results() == only(page).details.rule_results()
    assert report.warnings == ()


def test_a_section_that_comes_again_without_a_launch_s_line_begins_the_next_launch() -> None:
    report = read(
        f"On compute capability 8.0, before:\n{TABLE}{RULES}\nand after:\n{TABLE.replace('200.00', '100.00')}"
    )
    assert [launch.demangled for launch in report.launches] == ["(unnamed 1)", "(unnamed 2)"]
    assert [numbers(launch)["gpu__time_duration.sum"] for launch in report.launches] == pytest.approx([2e-4, 1e-4])
    assert {report.devices[launch.device].compute_capability for launch in report.launches} == {"8.0"}
    assert report.warnings == (
        "no line names 2 launches, the first of them the one whose sections start in line 2: their kernel, the shape "
        "of their grid, their stream are not known, and their GPU is taken to have the compute capability 8.0 of this "
        "text",
    )


def test_a_table_without_any_line_above_it_is_ncu_s_if_it_has_its_header() -> None:
    alone = "\n".join(TABLE.splitlines()[1:])
    launch = only(f"A text.\n```\n{alone}\n```\n")
    assert numbers(launch) == numbers(only(f"{LAUNCH}\n{TABLE}"))


def test_a_table_alone_that_has_a_label_again_is_the_next_launch_s() -> None:
    scheduler = table([("One or More Eligible", "%", "42.25"), ("Eligible Warps Per Scheduler", "warp", "3.50")])
    before, after = (
        f"{table([('Duration', 'us', time), ('DRAM Throughput', '%', '12.50'), ('Elapsed Cycles', 'cycle', cycles)])}"
        for time, cycles in (("200.00", "250,000"), ("100.00", "125,000"))
    )
    report = read(f"// before\n{before}{scheduler}\n// after\n{after}\n    INF   Of the second.\n{scheduler}")
    time, eligible = "gpu__time_duration.sum", "smsp__warps_eligible.avg.per_cycle_active"
    assert [numbers(launch)[time] for launch in report.launches] == pytest.approx([2e-4, 1e-4])
    assert [numbers(launch)[eligible] for launch in report.launches] == [3.5, 3.5]
    assert [len(launch.details.rule_results()) for launch in report.launches] == [0, 1]
    assert [launch.demangled for launch in report.launches] == ["(unnamed 1)", "(unnamed 2)"]
    (warning,) = report.warnings
    assert warning.startswith("no line names 2 launches, the first of them the one whose sections start in line 3:")


def test_full_names_again_in_a_table_alone_are_the_next_launch_s() -> None:
    tables = [table([("lts__t_sectors.sum", "sector", count)]) for count in ("12", "24")]
    report = read("\n".join(tables))
    assert [numbers(launch) for launch in report.launches] == [
        {"lts__t_sectors.sum": 12}, {"lts__t_sectors.sum": 24},
    ]  # fmt: skip


def test_a_table_alone_without_a_label_again_is_no_launch() -> None:
    first = table([("Duration", "us", "200.00"), ("DRAM Throughput", "%", "12.50"), ("Elapsed Cycles", "cycle", "9")])
    report = read(f"{first}\n{table([('SM Active Cycles', 'cycle', '8'), ('L2 Cache Throughput', '%', '12.50')])}")
    assert len(report.launches) == 1
    assert any(warning.startswith("2 rows are left out from line ") for warning in report.warnings)


def test_sections_before_the_first_launch_s_line_are_a_launch_of_their_own() -> None:
    report = read(f"{TABLE.replace('250,000', '999,000')}\n{PAGE}")
    assert [launch.name for launch in report.launches] == ["", "scale"]
    assert [numbers(launch)["gpc__cycles_elapsed.max"] for launch in report.launches] == [999_000, 250_000]


REWRITTEN = """# scale_all

| Metric Name | Metric Unit | Metric Value |
|---|---|---|
| Duration | us | 200.00 |
| DRAM Throughput | % | 12.50 |

**Kernel: other**
- Duration: 100.00 us
- DRAM Throughput: 25.00 %
"""


@each_row("page", [PAGE, f"{TABLE}{RULES}{TABLE}", REWRITTEN], ids=["named", "unnamed", "rewritten"])
def test_a_damaged_page_is_read_or_refused_and_nothing_else(page: str) -> None:
    chance = random.Random(len(page))
    for _ in range(300):
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


def test_a_launch_of_unknown_shape_has_the_sizes_that_are_printed(tmp_path: Path) -> None:
    line = "  add(float *), 2020-Oct-28 10:36:31, Context 1, Stream 7\n    Section: Launch Statistics\n"
    path = tmp_path / "log"
    path.write_text(line + table([("Grid Size", "", "4,096"), ("Block Size", "", "256")]))
    (kernel,) = gpuprof.load(path).kernels
    assert (kernel.grid, kernel.block, kernel.grid_size, kernel.block_size) == (None, None, 4096, 256)
    path.write_text(PAGE)
    (kernel,) = gpuprof.load(path).kernels
    assert (kernel.grid, kernel.grid_size, kernel.block_size) == ((16, 2, 1), None, None)


def test_metrics_that_were_asked_for_by_name_keep_it() -> None:
    page = TABLE.replace("GPU Speed Of Light Throughput", "Command line profiler metrics").replace(
        "SM Frequency                    Ghz         1.25", "lts__t_sectors.sum           sector           12"
    )
    assert numbers(only(f"{LAUNCH}\n{page}"))["lts__t_sectors.sum"] == 12


def test_rows_without_the_dashes_around_them_are_read_where_their_label_is_known() -> None:
    page = f"""{LAUNCH}
    Section: Launch Statistics
    Registers Per Thread             register/thread             211
    This is no row, and neither is the next               12
    Whatever It Is                   %                           50
    Section: Occupancy
    Achieved Occupancy                        %         12.50
"""
    assert numbers(only(page)) == {
        "launch__registers_per_thread": 211,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 12.5,
    }


def test_names_beside_or_instead_of_labels_are_those_of_the_metrics() -> None:
    named = TABLE.replace("DRAM Throughput        ", "gpu__time_active.avg   ").replace(
        "Elapsed Cycles         ", "Cycles (sm__inst.sum)  "
    )
    values = numbers(only(f"{LAUNCH}\n{named}"))
    assert values["gpu__time_active.avg"] == 12.5
    assert values["sm__inst.sum"] == 250_000


def test_nvtx_ranges_are_those_of_the_launch() -> None:
    stack = "    NVTX Push/Pop Stack for Thread 12:\n     <default domain>\n        <0,step>\n        <1,layer: one>\n"
    assert only(PAGE.replace("    Section: GPU", f"{stack}    Section: GPU", 1)).ranges == ("step", "layer: one")


def test_launches_of_several_processes_are_told_apart_and_one_without_values_stays() -> None:
    text = PAGE + PAGE.replace("[41] app", "[42] other") + f"  {LAUNCH}\n\n==ERROR== made up\n"
    report = read(text)
    assert [launch.process_name for launch in report.launches] == ["app", "other", "other"]
    assert [len(list(launch.metrics.names())) for launch in report.launches] == [8, 8, 0]
    assert report.warnings == ("ncu reported an error: made up",)


def test_a_row_outside_of_its_columns_is_read_by_its_gaps_or_told() -> None:
    row = "    DRAM Throughput                   %        12.50"
    moved = TABLE.replace(row, "DRAM Throughput  %  12.50")
    assert numbers(only(f"{LAUNCH}\n{moved}"))["gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"] == 12.5
    assert read(f"{LAUNCH}\n{moved}").warnings == (
        "1 row does not end where the table does, the first in line 9: digits may be missing or added",
    )
    broken = TABLE.replace(row, "DRAM Throughput is 12 percent of all")
    assert any("1 row was dropped" in warning for warning in read(f"{LAUNCH}\n{broken}").warnings)


def test_rows_whose_value_stands_under_the_label_in_wide_columns_are_read_by_their_gaps() -> None:
    dashes = f"    {'-' * 70} {'-' * 15} {'-' * 30}\n"
    page = f"""{LAUNCH}
    Section: GPU Speed Of Light Throughput
{dashes}    Duration                             msecond                           1.50
    DRAM Throughput                            %                          12.50
{dashes}"""
    assert numbers(only(page)) == {
        "gpu__time_duration.sum": pytest.approx(1.5e-3),
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 12.5,
    }


@each_row(
    ("before", "after", "told"),
    [
        ("      250,000\n", "      25,000\n", "does not end where the table does"),
        ("      250,000\n", "      1,250,000\n", "does not end where the table does"),
        ("         1.25\n", "         1x25\n", "1 row was dropped"),
        ("         1.25\n", "  a      1.25\n", "1 row was dropped"),
        ("SM Frequency      ", "SM Frequency    x ", "1 row was dropped"),
        ("    Elapsed Cycles                cycle      250,000\n", "    ----x--- ----------- ------\n", "was dropped"),
    ],
    ids=["digit lost", "digit added", "letter", "letter before", "letter behind", "dashes"],
)  # fmt: skip
def test_a_row_that_was_damaged_is_told(before: str, after: str, told: str) -> None:
    assert before in TABLE
    (warning,) = read(f"{LAUNCH}\n{TABLE.replace(before, after)}").warnings
    assert told in warning


def test_a_launch_whose_line_is_lost_does_not_give_its_numbers_to_the_one_above() -> None:
    second = TABLE.replace("250,000", "999,000").replace("         1.25", "1.2512345678")
    report = read(f"{LAUNCH}\n{TABLE}\n  scale(float *) (16, 1, 1)x(2\n{second}{RULES}")
    (launch,) = report.launches
    assert numbers(launch)["gpc__cycles_elapsed.max"] == 250_000
    assert numbers(launch)["gpc__cycles_elapsed.avg.per_second"] == 1.25e9
    assert report.warnings == ("7 rows are left out from line 18 on: the line of their launch or section is missing",)


def test_a_table_whose_section_line_is_lost_does_not_get_the_names_of_the_section_above() -> None:
    lost = "    Sec#ion: Memory Workload Analysis\n" + "\n".join(TABLE.splitlines()[1:]).replace(
        "DRAM Throughput                   %        12.50", "Memory Throughput      Gbyte/second       724.20"
    )
    report = read(f"{LAUNCH}\n{TABLE}\n{lost}\n")
    (launch,) = report.launches
    assert "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed" not in numbers(launch)
    assert "the line of their launch or section is missing" in report.warnings[0]


def test_a_launch_line_without_its_size_is_a_launch_and_told() -> None:
    report = read(f"{PAGE}\n  scale(float *) (16, x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0\n{TABLE}")
    assert [launch.grid for launch in report.launches] == [(16, 2, 1), None]
    assert len(report.warnings) == 1
    assert "1 row was dropped" in report.warnings[0]


def test_a_file_that_ends_inside_a_table_is_told_and_its_last_number_is_not_believed() -> None:
    end = TABLE.index("Duration")
    whole_rows = read(f"{LAUNCH}\n{TABLE[: TABLE.rindex(chr(10), 0, end) + 1]}")
    assert whole_rows.warnings == ("the file ends inside a table: it is truncated",)
    cut = read(f"{LAUNCH}\n{TABLE[: TABLE.index('200.00') + 2]}")
    assert cut.warnings == ("the file ends inside the row in line 8: it is truncated",)
    assert "gpu__time_duration.sum" not in numbers(cut.launches[0])
    assert "gpc__cycles_elapsed.max" in numbers(cut.launches[0])


def test_a_graph_is_a_launch_of_its_own_and_gives_nothing_to_the_kernel_above() -> None:
    graph = f"  graph, Context 1, Device 0, CC 9.0\n{TABLE.replace('250,000', '999,000')}"
    report = read(f"{PAGE}\n{graph}")
    kernel, whole = report.launches
    assert (whole.name, whole.grid, whole.stream) == ("graph", None, None)
    assert [numbers(launch)["gpc__cycles_elapsed.max"] for launch in (kernel, whole)] == [250_000, 999_000]
    assert report.warnings == ()
    assert has_launch(graph)


def test_a_rule_without_a_kind_is_told_by_its_place() -> None:
    page = f"  {LAUNCH}\n{TABLE}\n          FP64 is the highest-utilized pipeline\n          (70.4%).   \n\n"
    assert [(rule.kind, rule.message) for rule in only(page).details.rule_results()] == [
        ("none", "FP64 is the highest-utilized pipeline (70.4%).")
    ]


def test_charts_keep_their_name_with_what_stands_in_brackets_behind_it() -> None:
    rows = "\n".join(TABLE.splitlines()[1:]).replace("DRAM Throughput ", "Made Up         ")
    page = (
        f"  {LAUNCH}\n    Section: Made Up Chart\n    L1 Roofline\n{rows}\n\n    L2 Roofline (Global/Local)\n{rows}\n"
    )
    names = [name for name in numbers(only(page)) if name.endswith("Made Up")]
    assert names == [
        "details:Made Up Chart:L1 Roofline:Made Up",
        "details:Made Up Chart:L2 Roofline (Global/Local):Made Up",
    ]


def test_what_a_program_prints_into_a_table_of_raw_names_is_no_metric() -> None:
    page = f"""  {LAUNCH}
  Metric Name                        Metric Unit   Metric Value
  -------------------------------- ------------- --------------
  dram__bytes.sum                         Mbyte           12.50
step 3  loss  12.5
  sm__x.sum                                                 (!) nan (1; 2)
"""
    assert set(numbers(only(page))) == {"dram__bytes.sum"}


def test_the_words_behind_a_fence_are_the_document_s() -> None:
    page = f"```\n{PAGE.rstrip()}\n    INF   The last.\n```\nProse of the document.\nDuration  us  3.00\n"
    launch = only(page)
    assert launch.details.rule_results()[-1].message == "The last."
    assert numbers(launch) == numbers(only(PAGE))


def test_sections_behind_an_unknown_mark_are_told() -> None:
    report = read("\n".join(f"$ {line}" for line in PAGE.splitlines()))
    assert numbers(report.launches[0]) == {}
    assert "2 rows were dropped" in report.warnings[0]


@each_row(
    "line",
    [
        "-" * 100_000,
        "--- --" * 20_000,
        "(" + "1," * 3000 + ", Context ",
        "x (1, 1, 1)" * 9000 + ", Context 1, Stream 7",
    ],
    ids=["dashes", "groups", "sizes", "launches"],
)
def test_the_time_for_a_line_does_not_grow_with_its_square(line: str) -> None:
    started = time.process_time()
    read(f"{PAGE}\n{line}\n")
    assert time.process_time() - started < 1


def test_a_value_of_very_many_lines_takes_no_time() -> None:
    rows = f"{'x' * 12:>49}\n" * 50_000
    started = time.process_time()
    read(f"{LAUNCH}\n{TABLE.replace('    Duration', rows + '    Duration')}")
    assert time.process_time() - started < 5


def test_csv_is_read_before_text_and_the_text_beside_it_is_told() -> None:
    header = '"ID","Process ID","Kernel Name","Context","Stream","gpu__time_duration.sum"\n'
    text = f'{PAGE}{header}"","","","","","us"\n"0","41","scale","1","7","3.5"\n'
    report = read_ncu_csv(text, "log.txt", "00")
    assert len(report.launches) == 1
    assert report.warnings == ("the launches that ncu printed as text, beside the CSV, are not read",)


@each_row(
    ("text", "message"),
    [
        ("    Section: Occupancy\n    See the table below.\n", "sections, and no number of theirs"),
        (f"{LAUNCH.partition(', Context')[0]}, Device 0, Invocations 3\n{TABLE}", "leave out --print-summary"),
        ('"Process ID","Kernel Name","Invocations","Section Name","Metric Name"\n', "leave out --print-summary"),
        ('"Kernel Name","scale"\n"Address","Source"\n', "page of source"),
        ("==PROF== Report: /tmp/made up.ncu-rep\n", "ncu wrote them to /tmp/made up.ncu-rep"),
        ('Launch Settings\n"Launch Attribute","Value"\n', "page of the session"),
    ],
)  # fmt: skip
def test_what_else_ncu_prints_is_told_by_its_name(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_file(str(tmp_path / "log.txt"))
    assert caught.value.hint is not None
    assert not has_launch(text)


def test_text_is_recognised_by_its_launches_and_csv_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(PAGE)
    assert recognised(str(path)) == "output of ncu"
    report = read_file(str(path))
    assert isinstance(report, Report)
    assert report.kind == "ncu-text"


def test_what_the_text_leaves_open_may_be_told_by_nvidia_s_rules(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(PAGE)
    session = gpuprof.load(path)
    assert session.verdict is not None
    assert session.verdict.unknown == (
        "The text does not show why warps stall or which pipe is busy, beyond what NVIDIA's rules say."
    )
    assert all("CSV export" not in missing.how for missing in session.kernels[0].missing)


def test_rows_that_were_copied_by_hand_have_the_unit_behind_the_value(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        "Section: GPU Speed Of Light Throughput\n"
        "    DRAM Throughput                6.97 %\n"
        "    Compute (SM) Throughput        9.93     %\n"
        "    Memory Throughput              26.05 % of it\n"
        "Section: Occupancy\n"
        "    Block Limit Registers                 2 block   <- binding\n"
        "    Achieved Occupancy             8.32 %\n"
    )
    (kernel,) = gpuprof.load(path).kernels
    assert {unit.unit: unit.fraction for unit in kernel.throughput} == pytest.approx({"sm": 0.0993, "dram": 0.0697})
    assert kernel.occupancy.achieved == pytest.approx(0.0832)


def test_a_launch_that_failed_is_said_to_be_unmeasured(tmp_path: Path) -> None:
    rows = [(label, "%", "(!) nan") for label in ("DRAM Throughput", "Compute (SM) Throughput")]
    path = tmp_path / "log"
    path.write_text(
        f"==ERROR== LaunchFailed\n  {LAUNCH}\n    Section: GPU Speed Of Light Throughput\n"
        + table([*rows, ("Duration", "ns", "(!) nan")])
    )
    report = read_file(str(path))
    assert isinstance(report, Report)
    assert "the launch in line 2 was not measured (its duration is nan), or has failed" in report.warnings


def test_stalls_that_nvidia_s_rule_tells_are_not_said_to_be_left_open(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        f"{PAGE}\n    OPT   On average, each warp of this kernel spends 20.3 cycles being stalled waiting for a "
        "scoreboard dependency on a L1TEX\n          (local, global, surface, texture) operation. This stall type "
        "represents about 62.6% of the total.\n"
    )
    session = gpuprof.load(path)
    assert session.verdict is not None
    assert session.verdict.unknown == "The text does not show which pipe is busy, beyond what NVIDIA's rules say."
