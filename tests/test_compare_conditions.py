"""What is not alike around two runs: what each difference forbids, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuprof.comparison.compare import compare
from gpuprof.comparison.conditions.clocks import clock_shift
from gpuprof.comparison.conditions.conditions import caches_alike, conditions_of, counts_rounded
from gpuprof.comparison.contract import RunCondition, TimeChange
from gpuprof.comparison.sides import Run, Side, side_of
from gpuprof.model.recorded import GpuSamples, Throttling
from gpuprof.model.session import RunTotals
from tests.compare_builders import device, kernel, run, side, source
from tests.real_sessions import loaded
from tests.table import each_row

LONG_S = (1e-3,)


def a_side(sources: dict[str, Any] | None = None, devices: dict[str, Any] | None = None, **fields: Any) -> Side:
    """A side of one kernel of a millisecond; fields of its source, its device and its kernel."""
    given = {"sha256": f"{len(str((sources, devices, fields))):064x}", **(sources or {})}
    return side(kernel("kernel", LONG_S, **fields), sources=(source(**given),), devices=(device(**(devices or {})),))


def only(base: Side, new: Side) -> RunCondition:
    """The one condition that there is, but for files in common."""
    conditions = [condition for condition in conditions_of(base, new) if condition.name != "file"]
    assert len(conditions) == 1, conditions
    return conditions[0]


def names(base: Side, new: Side) -> list[str]:
    """What is not alike, but for files in common."""
    return [condition.name for condition in conditions_of(base, new) if condition.name != "file"]


def sampled(**fields: Any) -> GpuSamples:
    """What the driver said while the program ran."""
    every: dict[str, Any] = {
        "gpu": 0,
        "name": "A100",
        "samples": 100,
        "sm_clock_min_hz": 1e9,
        "sm_clock_median_hz": 1e9,
        "sm_clock_max_hz": 1e9,
        "power_max_w": 250.0,
        "temperature_max_c": 50.0,
        "throttling": (),
    }
    return GpuSamples(**{**every, **fields})


def test_nothing_is_said_of_runs_that_are_alike() -> None:
    assert names(a_side(), a_side()) == []


def test_another_compute_capability_forbids_both_verdicts_and_comes_first() -> None:
    other = {"name": "NVIDIA H100", "compute_capability": "9.0", "sm_count": 132}
    conditions = conditions_of(a_side({"driver": "550.1"}), a_side({"driver": "535.2"}, other))
    told = [condition.name for condition in conditions if condition.name != "file"]
    assert told == ["compute-capability", "gpu", "driver"]
    assert conditions[0].affects == "both"
    assert (conditions[0].base, conditions[0].new) == ("8.0", "9.0")


def test_another_product_of_one_architecture_forbids_the_verdict_on_time_alone() -> None:
    condition = only(a_side(), a_side(devices={"name": "NVIDIA A100-SXM4-40GB"}))
    assert (condition.name, condition.affects) == ("gpu", "time")


def test_a_part_of_a_gpu_has_fewer_sms_and_other_times() -> None:
    condition = only(a_side(), a_side(devices={"sm_count": 42}))
    assert (condition.name, condition.affects, condition.base, condition.new) == (
        "sm-count",
        "time",
        "108 SMs",
        "42 SMs",
    )


def test_a_gpu_that_is_not_named_is_told_and_forbids_nothing() -> None:
    condition = only(a_side(), a_side(devices={"name": None}))
    assert (condition.name, condition.affects, condition.new) == ("gpu", None, "not known")


def test_a_side_of_several_gpus_is_told() -> None:
    both = side_of([*a_side().runs, *a_side(devices={"name": "NVIDIA A100-SXM4-40GB"}).runs])
    assert names(both, both) == ["mixed-gpus"]


def test_gpus_on_which_nothing_ran_do_not_count() -> None:
    own = run(kernel("kernel", LONG_S), devices=(device(), device(id=1, name="NVIDIA T400", compute_capability="7.5")))
    assert names(side_of([own]), a_side()) == []


@each_row(
    ("base", "new", "affects"),
    [("base", "none", "time"), ("locked", "none", "time"), ("locked", "base", ""), ("base", None, None)],
)
def test_clocks_that_were_locked_on_one_side_forbid_the_verdict_on_time(
    base: str, new: str | None, affects: str | None
) -> None:
    sides = a_side({"clock_control": base}), a_side({"clock_control": new})
    if affects == "":
        assert names(*sides) == []
    else:
        assert only(*sides).affects == affects


def test_clocks_that_were_locked_on_one_side_leave_a_change_that_cycles_and_seconds_agree_on() -> None:
    base, new = (
        run(kernel("gemm", (time_s,) * 2, clocks_hz=(clock,) * 2), sources=(source(clock_control=control),))
        for time_s, clock, control in ((1e-3, 1.1e9, "base"), (0.4e-3, 1.4e9, "none"))
    )
    comparison = compare([base], [new], "0").comparison
    assert comparison.alike
    assert ("clock-control", None) in [(item.name, item.affects) for item in comparison.conditions]
    assert comparison.kernels[0].time.verdict == "faster"


def test_clocks_that_were_locked_on_one_side_are_no_change_of_a_kernel_that_computes() -> None:
    """The same cycles at 1.4 GHz instead of 1.1 GHz take 21 % fewer seconds, in five runs a side."""
    sides = [
        [
            run(
                kernel("gemm", (1.1e6 / clock,) * 2, clocks_hz=(clock,) * 2),
                sources=(source(clock_control=control, sha256=f"{number:064x}"),),
            )
            for number in range(5)
        ]
        for clock, control in ((1.1e9, "base"), (1.4e9, "none"))
    ]
    time = compare(sides[0], sides[1], "0").comparison.kernels[0].time
    assert time.verdict == "unclear"
    assert "0 % in cycles and −21 % in seconds" in time.reason


def test_caches_that_were_emptied_on_one_side_forbid_times_and_bytes() -> None:
    sides = a_side({"cache_control": "all (default)"}), a_side({"cache_control": "none"})
    assert only(*sides).affects == "time"
    assert not caches_alike(conditions_of(*sides))
    assert names(a_side({"cache_control": "all (default)"}), a_side({"cache_control": "all"})) == []
    assert caches_alike(conditions_of(a_side(), a_side({"cache_control": None})))


def test_the_bytes_of_a_comparison_are_not_judged_where_caches_were_not_alike() -> None:
    base, new = (
        run(
            kernel(counts={"instructions": 1e6}, traffic={"dram": size}),
            sources=(source(cache_control=control),),
        )
        for size, control in ((1e9, "all"), (1e8, "none"))
    )
    change = compare([base], [new], "0").comparison.kernels[0].work
    assert change.verdict == "same"
    assert "DRAM bytes" in change.reason


def test_the_clock_of_the_median_kernel_is_told_where_it_moved_by_more_than_it_varies() -> None:
    assert names(a_side(clocks_hz=(1.40e9,)), a_side(clocks_hz=(1.43e9,))) == []
    condition = only(a_side(clocks_hz=(1.40e9,)), a_side(clocks_hz=(1.26e9,)))
    assert (condition.name, condition.affects) == ("sm-clock", None)
    assert (condition.base, condition.new) == ("1.40 GHz", "1.26 GHz")
    assert "10 % below" in condition.sentence


def test_a_clock_that_the_driver_saw_unmoved_on_both_sides_is_one_clock_where_cycles_can_be_of_it() -> None:
    seen = {"samples": (sampled(sm_clock_min_hz=1.5e9, sm_clock_max_hz=1.5e9),), "clock_control": "none"}
    pair = [a_side(seen, clocks_hz=(clock,)) for clock in (1.486e9, 1.514e9)]
    assert names(*pair) == []
    # So far off the cycles of a long kernel are not: samples between the passes missed another clock.
    pair = [a_side(seen, clocks_hz=(clock,)) for clock in (1.40e9, 1.53e9)]
    assert names(*pair) == ["sm-clock"]
    moved = {**seen, "samples": (sampled(sm_clock_min_hz=1.4e9, sm_clock_max_hz=1.5e9),)}
    pair[1] = a_side(moved, clocks_hz=(1.53e9,))
    assert names(*pair) == ["sm-clock"] and clock_shift(*pair) > 0.08
    other = {**seen, "samples": (sampled(sm_clock_min_hz=1.3e9, sm_clock_max_hz=1.3e9),)}
    pair[1] = a_side(other, clocks_hz=(1.53e9,))
    assert names(*pair) == ["sm-clock"]


def test_the_clock_of_short_kernels_tells_nothing() -> None:
    sides = [side(kernel("kernel", (1e-5,), clocks_hz=(clock,))) for clock in (1e9, 1.2e9)]
    assert names(sides[0], sides[1]) == []


def test_another_clock_of_the_memory_is_told_and_forbids_nothing() -> None:
    condition = only(a_side(dram_clock_hz=1.5e9), a_side(dram_clock_hz=1.2e9))
    assert (condition.name, condition.affects) == ("dram-clock", None)
    assert names(a_side(dram_clock_hz=1.50e9), a_side(dram_clock_hz=1.44e9)) == []


def test_a_change_beyond_what_another_clock_of_the_memory_can_make_is_told() -> None:
    """DRAM at 1.5 and at 1.2 GHz: no kernel takes more than 25 % longer for that."""

    def verdict(new_s: float) -> TimeChange:
        sides = [
            [
                run(kernel("copy", (duration,), dram_clock_hz=clock), sources=(source(sha256=f"{number:064x}"),))
                for number in range(6)
            ]
            for duration, clock in ((1e-3, 1.5e9), (new_s, 1.2e9))
        ]
        return compare(sides[0], sides[1], "0").comparison.kernels[0].time

    assert [verdict(new_s).verdict for new_s in (1e-3, 1.2e-3, 1.4e-3)] == ["unclear", "unclear", "slower"]
    assert "the DRAM clocks differ, which alone can make times differ by 25 %" in verdict(1.2e-3).reason
    assert verdict(1.2e-3).runs_needed is None


def test_throttling_on_one_side_forbids_the_verdict_on_time_and_on_both_it_is_told() -> None:
    condition = only(a_side(throttled=False), a_side(throttled=True))
    assert (condition.name, condition.affects, condition.base) == ("throttling", "time", "not throttled")
    assert "the new side" in condition.sentence
    assert only(a_side(throttled=True), a_side(throttled=True)).affects is None
    assert only(a_side(throttled=True), a_side()).new == "not known"


def test_throttling_is_told_where_no_kernel_has_a_time() -> None:
    base, new = (side(kernel("a", (), throttled=state)) for state in (False, True))
    assert "throttling" in names(base, new)


def test_throttling_of_kernels_that_take_no_time_is_not_told() -> None:
    short = side(kernel("long", LONG_S, throttled=False), kernel("short", (1e-5,), throttled=True))
    assert names(short, side(kernel("long", LONG_S, throttled=False))) == []


def test_samples_tell_throttling_and_temperature() -> None:
    lowered = sampled(throttling=(Throttling("thermal", 0.9),), temperature_max_c=83.0)
    conditions = conditions_of(a_side({"samples": (sampled(),)}), a_side({"samples": (lowered,)}))
    told = {condition.name: condition for condition in conditions}
    assert told["throttling"].affects == "time"
    assert (told["temperature"].base, told["temperature"].new) == ("50 °C", "83 °C")
    assert told["temperature"].affects is None


def test_durations_by_other_means_forbid_the_verdict_on_time() -> None:
    condition = only(a_side(duration_source="counters"), a_side(duration_source="survey"))
    assert (condition.name, condition.affects) == ("durations", "time")
    assert (condition.base, condition.new) == ("counters", "survey")


def test_kernels_that_were_measured_by_other_means_the_other_way_round_are_told() -> None:
    base, new = (
        side(kernel("a", LONG_S, duration_source=first), kernel("b", LONG_S, duration_source=second))
        for first, second in (("counters", "survey"), ("survey", "counters"))
    )
    condition = only(base, new)
    assert (condition.name, condition.affects, condition.base) == ("durations", "time", "counters, survey")


def test_releases_of_the_tools_are_told_and_forbid_nothing() -> None:
    conditions = conditions_of(
        a_side({"tool_version": "2023.1.1.0", "driver": "550.1"}), a_side({"tool_version": "2025.2", "driver": "570.2"})
    )
    told = {condition.name: condition for condition in conditions if condition.name != "file"}
    assert set(told) == {"ncu", "driver"}
    assert all(condition.affects is None for condition in told.values())
    assert told["ncu"].base == "ncu 2023.1.1.0"


def test_another_gpuprof_is_told() -> None:
    base, new = (
        side_of([run(kernel(durations_s=LONG_S), sources=a_side().runs[0].session.sources, gpuprof_version=version)])
        for version in ("0.1", "0.2")
    )
    assert names(base, new) == ["gpuprof"]


def test_the_same_file_twice_is_said() -> None:
    twice = a_side({"sha256": "ab" * 32})
    condition = next(iter(conditions_of(twice, twice)))
    assert (condition.name, condition.affects) == ("file", None)
    assert "the same file, byte for byte" in condition.sentence
    third = side_of([*twice.runs, *a_side({"sha256": "cd" * 32}).runs])
    assert "have a file in common" in next(iter(conditions_of(twice, third))).sentence


def test_an_empty_side_is_said() -> None:
    empty = side()
    assert names(empty, a_side()) == ["kernels"]
    assert "The base side has no kernels" in only(empty, a_side()).sentence
    assert "Neither side has a kernel" in only(empty, empty).sentence
    assert names(side_of([]), side_of([])) == ["kernels"]


def test_numbers_that_were_printed_are_said_to_be_rounded() -> None:
    sides = a_side(), a_side({"kind": "ncu-csv-details"})
    assert names(*sides) == ["printed-counts"]
    assert counts_rounded(conditions_of(*sides))
    assert not counts_rounded(conditions_of(a_side(), a_side()))


def test_runs_of_which_only_a_part_was_profiled_are_told() -> None:
    totals = RunTotals(
        kernels=40, launches=900, timed_launches=900, timed_shapes=40, time_s=0.5, main_kernels=3, main_time_s=0.4
    )
    part = side_of([run(kernel(durations_s=LONG_S), run=totals)])
    condition = only(part, a_side())
    assert (condition.name, condition.base, condition.new) == ("profiled", "1 of 40 kernels", "all")


def test_a_name_of_any_length_is_cut() -> None:
    condition = only(a_side(), a_side(devices={"name": "X" * 100_000}))
    assert len(condition.new) == 200


def test_every_condition_says_what_to_do_in_sentences() -> None:
    unlike = {"tool_version": "1", "driver": "1", "clock_control": "none", "cache_control": "none"}
    conditions = conditions_of(
        a_side({"driver": "2"}, dram_clock_hz=1e9, throttled=False, duration_source="counters"),
        a_side(
            unlike,
            {"compute_capability": "9.0", "name": "other"},
            clocks_hz=(2e9,),
            dram_clock_hz=2e9,
            throttled=True,
            duration_source="trace",
        ),
    )
    assert len(conditions) == 10
    for condition in conditions:
        assert condition.sentence.endswith(".")
        assert condition.sentence.count(". ") >= 1, condition.sentence


def test_real_reports_of_one_machine_are_alike_and_of_two_are_not(reports: Path) -> None:
    base, new = (_real(reports, f"gpu_workshop-MW_{name}") for name in ("Baseline", "DivToMult"))
    assert conditions_of(base, new) == ()
    assert [condition.name for condition in conditions_of(base, base)] == ["file"]
    other = conditions_of(base, _real(reports, "sglang-profile"))
    assert [condition.name for condition in other] == ["compute-capability", "gpu", "ncu", "driver"]


def test_a_report_and_a_trace_are_measured_by_other_means(reports: Path) -> None:
    trace = loaded(reports / "traces" / "resnet50-v100.pt.trace.json.gz")
    conditions = conditions_of(_real(reports, "gpu_workshop-MW_Baseline"), side_of([Run("trace", trace)]))
    durations = next(condition for condition in conditions if condition.name == "durations")
    assert (durations.base, durations.new, durations.affects) == ("counters", "trace", "time")


def _real(reports: Path, name: str) -> Side:
    path = reports / f"{name}.ncu-rep"
    return side_of([Run(path.name, loaded(path))])
