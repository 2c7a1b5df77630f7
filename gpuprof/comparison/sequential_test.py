"""Measuring two programs in turns: which one runs next, when the verdicts are checked, and when
that is enough.

A check after each round that stops at the first change has several chances of a false one. Checks
are therefore few, and a change counts once a second check, at twice as many runs, confirms it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import ComparedKernel, SideName, TimeWord
from gpuprof.comparison.timing.noise import FEWEST_RUNS, MOST_RUNS

LEAST_ROUNDS = 3
MATTERS = 0.9
"""Share of a side's GPU time that the kernels take whose verdicts decide."""
_AGAIN = 2
"""A change is checked again when the number of runs has grown by this factor. With 1.5, 1.2 % of
the pairs of the same code ended as changed at a noise of 2 %, with 2 it is 0.6 % (`python -m
benchmarks.turns`)."""
_GROWTH = 2.0
"""The forecast of the needed runs follows the square of a spread estimated from few runs. It is
trusted up to this factor, neither to run further without a check nor to give up."""
StopReason = Literal["no-kernels", "conditions", "too-noisy", "clear", "budget", "most-runs"]


class WatchedKernel(Struct, frozen=True):
    """A kernel whose verdict on time decides, with that verdict so far."""

    key: Hashable
    label: str
    verdict: TimeWord
    runs_needed: int | None


class StableVerdict(NamedTuple):
    """A verdict, and the rounds of the first check that gave it; all later ones gave the same."""

    verdict: TimeWord
    rounds: int


class Progress(Struct, frozen=True):
    """Progress of measuring: runs per side, seconds left, and the sum of each side's longest run."""

    rounds: int
    left_s: float
    round_s: float

    @property
    def reach(self) -> int:
        """Return the number of rounds that fit into the budget."""
        more = self.left_s / self.round_s if self.round_s > 0 else math.inf
        return min(self.rounds + int(max(0.0, min(more, MOST_RUNS))), MOST_RUNS)


class InterimCheck(NamedTuple):
    """The result of a check: the rounds after which to check again, or why measuring ends.

    `pending` are the labels of the kernels that still need runs, or end without a verdict.
    """

    until: int | None
    reason: StopReason | None
    pending: tuple[str, ...]


def side_of_turn(turn: int) -> SideName:
    """Return which side runs at a turn, from 0: base, new, new, base, and so on. Drift then is on both sides."""
    return "base" if turn % 4 in (0, 3) else "new"


def watched_kernels(compared: Compared) -> tuple[WatchedKernel, ...]:
    """Return the kernels that make up most of the time of either side."""
    changes = compared.comparison.kernels
    chosen = _most([change.base for change in changes]) | _most([change.new for change in changes])
    watched = []
    for number, (change, pair) in enumerate(zip(changes, compared.pairs, strict=True)):
        if number in chosen and change.time.verdict not in ("new", "gone", "unknown"):
            key = (
                tuple(kernel.key for kernel in pair.base),
                tuple(kernel.key for kernel in pair.new),
            )
            watched.append(WatchedKernel(key, change.label, change.time.verdict, change.time.runs_needed))
    return tuple(watched)


def _most(sides: Sequence[Sequence[ComparedKernel]]) -> set[int]:
    """Return the places of the kernels that take most of the time."""
    times = [sum(kernel.time_total_s or 0.0 for kernel in side) for side in sides]
    enough = MATTERS * sum(times)
    chosen: set[int] = set()
    covered = 0.0
    for number in sorted(range(len(times)), key=lambda number: -times[number]):
        if covered >= enough:
            break
        chosen.add(number)
        covered += times[number]
    return chosen


def stable_verdicts(
    kernels: Iterable[WatchedKernel], before: Mapping[Hashable, StableVerdict], rounds: int
) -> dict[Hashable, StableVerdict]:
    """Return since when each kernel has had its verdict."""
    verdicts = {}
    for kernel in kernels:
        earlier = before.get(kernel.key)
        if earlier is None or earlier.verdict != kernel.verdict:
            earlier = StableVerdict(kernel.verdict, rounds)
        verdicts[kernel.key] = earlier
    return verdicts


def interim_check(
    kernels: Sequence[WatchedKernel],
    stable: Mapping[Hashable, StableVerdict],
    progress: Progress,
    *,
    alike: bool,
) -> InterimCheck:
    """Return when to check again.

    `stable` includes the verdicts of this check; `alike`: no condition forbids verdicts on time.
    """
    if progress.rounds < LEAST_ROUNDS:
        return _continue(LEAST_ROUNDS, tuple(kernel.label for kernel in kernels), progress)
    if not kernels:
        return InterimCheck(None, "no-kernels", ())
    if not alike:
        return InterimCheck(None, "conditions", ())
    pending: dict[str, int] = {}
    noisy = []
    for kernel in kernels:
        if kernel.verdict == "unclear" and _is_hopeless(kernel, progress):
            noisy.append(kernel.label)
            continue
        rounds = _rounds_needed(kernel, stable[kernel.key], progress)
        if rounds is not None:
            pending[kernel.label] = rounds
    if pending:
        return _continue(max(pending.values()), tuple(pending), progress)
    return InterimCheck(None, "too-noisy" if noisy else "clear", tuple(noisy))


def _continue(rounds: int, pending: tuple[str, ...], progress: Progress) -> InterimCheck:
    """Go on to so many rounds, or as far as the budget reaches."""
    until = min(rounds, progress.reach)
    if until <= progress.rounds:
        return InterimCheck(None, "budget" if progress.reach < MOST_RUNS else "most-runs", pending)
    return InterimCheck(until, None, pending)


def _is_hopeless(kernel: WatchedKernel, progress: Progress) -> bool:
    """Return whether the budget is too small for a verdict; fewer than five runs show no noise."""
    if progress.rounds < FEWEST_RUNS:
        return False
    return kernel.runs_needed is None or kernel.runs_needed > _GROWTH * progress.reach


def _rounds_needed(kernel: WatchedKernel, stable: StableVerdict, progress: Progress) -> int | None:
    """Return the rounds before the next check of a kernel; None if its verdict is final."""
    if kernel.verdict == "unclear":
        needed = kernel.runs_needed or FEWEST_RUNS
        return max(progress.rounds + 1, min(needed, int(_GROWTH * progress.rounds)), FEWEST_RUNS)
    if kernel.verdict in ("slower", "faster") and progress.rounds < _AGAIN * stable.rounds:
        return _AGAIN * stable.rounds
    return None
