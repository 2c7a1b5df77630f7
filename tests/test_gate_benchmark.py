"""The benchmark of the gate: that it judges as the tool does, and that its conditions are what they say."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from benchmarks.gate import fast, rates
from benchmarks.gate.__main__ import main
from benchmarks.gate.conditions import CONDITIONS, ORDERS, Condition, Order
from benchmarks.gate.launches import LAUNCHES, noise_within, read_kernels
from benchmarks.gate.simulate import Sides, simulate, slower
from gpuprof.comparison.contract import TimeChange
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import RunTimes, SideKernel
from gpuprof.comparison.timing.noise import Samples, estimate
from gpuprof.comparison.timing.verdict import time_change
from tests.table import each_row
from tests.test_compare_times import kernel

KERNELS = read_kernels()
PAGE = (Path(__file__).resolve().parents[1] / "docs/explanation/noise.md").read_text(encoding="utf-8").splitlines()


def simulated(condition: Condition, order: Order, runs: int, pairs: int, change: float = 0.0) -> Sides:
    return slower(simulate(condition, order, runs, pairs, KERNELS, np.random.default_rng(7)), change)


def told(sides: Sides, pair: int, *, paired: bool) -> TimeChange:
    """Return what the tool says of a pair."""
    base = _kernel(sides.base_s[pair], None if sides.base_cycles is None else sides.base_cycles[pair])
    new = _kernel(sides.new_s[pair], None if sides.new_cycles is None else sides.new_cycles[pair])
    return time_change(Pair("exact", (base,), (new,)), paired=paired)


def _kernel(seconds: fast.Array, cycles: fast.Array | None) -> SideKernel:
    written = fast.read(seconds)
    times = tuple(
        RunTimes(
            run=number,
            durations_s=tuple(map(float, own)),
            cycles=() if cycles is None else tuple(map(float, cycles[number])),
            launches=len(own),
            total_s=float(own.sum()),
        )
        for number, own in enumerate(written)
    )
    return structs.replace(kernel([[1.0]]), times=times)


@each_row("order", ORDERS)
@each_row("condition", CONDITIONS, ids=lambda condition: condition.name)
def test_verdicts_of_arrays_are_those_of_the_tool(condition: Condition, order: Order) -> None:
    paired = order == "ABBA, told"
    for runs in (1, 3, 10):
        for change in (0.0, 0.25):
            sides = simulated(condition, order, runs, 1, change)
            verdicts = fast.judge(sides, paired=paired)
            for pair in range(1):
                own = told(sides, pair, paired=paired)
                assert own.verdict == fast.NAMES[verdicts.verdicts[pair]]
                assert own.noise == pytest.approx(verdicts.spreads[pair], rel=1e-9)


@each_row("runs", [1, 3, 10])
@each_row("condition", [own for own in CONDITIONS if not (own.gap or own.drift or own.heat or own.throttled)])
def test_simulated_runs_have_the_noise_that_the_condition_states(condition: Condition, runs: int) -> None:
    sides = simulated(condition, "base, then new", runs, 4000)
    changes = np.log(np.median(sides.new_s, axis=2)).mean(axis=1) - np.log(np.median(sides.base_s, axis=2)).mean(axis=1)
    whole = np.hypot(condition.noise, condition.jitter) * np.sqrt(2 / runs)
    assert np.sqrt(np.mean(changes**2)) == pytest.approx(whole, rel=0.25 if condition.heavy else 0.08)


def test_drift_moves_the_sides_apart_only_where_they_are_not_interleaved() -> None:
    drifting = next(own for own in CONDITIONS if own.drift)
    apart = {
        order: float(np.mean(np.log(sides.new_s) - np.log(sides.base_s)))
        for order in ORDERS
        for sides in [simulated(drifting, order, 10, 4000)]
    }
    assert apart["base, then new"] == pytest.approx(drifting.drift * 10 / 19, rel=0.05)
    assert apart["ABBA, told"] == pytest.approx(0.0, abs=drifting.drift / 100)
    generator, levels = np.random.default_rng(3), np.linspace(0, 1, 21)
    for own in KERNELS[::20]:
        medians = np.median(np.interp(generator.random((20_000, LAUNCHES)), levels, own.quantiles), axis=1)
        assert noise_within(own) == pytest.approx(float(np.log(medians).std()), rel=0.1)


@pytest.mark.slow
def test_false_alarms_are_rare_under_every_condition_of_the_verdict() -> None:
    """A tenth of the benchmark: at 1 % of 1,000 pairs, fewer than 2 % are seen in 99.9 % of cells."""
    cells = [cell for cell in rates.cells(1000, KERNELS, runs=(1, 3, 10)) if not cell.condition.beyond]
    assert [cell for cell in cells if cell.false > 0.02] == []
    assert [cell for cell in cells if cell.is_quiet and (cell.caught < 0.93 or cell.unclear > 0.12)] == []
    assert any(cell.is_quiet for cell in cells)


@pytest.mark.slow
def test_quick_benchmark_prints_a_row_for_each_condition_and_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pairs", "5", "--quick", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("| condition")) in PAGE
    for own in CONDITIONS:
        assert sum(line.startswith(f"| {own.name} |") for line in lines) == len(ORDERS)
        assert all(any(line.startswith(f"| {own.name} | {order} |") for line in PAGE) for order in ORDERS)
    for pairs in ("0", "-1"):
        with pytest.raises(SystemExit, match="2"):
            main(["--pairs", pairs])


def test_the_page_on_noise_has_the_numbers_of_few_runs_and_of_the_benchmark() -> None:
    """The benchmark at ten runs and the full number of pairs: another numpy may draw others, by a few in 10,000."""
    for runs, clock_known, name in (
        (1, False, "1, SM clock not known"), (1, True, "1, SM clock known"), (2, True, "2"), (3, True, "3"),
        (4, True, "4"),
    ):  # fmt: skip
        none = Samples((0.0,) * runs, (0.0,) * runs)
        half = estimate(none, none, clock_known=clock_known).half
        slower, faster = (f"{math.expm1(end):+.0%}".replace("%", " %").replace("-", "−") for end in (half, -half))
        assert f"| {name} | {slower} | {faster} |" in PAGE
    cell = next(cell for cell in rates.cells(10_000, KERNELS, runs=(10,)) if cell.condition.name == "normal, 0.8 %")
    cells = [line.strip("| ").split(" | ") for line in PAGE]
    (row,) = [row for row in cells if len(row) == 8 and row[:2] == [cell.condition.name, cell.order]]
    assert float(row[5].removesuffix(" %")) / 100 == pytest.approx(cell.caught, abs=0.01)
    assert float(row[4].removesuffix(" %")) / 100 == pytest.approx(cell.unclear, abs=0.01)
