"""Planted changes of work, and pairs without one: how many `gpuprof compare` finds, and how many it makes up.

Counts of the same code repeat as in real reports (`gpuprof/comparison/work/tolerances.py`): instructions and requests
exactly, sectors within 0.1 %, bytes between L1 and L2 within 0.005 %, DRAM bytes within 0.06 % and 359 kB. Work that
depends on data or on races is drawn anew for each launch. The verdict is that of `work_change`, as the tool has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuprof.comparison.contract import CountChange
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import KernelKey, Member, RunTimes, SideKernel
from gpuprof.comparison.work.counts import is_work
from gpuprof.comparison.work.verdict import work_change
from gpuprof.model.session import KernelProfile, LaunchCount, Occupancy, Traffic

if TYPE_CHECKING:
    import numpy as np

    Draw = Callable[[np.random.Generator, int], np.ndarray]
    """Draws what the launches of a side do, as factors of the kernel's usual work."""

PAIRS = 10_000
SEED = 22
HEADER = ("work", "launches a side", "planted", "false alarms", "found", "unclear", "missed")
"""The columns: `false alarms` are of pairs without a change, the others of pairs with the planted one."""


class Planted(NamedTuple):
    """A change: a count, and by which factors it changes, at least and at most."""

    name: str
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of kernel: how its launches differ by themselves, how many are counted, and what is planted.

    `usual` is how many instructions and bytes its kernels have, at least and at most; `all_caught` is the aim.
    """

    title: str
    draw: Draw
    base: int
    new: int
    planted: Planted
    usual: tuple[float, float] = (1e4, 1e10)
    all_caught: bool = False


class Score(NamedTuple):
    """Of so many pairs without and as many with a change: how many verdicts were of which sort."""

    false: int
    caught: int
    unclear: int
    missed: int


def rows(pairs: int = PAIRS) -> list[tuple[str, ...]]:
    """Return the table as texts: the names of its columns, then a row for each case."""
    return [HEADER, *(_row(case, result, pairs) for case, result in scores(pairs))]


def missed_aims(pairs: int = PAIRS) -> list[str]:
    """Return a sentence for each aim that is missed: no false alarm, and all changes found of exact work."""
    missed = []
    for case, result in scores(pairs):
        where = f"{case.title}, {case.base} and {case.new} launches"
        if result.false:
            missed.append(f"{where}: {result.false} of {pairs} pairs without a change are said to have one")
        if case.all_caught and result.caught < pairs:
            missed.append(f"{where}: {pairs - result.caught} of {pairs} planted changes are not found")
    return missed


@cache
def scores(pairs: int) -> tuple[tuple[Case, Score], ...]:
    """Return how each case fares, computed once."""
    return tuple((case, score(case, pairs)) for case in cases())


def cases() -> tuple[Case, ...]:
    """Return the kinds of kernels that are tried."""
    small, large = Planted("instructions", 0.005, 0.05), Planted("instructions", 0.25, 1.0)
    dram = Planted("dram-bytes", 0.02, 0.2)
    return (
        Case("exact", draw=_exact, base=1, new=1, planted=small, all_caught=True),
        Case("exact", draw=_exact, base=20, new=20, planted=small, all_caught=True),
        Case("exact but for retries, up to 0.05 %", draw=_retries, base=20, new=20, planted=small, all_caught=True),
        Case(
            "exact; 100 MB to 10 GB of DRAM",
            draw=_exact,
            base=1,
            new=1,
            planted=dram,
            usual=(1e8, 1e10),
            all_caught=True,
        ),
        Case("exact; 1 to 100 MB of DRAM", draw=_exact, base=1, new=1, planted=dram, usual=(1e6, 1e8)),
        Case("races, 1 % (normal)", draw=_normal, base=30, new=30, planted=small),
        Case("races, 1 % (normal)", draw=_normal, base=30, new=30, planted=large),
        Case("races, 1 % (normal)", draw=_normal, base=3, new=3, planted=large),
        Case("data, lognormal", draw=_lognormal, base=30, new=30, planted=small),
        Case("data, two sizes", draw=_bimodal, base=30, new=30, planted=small),
        Case("data, two sizes", draw=_bimodal, base=9, new=9, planted=large),
        Case("races on one side", draw=_normal, base=30, new=1, planted=large),
    )


def score(case: Case, pairs: int) -> Score:
    """Compare so many pairs without a change, and as many with the planted one."""
    import numpy as np

    generator = np.random.default_rng(SEED)
    false, outcomes = 0, []
    for _ in range(pairs):
        usual = float(np.exp(generator.uniform(*np.log(case.usual))))
        counts = _compared(case, generator, usual, factor=1.0)
        false += any(count.word in ("more", "less") for count in counts if is_work(count))
        factor = 1 + generator.uniform(case.planted.least, case.planted.most)
        planted = _compared(case, generator, usual, factor)
        outcomes.append(next(count.word for count in planted if count.name == case.planted.name))
    caught, unclear = outcomes.count("more"), outcomes.count("unclear")
    return Score(false, caught, unclear, missed=pairs - caught - unclear)


def _compared(case: Case, generator: np.random.Generator, usual: float, factor: float) -> Sequence[CountChange]:
    base = _side(case.draw(generator, case.base), generator, usual, {})
    new = _side(case.draw(generator, case.new), generator, usual, {case.planted.name: factor})
    return work_change(Pair("exact", (base,), (new,))).counts


def _side(factors: np.ndarray, generator: np.random.Generator, usual: float, planted: dict[str, float]) -> SideKernel:
    """Return a side of one group of launches, whose work is the usual one times these factors."""
    import numpy as np

    instructions = np.round(usual * planted.get("instructions", 1.0) * factors)
    sectors = np.round(usual / 8 * factors * (1 + generator.uniform(-0.0005, 0.0005, factors.size)))
    counts = {
        "instructions": instructions,
        "global-load-requests": np.round(usual / 20 * factors),
        "global-load-sectors": sectors,
    }
    amount = usual * factors[0] * planted.get("dram-bytes", 1.0)
    dram = amount * (1 + generator.uniform(-0.0003, 0.0003)) + generator.uniform(0, 359e3)
    representative = _profile(
        launches=factors.size,
        counts=tuple(_count(name, values) for name, values in counts.items()),
        traffic=(Traffic("dram", bytes=float(dram), bytes_per_s=None, definition="dram__bytes.sum", basis="counted"),),
    )
    times = RunTimes(run=0, durations_s=(), cycles=(), launches=factors.size, total_s=None)
    return SideKernel(
        key=KernelKey("planted", ranges=(), grid=None, block=None),
        run=0,
        representative=representative,
        members=(Member(0, 0, representative),),
        times=(times,),
        counts={count.name: count for count in representative.counts},
        runs=frozenset({0}),
        launches=factors.size,
        total_s=None,
    )


def _count(name: str, values: np.ndarray) -> LaunchCount:
    return LaunchCount(
        name=name,
        value=float(values[0]),
        unit="inst",
        metric=name,
        low=float(values.min()),
        high=float(values.max()),
    )


def _profile(**fields: Any) -> KernelProfile:
    """Return a kernel of which only these fields are known."""
    names = ("rank", "process", "stream", "grid", "block", "registers_per_thread", "shared_memory_per_block")
    times = ("duration_s", "duration_percentiles_s", "duration_source", "time_total_s", "time_share", "sm_clock_hz")
    unknown: dict[str, Any] = dict.fromkeys((*names, *times, "throttled"))
    empty: dict[str, Any] = dict.fromkeys(
        ("ranges", "work", "roofline", "throughput", "stalls", "findings", "missing"), ()
    )
    texts: dict[str, Any] = dict.fromkeys(("name", "demangled", "label"), "planted")
    first: dict[str, Any] = {"id": 0, "source": 0, "device": 0, "occupancy": Occupancy(None, None, ())}
    return KernelProfile(**{**unknown, **empty, **texts, **first, **fields})


def _exact(_: np.random.Generator, launches: int) -> np.ndarray:
    import numpy as np

    return np.ones(launches)


def _retries(generator: np.random.Generator, launches: int) -> np.ndarray:
    return 1 + generator.uniform(0, 0.0005, launches)


def _normal(generator: np.random.Generator, launches: int) -> np.ndarray:
    return 1 + 0.01 * generator.standard_normal(launches).clip(-10, 10)


def _lognormal(generator: np.random.Generator, launches: int) -> np.ndarray:
    return generator.lognormal(0.0, 0.5, launches)


def _bimodal(generator: np.random.Generator, launches: int) -> np.ndarray:
    return generator.choice([1.0, 2.5], launches) * (1 + 0.002 * generator.standard_normal(launches))


def _row(case: Case, result: Score, pairs: int) -> tuple[str, ...]:
    launches = f"{case.base}" if case.base == case.new else f"{case.base} and {case.new}"
    planted = f"{case.planted.name} +{case.planted.least * 100:g} to +{case.planted.most * 100:g} %"
    return (case.title, launches, planted, *(_share(number, pairs) for number in result))


def _share(number: int, pairs: int) -> str:
    return "none" if number == 0 else "all" if number == pairs else f"{number / pairs * 100:.2f} %"
