"""The verdict on work: tolerances, work that depends on data, what weighs, and real kernels profiled twice."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchmarks.gate import work as planted
from gpuprof.comparison.contract import CountChange, WorkChange, WorkNote
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import side_of
from gpuprof.comparison.work.verdict import work_change
from tests.compare_builders import kernel, pair, pair_of, side
from tests.table import each_row

MB = 1e6
Range = tuple[float, float, float]


def changed(base: dict[str, Any], new: dict[str, Any], **options: Any) -> WorkChange:
    return work_change(pair_of(kernel(**base), kernel(**new)), **options)


def count_of(change: WorkChange, name: str) -> CountChange:
    return next(count for count in change.counts if count.name == name)


def word_of(base: dict[str, Any], new: dict[str, Any], name: str, **options: Any) -> str:
    return count_of(changed(base, new, **options), name).word


def instructions(value: float | Range, **fields: Any) -> dict[str, Any]:
    """A kernel of so many instructions; of several launches as (value, low, high)."""
    return {"counts": {"instructions": value}, **fields}


def dram(size: float) -> dict[str, Any]:
    return {"traffic": {"dram": size}}


def opcodes(launches: int = 1, /, **counts: float | Range) -> dict[str, Any]:
    every = {"instructions": 1e6, **{f"opcode.{name}": value for name, value in counts.items()}}
    return {"counts": every, "durations_s": [1e-5] * launches}


def spread(value: float, launches: int = 20, **fields: Any) -> dict[str, Any]:
    return instructions((value, value * 0.98, value * 1.02), launches=launches, **fields)


BY_DATA = instructions((1e6, 4e5, 2e6), launches=50)
"""A kernel whose launches differ widely."""


@each_row(
    ("base", "new", "name", "count", "verdict"),
    [
        # One instruction in a thousand is within the tolerance, three are not.
        (instructions(1_000_000), instructions(1_000_900), "instructions", "same", "same"),
        (instructions(1_000_000), instructions(1_003_000), "instructions", "more", "more"),
        (instructions(1_003_000), instructions(1_000_000), "instructions", "less", "less"),
        # Bytes from DRAM have a band of half a percent and half a mebibyte. Real kernels, the same code twice:
        # set_halo_values_x_419_gpu (V100), one of PyTorch (H800), semi_discrete_step_232_gpu (V100);
        (dram(1_247_136), dram(1_429_632), "dram-bytes", "same", "unknown"),
        (dram(21_469_696), dram(21_111_040), "dram-bytes", "same", "unknown"),
        (dram(3_724_419_000), dram(3_726_559_000), "dram-bytes", "same", "unknown"),
        # and other code: compute_tendencies_x_279_gpu (V100).
        (dram(2_477_022_176), dram(2_521_822_304), "dram-bytes", "more", "unknown"),
        # Another tile keeps less in L2: forty times the DRAM bytes say nothing of what it executes.
        (dram(4.9e5), dram(20.7e6), "dram-bytes", "more", "unknown"),
        (instructions(1e6, **dram(4.9e5)), instructions(1e6, **dram(20.7e6)), "dram-bytes", "more", "more"),
        # As many instructions with other opcodes; without a histogram on one side, no opcode counts as zero.
        (opcodes(DMUL=4e5, CS2R=100), opcodes(FMUL=4e5, CS2R=100), "opcode.DMUL", "less", "changed"),
        (opcodes(DMUL=4e5), instructions(1e6), "opcode.DMUL", "only-base", "same"),
        # A large change outweighs a small one the other way and no other.
        (instructions(1e9, **dram(1e9)), instructions(4e8, **dram(1.018e9)), "instructions", "less", "less"),
        (instructions(1e9, **dram(1e9)), instructions(4e8, **dram(1.3e9)), "instructions", "less", "changed"),
        (instructions(1e9, **dram(1e9)), instructions(1.02e9, **dram(5e8)), "instructions", "more", "less"),
        # Fewer bank conflicts do not outweigh more instructions.
        ({"counts": {"instructions": 1e9, "bank-conflicts": 1e8}},
         {"counts": {"instructions": 1.03e9, "bank-conflicts": 1e6}}, "bank-conflicts", "less", "changed"),
        # FLOP of another path that were none are a change in both directions.
        (instructions(1e9, flop={"fp64": 1e9, "fp32": 0}), instructions(5e8, flop={"fp64": 0, "fp32": 1e9}),
         "flop.fp32", "more", "changed"),
        # A side without counts makes work unknown.
        (instructions(1e6), {}, "instructions", "only-base", "unknown"),
        # Work that depends on data changed only beyond what a side does by itself.
        (spread(1e6), instructions((1.05e6, 1.03e6, 1.07e6), launches=20), "instructions", "unclear", "unclear"),
        (spread(1e6), instructions((1.08e6, 1.06e6, 1.1e6), launches=20), "instructions", "more", "more"),
        (spread(1e6, 3), spread(2e6, 3), "instructions", "unclear", "unclear"),
        (BY_DATA, {**BY_DATA, "counts": {"instructions": (4e5, 4e5, 2e6)}}, "instructions", "same", "same"),
        # Launches that a survey timed were not all counted.
        (spread(1e6, 1000, duration_source="survey"), spread(2e6, 1000, duration_source="survey"),
         "instructions", "unclear", "unclear"),
        # Values of the launch that speaks are not held against those of another size.
        ({**BY_DATA, **dram(1e8)}, {**BY_DATA, **dram(2e8)}, "dram-bytes", "unclear", "same"),
        ({**BY_DATA, "flop": {"fp32": 1e9}}, {**BY_DATA, "flop": {"fp32": 4e8}}, "flop.fp32", "unclear", "same"),
        ({**BY_DATA, "registers": 40}, {**BY_DATA, "registers": 72}, "registers", "more", "same"),
        # An opcode that a side lacks was counted in the launches of that side.
        (opcodes(CS2R=100), opcodes(20, CS2R=100, ATOM=(50, 40, 60)), "opcode.ATOM", "unclear", "same"),
        (opcodes(20, CS2R=100), opcodes(20, CS2R=100, ATOM=(50, 40, 60)), "opcode.ATOM", "more", "changed"),
    ],
)  # fmt: skip
def test_a_count_and_all_work_have_their_verdicts(
    base: dict[str, Any], new: dict[str, Any], name: str, count: str, verdict: str
) -> None:
    change = changed(base, new)
    assert (count_of(change, name).word, change.verdict) == (count, verdict), change.notes


def test_the_first_spilled_sector_is_a_change_and_half_of_them_is_not_known() -> None:
    base = {"counts": {"instructions": 1e6, "local-load-sectors": 0, "local-store-sectors": 0}}
    new = {"counts": {"instructions": 1e6, "local-load-sectors": 12, "local-store-sectors": 4}}
    change = changed(base, new)
    spills = count_of(change, "spills")
    assert (spills.base, spills.new, spills.ratio, spills.word) == (0, 16, None, "more")
    assert change.verdict == "more"
    half = {"counts": {"instructions": 1e6, "local-load-sectors": 8}, "flop": {"fp64": 0}}
    names = {count.name for count in changed(half, half).counts}
    assert not {"spills", "flop.fp64"} & names
    gone = count_of(changed(opcodes(DMUL=4e5, CS2R=100), opcodes(FMUL=4e5, CS2R=100)), "opcode.DMUL")
    assert (gone.base, gone.new) == (4e5, 0)


def test_new_and_gone_kernels_have_no_verdict_on_work_and_runs_tell_that_it_depends_on_data() -> None:
    own = side(kernel(counts={"instructions": 1e6}))
    assert work_change(pair(None, own)).verdict == "new"
    assert work_change(pair(own, None)).verdict == "gone"
    runs = [side(kernel(counts={"instructions": value})).runs[0] for value in (1e6, 1.1e6)]
    change = work_change(pair(side_of(runs), side(kernel(counts={"instructions": 1.2e6}))))
    assert count_of(change, "instructions").data_dependent and change.verdict == "unclear"


def test_work_of_other_machine_code_is_not_compared_but_for_its_flop() -> None:
    change = changed(instructions(1e6, flop={"fp32": 1e9}), instructions(2e6, flop={"fp32": 1e9}), comparable=False)
    assert change.verdict == "unknown"
    assert [note.kind for note in change.notes] == ["other-code"]
    assert count_of(change, "instructions").word == "unclear"
    assert count_of(change, "flop.fp32").word == "same"


def test_bytes_behind_caches_that_were_treated_otherwise_are_not_compared() -> None:
    base, new = (instructions(1e6, traffic={"dram": size * MB, "l1": 50 * MB}) for size in (100, 40))
    assert changed(base, new).verdict == "less"
    change = changed(base, new, caches_alike=False)
    assert change.verdict == "same"
    assert change.notes[-1] == WorkNote(kind="caches", names=("dram-bytes",))
    assert count_of(change, "dram-bytes").word == "unclear"
    assert count_of(change, "l1-bytes").word == "same"


def test_counts_that_were_printed_may_differ_by_a_percent_more() -> None:
    base, new = instructions(1e6, flop={"fp32": 1e9}), instructions(1e6, flop={"fp32": 1.009e9})
    assert word_of(base, new, "flop.fp32") == "more"
    assert word_of(base, new, "flop.fp32", rounded=True) == "same"


def test_kernels_that_were_split_are_added_up_and_their_resources_are_not() -> None:
    whole = side(kernel("whole", counts={"instructions": 1e6}, launches=4))
    halves = side(
        kernel("left", counts={"instructions": 4e5, "bank-conflicts": 9.0}, launches=4),
        kernel("right", counts={"instructions": 7e5}, launches=4),
    )
    change = work_change(Pair("split", whole.kernels, halves.kernels))
    assert count_of(change, "instructions").base == 4e6
    assert count_of(change, "instructions").new == pytest.approx(4.4e6)
    assert change.verdict == "more"
    names = {count.name for count in change.counts if count.new is not None}
    assert names == {"instructions", "launches"}


@given(some.floats(), some.floats(), some.floats())
def test_numbers_that_no_gpu_counts_make_no_verdict_and_no_error(value: float, low: float, high: float) -> None:
    change = changed(instructions((value, low, high), launches=20), instructions(1e6, launches=20))
    told = json.loads(msgspec.json.encode(change))
    assert told["verdict"] in ("same", "more", "less", "unclear", "unknown")
    if math.isnan(value):
        assert change.verdict == "unknown"


@pytest.mark.slow
def test_planted_changes_are_found_and_none_is_made_up() -> None:
    table = {(case.title, case.base, case.planted.least): result for case, result in planted.scores(100)}
    assert planted.missed_aims(100) == []
    assert table["exact", 1, 0.005] == (0, 100, 0, 0)
    assert table["races, 1 % (normal)", 30, 0.25].caught == 100
    assert table["races, 1 % (normal)", 3, 0.25].unclear == 100
