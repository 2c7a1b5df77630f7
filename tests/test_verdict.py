"""Limits, clocks and verdicts; every impossible value that was published must be rejected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.characterize.gates.gate import Judgement
from gpuprof.characterize.judge.limits import Bound, NoBound, PcieLink, executed_name, physical_limit, probe_limit
from gpuprof.characterize.judge.regime import (
    THROTTLE_MASK,
    Attempt,
    Kept,
    NoClock,
    SmClock,
    keep,
    sm_clock,
    throttling,
)
from gpuprof.characterize.judge.verdict import (
    VerdictCheck,
    agreement_check,
    clock_check,
    counter_check,
    gate_check,
    judge,
    limit_check,
    not_applicable,
    scaling_check,
)
from gpuprof.characterize.maths.fit import scaling
from gpuprof.characterize.probes.probe import Condition, PhysicalLimit
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ComputeKey
from gpuprof.model.ceilings import Hardware
from gpuprof.model.quantities import Clocks
from gpuprof.resources import data_dir
from tests.builders import product
from tests.table import each_row

PACKAGED = SpecLibrary(folders=(data_dir("specs"),))
TERA = 1e12
GOOD = (
    VerdictCheck("gate", "passed"),
    VerdictCheck("scaling", "passed", number=0.001),
    VerdictCheck("clock", "passed", number=1.0),
    VerdictCheck("limit", "passed", number=0.95),
)


def chip(arch: str, sm_count: int | None, **recorded: Any) -> Hardware:
    """A device that no product file describes."""
    spec = PACKAGED.arch(arch)
    assert spec is not None
    return Hardware.of(spec, None, RecordedDevice(sm_count=sm_count, **recorded))


def bound(name: str, hardware: Hardware, clocks: Clocks, link: PcieLink | None = None) -> Bound:
    limit = physical_limit(name, hardware, clocks, link)
    assert isinstance(limit, Bound), limit
    return limit


# Published values: their source, and their fraction of the limit.

B300_HZ = 1.92e9
H100_NVL_HZ, A100_HZ, H200_HZ = 1.785e9, 1.41e9, 1.98e9
MMA_FP16 = "tensor.fp16 fp32 mma.sync"
"""What ptxas makes of FP8 mma.sync on sm_90a and sm_103a."""


@each_row(
    ("tera", "unit", "name", "card", "sm_hz", "state", "ratio"),
    [
        # Global memory of an H100 PCIe and of an RTX 5080, arXiv 2507.10789: 2.039 TB/s and 960 GB/s.
        (15.8, "B/s", "dram", "h100-pcie", 1.755e9, "failed", 7.75),
        (8.2, "B/s", "dram", "rtx-5080", 2.617e9, "failed", 8.54),
        # FP16 on an H100 NVL, mmapeak: 643.4 TFLOP/s.
        (978, "FLOP/s", MMA_FP16, "h100-nvl", H100_NVL_HZ, "failed", 1.52),
        # FP8 and shared memory on a B300, QuickRunCUDA: 4.656 PFLOP/s, or 582 of FP16, and 36.37 TB/s.
        (6357, "FLOP/s", "tensor.fp8 fp32 mma.sync", "b300", B300_HZ, "failed", 1.365),
        (2336, "FLOP/s", MMA_FP16, "b300", B300_HZ, "failed", 4.014),
        (97, "B/s", "shared", "b300", B300_HZ, "failed", 2.667),
        # What its audit arrived at.
        (577, "FLOP/s", MMA_FP16, "b300", B300_HZ, "passed", 0.991),
        # RTX 4090, arXiv 2501.12084: above the sheet's 165.2, because the card ran at 2710 MHz.
        *((tera, "FLOP/s", MMA_FP16, "rtx-4090", 2.52e9, "failed", tera / 165.2) for tera in (166.1, 177.6)),
        *((tera, "FLOP/s", MMA_FP16, "rtx-4090", 2.71e9, "passed", tera / 177.65) for tera in (166.1, 177.6)),
        # The highest published L2 value, even if the SMs are held back.
        (10.2, "B/s", "l2", "h200-sxm", 1.4e9, "passed", None),
        # H200: 6144 B/clk × 1.98 GHz = 12.2 TB/s; ports 16.7, in doubt; L1 128 B/clk × 132 SMs × 1.98 GHz = 33.5 TB/s.
        (20, "B/s", "l2", "h200-sxm", H200_HZ, "missing", None),
        (34, "B/s", "l2", "h200-sxm", H200_HZ, "failed", None),
        (8, "B/s", "l2", "a100-80gb-sxm", A100_HZ, "missing", 1.108),
        (10, "B/s", "l2", "a100-80gb-sxm", A100_HZ, "failed", 1.026),
    ],
)  # fmt: skip
def test_published_values_are_held_against_the_physical_limit(
    tera: float, unit: str, name: str, card: str, sm_hz: float, state: str, ratio: float | None
) -> None:
    check = limit_check(tera * TERA, unit, physical_limit(name, product(card), Clocks(sm_hz=sm_hz)))
    assert check.state == state and (ratio is None or check.number == pytest.approx(ratio, abs=0.005))
    assert judge([*GOOD[:3], check]).word == {"passed": "verified", "failed": "rejected"}.get(state, "plausible")


def test_rate_above_the_rated_peak_is_rejected_at_the_rated_clock_and_not_at_the_one_it_ran_at() -> None:
    # RTX 2070, mixbench: 8.41 TFLOP/s of "theoretical" 7.46, which is 36 SMs × 128 FLOP × 1620 MHz.
    rated, ran = (
        limit_check(8.41 * TERA, "FLOP/s", physical_limit("fp32", chip("sm_75", 36), Clocks(sm_hz=hz)))
        for hz in (1.62e9, 1.86e9)
    )
    assert (rated.state, ran.state) == ("failed", "passed") and rated.number == pytest.approx(1.127, abs=0.001)


def test_rate_of_dead_code_does_not_scale() -> None:
    # FP8 on the B300 before the audit: 99.99 % of the work was folded away, so that time hardly grew.
    timed = scaling([(1000, 10.000e-6), (2000, 10.002e-6), (4000, 10.006e-6)])
    assert judge([GOOD[0], scaling_check(timed), *GOOD[2:]]).word == "rejected"


# Verdicts


@each_row(
    ("checks", "word", "reasons"),
    [
        (GOOD, "verified", 0),
        # One of the four checks is lacking.
        *(([check for check in GOOD if check.name != name], "plausible", 1)
          for name in ("gate", "scaling", "clock", "limit")),
        # Without a disassembler the code that ran was not checked.
        ([gate_check(None), *GOOD[1:]], "plausible", 1),
        ([gate_check(None), VerdictCheck("limit", "failed", "1.3 × the limit")], "rejected", 1),
        # The power draw of an idle GPU: no code, no loop, no limit.
        ([*(not_applicable(name, "nothing runs") for name in ("gate", "scaling", "limit")), GOOD[2]], "verified", 0),
        ([not_applicable(name, "no reason") for name in ("gate", "scaling", "clock", "limit")], "plausible", 1),
        ([*(not_applicable(name, "no reason") for name in ("gate", "scaling", "clock")),
          VerdictCheck("limit", "missing", "reported by the driver")], "plausible", 1),
    ],
)  # fmt: skip
def test_a_verdict_follows_from_all_checks(checks: list[VerdictCheck], word: str, reasons: int) -> None:
    verdict = judge(checks)
    assert (verdict.word, len(verdict.reasons)) == (word, reasons)


@each_row(
    ("gate", "state"),
    [("pass", "passed"), ("emulated", "passed"), ("fail", "failed"), ("unsupported", "failed"), (None, "missing")],
)
def test_gate_decides_about_the_code(gate: str | None, state: str) -> None:
    assert gate_check(Judgement(gate, "because", {})).state == state  # type: ignore[arg-type]


@given(st.floats(0.5, 2.0))
def test_clock_in_the_kernel_must_be_nvmls_within_two_percent(ratio: float) -> None:
    check = clock_check(SmClock(1.98e9 * ratio), 1.98e9)
    assert (check.state == "passed") == (abs(check.number - 1) <= 0.02 if check.number is not None else False)


HELD = ("power cap",)


@each_row(
    ("kernel_hz", "held", "state"),
    [(1.5e9, HELD, "passed"), (1.38e9, HELD, "passed"), (1.99e9, HELD, "passed"), (1.35e9, HELD, "missing"),
     (2.05e9, HELD, "missing"), (1.5e9, (), "failed")],
)  # fmt: skip
def test_clock_that_is_held_back_may_lie_anywhere_in_nvmls_range(
    kernel_hz: float, held: tuple[str, ...], state: str
) -> None:
    check = clock_check(SmClock(kernel_hz), 1.9e9, held, (1.4e9, 1.96e9))
    assert check.state == state
    assert clock_check(SmClock(1e9), None).state == "missing"
    assert clock_check(NoClock("no block recorded its clocks"), 1e9).state == "missing"


def test_limit_may_be_exceeded_by_half_a_percent_and_missed_by_a_factor_of_ten() -> None:
    limit = Bound(name="shared", value=1.0, unit="B/s", source="by hand", clock_hz=1e9)
    for value, state in ((1.004, "passed"), (1.006, "failed"), (0.11, "passed"), (0.09, "failed")):
        assert limit_check(value, "B/s", limit).state == state
    # A probe that is meant to be slow, and a bound from something else, have no lower end.
    assert limit_check(0.02, "B/s", limit, floor=0).state == "passed"
    issue = Bound(name="issue", value=1.0, unit="result/s", source="by hand", clock_hz=1e9, exact=False)
    assert limit_check(0.01, "result/s", issue).state == "passed"


def test_limit_behind_an_unconfirmed_one_rejects() -> None:
    certain = Bound(name="dram", value=5.0e12, unit="B/s", source="certain")
    limit = Bound(name="dram", value=4.7e12, unit="B/s", source="by hand", rate=3.0, rate_unit="B/clk/SM",
                  confirmed=False, behind=certain)  # fmt: skip
    states = [limit_check(value, "B/s", limit).state for value in (4.9e12, 6.0e12, 0.3e12)]
    assert states == ["missing", "failed", "failed"] and limit_check(6.0e12, "B/s", limit).number == 1.2
    half = limit.scaled(0.5, "half")
    assert (half.value, half.rate, half.confirmed) == (2.35e12, 1.5, False)
    assert half.behind is not None and half.behind.value == 2.5e12


def test_counters_must_give_the_claimed_work_within_two_percent() -> None:
    claimed = {"dram bytes": 1000.0, "FFMA": 64.0}
    assert counter_check(claimed, {"dram bytes": 1015.0, "FFMA": 64.0}).state == "passed"
    check = counter_check(claimed, {"dram bytes": 1000.0, "FFMA": 32.0})
    assert check.state == "failed" and "0.5 ×" in (check.why or "")
    assert "dram bytes" in (counter_check(claimed, {"FFMA": 64.0}).why or "")
    assert counter_check(claimed, None).state == "not_applicable"


@given(st.floats(1e-9, 1e9), st.floats(0.5, 1.5))
def test_values_agree_within_the_tolerance(value: float, ratio: float) -> None:
    check = agreement_check("repeat", value, value * ratio, "s", "measured again")
    assert check.number is not None
    assert (check.state == "passed") == (abs(check.number - 1) <= 0.02)


# Limits


def test_limits_of_an_h200_worked_out_by_hand() -> None:
    h200, clocks = product("h200-sxm"), Clocks(sm_hz=1.98e9, dram_hz=3.2e9)
    assert bound("shared", h200, clocks).value == pytest.approx(128 * 132 * 1.98e9)
    assert bound("fp32", h200, clocks).value == pytest.approx(66.9 * TERA, rel=0.001)
    assert bound("tensor.bf16 fp32 wgmma", h200, clocks).value == pytest.approx(4096 * 132 * 1.98e9)
    assert bound("dram", h200, clocks).value == pytest.approx(2 * 3.2e9 * 6016 / 8)
    assert bound("shuffle", h200, clocks).unit == "result/s"
    assert bound("int32", h200, clocks).unit == "OP/s"


@each_row(
    ("name", "card", "sm_hz", "rate", "exact", "tera"),
    [
        # An instruction without a rate is bound by the fastest of its path, and one with a rate of its own has that.
        ("tensor.fp8 fp32 mma.sync", "h200-sxm", 1.98e9, 8192, False, 8192 * 132 * 1.98e-3),
        ("tensor.bf16 fp32 mma.sync", "h200-sxm", 1.98e9, 2730.667, True, 2 / 3 * 4096 * 132 * 1.98e-3),
        ("tensor.bf16 fp32 mma.sync", "a100-80gb-sxm", 1.41e9, 2048, True, 312),
        # A product's exception counts before the architecture's rate.
        ("tensor.fp16 fp32 mma.sync", "rtx-4090", 2.52e9, 512, True, 165.2),
        # Every instruction has 128 results a clock at most.
        ("issue", "h200-sxm", 1e9, 128, False, 128 * 132 * 1e-3),
    ],
)
def test_limits_of_instructions(name: str, card: str, sm_hz: float, rate: float, exact: bool, tera: float) -> None:
    limit = bound(name, product(card), Clocks(sm_hz=sm_hz))
    assert (limit.rate, limit.exact) == (rate, exact)
    assert limit.value == pytest.approx(tera * TERA, rel=0.001)


def test_slices_of_l2_at_the_highest_sm_clock_are_a_doubt_and_at_their_own_certain() -> None:
    limit = bound("l2", product("a100-80gb-sxm"), Clocks(sm_hz=A100_HZ))
    assert limit.value == pytest.approx(5120 * A100_HZ) and not limit.confirmed
    assert limit.rate == pytest.approx(5120 / 108)
    own = bound("l2", product("a100-80gb-sxm"), Clocks(sm_hz=1.06e9, own_l2_hz=1.02e9))
    assert own.value == pytest.approx(5120 * 1.02e9) and own.confirmed and own.behind is None


def driver_says(bus: int) -> Hardware:
    gpu, arch = PACKAGED.gpu("h200-sxm"), PACKAGED.arch("sm_90")
    assert arch is not None
    return Hardware.of(arch, gpu, RecordedDevice(name=gpu.title, sm_count=132, memory_bus_bits=bus))


@each_row("bus", [5120, 6016, 6144, 8192])
@each_row("dram_hz", [3.0e9, 3.125e9, 3.201e9, None])
def test_dram_of_an_h200_at_4_75_tb_per_s_is_never_rejected_and_8_tb_per_s_always(
    bus: int, dram_hz: float | None
) -> None:
    limit = bound("dram", driver_says(bus), Clocks(dram_hz=dram_hz))
    assert not limit.confirmed
    assert limit_check(4.75e12, "B/s", limit).state in {"passed", "missing"}
    assert limit_check(8e12, "B/s", limit).state == "failed"


def test_doubt_of_a_spec_reaches_every_kind_of_limit() -> None:
    b200, gb10, clocks = product("b200"), product("gb10"), Clocks(sm_hz=1e9)
    limits = {**b200.arch.limits, "sub_partitions": replace(b200.arch.limits["sub_partitions"], confirmed=False)}
    doubted = [(b200, "shared"), (b200, "special-function"), (b200, "int32"), (gb10, "tensor.fp16 fp32 mma.sync"),
               (replace(b200, arch=replace(b200.arch, limits=limits)), "issue")]  # fmt: skip
    assert not any(bound(name, hardware, clocks).confirmed for hardware, name in doubted)
    assert all(bound(name, b200, clocks).confirmed for name in ("tensor.fp16 fp32 tcgen05", "issue"))


def test_dram_without_a_memory_clock_is_bound_by_its_rating() -> None:
    limit = bound("dram", product("h200-sxm"), Clocks())
    assert limit.value == 4.8 * TERA
    # An unknown product's by the attributes of its device.
    device = chip("sm_90", 132, max_memory_clock_hz=2.619e9, memory_bus_bits=5120)
    assert bound("dram", device, Clocks()).value == pytest.approx(3.352 * TERA, rel=0.001)


@each_row(
    ("link", "giga"), [(PcieLink(5, 16), 63.0), (PcieLink(4, 16), 31.5), (PcieLink(3, 8), 7.88), (PcieLink(1, 16), 4.0)]
)
def test_pcie_is_bound_by_generation_width_and_coding(link: PcieLink, giga: float) -> None:
    assert bound("pcie", chip("sm_90", 132), Clocks(), link).value == pytest.approx(giga * 1e9, rel=0.01)


@each_row(
    ("name", "hardware", "clocks", "link", "named"),
    [
        ("l2", product("b200"), Clocks(sm_hz=1.9e9), None, "sm_100"),
        ("fp32", chip("sm_90", None), Clocks(sm_hz=1.9e9), None, "number of SMs"),
        ("pcie", product("b200"), Clocks(), PcieLink(9, 16), "PCIe generation 9"),
        ("warp drive", product("b200"), Clocks(), None, "'warp drive'"),
    ],
)
def test_limit_that_is_not_known_says_why(
    name: str, hardware: Hardware, clocks: Clocks, link: PcieLink | None, named: str
) -> None:
    limit = physical_limit(name, hardware, clocks, link)
    assert isinstance(limit, NoBound) and named in limit.why


def test_probe_may_name_a_fraction_of_a_limit_or_a_rate_of_its_own() -> None:
    device, clocks = chip("sm_86", 10, name="NVIDIA GeForce RTX 3050"), Clocks(sm_hz=1e9)
    half = probe_limit(PhysicalLimit(Condition(), bandwidth="l1", fraction=0.5, source="loads"), device, clocks, "B/s")
    assert isinstance(half, Bound) and (half.value, half.rate) == (64 * 10 * 1e9, 64)
    own = probe_limit(PhysicalLimit(Condition(), rate=4.0, source="guide"), device, clocks, "result/clk/SM")
    assert isinstance(own, Bound) and (own.value, own.rate_unit) == (4.0, "result/clk/SM")
    key = ComputeKey("tensor.fp16", "fp32", "mma.sync")
    named = probe_limit(PhysicalLimit(Condition(), compute=key), device, clocks, "FLOP/s")
    assert isinstance(named, Bound) and named.name == "tensor.fp16 fp32 mma.sync"


@each_row(
    ("name", "opcodes", "executed"),
    [
        ("fp32", {"FFMA": 64}, "fp32"),
        ("tensor.int4 int32 mma.sync", {"IMMA.16832.S8.S8": 2, "LOP3": 9}, "tensor.int8 int32 mma.sync"),
        ("tensor.fp8 fp32 mma.sync", {"HMMA.16816.F32": 2, "FADD": 32, "F2FP.F16.E4M3.UNPACK_B": 8}, MMA_FP16),
    ],
)
def test_limit_of_what_ran_is_told_by_its_opcodes(name: str, opcodes: dict[str, int], executed: str) -> None:
    assert executed_name(name, opcodes) == executed


# Clocks and throttling


def test_throttling_is_told_by_exactly_these_reasons() -> None:
    assert THROTTLE_MASK == 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80 | 0x100
    assert throttling(0x1 | 0x2) == ()
    assert throttling(None) == ()
    assert throttling(0x4 | 0x1) == ("power cap",)


def test_undisturbed_attempt_counts_whenever_it_comes() -> None:
    attempts = [Attempt((1.0,), 0x4), Attempt((2.0,), 0x1)]
    assert keep(attempts[:1]) is None
    assert keep(attempts) == Kept((2.0,), "short", ())


def test_clock_is_cycles_over_time_of_the_middle_block() -> None:
    assert sm_clock([(1980, 1000), (1900, 1000), (1500, 1000)], step_ns=5) == SmClock(1.9e9)
