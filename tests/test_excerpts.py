"""The code shown with a kernel, and the places that findings name, on programs of a few instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gpuprof.annotated.counts import EXECUTED, SAMPLES, stall_metric
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Excerpt, KernelProfile
from tests.kernels import Made, Program, busy, issued, made, pipes, stalls
from tests.table import each_row

FILE = "src/k.cu"
TEXT = "\n".join(f"line {number};" for number in range(1, 101))
EXCESS = "derived__memory_l2_theoretical_sectors_global_excessive"
TOTAL = "memory_l2_theoretical_sectors_global"


def at(
    pc: int, line: int | None, sass: str = "FFMA R1, R2, R3, R4", file: str | None = FILE, **counts: float
) -> ProfiledInstruction:
    """An instruction; counts by short name: samples, executed, and stall reasons."""
    names = {"samples": SAMPLES, "executed": EXECUTED, "excess": EXCESS, "sectors": TOTAL}
    counted = {names.get(name) or stall_metric(name, "sampled"): value for name, value in counts.items()}
    return ProfiledInstruction(pc, sass, file if line is not None else None, line, counted)


def run(
    *code: ProfiledInstruction,
    sources: Mapping[str, str] | str | None = None,
    values: Mapping[str, float] | None = None,
) -> Made:
    """A launch with that program and the totals of its counts, as a report has them."""
    names = {name for item in code for name in item.counts}
    totals = {name: sum(item.counts.get(name, 0.0) for item in code) for name in names}
    per_pc: dict[str, dict[str | int, float]] = {
        name: {item.pc: item.counts[name] for item in code if name in item.counts} for name in names
    }
    return made(
        totals, values or {}, histograms=per_pc, details=Program(code, {FILE: TEXT} if sources is None else sources)
    )


def excerpts(*code: ProfiledInstruction, sources: Mapping[str, str] | str | None = None) -> tuple[Excerpt, ...]:
    return run(*code, sources=sources).profile().excerpts


def source(*code: ProfiledInstruction, sources: Mapping[str, str] | None = None) -> list[Excerpt]:
    return [excerpt for excerpt in excerpts(*code, sources=sources) if excerpt.language == "source"]


def sass(*code: ProfiledInstruction, sources: Mapping[str, str] | None = None) -> Excerpt:
    (excerpt,) = [excerpt for excerpt in excerpts(*code, sources=sources) if excerpt.language == "sass"]
    return excerpt


def numbers(excerpt: Excerpt) -> list[int | None]:
    return [line.number for line in excerpt.lines]


def shares(excerpt: Excerpt) -> dict[int | None, float]:
    return {line.number: line.share for line in excerpt.lines}


# Source.


@each_row(
    ("weights", "shown"),
    [
        # Excerpts end with the file.
        ({1: 10, 100: 5}, [[1, 2, 3], [98, 99, 100]]),
        # 10 ± 2 and 15 ± 2 are neighbours; between 10 ± 2 and 16 ± 2 is a line that belongs to neither.
        ({10: 10, 15: 5}, [list(range(8, 18))]),
        ({10: 10, 16: 5}, [[8, 9, 10, 11, 12], [14, 15, 16, 17, 18]]),
        # The three hottest lines, unless they have less than 3 % of the weight; at least one.
        ({20: 20, 40: 40, 60: 60, 80: 80}, [list(range(line - 2, line + 3)) for line in (40, 60, 80)]),
        ({20: 97, 40: 3}, [list(range(18, 23)), list(range(38, 43))]),
        ({20: 98, 40: 2}, [list(range(18, 23))]),
        (dict.fromkeys(range(1, 101), 1), [[1, 2, 3]]),
    ],
)
def test_the_lines_around_those_of_most_weight_are_shown(weights: dict[int, int], shown: list[list[int]]) -> None:
    code = [at(16 * number, line, samples=weight) for number, (line, weight) in enumerate(weights.items())]
    assert [numbers(excerpt) for excerpt in source(*code)] == shown


def test_shares_are_parts_of_the_whole_kernel() -> None:
    (excerpt,) = source(at(0, 20, samples=30), at(16, 20, samples=30), at(32, 21, samples=40))
    assert shares(excerpt) == {18: 0, 19: 0, 20: 0.6, 21: 0.4, 22: 0, 23: 0}
    # 40 of 100 samples lie in a file whose text the report has not, or at a line that the text has not.
    (excerpt,) = source(at(0, 20, samples=60), at(16, 7, file="other.h", samples=40))
    assert excerpt.file == FILE and sum(shares(excerpt).values()) == pytest.approx(0.6)
    (excerpt,) = source(at(0, 20, samples=6), at(16, 2, samples=4), sources={FILE: "1\n2\n3"})
    assert numbers(excerpt) == [1, 2, 3] and sum(shares(excerpt).values()) == pytest.approx(0.4)
    assert source(at(0, 20, samples=60), sources={FILE: ""}) == []


def test_samples_weigh_and_without_them_executed_instructions() -> None:
    (excerpt,) = source(at(0, 20, executed=30), at(16, 21, executed=10))
    assert (excerpt.weight, shares(excerpt)) == (
        "executed instructions",
        {18: 0, 19: 0, 20: 0.75, 21: 0.25, 22: 0, 23: 0},
    )
    (excerpt,) = source(at(0, 20, executed=1000, samples=1), at(16, 21, executed=10, samples=3))
    assert (excerpt.weight, shares(excerpt)) == ("samples", {18: 0, 19: 0, 20: 0.25, 21: 0.75, 22: 0, 23: 0})


# Neither source nor SASS.


def test_without_weighed_code_nothing_is_shown() -> None:
    uncounted = made(details=Program((at(0, 20, samples=5),), {FILE: TEXT}))
    for launch in (made(busy(dram=50)), run(), run(at(0, 20)), run(at(0, 20, samples=0, executed=0)), uncounted):
        assert launch.profile().excerpts == ()


def gaps(kernel: KernelProfile) -> list[tuple[str, str]]:
    return [(gap.what, gap.why) for gap in kernel.missing if "source" in gap.what or "SASS" in gap.what]


def damaged(code: str | None = None, sources: str | None = None) -> Made:
    """A launch with excess sectors whose program or source text cannot be read, for that reason."""
    load = at(0, 20, "LDG.E R2, [R4.64]", samples=5, excess=3, sectors=4)
    return replace(run(load, values=busy(dram=50)), details=Program(code or (load,), sources or {FILE: TEXT}))


def test_what_is_damaged_is_missing_with_its_reason_and_the_rest_stays() -> None:
    kernel = damaged(code="the program is cut off").profile()
    assert (kernel.excerpts, gaps(kernel)) == ((), [("source and SASS", "the program is cut off")])
    (finding,) = [finding for finding in kernel.findings if finding.rule == "uncoalesced-global"]
    assert finding.place is None and finding.gain_kernel is not None and finding.gain_kernel > 0.3
    kernel = damaged(sources="file 1 is no text").profile()
    assert [excerpt.language for excerpt in kernel.excerpts] == ["sass"]
    assert [why for _, why in gaps(kernel)] == ["file 1 is no text"]
    assert gaps(damaged().profile()) == []


# The places that findings name.


def place(launch: Made, rule: str) -> tuple[object, ...] | None:
    location = launch.finding(rule).place
    return (location.file, location.line, location.pc, location.sass, location.share) if location is not None else None


def test_a_place_is_the_line_with_most_excess_and_its_heaviest_instruction() -> None:
    # Line 20 has 30 + 35 of 100 in two instructions, line 21 has 35 in one.
    code = (
        at(0, 20, "LDG.E R2, [R4.64]", excess=30, sectors=40, samples=1),
        at(16, 20, "LDG.E R3, [R6.64]", excess=35, sectors=40, samples=1),
        at(32, 21, "LDG.E R5, [R8.64]", excess=35, sectors=500, samples=900),
    )
    heaviest = place(run(*code, values=busy(dram=50)), "uncoalesced-global")
    assert heaviest == (FILE, 20, 16, "LDG.E R3, [R6.64]", pytest.approx(0.65))


def test_waits_are_placed_where_their_samples_come_from() -> None:
    code = (at(0, 20, samples=90, long_scoreboard=10, wait=80), at(16, 21, "BAR.SYNC", samples=40, barrier=40))
    launch = run(*code, values={**stalls(barrier=40), **issued(20)})
    assert place(launch, "barrier-wait") == (FILE, 21, 16, "BAR.SYNC", 1.0)
    behind = (
        at(0, 20, "BAR.SYNC.DEFER_BLOCKING 0x0", samples=1),
        at(16, 21, "MOV R1, R2", samples=1),
        at(32, 21, "LDS R3, [R4]", samples=70, barrier=60),
        *(at(48 + 16 * number, 22, samples=1) for number in range(20)),
        at(400, 23, "LDS R5, [R6]", samples=30, barrier=30),
    )
    launch = run(*behind, values={**stalls(barrier=40), **issued(20)})
    assert place(launch, "barrier-wait") == (FILE, 20, 0, "BAR.SYNC.DEFER_BLOCKING 0x0", pytest.approx(2 / 3))


def test_warps_that_drain_are_placed_at_the_store_before_their_exit() -> None:
    code = (
        at(0, 20, "STG.E [R2.64], R0", samples=1), at(16, 21, "@P0 EXIT", samples=1),
        at(32, 22, "REDUX.SUM UR4, R0", samples=1, drain=60), at(48, 23, "STG.E.128 [R4.64], R8", samples=1),
        at(64, 24, "MOV R1, R2", samples=1), at(80, 25, "EXIT", samples=1),
        at(96, 25, "BRA 0x60", samples=140, drain=140),
    )  # fmt: skip
    launch = run(*code, values={**stalls(drain=40), **issued(20), **busy(dram=50)})
    assert place(launch, "memory-latency") == (FILE, 23, 48, "STG.E.128 [R4.64], R8", 0.7)
    early = run(*code[:3], values={**stalls(drain=40), **issued(20), **busy(dram=50)})
    assert place(early, "memory-latency") == (FILE, 20, 0, "STG.E [R2.64], R0", 1.0)
    without = run(*code[1:3], values={**stalls(drain=40), **issued(20), **busy(dram=50)})
    assert place(without, "memory-latency") == (FILE, 22, 32, "REDUX.SUM UR4, R0", 1.0)


def test_a_pipe_is_placed_where_most_of_its_instructions_run() -> None:
    code = (
        at(0, 20, "@P0 FFMA R1, R2, R3, R4", executed=10, samples=1),
        at(16, 21, "@!PT FMUL R1, R2, R3;", executed=30, samples=1),
        at(32, 22, "LDG.E R1, [R2.64]", executed=900, samples=50),
    )
    pipe = place(run(*code, values=pipes(fma=70)), "fp32-compute-bound")
    assert pipe == (FILE, 21, 16, "@!PT FMUL R1, R2, R3;", 0.75)
    assert place(run(code[2], values=pipes(fma=70)), "fp32-compute-bound") is None
