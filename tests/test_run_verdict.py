"""The verdict on a whole report: which kernel, in which state, what is not known, and the command that collects it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.diagnose.ranking import in_order
from gpuprof.diagnose.verdict import run_verdict
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.analyse import analyse
from gpuprof.model.findings import Amount
from gpuprof.model.recorded import Missing
from gpuprof.model.session import (
    Evidence,
    Finding,
    KernelProfile,
    Occupancy,
    Pipe,
    Remaining,
    RunVerdict,
    Session,
    Throughput,
)  # fmt: skip
from gpuprof.recordings import recordings
from gpuprof.words.missing_metrics import command_for_more, command_for_rest, gaps_of
from gpuprof.words.recommendations import summary_of
from gpuprof.words.verdict import unknown_sentence
from tests import builders, hand_made
from tests.kernels import Made, busy, lasting, made, operations, pipes, session
from tests.readings import session_of, unpacked
from tests.table import each_row
from tests.worded import diagnose, summarised

NCU = "/opt/nvidia/nsight-compute/2024.1.1/target/linux-desktop-glibc_2_11_3-x64/ncu"
FULL = "ncu --set full --import-source yes"


def kernel(number: int = 0, *findings: Finding, **changes: object) -> KernelProfile:
    return hand_made.kernel(number, *findings, **{"label": f"kernel {number}", **changes})


def named(name: str, number: int = 0, **changes: object) -> KernelProfile:
    return kernel(number, name=name, demangled=name, label=name, **changes)


def timed(number: int, share: float, *findings: Finding, **changes: object) -> KernelProfile:
    return kernel(number, *findings, time_share=share, time_total_s=share, **changes)


def judged(*kernels: KernelProfile, **source: object) -> RunVerdict:
    return verdict_of(run(*kernels, **source))


def verdict_of(judged_session: Session) -> RunVerdict:
    assert judged_session.verdict is not None
    return judged_session.verdict


def run(*kernels: KernelProfile, **source: object) -> Session:
    made_of = hand_made.session(*kernels)
    return summarised(replace(made_of, sources=(replace(made_of.sources[0], **source),)))


def finding(rule: str, headline: str = "Headline", **changes: object) -> Finding:
    return replace(hand_made.finding(rule), headline=headline, id=f"0.{rule}", **changes)


def lights(**fractions: float) -> tuple[Throughput, ...]:
    return tuple(Throughput(unit, fraction) for unit, fraction in fractions.items())  # type: ignore[arg-type]


# Which kernel.


def test_the_kernel_that_takes_most_time_is_told_and_not_that_of_the_largest_gain() -> None:
    long = timed(0, 0.87, finding("dram-bandwidth", severity="info"), throughput=lights(dram=0.9, sm=0.2))
    verdict = judged(long, timed(1, 0.13, finding("uncoalesced-global", gain_kernel=0.9)))
    assert (verdict.kernel, verdict.state, verdict.ceiling, verdict.fraction) == (0, "at-roof", "DRAM bandwidth", 0.9)
    assert (verdict.unknown, verdict.command) == (None, None)
    assert "87 %" in verdict.sentence and "90 %" in verdict.sentence
    # Launches of one label count together.
    parts = [timed(number, 0.3, label="twice") for number in (0, 1)]
    together = judged(*parts, timed(2, 0.4, label="once"))
    assert together.kernel == 0 and "twice (60 %" in together.sentence
    empty = judged()
    assert (empty.sentence, empty.kernel, empty.state) == ("", None, "open")


CONFLICTS, INSTRUCTIONS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "smsp__inst_executed.sum"


def counted_launch(name: str, blocks: int, conflicts: float, instructions: float | None = None) -> Made:
    counts = {CONFLICTS: conflicts} if instructions is None else {CONFLICTS: conflicts, INSTRUCTIONS: instructions}
    return made(counts, grid=(blocks, 1, 1), name=name)


def test_without_durations_what_was_counted_speaks_before_the_shape_of_a_launch() -> None:
    told = session(counted_launch("few", 1, 0.0), counted_launch("conflicts", 4000, 1e9),
                   counted_launch("more", 8000, 2e8), counted_launch("clean", 30000, 0.0))  # fmt: skip
    assert [item.rule for item in told.kernels[0].findings] == ["small-grid"] and told.recommendations == ()
    verdict = verdict_of(told)
    assert verdict.kernel == 2 and len([note for note in verdict.notes if note.startswith("conflicts: ")]) == 1
    # 4 of 100 million instructions, though of more threads; 30 of 100 million are comparable work.
    for instructions, expected in ((4e6, 0), (3e7, 1)):
        two = session(counted_launch("product", 64, 0.0, 1e8), counted_launch("reduce", 800, 1e6, instructions))
        assert any(item.rule == "shared-bank-conflict" for item in two.kernels[1].findings)
        assert verdict_of(two).kernel == expected
        assert f"--kernel-name {('product', 'reduce')[expected]}" in (verdict_of(two).command or "")


# Set-up.


def test_set_up_is_passed_over_and_told_in_a_note() -> None:
    set_up = named("fill_kernel", time_share=0.9, time_total_s=0.9)
    verdict = judged(set_up, named("work", 1, time_share=0.1, time_total_s=0.1))
    assert verdict.kernel == 1 and len(verdict.notes) == 1 and "90 %" in verdict.notes[0]


@each_row(
    ("name", "ranges"), [("fill_kernel", ()), ("matmul", ("gpuprof: autotuning",)), ("warmingUp", ())]
)  # fmt: skip
def test_set_up_alone_is_judged_and_said_to_be_that_with_the_command_for_the_rest(
    name: str, ranges: tuple[str, ...]
) -> None:
    command = f"{NCU} --set full --launch-skip 2 --launch-count 1 -o a ./program --size 3"
    only = kernel(0, finding("uncoalesced-global"), name=name, demangled=name, label=name, ranges=ranges)
    verdict = judged(only, command=command)
    assert verdict.state == "set-up" and verdict.unknown and len(verdict.notes) == 1
    assert verdict.command == f"{FULL} --launch-skip 3 --launch-count 10 -o rest-full ./program --size 3"
    both = judged(only, named("warmup", 1), command=command)
    assert both.state == "set-up" and len(both.notes) == 1


# Which state.

WAIT = finding("instruction-fetch", "Fetching: 22 % of warp time", gain_kernel=0.22)
TAIL, SLOW = finding("tail-effect", "Tail: 1.9 waves"), finding("uncoalesced-global", "Uneven: 9 %", gain_kernel=0.08)
UNKNOWN_WAIT = finding("latency-bound", gain_kernel=0.7, confidence="guess")
UNKNOWN_WORK = finding("integer-bound", gain_kernel=0.3, confidence="guess")
LOW, SMS = lights(sm=0.34, memory=0.33, dram=0.02, l2=0.1), lights(sm=0.70, memory=0.45, dram=0.45, l2=0.17)
HALF_DRAM = lights(dram=0.4, sm=0.2, memory=0.4)
OF_L1 = lights(memory=0.97, dram=0.1, l2=0.2, sm=0.3)
OF_ACTIVE = (Throughput("l1", 0.37, "of active cycles"),)
"""37 % of the cycles in which an SM has work: with 16 blocks on 108 SMs that is 6 % of all."""
L1, SM, DRAM = "L1 throughput", "SM throughput", "DRAM bandwidth"


@each_row(
    ("findings", "profile", "state", "ceiling", "fraction", "shows", "hides"),
    [
        # A defect is reported with the unit that the kernel keeps busy: memory as a whole, or L1's own speed of light.
        ([finding("uncoalesced-global", remains=(Remaining("l1", 0.4),))], OF_L1,
         "limited", L1, 0.97, ("L1-bound (97 %): uncoalesced", "gather.cu:41"), ("busiest unit",)),
        # What leaves the busiest unit as busy is not why it is busy.
        ([finding("debug-build", remains=(Remaining("dram", 0.88),))], lights(memory=0.88, dram=0.88, l2=0.2, sm=0.3),
         "limited", DRAM, 0.88, ("is an unoptimised build", "It already reaches 88 %"), ("DRAM-bound", "faster")),
        ([SLOW], lights(memory=0.45, l1=0.90, dram=0.02, l2=0.03, sm=0.05), "limited", L1, 0.9, ("90 %",), ("45 %",)),
        # The state follows from the first finding.
        ([finding("small-grid")], HALF_DRAM, "unfilled", DRAM, 0.4, ("40 %", "small grid"), ()),
        ([finding("memory-latency")], HALF_DRAM, "waiting", DRAM, 0.4, ("40 %",), ()),
        ([finding("fp64-bound")], HALF_DRAM, "limited", DRAM, 0.4, ("FP64 arithmetic",), ()),
        ([finding("barrier-wait", "Barriers", cause="0.memory-latency", severity="info"),
          finding("uncoalesced-global")], HALF_DRAM, "limited", DRAM, 0.4, ("uncoalesced",), ("barrier",)),
        # A unit that was not collected is not idle, and L1 per active cycle gives only an upper bound.
        ([WAIT], (), "waiting", None, None, ("instruction fetch",), ("%",)),
        ([finding("small-grid")], OF_ACTIVE, "unfilled", None, None, ("at most 37 %", "DRAM and L2"), ()),
        # A finding that explains little of a kernel that waits, or whose SMs are full of something, is no verdict.
        ([UNKNOWN_WAIT, replace(TAIL, gain_kernel=0.05)], LOW, "waiting", L1, 0.33, ("34 %",), ("tail",)),
        ([UNKNOWN_WORK, SLOW], SMS, "open", SM, 0.7, ("70 %", "a guess: integer"), ("uncoalesced",)),
        ([SLOW, UNKNOWN_WORK], SMS, "limited", SM, 0.7, ("uncoalesced",), ("guess",)),
        # Without units a guess is named, too.
        ([finding("small-grid", gain_kernel=0.7, confidence="guess")], (), "open", None, None, ("a guess: small",), ()),
        # A limit that is no ceiling, and a finding behind it: what can be changed is named.
        ([finding("integer-bound", severity="info"), replace(SLOW, gain_kernel=0.05)], SMS, "limited", SM, 0.7,
         ("uncoalesced", "70 %"), ("nothing",)),
        # If the finding is a unit, its number is that unit's own, even if another unit is as busy.
        ([finding("l1-bandwidth", "L1 bandwidth: 99.8 % busy", subject="l1",
                  amounts=(Amount("busy", 0.998, "fraction"),))],
         lights(memory=0.5, sm=0.2, dram=0.1, l2=0.1), "limited", L1, 0.998, ("99.8 %",), ("50 %",)),
    ],
)  # fmt: skip
def test_the_state_of_a_kernel_by_its_findings_and_its_units(
    findings: list[Finding], profile: tuple[Throughput, ...], state: str, ceiling: str | None, fraction: float | None,
    shows: tuple[str, ...], hides: tuple[str, ...],
) -> None:  # fmt: skip
    verdict = judged(kernel(0, *findings, throughput=profile))
    assert (verdict.state, verdict.ceiling, verdict.fraction) == (state, ceiling, fraction)
    for text in shows:
        assert verdict.sentence.count(text) == 1, verdict.sentence
    assert not [text for text in hides if text in verdict.sentence], verdict.sentence
    assert verdict.sentence.endswith(".") and "  " not in verdict.sentence


@each_row(("gain", "first", "text"), [
    # Expected of the guess are 13.6, then 20.5 %; of the proven wait 8.9 %.
    (0.6, "memory-latency", "is slowed by memory latency"),
    (0.9, "small-grid", "the likely cause is a guess: small grid"),
])  # fmt: skip
def test_the_verdict_is_about_the_first_finding(gain: float, first: str, text: str) -> None:
    guess = finding("small-grid", gain_kernel=gain, severity="low", confidence="guess")
    wait = finding("memory-latency", gain_kernel=0.2, severity="high", confidence="inferred")
    ordered = in_order([guess, wait])
    assert ordered[0].rule == first
    assert text in judged(kernel(0, *ordered, throughput=HALF_DRAM)).sentence


@each_row(("gain", "text"), [
    # The busiest unit is idle for 60 % of the time: less than half of that is no likely cause of it.
    (0.29, "short blocks may explain up to 29 % of its time (a guess)"),
    (0.31, "the likely cause is a guess: short blocks"),
])  # fmt: skip
def test_a_guess_that_explains_little_is_no_likely_cause(gain: float, text: str) -> None:
    guess = finding("short-blocks", gain_kernel=gain, severity="low", confidence="guess")
    assert text in judged(kernel(0, guess, throughput=HALF_DRAM)).sentence


@each_row(
    ("rule", "remains", "profile", "is_joined"),
    [
        # Fixing the finding takes 3, then 50 of the 90 % that L1 is busy.
        ("uncoalesced-global", {"l1": 0.87}, {"l1": 0.9}, False),
        ("uncoalesced-global", {"l1": 0.40}, {"l1": 0.9}, True),
        ("uncoalesced-global", {}, {"l1": 0.9}, False),
        # Nothing under 60 % is a limit.
        ("uncoalesced-global", {"l1": 0.20}, {"l1": 0.5}, False),
        # The SM needs what its busiest part needs, whatever memory and the launch need.
        ("shared-bank-conflict", {"dram": 0.8, "launch": 0.8, "issue": 0.3}, {"sm": 0.9, "dram": 0.8}, True),
        ("shared-bank-conflict", {"issue": 0.3, "fp64": 0.85}, {"sm": 0.9}, False),
        # A full pipe is why the SM is busy, and not why DRAM is.
        ("fp32-compute-bound", {}, {"sm": 0.9}, True),
        ("fp32-compute-bound", {}, {"sm": 0.7, "dram": 0.9}, False),
        # What a debug build costs each unit is not known.
        ("debug-build", {"l1": 0.1}, {"l1": 0.9}, False),
    ],
)  # fmt: skip
def test_a_finding_is_why_a_unit_is_busy_only_if_fixing_it_takes_a_good_part_of_the_unit_s_work(
    rule: str, remains: dict[str, float], profile: dict[str, float], is_joined: bool
) -> None:
    left = tuple(Remaining(unit, fraction) for unit, fraction in remains.items())
    verdict = judged(kernel(0, finding(rule, remains=left), throughput=lights(**profile)))
    assert (verdict.state, verdict.explains_limit) == ("limited", is_joined)
    # Joined, they are one sentence.
    assert ("-bound (" in verdict.sentence) is is_joined


def test_a_finding_is_no_cause_if_the_report_does_not_show_that_it_is() -> None:
    def is_joined(found: Finding, profile: dict[str, float], *known: Pipe) -> bool:
        verdict = judged(kernel(0, found, throughput=lights(**profile), pipes=known))
        assert ("-bound (" in verdict.sentence) is verdict.explains_limit
        return verdict.explains_limit

    fp64 = finding("fp64-bound", subject="fp64", remains=(Remaining("issue", 0.2),))
    assert is_joined(fp64, {"sm": 0.8}, Pipe("fp64", 0.8, "m"))
    # ALU is the fuller pipe, and FP64 is not why it is full.
    assert not is_joined(fp64, {"sm": 0.8}, Pipe("alu", 0.8, "m"), Pipe("fp64", 0.76, "m"))
    # Without pipes it is not known whether the fix relieves the busiest part of the SM.
    atomics = finding("atomic-contention", remains=(Remaining("dram", 0.1),))
    assert is_joined(atomics, {"sm": 0.8}, Pipe("lsu", 0.8, "m")) and not is_joined(atomics, {"sm": 0.8})
    # Memory is busier than any of its levels that is known.
    spills = finding("local-memory-spill", remains=(Remaining("dram", 0.1),))
    assert not is_joined(spills, {"memory": 0.8, "dram": 0.3, "l2": 0.3, "l1": 0.3, "sm": 0.2})


def test_a_kernel_mostly_waits_only_if_waits_take_half_of_its_time() -> None:
    most, third = (
        judged(kernel(0, finding("barrier-wait", gain_kernel=gain), throughput=lights(sm=0.67))) for gain in (0.5, 0.33)
    )
    assert (most.state, most.case) == (third.state, "waits") == ("waiting", "waits")
    assert "mostly waits: barriers" in most.sentence
    assert third.case == "slowed" and "is slowed by barriers" in third.sentence and "mostly" not in third.sentence


def test_a_kernel_with_a_duration_is_not_said_to_have_only_counts_or_only_a_time() -> None:
    empty = {**EMPTY, "duration_s": 1e-3, "time_total_s": 1e-3, "occupancy": Occupancy(1.0, 0.3, ("registers",))}
    counted = judged(kernel(0, finding("tensor-cores-idle", severity="info", gain_kernel=None), **empty))
    assert counted.case == "counted" and "only counts" not in counted.sentence
    occupied = judged(kernel(0, **empty))
    assert occupied.case == "unknown" and "only timed" not in occupied.sentence
    assert "no counters that show what limits it" in occupied.sentence


def test_blocks_that_leave_lanes_empty_are_named_by_their_size() -> None:
    one = finding("block-size", amounts=(Amount("threads", 1, "thread"),))
    assert "is slowed by blocks of 1 thread" in judged(kernel(0, one)).sentence


def test_a_kernel_that_does_not_fill_the_gpu_has_its_limit_in_a_sentence_of_its_own() -> None:
    grid, slots = finding("small-grid"), finding("low-occupancy")
    full, empty = (judged(kernel(0, grid, throughput=lights(sm=sm))) for sm in (0.7, 0.3))
    assert "does not fill the GPU" in full.sentence and "The SMs are 70 % busy" in full.sentence
    assert "No unit" not in full.sentence and "No unit that" not in empty.sentence and "30 %" in empty.sentence
    # Low occupancy leaves slots empty on SMs that all have blocks.
    assert "does not fill the GPU" not in judged(kernel(0, slots, throughput=lights(sm=0.3))).sentence
    # SMs that have work all the time are filled, if only with few warps at the end.
    at_work = [Evidence("sm__cycles_active.avg", share, "%", None, role="sms-with-work") for share in (89.0, 90.0)]
    partly, fully = (replace(finding("tail-effect", gain_kernel=0.15), evidence=(share,)) for share in at_work)
    assert "does not fill the GPU" in judged(kernel(0, partly, throughput=lights(sm=0.7))).sentence
    assert "is slowed by tail effect" in judged(kernel(0, fully, throughput=lights(sm=0.7))).sentence
    assert judged(kernel(0, slots, throughput=lights(sm=0.3))).state == "unfilled"


def test_an_upper_bound_of_how_busy_a_unit_is_makes_no_limit() -> None:
    half = finding("uncoalesced-global", remains=(Remaining("l1", 0.2),))
    verdict = judged(kernel(0, half, throughput=(Throughput("l1", 0.8, "of active cycles"),)))
    assert not verdict.explains_limit and "-bound" not in verdict.sentence and "at most 80 %" in verdict.sentence


def test_a_memory_level_is_no_limit_if_the_sm_is_busier() -> None:
    full = finding("l1-bandwidth", subject="l1", amounts=(Amount("busy", 0.8, "fraction"),))
    limited, busy_sm = (judged(kernel(0, full, throughput=lights(l1=0.8, sm=of_sm))) for of_sm in (0.81, 0.9))
    assert "L1-bound (80 %)" in limited.sentence
    assert (busy_sm.subject, busy_sm.fraction) == ("sm", 0.9) and "-bound" not in busy_sm.sentence
    assert "slowed by L1 bandwidth" in busy_sm.sentence and "The SMs are 90 % busy" in busy_sm.sentence


def test_unoptimised_code_is_the_verdict_and_what_it_reaches_is_a_sentence_of_its_own() -> None:
    moves: Mapping[str | int, float] = {"MOV": 40.0, "LD": 30.0, "ST": 10.0, "FADD": 20.0}
    verdict = verdict_of(session(made(busy(dram=88, sm=20), lasting(), histograms={WARP_OPCODES: moves})))
    assert (verdict.case, verdict.cause, verdict.fraction) == ("unoptimised", "0.debug-build", 0.88)
    assert "is an unoptimised build" in verdict.sentence and "reaches 88 % of DRAM bandwidth." in verdict.sentence


def test_a_full_fma_pipe_of_multiply_adds_is_a_roof_and_a_full_integer_pipe_is_none() -> None:
    # 2 · 5.184e9 FLOP in 1 ms of 13.824 TFLOP/s: three quarters of the peak.
    work = operations(ffma=5.184e9, fadd=0, fmul=0)
    roof = verdict_of(session(made(busy(sm=85), pipes(fma=85), lasting(), work)))
    assert (roof.state, roof.ceiling) == ("at-roof", "FP32 throughput") and roof.fraction == pytest.approx(0.85)
    integer = verdict_of(session(made(busy(sm=95), pipes(alu=95), lasting())))
    assert (integer.state, integer.fraction) == ("limited", 0.95)
    # Half of the tensor pipe is the roof if FP32 accumulation has half the rate.
    device = RecordedDevice(name="NVIDIA GeForce RTX 3090", compute_capability="8.6", sm_count=82)
    launch = made(pipes(tensor=48), lasting(), histograms={WARP_OPCODES: {"HMMA.16816.F32": 100.0}})
    half = verdict_of(diagnose(analyse([builders.report(launch.launch(), device=device)], builders.hardware_of, "9.9")))
    assert (half.state, half.ceiling) == ("at-roof", "tensor throughput") and half.fraction == pytest.approx(0.96)


# What is lacking, and the command for it.

EMPTY = {
    "duration_s": None, "time_total_s": None, "time_share": None, "throughput": (), "traffic": (), "work": (),
    "roofline": (), "stalls": (), "pipes": (), "scheduler": None, "occupancy": Occupancy(None, None, ()),
}  # fmt: skip
NAMED = f"{FULL} --kernel-name work --launch-count 1 -o work-full"


def command(number: int = 0, kernels: tuple[KernelProfile, ...] | None = None, **source: object) -> str:
    kernels = kernels or (kernel(0, name="work"),)
    return command_for_more(run(*kernels, **source), kernels[number])


def of_names(*names: str, launches: int = 1) -> tuple[KernelProfile, ...]:
    return tuple(kernel(number, name=name, launches=launches) for number, name in enumerate(names))


def test_a_launch_without_numbers_is_to_be_profiled_again() -> None:
    verdict = judged(kernel(0, name="flash", **EMPTY), command=f"{NCU} --nvtx --set full -o p python x.py --n 3")
    assert verdict.state == "open" and verdict.unknown is not None
    assert verdict.command == f"{FULL} --nvtx --kernel-name flash --launch-count 1 -o flash-full python x.py --n 3"


@each_row(
    ("recorded", "number", "kernels", "expected"),
    [
        # A launch is found again by its place among those of its name.
        ("./a.out", 3, of_names("a", "b", "a", "a"),
         "--kernel-name a --launch-skip 2 --launch-count 1 -o a-full ./a.out"),
        # What was selected before is selected again.
        ("-k regex:^[ab] -s 29 -c3 --kernel-name-base=function -o p ./a.out", 2, of_names("a", "b", "a"),
         "--kernel-name 'regex:^[ab]' --kernel-name-base function --launch-skip 31 --launch-count 1 -o a-full ./a.out"),
        # Launches that stand for several are not counted; those of a kernel are selected by its own name.
        ("./a.out", 1, (kernel(0, name="a", launches=3), kernel(1, name="a")),
         "--kernel-name-base demangled --kernel-name regex:a --launch-count 1 -o a-full ./a.out"),
        ("-k regex:cuda -s 2 ./a.out", 0, of_names("a_cuda", launches=3),
         "--kernel-name regex:cuda --launch-skip 2 --launch-count 1 -o a_cuda-full ./a.out"),
        # What the program needs is kept, and what ncu wrote is not.
        ("--target-processes all --section LaunchStats --metrics a,b --clock-control none --csv -f --log-file log -o "
         "old mpiexec -n 1 ./app --set x", 0, of_names("work"), "--target-processes all --clock-control none "
         "--kernel-name work --launch-count 1 -o work-full mpiexec -n 1 ./app --set x"),
    ],
)  # fmt: skip
def test_the_command_selects_the_launch_again(
    recorded: str, number: int, kernels: tuple[KernelProfile, ...], expected: str
) -> None:
    assert command(number, kernels, command=f"{NCU} {recorded}") == f"{FULL} {expected}"


@each_row(
    "recorded",
    [None, "", "python x.py", f"{NCU}", f"{NCU} --set full -o", f"{NCU} --new-option 3 ./a.out", f"{NCU} -z ./a.out",
     f"{NCU} ./a.out\nrm -rf /", f"{NCU} ./a.out \x1b[31m", f"{NCU} {'x ' * 3000}", "\x00"],
)  # fmt: skip
def test_a_program_that_cannot_be_told_is_a_placeholder_that_is_explained(recorded: str | None) -> None:
    assert command(command=recorded) == f"{NAMED} PROGRAM"
    assert "PROGRAM" in summary_of(run(kernel(0, name="work", stalls=()), command=recorded)).unknown


@each_row(
    ("program", "shown"),
    [
        # Without quotes, the end of a program given as text is unknown.
        ("mpiexec -n 1 /usr/bin/python3 -u -c import x; x.y()", "PROGRAM"),
        ("./a.out -c 3", "./a.out -c 3"),
        (shlex.join(["--config-file", "off", "--import-source", "no", "python", "-c", "a = 'b c'"]),
         shlex.join(["python", "-c", "a = 'b c'"])),
    ],
)  # fmt: skip
def test_the_program_keeps_its_arguments(program: str, shown: str) -> None:
    assert command(command=f"{NCU} {program}") == f"{NAMED} {shown}"


@each_row(
    ("name", "option"),
    [
        ("operator()", r"'regex:^operator\(\)$'"),
        ("$(rm -rf /)", r"'regex:^\$\(rm -rf /\)$'"),
    ],
)
def test_odd_names_are_escaped_for_ncu_and_quoted_for_the_shell(name: str, option: str) -> None:
    line = command(kernels=(kernel(0, name=name),), command=f"{NCU} ./a.out")
    assert f"--kernel-name {option} " in line
    assert re.fullmatch(r"[A-Za-z0-9_.-]+-full", shlex.split(line)[-2])


@given(name=st.text(max_size=40), recorded=st.none() | st.text(max_size=80).map(lambda text: f"{NCU} {text}"))
def test_any_name_and_command_line_give_one_printable_line_for_a_shell(name: str, recorded: str | None) -> None:
    kernels = (kernel(0, name=name),)
    rest = command_for_rest(run(*kernels, command=recorded), kernels[0])
    for line in (command(kernels=kernels, command=recorded), rest):
        assert line.isprintable()
        assert shlex.split(line)[:3] == ["ncu", "--set", "full"]


_CUTLASS = "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_f16_{}>(T1::Params)"
_ADD = "void at::vectorized_elementwise_kernel<4, at::{0}, at::Array<char *, 3> >(int, at::{0}, at::Array<char *, 3>)"


@each_row(
    ("own", "others", "expression"),
    [
        ("work(int)", ["work_2(int)"], r"\bwork\b"),
        ("work(int)", ["b::work(int)"], r"^work\b"),
        ("void work<128>(int)", ["void work<64>(int)", "void work<256>(int)"], "work.*128"),
        ("work(float *)", ["work(float4 *)"], r"work.*\bfloat\b"),
        (_CUTLASS.format("128x128_nn_align8"),
         [_CUTLASS.format("128x128_nt_align8"), _CUTLASS.format("256x128_nn_align8"), "Kernel(int)"],
         "Kernel2.*cutlass_80_tensorop_s16816gemm_f16_128x128_nn_align8"),
        (_ADD.format("Add<float>"), [_ADD.format("Add<Half>"), _ADD.format("Mul<float>")],
         "vectorized_elementwise_kernel.*Add<float"),
        # Nothing that is short tells it: more than is meant is profiled.
        (f"work<{'a' * 200}>()", [f"work<{'a' * 199}b>()"], "work"),
    ],
)  # fmt: skip
def test_a_kernel_is_asked_for_by_what_no_other_of_the_session_has(
    own: str, others: list[str], expression: str
) -> None:
    kernels = [kernel(number, demangled=name) for number, name in enumerate((own, *others))]
    traced = run(*kernels, kind="torch-trace", file="t.json")
    line = shlex.split(command_for_more(traced, traced.kernels[0]))
    assert line[line.index("--kernel") + 1] == expression
    assert re.search(expression, own)
    assert expression == "work" or not any(re.search(expression, other) for other in others)


def test_what_was_only_timed_is_to_be_profiled_by_gpuprof() -> None:
    traced = run(kernel(0, demangled="void work<1>(float *)"), kind="torch-trace", file="a b.json")
    assert gaps_of(traced, traced.kernels[0]) == ("counters",)
    assert command_for_more(traced, traced.kernels[0]) == "gpuprof run --survey 'a b.json' --kernel work -- PROGRAM"
    # A survey takes the program from the profile in the same session.
    base = replace(hand_made.session(), kernels=(kernel(0, source=1, demangled="work(int)", throughput=()),))
    counted = replace(base.sources[0], command=f"{NCU} -o p ./a.out 3")
    both = replace(base, sources=(counted, replace(base.sources[0], kind="ncu-rep survey")))
    assert command_for_more(both, both.kernels[0]) == "gpuprof run --kernel work -- ./a.out 3"
    # The reason why nothing was counted is reported.
    refused = kernel(0, missing=(Missing("counters", "no permission", "ask"),), throughput=())
    only = run(refused, kind="torch-trace survey")
    assert "no permission" in (unknown_sentence(only, run_verdict(only)) or "")


@each_row(
    ("recorded", "shown"),
    [
        (f"{NCU} --metrics gpu__time_duration.sum -o p ./a.out 3", "./a.out 3"),
        ("env GPUPROF_SURVEY_TO=.survey PYTHONPATH='a b' GPUPROF_SURVEY_BY=torch python3 't r.py' A=1",
         "python3 't r.py' A=1"),
        ("env GPUPROF_SURVEY_BY=torch python3 'cut", "PROGRAM"),
    ],
)  # fmt: skip
def test_where_nothing_was_counted_the_program_is_that_of_the_survey(recorded: str, shown: str) -> None:
    only = run(kernel(0, demangled="work(int)"), kind="torch-trace survey", command=recorded)
    assert command_for_more(only, only.kernels[0]) == f"gpuprof run --kernel work -- {shown}"


# Reports that come with gpuprof.


@each_row(
    ("name", "number", "state", "ceiling", "fraction", "rules"),
    [
        ("h100-transpose", 3, "limited", "L2 bandwidth", 0.859,
         ["short-kernel", "short-kernel", "dram-bandwidth", "uncoalesced-global"]),
        ("a10g-sgemm", 0, "limited", "L1 throughput", 0.97, ["uncoalesced-global", "l1-bandwidth", "l1-bandwidth"]),
        ("a100-gemm", 1, "limited", "L1 throughput", 0.85, ["small-grid", "uncoalesced-global"]),
        ("a40-beamformer", 4, "limited", "DRAM bandwidth", 0.67,
         ["dram-bandwidth", *["short-blocks"] * 3, "local-memory-spill"]),
    ],
)  # fmt: skip
def test_recorded_programs_have_their_verdicts(
    name: str, number: int, state: str, ceiling: str, fraction: float, rules: list[str]
) -> None:
    recording = next(recording for recording in recordings() if recording.name == name)
    loaded = session_of(unpacked(recording))
    verdict = loaded.verdict
    assert verdict is not None
    assert (verdict.kernel, verdict.state, verdict.ceiling) == (number, state, ceiling)
    assert verdict.fraction == pytest.approx(fraction, abs=0.01)
    assert [item.findings[0].rule for item in loaded.kernels] == rules
