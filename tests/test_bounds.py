"""What holds of every finding, whatever the launch: gains are fractions, grow with the waste, rest on what is there.

Launches are drawn from the metrics that the rules read, each there or not. Numbers that the hardware ties together are
drawn so: memory is as busy as the busiest of its levels, and excess is a part of all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuprof.diagnose.calibration import expected_saving
from gpuprof.diagnose.causes import CAUSES
from gpuprof.diagnose.ranking import about, is_at_limit
from gpuprof.diagnose.registry import RULES, rule_named
from gpuprof.diagnose.thresholds import LOW
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.session import Finding, Session
from tests.kernels import (
    CLOCK,
    DURATION,
    REGISTERS,
    WAVES,
    Made,
    Values,
    busy,
    issued,
    lasting,
    made,
    operations,
    pipes,
    session,
    stalls,
)
from tests.table import each_row

EXACT = 1e-9
"""What adding shares up can round."""
SMS = 108
"""Of the A100 that every hand-made launch ran on."""

STALLED = (
    "long_scoreboard", "lg_throttle", "tex_throttle", "drain", "short_scoreboard", "mio_throttle", "barrier", "membar",
    "wait", "no_instruction", "branch_resolving", "imc_miss", "math_pipe_throttle", "not_selected",
)  # fmt: skip
PIPES = ("fma", "alu", "fp64", "tensor", "xu")
"""Without the load/store pipe, which is a part of L1."""
OPCODES = ("LDG.E", "LDG.E.128", "STG.E.U8", "FFMA", "IMAD", "DFMA", "MOV", "LD.E")
EXCESS, TOTAL = "derived__memory_l2_theoretical_sectors_global_excessive", "memory_l2_theoretical_sectors_global"
SHARED_EXCESS, SHARED_WAVES = "derived__memory_l1_wavefronts_shared_excessive", "memory_l1_wavefronts_shared"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
SHARED_PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
SHARED_BUSY = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
LOCAL, GLOBAL = (f"l1tex__t_sectors_pipe_lsu_mem_{what}_op_ld.sum" for what in ("local", "global"))
LOCAL_STORES, GLOBAL_STORES = (f"l1tex__t_sectors_pipe_lsu_mem_{what}_op_st.sum" for what in ("local", "global"))
HOST, DEVICE = (f"lts__t_sectors_srcunit_tex_aperture_{what}_lookup_miss.sum" for what in ("sysmem", "device"))
L2_ATOMICS = "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed"
THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
OCCUPIED = "sm__warps_active.avg.pct_of_peak_sustained_active"
ELIGIBLE = "smsp__warps_eligible.avg.per_cycle_active"
BUSIEST_SM, AVERAGE_SM, ELAPSED = "sm__cycles_active.max", "sm__cycles_active.avg", "sm__cycles_elapsed.max"
DRAM_BYTES = "dram__bytes.sum"
SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
REQUESTS = "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"
PASSES = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"

percents = st.one_of(st.just(0.0), st.floats(1, 100))
parts = st.floats(0, 1)


@st.composite
def lights(draw: st.DrawFn) -> Values:
    """Speed of light of some units; memory is as busy as its busiest level."""
    levels = {level: draw(percents) for level in ("dram", "l2", "l1")}
    kept = {level: value for level, value in levels.items() if draw(st.booleans())}
    values = busy(**kept)
    if draw(st.booleans()):
        values |= busy(memory=max(levels.values()))
    if draw(st.booleans()):
        values |= busy(sm=draw(percents))
    return values


@st.composite
def waits(draw: st.DrawFn) -> Values:
    """Warp states, which leave something for what is issued."""
    weights = draw(st.lists(parts, min_size=len(STALLED), max_size=len(STALLED)))
    most = draw(st.floats(0, 95))
    whole = sum(weights) or 1.0
    return stalls(**{reason: most * weight / whole for reason, weight in zip(STALLED, weights, strict=True)})


@st.composite
def portions(draw: st.DrawFn, part: str, whole: str) -> Values:
    """A count and what of it is waste."""
    total = draw(st.floats(1, 1e9))
    return {whole: total, part: total * draw(parts)}


@st.composite
def cycles(draw: st.DrawFn) -> Values:
    """Active cycles of SMs, the average no longer than the busiest, and that no longer than the kernel."""
    elapsed = draw(st.floats(1e3, 1e8))
    busiest = elapsed * draw(st.floats(0.2, 1))
    average = busiest * draw(st.floats(0.01, 1))
    return {ELAPSED: elapsed, BUSIEST_SM: busiest, AVERAGE_SM: average}


@st.composite
def launches(draw: st.DrawFn) -> Made:
    """A launch with some of what the rules read."""
    groups: list[st.SearchStrategy[Values]] = [
        lights(), waits(), portions(EXCESS, TOTAL), portions(SHARED_EXCESS, SHARED_WAVES),
        portions(CONFLICTS, SHARED_PASSES), portions(HOST, DEVICE), cycles(),
        st.fixed_dictionaries({}, optional=dict.fromkeys(PIPES, percents)).map(lambda busy_: pipes(**busy_)),
        st.floats(1, 100).map(issued),
        st.tuples(st.floats(-6.5, -1), st.floats(5e8, 2e9)).map(lambda pair: lasting(10 ** pair[0], pair[1])),
        st.fixed_dictionaries({name: st.floats(0, 1e9) for name in (LOCAL, GLOBAL, LOCAL_STORES, GLOBAL_STORES)}),
        st.tuples(*(st.floats(0, 1e9) for _ in range(3))).map(lambda n: operations(ffma=n[0], fadd=n[1], fmul=n[2])),
        st.tuples(*(st.floats(0, 1e9) for _ in range(3))).map(lambda n: operations(dfma=n[0], dadd=n[1], dmul=n[2])),
        st.fixed_dictionaries({}, optional={
            SHARED_BUSY: percents, L2_ATOMICS: percents, THREADS: st.floats(1, 32), OCCUPIED: st.floats(1, 100),
            ELIGIBLE: st.floats(0, 4), REGISTERS: st.sampled_from([16.0, 32.0, 64.0, 128.0, 255.0]),
            DRAM_BYTES: st.floats(0, 1e12), SECTORS: st.floats(1, 32), REQUESTS: percents, PASSES: percents,
        }),
    ]  # fmt: skip
    chosen = [draw(group) for group in groups if draw(st.booleans())]
    blocks = draw(st.integers(1, 5000))
    waves = {WAVES: blocks / (SMS * draw(st.integers(1, 16)))} if draw(st.booleans()) else {}
    opcodes: dict[str | int, float] = {name: draw(st.floats(0, 1e9)) for name in OPCODES}
    histograms = {WARP_OPCODES: opcodes} if draw(st.booleans()) else {}
    block = (draw(st.sampled_from([1, 20, 32, 33, 64, 128, 256, 1000, 1024])), 1, 1)
    name = draw(st.sampled_from(["kernel", "my_gemm"]))
    return made(*chosen, waves, histograms=histograms, grid=(blocks, 1, 1), block=block, name=name)


def tried(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


# Of all launches.

_ARITHMETIC = ("fp64", "tensor")
"""Pipes with the arithmetic of the result: no fix of an access, a wait or the grid takes it away."""
_MEMORY = ("dram", "l2")
_ALL = (*_ARITHMETIC, *_MEMORY)
STAYS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("uncoalesced-global", "host-memory-traffic", "local-memory-spill", "narrow-access"), _ARITHMETIC),
    **dict.fromkeys(("shared-bandwidth", "l1-bandwidth", "l2-bandwidth", "dram-bandwidth", "load-imbalance"),
                    (*_ARITHMETIC, "dram")),
    **dict.fromkeys(("shared-bank-conflict", "small-grid", "tail-effect", "short-blocks", "low-occupancy",
                     "memory-latency", "dependency-latency", "barrier-wait", "constant-miss", "instruction-fetch",
                     "special-function-bound"), _ALL),
    "integer-bound": _ARITHMETIC,  # what is not made, or sorted in fewer passes, moves no bytes
    "issue-bound": ("tensor", *_MEMORY),
    "block-size": _MEMORY,
    "atomic-contention": (),  # a loop of compare-and-swap does its arithmetic again; sums on chip move fewer bytes
    "branch-divergence": ("dram",),
}  # fmt: skip
"""What the fix of a rule cannot touch, worked out by what it changes."""


@tried(40)
@given(launches())
def test_gains_are_bounds_evidence_is_there_and_the_order_holds(launch: Made) -> None:
    findings = launch.profile().findings
    for finding in findings:
        check_gain(launch, finding)
        shares = [item for item in finding.amounts if item.unit == "fraction" and item.name != "longer"]
        assert [item for item in shares if not 0.0 <= item.value <= 1.0 + EXACT] == []
        assert [item.metric for item in finding.evidence if not recorded_in(launch, item.metric)] == []
    check_causes(findings)
    check_order(findings)


BUSY_METRICS = {unit: next(iter(busy(**{unit: 0}))) for unit in _MEMORY} | {
    pipe: next(iter(pipes(**{pipe: 0}))) for pipe in PIPES
}


def check_gain(launch: Made, finding: Finding) -> None:
    """A gain is a fraction of the time, and leaves what the busiest remaining and untouched units need."""
    gain, needs = finding.gain_kernel, [item.fraction for item in finding.remains]
    assert (finding.gain_kind is None) == (gain is None and finding.gain_total is None)
    assert needs == sorted(needs, reverse=True)
    if gain is None:
        return
    assert 0 <= gain <= 1 - max(needs, default=0.0) + EXACT
    assert (finding.held is not None) == (finding.gain_kind == "conditional")
    if finding.gain_kind == "bound":
        for unit in STAYS.get(finding.rule, ()):
            need = launch.values.get(BUSY_METRICS[unit], 0.0) / 100
            assert gain <= 1 - need + EXACT, f"{finding.rule} leaves {unit} no time"


def recorded_in(launch: Made, metric: str) -> bool:
    """Tell whether all counters of a piece of evidence are there; some are told of the launch itself."""
    names = {*launch.values, *launch.histograms}
    of_launch = ("launch__grid_size", "sm__maximum_warps_per_active_cycle_pct", "launch__block", "launch__thread")
    counters = {name: f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum" for name in metric.split(" + ")}
    return all(
        name == "" or name.startswith(of_launch) or name in names or counter in names
        for name, counter in counters.items()
    )


def check_causes(findings: Sequence[Finding]) -> None:
    """A symptom comes after its cause and recommends nothing; a guess explains only a guess."""
    ids = [finding.id for finding in findings]
    assert len(ids) == len(set(ids))
    for place, finding in enumerate(findings):
        if finding.cause is None:
            continue
        cause = findings[ids.index(finding.cause)]
        assert ids.index(finding.cause) < place, f"{finding.rule} stands before {cause.rule}"
        assert cause.cause is None and finding.severity == "info"
        assert cause.confidence != "guess" or finding.confidence == "guess"


def check_order(findings: Sequence[Finding]) -> None:
    """Findings that others explain come last, facts but for reached limits before them, and what voids all else first.

    Among those with something to fix a finding comes before one that is no more certain, of no earlier kind, and saves
    less by more than a near tie. No guess comes before a limit that the kernel is at, nor before a notable saving that
    is proven, unless it is expected to save twice as much.
    """
    explained = [finding.cause is not None for finding in findings]
    assert explained == sorted(explained)
    open_findings = [finding for finding in findings if finding.cause is None]
    facts = [finding.severity == "info" for finding in open_findings if not is_at_limit(finding)]
    assert facts == sorted(facts)
    worth = [finding for finding in open_findings if finding.severity != "info"]
    voiding = [finding.rule not in VOIDING or finding.confidence == "guess" for finding in worth]
    assert voiding == sorted(voiding)
    at_limit = [place for place, finding in enumerate(open_findings) if is_at_limit(finding)]
    if at_limit:
        assert all(finding.confidence != "guess" for finding in open_findings[: at_limit[0]])
        return
    guesses = [finding for finding in worth if finding.confidence == "guess"]
    proven = [finding for finding in worth if finding not in guesses and finding.severity != "low"]
    for before, after in itertools.combinations(worth, 2):
        if before in guesses and after in proven:
            assert _expected(before) >= 2 * _expected(after) - EXACT
        may_save_less = before.rule in VOIDING or (proven and after in guesses)
        if about(before) == about(after) and not may_save_less:
            assert _expected(before) >= _expected(after) - LOW - EXACT


def _expected(finding: Finding) -> float:
    return expected_saving(finding.gain_kernel, finding.confidence)


VOIDING = ("stores-nothing", "debug-build")
"""What leaves nothing else of its kernel to judge comes first."""


def test_causes_are_rules_and_none_explains_itself() -> None:
    for explained, causes in CAUSES.items():
        assert rule_named(explained) is not None
        for cause in causes:
            assert rule_named(cause.rule) is not None, f"{explained} names {cause.rule}"
            assert cause.rule != explained
    assert {rule.id for rule in RULES if rule.invalidates} == set(VOIDING)


# Of all sessions.


def savings_by_kernel(run: Session) -> Mapping[int, float]:
    """Return what all changes of each kernel are said to save, one after the other, of recommendations."""
    saved: dict[int, float] = {}
    for item in run.recommendations:
        if len(item.kernels) == 1 and item.gain_after is not None:
            saved[item.kernels[0]] = saved.get(item.kernels[0], 0.0) + item.gain_after
    return saved


def timed(launch: Made, seconds: float) -> Made:
    return launch.plus({DURATION: seconds, CLOCK: 1e9})


@tried(15)
@given(st.lists(st.tuples(launches(), st.floats(1e-5, 1e-2)), min_size=1, max_size=3))
def test_fixes_together_save_no_more_than_the_time(drawn: list[tuple[Made, float]]) -> None:
    run = session(*(timed(launch, seconds) for launch, seconds in drawn))
    shares = {kernel.id: kernel.time_share or 0.0 for kernel in run.kernels}
    for item in run.recommendations:
        if item.rule in VOIDING and item.gain_total is None:  # There is no time or no unit that means anything.
            assert item.gain_after is None
            continue
        assert item.gain_total is not None and item.gain_after is not None
        assert 0 <= item.gain_after <= item.gain_total + EXACT <= 1 + 2 * EXACT
    assert sum(item.gain_after or 0.0 for item in run.recommendations) <= 1 + EXACT
    for kernel, saved in savings_by_kernel(run).items():
        assert saved <= shares[kernel] + EXACT


# Of waste that grows.


@dataclass(frozen=True, slots=True)
class Waste:
    """Waste of a rule: what a launch reads with so much of it (from 0 to 1), its grid and its opcodes."""

    rule: str
    what: str
    values: Callable[[float], Values]
    blocks: Callable[[float], int] = lambda _: 8 * SMS
    opcodes: Callable[[float], dict[str | int, float]] = lambda _: {}


def waiting_for(*reasons: str) -> Callable[[float], Values]:
    """All other warp states stay in proportion: a quarter of what is left waits for its turn."""

    def values(share: float) -> Values:
        waits_ = {reason: 90 * share / len(reasons) for reason in reasons}
        return stalls(**waits_, not_selected=(100 - 90 * share) / 4)

    return values


def _few(part: float) -> int:
    """Blocks from one an SM down to one."""
    return max(1, round(SMS * (1 - part)))


WASTES = (
    Waste("uncoalesced-global", "sectors", lambda part: {TOTAL: 1e6, EXCESS: 1e6 * part}),
    Waste("shared-bank-conflict", "wavefronts", lambda part: {SHARED_WAVES: 1e6, SHARED_EXCESS: 1e6 * part}),
    Waste("shared-bank-conflict", "hardware's count", lambda part: {SHARED_PASSES: 1e6, CONFLICTS: 1e6 * part}),
    Waste("local-memory-spill", "sectors", lambda part: {
          LOCAL: 1e6 * part, GLOBAL: 1e6 * (1 - part), LOCAL_STORES: 0.0, GLOBAL_STORES: 0.0}),
    Waste("atomic-contention", "at L2", lambda part: {L2_ATOMICS: 100 * part}),
    Waste("host-memory-traffic", "misses", lambda part: {HOST: 1e6 * part, DEVICE: 1e6 * (1 - part)}),
    Waste("branch-divergence", "threads", lambda part: {THREADS: 32 - 31 * part}),
    Waste("small-grid", "blocks", lambda part: {WAVES: _few(part) / SMS}, _few),
    Waste("tail-effect", "last wave", lambda part: {WAVES: 2 - 0.98 * part},
          lambda part: round((2 - 0.98 * part) * SMS)),
    Waste("short-blocks", "places",
          lambda part: {REGISTERS: 32.0, WAVES: 8.0, OCCUPIED: 100 - 90 * part, AVERAGE_SM: 8e3}, lambda _: 64 * SMS),
    Waste("load-imbalance", "SMs", lambda part: {WAVES: 8.0, BUSIEST_SM: 1e6, AVERAGE_SM: 1e6 * (1 - 0.9 * part)}),
    Waste("low-occupancy", "registers", lambda part: {REGISTERS: float(8 * round(4 + 27 * part)), **stalls(wait=50)}),
    Waste("narrow-access", "bytes", lambda _: stalls(lg_throttle=60),
          opcodes=lambda part: {"LDG.E.U8": 100 * part, "LDG.E.128": 100 * (1 - part)}),
    Waste("memory-latency", "long scoreboard", waiting_for("long_scoreboard")),
    Waste("dependency-latency", "wait", waiting_for("wait")),
    Waste("barrier-wait", "barrier and fence", waiting_for("barrier", "membar")),
    Waste("constant-miss", "constants", waiting_for("imc_miss")),
    Waste("instruction-fetch", "both reasons", waiting_for("no_instruction", "branch_resolving")),
    Waste("non-fused-fp", "FP32", lambda part: operations(ffma=1e6 * (1 - part), fadd=5e5 * part, fmul=5e5 * part)),
)  # fmt: skip


@st.composite
def surroundings(draw: st.DrawFn) -> Values:
    """What else is known of a launch, the same whatever is wasted."""
    groups: list[st.SearchStrategy[Values]] = [
        lights(), st.floats(1, 79).map(issued),
        st.fixed_dictionaries({}, optional=dict.fromkeys(PIPES, percents)).map(lambda busy_: pipes(**busy_)),
        st.floats(-5, -1).map(lambda power: lasting(10**power)),
    ]  # fmt: skip
    values: Values = {}
    for group in groups:
        if draw(st.booleans()):
            values |= draw(group)
    return values


@each_row("waste", [pytest.param(item, id=f"{item.rule}: {item.what}") for item in WASTES])
@tried(4)
@given(surroundings(), parts, parts)
def test_a_gain_never_falls_when_the_waste_grows(waste: Waste, around: Values, some: float, other: float) -> None:
    less, more = (wasting(waste, around, part) for part in sorted((some, other)))
    if less is None or less.gain_kernel is None:
        return
    assert more is not None, "more waste is told less"
    assert more.gain_kernel is not None and more.gain_kernel >= less.gain_kernel - EXACT


@each_row("waste", [pytest.param(item, id=f"{item.rule}: {item.what}") for item in WASTES])
def test_a_launch_that_wastes_nearly_all_is_told_so(waste: Waste) -> None:
    # 30 % of the issue slots are used, 30 % of DRAM.
    assert wasting(waste, {**busy(dram=30, l2=30, l1=70, sm=30), **issued(30), **pipes(fma=50)}, 0.95) is not None


def wasting(waste: Waste, around: Values, part: float) -> Finding | None:
    """Return what the rule says where so much is wasted; its first finding, of several."""
    opcodes = waste.opcodes(part)
    histograms = {WARP_OPCODES: opcodes} if opcodes else {}
    launch = made(around, waste.values(part), histograms=histograms, grid=(waste.blocks(part), 1, 1))
    return next(iter(launch.findings(waste.rule)), None)
