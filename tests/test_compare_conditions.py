"""What is not alike around two runs: what each difference forbids, and what is said of it."""

from __future__ import annotations

import math
from typing import Any

from gpuprof.comparison.compare import compare
from gpuprof.comparison.conditions.clocks import clock_shift
from gpuprof.comparison.conditions.conditions import caches_alike, conditions_of, counts_rounded
from gpuprof.comparison.contract import TimeChange
from gpuprof.comparison.sides import Side, side_of
from gpuprof.model.recorded import GpuSamples, Throttling
from gpuprof.model.session import RunTotals
from gpuprof.words.comparison_conditions import condition_sentence
from tests.compare_builders import device, kernel, run, side, source
from tests.table import each_row

LONG_S = (1e-3,)


def a_side(sources: dict[str, Any] | None = None, devices: dict[str, Any] | None = None, **fields: Any) -> Side:
    """A side of one kernel of a millisecond; fields of its source, its device and its kernel."""
    given = {"sha256": f"{len(str((sources, devices, fields))):064x}", **(sources or {})}
    return side(kernel("kernel", LONG_S, **fields), sources=(source(**given),), devices=(device(**(devices or {})),))


def names(base: Side, new: Side) -> list[str]:
    return [condition.name for condition in conditions_of(base, new) if condition.name != "file"]


def sampled(**fields: Any) -> GpuSamples:
    every: dict[str, Any] = {
        "gpu": 0, "name": "A100", "samples": 100, "sm_clock_min_hz": 1e9, "sm_clock_median_hz": 1e9,
        "sm_clock_max_hz": 1e9, "power_max_w": 250.0, "temperature_max_c": 50.0, "throttling": (),
    }  # fmt: skip
    return GpuSamples(**{**every, **fields})


OTHER_GPU = {"name": "NVIDIA H100", "compute_capability": "9.0", "sm_count": 132}
TOTALS = RunTotals(
    kernels=40, launches=900, timed_launches=900, timed_shapes=40, time_s=0.5, main_kernels=3, main_time_s=0.4
)
UNSEEN = run(kernel("kernel", LONG_S), devices=(device(), device(id=1, name="NVIDIA T400", compute_capability="7.5")))
SHORT = kernel("long", LONG_S, throttled=False), kernel("short", (1e-5,), throttled=True)


def by(*sources: str) -> Side:
    return side(*(kernel(name, LONG_S, duration_source=source) for name, source in zip("ab", sources, strict=False)))


@each_row(
    ("base", "new", "told"),
    [
        (a_side(), a_side(), []),
        # The GPU: what forbids both verdicts comes first.
        (a_side({"driver": "550.1"}), a_side({"driver": "535.2"}, OTHER_GPU),
         [("compute-capability", "both", ("8.0",), ("9.0",)), ("gpu", "time"),
          ("driver", None, ("550.1",), ("535.2",))]),
        (a_side(), a_side(devices={"name": "NVIDIA A100-SXM4-40GB"}), [("gpu", "time")]),
        (a_side(), a_side(devices={"sm_count": 42}), [("sm-count", "time", (108,), (42,))]),
        (side_of([UNSEEN]), a_side(), []),
        # Clocks that were locked, and caches that were emptied, on one side.
        (a_side({"clock_control": "base"}), a_side({"clock_control": "none"}), [("clock-control", "time")]),
        (a_side({"clock_control": "locked"}), a_side({"clock_control": "none"}), [("clock-control", "time")]),
        (a_side({"clock_control": "base"}), a_side({"clock_control": None}), [("clock-control-not-known", None)]),
        (a_side({"cache_control": "all (default)"}), a_side({"cache_control": "none"}), [("cache-control", "time")]),
        # Clocks count only for kernels that take long enough.
        (a_side(clocks_hz=(1.40e9,)), a_side(clocks_hz=(1.43e9,)), []),
        (a_side(clocks_hz=(1.40e9,)), a_side(clocks_hz=(1.26e9,)), [("sm-clock", None, (1.4e9,), (1.26e9,))]),
        (side(kernel("k", (1e-5,), clocks_hz=(1e9,))), side(kernel("k", (1e-5,), clocks_hz=(1.2e9,))), []),
        (a_side(dram_clock_hz=1.5e9), a_side(dram_clock_hz=1.2e9), [("dram-clock", None)]),
        # Throttling, by the report or by samples.
        (a_side(throttled=False), a_side(throttled=True), [("throttling", "time")]),
        (a_side(throttled=True), a_side(throttled=True), [("throttling", None)]),
        (side(*SHORT), side(SHORT[0]), []),
        (a_side({"samples": (sampled(),)}),
         a_side({"samples": (sampled(throttling=(Throttling("thermal", 0.9),), temperature_max_c=83.0),)}),
         [("throttling", "time"), ("temperature", None, (50,), (83,))]),
        # Durations by other means.
        (by("counters"), by("survey"), [("durations", "time", ("counters",), ("survey",))]),
        (by("counters", "survey"), by("survey", "counters"), [("durations", "time", ("counters", "survey"))]),
        # Tools, and what a side has of its run.
        (a_side({"tool_version": "2023.1.1.0"}), a_side(), [("ncu", None, ("ncu 2023.1.1.0",))]),
        (a_side(), a_side({"kind": "ncu-csv-details"}), [("printed-counts", None)]),
        (side(kernel("k", LONG_S), run=TOTALS), a_side(), [("profiled", None, (1, 40), ())]),
        (side(), a_side(), [("kernels", None)]),
    ],
)  # fmt: skip
def test_what_is_not_alike_is_told_with_the_verdicts_that_it_forbids(
    base: Side, new: Side, told: list[tuple[object, ...]]
) -> None:
    conditions = [condition for condition in conditions_of(base, new) if condition.name != "file"]
    seen = [(item.name, item.affects, item.base, item.new) for item in conditions]
    assert [row[: len(expected)] for row, expected in zip(seen, told, strict=True)] == told
    assert all(condition_sentence(item).endswith(".") for item in conditions)


def test_counts_are_rounded_and_caches_unlike_where_the_conditions_say_so() -> None:
    emptied = a_side({"cache_control": "all (default)"}), a_side({"cache_control": "none"})
    assert not caches_alike(conditions_of(*emptied))
    assert caches_alike(conditions_of(a_side(), a_side({"cache_control": None})))
    assert counts_rounded(conditions_of(a_side(), a_side({"kind": "ncu-csv-details"})))
    assert not counts_rounded(conditions_of(a_side(), a_side()))


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
    doubt = verdict(1.2e-3).doubt
    assert doubt is not None and doubt.size is not None
    assert doubt.kind == "dram-clock" and math.isclose(doubt.size, 0.25)
    assert verdict(1.2e-3).runs_needed is None
