"""What launches show together: a configuration that is faster for the same work, and clocks that differ."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import gpuprof
from gpuprof.diagnose.across import faster_launches
from gpuprof.diagnose.diagnose import diagnose
from gpuprof.diagnose.registry import rule_named
from gpuprof.diagnose.summary import summarised
from gpuprof.hardware.specs import THREAD_OPCODES
from gpuprof.model.analyse import analyse
from gpuprof.model.field_types import Confidence
from gpuprof.model.recorded import Dim3, Report
from gpuprof.model.session import Finding, KernelProfile, RunVerdict, Session
from gpuprof.notebook import LoadedSession
from tests import builders, hand_made
from tests.kernels import CLOCK, REGISTERS, Made, Values, busy, lasting, made, operations, session
from tests.real_sessions import loaded
from tests.table import each_row

RULE = "launch-configurations"
EXECUTED, THREADS = "smsp__inst_executed.sum", "smsp__thread_inst_executed_per_inst_executed.ratio"
STORED = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
LOAD = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
WORK = operations(ffma=5e8, fadd=0, fmul=0)
"""1 GFLOP."""
SHARED = "launch__shared_mem_per_block_dynamic"
DRAM_CLOCK = "dram__cycles_elapsed.avg.per_second"


def tiled(side: int, seconds: float, *more: Values, clock_hz: float = 1e9) -> Made:
    """A kernel over 1024 × 1024 elements in square blocks."""
    blocks = 1024 // side
    return made(lasting(seconds, clock_hz), *more, grid=(blocks, blocks, 1), block=(side, side, 1))


def told(*launches: Made) -> list[Finding]:
    return of_rule(session(*launches))


def of_rule(judged: Session | LoadedSession) -> list[Finding]:
    return [finding for kernel in judged.kernels for finding in kernel.findings if finding.rule == RULE]


def sure(*launches: Made) -> list[Confidence]:
    return [finding.confidence for finding in told(*launches)]


# What is told.


def test_the_slower_configuration_is_told_with_both_times_and_what_differs() -> None:
    (finding,) = told(tiled(16, 20e-6, WORK, {LOAD: 4.0}), tiled(32, 65e-6, WORK, {LOAD: 16.0}))
    assert finding.id == f"1.{RULE}"
    assert finding.headline == (
        "Launch configuration: 65.0 µs with 32×32 blocks, 20.0 µs with 16×16 blocks (#0); same work"
    )
    assert finding.why == "Counters that differ: sectors per global load 16 instead of 4."
    # 1 − 20 ÷ 65
    assert finding.gain_kernel == pytest.approx(9 / 13)
    assert (finding.gain_kind, finding.held) == ("fixed-work", "the fastest configuration profiled")
    assert (finding.severity, finding.confidence) == ("high", "measured")
    values = {item.meaning: item.value for item in finding.evidence}
    assert (values["duration"], values["duration in the faster configuration"]) == (65e-6, 20e-6)
    assert values["sectors per global load in the faster configuration"] == 4.0


def test_what_remains_are_the_needs_of_the_faster_launch() -> None:
    (finding,) = told(tiled(16, 20e-6, WORK, busy(dram=65)), tiled(32, 65e-6, WORK, busy(dram=20)))
    # DRAM needs 65 % of 20 µs, which are 13 of the 65 µs; the launch 1 of them.
    assert {item.unit: item.fraction for item in finding.remains} == pytest.approx({"dram": 0.2, "launch": 1 / 65})


def test_it_is_an_opportunity_of_all_launches_that_are_slower() -> None:
    judged = session(tiled(16, 20e-6, WORK), tiled(32, 60e-6, WORK), tiled(8, 40e-6, WORK), tiled(32, 80e-6, WORK))
    (chance,) = [item for item in judged.opportunities if item.rule == RULE]
    assert chance.kernels == (3, 1, 2)
    # (80 + 60 + 40 − 3 · 20) µs of 200 µs
    assert chance.gain_total == pytest.approx(0.6)
    assert chance.action == "Use the fastest launch configuration that was profiled"


def test_the_launch_of_median_duration_stands_for_its_configuration() -> None:
    fast = [tiled(16, seconds, WORK) for seconds in (20e-6, 30e-6, 90e-6)]
    (finding,) = told(*fast, tiled(32, 60e-6, WORK))
    assert "30.0 µs with 16×16 blocks (#1); same work" in finding.headline
    assert finding.gain_kernel == pytest.approx(0.5)
    # As one kernel, where longer launches of another size speak for it, their time tells nothing of its configuration.
    sizes = [tiled(16, seconds, WORK) for seconds in (20e-6, 20e-6, 20e-6, 90e-6, 90e-6)]
    report = builders.report(*(one.launch() for one in (*sizes, tiled(32, 60e-6, WORK))))
    groups = diagnose(analyse([report], builders.hardware_of, "1", one_of_a_kind=True))
    assert [kernel.duration_s for kernel in groups.kernels] == [90e-6, 60e-6]
    assert not of_rule(groups)


def test_launches_that_only_scatter_are_no_better_configuration() -> None:
    # Medians of 19 and 20 µs; single launches lie further apart.
    assert told(*(tiled(16, s, WORK) for s in (17e-6, 19e-6, 21e-6)),
                *(tiled(32, s, WORK) for s in (18e-6, 20e-6, 22e-6))) == []  # fmt: skip


@each_row(("seconds", "speaks"), [(22.3e-6, True), (22.1e-6, False)])
def test_a_tenth_of_the_time_is_worth_telling(seconds: float, speaks: bool) -> None:
    # 20 ÷ 22.3 = 0.897 and 20 ÷ 22.1 = 0.905
    assert bool(told(tiled(16, 20e-6, WORK), tiled(32, seconds, WORK))) is speaks


def test_shared_memory_is_part_of_the_configuration() -> None:
    shared = [tiled(16, seconds, WORK, {SHARED: size, REGISTERS: 32.0}) for seconds, size in ((2e-5, 1e4), (4e-5, 4e4))]
    (finding,) = told(*shared)
    assert "40.0 µs with 40.0 kB of shared memory, 20.0 µs with 10.0 kB" in finding.headline


# Whether the work is the same.


def test_equal_arithmetic_or_instructions_of_as_many_threads_are_proof() -> None:
    assert sure(tiled(16, 20e-6, WORK), tiled(32, 65e-6, WORK)) == ["measured"]
    # 1e6 · 32 and 1.003e6 · 31.9 thread instructions: 0.02 % apart.
    counts: tuple[Values, Values] = ({EXECUTED: 1e6, THREADS: 32.0}, {EXECUTED: 1.003e6, THREADS: 31.9})
    assert sure(tiled(16, 20e-6, counts[0]), tiled(32, 65e-6, counts[1])) == ["measured"]


@each_row(
    ("executed", "confidences"),
    [(1.005e6, ["measured"]), (1.02e6, ["inferred"]), (1.24e6, ["inferred"]), (1.26e6, [])],
)
def test_instructions_that_differ_prove_less(executed: float, confidences: list[Confidence]) -> None:
    counts: tuple[Values, Values] = ({EXECUTED: 1e6, THREADS: 32.0}, {EXECUTED: executed, THREADS: 32.0})
    assert sure(tiled(16, 20e-6, counts[0]), tiled(32, 65e-6, counts[1])) == confidences


def test_equal_arithmetic_beside_other_instructions_proves_less() -> None:
    few, many = (WORK | {EXECUTED: count, THREADS: 32.0} for count in (1e6, 2e6))
    assert sure(tiled(16, 20e-6, few), tiled(32, 65e-6, many)) == ["inferred"]


def test_counts_beyond_all_numbers_are_no_amount_of_work() -> None:
    huge = operations(ffma=1e308, fadd=0, fmul=0)
    assert session(tiled(16, 20e-6, huge), tiled(32, 65e-6, huge)).kernels


def test_as_many_threads_alone_are_inferred() -> None:
    assert sure(tiled(16, 20e-6), tiled(32, 65e-6)) == ["inferred"]


@each_row(("more", "speaks"), [(1.005, True), (1.02, False), (2.0, False)])
def test_other_arithmetic_is_other_work(more: float, speaks: bool) -> None:
    other = operations(ffma=5e8 * more, fadd=0, fmul=0)
    assert bool(told(tiled(16, 20e-6, WORK), tiled(32, 65e-6, other))) is speaks


def shaped(grid: Dim3, block: Dim3, seconds: float, *more: Values) -> Made:
    return made(lasting(seconds), *more, grid=grid, block=block)


def test_partly_empty_blocks_at_the_edges_are_the_same_extent() -> None:
    # 1000 × 1000 elements: 1008² threads in blocks of 16 × 16, 1024² of 32 × 32, 3 % more.
    assert told(shaped((63, 63, 1), (16, 16, 1), 20e-6), shaped((32, 32, 1), (32, 32, 1), 65e-6))
    # 36 elements: 48 threads in blocks of 16, 64 of 32, a third more.
    assert not told(shaped((3, 1, 1), (16, 1, 1), 20e-6), shaped((2, 1, 1), (32, 1, 1), 65e-6))


def test_as_many_threads_over_another_extent_are_another_problem() -> None:
    assert not told(shaped((8, 16, 1), (128, 1, 1), 20e-6, WORK), shaped((16, 8, 1), (128, 1, 1), 65e-6, WORK))
    assert not told(shaped((64, 1, 1), (16, 16, 1), 20e-6), shaped((16, 1, 1), (32, 32, 1), 65e-6))


def test_threads_that_do_more_each_need_equal_arithmetic_and_equal_stores() -> None:
    def looped(blocks: int, seconds: float, *more: Values) -> Made:
        return shaped((blocks, 1, 1), (256, 1, 1), seconds, *more)

    stores = {STORED: 1e6}
    assert sure(looped(4096, 20e-6, WORK, stores), looped(64, 65e-6, WORK, stores)) == ["inferred"]
    # A layer that widens stores four times what one that narrows does, with the same arithmetic.
    assert not told(looped(4096, 20e-6, WORK, stores), looped(64, 65e-6, WORK, {STORED: 2.5e5}))
    assert not told(looped(4096, 20e-6, WORK), looped(64, 65e-6, WORK))
    assert not told(looped(4096, 20e-6, stores), looped(64, 65e-6, stores))


def test_what_threads_store_counts_however_scattered_it_is() -> None:
    # `add` with one thread and with 4096 blocks of 256: a million elements, eight times the sectors without neighbours.
    def added(blocks: int, threads: int, seconds: float, sectors: float, **opcodes: float) -> Made:
        launch = shaped((blocks, 1, 1), (threads, 1, 1), seconds, operations(fadd=1e6, fmul=0, ffma=0))
        return replace(launch.plus({STORED: sectors}), histograms={THREAD_OPCODES: dict(opcodes.items())})

    fast = added(4096, 256, 20e-6, 1.25e5, LDG=2e6, STG=1e6)
    assert sure(added(1, 1, 0.5, 1e6, LDG=2e6, STG=1e6), fast) == ["inferred"]
    assert not told(added(1, 1, 0.5, 1e6, LDG=2e6, STG=2.5e5), fast)


@each_row(("loads", "stores", "speaks"), [(1e6, 1e6, True), (1.005e6, 1e6, True), (1.02e6, 1e6, False),
                                                         (1e6, 1.02e6, False), (0.0, 0.0, False)])  # fmt: skip
def test_without_arithmetic_what_threads_load_and_store_tells_the_work(
    loads: float, stores: float, speaks: bool
) -> None:
    def copied(blocks: int, seconds: float, **opcodes: float) -> Made:
        return replace(shaped((blocks, 1, 1), (256, 1, 1), seconds), histograms={THREAD_OPCODES: dict(opcodes.items())})

    findings = told(copied(4096, 20e-6, LDG=1e6, STG=1e6), copied(64, 65e-6, LDG=loads, STG=stores))
    assert bool(findings) is speaks
    assert all("with 4096 blocks of 256 (#0); apparently the same work" in finding.headline for finding in findings)


def test_other_registers_are_another_build() -> None:
    def built(registers: float, seconds: float, *more: Values) -> Made:
        return tiled(16, seconds, {REGISTERS: registers}, *more)

    (finding,) = told(built(40.0, 20e-6, WORK), built(128.0, 65e-6, WORK))
    assert "Build: 65.0 µs with 128 registers, 20.0 µs with 40 registers (#0); same work" in finding.headline
    assert (finding.confidence, finding.action) == ("inferred", "Build this kernel like its fastest launch")
    assert sure(built(40.0, 20e-6), built(128.0, 65e-6)) == ["guess"]


def test_other_kernels_and_launches_without_a_shape_or_a_time_are_not_compared() -> None:
    slow, fast = tiled(32, 65e-6, WORK), tiled(16, 20e-6, WORK)
    assert not told(fast, replace(slow, name="other"))
    assert not told(fast, replace(slow, grid=None)) and not told(fast, replace(slow, block=None))
    assert not told(fast.without("gpu__time_duration.sum"), slow)


def reports(*sessions: Made) -> Session:
    """Each launch in a report of its own."""
    files = [
        structs.replace(builders.report(item.launch()), file=f"{place}.ncu-rep") for place, item in enumerate(sessions)
    ]
    return judged(*files)


def judged(*files: Report) -> Session:
    return diagnose(analyse(files, builders.hardware_of, "9.9"))


def test_launches_of_two_reports_are_compared_if_they_were_built_alike() -> None:
    built = {REGISTERS: 32.0}
    (finding,) = of_rule(reports(tiled(16, 20e-6, WORK, built), tiled(32, 65e-6, WORK, built)))
    assert finding.confidence == "inferred"
    assert not of_rule(reports(tiled(16, 20e-6, WORK), tiled(32, 65e-6, WORK)))
    assert not of_rule(reports(tiled(16, 20e-6, WORK, built), tiled(32, 65e-6, WORK, {REGISTERS: 40.0})))


def test_ranks_of_a_run_are_not_compared() -> None:
    built = {REGISTERS: 32.0}
    launches = (tiled(16, 20e-6, WORK, built), tiled(32, 65e-6, WORK, built))
    files = [structs.replace(builders.report(item.launch()), rank=rank) for rank, item in enumerate(launches)]
    assert not of_rule(judged(*files))


def test_thresholds_are_those_of_the_rule() -> None:
    rule = rule_named(RULE)
    assert rule is not None and rule.of_launches
    assert [item.value for item in rule.thresholds] == [10.0, 1.0, 10.0, 25.0, 2.0]


# At one clock.


def test_where_the_clocks_differ_the_smaller_gain_of_seconds_and_cycles_is_told() -> None:
    # 20 000 cycles in 20 µs and in 40 µs: only the clock differs.
    assert not told(tiled(16, 20e-6, WORK, clock_hz=1e9), tiled(32, 40e-6, WORK, clock_hz=5e8))
    # 200 µs at 1.2 GHz are 240 000 cycles, 600 µs at 1 GHz 600 000: 60 % in cycles, 67 % in seconds.
    (finding,) = told(tiled(16, 200e-6, WORK, clock_hz=1.2e9), tiled(32, 600e-6, WORK))
    assert finding.gain_kernel == pytest.approx(0.6)
    assert "600 µs at 1.00 GHz with 32×32 blocks, 200 µs at 1.20 GHz" in finding.headline
    assert "The clocks differ, so the gain" in finding.why
    assert finding.why.endswith("(600\u202f000 here, 240\u202f000 there).")
    assert finding.confidence == "inferred"
    # The faster launch ran at the lower clock: 67 % in seconds, 73 % in cycles.
    (finding,) = told(tiled(16, 20e-6, WORK, clock_hz=8e8), tiled(32, 60e-6, WORK))
    assert finding.gain_kernel == pytest.approx(2 / 3)


@each_row(("clock_hz", "confidence"), [(1.019e9, "measured"), (1.021e9, "inferred")])
def test_two_percent_are_another_clock(clock_hz: float, confidence: Confidence) -> None:
    assert sure(tiled(16, 20e-6, WORK, clock_hz=clock_hz), tiled(32, 65e-6, WORK)) == [confidence]


def test_clocks_of_short_launches_that_their_cycles_leave_open_are_no_other_clocks() -> None:
    # 1.2 ÷ 1.1 is less than 1.0 ÷ 0.9: each can be the other's clock, counted in other passes than the time.
    (finding,) = told(tiled(16, 20e-6, WORK, clock_hz=1.2e9), tiled(32, 60e-6, WORK))
    assert "60.0 µs with 32×32 blocks, 20.0 µs with 16×16 blocks" in finding.headline
    assert finding.gain_kernel == pytest.approx(0.6)
    assert "The clocks may differ, so the gain is the smaller" in finding.why
    assert finding.confidence == "inferred"


def test_an_unknown_clock_proves_less() -> None:
    assert sure(tiled(16, 20e-6, WORK).without(CLOCK), tiled(32, 65e-6, WORK)) == ["inferred"]


def test_a_faster_dram_is_no_better_configuration() -> None:
    clocks: tuple[Values, Values] = ({DRAM_CLOCK: 1.5e9}, {DRAM_CLOCK: 1e9})
    # At the clock of the slower launch, 1.5 · 20 = 30 of 60 µs.
    (finding,) = told(tiled(16, 20e-6, WORK, clocks[0]), tiled(32, 60e-6, WORK, clocks[1]))
    assert finding.gain_kernel == pytest.approx(0.5)
    assert not told(tiled(16, 20e-6, WORK, clocks[0]), tiled(32, 32e-6, WORK, clocks[1]))


seconds_of = st.floats(1e-5, 1e-2)
hertz = st.floats(5e8, 2e9)


@given(times=st.tuples(seconds_of, seconds_of), clocks=st.tuples(hertz, hertz), dram=st.floats(0, 100))
def test_no_gain_is_above_what_seconds_and_cycles_show(
    times: tuple[float, float], clocks: tuple[float, float], dram: float
) -> None:
    for finding in told(*(tiled(side, s, WORK, busy(dram=dram), clock_hz=hz)
                          for side, s, hz in zip((16, 32), times, clocks, strict=True))):  # fmt: skip
        slow = int(finding.id[0])
        ratio = times[1 - slow] / times[slow]
        gain = finding.gain_kernel or 0.0
        assert 0.1 <= gain <= min(1 - ratio, 1 - ratio * clocks[1 - slow] / clocks[slow]) + 1e-9
        assert gain <= 1 - finding.remains[0].fraction + 1e-9


# Clocks of a session.


def clocked(number: int, sm_hz: float | None, **changes: object) -> KernelProfile:
    fields = {"label": f"kernel {number}", "sm_clock_hz": sm_hz, **changes}
    return hand_made.kernel(number, **fields)


def notes(*kernels: KernelProfile) -> tuple[str, ...]:
    verdict = hand_made.session(*kernels).verdict
    assert isinstance(verdict, RunVerdict)
    return verdict.notes


def test_launches_at_different_sm_clocks_are_named_with_both() -> None:
    assert notes(clocked(0, 1.0e9), clocked(1, 1.3e9), clocked(2, 1.2e9)) == (
        "SM clocks differ although ncu locked them: 1.00 GHz in kernel 0 (#0) and 1.30 GHz in kernel 1 (#1). Compare "
        "cycles, not times, or profile again after a warm-up.",
    )
    assert notes(clocked(0, 1.0e9, duration_s=19e-6), clocked(1, 1.3e9)) == ()
    assert notes(clocked(0, 1.0e9), clocked(1, 1.019e9), clocked(2, None)) == ()


def test_launches_of_one_kernel_are_compared_before_those_of_all() -> None:
    alike = [clocked(number, hz, demangled="same") for number, hz in ((1, 1.2e9), (2, 1.3e9))]
    (note,) = notes(clocked(0, 1.0e9), *alike)
    assert "1.20 GHz in kernel 1 (#1) and 1.30 GHz in kernel 2 (#2)" in note


def test_what_holds_the_clocks_is_said_where_nothing_held_them() -> None:
    made_of = hand_made.session(clocked(0, 1.0e9), clocked(1, 1.3e9))
    free = structs.replace(made_of, sources=(structs.replace(made_of.sources[0], clock_control="none"),))
    verdict = summarised(free).verdict
    assert verdict is not None
    assert verdict.notes[0].endswith("or profile again with ncu --clock-control base.")


def test_clocks_that_fall_together_did_not_fall() -> None:
    # 0.6 of both clocks: 40 % of the time were not counted.
    pair = [
        clocked(0, 0.6e9, dram_clock_hz=0.9e9, demangled="same"),
        clocked(1, 1.0e9, dram_clock_hz=1.5e9, demangled="same"),
    ]
    assert notes(*pair) == ()
    alone = hand_made.session(*pair)
    both = structs.replace(
        alone, kernels=(pair[0], structs.replace(pair[1], source=1)), sources=(alone.sources[0], alone.sources[0])
    )
    verdict = summarised(both).verdict
    assert verdict is not None
    assert (
        "Cycles over time give SM clocks of 600 MHz in kernel 0 (#0) and 1.00 GHz in kernel 1 (#1). DRAM clocks "
        "would differ as much, so neither changed: the time of #0 includes a part that no counter covers. Compare "
        "cycles, not times."
    ) in verdict.notes


def test_launches_at_different_dram_clocks_are_compared_by_percentages() -> None:
    (note,) = notes(clocked(0, 1e9, dram_clock_hz=1.2e9), clocked(1, 1e9, dram_clock_hz=1.5e9))
    assert note == (
        "DRAM ran at different clocks: 1.20 GHz in kernel 0 (#0) and 1.50 GHz in kernel 1 (#1). Compare "
        "percentages, not times."
    )
    assert notes(clocked(0, 1e9, dram_clock_hz=1.2e9), clocked(1, 1e9, dram_clock_hz=1.25e9)) == ()
    short = clocked(1, 1e9, dram_clock_hz=1.5e9, duration_s=5e-6)
    assert notes(clocked(0, 1e9, dram_clock_hz=1.2e9), short) == ()


def test_both_clocks_are_told_in_one_note_where_they_differ_apart() -> None:
    (note,) = notes(clocked(0, 1.0e9, dram_clock_hz=1.5e9), clocked(1, 1.3e9, dram_clock_hz=1.2e9))
    assert note == (
        "SM clocks differ (1.00 GHz in kernel 0 (#0) and 1.30 GHz in kernel 1 (#1)), and so do DRAM clocks (1.20 GHz "
        "in kernel 1 (#1) and 1.50 GHz in kernel 0 (#0)). Compare percentages, not times, or profile again after a "
        "warm-up."
    )


def test_a_report_that_does_not_say_who_held_the_clocks_is_told_neither() -> None:
    made_of = hand_made.session(clocked(0, 1.0e9), clocked(1, 1.3e9))
    unknown = structs.replace(made_of, sources=(structs.replace(made_of.sources[0], clock_control=None),))
    verdict = summarised(unknown).verdict
    assert verdict is not None
    assert verdict.notes[0] == (
        "SM clocks differ: 1.00 GHz in kernel 0 (#0) and 1.30 GHz in kernel 1 (#1). Compare cycles, not times."
    )


def test_too_few_cycles_are_no_clock_where_that_of_dram_does_not_tell() -> None:
    assert notes(clocked(0, 1.0e9, duration_s=5e-6), clocked(1, 1.3e9)) == ()


# Real reports.


def test_short_launches_of_a_real_report_hold_time_that_no_clock_counted(reports: Path) -> None:
    # V100, whose DRAM has one clock: 612 of 1295 MHz, and 416 of 877 MHz in launches of 11 µs and of 6 ms.
    verdict = loaded(reports / "gpu_workshop-MW_Baseline.ncu-rep").verdict
    assert verdict is not None
    assert verdict.notes == ()


def test_versions_in_two_real_reports_are_compared_in_cycles(reports: Path) -> None:
    both = gpuprof.load(*(reports / f"gpu_workshop-MW_{name}.ncu-rep" for name in ("Baseline", "DivToMult")))
    assert both.verdict is not None
    # 11.4 and 12.8 µs of one code, 8930 and 9079 cycles; DRAM's cycles at 481 and 532 MHz.
    assert (
        "710 MHz in set_halo_values_x_396_gpu (#5) and 784 MHz in set_halo_values_x_396_gpu (#0)"
        in (both.verdict.notes[-1])
    )


def test_sizes_of_a_kernel_in_real_reports_are_no_configurations(real_report: Path) -> None:
    # Fills of arrays of other sizes, random numbers for other tensors, images of other sizes.
    assert of_rule(loaded(real_report)) == []


# Time.


def test_ten_thousand_launches_of_a_kernel_in_two_hundred_builds_are_soon_compared() -> None:
    launches = [
        tiled(16, 2e-5, {REGISTERS: 16.0 + number % 200}, operations(ffma=1e6 * (1 + number % 97))).launch()
        for number in range(10_000)
    ]
    analysis = analyse([builders.report(*launches)], builders.hardware_of, "9.9")
    start = time.process_time()
    assert not faster_launches(analysis)
    # All pairs would take minutes.
    assert time.process_time() - start < 30
