"""The gate: what a limit says of a kernel, what is accepted in writing, which exit code follows. Made-up numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.comparison.compare import Compared, compare
from gpuprof.comparison.contract import (
    COMPARISON_VERSION,
    Comparison,
    ComparisonFact,
    CountChange,
    CountWord,
    Gate,
    GateCheck,
    Interval,
    KernelChange,
    MatchKind,
    QuantityChange,
    TimeChange,
    TimeDoubt,
    TimeWord,
    WorkChange,
)
from gpuprof.comparison.gate.accepted import Accepted, accepted_of
from gpuprof.comparison.gate.gate import gated
from gpuprof.comparison.gate.limits import COUNTS, GateLimit, limit_of, limits_of
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.selection import narrowed
from gpuprof.comparison.sides import Run, Side
from gpuprof.errors import InputError, UsageError
from tests import made_comparisons as made
from tests.compare_builders import kernel as profile
from tests.compare_builders import run, source
from tests.table import each_row

TODAY = date(2026, 11, 23)


def time(verdict: TimeWord = "same", ratio: float | None = 1.0, low: float = 0.99, high: float = 1.01) -> TimeChange:
    interval = Interval(low, high) if ratio is not None and low else None
    return made.time(verdict, ratio, base_s=1e-3 if ratio is not None else None, interval=interval)


def count(name: str, base: float | None, new: float | None, word: CountWord, tolerance: float = 0.0) -> CountChange:
    unit = "B" if name.endswith("bytes") else "fraction" if name == "occupancy" else ""
    return made.count(name, base, new, unit=unit, word=word, tolerance=tolerance)


def kernel(
    name: str = "gemm", times: TimeChange | None = None, *counts: CountChange, match: MatchKind = "exact"
) -> KernelChange:
    its = (made.side_kernel(name, time_total_s=1e-3),)
    return made.change(
        0, name, "same", match=match, base=() if match == "new" else its, new=() if match == "gone" else its,
        sentence="", time=times or time(), work=WorkChange(verdict="same", counts=counts), effect_s=None, effect=None,
    )  # fmt: skip


def compared(
    *kernels: KernelChange, total: QuantityChange | None = None, alike: bool = True, affects: str = "time"
) -> Compared:
    """A comparison of these kernels. Where the runs are not alike, that `affects` time, work or both."""
    side = made.side("a", gpus=(), time_s=None)
    comparison = Comparison(
        schema_version=COMPARISON_VERSION, gpuprof_version="0", base=side, new=side,
        alike=alike or affects == "work",
        conditions=() if alike else (made.condition(affects=affects),), total=(total,) if total is not None else (),
        kernels=tuple(replace(change, id=number) for number, change in enumerate(kernels)),
    )  # fmt: skip
    pairs = tuple(Pair(change.match, (), ()) for change in kernels)
    return Compared(comparison, pairs, Side((), ()), new=Side((), ()))


def gate_of(sides: Compared, limits: Sequence[GateLimit], *, unclear_fails: bool = False) -> Gate:
    gate = gated(sides, limits, unclear_fails=unclear_fails).comparison.gate
    assert gate is not None
    return gate


def word(change: KernelChange, limit: str, **how: bool) -> str:
    gate = gate_of(compared(change, **how), limits_of([limit]))  # type: ignore[arg-type]
    return gate.checks[0].word if gate.checks else "ok"


@each_row(
    ("text", "limit"),
    [("time:3%", ("time", 0.03, None)), ("time: 3 %", ("time", 0.03, None)),
     ("total-time:.5%", ("total-time", 0.005, None)), ("registers", ("registers", 0.0, None)),
     ("opcode.MUFU:2%", ("opcode.MUFU", 0.02, None)), ("flop.fp64:0%", ("flop.fp64", 0.0, None)),
     ("gemm|conv=time:8%", ("time", 0.08, "gemm|conv")), ("operator==<int>=spills", ("spills", 0.0, "operator==<int>")),
     ("f<a, (b)1>=time:250%", ("time", 2.5, "f<a, (b)1>"))],
)  # fmt: skip
def test_a_limit_is_read_as_it_is_written(text: str, limit: tuple[str, float, str | None]) -> None:
    read = limit_of(text)
    assert (read.quantity, read.pattern) == (limit[0], limit[2]) and read.most == pytest.approx(limit[1])
    assert read.text == text


def test_every_count_can_have_a_limit_and_what_is_said_twice_is_one() -> None:
    for name in COUNTS:
        assert limit_of(f"{name}:1%") == GateLimit(f"{name}:1%", name, 0.01)
    assert len(limits_of(["time:3%", " time:3%\n", "gemm=time:5%"])) == 2


def test_no_limit_is_said_to_hold_for_a_kernel_of_which_one_side_alone_stores() -> None:
    """Made of sessions whose launches tell what they executed: the new one is faster, and stores nothing."""

    def side(time_s: float, stores: float) -> list[Run]:
        counts = {"global-store-requests": stores, "opcode.STG": stores, "instructions": 9e5}
        same = profile("gemm", [time_s], counts=counts)
        return [run(same, sources=(source(sha256=f"{number:032x}{round(time_s * 1e6):032x}"),)) for number in range(8)]

    base, new = side(2e-3, 1e3), side(1e-3, 0.0)
    whole = compare(base, new, "0")
    (change,) = whole.comparison.kernels
    assert change.time.doubt == TimeDoubt(kind="stores", sides=("new",))
    limits = limits_of(["time", "instructions", "total-time"])
    gate = gate_of(whole, limits)
    assert {check.word for check in gate.checks} == {"unclear"} and (len(gate.checks), gate.ok) == (3, 0)
    assert gate_of(whole, limits, unclear_fails=True).exit_code == 7
    assert gate_of(compare(base, side(1e-3, 1e3), "0"), limits, unclear_fails=True).exit_code == 0


def test_limits_that_are_none_or_contradict_each_other_are_refused_with_a_hint() -> None:
    wrong = (":3%", "=time:3%", "gemm=total-time:3%", "tme:3%", "opcode.mufu:1%", "time:-3%", "time:3x%", "time:3")
    for text in wrong:
        with pytest.raises(UsageError) as caught:
            limit_of(text)
        assert text in caught.value.message and caught.value.hint
    with pytest.raises(UsageError, match="time:5%"):
        limits_of(["time:3%", "time:5%"])


@given(st.text(max_size=40))
def test_any_text_is_a_limit_or_told_to_be_none(text: str) -> None:
    try:
        limit = limit_of(text)
    except UsageError as error:
        assert error.hint and len(error.message) < 400
    else:
        assert limit.most >= 0


@each_row(
    ("change", "limit", "said"),
    [
        (time("slower", 1.05, 1.04, 1.06), "time:3%", "regression"),
        # The point is beyond the limit, and that it is slower is certain.
        (time("slower", 1.05, 1.01, 1.09), "time:3%", "regression"),
        (time("slower", 1.02, 1.01, 1.03), "time:3%", "ok"),
        (time("slower", 1.01, 1.005, 1.02), "time", "regression"),
        (time("same", 1.0, 0.98, 1.02), "time:1%", "unclear"),
        (time("faster", 0.9, 0.8, 0.95), "time", "ok"),
        (time("unclear", 1.05, 0.9, 1.2), "time:3%", "unclear"),
        (time("unclear", 0.98, 0.95, 1.01), "time:3%", "ok"),
        (time("unknown", None), "time:3%", "not-compared"),
    ],
)
def test_time_is_held_by_its_verdict_and_its_whole_interval(change: TimeChange, limit: str, said: str) -> None:
    assert word(kernel("gemm", change), limit) == said


def test_runs_that_are_not_alike_are_unclear_whatever_their_times() -> None:
    slower = kernel("gemm", time("slower", 1.5, 1.4, 1.6), count("instructions", 100, 200, "more"))
    assert word(slower, "time:3%", alike=False) == "unclear"
    assert word(slower, "instructions", alike=False) == "regression"
    other = compared(slower, alike=False, affects="both")
    assert [check.word for check in gate_of(other, limits_of(["instructions"])).checks] == ["unclear"]


@each_row(
    ("verdict", "ratio", "said"),
    [("slower", 1.05, "regression"), ("slower", 1.01, "ok"), ("unclear", 1.0, "unclear"),
     ("unknown", 1.3, "unclear"), ("unknown", None, "not-compared")],
)  # fmt: skip
def test_the_time_of_the_run_has_a_limit_of_its_own(verdict: str, ratio: float | None, said: str) -> None:
    total = QuantityChange(name="gpu-time", unit="s", base=1.0, new=ratio, ratio=ratio, verdict=verdict)  # type: ignore[arg-type]
    gate = gate_of(compared(kernel(match="new"), total=total), limits_of(["total-time:2%"]))
    assert [check.word for check in gate.checks] == ([] if said == "ok" else [said])
    assert gate.ok == (said == "ok") and all(check.kernel is None for check in gate.checks)


@each_row(
    ("change", "limit", "said"),
    [
        (count("instructions", 1000, 1020, "more"), "instructions:1%", "regression"),
        (count("instructions", 1000, 1005, "more"), "instructions:1%", "ok"),
        (count("instructions", 1000, 900, "less"), "instructions", "ok"),
        # Within its tolerance it is the same, however tight the limit.
        (count("instructions", 1000, 1001, "same", 0.002), "instructions", "ok"),
        # Four digits of ncu's details page hide a rise that the limit does not allow.
        (count("instructions", 1000, 1009, "same", 0.011), "instructions:0.5%", "unclear"),
        (count("dram-bytes", 1000, 1005, "unclear", 0.02), "dram-bytes:1%", "unclear"),
        (count("dram-bytes", 1000, 1005, "unclear", 0.02), "dram-bytes:5%", "ok"),
        (count("registers", 40, 41, "more"), "registers", "regression"),
        (count("spills", 0, 64, "more"), "spills:50%", "regression"),
        (count("spills", 0, 0, "same"), "spills", "ok"),
        (count("spills", None, 64, "only-new"), "spills", "not-compared"),
        (count("occupancy", 0.75, 0.5, "less"), "occupancy:10%", "regression"),
        (count("occupancy", 0.5, 0.75, "more"), "occupancy", "ok"),
    ],
)
def test_a_count_is_held_by_its_word_and_its_rise(change: CountChange, limit: str, said: str) -> None:
    assert word(kernel("gemm", None, change), limit) == said
    assert word(kernel(), limit) == "not-compared", "unknown"


def test_a_limit_for_a_kernel_takes_the_place_of_that_for_all() -> None:
    slower = time("slower", 1.05, 1.04, 1.06)
    sides = compared(kernel("gemm", slower), kernel("conv", slower), kernel("relu", slower))
    limits = ["gemm=time:8%", "time:3%", "gemm|conv=time:1%", "relu=registers"]
    checks = gate_of(sides, limits_of(limits)).checks
    said = {(check.kernel, check.limit, check.word) for check in checks}
    # The first that fits decides for gemm; a limit on another quantity changes nothing for relu.
    assert said == {
        (1, "gemm|conv=time:1%", "regression"), (2, "time:3%", "regression"), (2, "relu=registers", "not-compared"),
    }  # fmt: skip


def test_a_kernel_of_one_side_breaks_no_limit_and_a_limit_that_nothing_is_held_against_is_not_compared() -> None:
    sides = compared(kernel("a", match="new"), kernel("gone", match="gone"), kernel("c"))
    gate = gate_of(sides, limits_of(["time:3%"]))
    assert (gate.passed, gate.ok, gate.checks) == (True, 1, ())
    for pattern in ("nope", "gone"):
        gate = gate_of(sides, limits_of([f"{pattern}=time:3%"]), unclear_fails=True)
        (check,) = gate.checks
        assert (check.kernel, check.word, gate.exit_code) == (None, "not-compared", 7)
        assert (check.pattern, check.because) == (pattern, "one-sided" if pattern == "gone" else "no-match")


@each_row(
    ("changes", "unclear_fails", "code"),
    [(["same", "unclear"], False, 0), (["same", "unclear"], True, 7), (["unclear", "slower"], True, 6),
     (["unknown"], True, 7), (["unknown"], False, 0)],
)  # fmt: skip
def test_a_regression_is_6_and_what_is_unclear_7_where_that_fails(
    changes: list[str], unclear_fails: bool, code: int
) -> None:
    every = {
        "same": time(), "slower": time("slower", 1.2, 1.1, 1.3), "unclear": time("unclear", 1.0, 0.8, 1.2),
        "unknown": time("unknown", None),
    }  # fmt: skip
    sides = compared(*(kernel(name, every[name]) for name in changes))
    gate = gate_of(sides, limits_of(["time:3%"]), unclear_fails=unclear_fails)
    assert (gate.exit_code, gate.passed) == (code, code == 0)
    assert len(gate.checks) + gate.ok == len(changes)
    order = ["regression", "unclear", "not-compared"]
    ranks = [order.index(check.word) for check in gate.checks]
    assert ranks == sorted(ranks)


def entries(text: str) -> tuple[Accepted, ...]:
    return accepted_of(text.encode(), "accepted.toml")


def entry(limit: str = "time:8%", kernel: str | None = "gemm", until: str = "2026-12-31") -> str:
    named = f"kernel = '{kernel}'\n" if kernel is not None else ""
    return f"[[accepted]]\n{named}limit = '{limit}'\nreason = 'Stable for large inputs.'\nuntil = {until}\n"


SLOWER = kernel("gemm", time("slower", 1.06, 1.05, 1.07))


def held(
    text: str, *changes: KernelChange, limit: str = "time:3%"
) -> tuple[list[GateCheck], tuple[ComparisonFact, ...]]:
    sides = compared(*(changes or (SLOWER,)))
    comparison = gated(sides, limits_of([limit]), accepted=entries(text), today=TODAY).comparison
    assert comparison.gate is not None
    return list(comparison.gate.checks), comparison.facts


UNCLEAR = kernel("gemm", time("unclear", 1.02, 0.98, 1.06))


@each_row(
    ("text", "change", "said", "notes"),
    [
        (entry("time"), SLOWER, "accepted", 0),
        (entry("time:5%"), SLOWER, "regression", 0),
        (entry(until=str(TODAY)), SLOWER, "accepted", 0),
        (entry(until="2026-11-22"), SLOWER, "regression", 0),
        # One matching entry is enough; unneeded entries are reported.
        (entry("time:8%", until="2020-01-01") + entry("time:5%"), SLOWER, "regression", 1),
        (entry(until="2020-01-01") + entry("time:5%") + entry("time:9%"), SLOWER, "accepted", 2),
        (entry("time:1%") + entry("time:30%"), SLOWER, "accepted", 1),
        # What is unclear is accepted as far as its interval reaches.
        (entry("time:8%"), UNCLEAR, "accepted", 0),
        (entry("time:5%"), UNCLEAR, "unclear", 0),
    ],
)
def test_a_regression_is_accepted_up_to_a_size_and_a_day(
    text: str, change: KernelChange, said: str, notes: int
) -> None:
    (check,), told = held(text, change)
    assert (check.word, len(told)) == (said, notes)
    assert check.accepted == ("Stable for large inputs." if said == "accepted" else "")


@each_row(
    ("text", "told"),
    [
        ("accepted = 3", "accepted.toml: "),
        (f"# first\n\n{entry(limit='tme')}", "accepted.toml:3: limit 'tme'"),
        (entry() + entry(limit="time:8"), "accepted.toml:6: limit 'time:8'"),
        (entry(kernel="("), "accepted.toml:1: kernel '('"),
        (entry(until="'soon'"), "accepted.toml:1: until cannot be 'soon'"),
        (entry().replace("until", "till"), "accepted.toml:1: unknown key 'till'"),
        ("[[accepted]]\nkernel = 'a'\nlimit = 'time'\nreason = 'b'", "accepted.toml:1: until "),
        (entry().replace("Stable for large inputs.", "  "), "accepted.toml:1: reason cannot be '  '"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        entries(text)
    assert told in caught.value.message and caught.value.hint


def test_a_comparison_is_narrowed_by_names_or_numbers_and_says_so() -> None:
    sides = compared(kernel("gemm"), kernel("conv"), kernel("relu"))
    left = narrowed(sides, ["gemm|conv"], ["#1"])
    assert [(change.id, change.label) for change in left.comparison.kernels] == [(0, "gemm")]
    assert len(left.pairs) == 1
    (fact,) = left.comparison.facts
    assert (fact.kind, *fact.numbers[:2]) == ("left-out", 2, 3)
    assert fact.numbers[2] == pytest.approx(2 / 3)
    assert fact.texts == ("--kernel gemm|conv", "--exclude #1")
    assert narrowed(sides, (), ["nope"]) is sides
    left = narrowed(sides, ["gemm", "#2", "nope"])
    assert [change.label for change in left.comparison.kernels] == ["gemm", "relu"]
    same = [run(profile("a"), profile("b"), profile("c"))]
    whole = compare(same, same, "0", [NamedMatch("^a$", "^b$")])
    assert narrowed(whole, ["a"]).comparison.identical


@given(st.floats(0.5, 2.0), st.floats(0.0, 0.5), st.floats(0.0, 1.0))
def test_a_wider_limit_never_fails_what_a_tighter_one_lets_pass(ratio: float, width: float, most: float) -> None:
    low, high = ratio * (1 - width), ratio * (1 + width)
    verdict: TimeWord = "slower" if low > 1 else "faster" if high < 1 else "unclear"
    change = kernel("gemm", time(verdict, ratio, low, high))
    order = ("ok", "unclear", "regression")
    tight, wide = (gate_of(compared(change), [GateLimit("time", "time", limit)]) for limit in (most, most + 0.1))
    verdicts = [gate.checks[0].word if gate.checks else "ok" for gate in (tight, wide)]
    assert order.index(verdicts[1]) <= order.index(verdicts[0])
