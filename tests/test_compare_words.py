"""Every kind of value of a comparison has its sentence, and a comparison has all of them once they are written."""

from __future__ import annotations

from typing import Any, get_args

from msgspec.structs import replace

from gpuprof.comparison.compare import compare
from gpuprof.comparison.contract import (
    Acceptance,
    ChangeCause,
    CheckReason,
    ComparisonFact,
    DoubtKind,
    FactKind,
    RunCondition,
    SourceLine,
    TimeDoubt,
    ValueChange,
    WorkChange,
    WorkNote,
    WorkNoteKind,
)
from gpuprof.comparison.sequential_test import StopReason
from gpuprof.words.comparison import with_sentences
from gpuprof.words.comparison_causes import cause_text
from gpuprof.words.comparison_conditions import condition_sentence, condition_values, fact_sentence
from gpuprof.words.comparison_gate import check_sentence
from gpuprof.words.comparison_verdicts import (
    doubt_text,
    kernel_verdict,
    match_text,
    reason_text,
    stop_text,
    work_reason,
)
from gpuprof.words.sentences import capital, full_stop, sentences
from tests import made_comparisons as made
from tests.compare_builders import kernel, run
from tests.table import each_row


def value(name: str, base: float | None, new: float | None, unit: str = "", **fields: Any) -> ValueChange:
    return ValueChange(name=name, unit=unit, base=base, new=new, **fields)


def cause(mechanism: str, *values: ValueChange, **fields: Any) -> ChangeCause:
    return ChangeCause(mechanism=mechanism, direction="slower", certainty="counted", values=values, **fields)


@each_row(
    ("told", "text"),
    [
        (cause("dram-bytes", value("dram-bytes", 2e9, 3e9, "B", ratio=1.5)), "DRAM bytes 2.00 GB → 3.00 GB (+50 %)"),
        (cause("dram-bytes", value("dram-bytes", 2e9, 2e9, "B", same=True)), "DRAM bytes unchanged"),
        (cause("instructions", value("issued-instructions", None, None, ratio=1.18)), "issued instructions +18 %"),
        (cause("launches", value("launches", 10, 20)), "launches per run 10 → 20"),
        (cause("occupancy", value("registers", 40, 72), value("occupancy", 0.75, 0.5, "fraction"),
               value("achieved-occupancy", 0.7, 0.48, "fraction"), limiters=("registers",)),
         "registers 40 → 72, occupancy 75 % → 50 % (limited by registers), achieved 70 % → 48 %"),
        (cause("registers", value("block-threads", 128, 256), value("achieved-occupancy", None, None, same=True)),
         "block 128 → 256 threads, occupancy unchanged"),
        (cause("registers", value("registers", 40, 72), value("occupancy", None, None, same=True)),
         "registers 40 → 72, theoretical occupancy unchanged"),
        (cause("launch-configuration", value("grid-blocks", 64, 640), value("waves", 0.4, 4.0)),
         "grid 64 → 640 blocks (0.4 → 4 waves)"),
        (cause("clock", value("sm-clock", 1e9, 2e9, "Hz"), value("cycles", None, None, ratio=1.5)),
         "SM clock 1.00 GHz → 2.00 GHz (cycles +50 %)"),
        (cause("clock", value("sm-clock", 1e9, 2e9, "Hz"), value("cycles", None, None, ratio=1.0, same=True)),
         "SM clock 1.00 GHz → 2.00 GHz (the same cycles)"),
        (cause("unit-time", value("fp64", 2e-3, 1e-3, "s"), value("fp64", 0.7, 0.5, "fraction"),
               value("dram", None, 0.81, "fraction")),
         "FP64 pipe busy 2.00 ms → 1.00 ms (70 % → 50 % of the time), now DRAM 81 %"),
        (cause("opcodes", value("opcode.MUFU", 4e7, 8e6), kind="fp64-divisions"),
         "fewer FP64 divisions or roots (MUFU 40.0 M → 8.00 M)"),
        (cause("opcodes", value("opcode.LDS", 4e2, 8e2), value("opcode.FFMA", 1, 2)),
         "LDS (shared loads) 400 → 800, FFMA 1 → 2"),
        (cause("tensor-cores", value("flop.tensor.tf32", 1e12, 0.0, "FLOP"),
               value("flop.tensor.fp16", 0.0, 2e12, "FLOP"), kind="other-type"),
         "tensor cores: TF32 1.00 TFLOP → FP16 2.00 TFLOP"),
        (cause("tensor-cores", value("flop.tensor.fp16", 0.0, 1e12, "FLOP"), value("flop.fp32", 1e12, 0.0, "FLOP"),
               kind="came-into-use"), "tensor cores now used (FP16 1.00 TFLOP) for what ran in FP32"),
        (cause("tensor-cores", value("flop.tensor.fp16", 1e12, 0.0, "FLOP"), kind="out-of-use"),
         "tensor cores no longer used (FP16 1.00 TFLOP)"),
        (cause("coalescing", value("global-load-sectors-per-request", 16.0, 4.0)),
         "sectors per global load request 16.0 → 4.00"),
        (cause("coalescing", value("l1", 2e-3, 1e-3, "s"), value("lsu", 1e-4, 1e-4, "s"), kind="passes"),
         "fewer L1 passes for the same loads and stores (LSU pipe busy 100 µs on both sides)"),
        (cause("stalls", value("long_scoreboard", 10, 16), value("cycles-per-instruction", 12, 18)),
         "Long Scoreboard 10.0 → 16.0 cycles per instruction (of 12.0 → 18.0)"),
        (cause("latency", value("cycles-per-instruction", None, None, ratio=0.5)), "a warp takes 2.0x fewer cycles"),
        (cause("latency", value("cycles-per-instruction", 10, 20, ratio=2.0)),
         "a warp takes 10 → 20 cycles per instruction"),
        (cause("hit-rate", value("l2-hit-rate", 0.9, 0.5, "fraction")), "L2 hit rate 90 % → 50 %"),
        (cause("stores", value("global-store-requests", 10, 0)),
         "the new side stores nothing to global memory: check what it computes"),
        (cause("nothing", kind="moved"), "what moved does not explain it"),
        (cause("local-memory", value("local", 0, 12), location=SourceLine("a.cu", 88), kind="line"),
         "line 88 gained 12 local loads and stores"),
        (cause("source-line", value("samples", 12, 0), location=SourceLine("a.cu", 8), kind="base-line"),
         "line 8 of the base lost 12 samples"),
    ],
)  # fmt: skip
def test_a_cause_is_written_from_its_values(told: ChangeCause, text: str) -> None:
    assert cause_text(told, made.change()) == text


def test_a_line_is_named_with_its_file_if_the_lines_that_changed_are_of_several_files() -> None:
    lines = tuple(replace(made.change().lines[0], file=file) for file in ("a.cu", "src/b.cu"))
    told = cause("source-line", value("instructions", 0, 12), location=SourceLine("src/b.cu", 8), kind="line")
    assert cause_text(told, made.change(lines=lines)) == "b.cu:8 gained 12 instructions"


def test_every_doubt_has_its_text_and_a_brief_one() -> None:
    for kind in get_args(DoubtKind):
        time = made.time("unclear", 1.1, doubt=TimeDoubt(kind=kind, size=0.1, sides=("new",)), cycles_ratio=1.0)
        assert doubt_text(time).startswith(reason_text(time, brief=True))
        assert "{" not in doubt_text(time)
    half = TimeDoubt(kind="overlap", clear_in="cycles", clear_verdict="slower")
    assert reason_text(made.time("unclear", 1.1, doubt=half), brief=True) == "slower in cycles"
    few = made.time("unclear", 1.1, doubt=TimeDoubt(kind="few-runs"), runs_needed=11)
    assert reason_text(few) == "too few runs to estimate noise; 11 per side would settle it"
    noisy = made.time("unclear", 1.1, doubt=TimeDoubt(kind="noise"), runs_needed=1)
    assert reason_text(noisy) == "too noisy for the number of runs; 1 run per side would settle it"
    assert all(map(stop_text, get_args(StopReason)))


def test_every_note_on_work_has_its_sentence() -> None:
    for kind in get_args(WorkNoteKind):
        note = WorkNote(kind=kind, names=("dram-bytes",), sides=("base",), launches=3)
        text = work_reason(made.change(work=WorkChange(verdict="same", counts=(), notes=(note,))))
        assert text.endswith(".") and "{" not in text
    both = tuple(WorkNote(kind=kind, names=("registers",)) for kind in ("resources", "too-varied"))
    text = work_reason(made.change(work=WorkChange(verdict="same", counts=(), notes=both)))
    assert text.count("The work is the same") == 1


def test_every_fact_has_its_sentence() -> None:
    for kind in get_args(FactKind):
        for numbers in ((1.0, 1.0, 0.5), (3.0, 2.0, 0.5)):
            fact = ComparisonFact(
                kind=kind, side="new", numbers=numbers, texts=("a.toml:1", "time", "gemm", "2027-01-01")
            )
            assert "{" not in fact_sentence(fact)
    unmatched = ComparisonFact(kind="unmatched", numbers=(1, 1))
    assert fact_sentence(unmatched) == (
        "1 kernel removed, 1 added, no confident match. If it was renamed: --match OLD=NEW."
    )


def test_values_of_conditions_are_written_in_their_units() -> None:
    clock = RunCondition(name="sm-clock", base=(1.4e9,), new=(), affects=None, ratio=0.9)
    assert condition_values(clock) == ("1.40 GHz", "not known")
    assert "10 % below" in condition_sentence(clock)
    part = RunCondition(name="profiled", base=(1, 40, 2, 40), new=(), affects=None)
    assert condition_values(part) == ("1 of 40 kernels, 2 of 40 kernels", "all")


def test_every_result_of_a_limit_has_its_sentence() -> None:
    changes = [made.change(), made.change(1)]
    total = made.compared(*changes).comparison.total
    for because in get_args(CheckReason):
        for quantity in ("time", "total-time", "registers", "spills"):
            check = made.check("unclear", quantity=quantity, because=because, sentence="", pattern="gemm")
            text = check_sentence(check, changes, total)
            assert text and "{" not in text
    check = made.check("unclear", upper=0.2)
    assert check_sentence(check, changes, total) == (
        "time rose by 18 %, at 99 % confidence up to +20 %, 3 % is allowed"
    )
    ended = replace(check, upper=None, acceptance=Acceptance(until="2026-01-01", expired=True, most=None))
    assert check_sentence(ended, changes, total).endswith("it was accepted until 2026-01-01, which has passed")
    small = replace(ended, acceptance=Acceptance(until="2027-01-01", expired=False, most=0.05))
    assert check_sentence(small, changes, total).endswith("accepted only up to 5.0 %")


def test_a_failed_check_says_that_its_kernel_became_faster() -> None:
    faster = made.change(verdict="faster", time=made.time("faster", 0.53))
    check = made.check(quantity="instructions", change=0.02)
    text = check_sentence(check, [faster], ())
    assert text.endswith("; this kernel became 1.9x faster (time −47 %)")
    unclear = replace(check, word="unclear")
    for other, item in ((unclear, faster), (check, made.change()), (replace(check, kernel=None), faster)):
        assert "faster" not in check_sentence(other, [item], ())


def test_resources_of_kernels_that_were_fused_are_not_said_to_be_unknown() -> None:
    fused = made.change(match="fused", base=(made.side_kernel("a"), made.side_kernel("b")))
    for quantity, unknown in (("registers", False), ("instructions", True)):
        work = WorkChange(verdict="unknown", counts=(made.count(quantity, None, 40.0),))
        check = made.check("not-compared", quantity=quantity, because="unknown", change=None)
        assert ("not known" in check_sentence(check, [replace(fused, work=work)], ())) == unknown


def test_a_kernel_is_one_sided_if_a_side_lacks_it() -> None:
    kernels = [made.change(), made.change(verdict="new"), made.change(verdict="gone")]
    assert [kernel.lacking for kernel in kernels] == [None, "base", "new"]
    assert [kernel.is_one_sided for kernel in kernels] == [False, True, True]


def test_what_one_side_lacks_is_said_once() -> None:
    doubt = TimeDoubt(kind="in-graphs", sides=("base",))
    unseen = made.change(0, match="unrecorded", base=(), time=made.time("unknown", None, doubt=doubt), per="step")
    lacking = made.change(0, time=made.time("unknown", None, doubt=TimeDoubt(kind="no-durations", sides=("new",))))
    for quantity, change, side, said in (
        ("launches", unseen, "base side", "launches"),
        ("time", unseen, "base side", "time"),
        ("time", lacking, "new side", "durations"),
    ):
        check = made.check("not-compared", quantity=quantity, because="unknown", sentence="")
        text = check_sentence(check, [change], ())
        assert text.count(said) == 1 and "not compared" not in text and side in text


def test_sentences_are_closed_capitalised_and_joined() -> None:
    assert [full_stop(text) for text in ("a", "a.", "a…", "")] == ["a.", "a.", "a…", ""]
    assert [capital(text) for text in ("same work", "line 8", "a.cu:8 gained")] == [
        "Same work",
        "Line 8",
        "a.cu:8 gained",
    ]
    assert sentences(("One.", "two", "", "Three")) == "One; two. Three."


def test_a_comparison_has_all_of_its_sentences_and_writing_them_again_changes_nothing() -> None:
    change = made.change(
        0, "gemm", sentence="", causes=(cause("instructions", value("instructions", 1e6, 2e6, ratio=2.0)),),
        time=made.time("slower", 1.18),
    )  # fmt: skip
    plain = made.compared(change, gate=made.gate(made.check(sentence="")), sentence="").comparison
    complete = with_sentences(plain)
    assert complete.kernels[0].sentence == "slower by 18 %: instructions 1.00 M → 2.00 M (+100 %)"
    assert complete.sentence.endswith("gemm is slower by 18 %")
    assert complete.gate is not None and complete.gate.checks[0].sentence == "time rose by 18 %, 3 % is allowed"
    assert with_sentences(complete) == complete
    assert kernel_verdict(change) == "slower by 18 %"


@each_row(
    ("base", "new", "said"),
    [
        (("void f<4>(int)", 8), ("void f<4>(int)", 9), "another launch configuration"),
        (("void f<4>(int)", 8), ("void f<8>(int)", 8), "other template arguments"),
        (("void f<4>(int)", 8), ("void f<8>(int)", 4), "other template arguments and another launch configuration"),
        (("f(int)", 8), ("f(float)", 8), "other parameters"),
    ],
)
def test_what_differs_of_a_function_is_said(base: tuple[str, int], new: tuple[str, int], said: str) -> None:
    sides = [run(kernel(name, grid=(grid, 1, 1))) for name, grid in (base, new)]
    (change,) = compare([sides[0]], [sides[1]], "0").comparison.kernels
    assert (change.match, match_text(change)) == ("reconfigured", said)
