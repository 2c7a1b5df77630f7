"""The verdict on a whole report: which kernel, in which state, what is not known, and the command that collects it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.diagnose.diagnose import diagnose
from gpuprof.diagnose.more import command_for_more, command_for_rest, unknown_of
from gpuprof.diagnose.summary import chosen, summarised
from gpuprof.diagnose.telling import telling_expression
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.analyse import analyse
from gpuprof.model.recorded import Missing
from gpuprof.model.run_totals import busy_share
from gpuprof.model.session import (
    Evidence,
    Finding,
    KernelProfile,
    LaunchCount,
    Occupancy,
    RooflinePoint,
    RunVerdict,
    Session,
    Throughput,
    Traffic,
)
from gpuprof.present.fix_text import headline_text, unknown_text
from gpuprof.present.session_text import limit_text
from tests import builders, hand_made
from tests.kernels import busy, lasting, made, operations, pipes, session
from tests.real_sessions import loaded
from tests.table import each_row

NCU = "/opt/nvidia/nsight-compute/2024.1.1/target/linux-desktop-glibc_2_11_3-x64/ncu"


def kernel(number: int = 0, *findings: Finding, **changes: object) -> KernelProfile:
    return hand_made.kernel(number, *findings, **{"label": f"kernel {number}", **changes})


def judged(*kernels: KernelProfile, **source: object) -> RunVerdict:
    verdict = run(*kernels, **source).verdict
    assert verdict is not None
    return verdict


def run(*kernels: KernelProfile, **source: object) -> Session:
    made_of = hand_made.session(*kernels)
    return summarised(replace(made_of, sources=(replace(made_of.sources[0], **source),)))


def finding(rule: str, headline: str, **changes: object) -> Finding:
    return replace(hand_made.finding(rule), headline=headline, id=f"0.{rule}", **changes)


def lights(**fractions: float) -> tuple[Throughput, ...]:
    return tuple(Throughput(unit, fraction) for unit, fraction in fractions.items())  # type: ignore[arg-type]


def test_a_real_gemm_that_stores_nothing_is_not_tuned(reports: Path) -> None:
    found = loaded(reports / "cutlass-report80.ncu-rep")
    assert found.verdict is not None and found.verdict.state == "void"
    assert [item.rule for item in found.opportunities] == ["stores-nothing"]


# Which kernel.


def test_the_kernel_that_takes_most_time_is_told_and_not_that_of_the_largest_gain() -> None:
    long = kernel(0, finding("dram-bandwidth", "DRAM bandwidth", severity="info"), time_share=0.87, time_total_s=0.87,
                  throughput=lights(dram=0.9, sm=0.2))  # fmt: skip
    short = kernel(1, finding("uncoalesced-global", "Bad", gain_kernel=0.9), time_share=0.13, time_total_s=0.13)
    verdict = judged(long, short)
    assert verdict.sentence == (
        "kernel 0, 87 % of the time, is at 90 % of DRAM bandwidth: only moving fewer bytes helps."
    )
    assert (verdict.kernel, verdict.state, verdict.ceiling, verdict.fraction) == (0, "at-roof", "DRAM bandwidth", 0.9)
    assert (verdict.unknown, verdict.command) == (None, None)


def test_launches_of_one_label_count_together() -> None:
    parts = [kernel(number, label="twice", time_total_s=0.3, time_share=0.3) for number in (0, 1)]
    once = kernel(2, label="once", time_total_s=0.4, time_share=0.4)
    assert judged(*parts, once).sentence.startswith("twice, 60 % of the time, ")


def test_what_passes_through_dram_is_told_where_nothing_else_is() -> None:
    alone = kernel(0, throughput=(), roofline=(), traffic=(Traffic("dram", 3e8, 3e11, "dram", "counted"),))
    said = "kernel 0 moves 300 GB/s through DRAM; only counters tell what holds it back."
    assert judged(alone).sentence == said
    assert judged(replace(alone, traffic=())).sentence == "kernel 0 needs counters: its time alone does not say why."


UNTIMED = {"duration_s": None, "time_total_s": None, "time_share": None, "traffic": ()}
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"


def test_without_durations_the_kernel_with_most_work_is_told() -> None:
    # By threads, by bytes where all have them, by instructions before both.
    small, large = kernel(0, grid=(3, 1, 1), **UNTIMED), kernel(1, grid=(4500, 1, 1), **UNTIMED)
    assert judged(small, large).kernel == judged(large, small).kernel == 1
    moved = [Traffic("l1", amount, None, definition="l1", basis="counted") for amount in (2e9, 1e9)]
    both = [replace(one, traffic=(item,)) for one, item in zip((small, large), moved, strict=True)]
    assert judged(*both).kernel == 0
    counted = [LaunchCount(name="instructions", value=value, unit="inst", metric="inst", low=value, high=value)
               for value in (1e6, 2e6)]  # fmt: skip
    assert judged(*(replace(one, counts=(item,)) for one, item in zip(both, counted, strict=True))).kernel == 1


def test_without_durations_what_was_counted_speaks_before_the_shape_of_a_launch() -> None:
    few, conflicts, more = (
        made({CONFLICTS: value}, grid=(blocks, 1, 1), name=name)
        for name, blocks, value in (("few", 1, 0.0), ("conflicts", 4000, 1e9), ("more", 8000, 2e8))
    )
    told = session(few, conflicts, more, made({CONFLICTS: 0.0}, grid=(30000, 1, 1), name="clean"))
    assert [finding.rule for finding in told.kernels[0].findings] == ["small-grid"]
    assert told.opportunities == () and told.verdict is not None
    assert told.verdict.kernel == 2 and "Shared-memory bank conflicts" in told.verdict.sentence
    assert "If that takes time: pad or swizzle the shared array" in told.verdict.sentence
    assert [note for note in told.verdict.notes if note.startswith("conflicts: Shared-memory bank conflicts: ")]


INSTRUCTIONS = "smsp__inst_executed.sum"


def test_what_was_counted_of_a_small_kernel_says_nothing_of_a_run_without_durations() -> None:
    # 4 of 100 million instructions, though of more threads; 30 of 100 million are comparable work.
    product = made({CONFLICTS: 0.0, INSTRUCTIONS: 1e8}, grid=(64, 1, 1), name="product")
    for instructions, named in ((4e6, 0), (3e7, 1)):
        counts = {CONFLICTS: 1e6, INSTRUCTIONS: instructions}
        told = session(product, made(counts, grid=(800, 1, 1), name="reduce"))
        assert any(finding.rule == "shared-bank-conflict" for finding in told.kernels[1].findings)
        assert told.verdict is not None and told.verdict.kernel == named
        assert f"--kernel-name {('product', 'reduce')[named]}" in (told.verdict.command or "")


def test_the_launch_of_a_kernel_that_does_much_counts_however_few_its_threads_are() -> None:
    few, many = (
        made({CONFLICTS: 0.0, INSTRUCTIONS: instructions}, grid=(blocks, 1, 1), name=f"k{blocks}")
        for blocks, instructions in ((4, 9e8), (800, 3e7))
    )
    assert {number for item in session(few, many).opportunities for number in item.kernels} == {0}


def test_the_shape_of_a_launch_counts_where_no_other_is_much_larger() -> None:
    told = session(*(made({CONFLICTS: 0.0}, grid=(blocks, 1, 1), name=f"k{blocks}") for blocks in (4, 12)))
    assert told.verdict is not None and told.verdict.kernel == 1
    assert {number for item in told.opportunities for number in item.kernels} == {0, 1}


def test_set_up_is_passed_over_and_told_in_a_note() -> None:
    fill = kernel(0, name="fill_kernel", demangled="fill_kernel", label="fill", time_share=0.9, time_total_s=0.9)
    work = kernel(1, name="work", demangled="work", label="work", time_share=0.1, time_total_s=0.1)
    verdict = judged(fill, work)
    assert verdict.kernel == 1
    assert verdict.notes == ("Kernels that only set up data take 90 % of the time; they come last.",)


def test_set_up_alone_is_judged_and_said_to_be_that_with_the_command_for_the_rest() -> None:
    command = f"{NCU} --set full --launch-skip 2 --launch-count 1 -o a ./program --size 3"
    fill = kernel(0, finding("uncoalesced-global", "Uncoalesced"), name="fill_kernel", demangled="fill_kernel")
    verdict = judged(fill, command=command)
    assert verdict.state == "set-up" and "nothing else was profiled. It keeps" in verdict.sentence
    assert verdict.unknown == "Nothing but set-up was profiled."
    assert verdict.command == (
        "ncu --set full --import-source yes --launch-skip 3 --launch-count 10 -o rest-full ./program --size 3"
    )
    assert "Only random numbers, fills and copies" in verdict.notes[0]


def test_set_up_that_was_chosen_among_other_kernels_is_not_said_to_be_all_that_was_profiled() -> None:
    fill = kernel(0, name="fill_kernel", demangled="fill_kernel", label="fill", launches=3)
    work = kernel(1, name="work", demangled="work", label="work", launches=2)
    part = chosen(run(fill, work), [fill])
    assert part.verdict is not None and part.verdict.state == "set-up"
    assert part.verdict.sentence.startswith("fill only makes data for others. It keeps")
    assert part.verdict.notes == ()
    assert part.verdict.unknown is None or "Nothing but" not in part.verdict.unknown


def test_a_launch_that_a_group_speaks_for_is_a_part_of_the_run() -> None:
    group = kernel(0, name="fill_kernel", demangled="fill_kernel", label="fill", launches=7)
    launch = replace(group, id=4, launches=1)
    part = chosen(run(group), [launch])
    assert part.run is not None and part.run.launches == 7
    assert part.verdict is not None and "nothing else was profiled" not in part.verdict.sentence
    assert chosen(run(group), [group]).run is None


@each_row(
    ("name", "ranges", "does", "nothing_but"),
    [
        ("matmul", ("gpuprof: autotuning",), "is an autotuner trial", "autotuner trials"),
        ("warmingUp", (), "only warms the GPU up", "warm-up"),
    ],
)
def test_tries_and_warm_up_alone_are_said_to_be_that(
    name: str, ranges: tuple[str, ...], does: str, nothing_but: str
) -> None:
    only = kernel(0, finding("uncoalesced-global", "Bad"), name=name, demangled=name, label=name, ranges=ranges)
    verdict = judged(only, command=f"{NCU} -o a ./program")
    assert verdict.state == "set-up" and f"{name} {does}, and nothing else was profiled. " in verdict.sentence
    assert verdict.unknown == f"Nothing but {nothing_but} was profiled."
    assert verdict.command is not None and "--launch-skip 1 --launch-count 10" in verdict.command
    assert "launched later" in verdict.notes[0]


def test_several_kinds_of_set_up_alone_are_told_together() -> None:
    verdict = judged(
        kernel(0, name="warmup", demangled="warmup", label="warmup"),
        kernel(1, name="fill_kernel", demangled="fill_kernel", label="fill", time_total_s=1.0),
        command=f"{NCU} -o a ./program",
    )
    assert "fill only makes data for others" in verdict.sentence.replace(", 50 % of the time,", "")
    assert verdict.unknown == "Nothing but set-up was profiled."
    assert "data, warm-up and autotuner trials" in verdict.notes[0]


def test_warm_up_beside_work_is_told_in_the_note() -> None:
    warm = kernel(0, name="warmup", demangled="warmup", label="warmup", time_share=0.3, time_total_s=0.3)
    work = kernel(1, name="work", demangled="work", label="work", time_share=0.7, time_total_s=0.7)
    assert judged(warm, work).notes == (
        "Kernels that only set up data or warm up take 30 % of the time; they come last.",
    )


def test_a_session_without_kernels_has_no_sentence() -> None:
    verdict = judged()
    assert (verdict.sentence, verdict.kernel, verdict.state) == ("", None, "open")


# Which state.


def test_a_defect_is_told_with_what_the_kernel_keeps_busy() -> None:
    verdict = judged(kernel(0, finding("uncoalesced-global", "Uncoalesced: 60 % are excess"),
                            throughput=lights(memory=0.97, dram=0.1, l2=0.2, sm=0.3)))  # fmt: skip
    assert verdict.sentence == "kernel 0 keeps L1 97 % busy: uncoalesced at gather.cu:41."
    assert (verdict.state, verdict.ceiling, verdict.fraction) == ("limited", "L1 throughput", 0.97)


def test_l1_is_as_busy_as_its_own_speed_of_light_says_where_memory_as_a_whole_is_half_of_it() -> None:
    scattered = finding("uncoalesced-global", "Uncoalesced: 16 passes")
    verdict = judged(kernel(0, scattered, throughput=lights(memory=0.45, l1=0.90, dram=0.02, l2=0.03, sm=0.05)))
    assert verdict.sentence == "kernel 0 keeps L1 90 % busy: uncoalesced at gather.cu:41."
    assert verdict.fraction == 0.9


def test_the_load_store_unit_is_told_as_memory_although_the_sm_counts_it() -> None:
    verdict = judged(
        kernel(0, finding("l1-bandwidth", "L1"), throughput=lights(sm=0.66, memory=0.65, dram=0.1, l2=0.2))
    )
    assert "keeps L1 65 % busy" in verdict.sentence


@each_row(
    ("rule", "state", "text"),
    [
        ("small-grid", "unfilled", "does not fill the GPU: headline at gather.cu:41. No unit is more than 40 % busy."),
        ("tail-effect", "unfilled", "does not fill the GPU: headline at gather.cu:41. No unit is more than 40 % busy."),
        ("memory-latency", "waiting", "mostly waits: headline at gather.cu:41. No unit is more than 40 % busy."),
        ("fp64-bound", "limited", "keeps DRAM 40 % busy: headline at gather.cu:41."),
    ],
)
def test_the_state_follows_from_the_first_finding(rule: str, state: str, text: str) -> None:
    verdict = judged(kernel(0, finding(rule, "Headline"), throughput=lights(dram=0.4, sm=0.2, memory=0.4)))
    assert verdict.state == state and verdict.sentence.endswith(text)


def test_a_wait_for_a_smaller_part_of_the_time_is_not_most_of_it_while_a_unit_may_be_busy() -> None:
    # Instruction fetch takes 22 % of the warps' time. Nothing was collected of the FP64 pipe, which can be busy.
    fetch = finding("instruction-fetch", "Instruction fetch: 22 % of warp time", gain_kernel=0.22)
    assert (
        judged(kernel(0, fetch, throughput=())).sentence == "kernel 0 waits in part: instruction fetch at gather.cu:41."
    )
    some = judged(kernel(0, fetch, throughput=lights(dram=0.4)))
    told = "The busiest unit that was collected is 40 % busy; the SMs, L2 and L1 were not collected."
    assert some.sentence == f"kernel 0 waits in part: instruction fetch at gather.cu:41. {told}"
    most = judged(kernel(0, replace(fetch, gain_kernel=0.7), throughput=()))
    assert most.sentence == "kernel 0 mostly waits: instruction fetch at gather.cu:41."


def test_a_unit_that_is_mostly_idle_is_not_what_a_kernel_keeps_busy_while_others_are_unknown() -> None:
    build = finding("debug-build", "Unoptimised build: 31 % of instructions")
    some = judged(kernel(0, build, throughput=lights(dram=0.0003, l2=0.0002, l1=0.19))).sentence
    told = "The busiest unit that was collected is 19 % busy; the SMs were not collected."
    assert some == f"kernel 0 can be faster: unoptimised build at gather.cu:41. {told}"
    known = judged(kernel(0, build, throughput=lights(dram=0.0003, l2=0.0002, l1=0.19, sm=0.3))).sentence
    assert known == "kernel 0 keeps the SMs 30 % busy: unoptimised build at gather.cu:41."


def test_an_l1_of_active_cycles_alone_tells_how_busy_it_is_at_most() -> None:
    # 37 % of the cycles in which an SM has work: with 16 blocks on 108 SMs that is 6 % of all.
    active = (Throughput("l1", 0.37, "of active cycles"),)
    small = judged(kernel(0, finding("small-grid", "Small grid: 16 blocks for 108 SMs"), throughput=active))
    told = "The busiest unit that was collected is at most 37 % busy; the SMs, DRAM and L2 were not collected."
    assert small.sentence.endswith(told)
    nothing = judged(kernel(0, throughput=active))
    assert "keeps L1 at most 37 % busy" in nothing.sentence
    assert nothing.ceiling is None and nothing.fraction is None
    assert limit_text(kernel(0, throughput=active)) == "L1 ≤ 37 %"
    # Memory as a whole is of all cycles.
    assert limit_text(kernel(0, throughput=(Throughput("memory", 0.06), *active))) == "Memory 6.0 %"


def test_how_busy_the_units_are_is_told_once() -> None:
    latency = replace(finding("latency-bound", "Latency-bound: no unit is more than 40 % busy"), location=None)
    verdict = judged(kernel(0, latency, throughput=lights(dram=0.4, sm=0.2, memory=0.4)))
    assert verdict.sentence == "kernel 0 mostly waits: latency-bound. No unit is more than 40 % busy."


def test_a_unit_that_was_not_collected_is_not_said_to_be_idle() -> None:
    small = finding("small-grid", "Small grid: 4 blocks")
    some = judged(kernel(0, small, throughput=lights(dram=0.4, l2=0.1)))
    told = "The busiest unit that was collected is 40 % busy; the SMs and L1 were not collected."
    assert some.sentence.endswith(told)
    nothing = judged(kernel(0, throughput=lights(dram=0.4, l2=0.1)))
    assert "keeps DRAM 40 % busy, more than any other unit that was collected;" in nothing.sentence


def test_a_finding_that_explains_little_of_a_kernel_that_waits_is_no_verdict() -> None:
    tail = replace(finding("tail-effect", "Tail effect: 1.9 waves"), gain_kernel=0.05)
    idle = replace(finding("latency-bound", "Latency-bound: no unit is busy"), gain_kernel=0.7, confidence="guess")
    lights_low = lights(sm=0.34, memory=0.33, dram=0.02, l2=0.1)
    verdict = judged(kernel(0, tail, idle, throughput=lights_low))
    assert verdict.state == "waiting"
    told = "kernel 0 mostly waits, and the report does not show for what. No unit is more than 34 % busy."
    assert verdict.sentence == told
    more = judged(kernel(0, replace(tail, gain_kernel=0.3), idle, throughput=lights_low))
    assert "does not fill the GPU: tail effect" in more.sentence


def test_a_finding_that_explains_little_is_no_verdict_of_sms_that_are_busy_with_something() -> None:
    some = replace(finding("uncoalesced-global", "Uncoalesced global access: 9 %"), gain_kernel=0.08)
    guess = replace(finding("integer-bound", "Instruction throughput: SM 70 %"), gain_kernel=0.3, confidence="guess")
    lights_sm = lights(sm=0.70, memory=0.45, dram=0.45, l2=0.17)
    verdict = judged(kernel(0, some, guess, throughput=lights_sm))
    assert verdict.sentence == "kernel 0 keeps the SMs 70 % busy, and the report does not show with what."
    # What explains more, or is known to be what fills them, is the verdict.
    for known in ((replace(some, gain_kernel=0.2), guess), (some, replace(guess, gain_kernel=0.05))):
        told = judged(kernel(0, *known, throughput=lights_sm)).sentence
        assert told == "kernel 0 keeps the SMs 70 % busy: uncoalesced global access at gather.cu:41."


def test_no_unit_is_busier_than_what_is_said_of_the_busiest() -> None:
    tail = finding("tail-effect", "Tail effect: 1.9 waves")
    verdict = judged(kernel(0, tail, throughput=lights(sm=0.34, memory=0.33, dram=0.02, l2=0.1)))
    assert verdict.sentence.endswith("No unit is more than 34 % busy.")


def test_the_name_of_a_unit_keeps_its_capitals() -> None:
    double = replace(finding("fp64-bound", "FP64 arithmetic: its pipe is full"), location=None)
    verdict = judged(kernel(0, double, throughput=lights(dram=0.7)))
    assert verdict.sentence == "kernel 0 keeps DRAM 70 % busy: FP64 arithmetic."


def test_a_guess_is_no_headline() -> None:
    guess = finding("low-occupancy", "Occupancy: 25 %", confidence="guess", severity="low")
    verdict = judged(kernel(0, guess, throughput=lights(sm=0.5, dram=0.2)))
    assert verdict.state == "open" and "Occupancy" not in verdict.sentence
    assert "keeps the SMs 50 % busy, more than any other unit" in verdict.sentence


def test_what_another_finding_explains_is_no_headline() -> None:
    wait = finding("barrier-wait", "Barriers", cause="0.memory-latency", severity="info")
    cause = finding("uncoalesced-global", "Uncoalesced")
    assert "uncoalesced" in judged(kernel(0, wait, cause)).sentence


def test_a_full_fma_pipe_of_multiply_adds_is_a_roof_and_a_full_integer_pipe_is_none() -> None:
    # 2 · 5.184e9 FLOP in 1 ms of 13.824 TFLOP/s: three quarters of the peak.
    work = operations(ffma=5.184e9, fadd=0, fmul=0)
    roof = session(made(busy(sm=85), pipes(fma=85), lasting(), work)).verdict
    assert roof is not None and roof.state == "at-roof"
    assert "is at 85 % of FP32 throughput: only less arithmetic or a narrower type helps" in roof.sentence
    integer = session(made(busy(sm=95), pipes(alu=95), lasting())).verdict
    assert integer is not None and integer.state == "limited" and "keeps the SMs 95 % busy" in integer.sentence


def test_half_of_the_tensor_pipe_is_told_as_the_roof_where_it_is() -> None:
    device = RecordedDevice(name="NVIDIA GeForce RTX 3090", compute_capability="8.6", sm_count=82)
    opcodes: dict[str | int, float] = {"HMMA.16816.F32": 100.0}
    launch = made(pipes(tensor=48), lasting(), histograms={"sass__inst_executed_per_opcode_with_modifier_all": opcodes})
    report = builders.report(launch.launch(), device=device)
    verdict = diagnose(analyse([report], builders.hardware_of, "9.9")).verdict
    assert verdict is not None and "is at 96 % of tensor throughput" in verdict.sentence


def test_a_short_kernel_is_told_so() -> None:
    short = finding("short-kernel", "Short kernel: 4 µs", severity="info", gain_kernel=None)
    verdict = judged(kernel(0, short, duration_s=4e-6))
    assert (verdict.state, verdict.command) == ("short", None)
    assert verdict.sentence == "kernel 0 takes 4.00 µs, about as long as its launch."


def test_a_kernel_that_ends_before_its_launch_takes_less() -> None:
    short = finding("short-kernel", "Short kernel: 20 ns", severity="info", gain_kernel=None)
    assert judged(kernel(0, short, duration_s=2e-8)).sentence == "kernel 0 takes 20.0 ns, less than its launch takes."


def test_a_unit_that_is_the_finding_has_a_single_number() -> None:
    limit = finding("l1-bandwidth", "L1 bandwidth: 99.8 % busy with loads and stores", severity="high")
    lit = judged(kernel(0, limit, throughput=lights(memory=0.5, sm=0.2, dram=0.1, l2=0.1)))
    assert lit.sentence == "kernel 0 is limited by L1 bandwidth: 99.8 % busy with loads and stores."


def test_a_limit_is_named_with_its_own_unit_where_another_is_as_busy() -> None:
    busy = (Evidence("dram", 70.0, "%", threshold=60.0, meaning="DRAM busy"),)
    limit = finding("dram-bandwidth", "DRAM bandwidth: 70 % of peak", severity="high", evidence=busy)
    verdict = judged(kernel(0, limit, throughput=lights(memory=0.71, sm=0.2, dram=0.7, l2=0.5, l1=0.71)))
    assert verdict.sentence == "kernel 0 is limited by DRAM bandwidth: 70 % of peak."
    assert (verdict.ceiling, verdict.fraction) == ("DRAM bandwidth", 0.7)


def test_what_is_open_of_the_longest_launch_is_not_said_of_the_others() -> None:
    labelled = [kernel(number, label="gemm", throughput=lights(dram=0.49, sm=0.2)) for number in (0, 1)]
    told = "keeps DRAM 49 % busy in its longest launch, more than any other unit that was collected; nothing in the"
    assert told in judged(*labelled).sentence
    assert "longest launch" not in judged(labelled[0]).sentence


def test_guesses_are_told_where_nothing_else_shows_what_would_make_a_kernel_faster() -> None:
    guess = finding("latency-bound", "Latency-bound: no unit is busy", confidence="guess", severity="low")
    lit = lights(dram=0.49, sm=0.2)
    told = (
        "keeps DRAM 49 % busy, more than any other unit that was collected; what would make it faster is only a guess."
    )
    assert told in judged(kernel(0, guess, throughput=lit)).sentence
    nothing = judged(
        kernel(0, finding("latency-bound", "Latency-bound", confidence="guess", severity="info"), throughput=lit)
    )
    assert "nothing in the report shows what would make it faster" in nothing.sentence


def test_traffic_tells_how_busy_dram_is_without_a_speed_of_light() -> None:
    point = RooflinePoint(path="fp32", level="dram", intensity=1.0, flop_per_s=0.54e12, roof_flop_per_s=1e12,
                          fraction_of_roof=0.54, ceiling="at-clock", bound="memory")  # fmt: skip
    verdict = judged(kernel(0, throughput=(), roofline=(point,), pipes=(), stalls=()))
    assert "keeps DRAM 54 % busy" in verdict.sentence
    assert verdict.unknown is not None
    assert verdict.unknown.startswith("The report does not show why warps stall or which pipe is busy.")


def test_sentences_end_once_and_have_single_spaces() -> None:
    verdict = judged(kernel(0, finding("uncoalesced-global", "It is so."), label="l" * 96))
    assert verdict.sentence.endswith(": it is so at gather.cu:41.") and "  " not in verdict.sentence


def test_an_idle_sm_alone_is_no_memory() -> None:
    assert "keeps the SMs 0 % busy" in judged(kernel(0, throughput=lights(sm=0.0))).sentence


# What is lacking, and the command for it.


EMPTY = {
    "duration_s": None, "time_total_s": None, "time_share": None, "throughput": (), "traffic": (), "work": (),
    "roofline": (), "stalls": (), "pipes": (), "scheduler": None, "occupancy": Occupancy(None, None, ()),
}  # fmt: skip


def test_a_launch_without_numbers_is_to_be_profiled_again() -> None:
    verdict = judged(kernel(0, name="flash", **EMPTY), command=f"{NCU} --nvtx --set full -o p python x.py --n 3")
    assert verdict.sentence == "kernel 0 has no numbers in the report that tell what it costs."
    assert verdict.unknown == "The report has none of the numbers of this launch that tell what it costs."
    assert verdict.command == (
        "ncu --set full --import-source yes --nvtx --kernel-name flash --launch-count 1 -o flash-full python x.py --n 3"
    )


def command(number: int = 0, kernels: tuple[KernelProfile, ...] | None = None, **source: object) -> str:
    kernels = kernels or (kernel(0, name="work"),)
    return command_for_more(run(*kernels, **source), kernels[number])


def test_a_launch_is_found_again_by_its_place_among_those_of_its_name() -> None:
    names = ("a", "b", "a", "a")
    kernels = tuple(kernel(number, name=name) for number, name in enumerate(names))
    assert "--kernel-name a --launch-skip 2 --launch-count 1" in command(3, kernels, command=f"{NCU} ./a.out")
    assert "--kernel-name b --launch-count 1" in command(1, kernels, command=f"{NCU} ./a.out")


def test_what_was_selected_before_is_selected_again() -> None:
    kernels = tuple(kernel(number, name=name) for number, name in enumerate(("a", "b", "a")))
    recorded = f"{NCU} -k regex:^[ab] -s 29 -c3 --kernel-name-base=function -o p ./a.out"
    assert command(2, kernels, command=recorded) == (
        "ncu --set full --import-source yes --kernel-name 'regex:^[ab]' --kernel-name-base function --launch-skip 31 "
        "--launch-count 1 -o a-full ./a.out"
    )


def test_launches_that_stand_for_several_are_not_counted() -> None:
    kernels = (kernel(0, name="a", launches=3), kernel(1, name="a"))
    assert "--launch-skip" not in command(1, kernels, command=f"{NCU} ./a.out")


def test_a_launch_that_is_not_counted_among_others_is_selected_by_its_own_name() -> None:
    recorded = f"{NCU} -k regex:cuda -s 2 ./a.out"
    several = (kernel(0, name="a_cuda", launches=3), kernel(1, name="b_cuda"))
    assert " --kernel-name b_cuda --launch-count 1 " in command(1, several, command=recorded)
    alike = (kernel(0, name="a_cuda", launches=3),)
    assert " --kernel-name regex:cuda --launch-skip 2 --launch-count 1 " in command(0, alike, command=recorded)


def test_what_the_program_needs_is_kept_and_what_ncu_wrote_is_not() -> None:
    recorded = (
        f"{NCU} --target-processes all --section LaunchStats --metrics a,b --clock-control none --csv -f --nvtx "
        "--nvtx-include step/ --log-file log -o old mpiexec -n 1 ./app --set x"
    )
    assert command(command=recorded) == (
        "ncu --set full --import-source yes --target-processes all --clock-control none --nvtx --nvtx-include step/ "
        "--kernel-name work --launch-count 1 -o work-full mpiexec -n 1 ./app --set x"
    )


def test_ncu_takes_two_dashes_for_an_option_so_that_none_stand_before_the_program() -> None:
    assert " -- " not in command(command=f"{NCU} ./a.out")


@each_row(
    ("version", "starts", "names"),
    [
        ("2025.2.1.0", "ncu --set full --import-source yes ", "--kernel-name work"),
        ("2022.1.1.0", "ncu --set full --kernel-name", "--kernel-name work"),
        ("2020.3.1.0", "ncu --set full --kernel-regex", "--kernel-regex '^work$'"),
        ("2019.5.0", "nv-nsight-cu-cli --set full --kernel-regex", "--kernel-regex '^work$'"),
        (None, "ncu --set full --import-source yes ", "--kernel-name work"),
        ("odd", "ncu --set full --import-source yes ", "--kernel-name work"),
    ],
)
def test_options_are_those_of_the_release(version: str | None, starts: str, names: str) -> None:
    line = command(tool_version=version, command=f"{NCU} ./a.out")
    assert line.startswith(starts) and names in line


@each_row(
    "recorded",
    [None, "", "python x.py", f"{NCU}", f"{NCU} --set full -o", f"{NCU} --new-option 3 ./a.out", f"{NCU} -z ./a.out",
     f"{NCU} ./a.out\nrm -rf /", f"{NCU} ./a.out \x1b[31m", f"{NCU} {'x ' * 3000}", "\x00"],
)  # fmt: skip
def test_a_program_that_cannot_be_told_is_a_placeholder_that_is_explained(recorded: str | None) -> None:
    line = command(command=recorded)
    assert line == "ncu --set full --import-source yes --kernel-name work --launch-count 1 -o work-full PROGRAM"
    read = run(kernel(0, name="work", stalls=()), command=recorded)
    assert unknown_text(read).endswith(". To collect what is missing, with your command line for PROGRAM:")


@each_row(
    ("name", "option"),
    [
        ("operator()", r"'regex:^operator\(\)$'"),
        ("a b", "'regex:^a b$'"),
        ("$(rm -rf /)", r"'regex:^\$\(rm -rf /\)$'"),
        ("naïve", "'regex:^naïve$'"),
    ],
)
def test_odd_names_are_escaped_for_ncu_and_quoted_for_the_shell(name: str, option: str) -> None:
    line = command(kernels=(kernel(0, name=name),), command=f"{NCU} ./a.out")
    assert f"--kernel-name {option} " in line
    assert re.fullmatch(r"[A-Za-z0-9_.-]+-full", shlex.split(line)[-2])


@given(name=st.text(max_size=40), recorded=st.none() | st.text(max_size=80).map(lambda text: f"{NCU} {text}"))
def test_any_name_and_command_line_give_one_printable_line_for_a_shell(name: str, recorded: str | None) -> None:
    kernels = (kernel(0, name=name),)
    for line in (
        command(kernels=kernels, command=recorded),
        command_for_rest(run(*kernels, command=recorded), kernels[0]),
    ):
        assert line.isprintable()
        assert shlex.split(line)[:3] == ["ncu", "--set", "full"]


def test_a_quoted_line_of_gpuprof_keeps_its_arguments_whole() -> None:
    recorded = shlex.join(
        ["/usr/bin/ncu", "--config-file", "off", "--import-source", "no", "python", "-c", "a = 'b c'"]
    )
    assert shlex.split(command(command=recorded))[-3:] == ["python", "-c", "a = 'b c'"]


@each_row(
    ("program", "shown"),
    [
        ("bash -c cd /data && ./a.out", "PROGRAM"),
        ("mpiexec -n 1 /usr/bin/python3 -u -c import x; x.y()", "PROGRAM"),
        ("bash -c cd data", "PROGRAM"),
        ("sh -lc ./a.out", "sh -lc ./a.out"),
        ("python train.py -c config.yaml", "python train.py -c config.yaml"),
        ("./a.out -c 3", "./a.out -c 3"),
    ],
)
def test_without_quotes_nothing_tells_where_a_program_ends_that_is_given_as_text(program: str, shown: str) -> None:
    assert command(command=f"{NCU} -o p {program}").endswith(f" -o work-full {shown}")


def test_a_name_too_long_for_a_command_line_is_not_in_it() -> None:
    kernels = (kernel(0, name="a"), kernel(1, name="b" * 100_000))
    line = command(1, kernels, command=f"{NCU} ./a.out")
    assert len(line) < 200 and "--launch-skip 1 --launch-count 1" in line


def test_what_was_only_timed_is_to_be_profiled_by_gpuprof() -> None:
    session = run(kernel(0, demangled="void work<1>(float *)"), kind="torch-trace", file="a b.json")
    assert unknown_of(session, session.kernels[0]) == "A trace has times but no counters."
    assert command_for_more(session, session.kernels[0]) == "gpuprof run --survey 'a b.json' --kernel work -- PROGRAM"


_CUTLASS = "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_f16_{}>(T1::Params)"
_ADD = "void at::vectorized_elementwise_kernel<4, at::{0}, at::Array<char *, 3> >(int, at::{0}, at::Array<char *, 3>)"


@each_row(
    ("own", "others", "expression"),
    [
        ("work(int)", ["other(int)"], "work"),
        ("work(int)", ["work_2(int)"], r"\bwork\b"),
        ("a::work(int)", ["b::work(int)", "c::Sum<int>::work()"], "a::work"),
        ("work(int)", ["b::work(int)"], r"^work\b"),
        ("work(float *)", ["work(double *)"], "work.*float"),
        ("void work<128>(int)", ["void work<64>(int)", "void work<256>(int)"], "work.*128"),
        ("work(float *)", ["work(float4 *)"], r"work.*\bfloat\b"),
        (
            _CUTLASS.format("128x128_nn_align8"),
            [_CUTLASS.format("128x128_nt_align8"), _CUTLASS.format("256x128_nn_align8"), "Kernel(int)"],
            "Kernel2.*cutlass_80_tensorop_s16816gemm_f16_128x128_nn_align8",
        ),
        (
            _ADD.format("Add<float>"),
            [_ADD.format("Add<Half>"), _ADD.format("Mul<float>")],
            "vectorized_elementwise_kernel.*Add<float",
        ),
        # Nothing that is short tells it: more than is meant is profiled.
        (f"work<{'a' * 200}>()", [f"work<{'a' * 199}b>()"], "work"),
    ],
)
def test_a_kernel_is_asked_for_by_what_no_other_of_the_session_has(
    own: str, others: list[str], expression: str
) -> None:
    named = [kernel(number, demangled=name) for number, name in enumerate((own, *others))]
    session = run(*named, kind="torch-trace", file="t.json")
    line = shlex.split(command_for_more(session, session.kernels[0]))
    assert line[line.index("--kernel") + 1] == expression
    assert re.search(expression, own)
    assert expression == "work" or not any(re.search(expression, other) for other in others)


@given(st.lists(st.text("ab1<>:, (*", min_size=1, max_size=12), min_size=1, max_size=6, unique=True))
def test_what_tells_a_kernel_fits_its_name_whatever_the_others_are(tails: list[str]) -> None:
    names = [f"void s::k<{tail}>(int)" for tail in tails]
    expression = telling_expression("k", names[0], names)
    fitting = [name for name in names if re.search(expression, name)]
    assert names[0] in fitting and (fitting == [names[0]] or expression == "k")


def test_ncu_is_asked_by_the_whole_name_where_functions_have_the_same_and_launches_are_not_counted() -> None:
    names = [_CUTLASS.format(tile) for tile in ("128x128", "256x128")]
    several = tuple(kernel(at, name="Kernel2", demangled=name, launches=3) for at, name in enumerate(names))
    assert command(1, several, command=f"{NCU} ./a.out") == (
        "ncu --set full --import-source yes --kernel-name-base demangled --kernel-name "
        "'regex:Kernel2.*cutlass_80_tensorop_s16816gemm_f16_256x128' --launch-count 1 -o Kernel2-full ./a.out"
    )
    old = command(1, several, command=f"{NCU} ./a.out", tool_version="2020.3.1")
    assert "--kernel-regex-base demangled --kernel-regex 'Kernel2.*cutlass" in old
    # By its place among those of its name a launch is found exactly.
    counted = tuple(replace(one, launches=1) for one in several)
    assert " --kernel-name Kernel2 --launch-skip 1 --launch-count 1 " in command(1, counted, command=f"{NCU} ./a.out")


def test_what_a_survey_timed_alone_takes_the_program_from_the_profile_beside() -> None:
    base = replace(hand_made.session(), kernels=(kernel(0, source=1, demangled="work(int)", throughput=()),))
    counted = replace(base.sources[0], command=f"{NCU} -o p ./a.out 3")
    both = replace(base, sources=(counted, replace(base.sources[0], kind="ncu-rep survey")))
    assert unknown_of(both, both.kernels[0]) == "It was timed, not profiled."
    assert command_for_more(both, both.kernels[0]) == "gpuprof run --kernel work -- ./a.out 3"


@each_row(
    ("recorded", "shown"),
    [
        (f"{NCU} --metrics gpu__time_duration.sum -o p ./a.out 3", "./a.out 3"),
        (
            "env GPUPROF_SURVEY_TO=.survey PYTHONPATH='a b' GPUPROF_SURVEY_BY=torch python3 't r.py' A=1",
            "python3 't r.py' A=1",
        ),
        ("env OTHER=1 python3 train.py", "PROGRAM"),
        ("env GPUPROF_SURVEY_BY=torch", "PROGRAM"),
        ("env GPUPROF_SURVEY_BY=torch python3 'cut", "PROGRAM"),
        ("torchrun out/rank.sh", "PROGRAM"),
    ],
)
def test_where_nothing_was_counted_the_program_is_that_of_the_survey(recorded: str, shown: str) -> None:
    base = replace(hand_made.session(), kernels=(kernel(0, demangled="work(int)"),))
    only = replace(base, sources=(replace(base.sources[0], kind="torch-trace survey", command=recorded),))
    assert command_for_more(only, only.kernels[0]) == f"gpuprof run --kernel work -- {shown}"


def test_why_nothing_was_counted_is_told() -> None:
    refused = Missing("counters", "no permission", "ask")
    base = replace(hand_made.session(), kernels=(kernel(0, demangled="work(int)", missing=(refused,), throughput=()),))
    only = replace(base, sources=(replace(base.sources[0], kind="torch-trace survey"),))
    assert unknown_of(only, only.kernels[0]) == "It was timed, not profiled: no permission."


# What else there is to know of the whole.


def two_reports(*names: tuple[int, str]) -> RunVerdict:
    base = hand_made.session()
    kernels = tuple(kernel(at, name=name, source=file) for at, (file, name) in enumerate(names))
    sources = tuple(replace(base.sources[0], file=file) for file in ("before.ncu-rep", "after.ncu-rep"))
    verdict = summarised(replace(base, sources=sources, kernels=kernels)).verdict
    assert verdict is not None
    return verdict


def test_versions_of_one_program_are_read_side_by_side() -> None:
    (note,) = two_reports((0, "a"), (0, "b"), (1, "a"), (1, "c")).notes
    assert note == (
        "before.ncu-rep and after.ncu-rep hold the same kernels. If they are versions of one program, read them side "
        "by side: their times do not add up, and shares are of all together."
    )


def test_reports_with_other_kernels_are_no_versions() -> None:
    assert two_reports((0, "a"), (0, "b"), (0, "c"), (1, "a"), (1, "d"), (1, "e")).notes == ()


def test_ranks_of_one_run_are_no_versions() -> None:
    base = hand_made.session()
    kernels = tuple(kernel(at, name="a", source=at, rank=at) for at in (0, 1))
    verdict = summarised(replace(base, sources=2 * base.sources, kernels=kernels)).verdict
    assert verdict is not None and verdict.notes == ()


# Real reports.


REAL = [
    (
        "gpu_workshop-MW_Baseline.ncu-rep",
        "compute_tendencies_x_279_gpu, 40 % of the time, keeps the SMs 70 % busy: FP64 divisions and square roots at ",
        None,
    ),
    (
        "cutlass-384.ncu-rep",
        "54 % of the time, does not fill the GPU: small grid. No unit is more than 22 % busy.",
        None,
    ),
    (
        "sglang-profile.ncu-rep",
        "flash_fwd hdim128 128x64 fp16 (attention) has no numbers in the report that tell what it costs.",
        "--nvtx --kernel-name flash_fwd_kernel --launch-count 1 -o flash_fwd_kernel-full",
    ),
    (
        "esmm-research-profile.ncu-rep",
        "basic, 70 % of the time, needs counters: its time alone does not say why.",
        "ncu --set full --import-source yes --kernel-name basic --launch-count 1 -o basic-full ./a.out '…'",
    ),
    (
        "csv/rtx5090-roofline-section.csv",
        "cublas gemv bf16 keeps DRAM 54 % busy",
        "ncu --set full --import-source yes --kernel-name kernel --launch-count 1 -o kernel-full PROGRAM",
    ),
    (
        "traces/miniweather-gp100.nsys.sqlite",
        "compute_tendencies_z_334_gpu, 41 % of the time, does not fill the GPU: small grid.",
        "gpuprof run --survey",
    ),
]


@each_row(("file", "text", "line"), REAL)
def test_real_reports_are_told_in_a_sentence(reports: Path, file: str, text: str, line: str | None) -> None:
    verdict = loaded(reports / file).verdict
    assert verdict is not None and text in verdict.sentence
    assert (verdict.command is None) is (line is None) and (line is None or line in (verdict.command or ""))


def test_idle_time_of_a_trace_comes_first_where_it_is_more_than_any_kernel_takes(
    reports: Path,
) -> None:
    most = loaded(reports / "traces" / "miniweather-gp100.nsys.sqlite").verdict
    assert most is not None and most.notes == ()
    assert most.sentence.startswith("The GPU is idle 78 % of 275 ms; ")
    assert "this kernel" not in most.sentence
    more = loaded(reports / "traces" / "resnet50-v100.pt.trace.json.gz").verdict
    # Its longest kernel takes 2.7 %.
    assert more is not None and more.sentence.startswith("The GPU is idle 39 % of 996 ms; ")


def test_idle_time_that_is_less_than_a_kernel_takes_stands_beside_the_verdict() -> None:
    idle = finding("launch-gaps", "Launch gaps: the GPU is idle 20 % of 10 ms", gain_kernel=None, gain_total=0.2)
    verdict = judged(kernel(0, finding("fp64-bound", "FP64"), idle), kernel(1, label="other"))
    assert verdict.sentence.startswith("kernel 0, 50 % of the time, keeps ")
    assert verdict.notes == ("The GPU is idle 20 % of 10 ms.",)


def test_of_several_findings_on_the_run_that_with_most_of_its_time_comes_first_and_none_is_lost() -> None:
    idle = finding("launch-gaps", "Launch gaps: the GPU is idle 60 % of 10 ms", gain_kernel=None, gain_total=0.6)
    copying = finding("exposed-copies", "Exposed copies: the GPU copies", gain_kernel=None, gain_total=0.7)
    verdict = judged(kernel(0, finding("fp64-bound", "FP64"), idle, copying), kernel(1, label="other"))
    assert verdict.sentence.startswith("The GPU copies. kernel 0, 50 % of the time, keeps ")
    assert verdict.notes == ("The GPU is idle 60 % of 10 ms.",)


def test_gains_of_a_trace_are_of_the_traced_time(reports: Path) -> None:
    session = loaded(reports / "traces" / "miniweather-gp100.nsys.sqlite")
    # Its kernels take 60.3 of 275 ms: none of their repairs saves more, and all together no more than there is.
    busy = busy_share(session)
    assert busy == pytest.approx(0.2194, rel=0.01)
    of_kernels = [item for item in session.opportunities if item.rule != "launch-gaps"]
    assert of_kernels and all((item.gain_total or 0.0) <= busy for item in of_kernels)
    assert sum(item.gain_after or 0.0 for item in session.opportunities) <= 1.0
    assert session.opportunities[0].rule == "launch-gaps"


def test_every_real_verdict_is_a_sentence_about_a_kernel_of_the_report(real_report: Path) -> None:
    session = loaded(real_report)
    verdict = session.verdict
    assert verdict is not None and verdict.kernel in {kernel.id for kernel in session.kernels}
    for text in (verdict.sentence, *verdict.notes, verdict.unknown or "It is known."):
        assert text.endswith(".") and not text.endswith("..") and "  " not in text and "None" not in text
    assert (verdict.unknown is None) is (verdict.command is None)


def test_the_share_of_a_kernel_is_that_of_the_report_that_its_name_carries(reports: Path) -> None:
    both = loaded(reports / "gpu_workshop-MW_Baseline.ncu-rep", reports / "gpu_workshop-MW_DivToMult.ncu-rep")
    assert both.verdict is not None
    # 5.62 and 5.59 of 28.2 ms: 20 % in each report, 40 % in both.
    assert both.verdict.sentence.startswith("semi_discrete_step_232_gpu, 20 % of the time, ")
    assert headline_text(both).startswith("semi_discrete_step_232_gpu (Baseline), 20 % of the time, ")
