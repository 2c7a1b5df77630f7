"""How long two programs are measured in turns: which one runs next, when to look at the verdicts, when that is enough.

Who looks after each round and stops at the first change has several chances of a false one. Looks are therefore few,
and a change counts once a second look, at twice as many runs, says the same.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import ComparedKernel, KernelChange, TimeWord
from gpuprof.comparison.timing.noise import FEWEST_RUNS, MOST_RUNS

SideName = Literal["base", "new"]
LEAST_ROUNDS = 3
MATTERS = 0.9
"""Share of a side's GPU time that the kernels take whose verdicts are waited for."""
_AGAIN = 2
"""A change is looked at again after so many times as many runs: with 1.5, 1.2 % of the pairs of the same code ended as
changed at a noise of 2 %, with 2 it is 0.6 % (`python -m benchmarks.turns`)."""
_GROWTH = 2.0
"""The forecast of the runs that are needed goes with the square of a spread that few runs tell: it is not trusted
further than this, neither to run on without a look nor to give up."""


class Waited(Struct, frozen=True):
    """A kernel that matters, by what it is known by, and what a look says of its time."""

    key: Hashable
    label: str
    verdict: TimeWord
    runs_needed: int | None


class Since(NamedTuple):
    """A verdict, and the rounds of the first look that gave it, all later ones saying the same."""

    verdict: TimeWord
    rounds: int


class Pace(Struct, frozen=True):
    """How far measuring is: runs a side, seconds that are left, and the longest run of each side, added up."""

    rounds: int
    left_s: float
    round_s: float

    @property
    def reach(self) -> int:
        """Return how many rounds there can be when the budget is over."""
        more = self.left_s / self.round_s if self.round_s > 0 else math.inf
        return min(self.rounds + int(max(0.0, min(more, MOST_RUNS))), MOST_RUNS)


class TurnsLook(NamedTuple):
    """What follows from a look: the rounds after which to look again, None where measuring ends, and why it does.

    `pending` are the labels of the kernels that it goes on for, or ends without.
    """

    until: int | None
    why: str
    pending: tuple[str, ...]


def side_of_turn(turn: int) -> SideName:
    """Return which side runs at a turn, from 0: base, new, new, base, and so on, so that drift is on both sides."""
    return "base" if turn % 4 in (0, 3) else "new"


def waited_for(compared: Compared) -> tuple[Waited, ...]:
    """Return the kernels that make up most of the time of either side."""
    changes = compared.comparison.kernels
    chosen = _most([change.base for change in changes]) | _most([change.new for change in changes])
    return tuple(
        Waited(
            key=tuple(tuple(kernel.key for kernel in side) for side in (pair.base, pair.new)),
            label=change.label,
            verdict=change.time.verdict,
            runs_needed=change.time.runs_needed,
        )
        for number, (change, pair) in enumerate(zip(changes, compared.pairs, strict=True))
        if number in chosen and not _is_unlike(change)
    )


def _most(sides: Sequence[Sequence[ComparedKernel]]) -> set[int]:
    """Return which of these take most of the time, those that take more first."""
    times = {number: sum(kernel.time_total_s or 0.0 for kernel in side) for number, side in enumerate(sides)}
    chosen: set[int] = set()
    covered, enough = 0.0, MATTERS * sum(times.values())
    for number in sorted(times, key=lambda number: -times[number]):
        if covered >= enough:
            break
        chosen.add(number)
        covered += times[number]
    return chosen


def _is_unlike(change: KernelChange) -> bool:
    """Tell whether there is nothing to wait for: the kernel is on one side only, or its time is not known."""
    return change.time.verdict in ("new", "gone", "unknown")


def since(kernels: Iterable[Waited], before: Mapping[Hashable, Since], rounds: int) -> dict[Hashable, Since]:
    """Return how long each kernel has had its verdict."""
    every = {}
    for kernel in kernels:
        earlier = before.get(kernel.key)
        same = earlier is not None and earlier.verdict == kernel.verdict
        every[kernel.key] = earlier if same and earlier is not None else Since(kernel.verdict, rounds)
    return every


def next_look(kernels: Sequence[Waited], held: Mapping[Hashable, Since], pace: Pace, *, alike: bool) -> TurnsLook:
    """Return when to look again. `held` are the verdicts with this look's; `alike`: verdicts on time can be given."""
    if pace.rounds < LEAST_ROUNDS:
        return _on(LEAST_ROUNDS, tuple(kernel.label for kernel in kernels), pace)
    if not kernels:
        return TurnsLook(None, "no kernel that matters is on both sides with a time", ())
    if not alike:
        return TurnsLook(None, "what is around the runs differs too much to compare their times", ())
    wanted, pending, noisy = [], [], []
    for kernel in kernels:
        if kernel.verdict == "unclear" and _is_hopeless(kernel, pace):
            noisy.append(kernel.label)
        elif (rounds := _wanted(kernel, held[kernel.key], pace)) is not None:
            wanted.append(rounds)
            pending.append(kernel.label)
    if wanted:
        return _on(max(wanted), tuple(pending), pace)
    if noisy:
        return TurnsLook(None, "what is unclear is not settled by as many runs as the budget has", tuple(noisy))
    return TurnsLook(None, "every kernel that matters is clear", ())


def _on(rounds: int, pending: tuple[str, ...], pace: Pace) -> TurnsLook:
    """Go on to so many rounds, or as far as the budget reaches."""
    until = min(rounds, pace.reach)
    if until <= pace.rounds:
        return TurnsLook(None, "the budget is over" if pace.reach < MOST_RUNS else "there are runs enough", pending)
    return TurnsLook(until, "", pending)


def _is_hopeless(kernel: Waited, pace: Pace) -> bool:
    """Tell whether no run that the budget has can settle it; fewer than five a side do not show the noise."""
    if pace.rounds < FEWEST_RUNS:
        return False
    return kernel.runs_needed is None or kernel.runs_needed > _GROWTH * pace.reach


def _wanted(kernel: Waited, held: Since, pace: Pace) -> int | None:
    """Return the rounds after which a kernel is to be looked at again; None where its verdict stands."""
    if kernel.verdict == "unclear":
        needed = kernel.runs_needed or FEWEST_RUNS
        return max(pace.rounds + 1, min(needed, int(_GROWTH * pace.rounds)), FEWEST_RUNS)
    if kernel.verdict in ("slower", "faster") and pace.rounds < _AGAIN * held.rounds:
        return _AGAIN * held.rounds
    return None
