"""How often the verdict on time is wrong, right and unclear under each condition, and which aims are missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.gate.conditions import CONDITIONS, ORDERS, RUNS, Condition, Order
from benchmarks.gate.fast import FASTER, SAME, SLOWER, UNCLEAR, judge
from benchmarks.gate.launches import Kernel
from benchmarks.gate.simulate import simulate, slower

PLANTED = 0.02
"""What planted changes are slower by."""
ENOUGH_RUNS = 10
MOST_FALSE, LEAST_FOUND, MOST_UNCLEAR = 0.01, 0.95, 0.1
QUIET = 0.008
"""Noise up to which planted changes have to be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Shares of the pairs under a condition, with so many runs a side in this order.

    `false`: the same code called faster or slower. `unclear`: the same code called unclear. `caught`: a planted change
    called slower; `missed`: called the same or faster. `spread`: standard deviation between runs of a side, as the
    verdicts see it.
    """

    condition: Condition
    order: Order
    runs: int
    false: float
    unclear: float
    caught: float
    missed: float
    spread: float

    @property
    def is_quiet(self) -> bool:
        """Tell whether planted changes have to be found here: little noise, and nothing that moves one side alone."""
        own = self.condition
        moves = own.drift or own.heat
        small = own.noise + own.jitter <= QUIET and not (own.gap or own.throttled or own.short or own.beyond)
        return small and self.runs >= ENOUGH_RUNS and (not moves or self.order == "ABBA, told")


def cells(pairs: int, kernels: tuple[Kernel, ...], runs: Sequence[int] = RUNS) -> Iterator[Cell]:
    """Simulate each condition in each order, with as many pairs of the same code as with a planted change."""
    for condition in CONDITIONS:
        for order in ORDERS:
            for count in runs:
                yield _cell(condition, order, count, pairs, kernels)


def missed_aims(every: Sequence[Cell]) -> list[str]:
    """Return a sentence for each cell that misses an aim."""
    return [sentence for cell in every if not cell.condition.beyond for sentence in _misses(cell)]


def rows(every: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    """Yield the table: a row for each condition and order."""
    head = ("condition", "order", "noise seen", "false alarms at most", "same code unclear", "+2 % found", "missed")
    yield (*head, "+2 % found with 20")
    for condition in CONDITIONS:
        for order in ORDERS:
            own = [cell for cell in every if cell.condition is condition and cell.order == order]
            ten, twenty = (next((cell for cell in own if cell.runs == runs), None) for runs in (ENOUGH_RUNS, 20))
            yield (
                condition.name,
                order,
                _percent(ten, lambda cell: cell.spread),
                _share(max(cell.false for cell in own)),
                _percent(ten, lambda cell: cell.unclear),
                _percent(ten, lambda cell: cell.caught),
                _percent(ten, lambda cell: cell.missed),
                _percent(twenty, lambda cell: cell.caught),
            )


def _cell(condition: Condition, order: Order, runs: int, pairs: int, kernels: tuple[Kernel, ...]) -> Cell:
    import numpy as np

    rng = np.random.default_rng([CONDITIONS.index(condition), ORDERS.index(order), runs])
    sides = simulate(condition, order, runs, pairs, kernels, rng)
    paired = order == "ABBA, told"
    alike, changed = (judge(made, paired=paired) for made in (sides, slower(sides, PLANTED)))
    return Cell(
        condition=condition,
        order=order,
        runs=runs,
        false=float(np.mean((alike.verdicts == FASTER) | (alike.verdicts == SLOWER))),
        unclear=float(np.mean(alike.verdicts == UNCLEAR)),
        caught=float(np.mean(changed.verdicts == SLOWER)),
        missed=float(np.mean((changed.verdicts == SAME) | (changed.verdicts == FASTER))),
        spread=float(np.sqrt(np.mean(alike.spreads**2))),
    )


def _misses(cell: Cell) -> Iterator[str]:
    place = f"{cell.condition.name}, {cell.order}, {cell.runs} runs a side"
    if cell.false > MOST_FALSE:
        yield f"{place}: {_share(cell.false)} false alarms"
    if cell.is_quiet and cell.caught < LEAST_FOUND:
        yield f"{place}: {_share(cell.caught)} of the planted changes found"
    if cell.is_quiet and cell.unclear > MOST_UNCLEAR:
        yield f"{place}: {_share(cell.unclear)} unclear"


def _percent(cell: Cell | None, value: Callable[[Cell], float]) -> str:
    return "–" if cell is None else _share(value(cell))


def _share(value: float) -> str:
    return f"{value:.2%}".replace("%", " %") if value < 0.0995 else f"{value:.1%}".replace("%", " %")
