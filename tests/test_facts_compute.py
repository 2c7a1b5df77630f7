"""Facts of a kernel's instructions and of the parts of an SM, with numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.analyse import analyse
from tests import builders
from tests.kernels import Histograms, Made, busy, issued, lasting, made, operations, pipes

RTX_3090 = RecordedDevice(name="NVIDIA GeForce RTX 3090", compute_capability="8.6", sm_count=82)
ACTIVE = {"sm__cycles_active.avg": 0.8e6, "sm__cycles_elapsed.max": 1e6}
"""An average SM works for 80 % of the time."""


def facts_of(launch: Made) -> KernelFacts:
    analysis = analyse([builders.report(launch.launch(), device=launch.device)], builders.hardware_of, "9.9")
    return KernelFacts(analysis.session.kernels[0], analysis.recorded[0])


def is_close(found: tuple[str, float] | None, name: str, value: float) -> bool:
    return found is not None and found[0] == name and math.isclose(found[1], value)


def test_instructions_are_counted_by_kind() -> None:
    opcodes: Histograms = {WARP_OPCODES: {
        "IMAD.WIDE": 20.0, "LOP3.LUT": 10.0, "FFMA": 30.0, "MUFU.EX2": 5.0, "I2F": 5.0, "LDG.E": 10.0, "SHFL.DOWN": 5.0,
        "BRA": 10.0, "MOV": 5.0,
    }}  # fmt: skip
    # 30 of 100 are integers, 35 floating point.
    assert facts_of(made(histograms=opcodes)).most_instructions is None
    half: Histograms = {WARP_OPCODES: {"LDS.128": 50.0, "STS": 10.0, "FFMA": 40.0}}
    assert is_close(facts_of(made(histograms=half)).most_instructions, "accesses", 0.6)
    assert facts_of(made()).most_instructions is None


def test_issue_slots_limit_if_they_are_the_busiest_part_of_all_units() -> None:
    # 90 % of the slots of 80 % of the cycles.
    slots = (issued(90), ACTIVE)
    assert is_close(facts_of(made(*slots)).other_limit, "issue", 0.72)
    assert is_close(facts_of(made(*slots, busy(dram=60), pipes(alu=50))).other_limit, "issue", 0.72)
    for more in (busy(dram=71), pipes(fma=65), {"sm__cycles_active.avg": 0.6e6}):
        assert facts_of(made(*slots, more)).other_limit is None
    # If it is not known how long the SMs work, the share of all cycles is not known either.
    assert facts_of(made(issued(90), grid=None)).other_limit is None


def test_a_pipe_that_was_not_collected_can_be_busier_than_the_others() -> None:
    every = pipes(alu=54, fma=50, xu=5, fp64=0, tensor=0)
    assert facts_of(made(every)).has_all_pipes
    assert facts_of(made(busy(sm=70), every)).is_known_limit(0.54)
    some = facts_of(made(busy(sm=70), pipes(alu=54, tensor=50)))
    assert not some.has_all_pipes
    # The rest of the SM's 70 % may be the FMA pipe, unless a pipe is well used or as busy as the SM.
    assert not some.is_known_limit(0.54)
    assert some.is_known_limit(0.6)
    assert facts_of(made(busy(sm=58), pipes(alu=57))).is_known_limit(0.57)
    assert not facts_of(made(pipes(alu=54))).is_known_limit(0.54)


def test_pipes_without_a_rule_of_their_own_limit_if_no_other_does() -> None:
    assert is_close(facts_of(made(pipes(adu=66, fp16=62, alu=40))).other_limit, "adu", 0.66)
    for more in (pipes(alu=62), busy(l2=65)):
        assert facts_of(made(pipes(adu=66), more)).other_limit is None
    assert facts_of(made(pipes(adu=58))).other_limit is None


def test_a_busy_sm_has_unknown_parts_unless_one_is_as_busy() -> None:
    assert facts_of(made(busy(sm=70, memory=40))).sm_without_parts == pytest.approx(0.7)
    assert facts_of(made(busy(sm=70), pipes(alu=45, fma=30), issued(50))).sm_without_parts == pytest.approx(0.7)
    for more in (busy(memory=69), pipes(lsu=69), pipes(fma=65)):
        assert facts_of(made(busy(sm=70), more)).sm_without_parts is None
    assert facts_of(made(busy(sm=59))).sm_without_parts is None


def test_fp64_beside_fp32_is_slow_on_gpus_with_few_fp64_units() -> None:
    few: Histograms = {WARP_OPCODES: {"FFMA": 900.0, "DMUL": 30.0}}
    counted = made(lasting(), operations(ffma=9e8, fadd=0, fmul=0), operations(dfma=3e7, dadd=0, dmul=0))
    for launch, expected in (
        (made(histograms=few), True), (counted, True), (made(histograms={WARP_OPCODES: {"FFMA": 9.0}}), False),
        (made(histograms={WARP_OPCODES: {"FFMA": 30.0, "DFMA": 90.0}}), False), (made(pipes(fp64=41)), False),
    ):  # fmt: skip
        assert facts_of(replace(launch, device=RTX_3090)).has_slow_fp64_beside_fp32 is expected
        # An A100 does half as many FP64 as FP32 operations.
        assert not facts_of(launch).has_slow_fp64_beside_fp32
