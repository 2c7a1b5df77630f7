"""What recordings say of a comparison: planted bottlenecks against their fixes, and a program against itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import gpuprof
from benchmarks.diagnosis.case import FIXED, SLOW, Case
from benchmarks.diagnosis.case_file import load_cases
from benchmarks.diagnosis.record import report_of
from benchmarks.diagnosis.worth import HALVES, half
from gpuprof.comparison.compare import Compared, compare
from gpuprof.comparison.contract import KernelChange
from gpuprof.comparison.sides import Run
from gpuprof.errors import GpuprofError

_CHANGED = ("faster", "slower")

Sides = tuple[Sequence[Run], Sequence[Run]]


def planted_rows(folder: Path, *, held_out: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield a row for each planted case that is recorded in a folder: what `slow` is said to have become in `fixed`.

    Without `held_out` of those cases that may be looked at while something is tuned. A case whose kernels are launched
    unequally often is left out: one launch of each is recorded.
    """
    yield "case", "time", "ratio", "work", "first cause"
    for case in load_cases():
        file = report_of(folder, case.name)
        if file is None or not _comparable(case) or not (held_out or half(case.name) == HALVES[0]):
            continue
        try:
            change = _fixed(gpuprof.compare(file, file, match=[(f"^{SLOW}$", f"^{FIXED}$")]))
        except GpuprofError as error:
            yield case.name, "not compared", "", "", error.message
            continue
        ratio = f"{change.time.ratio:.3f}" if change.time.ratio is not None else ""
        first = next((cause.sentence for cause in change.causes), "")
        yield case.name, change.time.verdict, ratio, change.work.verdict, first


def _comparable(case: Case) -> bool:
    return SLOW in case.entries and case.launches[SLOW].times == case.launches[FIXED].times


def _fixed(compared: Compared) -> KernelChange:
    return next(change for change in compared.comparison.kernels if change.match == "named")


def repeats_rows(files: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    """Yield how often a program against itself is said to have changed: sessions of repeated runs, in their order.

    A run against another, and halves of them: every other run, and the first against the last ones.
    """
    runs = [Run(str(file), gpuprof.load(file, groups=True)) for file in files]
    yield "sides", "comparisons", "kernels", "time changed", "time unclear", "work changed", "work unclear"
    for name, sides in _WAYS.items():
        compared = [compare(base, new, gpuprof.__version__) for base, new in sides(runs)]
        kernels = [change for item in compared for change in item.comparison.kernels]
        times, works = (Counter(verdicts) for verdicts in zip(*map(_verdicts, kernels), strict=True))
        counts = (
            len(compared),
            len(kernels),
            sum(times[word] for word in (*_CHANGED, "new", "gone")),
            times["unclear"],
            sum(works[word] for word in ("more", "less", "changed")),
            works["unclear"],
        )
        yield name, *map(str, counts)


def _verdicts(change: KernelChange) -> tuple[str, str]:
    return change.time.verdict, change.work.verdict


def _singles(runs: Sequence[Run]) -> Iterator[Sides]:
    yield from (([base], [new]) for base, new in combinations(runs, 2))


def _alternate(runs: Sequence[Run]) -> Iterator[Sides]:
    yield runs[::2], runs[1::2]


def _halves(runs: Sequence[Run]) -> Iterator[Sides]:
    yield runs[: len(runs) // 2], runs[len(runs) // 2 :]


_WAYS: dict[str, Callable[[Sequence[Run]], Iterator[Sides]]] = {
    "one run each": _singles,
    "every other run": _alternate,
    "first and last half": _halves,
}
