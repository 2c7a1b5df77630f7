"""The verdict on work: tolerances, work that depends on data, what weighs, and real kernels profiled twice."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchmarks.gate import work as planted
from gpuprof.comparison.contract import CountChange, WorkChange
from gpuprof.comparison.matching.pairs import pairs_of
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import Run, Side, side_of
from gpuprof.comparison.work.tolerances import can_tell, tolerance_of
from gpuprof.comparison.work.verdict import work_change
from tests.compare_builders import kernel, pair, pair_of, side
from tests.real_sessions import loaded
from tests.table import each_row

MB = 1e6
Range = tuple[float, float, float]


def changed(base: dict[str, Any], new: dict[str, Any], **options: Any) -> WorkChange:
    """Compare two kernels with these fields."""
    return work_change(pair_of(kernel(**base), kernel(**new)), **options)


def count_of(change: WorkChange, name: str) -> CountChange:
    """The count of that name, which there is."""
    return next(count for count in change.counts if count.name == name)


def word_of(base: dict[str, Any], new: dict[str, Any], name: str, **options: Any) -> str:
    """What became of a count."""
    return count_of(changed(base, new, **options), name).word


def instructions(value: float | Range, **fields: Any) -> dict[str, Any]:
    """A kernel of so many instructions; of several launches as (value, low, high)."""
    return {"counts": {"instructions": value}, **fields}


def test_one_instruction_in_a_thousand_is_within_the_tolerance_and_three_are_not() -> None:
    assert word_of(instructions(1_000_000), instructions(1_000_900), "instructions") == "same"
    assert word_of(instructions(1_000_000), instructions(1_003_000), "instructions") == "more"
    assert word_of(instructions(1_003_000), instructions(1_000_000), "instructions") == "less"


def test_half_a_percent_more_instructions_in_one_launch_are_more_work() -> None:
    change = changed(instructions(776_170_865), instructions(780_051_719))
    assert change.verdict == "more"
    assert change.reason == "One launch was counted on a side: whether the work depends on data cannot be told."
    assert count_of(change, "instructions").ratio == pytest.approx(1.005)
    assert count_of(change, "instructions").tolerance == pytest.approx(0.001005)


@each_row(
    ("base", "new", "word"),
    [
        (1_247_136, 1_429_632, "same"),  # set_halo_values_x_419_gpu, V100: the same code twice
        (21_469_696, 21_111_040, "same"),  # an elementwise kernel of PyTorch, H800: the same code twice
        (3_724_419_000, 3_726_559_000, "same"),  # semi_discrete_step_232_gpu, V100: the same code twice
        (2_477_022_176, 2_521_822_304, "more"),  # compute_tendencies_x_279_gpu, V100: other code
    ],
)
def test_bytes_from_dram_have_a_band_of_half_a_percent_and_half_a_mebibyte(base: float, new: float, word: str) -> None:
    assert word_of({"traffic": {"dram": base}}, {"traffic": {"dram": new}}, "dram-bytes") == word


def test_the_first_spilled_sector_is_a_change() -> None:
    base = {"counts": {"instructions": 1e6, "local-load-sectors": 0, "local-store-sectors": 0}}
    new = {"counts": {"instructions": 1e6, "local-load-sectors": 12, "local-store-sectors": 4}}
    change = changed(base, new)
    spills = count_of(change, "spills")
    assert (spills.base, spills.new, spills.ratio, spills.word) == (0, 16, None, "more")
    assert change.verdict == "more"


def test_spills_are_missing_where_one_half_of_them_is() -> None:
    fields = {"counts": {"instructions": 1e6, "local-load-sectors": 8}, "registers": 40}
    assert "spills" not in {count.name for count in changed(fields, fields).counts}


def test_registers_alone_make_work_neither_more_nor_less() -> None:
    change = changed(instructions(1e6, registers=40), instructions(1e6, registers=72))
    assert change.verdict == "same"
    assert change.reason == "The work is the same; resources that changed: registers."
    registers = count_of(change, "registers")
    assert (registers.base, registers.new, registers.word, registers.tolerance) == (40, 72, "more", 0)
    assert change.counts[0] == registers


def test_a_kernel_of_other_opcodes_and_as_many_instructions_is_changed() -> None:
    base = {"counts": {"instructions": 1e6, "opcode.DMUL": 4e5, "opcode.CS2R": 100}}
    new = {"counts": {"instructions": 1e6, "opcode.FMUL": 4e5, "opcode.CS2R": 100}}
    change = changed(base, new)
    assert change.verdict == "changed"
    assert change.reason == "As much work as before, by other instructions."
    gone = count_of(change, "opcode.DMUL")
    assert (gone.base, gone.new, gone.word) == (4e5, 0, "less")


def test_opcodes_are_not_zero_where_a_side_has_no_histogram() -> None:
    change = changed({"counts": {"instructions": 1e6, "opcode.DMUL": 4e5}}, instructions(1e6))
    assert count_of(change, "opcode.DMUL").word == "only-base"
    assert change.verdict == "same"


def test_an_opcode_that_a_side_lacks_was_counted_in_the_launches_of_that_side() -> None:
    base = {"counts": {"opcode.CS2R": 100}}
    new = {"counts": {"opcode.CS2R": 100, "opcode.ATOM": (50, 40, 60)}, "durations_s": [1e-5] * 20}
    assert word_of(base, new, "opcode.ATOM") == "unclear"
    assert word_of({**base, "durations_s": [1e-5] * 20}, new, "opcode.ATOM") == "more"


def test_a_large_change_outweighs_a_small_one_the_other_way_and_no_other() -> None:
    base = instructions(1e9, traffic={"dram": 1000 * MB})
    assert changed(base, instructions(4e8, traffic={"dram": 1018 * MB})).verdict == "less"
    assert changed(base, instructions(4e8, traffic={"dram": 1300 * MB})).verdict == "changed"
    assert changed(base, instructions(1.02e9, traffic={"dram": 500 * MB})).verdict == "less"


def test_fewer_bank_conflicts_do_not_outweigh_more_instructions() -> None:
    base = {"counts": {"instructions": 1e9, "bank-conflicts": 1e8}}
    assert changed(base, {"counts": {"instructions": 1.03e9, "bank-conflicts": 1e6}}).verdict == "changed"


def test_flop_of_another_path_that_were_none_are_a_change_in_both_directions() -> None:
    base = instructions(1e9, flop={"fp64": 1e9, "fp32": 0})
    change = changed(base, instructions(5e8, flop={"fp64": 0, "fp32": 1e9}))
    assert change.verdict == "changed"
    assert {count.name for count in change.counts if count.name.startswith("flop.")} == {"flop.fp64", "flop.fp32"}


def test_paths_that_neither_side_uses_are_left_out() -> None:
    fields = instructions(1e6, flop={"fp64": 0})
    assert "flop.fp64" not in {count.name for count in changed(fields, fields).counts}


def test_a_side_without_counts_makes_work_unknown() -> None:
    change = changed(instructions(1e6), {})
    assert change.verdict == "unknown"
    assert change.reason.startswith("The new side has no counts")
    assert changed({}, {}).reason.startswith("Both sides have no counts")
    assert count_of(change, "instructions").word == "only-base"


def test_bytes_alone_that_are_the_same_vouch_for_no_work() -> None:
    fields = {"traffic": {"dram": 1000 * MB}}
    change = changed(fields, fields)
    assert change.verdict == "unknown"
    assert "DRAM bytes" in change.reason


def test_bytes_behind_the_caches_alone_that_moved_make_no_work_more() -> None:
    """Another tile keeps less in L2: forty times the DRAM bytes, and nothing says that it executes more."""
    change = changed({"traffic": {"dram": 4.9e5}}, {"traffic": {"dram": 20.7e6}})
    assert change.verdict == "unknown"
    assert change.reason == ("No count of what the code executes is known on both sides; others moved: DRAM bytes.")
    assert count_of(change, "dram-bytes").word == "more"
    both = changed(instructions(1e6, traffic={"dram": 4.9e5}), instructions(1e6, traffic={"dram": 20.7e6}))
    assert both.verdict == "more"


def test_work_of_other_machine_code_is_not_compared_but_for_its_flop() -> None:
    change = changed(instructions(1e6, flop={"fp32": 1e9}), instructions(2e6, flop={"fp32": 1e9}), comparable=False)
    assert change.verdict == "unknown"
    assert "compute capability" in change.reason
    assert count_of(change, "instructions").word == "unclear"
    assert count_of(change, "flop.fp32").word == "same"


def test_bytes_behind_caches_that_were_treated_otherwise_are_not_compared() -> None:
    base, new = (instructions(1e6, traffic={"dram": size * MB, "l1": 50 * MB}) for size in (100, 40))
    assert changed(base, new).verdict == "less"
    change = changed(base, new, caches_alike=False)
    assert change.verdict == "same"
    assert "DRAM bytes" in change.reason
    assert count_of(change, "dram-bytes").word == "unclear"
    assert count_of(change, "l1-bytes").word == "same"


def test_counts_that_were_printed_may_differ_by_a_percent_more() -> None:
    base, new = instructions(1e6, flop={"fp32": 1e9}), instructions(1e6, flop={"fp32": 1.009e9})
    assert word_of(base, new, "flop.fp32") == "more"
    assert word_of(base, new, "flop.fp32", rounded=True) == "same"


def test_bytes_of_a_cache_from_other_counters_are_not_compared() -> None:
    base = kernel(counts={"instructions": 1e6}, traffic={"l1": 50 * MB})
    other = msgspec.structs.replace(base.traffic[0], bytes=70 * MB, definition="loads only")
    change = work_change(pair_of(base, msgspec.structs.replace(base, traffic=(other,))))
    assert count_of(change, "l1-bytes").word == "unclear"
    assert count_of(change, "l1-bytes").metric == "made up; loads only"
    assert change.verdict == "same"


def test_work_that_depends_on_data_changed_only_beyond_what_a_side_does_by_itself() -> None:
    base = instructions((1e6, 9.8e5, 1.02e6), launches=20)
    assert changed(base, instructions((1.01e6, 9.9e5, 1.03e6), launches=20)).verdict == "unclear"
    assert changed(base, instructions((1.05e6, 1.03e6, 1.07e6), launches=20)).verdict == "unclear"
    change = changed(base, instructions((1.08e6, 1.06e6, 1.1e6), launches=20))
    assert change.verdict == "more"
    assert count_of(change, "instructions").data_dependent


def test_work_that_depends_on_the_same_data_is_the_same() -> None:
    fields = instructions((1e6, 4e5, 2.02e6), launches=20)
    assert changed(fields, instructions((4e5, 4e5, 2.02e6), launches=20)).verdict == "same"


def test_few_launches_tell_nothing_of_work_that_depends_on_data() -> None:
    base = instructions((1e6, 9.8e5, 1.02e6), launches=3)
    change = changed(base, instructions((2e6, 1.98e6, 2.02e6), launches=3))
    assert change.verdict == "unclear"
    assert "3 launches counted on a side" in change.reason


def test_nine_launches_a_side_can_tell_and_eight_cannot() -> None:
    assert can_tell(9, 9)
    assert not can_tell(8, 8)
    assert can_tell(10**9, 10**9)
    assert not can_tell(1, 10**9)


def test_launches_that_a_survey_timed_were_not_all_counted() -> None:
    base, new = (
        instructions((value, value * 0.98, value * 1.02), launches=1000, duration_source="survey")
        for value in (1e6, 2e6)
    )
    assert changed(base, new).verdict == "unclear"


def test_bytes_of_the_launch_that_speaks_are_not_held_against_those_of_another_size() -> None:
    base = instructions((1e6, 4e5, 2e6), launches=50, traffic={"dram": 100 * MB})
    new = instructions((2e6, 4e5, 2e6), launches=50, traffic={"dram": 200 * MB})
    change = changed(base, new)
    assert count_of(change, "dram-bytes").word == "unclear"
    assert change.verdict == "same"


def test_flop_of_the_launch_that_speaks_make_no_work_unclear_whose_launches_do_the_same() -> None:
    base = instructions((1e6, 4e5, 2e6), launches=50, flop={"fp32": 1e9})
    new = instructions((4e5, 4e5, 2e6), launches=50, flop={"fp32": 4e8})
    change = changed(base, new)
    assert count_of(change, "flop.fp32").word == "unclear"
    assert change.verdict == "same"
    assert change.reason == "The work is the same; too different within a side to tell: FP32 FLOP."


def test_resources_are_told_apart_where_work_depends_on_data() -> None:
    base, new = (instructions((1e6, 4e5, 2e6), launches=50, registers=number) for number in (40, 72))
    registers = count_of(changed(base, new), "registers")
    assert (registers.word, registers.data_dependent) == ("more", False)


def test_launches_of_a_run_are_told_and_do_not_weigh() -> None:
    change = changed(instructions(1e6, launches=10), instructions(1e6, launches=20))
    assert change.verdict == "same"
    launches = count_of(change, "launches")
    assert (launches.base, launches.new, launches.word) == (10, 20, "more")
    assert change.reason == "Values are of one launch; launches of a run: 10 on the base side, 20 on the new side."


def test_a_kernel_with_another_grid_and_more_launches_is_compared_by_the_run() -> None:
    base, new = kernel(counts={"instructions": 1e6}, launches=10), kernel(counts={"instructions": 5e5}, launches=20)
    change = work_change(pair_of(base, new, "reconfigured"))
    assert change.verdict == "same"
    assert count_of(change, "instructions").new == 1e7
    assert change.reason.startswith("Values are of all launches of a run")


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


def test_new_and_gone_kernels_have_no_verdict_on_work() -> None:
    own = side(kernel(counts={"instructions": 1e6}))
    assert work_change(pair(None, own)).verdict == "new"
    assert work_change(pair(own, None)).verdict == "gone"


def test_runs_of_a_side_tell_that_work_depends_on_data() -> None:
    runs = [side(kernel(counts={"instructions": value})).runs[0] for value in (1e6, 1.1e6)]
    change = work_change(pair(side_of(runs), side(kernel(counts={"instructions": 1.2e6}))))
    assert count_of(change, "instructions").data_dependent
    assert change.verdict == "unclear"


values = some.floats(min_value=0, max_value=1e15)


@given(values, values)
def test_swapping_the_sides_swaps_more_and_less(base: float, new: float) -> None:
    there = changed(instructions(base, traffic={"dram": new}), instructions(new, traffic={"dram": base}))
    back = changed(instructions(new, traffic={"dram": base}), instructions(base, traffic={"dram": new}))
    other = {"more": "less", "less": "more"}
    assert {count.name: count.word for count in back.counts} == {
        count.name: other.get(count.word, count.word) for count in there.counts
    }
    assert back.verdict == other.get(there.verdict, there.verdict)


@given(some.floats(), some.floats(), some.floats())
def test_numbers_that_no_gpu_counts_make_no_verdict_and_no_error(value: float, low: float, high: float) -> None:
    change = changed(instructions((value, low, high), launches=20), instructions(1e6, launches=20))
    told = json.loads(msgspec.json.encode(change))
    assert told["verdict"] in ("same", "more", "less", "unclear", "unknown")
    if math.isnan(value):
        assert change.verdict == "unknown"


@given(some.lists(some.floats(min_value=1, max_value=1e12), min_size=1, max_size=5))
def test_a_kernel_does_the_same_as_itself(sizes: list[float]) -> None:
    counts = {"instructions": (sizes[0], min(sizes), max(sizes)), "bank-conflicts": (0.0, 0.0, sizes[-1])}
    own = {"counts": counts, "launches": len(sizes), "traffic": {"dram": sizes[-1]}, "occupancy": 0.5}
    assert changed(own, own).verdict == "same"


def test_the_same_code_profiled_twice_does_the_same(reports: Path) -> None:
    verdicts = {}
    for match in pairs_of(_real(reports, "gpu_workshop-MW_Baseline"), _real(reports, "gpu_workshop-MW_DivToMult")):
        verdicts[match.base[0].speaker.label] = work_change(match).verdict
    assert verdicts.pop("compute_tendencies_x_279_gpu") == "less"
    assert set(verdicts.values()) == {"same"}
    assert len(verdicts) == 4


def test_what_was_measured_of_the_same_code_is_within_the_tolerances(reports: Path) -> None:
    """The evidence for the tolerances: no difference is beyond a third of what is allowed but that of DRAM bytes."""
    base, new = _real(reports, "gpu_workshop-MW_Baseline"), _real(reports, "gpu_workshop-MW_DivToMult")
    tried = 0
    for match in pairs_of(base, new):
        if match.base[0].speaker.label == "compute_tendencies_x_279_gpu":
            continue
        for count in work_change(match).counts:
            largest = max(count.base or 0.0, count.new or 0.0)
            allowed = tolerance_of(count.name).band(largest)
            room = 1.0 if count.name == "dram-bytes" else 2.5
            assert abs((count.new or 0.0) - (count.base or 0.0)) * room <= allowed + 1e-9 * largest, count
            tried += 1
    assert tried > 100


def test_a_kernel_of_pytorch_that_was_launched_with_two_sizes_depends_on_data(reports: Path) -> None:
    own = _real(reports, "sglang-profile")
    elementwise = next(
        entry for entry in own.kernels if entry.counts["instructions"].low < 1e7 and len(entry.profiles) > 1
    )
    assert count_of(work_change(pair(elementwise, elementwise)), "instructions").data_dependent


def test_planted_changes_are_found_and_none_is_made_up() -> None:
    table = {(case.title, case.base, case.planted.least): result for case, result in planted.scores(100)}
    assert planted.missed_aims(100) == []
    assert table["exact", 1, 0.005] == (0, 100, 0, 0)
    assert table["races, 1 % (normal)", 30, 0.25].caught == 100
    assert table["races, 1 % (normal)", 3, 0.25].unclear == 100


def test_the_table_of_planted_changes_is_the_same_each_time() -> None:
    first = planted.rows(20)
    planted.scores.cache_clear()
    assert planted.rows(20) == first
    assert first[0] == planted.HEADER
    assert {len(row) for row in first} == {len(planted.HEADER)}


def test_an_aim_that_is_missed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = planted.cases()[0]
    poor = ((exact, planted.Score(false=2, caught=197, unclear=0, missed=3)),)
    monkeypatch.setattr(planted, "scores", lambda _: poor)
    told = planted.missed_aims(200)
    assert len(told) == 2
    assert "2 of 200 pairs without a change" in told[0]
    assert "3 of 200 planted changes" in told[1]


def _real(reports: Path, name: str) -> Side:
    path = reports / f"{name}.ncu-rep"
    return side_of([Run(path.name, loaded(path))])
