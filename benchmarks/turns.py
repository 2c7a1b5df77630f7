"""`python -m benchmarks.turns`: how often `gpuprof compare --run` is wrong, which decides when it has enough runs.

Noise between runs is normal and of a stated size; one kernel; both sides in the order ABBA. Nothing is run on a GPU.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from gpuprof.comparison.sequential_test import Progress, StableVerdict, WatchedKernel, interim_check, stable_verdicts
from gpuprof.comparison.timing.noise import RatioEstimate, Samples, estimate, runs_needed

NOISES = (0.002, 0.004, 0.008, 0.012, 0.02, 0.03)
MOST_ROUNDS = 30
PAIRS = 4000


class Rates(NamedTuple):
    """Shares of the pairs by their last verdict, and the runs a side on average."""

    same: float
    slower: float
    faster: float
    unclear: float
    rounds: float


def rates(noise: float, change: float, pairs: int, seed: int = 1, most_rounds: int = MOST_ROUNDS) -> Rates:
    """Return how pairs of programs end of which the new one takes `change` longer, as a logarithm."""
    source = random.Random(seed)
    verdicts: Counter[str] = Counter()
    rounds = 0
    for _ in range(pairs):
        last, taken = _measured(noise, change, source, most_rounds)
        verdicts[last.word] += 1
        rounds += taken
    return Rates(
        same=verdicts["same"] / pairs,
        slower=verdicts["slower"] / pairs,
        faster=verdicts["faster"] / pairs,
        unclear=verdicts["unclear"] / pairs,
        rounds=rounds / pairs,
    )


def _measured(noise: float, change: float, source: random.Random, most_rounds: int) -> tuple[RatioEstimate, int]:
    """Measure one pair as `gpuprof.ab_runner` does, with a budget for so many rounds."""
    base: list[float] = []
    new: list[float] = []
    stable: dict[Hashable, StableVerdict] = {}
    until: int | None = 1
    told = None
    while until is not None:
        while len(base) < until:
            base.append(source.gauss(0.0, noise))
            new.append(source.gauss(change, noise))
        told = estimate(_samples(base), _samples(new), paired=True, clock_known=True)
        needed = runs_needed(told, len(base), 0.0, paired=True) if told.word == "unclear" else None
        kernels = (WatchedKernel(key=0, label="kernel", verdict=told.word, runs_needed=needed),)
        stable = stable_verdicts(kernels, stable, len(base))
        progress = Progress(rounds=len(base), left_s=most_rounds - len(base), round_s=1.0)
        until = interim_check(kernels, stable, progress, alike=True).until
    assert told is not None
    return told, len(base)


def _samples(logs: list[float]) -> Samples:
    return Samples(tuple(logs), (0.0,) * len(logs))


def table(pairs: int = PAIRS) -> Iterator[str]:
    """Yield the rows of the table in docs/how-to/compare-measure.md."""
    yield "| noise between runs | false alarms | same code unclear | runs a side | +2 % found | missed | runs a side |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    for noise in NOISES:
        same, slower = rates(noise, 0.0, pairs), rates(noise, 0.0198, pairs)
        figures = (
            f"{noise:.1%}",
            f"{same.slower + same.faster:.2%}",
            f"{same.unclear:.1%}",
            f"{same.rounds:.1f}",
            f"{slower.slower:.1%}",
            f"{slower.same + slower.faster:.2%}",
            f"{slower.rounds:.1f}",
        )
        yield f"| {' | '.join(figure.replace('%', ' %') for figure in figures)} |"


if __name__ == "__main__":
    sys.stdout.writelines(f"{row}\n" for row in table())
