"""Measured files: written and read back, broken ones refused, ceilings, normal or not, two side by side.

The numbers of the files here are made up to test with; no GPU gave them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gpuprof.characterize.sheet.ceilings import MeasuredCeilings, belongs, find_measured, newest, per_second
from gpuprof.characterize.sheet.forms import (
    quantity_text,
)
from gpuprof.characterize.sheet.measured import (
    Conditions,
    Curve,
    Measured,
    MeasuredDevice,
    MeasuredEvidence,
    MeasuredValue,
    load_measured,
    parse_measured,
)
from gpuprof.characterize.sheet.measured_text import measured_text
from gpuprof.characterize.sheet.normal import UNEXPLAINED, Assessment, Published, assess
from gpuprof.characterize.sheet.side_by_side import Difference, differences, side_by_side
from gpuprof.errors import SpecError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ComputeKey
from gpuprof.hardware.yaml_fields import quantity
from gpuprof.hardware.yaml_tree import BrokenSpec, FileLine, YamlNode, parse_tree
from gpuprof.resources import data_dir
from gpuprof.units import RESULT_UNITS
from tests.table import each_row

if TYPE_CHECKING:
    pass

H200 = SpecLibrary(folders=(data_dir("specs"),)).gpu("h200-sxm")
CLOCK = 1.98e9

READ = MeasuredValue(
    value=4.5e12, unit="B/s", verdict="verified", low=4.49e12, high=4.51e12, ceiling="dram", regime="short",
    statistic="median", samples=33, method="16-byte loads over 8 GiB", configuration={"block": "512", "unroll": "8"},
    evidence=MeasuredEvidence(
        gate="8 LDG.E.128 in the loop", opcodes={"LDG.E.128": 8, "LOP3.LUT": 32}, cubin_sha256="0" * 64,
        scaling_residual=0.0012, clock_hz=CLOCK, nvml_clock_hz=CLOCK, limit=4.8128e12, limit_name="dram",
        limit_source="memory clock 3200 MHz × 2 × 6016 bit ÷ 8", counters={"dram bytes": 1.001},
    ),
)  # fmt: skip
L1 = MeasuredValue(
    33.0, "cycle", "plausible", ("no disassembler",), low=32.9, high=33.2, evidence=MeasuredEvidence(clock_hz=CLOCK)
)
FP4 = MeasuredValue(None, "FLOP/s", "unsupported", ("sm_90a has no FP4 mma",))


def tensor(flops: float, ceiling: str, **changes: object) -> MeasuredValue:
    value = MeasuredValue(flops, "FLOP/s", "verified", ceiling=ceiling, evidence=MeasuredEvidence(clock_hz=CLOCK))
    return replace(value, **changes)  # type: ignore[arg-type]


def sheet(**values: MeasuredValue) -> Measured:
    return Measured(
        name="h200-sxm",
        spec="h200-sxm",
        device=MeasuredDevice("NVIDIA H200", "9.0", 132, "10de:2335", None, 141e9, 6016, 60 * 2**20),
        conditions=Conditions("2026-01-02T03:04:05Z", "0.1.0", "580.1", "13.0", ecc=True, mig=False, power_limit_w=700),
        values=values,
    )


FULL = replace(
    sheet(read=READ, l1=L1, fp4=FP4), curves={"latency/chase": Curve("B", "cycle", ((4096.0, 33.0), (2.0**28, 612.25)))}
)


def read_back(measured: Measured) -> Measured:
    return parse_measured(parse_tree(measured_text(measured), "here.yaml"))


# The file


def test_measured_file_reads_like_a_spec_and_back_as_it_was_written() -> None:
    assert read_back(FULL) == replace(FULL, file="here.yaml")
    text = measured_text(FULL)
    for line in (
        "kind: measured",
        "  pci_id: 10de:2335",
        "  l2_size: 60 MiB",
        "    value: 4.5 TB/s",
        "      opcodes: {LDG.E.128: 8, LOP3.LUT: 32}",
        "    value: 33 cycle",
    ):
        assert f"\n{line}\n" in text
    assert "null" not in text  # what is not known is not in the file
    assert "driver" not in measured_text(replace(FULL, conditions=Conditions("2026-01-02", "0.1.0")))
    sizes = (999999.5, 1024.0001, 1.5, 1048576.0, 1048577.0)
    assert [quantity_text(size, "B") for size in sizes] == ["1000000 B", "1 KiB", "1.5 B", "1 MiB", "1048577 B"]


def test_value_above_its_limit_is_read_only_where_it_is_rejected_or_the_limit_not_confirmed() -> None:
    doubted = replace(READ, evidence=replace(READ.evidence, limit=4.4e12, limit_confirmed=False))
    assert read_back(replace(FULL, values={"a/b": doubted})).values["a/b"] == doubted
    certain = replace(doubted, evidence=replace(doubted.evidence, limit_confirmed=True))
    with pytest.raises(BrokenSpec):
        read_back(replace(FULL, values={"a/b": certain}))
    rejected = replace(certain, verdict="rejected", reasons=("too much",))
    read = read_back(sheet(read=rejected)).values["read"]
    assert (read.reasons, read.usable) == (("too much",), False)


@given(
    st.floats(0, 1e20),
    st.sampled_from(["B/s", "FLOP/s", "OP/s", "Hz", "W", "s", "FLOP/clk/SM", "result/clk/SM", "%", "", *RESULT_UNITS]),
    st.integers(0, 2**50),
)
def test_amounts_survive_the_text_to_six_digits_and_bytes_exactly(value: float, unit: str, size: int) -> None:
    read = quantity(YamlNode(quantity_text(value, unit), FileLine("here", 1)), "it")
    assert read.unit == unit
    assert read.value == pytest.approx(value, rel=1e-5, abs=1e-15)
    assert quantity(YamlNode(quantity_text(float(size), "B"), FileLine("here", 1)), "it").value == size


ALL_KEYS = Path(__file__).parent / "data" / "all-keys.measured.yaml"
"""A file with every key, as gpuprof 0.1 wrote it before the fields declared it."""


def test_file_with_every_key_is_written_again_byte_for_byte() -> None:
    assert measured_text(load_measured(ALL_KEYS)) == ALL_KEYS.read_text(encoding="utf-8")


@each_row(
    ("find", "put", "named"), [("kind: measured", "kind: gpu", "kind"), ("schema: 1", "schema: 2", "schema"),
        ("value: 4.5 TB/s", "value: 4.5", "B/s"), ("value: 4.5 TB/s", "value: 4.6 TB/s", "interval"),
        ("value: 4.5 TB/s", "value: -4.5 TB/s", "negative"), ("limit: 4.8128 TB/s", "limit: 4.4 TB/s", "1.023 ×"),
        ("verdict: verified", "verdict: proven", "'proven'"),
        ("verdict: verified", "verdict: unsupported", "unsupported"),
        ("    value: 4.5 TB/s\n", "", "value is missing"),
        ("ceiling: dram", "ceiling: tensor.fp16 fp32", "PATH ACCUMULATOR INSTRUCTION"),
        ("regime: short", "regime: quiet", "'quiet'"), ("sm_count: 132", f"sm_count: {'9' * 5000}", "whole number"),
        ("ecc: true", "ecc: perhaps", "'perhaps'"), ("scaling_residual: 0.0012", "scaling_residual: .inf", "number"),
        ("[4096 33, 268435456 612.25]", "[4096, 33]", "two numbers"), ("  read:", "  read: 5\n  other:", "mapping"),
        ("conditions:", "condition:", "'condition'")],
)  # fmt: skip
def test_broken_file_is_refused_with_its_line(find: str, put: str, named: str) -> None:
    text = measured_text(FULL)
    assert find in text
    with pytest.raises(BrokenSpec, match=re.escape(named)) as caught:
        parse_measured(parse_tree(text.replace(find, put, 1), "here.yaml"))
    assert re.match(r"here\.yaml:\d+: ", caught.value.message)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_damaged_file_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    text = list(measured_text(FULL))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(st.sampled_from(["", "9", ":", "\n", "-", "{", "e", "\x00", "é", " "]))
    try:
        read = parse_measured(parse_tree("".join(text), "here"))
    except SpecError:
        return
    assert all((value.of_limit or 0) <= 1.006 for value in read.values.values() if value.usable)


# Ceilings


def test_ceiling_of_a_level_is_its_highest_value_that_was_not_rejected() -> None:
    copy = replace(READ, value=4.2e12, low=None, high=None)
    wrong = replace(READ, value=9e12, verdict="rejected")
    limit = MeasuredCeilings(sheet(copy=copy, read=READ, wrong=wrong)).bandwidth("dram")
    assert limit is not None
    assert (limit.value, limit.clock_hz) == (4.5e12, CLOCK)
    assert "2026-01-02: read, verified" in limit.source
    assert MeasuredCeilings(sheet(read=READ)).bandwidth("l2") is None
    assert MeasuredCeilings(sheet(read=replace(READ, ceiling=None))).bandwidth("dram") is None


def test_rate_per_clock_becomes_a_rate_at_the_clock_of_its_measurement() -> None:
    shared = MeasuredValue(127.0, "B/clk/SM", "verified", ceiling="shared", evidence=MeasuredEvidence(clock_hz=1e9))
    assert per_second(shared, 132) == 127.0 * 132 * 1e9
    assert per_second(replace(shared, unit="B/clk"), 132) == 127.0 * 1e9
    assert per_second(replace(shared, evidence=MeasuredEvidence()), 132) is None
    assert per_second(L1, 132) is None


TENSOR = MeasuredCeilings(
    sheet(wgmma=tensor(950e12, "tensor.bf16 fp32 wgmma"), mma=tensor(620e12, "tensor.bf16 fp32 mma.sync"),
        half=tensor(990e12, "tensor.fp16 fp16 wgmma"), full=tensor(940e12, "tensor.fp16 fp32 wgmma"))
)  # fmt: skip


def compute(path: str, split: dict[ComputeKey, float] | None = None) -> float | None:
    limit = TENSOR.compute(path, split)
    return limit.value if limit is not None else None


def test_compute_ceiling_is_that_of_the_instruction_family_and_accumulator_that_the_kernel_used() -> None:
    wgmma, mma = (ComputeKey("tensor.bf16", "fp32", family) for family in ("wgmma", "mma.sync"))
    assert compute("tensor.bf16") == 950e12
    assert compute("tensor.bf16", {mma: 1e9, wgmma: 1e6}) == 620e12
    assert compute("tensor.bf16", {ComputeKey("tensor.bf16", "fp32", "tcgen05"): 1e9}) == 950e12
    assert compute("tensor.fp16") == 940e12
    assert compute("tensor.fp16", {ComputeKey("tensor.fp16", "fp16", "wgmma"): 1.0}) == 990e12
    assert compute("tensor.bf16", {ComputeKey("tensor.bf16", "fp16", "wgmma"): 1.0}) is None
    assert compute("tensor.fp8") is None


RECORDED = RecordedDevice(name="NVIDIA H200", pci_id="10de:2335", sm_count=132, memory_bytes=150_109_880_320)


def test_measured_file_belongs_to_a_gpu_of_the_same_product() -> None:
    assert all(belongs(FULL, device) for device in (
        RECORDED, RecordedDevice(name="NVIDIA H200"), structs.replace(RECORDED, name="a renamed H200"),
    ))  # fmt: skip
    assert not any(belongs(FULL, device) for device in (
        structs.replace(RECORDED, sm_count=16),  # a MIG slice
        structs.replace(RECORDED, memory_bytes=80_000_000_000),
        RecordedDevice(name="NVIDIA H100 80GB HBM3", pci_id="10de:2330", sm_count=132),
        RecordedDevice(),
    ))  # fmt: skip


def test_newest_measured_file_of_the_nearest_folder_counts_and_others_are_not_parsed(tmp_path: Path) -> None:
    later = replace(FULL, conditions=replace(FULL.conditions, date="2026-02-01T00:00:00Z"))
    assert newest([later, FULL], RECORDED) is later
    assert newest([], RECORDED) is None
    near, far = tmp_path / "user", tmp_path / "packaged"
    for folder, name in ((near, "mine"), (far, "shipped")):
        (folder / "measured").mkdir(parents=True)
        (folder / "measured" / f"{name}.measured.yaml").write_text(measured_text(replace(FULL, name=name)))
    (near / "measured" / "other.measured.yaml").write_text("kind: measured\nbroken: [")
    nearest = find_measured([tmp_path / "nowhere", near, far], RECORDED)
    assert nearest is not None and nearest.name == "mine"
    assert load_measured(near / "measured" / "mine.measured.yaml") == nearest
    assert find_measured([near, far], RecordedDevice(name="NVIDIA A40")) is None
    (near / "measured" / "h200.measured.yaml").write_text("kind: measured\nname: NVIDIA H200\n")
    with pytest.raises(SpecError, match=r"h200\.measured\.yaml:1: schema"):
        find_measured([near], RECORDED)


# Is my GPU normal?


def assessed(measured: Measured, published: Published | None = None) -> Assessment:
    """Assess the only value of a file."""
    ((name, _),) = measured.values.items()
    (assessment,) = assess(measured, {name: published} if published else {}, H200)
    return assessment


DRAM = Published(0.92, 0.97, "H100 and GH200, RRZE-HPC/gpu-benches", of_limit=True)
BF16 = Published(700e12, 990e12, "by hand")


def slow_tensor(**changes: object) -> MeasuredValue:
    return tensor(500e12, "tensor.bf16 fp32 wgmma", **changes)


def test_value_within_the_published_range_is_normal_and_has_all_ratios() -> None:
    read = assessed(sheet(read=READ), DRAM)
    assert (read.word, read.causes) == ("normal", ())
    assert read.of_rated == pytest.approx(4.5 / 4.8)
    assert read.of_limit == pytest.approx(4.5 / 4.8128)
    assert read.expected is not None
    assert read.expected.low == pytest.approx(0.92 * 4.8128e12)


@each_row(("value", "published", "word"), [
    (READ, None, "no range"),
    (replace(READ, evidence=MeasuredEvidence()), DRAM, "no range"),  # of a limit that is not known
    (FP4, BF16, "not measured"),
    (replace(READ, verdict="rejected"), DRAM, "not measured"),
    (READ, Published(4.6e12, 4.7e12, "by hand"), "normal"),  # 3 % of slack
    (replace(READ, value=4.4e12), Published(4.6e12, 4.7e12, "by hand"), "low"),
])  # fmt: skip
def test_value_is_held_against_its_published_range(
    value: MeasuredValue, published: Published | None, word: str
) -> None:
    assert assessed(sheet(a=value), published).word == word


STATIC, DYNAMIC = "bandwidth/dram-read SCHEDULE=Static", "bandwidth/dram-read SCHEDULE=Dynamic"


def ways(static: float, dynamic: float, **changes: object) -> Measured:
    """DRAM read in two ways."""
    values = {STATIC: static, DYNAMIC: dynamic}
    made = {name: replace(READ, value=rate, low=None, high=None, **changes) for name, rate in values.items()}  # type: ignore[arg-type]
    return replace(sheet(), values=made)


def test_best_of_several_ways_to_measure_a_ceiling_is_held_against_the_range() -> None:
    def verdicts(static: float, dynamic: float, **changes: Any) -> tuple[str, ...]:
        ranges = {STATIC: DRAM, DYNAMIC: DRAM}
        return tuple(made.word for made in assess(ways(static, dynamic, **changes), ranges, H200))

    assert verdicts(4.2e12, 4.5e12) == ("no range", "normal")
    assert verdicts(4.2e12, 4.0e12) == ("low", "no range")
    assert verdicts(4.45e12, 4.5e12) == ("normal", "normal")  # slower, but within the range
    assert verdicts(4.2e12, 4.5e12, ceiling=None) == ("low", "normal")  # what is no ceiling has no best way


SLOW_READ = replace(READ, value=2.2e12, low=None, high=None)
SLOW_COPY = MeasuredValue(13e9, "B/s", "verified", evidence=MeasuredEvidence(limit=15.75e9, limit_name="pcie"))
SLOW_MEMORY = {"memory_clock_hz": 1.6e9, "max_memory_clock_hz": 3.2e9}
NARROW = {"pcie_generation": 3, "pcie_width": 16, "max_pcie_generation": 5, "max_pcie_width": 16}
FAST = tensor(1060e12, "tensor.bf16 fp32 wgmma")


@each_row(
    ("value", "published", "conditions", "device", "named"),
    [
        (slow_tensor(throttling=("power cap",)), BF16, {}, {}, ("1.980 GHz: power cap",)),
        (slow_tensor(), BF16, {"power_limit_w": 500.0, "default_power_limit_w": 650.0}, {}, ("500 W, 650 W",)),
        (slow_tensor(evidence=MeasuredEvidence(clock_hz=1.2e9)), BF16, {}, {}, ("1.200 GHz of 1.830 GHz",)),
        (slow_tensor(), BF16, {"mig": True}, {}, ("MIG",)),
        (slow_tensor(), BF16, {"other_processes": 2}, {}, ("2 other processes",)),
        (slow_tensor(), BF16, {}, {"sm_count": 66}, ("66 of",)),
        (slow_tensor(), BF16, SLOW_MEMORY, {}, (UNEXPLAINED,)),
        (SLOW_READ, DRAM, SLOW_MEMORY, {}, ("1.600 GHz of 3.200 GHz",)),
        (SLOW_READ, DRAM, {}, {}, (UNEXPLAINED,)),
        (SLOW_READ, DRAM, {}, {"memory_bus_bits": 384}, ("ECC",)),  # ECC costs bandwidth on GDDR only
        (SLOW_COPY, Published(55e9, 57e9, "nvbandwidth"), NARROW, {}, ("PCIe 3 × 16 of 5 × 16",)),
        (replace(L1, value=66.0), Published(32, 34, "made up"), {}, {}, (UNEXPLAINED,)),
        (FAST, BF16, {}, {}, ("1.980 GHz, above the rated 1.830 GHz",)),
        (FAST, BF16, {}, {"sm_count": 148}, ("1.830 GHz", "another product")),
        (replace(READ, value=4.75e12, low=None, high=None), Published(4.0e12, 4.5e12, "by hand"), {}, {},
         ("99 % of its limit",)),
    ],
)  # fmt: skip
def test_value_outside_of_its_range_is_explained_by_what_was_recorded(
    value: MeasuredValue, published: Published, conditions: dict[str, Any], device: dict[str, Any],
    named: tuple[str, ...],
) -> None:  # fmt: skip
    measured = sheet(a=value)
    changed: dict[str, Any] = {
        "conditions": replace(measured.conditions, **conditions), "device": replace(measured.device, **device),
    }  # fmt: skip
    causes = assessed(replace(measured, **changed), published).causes
    assert len(causes) == len(named)
    assert all(name in cause for name, cause in zip(named, causes, strict=True)), causes


# Two files side by side


@each_row(("base", "value", "half", "verdict"), [
    (READ, 4.42e12, 1e10, "same"), (READ, 4.0e12, 1e10, "worse"), (READ, 5.0e12, 1e10, "better"),
    (L1, 36.0, 0.1, "worse"), (L1, 30.0, 0.1, "better"),
    (READ, 4.2e12, 3e11, "unclear"),  # the intervals overlap
])  # fmt: skip
def test_change_beyond_two_percent_and_both_intervals_has_a_direction(
    base: MeasuredValue, value: float, half: float, verdict: str
) -> None:
    new = replace(base, value=value, low=value - half, high=value + half)
    (row,) = side_by_side(sheet(a=base), sheet(a=new))
    assert base.value is not None
    assert (row.word, row.ratio) == (verdict, value / base.value)


def test_ratio_per_clock_leaves_the_clocks_out() -> None:
    base = tensor(900e12, "tensor.bf16 fp32 wgmma", evidence=MeasuredEvidence(clock_hz=1.8e9))
    new = tensor(450e12, "tensor.bf16 fp32 wgmma", evidence=MeasuredEvidence(clock_hz=0.9e9))
    (row,) = side_by_side(sheet(bf16=base), sheet(bf16=new))
    assert (row.ratio, row.per_clock, row.word) == (0.5, 1.0, "worse")
    (row,) = side_by_side(sheet(l1=L1), sheet(l1=L1))
    assert row.per_clock is None


def test_values_that_cannot_be_compared_are_listed_all_the_same() -> None:
    rejected = replace(READ, verdict="rejected")
    base = sheet(read=READ, fp4=FP4, old=L1)
    rows = side_by_side(base, sheet(read=rejected, fp4=FP4, new=L1))
    words = {"read": "not comparable", "fp4": "not comparable", "old": "only base", "new": "only new"}
    assert {row.name: row.word for row in rows} == words
    assert all(row.ratio is None for row in rows)


def test_differing_conditions_are_named() -> None:
    base = sheet()
    conditions = replace(base.conditions, driver="590.2", ecc=False, power_limit_w=500.0, cuda=None)
    new = replace(base, conditions=conditions, device=replace(base.device, name="NVIDIA H100", sm_count=114))
    assert differences(base, new) == (
        Difference("GPU", "NVIDIA H200", "NVIDIA H100"), Difference("SMs", "132", "114"),
        Difference("driver", "580.1", "590.2"), Difference("cuda", "13.0", "not known"),
        Difference("ecc", "on", "off"), Difference("power_limit_w", "700", "500"),
    )  # fmt: skip
    assert differences(base, base) == ()
