"""What launches show together: a configuration that is faster for the same work, and clocks that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gpuprof.hardware.specs import THREAD_OPCODES
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import Finding, KernelProfile, RunVerdict, Session
from gpuprof.notebook import LoadedSession
from tests import hand_made
from tests.kernels import REGISTERS, Made, Values, busy, lasting, made, operations, session
from tests.readings import session_of
from tests.table import each_row
from tests.worded import summarised

RULE = "launch-configurations"
EXECUTED = "smsp__inst_executed.sum"
STORED = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
WORK = operations(ffma=5e8, fadd=0, fmul=0)
"""1 GFLOP."""
DRAM_CLOCK = "dram__cycles_elapsed.avg.per_second"
MEASURED, INFERRED, SILENT = ["measured"], ["inferred"], list[str]()


def shaped(grid: Dim3, block: Dim3, seconds: float, *more: Values) -> Made:
    return made(lasting(seconds), *more, grid=grid, block=block)


def tiled(side: int, seconds: float, *more: Values, clock_hz: float = 1e9) -> Made:
    """A kernel over 1024 × 1024 elements in square blocks."""
    blocks = 1024 // side
    return shaped((blocks, blocks, 1), (side, side, 1), seconds, *more, lasting(seconds, clock_hz))


def pair(fast: Values, slow: Values) -> tuple[Made, Made]:
    """20 µs in blocks of 16 × 16 and 65 µs in blocks of 32 × 32."""
    return tiled(16, 20e-6, fast), tiled(32, 65e-6, slow)


def told(*launches: Made) -> list[Finding]:
    return of_rule(session(*launches))


def of_rule(judged: Session | LoadedSession) -> list[Finding]:
    return [finding for kernel in judged.kernels for finding in kernel.findings if finding.rule == RULE]


# What is told.


def test_the_slower_configuration_is_told_with_both_times() -> None:
    (finding,) = told(*pair(WORK, WORK))
    assert finding.id == f"1.{RULE}"
    for text in ("65.0 µs", "32×32", "20.0 µs", "16×16", "#0"):
        assert text in finding.headline
    # 1 − 20 ÷ 65
    assert finding.gain_kernel == pytest.approx(9 / 13)
    assert (finding.gain_kind, finding.severity, finding.confidence) == ("conditional", "high", "measured")
    assert {65e-6, 20e-6} <= {item.value for item in finding.evidence}
    # What remains are the needs of the faster launch: DRAM's 65 % of 20 of the 65 µs, and the launch's 1 µs.
    (finding,) = told(*pair(WORK | busy(dram=65), WORK | busy(dram=20)))
    assert {item.unit: item.fraction for item in finding.remains} == pytest.approx({"dram": 0.2, "launch": 1 / 65})


def test_it_is_an_recommendation_of_all_launches_that_are_slower() -> None:
    judged = session(tiled(16, 20e-6, WORK), tiled(32, 60e-6, WORK), tiled(8, 40e-6, WORK), tiled(32, 80e-6, WORK))
    (chance,) = [item for item in judged.recommendations if item.rule == RULE]
    assert chance.kernels == (3, 1, 2)
    # (80 + 60 + 40 − 3 · 20) µs of 200 µs
    assert chance.gain_total == pytest.approx(0.6)


# Whether the work is the same.


def looped(blocks: int, seconds: float, *more: Values, **opcodes: float) -> Made:
    launch = shaped((blocks, 1, 1), (256, 1, 1), seconds, *more)
    return replace(launch, histograms={THREAD_OPCODES: dict(opcodes.items())}) if opcodes else launch


def added(blocks: int, threads: int, seconds: float, sectors: float, **opcodes: float) -> Made:
    """`add` with one thread and with 4096 blocks of 256: a million elements."""
    launch = shaped((blocks, 1, 1), (threads, 1, 1), seconds, operations(fadd=1e6, fmul=0, ffma=0), {STORED: sectors})
    return replace(launch, histograms={THREAD_OPCODES: dict(opcodes.items())})


COPY = looped(4096, 20e-6, LDG=1e6, STG=1e6)
ADD = added(4096, 256, 20e-6, 1.25e5, LDG=2e6, STG=1e6)
FAST, SLOW = pair(WORK, WORK)


@each_row(
    ("launches", "expected"),
    [
        # Launches of 19 and 20 µs that only scatter.
        ([*(tiled(16, s, WORK) for s in (17e-6, 19e-6, 21e-6)), *(tiled(32, s, WORK) for s in (18e-6, 20e-6, 22e-6))],
         SILENT),
        # Equal arithmetic, or as many threads over one extent.
        ([FAST, SLOW], MEASURED),
        (pair({EXECUTED: 1e6}, {EXECUTED: 1.24e6}), INFERRED),
        (pair({EXECUTED: 1e6}, {EXECUTED: 1.26e6}), SILENT),
        # Other arithmetic is other work.
        *((pair(WORK, operations(ffma=5e8 * more, fadd=0, fmul=0)), expected)
          for more, expected in ((1.005, MEASURED), (1.02, SILENT), (2.0, SILENT))),
        # 1000 × 1000 elements: 1008² threads in blocks of 16 × 16, 1024² of 32 × 32, 3 % more.
        ([shaped((63, 63, 1), (16, 16, 1), 20e-6), shaped((32, 32, 1), (32, 32, 1), 65e-6)], INFERRED),
        # 36 elements: 48 threads in blocks of 16, 64 of 32, a third more.
        ([shaped((3, 1, 1), (16, 1, 1), 20e-6), shaped((2, 1, 1), (32, 1, 1), 65e-6)], SILENT),
        # As many threads over another extent.
        ([shaped((8, 16, 1), (128, 1, 1), 20e-6, WORK), shaped((16, 8, 1), (128, 1, 1), 65e-6, WORK)], SILENT),
        ([looped(4096, 20e-6, WORK, {STORED: 1e6}), looped(64, 65e-6, WORK, {STORED: 2.5e5})], SILENT),
        # What threads store counts however scattered it is: eight times the sectors without neighbours.
        ([added(1, 1, 0.5, 1e6, LDG=2e6, STG=1e6), ADD], INFERRED),
        ([added(1, 1, 0.5, 1e6, LDG=2e6, STG=2.5e5), ADD], SILENT),
        # Without arithmetic, the stores of threads give the work.
        *(([COPY, looped(64, 65e-6, LDG=1e6, STG=stores)], expected) for stores, expected in (
            (1e6, INFERRED), (1.005e6, INFERRED), (1.02e6, SILENT), (0.0, SILENT))),
        # Another build can do something else, unless its arithmetic is equal.
        ([tiled(16, 20e-6, {REGISTERS: 40.0}), tiled(16, 65e-6, {REGISTERS: 128.0})], SILENT),
        ([tiled(16, 20e-6, WORK, {REGISTERS: 40.0}), tiled(16, 65e-6, WORK, {REGISTERS: 128.0})], INFERRED),
        ([FAST, replace(SLOW, grid=None)], SILENT),
        ([FAST.without("gpu__time_duration.sum"), SLOW], SILENT),
        ([tiled(16, 20e-6, WORK, clock_hz=1.021e9), SLOW], INFERRED),
    ],
)  # fmt: skip
def test_equal_work_is_proved_by_what_was_counted(launches: Sequence[Made], expected: list[str]) -> None:
    assert [finding.confidence for finding in told(*launches)] == expected


# At one clock.


@each_row(
    ("fast", "slow", "gain", "confidence"),
    [
        # 20 000 cycles in 20 µs and in 40 µs: only the clock differs.
        (tiled(16, 20e-6, WORK), tiled(32, 40e-6, WORK, clock_hz=5e8), None, ""),
        # 200 µs at 1.2 GHz are 240 000 cycles, 600 µs at 1 GHz 600 000: 60 % in cycles, 67 % in seconds.
        (tiled(16, 200e-6, WORK, clock_hz=1.2e9), tiled(32, 600e-6, WORK), 0.6, "inferred"),
        # At the DRAM clock of the slower launch, 1.5 · 20 = 30 of 60 µs.
        (tiled(16, 20e-6, WORK, {DRAM_CLOCK: 1.5e9}), tiled(32, 60e-6, WORK, {DRAM_CLOCK: 1e9}), 0.5, "measured"),
    ],
)  # fmt: skip
def test_where_the_clocks_differ_the_smaller_gain_of_seconds_and_cycles_is_told(
    fast: Made, slow: Made, gain: float | None, confidence: str
) -> None:
    findings = told(fast, slow)
    assert [finding.gain_kernel for finding in findings] == ([pytest.approx(gain)] if gain is not None else [])
    assert {finding.confidence for finding in findings} == ({confidence} if confidence else set())


seconds_of = st.floats(1e-5, 1e-2)
hertz = st.floats(5e8, 2e9)


@given(times=st.tuples(seconds_of, seconds_of), clocks=st.tuples(hertz, hertz), dram=st.floats(0, 100))
def test_no_gain_is_above_what_seconds_and_cycles_show(
    times: tuple[float, float], clocks: tuple[float, float], dram: float
) -> None:
    for finding in told(*(tiled(side, s, WORK, busy(dram=dram), clock_hz=hz)
                          for side, s, hz in zip((16, 32), times, clocks, strict=True))):  # fmt: skip
        slow = int(finding.id[0])
        ratio = times[1 - slow] / times[slow]
        gain = finding.gain_kernel or 0.0
        assert 0.1 <= gain <= min(1 - ratio, 1 - ratio * clocks[1 - slow] / clocks[slow]) + 1e-9
        assert gain <= 1 - finding.remains[0].fraction + 1e-9


# Clocks of a session.


def clocked(number: int, sm_hz: float | None, dram_hz: float | None = None, **changes: object) -> KernelProfile:
    fields = {"label": f"kernel {number}", "sm_clock_hz": sm_hz, "dram_clock_hz": dram_hz, **changes}
    return hand_made.kernel(number, **fields)


def notes(*kernels: KernelProfile, control: str | None = "base") -> tuple[str, ...]:
    base = hand_made.session()
    source = structs.replace(base.sources[0], clock_control=control)
    verdict = summarised(structs.replace(base, kernels=kernels, sources=(source, source))).verdict
    assert isinstance(verdict, RunVerdict)
    return tuple(note for note in verdict.notes if "GHz" in note or "MHz" in note)


ALIKE = [clocked(number, hz, demangled="same") for number, hz in ((1, 1.2e9), (2, 1.3e9))]
FELL = (clocked(0, 0.6e9, 0.9e9, demangled="same"), clocked(1, 1.0e9, 1.5e9, demangled="same"))
"""0.6 of both clocks: 40 % of the time were not counted."""


@each_row(
    ("kernels", "shows"),
    [
        # The slowest and the fastest are named.
        ((clocked(0, 1.0e9), clocked(1, 1.3e9), clocked(2, 1.2e9)), ("1.00 GHz in kernel 0", "1.30 GHz in kernel 1")),
        ((clocked(0, 1.0e9), *ALIKE), ("1.00 GHz in kernel 0", "1.30 GHz in kernel 2")),
        # Too few cycles give no clock, unless the DRAM clock does.
        ((clocked(0, 1.0e9, duration_s=19e-6), clocked(1, 1.3e9)), ()),
        # If all clocks fall together, none fell; between two reports it is reported.
        (FELL, ()),
        ((FELL[0], structs.replace(FELL[1], source=1)), ("600 MHz in kernel 0", "1.00 GHz in kernel 1")),
    ],
)  # fmt: skip
def test_launches_at_different_clocks_are_named_with_both(
    kernels: Sequence[KernelProfile], shows: tuple[str, ...]
) -> None:
    told_of = notes(*kernels)
    assert len(told_of) == bool(shows)
    assert [text for text in shows if text not in told_of[0]] == []


def test_sizes_of_a_kernel_in_real_reports_are_no_configurations(real_report: Path) -> None:
    # Fills of arrays of other sizes, random numbers for other tensors, images of other sizes.
    assert of_rule(session_of(real_report)) == []
