"""The gate: what a limit says of a kernel, what is accepted in writing, which exit code follows. Made-up numbers."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.comparison.compare import Compared, compare
from gpuprof.comparison.contract import (
    ComparedKernel,
    ComparedSide,
    Comparison,
    CountChange,
    Gate,
    GateCheck,
    Interval,
    KernelChange,
    QuantityChange,
    RunCondition,
    TimeChange,
    WorkChange,
)
from gpuprof.comparison.gate.accepted import Accepted, accepted_of
from gpuprof.comparison.gate.gate import judged
from gpuprof.comparison.gate.limits import COUNTS, GateLimit, limit_of, limits_of
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.selection import narrowed
from gpuprof.comparison.sides import Run, Side
from gpuprof.errors import InputError, UsageError
from tests.compare_builders import kernel as profile
from tests.compare_builders import run, source
from tests.table import each_row

TODAY = date(2026, 11, 23)


def time(verdict: str = "same", ratio: float | None = 1.0, low: float = 0.99, high: float = 1.01) -> TimeChange:
    """The time of a launch; without a ratio it is not known."""
    known = ratio is not None
    return TimeChange(
        verdict=verdict,  # type: ignore[arg-type]
        base_s=1e-3 if known else None,
        new_s=1e-3 * ratio if ratio is not None else None,
        ratio=ratio,
        interval=Interval(low, high) if known and low else None,
        base_cycles=None,
        new_cycles=None,
        cycles_ratio=None,
        cycles_interval=None,
        base_runs=1,
        new_runs=1,
        base_launches=1,
        new_launches=1,
        noise=None,
        noise_source="",
        reason="" if known else "No durations.",
    )


def count(name: str, base: float | None, new: float | None, word: str, tolerance: float = 0.0) -> CountChange:
    """A count on both sides."""
    return CountChange(
        name=name,
        unit="B" if name.endswith("bytes") else "fraction" if name == "occupancy" else "",
        base=base,
        new=new,
        ratio=new / base if base and new is not None else None,
        word=word,  # type: ignore[arg-type]
        tolerance=tolerance,
        data_dependent=False,
        metric="made_up.sum",
    )


def kernel(
    name: str = "gemm", times: TimeChange | None = None, *counts: CountChange, match: str = "exact"
) -> KernelChange:
    """A kernel on both sides, or on that which `match` says."""
    its = ComparedKernel(
        run=0,
        id=0,
        label=name,
        demangled=f"void {name}<float>(float*)",
        ranges=(),
        grid=None,
        block=None,
        launches=1,
        time_total_s=1e-3,
    )
    return KernelChange(
        id=0,
        label=name,
        match=match,  # type: ignore[arg-type]
        base=() if match == "new" else (its,),
        new=() if match == "gone" else (its,),
        sentence="",
        time=times or time(),
        work=WorkChange(verdict="same", counts=counts),
        causes=(),
        lines=(),
        findings=(),
        effect_s=None,
        effect=None,
    )


def compared(
    *kernels: KernelChange, total: QuantityChange | None = None, alike: bool = True, affects: str = "time"
) -> Compared:
    """A comparison of these kernels. Where the runs are not alike, that `affects` time, work or both."""
    side = ComparedSide(files=("a",), gpus=(), kernels=len(kernels), launches=len(kernels), time_s=None)
    condition = RunCondition(name="gpu", base="A", new="B", affects=affects, sentence="")  # type: ignore[arg-type]
    comparison = Comparison(
        schema_version=1,
        gpuprof_version="0",
        base=side,
        new=side,
        sentence="",
        alike=alike or affects == "work",
        conditions=() if alike else (condition,),
        total=(total,) if total is not None else (),
        kernels=tuple(replace(change, id=number) for number, change in enumerate(kernels)),
    )
    pairs = tuple(Pair(change.match, (), ()) for change in kernels)
    return Compared(comparison, pairs, Side((), ()), new=Side((), ()))


def gate_of(sides: Compared, limits: Sequence[GateLimit], *, unclear_fails: bool = False) -> Gate:
    return judged(sides, limits, unclear_fails=unclear_fails).gate


def word(change: KernelChange, limit: str, **how: bool) -> str:
    """What a limit says of a kernel."""
    gate = gate_of(compared(change, **how), limits_of([limit]))  # type: ignore[arg-type]
    return gate.checks[0].word if gate.checks else "ok"


def test_no_limit_is_said_to_hold_for_a_kernel_of_which_one_side_alone_stores() -> None:
    """Made of sessions whose launches tell what they executed: the new one is faster, and stores nothing."""

    def side(time_s: float, stores: float) -> list[Run]:
        counts = {"global-store-requests": stores, "opcode.STG": stores, "instructions": 9e5}
        same = profile("gemm", [time_s], counts=counts)
        return [run(same, sources=(source(sha256=f"{number:032x}{round(time_s * 1e6):032x}"),)) for number in range(8)]

    base, new = side(2e-3, 1e3), side(1e-3, 0.0)
    found = compare(base, new, "0")
    (change,) = found.comparison.kernels
    assert change.time.verdict == "unclear" and change.time.reason.startswith("the new side stores nothing")
    assert "times of gemm do not compare, because the new side stores nothing" in found.comparison.sentence
    assert change.sentence.startswith("times not comparable: the new side stores nothing to global memory")
    limits = limits_of(["time", "instructions", "total-time"])
    gate = gate_of(found, limits)
    assert {check.word for check in gate.checks} == {"unclear"} and (len(gate.checks), gate.ok) == (3, 0)
    assert gate_of(found, limits, unclear_fails=True).exit_code == 7
    assert gate_of(compare(base, side(1e-3, 1e3), "0"), limits, unclear_fails=True).exit_code == 0


# Limits as they are written


@each_row(
    ("text", "limit"),
    [
        ("time:3%", ("time", 0.03, None)),
        ("time: 3 %", ("time", 0.03, None)),
        ("total-time:.5%", ("total-time", 0.005, None)),
        ("registers", ("registers", 0.0, None)),
        ("opcode.MUFU:2%", ("opcode.MUFU", 0.02, None)),
        ("flop.fp64:0%", ("flop.fp64", 0.0, None)),
        ("gemm|conv=time:8%", ("time", 0.08, "gemm|conv")),
        ("operator==<int>=spills", ("spills", 0.0, "operator==<int>")),
        ("f<a, (b)1>=time:250%", ("time", 2.5, "f<a, (b)1>")),
    ],
)
def test_a_limit_is_read_as_it_is_written(text: str, limit: tuple[str, float, str | None]) -> None:
    read = limit_of(text)
    assert (read.quantity, read.pattern) == (limit[0], limit[2]) and read.most == pytest.approx(limit[1])
    assert read.text == text


@each_row("name", COUNTS)
def test_every_count_can_have_a_limit(name: str) -> None:
    assert limit_of(f"{name}:1%") == GateLimit(f"{name}:1%", name, 0.01)


def test_a_limit_that_is_said_twice_is_one() -> None:
    assert len(limits_of(["time:3%", "time:3%", "gemm=time:5%"])) == 2


@given(st.text(max_size=40))
def test_any_text_is_a_limit_or_told_to_be_none(text: str) -> None:
    try:
        limit = limit_of(text)
    except UsageError as error:
        assert error.hint and len(error.message) < 400
    else:
        assert limit.most >= 0


# Time


@each_row(
    ("change", "limit", "said"),
    [
        (time("slower", 1.05, 1.04, 1.06), "time:3%", "regression"),
        # The point is beyond the limit, and that it is slower is certain.
        (time("slower", 1.05, 1.01, 1.09), "time:3%", "regression"),
        (time("slower", 1.02, 1.01, 1.03), "time:3%", "ok"),
        (time("slower", 1.02, 1.005, 1.04), "time:3%", "unclear"),
        (time("slower", 1.01, 1.005, 1.02), "time", "regression"),
        (time("same", 1.0, 0.99, 1.01), "time:3%", "ok"),
        (time("same", 1.0, 0.98, 1.02), "time:1%", "unclear"),
        (time("faster", 0.9, 0.8, 0.95), "time", "ok"),
        (time("unclear", 1.05, 0.9, 1.2), "time:3%", "unclear"),
        (time("unclear", 0.98, 0.95, 1.01), "time:3%", "ok"),
        (time("unclear", 0.98, 0.0, 0.0), "time:3%", "unclear"),
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
    [
        ("slower", 1.05, "regression"),
        ("slower", 1.01, "ok"),
        ("same", 1.01, "ok"),
        ("faster", 0.5, "ok"),
        ("unclear", 1.0, "unclear"),
        ("unknown", 1.3, "unclear"),
        ("unknown", None, "not-compared"),
    ],
)
def test_the_time_of_the_run_has_a_limit_of_its_own(verdict: str, ratio: float | None, said: str) -> None:
    total = QuantityChange(name="gpu-time", unit="s", base=1.0, new=ratio, ratio=ratio, verdict=verdict)  # type: ignore[arg-type]
    gate = gate_of(compared(kernel(match="new"), total=total), limits_of(["total-time:2%"]))
    assert [check.word for check in gate.checks] == ([] if said == "ok" else [said])
    assert gate.ok == (said == "ok") and all(check.kernel is None for check in gate.checks)


# Counts


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
        (count("instructions", 1000, 1004, "same", 0.011), "instructions:0.5%", "ok"),
        (count("dram-bytes", 1000, 1100, "same", 0.3), "dram-bytes:1%", "ok"),
        (count("dram-bytes", 1000, 1005, "unclear", 0.02), "dram-bytes:1%", "unclear"),
        (count("dram-bytes", 1000, 1005, "unclear", 0.02), "dram-bytes:5%", "ok"),
        (count("registers", 40, 41, "more"), "registers", "regression"),
        (count("spills", 0, 64, "more"), "spills:50%", "regression"),
        (count("spills", 0, 0, "same"), "spills", "ok"),
        (count("spills", None, 64, "only-new"), "spills", "not-compared"),
        (count("spills", 64, None, "only-base"), "spills", "not-compared"),
        (count("occupancy", 0.75, 0.5, "less"), "occupancy:10%", "regression"),
        (count("occupancy", 0.5, 0.75, "more"), "occupancy", "ok"),
    ],
)
def test_a_count_is_held_by_its_word_and_its_rise(change: CountChange, limit: str, said: str) -> None:
    assert word(kernel("gemm", None, change), limit) == said


def test_a_count_that_no_side_knows_is_not_compared() -> None:
    assert word(kernel(), "registers") == "not-compared"


def test_a_sentence_has_both_values_and_the_limit() -> None:
    change = count("dram-bytes", 1.2e9, 1.42e9, "more")
    (check,) = gate_of(compared(kernel("gemm", None, change)), limits_of(["dram-bytes:1%"])).checks
    assert check.sentence == "DRAM bytes 1.20 → 1.42 GB (+18 %), 1 % is allowed"
    assert check.change == pytest.approx(0.1833, abs=1e-3)
    (check,) = gate_of(compared(kernel("gemm", None, count("spills", 0, 64, "more"))), limits_of(["spills"])).checks
    assert check.sentence == "local-memory sectors 0 → 64, no change for the worse is allowed" and check.change is None


# Which limit decides


def test_a_limit_for_a_kernel_takes_the_place_of_that_for_all() -> None:
    slower = time("slower", 1.05, 1.04, 1.06)
    sides = compared(kernel("gemm", slower), kernel("conv", slower), kernel("relu", slower))
    limits = ["gemm=time:8%", "time:3%", "gemm|conv=time:1%", "relu=registers"]
    checks = gate_of(sides, limits_of(limits)).checks
    said = {(check.kernel, check.limit, check.word) for check in checks}
    # The first that fits decides for gemm; a limit on another quantity changes nothing for relu.
    assert said == {
        (1, "gemm|conv=time:1%", "regression"),
        (2, "time:3%", "regression"),
        (2, "relu=registers", "not-compared"),
    }


def test_a_kernel_that_is_new_or_gone_breaks_no_limit() -> None:
    gate = gate_of(compared(kernel("a", match="new"), kernel("b", match="gone"), kernel("c")), limits_of(["time:3%"]))
    assert (gate.passed, gate.ok, gate.checks) == (True, 1, ())


@each_row(
    ("limit", "told"),
    [
        ("nope=time:3%", "no kernel matches 'nope'"),
        ("gone=time:3%", "kernels that match 'gone' are not on both sides"),
    ],
)
def test_a_limit_that_nothing_is_held_against_is_told(limit: str, told: str) -> None:
    sides = compared(kernel("gemm"), kernel("gone", match="gone"))
    gate = gate_of(sides, limits_of([limit]), unclear_fails=True)
    (check,) = gate.checks
    assert (check.kernel, check.word, check.sentence, gate.exit_code) == (None, "not-compared", told, 7)


# Exit codes


@each_row(
    ("changes", "unclear_fails", "code"),
    [
        (["same"], True, 0),
        (["same", "unclear"], False, 0),
        (["same", "unclear"], True, 7),
        (["slower", "unclear"], True, 6),
        (["slower"], False, 6),
        (["unknown"], True, 7),
        (["unknown"], False, 0),
    ],
)
def test_a_regression_is_6_and_what_is_unclear_7_where_that_fails(
    changes: list[str], unclear_fails: bool, code: int
) -> None:
    every = {
        "same": time(),
        "slower": time("slower", 1.2, 1.1, 1.3),
        "unclear": time("unclear", 1.0, 0.8, 1.2),
        "unknown": time("unknown", None),
    }
    sides = compared(*(kernel(name, every[name]) for name in changes))
    gate = gate_of(sides, limits_of(["time:3%"]), unclear_fails=unclear_fails)
    assert (gate.exit_code, gate.passed) == (code, code == 0)
    assert len(gate.checks) + gate.ok == len(changes)


def test_what_failed_comes_first() -> None:
    sides = compared(kernel("a", time("unclear", 1.0, 0.8, 1.2)), kernel("b", time("slower", 1.2, 1.1, 1.3)))
    assert [check.word for check in gate_of(sides, limits_of(["time:3%"])).checks] == ["regression", "unclear"]


# Accepted regressions


def entries(text: str) -> tuple[Accepted, ...]:
    return accepted_of(text.encode(), "accepted.toml")


def entry(limit: str = "time:8%", kernel: str | None = "gemm", until: str = "2026-12-31") -> str:
    named = f"kernel = '{kernel}'\n" if kernel is not None else ""
    return f"[[accepted]]\n{named}limit = '{limit}'\nreason = 'Stable for large inputs.'\nuntil = {until}\n"


SLOWER = kernel("gemm", time("slower", 1.06, 1.05, 1.07))


def held(text: str, *changes: KernelChange, limit: str = "time:3%") -> tuple[list[GateCheck], tuple[str, ...]]:
    gate = judged(compared(*(changes or (SLOWER,))), limits_of([limit]), accepted=entries(text), today=TODAY)
    return list(gate.gate.checks), gate.notes


def test_an_accepted_regression_passes_with_its_reason() -> None:
    (check,), notes = held(entry())
    assert (check.word, check.accepted, notes) == ("accepted", "Stable for large inputs.", ())
    assert check.sentence == "time rose by 6.0 %, 3 % is allowed; accepted until 2026-12-31"
    assert held(entry("time"))[0][0].word == "accepted"


def test_more_than_is_accepted_fails_and_says_so() -> None:
    (check,), notes = held(entry("time:5%"))
    assert (check.word, notes) == ("regression", ())
    assert check.sentence.endswith("; accepted only up to 5.0 %")


def test_of_two_entries_the_one_that_still_holds_says_why_it_is_not_enough() -> None:
    (check,), _ = held(entry("time:8%", until="2020-01-01") + entry("time:5%"))
    assert (check.word, check.sentence.partition("; ")[2]) == ("regression", "accepted only up to 5.0 %")


def test_an_accepted_regression_ends_after_its_day() -> None:
    assert held(entry(until=str(TODAY)))[0][0].word == "accepted"
    (check,), _ = held(entry(until="2026-11-22"))
    assert (check.word, check.accepted) == ("regression", "")
    assert check.sentence.endswith("; it was accepted until 2026-11-22, which has passed")


def test_of_several_entries_any_that_holds_is_enough() -> None:
    (check,), notes = held(entry(until="2020-01-01") + entry("time:5%") + entry("time:9%"))
    assert check.word == "accepted"
    assert len(notes) == 2


def test_what_is_unclear_is_accepted_as_far_as_its_interval() -> None:
    unclear = kernel("gemm", time("unclear", 1.02, 0.98, 1.06))
    assert held(entry("time:8%"), unclear)[0][0].word == "accepted"
    assert held(entry("time:5%"), unclear)[0][0].word == "unclear"


@each_row(
    ("text", "told"),
    [
        (entry(kernel="nope"), "accepted.toml:1: no kernel matches 'nope'"),
        (entry("registers"), "accepted.toml:1: no limit is about registers"),
        (entry(kernel="conv"), "accepted.toml:1: time of 'conv' keeps its limit: delete the entry"),
        (entry(kernel="conv", until="2020-01-01"), "and it ended on 2020-01-01: delete the entry"),
    ],
)
def test_entries_that_nothing_needs_are_told(text: str, told: str) -> None:
    _, (note,) = held(text, SLOWER, kernel("conv"))
    assert told in note


def test_the_time_of_the_run_can_be_accepted() -> None:
    total = QuantityChange(name="gpu-time", unit="s", base=1.0, new=1.1, ratio=1.1, verdict="slower")
    text = entry("total-time:12%", None)
    gate = judged(compared(kernel(), total=total), limits_of(["total-time:2%"]), accepted=entries(text), today=TODAY)
    assert [check.word for check in gate.gate.checks] == ["accepted"]


WRONG: Mapping[str, str] = {
    "acepted = 1": "accepted.toml: unknown key 'acepted'",
    "accepted = 3": "accepted.toml: accepted is not a list of tables",
    "accepted = [3]": "accepted.toml: entry 1: 3 is not a table",
    "[[accepted]\n": "at line 1",
    f"# first\n\n{entry(limit='tme')}": "accepted.toml:3: limit 'tme': unknown quantity 'tme'",
    entry() + entry(limit="time:8"): "accepted.toml:6: limit 'time:8': '8' has no %",
    entry(limit="x=time"): "accepted.toml:1: limit 'x=time' names a kernel",
    entry(kernel="("): "accepted.toml:1: kernel '(' is not a regular expression",
    entry(kernel="#3"): "accepted.toml:1: kernel #3 is the number of a kernel",
    entry(kernel=None): "accepted.toml:1: kernel is missing",
    entry("total-time:3%"): "accepted.toml:1: total-time is of all kernels",
    entry(until="'soon'"): "accepted.toml:1: until cannot be 'soon'",
    entry(until="'2026-13-01'"): "accepted.toml:1: until cannot be '2026-13-01'",
    entry(until="20261231"): "accepted.toml:1: until cannot be 20261231",
    entry().replace("until", "till"): "accepted.toml:1: unknown key 'till'",
    "[[accepted]]\nkernel = 'a'\nlimit = 'time'\nreason = 'b'": "accepted.toml:1: until is missing",
    entry().replace("Stable for large inputs.", "  "): "accepted.toml:1: reason cannot be '  '",
}


@each_row("text", WRONG, ids=range(len(WRONG)))
def test_a_wrong_file_is_told_with_its_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        entries(text)
    assert WRONG[text] in caught.value.message and caught.value.hint


def test_a_file_that_is_not_utf_8_is_told_with_its_line() -> None:
    with pytest.raises(InputError, match=r"^accepted\.toml:2: not UTF-8$"):
        accepted_of(b"#\n\xff", "accepted.toml")


@each_row("until", ["2026-12-31", "'2026-12-31'", "2026-12-31T10:00:00Z"])
def test_a_day_may_be_written_as_a_date_or_a_text(until: str) -> None:
    assert entries(entry(until=until))[0].until == date(2026, 12, 31)


# Narrowing


def test_a_comparison_is_narrowed_by_name_or_number_and_says_so() -> None:
    sides = compared(kernel("gemm"), kernel("conv"), kernel("relu"))
    left = narrowed(sides, ["gemm|conv"], ["#1"])
    assert [(change.id, change.label) for change in left.comparison.kernels] == [(0, "gemm")]
    assert len(left.pairs) == 1
    assert left.comparison.notes == (
        "2 of 3 kernels are left out (67 % of the time): --kernel gemm|conv --exclude #1. Totals are of all kernels.",
    )
    assert narrowed(sides, (), ["nope"]) is sides


def test_a_comparison_is_narrowed_to_what_any_pattern_names() -> None:
    sides = compared(kernel("gemm"), kernel("conv"), kernel("relu"))
    left = narrowed(sides, ["gemm", "#2", "nope"])
    assert [change.label for change in left.comparison.kernels] == ["gemm", "relu"]
    assert "--kernel gemm --kernel #2 --kernel nope" in left.comparison.notes[0]


def test_a_narrowed_comparison_of_one_recording_with_itself_still_says_so() -> None:
    sides = [run(profile("a"), profile("b"), profile("c"))]
    whole = compare(sides, sides, "0", [NamedMatch("^a$", "^b$")])
    assert narrowed(whole, ["a"]).comparison.sentence.startswith("both sides are the same recording")


@each_row(("kernels", "exclude"), [(["nope"], ()), (["("], ()), ([], (".",))])
def test_nothing_left_is_an_error_that_names_what_there_is(kernels: list[str], exclude: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        narrowed(compared(kernel("gemm"), kernel("conv")), kernels, exclude)
    assert caught.value.hint


@given(st.floats(0.5, 2.0), st.floats(0.0, 0.5), st.floats(0.0, 1.0))
def test_a_wider_limit_never_fails_what_a_tighter_one_lets_pass(ratio: float, width: float, most: float) -> None:
    low, high = ratio * (1 - width), ratio * (1 + width)
    verdict = "slower" if low > 1 else "faster" if high < 1 else "unclear"
    change = kernel("gemm", time(verdict, ratio, low, high))
    order = ("ok", "unclear", "regression")
    tight, wide = (gate_of(compared(change), [GateLimit("time", "time", limit)]) for limit in (most, most + 0.1))
    words = [gate.checks[0].word if gate.checks else "ok" for gate in (tight, wide)]
    assert order.index(words[1]) <= order.index(words[0])


def test_of_two_entries_for_one_regression_the_second_is_told_to_be_too_much() -> None:
    gate, notes = held(entry("time:30%") + entry("time:40%"), SLOWER)
    assert [check.word for check in gate] == ["accepted"]
    assert notes == ("accepted.toml:6: another entry decides for time of 'gemm': delete one of them",)
    _, (note,) = held(entry("time:1%") + entry("time:30%"), SLOWER)
    assert note.startswith("accepted.toml:1: another entry decides for time of")


def test_a_file_of_accepted_regressions_may_begin_as_windows_writes_it() -> None:
    text = entry("registers")
    assert accepted_of(codecs.BOM_UTF8 + text.encode(), "accepted.toml") == accepted_of(text.encode(), "accepted.toml")


def test_spaces_around_a_limit_are_not_part_of_it() -> None:
    assert limits_of([" time:3%\n", "time:3%"]) == limits_of(["time:3%"])
