"""Every rule on launches made by hand: what it says, with which evidence, and on which side of its thresholds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from msgspec import structs

from gpuprof.annotated.counts import EXECUTED
from gpuprof.diagnose import access_shape, level_limits, pipe_limits, wait_findings
from gpuprof.diagnose import thresholds as t
from gpuprof.diagnose.bounds import Saving
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.registry import RULES, rule_named, rule_of
from gpuprof.diagnose.rule import finding
from gpuprof.diagnose.rules import (
    atomic_contention,
    barrier_wait,
    branch_divergence,
    debug_build,
    dram_bandwidth,
    fp32_compute_bound,
    fp64_bound,
    host_memory_traffic,
    integer_bound,
    l1_bandwidth,
    l2_bandwidth,
    latency_bound,
    load_imbalance,
    local_memory_spill,
    narrow_access,
    non_fused_fp,
    old_architecture,
    reduction_tree,
    shared_bank_conflict,
    short_blocks,
    small_grid,
    stores_nothing,
    tensor_cores_idle,
    unaligned_product,
    uncoalesced_global,
)
from gpuprof.diagnose.thresholds import HIGH, LOW, MEDIUM, Threshold
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES, ComputeKey
from gpuprof.model.analyse import analyse
from gpuprof.model.field_types import CONFIDENCES, SEVERITIES, Confidence
from gpuprof.model.occupancy import LIMITERS
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Finding
from gpuprof.words.findings import threshold_text
from gpuprof.words.wording import wording
from tests import builders, hand_made
from tests.kernels import (
    CLOCK,
    DURATION,
    REGISTERS,
    WAVES,
    Histograms,
    Made,
    Program,
    busy,
    coded,
    counted_code,
    issued,
    lasting,
    made,
    operations,
    pipe_metric,
    pipes,
    stall_metric,
    stalls,
)  # fmt: skip
from tests.rule_examples import (
    ACTIVE,
    ACTIVE_L1,
    ALWAYS_ACTIVE,
    DEVICE,
    DEVICE_FILLS,
    EXAMPLES,
    EXCESS,
    FABRIC,
    GEMM_NAME,
    H100,
    HALF_OCCUPANCY,
    HOST,
    HOST_FILLS,
    L2_ATOMICS,
    LOAD_SECTORS,
    LOCAL_LOADS,
    LOCAL_LOADS_RUN,
    LOCAL_STORES,
    LOCAL_STORES_RUN,
    NO_SHARED,
    OF_SEVERAL,
    REPORTED_LIMITS,
    REPORTED_OCCUPANCY,
    REQUESTS,
    SECTORS_OF_LOADS,
    SHARED_4K,
    SHARED_BUSY,
    SHARED_EXCESS,
    SHARED_WAVES,
    STORE_SECTORS,
    THREADS,
    TOTAL,
    WAVEFRONTS,
    Example,
    Judged,
    On,
    active_for,
    half_full,
    of_rule,
    said,
    waiting_for_loads,
    with_bit_work,
)  # fmt: skip
from tests.table import each_row
from tests.worded import diagnose


def named(examples: tuple[Example, ...]) -> list[object]:
    return [pytest.param(example, id=f"{example.rule}: {example.what}") for example in examples]


def example_of(rule: str, what: str) -> Example:
    return next(example for example in EXAMPLES if (example.rule, example.what) == (rule, what))


COMPUTED = ("launch__grid_size", "launch__block_size", REPORTED_OCCUPANCY)
"""Read from the launch itself, or computed from it."""


@each_row("example", named(EXAMPLES))
def test_a_rule_speaks_with_the_gain_worked_out_by_hand(example: Example) -> None:
    finding = said(example.launch, example.rule)
    assert finding.gain_kernel == (pytest.approx(example.gain) if example.gain is not None else None)
    assert (finding.severity, finding.confidence) == (example.severity, example.confidence)
    assert example.says in finding.headline
    texts = f"{finding.headline} {finding.why} {finding.action} {finding.advice}"
    assert not {"None", "nan", "inf"} & set(re.findall(r"\w+", texts))
    others = example.launch.profile().findings
    assert {item.severity for item in others} <= set(SEVERITIES) and {item.confidence for item in others} <= set(
        CONFIDENCES
    )


@each_row("example", named(EXAMPLES))
def test_evidence_rests_on_what_was_recorded_and_holds_it_against_a_threshold(example: Example) -> None:
    evidence = said(example.launch, example.rule).evidence
    values = example.launch.values
    recorded = {*values, *example.launch.histograms}
    assert any(item.metric for item in evidence) and any(item.threshold is not None for item in evidence)
    for item in evidence:
        assert item.unit and item.meaning and math.isfinite(item.value)
        if item.metric in values and (item.unit != "%" or "pct" in item.metric):
            assert item.value == values[item.metric]
        for name in item.metric.split(" + "):
            counter = f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum"
            assert name == "" or name.startswith(COMPUTED) or {name, counter} & recorded


def busy_metric(unit: str) -> str:
    return next(iter(busy(**{unit: 0})))


@each_row(
    ("rule", "what", "metric", "value", "unit", "threshold"),
    [
        ("dram-bandwidth", "busy", busy_metric("dram"), 70, "%", t.BUSY),
        ("l1-bandwidth", "busy", busy_metric("l1"), 85, "%", t.BUSY),
        ("shared-bandwidth", "busy", SHARED_BUSY, 70, "%", t.BUSY),
        ("host-memory-traffic", "a third of the misses", "", 30, "%", host_memory_traffic.HOST_SHARE),
        ("uncoalesced-global", "by excess counters", "", 60, "%", uncoalesced_global.EXCESS),
        (
            "uncoalesced-global",
            "by passes through L1 (basic set)",
            "",
            8,
            "wavefront/request",
            t.MANY_WAVEFRONTS,
        ),
        ("shared-bank-conflict", "by excess wavefronts", "", 40, "%", shared_bank_conflict.CONFLICTS),
        ("shared-bank-conflict", "by the hardware's count", stall_metric("mio_throttle"), 20, "%", None),
        ("local-memory-spill", "by sectors", "", 20, "%", local_memory_spill.SPILL),
        ("narrow-access", "of a byte", WARP_OPCODES, 60, "%", t.NARROW),
        ("atomic-contention", "at L2", L2_ATOMICS, 50, "%", atomic_contention.ATOMICS),
        ("fp64-bound", "pipe full", pipe_metric("fp64"), 80, "%", t.PIPE_BUSY),
        ("fp64-bound", "by divisions", WARP_OPCODES, 35, "%", None),
        ("fp32-compute-bound", "near its ceiling", pipe_metric("fma"), 85, "%", t.PIPE_BUSY),
        ("tensor-cores-idle", "a product by name", "", 1600, "%", tensor_cores_idle.FASTER),
        ("non-fused-fp", "FP32", "", 20, "%", non_fused_fp.NON_FUSED),
        ("small-grid", "by waves", WAVES, 0.4, "wave", small_grid.NEARLY_FULL),
        ("tail-effect", "2.2 waves", "", 100 / 3, "%", t.TAIL_SHARE),
        ("block-size", "of 40 threads", "", 37.5, "%", t.EMPTY_LANES),
        ("block-size", "of one warp", REPORTED_OCCUPANCY, 50, "%", t.FULL),
        ("short-blocks", "half of the places", "", 625, "cycle", t.SHORT_BLOCK),
        ("load-imbalance", "of SMs", "", 30, "%", t.IMBALANCE),
        ("low-occupancy", "starved", REPORTED_OCCUPANCY, 50, "%", t.FULL),
        ("short-kernel", "4 µs", DURATION, 4e-6, "s", t.SHORT),
        ("memory-latency", "long scoreboard", stall_metric("long_scoreboard"), 40, "%", t.DOMINANT),
        ("dependency-latency", "wait", stall_metric("wait"), 50, "%", t.DOMINANT),
        ("barrier-wait", "barrier", stall_metric("barrier"), 25, "%", t.NOTABLE),
        ("branch-divergence", "half a warp", THREADS, 16, "thread", branch_divergence.THREADS),
        ("latency-bound", "with a stall", "", 30, "%", wait_findings.LATENCY_BOUND),
    ],
)
def test_evidence_is_the_number_that_decides(
    rule: str, what: str, metric: str, value: float, unit: str, threshold: Threshold | None
) -> None:
    evidence = [item for item in said(example_of(rule, what).launch, rule).evidence if math.isclose(item.value, value)]
    assert (metric, unit) in [(item.metric if metric else "", item.unit) for item in evidence]
    if threshold is not None:
        assert (unit, threshold.value) in [(item.unit, item.threshold) for item in evidence]


def test_every_rule_has_an_example_and_is_tried_without_what_it_looks_at() -> None:
    of_one = {rule.id for rule in RULES} - OF_SEVERAL
    assert {example.rule for example in EXAMPLES} == of_one
    # Local memory is tried below: its metrics are sums. Unaligned operands need no metric: names show them.
    assert {example.rule for example in EXAMPLES if example.needs} == of_one - {
        "local-memory-spill",
        "unaligned-product",
    }


@each_row(
    ("example", "need"),
    [
        pytest.param(example, need, id=f"{example.rule}: {example.what}: {need}")
        for example in EXAMPLES
        for need in example.needs
    ],
)
def test_a_rule_is_silent_without_its_metric(example: Example, need: str) -> None:
    # Waves also follow from the registers.
    left = example.launch.without(need, *((REGISTERS,) if need == WAVES else ())).findings(example.rule)
    # Without any pipe, the busy SM is still reported, as a guess.
    assert [item for item in left if item.confidence != "guess" or "not collected" not in item.headline] == []


def test_what_was_not_collected_or_is_zero_is_no_defect() -> None:
    assert made(grid=None, block=None).profile().findings == ()
    # What ran has a duration, a clock, waves and warps: two waves of 8 blocks on 108 SMs.
    names = {name for example in EXAMPLES for name in example.launch.values} - {DURATION, CLOCK, WAVES, ACTIVE}
    zeros = made(dict.fromkeys(names, 0.0), lasting(), grid=(1728, 1, 1))
    assert {item.rule for item in zeros.profile().findings} <= {"latency-bound"}


# Thresholds: each decides where its rule says so, whatever its value.

Told = Callable[[list[Finding]], bool]


@dataclass(frozen=True, slots=True)
class Edge:
    """Launches on the two sides of a threshold: `above` tells on which of them `told` holds."""

    rule: str
    threshold: Threshold
    at: Callable[[float], Judged]
    told: Told = bool
    above: bool = True


def having(**attributes: str) -> Told:
    """Return whether there is exactly one finding, with these attributes."""
    return lambda findings: [all(getattr(item, n) == v for n, v in attributes.items()) for item in findings] == [True]


def action(text: str) -> Told:
    """Return whether there is exactly one finding, and its action contains this."""
    return lambda findings: [text in item.action for item in findings] == [True]


def why(text: str) -> Told:
    """Return whether there is exactly one finding, and its reason contains this."""
    return lambda findings: [text in item.why for item in findings] == [True]


SETTLED, GUESS, INFERRED = having(severity="info"), having(confidence="guess"), having(confidence="inferred")


def shows_the_wait(findings: list[Finding]) -> bool:
    return stall_metric("mio_throttle") in [item.metric for item in findings[0].evidence]


def counts_all_warps(findings: list[Finding]) -> bool:
    return (findings[0].gain_kernel or 0) > 0.61


def lanes_apart(distance: str, *loads: str) -> Made:
    """Loads of 32 sectors a request, of which 28 are excess, by lanes so far apart."""
    address = ("S2R R0, SR_TID.X", 0.0, 0.0), (f"IMAD R4, R0, {distance}, R2", 0.0, 0.0)
    return counted_code(*address, *((load, 32e3, 28e3) for load in loads), ("EXIT", 0.0, 0.0))


def pipe_edges(rule: str, pipe: str) -> tuple[Edge, ...]:
    other = "alu" if pipe != "alu" else "fma"
    return (
        Edge(rule, t.PIPE_BUSY, lambda value: made(pipes(**{pipe: value, other: 10}))),
        Edge(rule, t.SM_PIPE, lambda value: made(pipes(**{pipe: value, other: 10}), busy(sm=70))),
        throttle_edge(rule, pipe),
    )


def throttle_edge(rule: str, pipe: str) -> Edge:
    other = "alu" if pipe != "alu" else "fma"
    at = made(pipes(**{pipe: 45, other: 10}), issued(30))
    return Edge(rule, t.THROTTLED, lambda value: at.plus(stalls(math_pipe_throttle=value)))


def wait_edges(rule: str, reason: str, threshold: Threshold) -> tuple[Edge, ...]:
    return (
        Edge(rule, threshold, lambda value: made(stalls(**{reason: value}), issued(20))),
        Edge(rule, wait_findings.ISSUES_OFTEN, lambda value: made(stalls(**{reason: 50}), issued(value)), above=False),
    )


def fused(share_alone: float) -> Made:
    """Arithmetic of which that share stands alone."""
    return made(pipes(fma=80), operations(ffma=1 - share_alone, fadd=share_alone, fmul=0))


def product(percent_of_peak: float) -> Made:
    """Fused multiply-adds at that percentage of the FP32 peak of 13.824 TFLOP/s, for 1 ms."""
    ffma = 13.824e9 / 2 * percent_of_peak / 100
    return made(pipes(tensor=0), lasting(), operations(ffma=ffma, fadd=0, fmul=0))


def partly_fused(percent: float) -> Made:
    """As many thread instructions as half of the peak needs if fused, of which that percentage is."""
    values = operations(ffma=6e9 * percent / 100, fadd=6e9 * (1 - percent / 100), fmul=0)
    return made(pipes(tensor=0), lasting(), values)


def partly_outer_products(percent: float) -> Made:
    """A loop of 100 instructions a round: that many of them in an outer product of 2 × 2, the others additions."""
    tile = ["LDS.64 R20, [R40]", "LDS.64 R22, [R41]"]
    sums = [f"FFMA R{2 * i + j}, R{20 + i}, R{22 + j}, R{2 * i + j}" for i in range(2) for j in range(2)]
    runs = [(text, 1e6) for text in tile] + [(text, 250.0 * percent) for text in sums]
    return coded(*runs, ("FADD R30, R30, R31", 1000.0 * (100 - percent))).plus(pipes(tensor=0, fma=70), lasting())


def full_fma(percent: float, work: float) -> Made:
    """An FMA pipe that busy, with that percentage of the FP32 peak of 13.824 TFLOP/s."""
    return made(pipes(fma=percent, alu=10), lasting(), operations(ffma=13.824e9 / 2 * work / 100, fadd=0, fmul=0))


@dataclass(frozen=True, slots=True)
class ByTensorRate:
    """A matrix product on a GPU whose tensor cores have that percentage of FP32's rate."""

    percent: float

    def findings(self, rule: str) -> list[Finding]:
        hardware = builders.a100()
        plain = hardware.rates[ComputeKey("fp32")]
        key = ComputeKey("tensor.bf16", "fp32", "mma.sync")
        rates = {ComputeKey("fp32"): plain, key: structs.replace(plain, value=plain.value * self.percent / 100)}
        report = builders.report(product(50).launch())
        (kernel,) = diagnose(analyse([report], lambda _: structs.replace(hardware, rates=rates), "9.9")).kernels
        return of_rule(rule, kernel.findings)


SMALL_BLOCKS = made({REGISTERS: 32.0, WAVES: 8.0}, busy(sm=20), issued(20), stalls(wait=60), block=(32, 1, 1))
"""32 blocks of one warp are all that an SM takes, and half of its warps."""
SHORT_BLOCKS = made({REGISTERS: 32.0, ACTIVE: 50.0, WAVES: 8.0, "sm__cycles_active.avg": 1e4}, busy(sm=20),
                    grid=(6912, 1, 1))  # fmt: skip
"""An SM runs 64 blocks of 8 warps, 4 at a time: one lives for 625 cycles."""


def self_moves(percent: float) -> Made:
    """Code of which that share moves a register onto itself."""
    moves = round(1000 * percent)
    sass = ["@P0 MOV R4, R4"] * moves + ["MOV R4, R5"] * (100_000 - moves)
    code = tuple(ProfiledInstruction(place, text, None, None, {EXECUTED: 1.0}) for place, text in enumerate(sass))
    return made(histograms={EXECUTED: {0: 1.0}}, details=Program(code))


def mma_sync(percent: float) -> Made:
    """A kernel on an H100 whose tensor pipe is that busy with mma.sync."""
    histograms: Histograms = {WARP_OPCODES: {"HMMA.16816.F32": 1e6}}
    return replace(made(pipes(tensor=percent), histograms=histograms), device=H100)


def tree(adding: float = 20.0, steps: float = 9.0, barriers: float = 8.0) -> Made:
    """A block of 8 warps in which that share of the threads at a barrier has added."""
    passes = 8 * steps
    histograms: Histograms = {
        THREAD_OPCODES: {"BAR": 32 * passes, "STS": 32 * passes * adding / 100, "LDS": 32 * passes * adding / 100},
        WARP_OPCODES: {"BAR.SYNC": passes, "IMAD": passes * (100 - barriers) / barriers},
    }
    return made(stalls(barrier=30), issued(20), histograms=histograms, grid=(1, 1, 1))


def full_slots(percent: float) -> Made:
    """A launch that uses 70 % of its issue slots, that percentage of them for integers."""
    histograms: Histograms = {WARP_OPCODES: {"IADD3": percent, "FFMA": (100 - percent) / 2, "LDS": (100 - percent) / 2}}
    return made(issued(70), ALWAYS_ACTIVE, busy(dram=20), histograms=histograms)


EDGES = (
    Edge("dram-bandwidth", t.BUSY, lambda value: made(busy(dram=value, l2=10))),
    Edge("dram-bandwidth", t.NEAR_ROOF, lambda value: made(busy(dram=value, l2=10)), SETTLED),
    Edge("integer-bound", integer_bound.DATA_WORK, with_bit_work, action("hash")),
    Edge("dram-bandwidth", t.DOMINANT, lambda value: made(busy(dram=70, l2=10, l1=9), stalls(long_scoreboard=value)),
         lambda findings: findings[0].confidence == "measured"),
    # While SMs have work, which is 80 % of the time.
    Edge("dram-bandwidth", dram_bandwidth.WORKING, lambda value: made(
         busy(dram=0.8 * value, l2=10), active_for(80), {WAVES: 8.0}), why("While SMs have work")),
    Edge("dram-bandwidth", t.QUEUED, waiting_for_loads, action("fewer bytes")),
    Edge("dram-bandwidth", level_limits.BALANCED, lambda value: made(busy(dram=65, l2=10, sm=65 + value)), above=False),
    Edge("l2-bandwidth", level_limits.BALANCED, lambda value: made(busy(dram=10, l2=65, sm=65 + value)), above=False),
    Edge("l2-bandwidth", t.BUSY, lambda value: made(busy(dram=10, l2=value))),
    Edge("l2-bandwidth", l2_bandwidth.FABRIC_FULL, lambda value: made(busy(dram=10), {FABRIC: value})),
    Edge("l1-bandwidth", t.BUSY, lambda value: made(busy(dram=10, l1=value))),
    Edge("l1-bandwidth", t.NEAR_ROOF, lambda value: made(
         {ACTIVE_L1: value, "sm__cycles_active.avg": 5e5, "gpc__cycles_elapsed.max": 1e6},
         busy(sm=20, memory=value / 2, dram=5, l2=10), SHARED_4K)),
    Edge("l1-bandwidth", t.MANY_WAVEFRONTS,
         lambda value: made(busy(l1=80), SHARED_4K, {WAVEFRONTS: 10 * value, REQUESTS: 10.0}), why("bank conflicts")),
    Edge("l1-bandwidth", level_limits.WIDE_PASSES,
         lambda value: made(busy(l1=90, sm=90 / value, memory=90, dram=1, l2=40), NO_SHARED), action("coalescing")),
    Edge("l1-bandwidth", l1_bandwidth.WIDE_SECTORS,
         lambda value: made(busy(l1=90), NO_SHARED, {SECTORS_OF_LOADS: value}), action("coalescing")),
    Edge("l1-bandwidth", t.EMPTY_SLOTS, lambda value: made(busy(dram=10, l1=70), {WAVES: 1.0 - value / 100}),
         above=False),
    Edge("shared-bandwidth", t.BUSY, lambda value: made({SHARED_BUSY: value})),
    Edge("host-memory-traffic", host_memory_traffic.HOST_FILL,
         lambda value: made({HOST_FILLS: value, DEVICE_FILLS: 0.0})),
    Edge("host-memory-traffic", host_memory_traffic.HOST_SHARE, lambda value: made({HOST: value, DEVICE: 100 - value})),
    Edge("uncoalesced-global", uncoalesced_global.EXCESS, lambda value: made({TOTAL: 100.0, EXCESS: value})),
    Edge("uncoalesced-global", t.MANY_WAVEFRONTS,
         lambda value: made(busy(memory=80), {WAVEFRONTS: 80.0, REQUESTS: 80 / value}, NO_SHARED)),
    Edge("uncoalesced-global", access_shape.SHIFTED,
         lambda value: made({TOTAL: 100.0, EXCESS: value}), action("32 bytes"), above=False),
    # Bytes that a thread reads one at a time, in a row of a length that the code does not know.
    Edge("uncoalesced-global", access_shape.WIDE, lambda value: lanes_apart(
         "c[0x0][0x168]", *(f"LDG.E.U8 R6, [R4.64+{at:#x}]" for at in range(math.floor(value)))),
         action("wide access")),
    Edge("uncoalesced-global", access_shape.LINE, lambda value: lanes_apart(
         hex(math.ceil(value)), "LDG.E R6, [R4.64]", "LDG.E R7, [R4.64+0x8]"), action("SoA"), above=False),
    # Of the other load nothing tells where it leads.
    Edge("uncoalesced-global", access_shape.MOST, lambda value: counted_code(
         ("S2R R0, SR_TID.X", 0, 0), ("IMAD R4, R0, c[0x0][0x168], R2", 0, 0), ("LDG.E R6, [R4.64]", 100, value),
         ("LDG.E R7, [R8.64]", 100, 100 - value), ("EXIT", 0, 0)),
         lambda findings: findings[0].cases.why == ("stride",)),
    Edge("shared-bank-conflict", shared_bank_conflict.CONFLICTS,
         lambda value: made({SHARED_WAVES: 100.0, SHARED_EXCESS: value})),
    Edge("local-memory-spill", local_memory_spill.SPILL, lambda value: made(
         {LOCAL_LOADS: value, LOCAL_STORES: 0, LOAD_SECTORS: 100 - value, STORE_SECTORS: 0})),
    Edge("local-memory-spill", local_memory_spill.RARE, lambda value: made(
         {LOCAL_LOADS: 50.0, LOCAL_STORES: 0, LOAD_SECTORS: 50.0, STORE_SECTORS: 0},
         {LOCAL_LOADS_RUN: value, LOCAL_STORES_RUN: 0.0, "smsp__inst_executed.sum": 100.0})),
    Edge("narrow-access", t.NARROW, lambda value: made(
         stalls(lg_throttle=40), histograms={WARP_OPCODES: {"LDG.E.U8": value, "LDG.E.128": 100 - value}})),
    Edge("narrow-access", t.BUSY, lambda value: made(
         {REQUESTS: value}, histograms={WARP_OPCODES: {"LDG.E.U8": 10.0}})),
    Edge("narrow-access", narrow_access.NARROW_PRESSURE, lambda value: made(
         stalls(lg_throttle=value), histograms={WARP_OPCODES: {"LDG.E": 10.0}})),
    Edge("atomic-contention", atomic_contention.ATOMICS, lambda value: made({L2_ATOMICS: value})),
    Edge("fp64-bound", t.PIPE_BUSY, lambda value: made(pipes(fp64=value, alu=10))),
    Edge("fp64-bound", fp64_bound.FP64,
         lambda value: made(lasting(), operations(dfma=6.912e9 / 2 * value / 100, dadd=0, dmul=0))),
    Edge("fp64-bound", fp64_bound.BESIDE_FP32, lambda value: On(made(
         pipes(fp64=value, alu=10), histograms={WARP_OPCODES: {"FFMA": 900.0, "DMUL": 30.0}}),
         "NVIDIA GeForce RTX 3090", "8.6", 82)),
    throttle_edge("fp64-bound", "fp64"),
    Edge("fp64-bound", t.SM_PIPE, lambda value: made(pipes(fp64=value, alu=10), busy(sm=70))),
    *pipe_edges("fp32-compute-bound", "fma"),
    Edge("fp32-compute-bound", t.PIPE_NEAR_ROOF, lambda value: full_fma(value, 70), SETTLED),
    Edge("fp32-compute-bound", fp32_compute_bound.ROOF_WORK, lambda value: full_fma(90, value), SETTLED),
    *pipe_edges("integer-bound", "alu"),
    Edge("integer-bound", t.MOST_INSTRUCTIONS, full_slots),
    Edge("issue-bound", t.PIPE_BUSY, lambda value: made(issued(value), ALWAYS_ACTIVE, busy(dram=20))),
    Edge("issue-bound", t.PIPE_BUSY, lambda value: made(pipes(adu=value, alu=10), busy(dram=20))),
    Edge("issue-bound", t.PIPE_NEAR_ROOF, lambda value: made(issued(value), ALWAYS_ACTIVE, busy(dram=20)), SETTLED),
    Edge("issue-bound", t.MOST_INSTRUCTIONS, full_slots, above=False),
    *pipe_edges("special-function-bound", "xu"),
    *pipe_edges("tensor-compute-bound", "tensor"),
    Edge("tensor-compute-bound", t.PIPE_NEAR_ROOF, lambda value: made(pipes(tensor=value, alu=10)), SETTLED),
    # One instruction in so many cycles of the SM, which is 90 % busy.
    Edge("tensor-compute-bound", pipe_limits.SCALAR_CYCLES, lambda value: made(
         busy(sm=90, memory=20), issued(90 / value), {"sm__cycles_active.avg": 1e6, "sm__cycles_elapsed.max": 1e6})),
    Edge("tensor-cores-idle", t.FMA_WORK, product),
    Edge("tensor-cores-idle", tensor_cores_idle.FUSED_SHARE, partly_fused),
    Edge("tensor-cores-idle", tensor_cores_idle.OUTER_PRODUCTS, partly_outer_products),
    Edge("tensor-cores-idle", tensor_cores_idle.MULTIPLIES, lambda value: made(
         pipes(tensor=0), lasting(), name="my_gemm", histograms={WARP_OPCODES: {"FFMA": value, "IMAD": 100 - value}})),
    Edge("tensor-cores-idle", tensor_cores_idle.SOME_WORK, lambda value: replace(product(value), name="my_gemm")),
    # No pipe is known.
    Edge("tensor-cores-idle", t.PIPE_BUSY,
         lambda value: made(busy(sm=value), lasting(), name="ampere_sgemm_128x64_nn"), having(severity="high")),
    Edge("tensor-cores-idle", tensor_cores_idle.FASTER, ByTensorRate),
    # Half of what stands alone could go.
    Edge("non-fused-fp", non_fused_fp.NON_FUSED, lambda value: fused(2 * value / 100)),
    Edge("non-fused-fp", non_fused_fp.NEVER_FUSED, lambda value: fused(1 - value / 100), GUESS),
    Edge("small-grid", small_grid.NEARLY_FULL, lambda value: made({WAVES: value}, grid=(200, 1, 1)), above=False),
    # One block for each of 90 % of 1000 SMs.
    Edge("small-grid", small_grid.NEARLY_FULL, lambda value: replace(
         made({WAVES: 0.95}, grid=(round(1000 * value), 1, 1)), device=structs.replace(builders.A100, sm_count=1000)),
         above=False),
    Edge("small-grid", t.STARVED_ISSUE,
         lambda value: made({WAVES: 0.7}, issued(value), busy(sm=30), grid=(200, 1, 1)), GUESS),
    Edge("small-grid", t.STARVED_ISSUE,
         lambda value: made({WAVES: 0.7}, issued(30), busy(sm=value), grid=(200, 1, 1)), GUESS),
    Edge("small-grid", t.FEW_WARPS, lambda value: made(
         {WAVES: 0.4, REPORTED_OCCUPANCY: value}, REPORTED_LIMITS, busy(sm=5), grid=(200, 1, 1)), counts_all_warps,
         above=False),
    # What takes as long as a kernel that does nothing has no use for a larger grid.
    Edge("small-grid", t.NOTHING, lambda value: made({WAVES: 0.2}, lasting(value), grid=(20, 1, 1)),
         SETTLED, above=False),
    Edge("small-grid", t.LAUNCH_ALONE, lambda value: made(
         {WAVES: 0.2, "sm__cycles_active.max": 1e4 * (1 - value / 100), "sm__cycles_elapsed.max": 1e4}, lasting(4e-6),
         grid=(20, 1, 1)), SETTLED),
    # The last of so many rounds takes that share of the time.
    Edge("tail-effect", t.TAIL_SHARE, lambda value: made({WAVES: math.ceil(100 / value) - 0.5})),
    Edge("tail-effect", t.TAIL_SLACK, lambda value: made(
         {WAVES: 1.5, "sm__cycles_active.max": 100.0, "sm__cycles_active.avg": 75 - value - 1e-9}), INFERRED),
    Edge("load-imbalance", load_imbalance.RAMP, lambda value: made(
         {"sm__cycles_active.max": 100.0, "sm__cycles_active.avg": 75.0}, lasting(4 * value))),
    # A full SM that runs 64 blocks of 8 warps holds 8 of them.
    Edge("load-imbalance", t.SHORT_BLOCK, lambda value: made(
         {REGISTERS: 32.0, ACTIVE: 100.0, "sm__cycles_active.max": 9.5 * value, "sm__cycles_active.avg": 8 * value},
         grid=(6912, 1, 1))),
    Edge("block-size", t.EMPTY_LANES, lambda value: made(
         busy(sm=30), {THREADS: 32 * (1 - value / 100)}, block=(40, 1, 1))),
    Edge("block-size", t.STARVED_ISSUE, lambda value: SMALL_BLOCKS.plus(issued(value)), above=False),
    Edge("block-size", t.TAKEN, lambda value: SMALL_BLOCKS.plus({ACTIVE: value / 2})),
    Edge("block-size", t.COVERED, lambda value: SMALL_BLOCKS.plus(stalls(wait=value))),
    Edge("short-blocks", t.SHORT_BLOCK, lambda value: SHORT_BLOCKS.plus({"sm__cycles_active.avg": 16 * value}),
         above=False),
    Edge("short-blocks", t.OCCUPANCY_GAP, lambda value: SHORT_BLOCKS.plus({ACTIVE: 100 - value})),
    # 6912 blocks of 8 warps, each with an access or none.
    Edge("short-blocks", short_blocks.EXITS, lambda value: replace(SHORT_BLOCKS, histograms={
         WARP_OPCODES: {"LDG.E": 55296 * (1 - value / 100), "EXIT": 55296.0}}), action("have work")),
    Edge("short-blocks", t.STARVED_ISSUE, lambda value: SHORT_BLOCKS.plus(issued(value)), GUESS),
    # A block on each of half of the SMs: one with a block is idle for 1 − active ÷ half of the time.
    Edge("shared-bank-conflict", shared_bank_conflict.CONFLICTS_A_WARP, lambda value: made(
         {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 864 * value}, grid=(108, 1, 1))),
    Edge("load-imbalance", load_imbalance.UNEVEN_BLOCKS, lambda value: made(lasting(1e-4), {WAVES: 0.1,
         "sm__cycles_active.avg": 500 * (1 - value / 100), "sm__cycles_elapsed.max": 1000.0}, grid=(54, 1, 1))),
    Edge("load-imbalance", t.IMBALANCE,
         lambda value: made({"sm__cycles_active.max": 100.0, "sm__cycles_active.avg": 100 - value})),
    # 1.5 waves leave the SMs idle for a quarter of the time.
    Edge("load-imbalance", t.TAIL_SLACK, lambda value: made(
         {WAVES: 1.5, "sm__cycles_active.max": 100.0, "sm__cycles_active.avg": 75 - value - 1e-9})),
    Edge("load-imbalance", t.OCCUPANCY_GAP, lambda value: made(HALF_OCCUPANCY, {ACTIVE: 50 - value, WAVES: 8.0})),
    Edge("low-occupancy", t.FULL, lambda value: made({REPORTED_OCCUPANCY: value}, REPORTED_LIMITS), above=False),
    Edge("low-occupancy", t.QUEUED, half_full, SETTLED),
    Edge("low-occupancy", t.USED_DRAM, lambda value: half_full(1600, dram=value), SETTLED),
    Edge("low-occupancy", t.STARVED_ISSUE,
         lambda value: made(HALF_OCCUPANCY, {WAVES: 8.0}, issued(value), busy(sm=30), stalls(wait=60)), SETTLED),
    Edge("low-occupancy", t.COVERED, lambda value: made(
         HALF_OCCUPANCY, {WAVES: 8.0}, issued(30), busy(sm=30), stalls(wait=value)), SETTLED, above=False),
    Edge("low-occupancy", t.TAKEN, lambda value: made(
         HALF_OCCUPANCY, {ACTIVE: value / 2}, issued(30), busy(sm=30), stalls(wait=60)), SETTLED, above=False),
    Edge("short-kernel", t.SHORT, lambda value: made(lasting(value)), above=False),
    *wait_edges("memory-latency", "long_scoreboard", t.DOMINANT),
    Edge("memory-latency", wait_findings.LATENCY_BOUND,
         lambda value: made(stalls(long_scoreboard=50), issued(20), busy(dram=value)), SETTLED),
    *wait_edges("dependency-latency", "wait", t.DOMINANT),
    Edge("dependency-latency", wait_findings.LATENCY_BOUND,
         lambda value: made(stalls(wait=50), issued(20), busy(sm=value)), SETTLED),
    Edge("barrier-wait", barrier_wait.ALONE, lambda value: made(
         {REGISTERS: 64.0}, stalls(barrier=value), issued(20), block=(1024, 1, 1))),
    *wait_edges("barrier-wait", "barrier", t.NOTABLE),
    *wait_edges("instruction-fetch", "no_instruction", t.NOTABLE),
    Edge("instruction-fetch", wait_findings.START_UP, lambda value: made(
         stalls(no_instruction=25), issued(20), lasting(4 * value)), SETTLED, above=False),
    *wait_edges("constant-miss", "imc_miss", t.NOTABLE),
    Edge("constant-miss", wait_findings.START_UP, lambda value: made(
         stalls(imc_miss=25), issued(20), lasting(4 * value)), SETTLED, above=False),
    Edge("stores-nothing", stores_nothing.WRITING, lambda value: made(
         lasting(), histograms={WARP_OPCODES: {"STG.E": value, "LDG.E": 9.0}}, name=GEMM_NAME), above=False),
    Edge("debug-build", debug_build.SELF_MOVES, self_moves),
    Edge("debug-build", debug_build.MOVES,
         lambda value: made(histograms={WARP_OPCODES: {"MOV": value, "FADD": 100 - value}})),
    Edge("old-architecture", old_architecture.OLD_BUSY, mma_sync, GUESS, above=False),
    Edge("old-architecture", old_architecture.OLD_USED, mma_sync),
    Edge("reduction-tree", reduction_tree.ADDING, lambda value: tree(adding=value), above=False),
    Edge("reduction-tree", reduction_tree.STEPS, lambda value: tree(steps=value)),
    Edge("reduction-tree", t.BARRIERS, lambda value: tree(barriers=value)),
    Edge("reduction-tree", t.NOTABLE, lambda value: tree().plus(stalls(barrier=value))),
    Edge("branch-divergence", branch_divergence.THREADS, lambda value: made({THREADS: value}), above=False),
    Edge("branch-divergence", branch_divergence.UNIFORM, lambda value: made(
         {THREADS: 8.0, "smsp__sass_average_branch_targets_threads_uniform.pct": value}), action("longest part")),
    Edge("latency-bound", wait_findings.LATENCY_BOUND, lambda value: made(busy(sm=value, memory=10)), above=False),
    Edge("unaligned-product", unaligned_product.ALIGNMENT,
         lambda value: made(busy(dram=20), name=f"cutlass_80_tensorop_s16816gemm_f16_128x64_tn_align{int(value) // 2}"),
         above=False),
    Edge("latency-bound", t.DOMINANT,
         lambda value: made(busy(sm=20, memory=10), issued(20), stalls(mio_throttle=value)), shows_the_wait),
    Edge("latency-bound", t.SLOWER_THAN_LOADS,
         lambda value: made(busy(sm=value, memory=1), {WAVES: 16.0}), action("polling"), above=False),
    Edge("latency-bound", latency_bound.MANY_WAVES,
         lambda value: made(busy(sm=1, memory=1), {WAVES: value}), action("polling")),
    # An SM that runs 64 blocks of 8 warps holds 4 of them, then 8 less some: `short-blocks` reports it.
    Edge("latency-bound", t.SHORT_BLOCK, lambda value: made(
         {REGISTERS: 32.0, ACTIVE: 50.0, "sm__cycles_active.avg": 16 * value}, busy(sm=20, memory=10), issued(70),
         stalls(wait=20), grid=(6912, 1, 1))),
    Edge("latency-bound", t.OCCUPANCY_GAP, lambda value: made(
         {REGISTERS: 32.0, ACTIVE: 100 - value, "sm__cycles_active.avg": 1e3}, busy(sm=20, memory=10), issued(70),
         stalls(wait=20), grid=(6912, 1, 1)), above=False),
)  # fmt: skip


@each_row(
    "edge", [pytest.param(edge, id=f"{edge.rule}: {edge.threshold.name} {edge.threshold.value:g}") for edge in EDGES]
)
def test_a_threshold_decides_just_on_each_side_of_it(edge: Edge) -> None:
    below, above = (edge.at(edge.threshold.value * side).findings(edge.rule) for side in (0.999, 1.001))
    assert (edge.told(below), edge.told(above)) == (not edge.above, edge.above)


def test_every_threshold_is_tried_on_both_sides() -> None:
    tried = {(edge.rule, edge.threshold) for edge in EDGES}
    rules = [rule for rule in RULES if rule.id not in OF_SEVERAL]
    assert {(rule.id, threshold) for rule in rules for threshold in rule.thresholds} <= tried
    for name in ("fp64", "fp32-compute", "integer", "special-function", "tensor-compute"):
        pipe_rule = rule_named(f"{name}-bound")
        assert pipe_rule is not None
        assert {t.PIPE_BUSY, t.SM_PIPE, t.THROTTLED} <= set(pipe_rule.thresholds)


def test_rules_have_unique_ids_and_thresholds_with_units() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) and rule_named("no-such-rule") is None
    # A finding of another version counts as a plain defect.
    unknown = rule_of(hand_made.finding("no-such-rule"))
    assert (unknown.kind, unknown.invalidates, unknown.of_run) == ("defect", "", False)
    for rule in RULES:
        assert rule_named(rule.id) is rule
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.id)
        assert rule.kind in ("defect", "limit", "symptom")
        known = wording(rule.id)
        assert known.inputs and known.gain and known.limitations
        assert rule.thresholds and all(item.name and item.unit for item in rule.thresholds)
        assert all(threshold_text(item, rule.id).reason for item in rule.thresholds)
    assert all(rule.by_times and not rule.metrics for rule in RULES if rule.of_run)


def test_every_limiter_of_occupancy_has_a_change() -> None:
    cases, known = {name.replace(" ", "-") for name in LIMITERS}, wording("low-occupancy")
    assert cases <= set(known.action) and cases <= set(known.advice)


# Severity.


def found(saving: Saving | None, share: float | None = 0.5, **options: Any) -> Finding:
    case = KernelFacts(hand_made.kernel(0), cast("Any", None), run_share=share)
    return finding(case, confidence=options.pop("confidence", "measured"), evidence=(), saving=saving, **options)


@each_row(
    ("gain", "confidence", "severity"),
    [
        (HIGH, "measured", "high"),
        (HIGH - 0.001, "measured", "medium"),
        (MEDIUM - 0.001, "inferred", "low"),
        (LOW - 0.001, "measured", "info"),
        (None, "measured", "info"),
        (0.9, "guess", "low"),
    ],
)
def test_severity_follows_gain_and_confidence(gain: float | None, confidence: Confidence, severity: str) -> None:
    saving = Saving(gain) if gain is not None else None
    assert found(saving, confidence=confidence).severity == severity
    assert found(saving, confidence=confidence, severity="info").severity == "info"


def test_a_gain_is_a_fraction_of_the_time_and_of_the_run() -> None:
    for gain, kept in ((1.7, 1.0), (-0.2, 0.0), (0.4, 0.4)):
        for saving in (Saving(1.0).no_more_than(gain), Saving(1.0).if_held(gain, "the rest")):
            made = found(saving)
            assert (made.gain_kernel, made.gain_total) == (kept, kept * 0.5)
    unknown = found(Saving(0.4), None)
    assert (unknown.gain_kernel, unknown.gain_total) == (0.4, None)
