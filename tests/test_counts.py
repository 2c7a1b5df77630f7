"""What a launch did, as sessions keep it for comparisons: counts by counters and opcodes, with least and most."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from gpuprof.collect.metrics import metrics_of
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import COUNTS, WARP_OPCODES, ArchSpec
from gpuprof.model.analyse import analyse
from gpuprof.model.counts import launch_counts
from gpuprof.model.recorded import DictMetrics, Launch
from gpuprof.model.session import KernelProfile
from gpuprof.read.printed_numbers import metric_of
from gpuprof.recordings import recordings
from tests import builders
from tests.readings import unpacked
from tests.real_sessions import loaded
from tests.table import each_row
from tests.worded import grouped

INSTRUCTIONS = "smsp__inst_executed.sum"
THREADS_PER_INSTRUCTION = "smsp__thread_inst_executed_per_inst_executed.ratio"
READ, WRITTEN = "l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_l1tex2xbar_write_bytes.sum"
LOADS = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"
DURATION = "gpu__time_duration.sum"


def _sm_80() -> ArchSpec:
    spec = SpecLibrary().arch("sm_80")
    assert spec is not None
    return spec


def counts_of(values: Mapping[str, float | str], opcodes: Mapping[str | int, float] | None = None) -> dict[str, float]:
    table = builders.metrics(values, {WARP_OPCODES: opcodes} if opcodes is not None else None)
    return {count.name: count.value for count in launch_counts(table, _sm_80())}


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
    # 997,001 of 31,250 instructions' threads: the ratio is no binary fraction.
    whole = counts_of({INSTRUCTIONS: 31_250.0, THREADS_PER_INSTRUCTION: 997_001 / 31_250})
    assert whole["thread-instructions"] == 997_001
    # Opcodes are added up without their modifiers; what is none is not counted.
    opcodes: dict[str | int, float] = {"FFMA": 3.0, "LDG.E.64": 2.0, "LDG.E.128.SYS": 5.0, "MUFU.RCP": 0.0}
    odd: dict[str | int, float] = dict.fromkeys(("\x1b[31mFFMA", "<b>", "", "lower", "A" * 41, 7, "É", "FFMA\n"), 1.0)
    assert counts_of({}, {**opcodes, **odd}) == {"opcode.LDG": 7.0, "opcode.FFMA": 3.0}
    for count in (float("nan"), float("inf"), -1.0):
        assert counts_of({INSTRUCTIONS: count}, {"FFMA": count}) == {}


@each_row(
    ("printed", "instructions", "thread_instructions"),
    [
        (("125952.000000", "32"), 125_952, 4_030_464), (("0.000000", "32"), 0, None),
        # 125,952 × 0.005 threads are open, 8 × 0.005 are not.
        (("125952.000000", "31.98"), 125_952, None), (("8.000000", "30.50"), 8, 244),
        (("125952.0", ""), 125_952, None), (("125952.5", "32"), None, None), (("12.333333", "32"), None, None),
        (("1.26E+05", "32"), None, None), (("7.000000", "0.00"), 7, None),
    ],
)  # fmt: skip
def test_what_a_text_rounded_is_a_count_if_its_digits_leave_one_whole_number(
    printed: tuple[str, str], instructions: float | None, thread_instructions: float | None
) -> None:
    names = ((INSTRUCTIONS, "inst"), (THREADS_PER_INSTRUCTION, ""))
    known = {name: metric_of(cell, unit) for (name, unit), cell in zip(names, printed, strict=True)}
    table = DictMetrics({name: metric for name, metric in known.items() if metric is not None})
    counts = {count.name: count.value for count in launch_counts(table, _sm_80())}
    expected = {"instructions": instructions, "thread-instructions": thread_instructions}
    assert counts == {name: value for name, value in expected.items() if value is not None}


@each_row(
    ("read", "written", "unit", "sectors"),
    [
        ("8.388608", "1.048576", "Mbyte", 294_912), ("1.001049", "1.000000", "Gbyte", None),
        ("0.000000", "0.000000", "Gbyte", None),
    ],
)  # fmt: skip
def test_bytes_are_a_count_of_sectors_if_their_prefix_leaves_none_open(
    read: str, written: str, unit: str, sectors: float | None
) -> None:
    known = {name: metric_of(cell, unit) for name, cell in ((READ, read), (WRITTEN, written))}
    table = DictMetrics({name: metric for name, metric in known.items() if metric is not None})
    assert [count.value for count in launch_counts(table, _sm_80())] == ([sectors] if sectors is not None else [])


def test_an_opcode_that_a_launch_lacks_was_not_executed_in_it() -> None:
    kernel = in_one_group(
        counted(5.0, 1.0, {"FFMA": 5.0}), counted(7.0, 2.0, {"FFMA": 4.0, "STL": 3.0}),
        counted(6.0, 3.0, {"FFMA": 5.0, "MUFU.RCP": 1.0}),
    )  # fmt: skip
    assert spans(kernel) == {
        "instructions": (5.0, 7.0, 7.0), "opcode.FFMA": (4.0, 4.0, 5.0), "opcode.STL": (0.0, 3.0, 3.0),
        "opcode.MUFU": (0.0, 0.0, 1.0),
    }  # fmt: skip
    # A launch without a histogram says nothing of opcodes.
    kernel = in_one_group(counted(5.0, 2.0), counted(5.0, 1.0, {"FFMA": 5.0}))
    assert spans(kernel) == {"instructions": (5.0, 5.0, 5.0)}
    kernel = in_one_group(counted(5.0, 1.0), counted(5.0, 2.0, {"FFMA": 5.0}))
    assert spans(kernel)["opcode.FFMA"] == (5.0, 5.0, 5.0)


def test_every_count_of_every_architecture_is_collected_for_other_reasons() -> None:
    library = SpecLibrary()
    for number in (70, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121):
        name = f"sm_{number}"
        spec = library.arch(name)
        assert spec is not None
        others = {quantity: chain for quantity, chain in spec.counters.items() if not quantity.startswith("count.")}
        assert len(others) + len(COUNTS) == len(spec.counters)
        without = replace(spec, counters=others)
        for chosen in ("roofline", "diagnose", "full"):
            assert set(metrics_of(spec, chosen)) == set(metrics_of(without, chosen))


@pytest.mark.slow
def test_recorded_counts_agree_with_each_other() -> None:
    checked = 0
    for recording in recordings():
        for kernel in loaded(unpacked(recording)).kernels:
            values = {count.name: count.value for count in kernel.counts}
            executed = sum(value for name, value in values.items() if name.startswith("opcode."))
            if not executed:
                continue
            assert executed == values["instructions"]
            assert values["thread-instructions"] <= 32 * values["instructions"]
            (bytes_l2,) = (level.bytes for level in kernel.traffic if level.level == "l2")
            assert values["l2-sectors"] * 32 == bytes_l2
            checked += 1
    assert checked >= 5
