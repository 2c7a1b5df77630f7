"""What a launch did, as sessions keep it for comparisons: counts by counters and opcodes, with least and most."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from gpuprof.collect.metrics import metrics_of
from gpuprof.diagnose.grouping import grouped
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import COUNTS, WARP_OPCODES
from gpuprof.model.analyse import analyse
from gpuprof.model.counts import launch_counts, spanning
from gpuprof.model.recorded import DictMetrics, Launch, Metric
from gpuprof.model.session import KernelProfile, LaunchCount
from tests import builders
from tests.real_sessions import loaded
from tests.table import each_row
from tests.test_ncu_commands import CHIPS, arch

INSTRUCTIONS = "smsp__inst_executed.sum"
THREADS_PER_INSTRUCTION = "smsp__thread_inst_executed_per_inst_executed.ratio"
READ, WRITTEN = "l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_l1tex2xbar_write_bytes.sum"
LOADS = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"
DURATION = "gpu__time_duration.sum"


def counts_of(values: Mapping[str, float | str], opcodes: Mapping[str | int, float] | None = None) -> dict[str, float]:
    table = builders.metrics(values, {WARP_OPCODES: opcodes} if opcodes is not None else None)
    return {count.name: count.value for count in launch_counts(table, arch("sm_80"))}


def counted(instructions: float, seconds: float, opcodes: Mapping[str | int, float] | None = None) -> Launch:
    instances = {WARP_OPCODES: opcodes} if opcodes is not None else None
    return builders.launch({INSTRUCTIONS: instructions, DURATION: seconds}, instances)


def in_one_group(*launches: Launch) -> KernelProfile:
    """The kernel of equal launches; analysed at once it is what grouping them later gives."""
    reports = [builders.report(*launches)]
    (at_once,) = analyse(reports, builders.hardware_of, "1", one_of_a_kind=True).session.kernels
    (later,) = grouped(analyse(reports, builders.hardware_of, "1").session).kernels
    assert at_once.counts == later.counts
    return at_once


def spans(kernel: KernelProfile) -> dict[str, tuple[float, float, float]]:
    return {count.name: (count.low, count.value, count.high) for count in kernel.counts}


def test_counts_are_what_the_counters_say_and_missing_ones_are_left_out() -> None:
    # 10 warp instructions of 31 threads each; 64 + 32 bytes between L1 and L2 are three sectors.
    values = {INSTRUCTIONS: 10.0, THREADS_PER_INSTRUCTION: 31.0, READ: 64.0, WRITTEN: 32.0, LOADS: 0.0}
    assert counts_of(values) == {
        "instructions": 10.0, "thread-instructions": 310.0, "local-load-sectors": 0.0, "l2-sectors": 3.0
    }  # fmt: skip


def test_thread_instructions_are_a_whole_number_again() -> None:
    # 997,001 of 31,250 instructions' threads: the ratio is no binary fraction.
    assert counts_of({INSTRUCTIONS: 31_250.0, THREADS_PER_INSTRUCTION: 997_001 / 31_250})["thread-instructions"] == (
        997_001
    )


def test_opcodes_are_added_up_without_their_modifiers() -> None:
    opcodes: dict[str | int, float] = {"FFMA": 3.0, "LDG.E.64": 2.0, "LDG.E.128.SYS": 5.0, "MUFU.RCP": 0.0}
    assert counts_of({}, opcodes) == {"opcode.LDG": 7.0, "opcode.FFMA": 3.0}


@each_row("name", ["\x1b[31mFFMA", "<b>", "", "lower", "A" * 41, 7, "É", "FFMA\n"])
def test_what_is_no_opcode_is_not_counted(name: str | int) -> None:
    assert counts_of({}, {name: 1.0, "FFMA": 2.0}) == {"opcode.FFMA": 2.0}


@each_row("count", [float("nan"), float("inf"), -1.0])
def test_what_no_gpu_counts_is_not_counted(count: float) -> None:
    assert counts_of({INSTRUCTIONS: count}, {"FFMA": count}) == {}


def test_what_a_text_export_rounded_is_no_count() -> None:
    table = DictMetrics({INSTRUCTIONS: Metric(125_952.0, "inst"), THREADS_PER_INSTRUCTION: Metric(31.98, "", digits=4)})
    assert [count.name for count in launch_counts(table, arch("sm_80"))] == ["instructions"]


def test_a_group_has_the_least_and_most_of_its_launches() -> None:
    # 2 s is the median: that launch speaks.
    kernel = in_one_group(counted(100.0, 1.0), counted(300.0, 2.0), counted(200.0, 3.0))
    assert spans(kernel) == {"instructions": (100.0, 300.0, 300.0)}


def test_an_opcode_that_a_launch_lacks_was_not_executed_in_it() -> None:
    kernel = in_one_group(
        counted(5.0, 1.0, {"FFMA": 5.0}), counted(7.0, 2.0, {"FFMA": 4.0, "STL": 3.0}),
        counted(6.0, 3.0, {"FFMA": 5.0, "MUFU.RCP": 1.0}),
    )  # fmt: skip
    assert spans(kernel) == {
        "instructions": (5.0, 7.0, 7.0), "opcode.FFMA": (4.0, 4.0, 5.0), "opcode.STL": (0.0, 3.0, 3.0),
        "opcode.MUFU": (0.0, 0.0, 1.0),
    }  # fmt: skip


def test_a_launch_without_a_histogram_says_nothing_of_opcodes() -> None:
    kernel = in_one_group(counted(5.0, 2.0), counted(5.0, 1.0, {"FFMA": 5.0}))
    assert spans(kernel) == {"instructions": (5.0, 5.0, 5.0)}
    kernel = in_one_group(counted(5.0, 1.0), counted(5.0, 2.0, {"FFMA": 5.0}))
    assert spans(kernel)["opcode.FFMA"] == (5.0, 5.0, 5.0)


def test_only_what_the_same_counters_tell_is_put_together() -> None:
    def count(value: float, metric: str) -> LaunchCount:
        return LaunchCount(name="l2-sectors", value=value, unit="sector", metric=metric, low=value, high=value)

    (together,) = spanning([count(5.0, "a")], [[count(5.0, "a")], [count(9.0, "b")], [count(6.0, "a")]])
    assert (together.low, together.high) == (5.0, 6.0)


def test_every_count_of_every_architecture_is_collected_for_other_reasons() -> None:
    library = SpecLibrary()
    for name in (*CHIPS.values(), "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"):
        spec = library.arch(name)
        assert spec is not None
        others = {quantity: chain for quantity, chain in spec.counters.items() if not quantity.startswith("count.")}
        assert len(others) + len(COUNTS) == len(spec.counters)
        without = replace(spec, counters=others)
        for chosen in ("roofline", "diagnose", "full"):
            assert set(metrics_of(spec, chosen)) == set(metrics_of(without, chosen))


def test_real_counts_agree_with_each_other(reports: Path) -> None:
    for name in ("cutlass-384.ncu-rep", "indexspaces.jl-profile.ncu-rep", "gpu_workshop-MW_Baseline.ncu-rep"):
        for kernel in loaded(reports / name).kernels:
            values = {count.name: count.value for count in kernel.counts}
            executed = sum(value for name, value in values.items() if name.startswith("opcode."))
            assert executed == values["instructions"]
            assert values["thread-instructions"] <= 32 * values["instructions"]
            (bytes_l2,) = (level.bytes for level in kernel.traffic if level.level == "l2")
            assert values["l2-sectors"] * 32 == bytes_l2


def test_the_division_that_became_a_multiplication_is_seen_in_the_opcodes(reports: Path) -> None:
    base, new = (
        {kernel.name: {count.name: count.value for count in kernel.counts} for kernel in loaded(reports / name).kernels}
        for name in ("gpu_workshop-MW_Baseline.ncu-rep", "gpu_workshop-MW_DivToMult.ncu-rep")
    )
    changed = "compute_tendencies_x_279_gpu"
    assert new[changed]["instructions"] < 0.6 * base[changed]["instructions"]
    assert new[changed]["opcode.MUFU"] < base[changed]["opcode.MUFU"]
    same = [name for name in base if name != changed]
    assert same and all(base[name]["instructions"] == new[name]["instructions"] for name in same)
