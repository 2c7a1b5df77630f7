"""How a measured GPU is shown in the terminal, live, as JSON, and beside another one.

Every number here is made up to test with: no GPU gave it, and the device says so by its name.
"""

from __future__ import annotations

import io
import json
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gpuprof.characterize.measure.events import (
    Compiling,
    ConfigurationTaken,
    Event,
    Finished,
    Remark,
    Result,
    RunPlanned,
    Started,
)
from gpuprof.characterize.present.compare import change_text, comparison_markdown, print_comparison
from gpuprof.characterize.present.console import print_measured
from gpuprof.characterize.present.json_out import comparison_json, json_lines, measured_json
from gpuprof.characterize.present.live import LiveLines
from gpuprof.characterize.present.view import View, cause_sentence, normal_sentence, view_of
from gpuprof.characterize.present.words import amount, half_width, half_width_text, span
from gpuprof.characterize.sheet.measured import (
    Conditions,
    Curve,
    Measured,
    MeasuredDevice,
    MeasuredEvidence,
    MeasuredValue,
    parse_measured,
)
from gpuprof.characterize.sheet.measured_text import measured_text
from gpuprof.characterize.sheet.normal import UNEXPLAINED, Published, assess
from gpuprof.characterize.sheet.side_by_side import differences, side_by_side
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.yaml_tree import parse_tree
from gpuprof.present.text import tolerate
from gpuprof.resources import data_dir
from gpuprof.units import parse_quantity
from tests.hand_made import HOSTILE
from tests.table import each_row
from tests.test_console import Ascii

CLOCK = 1.755e9
SMS = 132
GPU = SpecLibrary(folders=(data_dir("specs"),)).gpu("h200-sxm")
"""Ratings to hold made-up values against."""


def value(number: float | None, unit: str, limit: float | None = None, **changes: object) -> MeasuredValue:
    """A verified value with an interval of 0.2 % to both sides."""
    made = MeasuredValue(
        value=number,
        unit=unit,
        verdict="verified",
        low=number * 0.998 if number is not None else None,
        high=number * 1.002 if number is not None else None,
        regime="short",
        statistic="median",
        samples=33,
        method="16-byte loads over 8 GiB",
        configuration={"block": "512", "DEPTH": "4"},
        evidence=MeasuredEvidence(
            gate="pass",
            opcodes={"LDG.E.128": 4},
            cubin_sha256="0123456789abcdef" * 4,
            scaling_residual=0.0012,
            clock_hz=CLOCK,
            nvml_clock_hz=CLOCK * 1.001,
            limit=limit,
            limit_source="made up" if limit else None,
        ),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def tensor(of_limit: float, rate: float, ceiling: str, **changes: object) -> MeasuredValue:
    made = value(of_limit * rate, "FLOP/clk/SM", rate, ceiling=ceiling, **changes)
    return replace(made, evidence=replace(made.evidence, limit_name=ceiling))


def missing(verdict: str, why: str, unit: str = "FLOP/clk/SM") -> MeasuredValue:
    return MeasuredValue(None, unit, verdict, (why,))  # type: ignore[arg-type]


_HELD = replace(
    tensor(0.93, 4096, "tensor.bf16 fp32 wgmma", regime="power_limited", throttling=("power cap",)),
    evidence=replace(value(1.0, "FLOP/clk/SM", 4096).evidence, clock_hz=1.41e9),
)
VALUES = {
    "bandwidth/dram-read": value(3.9e12, "B/s", 4.8128e12, ceiling="dram"),
    "bandwidth/dram-write": value(4.61e12, "B/s", 4.8128e12),
    "bandwidth/dram-copy": value(4.2e12, "B/s", 4.8128e12, verdict="plausible", reasons=("NVML gives no SM clock",)),
    "bandwidth/dram-in-flight": value(4.4e12, "B/s", 4.8128e12),
    "bandwidth/dram-in-flight knee": value(41e3, "B"),
    "bandwidth/l1-read WIDTH=4": value(126.1, "B/clk/SM", 128, ceiling="l1"),
    "bandwidth/l1-read WIDTH=16": value(127.4, "B/clk/SM", 128, ceiling="l1"),
    "bandwidth/l2-read": replace(
        value(9.77e12, "B/s", 4.8128e12, verdict="rejected"),
        reasons=("9.77 TB/s is 2.03 × the limit 4.81 TB/s: memory clock 3200 MHz × 2 × 6016 bit ÷ 8",),
    ),
    "latency/l1": value(33.0, "cycle"),
    "latency/l2": value(273.0, "cycle"),
    "latency/dram": value(612.0, "cycle"),
    "latency/l1-capacity stride=32 B": value(256 * 1024.0, "B"),
    "latency/l2-capacity": value(48 * 2.0**20, "B"),
    "bank-conflict/load-4": value(1.0, "cycle"),
    "instruction/ffma-throughput": value(127.9, "result/clk/SM", 128, ceiling="fp32"),
    "tensor/mma-sync-bf16-f32 zeros": tensor(0.63, 4096, "tensor.bf16 fp32 mma.sync"),
    "tensor/wgmma-bf16-f32 N=256 SOURCE=shared zeros": tensor(0.968, 4096, "tensor.bf16 fp32 wgmma"),
    "tensor/wgmma-bf16-f32 N=128 SOURCE=shared zeros": tensor(0.94, 4096, "tensor.bf16 fp32 wgmma"),
    "tensor/wgmma-bf16-f32 N=256 SOURCE=shared random sustained": _HELD,
    "tensor/wgmma-e4m3-f32 zeros": tensor(0.96, 8192, "tensor.fp8 fp32 wgmma"),
    "tensor/mma-sync-e4m3-f32 zeros": replace(
        tensor(0.31, 8192, "tensor.fp8 fp32 mma.sync"), evidence=MeasuredEvidence(
            gate="emulated", clock_hz=CLOCK, limit=8192, limit_name="tensor.fp8 fp32 mma.sync")),
    "tensor/mma-sync-fp4-f32": missing("unsupported", "sm_90a has no FP4 mma"),
    "tensor/tcgen05-bf16-f32": missing("unsupported", "tcgen05 needs sm_100a"),
    "tensor/tcgen05-latency": missing("unsupported", "tcgen05 needs sm_100a"),
    "power/energy-dram": value(41e-12, "J/B"),
    "power/clock-lock": missing("not_permitted", "locking clocks needs administrator rights", "Hz"),
}  # fmt: skip

PUBLISHED = {
    "bandwidth/dram-read": Published(0.92, 0.98, "RRZE gpu-benches: GH200 97 %", of_limit=True),
    "bandwidth/l1-read WIDTH=16": Published(0.98, 1.005, "RRZE gpu-benches", of_limit=True),
    "latency/l1": Published(32.0, 34.0, "RRZE gpu-latency"),
    "latency/l2": Published(258.0, 281.0, "RRZE gpu-latency"),
    "latency/dram": Published(620.0, 690.0, "RRZE gpu-latency"),
    "tensor/wgmma-bf16-f32 N=256 SOURCE=shared random sustained": Published(
        4000, 4100, "arXiv 2501.12084", of_limit=False
    ),
}


def staircase(first: int, last: int, steps: dict[float, float]) -> tuple[tuple[float, float], ...]:
    """Cycles against sizes from 2^first to 2^last bytes: each level holds up to a size."""
    sizes = (2.0 ** (exponent / 4) for exponent in range(4 * first, 4 * last + 1))
    return tuple((size, next(cycles for capacity, cycles in steps.items() if size <= capacity)) for size in sizes)


LITTLE = tuple(
    (512.0 * warps, min(4.4e12, 4.4e12 * 512 * warps / 41e3)) for warps in (1, 2, 4, 8, 16, 32, 64, 128, 256)
)
CURVES = {
    "latency/l1-capacity stride=32 B": Curve("B", "cycle", staircase(14, 20, {2.0**18: 33.0, 2.0**30: 270.0})),
    "latency/l1-capacity stride=128 B": Curve("B", "cycle", staircase(14, 20, {2.0**18: 34.0, 2.0**30: 281.0})),
    "latency/l2-capacity": Curve(
        "B", "cycle", staircase(20, 28, {2.0**24: 262.0, 48 * 2.0**20: 340.0, 2.0**40: 640.0})
    ),
    "bandwidth/dram-in-flight": Curve("B", "B/s", tuple((x, 0.98 * y) for x, y in LITTLE)),
    "bank-conflict/load-4": Curve("ways", "cycle", tuple((float(way), 0.5 + way) for way in (1, 2, 4, 8, 16, 32))),
    "bank-conflict/load-8": Curve("ways", "cycle", tuple((float(way), 1.0 + 2 * way) for way in (1, 2, 4, 8, 16, 32))),
    "bank-conflict/load-16": Curve("ways", "cycle", tuple((float(way), 2.0 + 4 * way) for way in (1, 2, 4, 8, 16, 32))),
}

TITLES = {
    "bandwidth/dram-read": "Bytes per second that all SMs together read from DRAM",
    "bandwidth/l1-read": "Bytes that one SM reads from L1 per clock, with loads of 4, 8, 16 and 32 bytes",
    "bandwidth/dram-in-flight": "Bytes per second from DRAM against the bytes that an SM has in flight",
    "latency/l1": "Cycles of a global load that hits L1",
    "latency/l1-capacity": "Bytes that L1 holds, from the cycles of a load against the size walked",
    "latency/l2-capacity": "Bytes that L2 holds, from the cycles of a load against the size walked",
    "bank-conflict/load-4": "Cycles of an SM per shared load of 4 bytes, against the lanes that share a bank",
    "bank-conflict/load-8": "Cycles of an SM per shared load of 8 bytes, against the lanes that share a bank",
    "bank-conflict/load-16": "Cycles of an SM per shared load of 16 bytes, against the lanes that share a bank",
    "tensor/wgmma-bf16-f32": "BF16 matrix multiplies with FP32 accumulators through wgmma, per SM and clock",
    "atomics/global-cas": "Compare-and-swap on global memory",
}

MADE_UP = Measured(
    name="made-up",
    spec="h200-sxm",
    device=MeasuredDevice("Made-up GPU", "9.0", SMS, "ffff:0000", None, 141e9, 6016, 60 * 2**20),
    conditions=Conditions(
        "2026-01-02T03:04:05Z", "0.1.0", "000.00", "13.0", ecc=True, mig=False, power_limit_w=500,
        default_power_limit_w=700, max_sm_clock_hz=1.98e9, memory_clock_hz=3.2e9, max_memory_clock_hz=3.2e9,
        pcie_generation=4, pcie_width=16, max_pcie_generation=5, max_pcie_width=16, highest_temperature_c=61.0,
        other_processes=0,
    ),
    values=VALUES,
    curves=CURVES,
    file="/home/someone/made-up.measured.yaml",
)  # fmt: skip


def seen(measured: Measured = MADE_UP, published: dict[str, Published] | None = None) -> View:
    """Set a measured file in context."""
    return view_of(measured, assess(measured, PUBLISHED if published is None else published, GPU), TITLES)


def printed(
    view: View | None = None, width: int = 80, *, terminal: bool = False, stream: io.StringIO | None = None
) -> str:
    out = stream if stream is not None else io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    print_measured(console, view or seen())
    return out.getvalue()


def only(**values: MeasuredValue) -> Measured:
    """A file with these values in the family "bandwidth"."""
    return replace(MADE_UP, values={f"bandwidth/{name}": one for name, one in values.items()}, curves={})


def line_with(text: str, name: str) -> str:
    (found,) = (line for line in text.splitlines() if re.search(rf"(^|\s){re.escape(name)}(\s|$)", line))
    return " ".join(found.split())


# Amounts


@each_row(
    ("number", "unit", "text"),
    [
        (4.512e12, "B/s", "4.51 TB/s"),
        (262144, "B", "256 KiB"),
        (33.04, "cycle", "33.0 cycles"),
        (32, "ways", "32 ways"),
        (12.3456, "warp", "12.3 warps"),
        (1024, "thread", "1024 threads"),
        (4.1e-11, "J/B", "41.0 pJ/B"),
        (2.5e-6, "s", "2.50 µs"),
        (126.08, "B/clk/SM", "126 B/clk/SM"),
        (12, "", "12.0"),
    ],
)
def test_amounts_read_as_an_engineer_writes_them(number: float, unit: str, text: str) -> None:
    assert amount(number, unit) == text


@given(st.floats(1e-9, 9e17), st.sampled_from(["B/s", "FLOP/s", "OP/s", "Hz", "W", "s", "B/clk/SM", "FLOP/clk/SM"]))
def test_what_is_shown_is_the_value_to_three_digits(number: float, unit: str) -> None:
    if unit != "s":
        number += 1.0
    found = parse_quantity(amount(number, unit))
    assert found.unit == unit
    assert found.value == pytest.approx(number, rel=5.1e-3)


def test_a_range_has_its_unit_once_where_both_ends_share_it() -> None:
    assert span(4.42e12, 4.71e12, "B/s") == "4.42–4.71 TB/s"
    assert span(980e9, 1.02e12, "B/s", " to ") == "980 GB/s to 1.02 TB/s"
    assert span(33.0, 33.0, "cycle") == "33.0 cycles"


def test_the_interval_is_its_larger_half() -> None:
    assert half_width(value(100.0, "cycle", low=99.0, high=100.5)) == pytest.approx(0.01)
    assert half_width(value(100.0, "cycle", low=None)) is None
    assert half_width_text(value(100.0, "cycle", low=99.999, high=100.0)) == "<0.1 %"
    assert half_width_text(value(100.0, "cycle", low=88.0, high=100.0)) == "12.0 %"


# The sheet


def test_the_answer_comes_first_then_why_then_how_many() -> None:
    lines = [" ".join(line.split()) for line in printed(width=120).splitlines()]
    assert lines[0] == "This Made-up GPU is not normal: 2 of 6 values with a published range fall short of it."
    assert lines[1].startswith(
        "Likely because the power limit is 500 W, 700 W by default (2 of 2); the clocks were held"
    )
    assert "26 values: 20 verified, 1 plausible, 1 rejected, 3 unsupported, 1 not permitted." in lines[:4]
    order = ["Outside the published range", "Bandwidth", "Latency", "Tensor", "GPU Made-up GPU"]
    places = [next(i for i, line in enumerate(lines) if line.startswith(name)) for name in order]
    assert places == sorted(places)


UNREMARKABLE = replace(MADE_UP, conditions=Conditions("2026-01-02", "0.1.0"), curves={})


def in_range(name: str, low: float, high: float) -> dict[str, Published]:
    return {f"bandwidth/{name}": Published(low, high, "made up")}


@each_row(
    ("low", "high", "answer"),
    [
        (3.8e12, 4e12, "This Made-up GPU is normal: the one value with a published range lies within it."),
        (4.5e12, 5e12, "This Made-up GPU is not normal: the one value with a published range falls short of it."),
        (
            1e12,
            2e12,
            "This Made-up GPU is normal: the one value with a published range exceeds it.",
        ),
    ],
)
def test_the_answer_follows_the_published_range(low: float, high: float, answer: str) -> None:
    measured = only(**{"dram-read": VALUES["bandwidth/dram-read"]})
    assert normal_sentence(seen(measured, in_range("dram-read", low, high))) == answer


def test_without_published_ranges_nothing_is_called_normal() -> None:
    assert normal_sentence(seen(published={})) == (
        "Whether this Made-up GPU is normal is not known: there is no published range for its 21 values."
    )
    assert "normal?" not in printed(seen(published={})).split("±:")[0]


def test_nothing_measured_is_said_so() -> None:
    measured = only(fp4=missing("unsupported", "sm_90a has no FP4 mma"))
    assert printed(seen(measured)).splitlines()[0] == "No value of this Made-up GPU could be measured."
    assert printed(seen(only())).splitlines()[1] == "The file holds no values."


def test_a_long_latency_falls_short_and_a_short_one_does_not() -> None:
    slow = replace(UNREMARKABLE, values={"latency/l1": value(66.0, "cycle")})
    assert "not normal" in normal_sentence(seen(slow))
    assert cause_sentence(seen(slow)) == "No recorded condition explains it."
    quick = replace(slow, values={"latency/l1": value(20.0, "cycle")})
    assert normal_sentence(seen(quick)).endswith("exceeds it.")
    assert cause_sentence(seen(quick)) == ""


def test_the_words_for_no_cause_are_those_of_the_assessment() -> None:
    (found,) = assess(replace(UNREMARKABLE, values={"latency/l1": value(66.0, "cycle")}), PUBLISHED)
    assert found.causes == (UNEXPLAINED,)


def test_an_outlier_has_how_far_its_cause_and_who_published() -> None:
    block = " ".join(printed().split("Outside the published range")[1].split("Bandwidth")[0].split())
    assert block.startswith(
        "bandwidth/dram-read: 3.90 TB/s, 12 % below 4.43 to 4.72 TB/s Likely because the power limit is 500 W, 700 W "
        "by default. Published: RRZE gpu-benches: GH200 97 %"
    )


def test_at_most_ten_outliers_are_told_and_the_worse_ones_first() -> None:
    values = {f"v{number}": value(2.0, "B/s") for number in range(14)} | {"slow": value(0.5, "B/s")}
    published = {f"bandwidth/{name}": Published(1.0, 1.0, "made up") for name in values}
    block = printed(seen(only(**values), published)).split("Outside")[1].split("Bandwidth")[0]
    assert block.splitlines()[1] == "  bandwidth/slow: 0.500 B/s, 50 % below 1.00 B/s"
    assert block.count("above") == 9
    assert "… and 5 more, marked below" in block


def test_a_row_has_value_interval_and_both_shares() -> None:
    text = printed(width=80)
    assert line_with(text, "dram-read") == "✓ dram-read 3.90 TB/s 0.2 % 81 % 81 % low"
    assert line_with(text, "l1") == "✓ l1 33.0 cycles 0.2 % normal"


def test_a_wide_sheet_has_the_published_range_and_the_verdict_in_words() -> None:
    text = printed(width=120)
    assert line_with(text, "dram-read") == "✓ dram-read 3.90 TB/s 0.2 % 81 % 81 % 4.43–4.72 low verified"
    assert line_with(text, "dram-copy") == "~ dram-copy 4.20 TB/s 0.2 % 87 % plausible"
    assert "published" not in line_with(printed(width=80), "Latency")


def test_several_values_of_a_probe_stand_below_its_name_and_title() -> None:
    lines = printed(width=120).splitlines()
    start = lines.index("  l1-read  Bytes that one SM reads from L1 per clock, with loads of 4, 8, 16 and 32 bytes")
    assert [line.split()[1] for line in lines[start + 1 : start + 3]] == ["WIDTH=4", "WIDTH=16"]


@each_row("width", [60, 80, 99, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_no_number_loses_its_unit(width: int) -> None:
    lines = printed(width=width).splitlines()
    assert max(map(len, lines)) <= width
    figures = [re.search(r" ([\d.]+) ([A-Za-z/]+) +0\.2 %", line) for line in lines if "0.2 %" in line]
    assert len(figures) == 22
    assert None not in figures
    assert len({match.start(2) for match in figures if match}) == 1


STATIC, DYNAMIC = "bandwidth/dram-read SCHEDULE=Static", "bandwidth/dram-read SCHEDULE=Dynamic"
TWO_WAYS = replace(
    MADE_UP,
    values={
        STATIC: value(4.2e12, "B/s", 4.8128e12, ceiling="dram"),
        DYNAMIC: value(4.5e12, "B/s", 4.8128e12, ceiling="dram"),
    },
)
RANGES = {STATIC: PUBLISHED["bandwidth/dram-read"], DYNAMIC: PUBLISHED["bandwidth/dram-read"]}


def test_best_of_several_ways_to_measure_a_ceiling_is_named() -> None:
    text = printed(seen(TWO_WAYS, RANGES))
    assert "is normal: the one value with a published range lies within it." in " ".join(text.split())
    assert "the best of 2 ways" in text
    assert "6.7 % below SCHEDULE=Dynamic" in text
    assert "Outside the published range" not in text


@each_row(("width", "whose"), [(80, f"  {DYNAMIC}"), (60, "")])
def test_ceilings_stand_at_the_top_from_dram_inwards(width: int, whose: str) -> None:
    l2 = value(9e12, "B/s", 16e12, ceiling="l2")
    lines = printed(seen(replace(TWO_WAYS, values={"bandwidth/l2-read": l2, **TWO_WAYS.values})), width).splitlines()
    start = lines.index("Ceilings: the best of each, with its share of the limit")
    assert start < next(index for index, line in enumerate(lines) if line.startswith("Bandwidth"))
    assert lines[start + 1] == f"✓ DRAM  4.50 TB/s  94 %{whose}"
    assert lines[start + 2].startswith("✓ L2    9.00 TB/s  56 %")
    assert lines[start + 3] == ""


def test_without_ceilings_there_is_no_heading_of_them() -> None:
    assert "Ceilings" not in printed(seen(replace(MADE_UP, values={"latency/l1": value(33.0, "cycle")})))


@each_row(
    ("static", "said"),
    [
        (4.4999e12, "the same as SCHEDULE=Dynamic: less than 0.5 % below"),
        (4.45e12, "1.1 % below SCHEDULE=Dynamic"),
    ],
)
def test_way_that_is_no_worse_is_not_called_worse(static: float, said: str) -> None:
    values = {STATIC: value(static, "B/s", 4.8128e12, ceiling="dram"), DYNAMIC: TWO_WAYS.values[DYNAMIC]}
    text = " ".join(printed(seen(replace(TWO_WAYS, values=values), RANGES)).split())
    assert "the best of 2 ways" in text
    assert said in text


def test_higher_way_that_is_not_chosen_says_that_it_is_above_its_limit() -> None:
    doubted = MeasuredEvidence(limit=4.4e12, limit_confirmed=False, clock_hz=1.7e9)
    ways = {name: replace(one, evidence=doubted) for name, one in TWO_WAYS.values.items()}
    text = printed(seen(replace(TWO_WAYS, values=ways), {}))
    assert "7.1 % above SCHEDULE=Static, but also above its limit" in text


def test_way_that_comes_first_is_not_called_low_before_the_others_are_known() -> None:
    events = [Result(name, TWO_WAYS.values[name], RANGES[name]) for name in (STATIC, DYNAMIC)]
    static, dynamic = lived(*events).splitlines()[1:]
    assert "low" not in static and "4.43" not in static
    assert dynamic.split()[-1] == "normal"


def test_what_95_percent_of_the_peak_takes_is_what_an_sm_should_have_in_flight() -> None:
    name = "bandwidth/dram-in-flight at 95 % of peak"
    text = " ".join(printed(seen(replace(MADE_UP, values={**VALUES, name: value(56 * 1024.0, "B")}))).split())
    assert "at 95 % of peak 56 KiB" in text
    assert "what an SM should have in flight: at the knee itself" in text
    assert "what an SM should have in flight" not in printed()


def test_a_rejected_value_has_its_reason_and_no_answer() -> None:
    text = printed()
    assert line_with(text, "l2-read") == "✗ l2-read 9.77 TB/s 0.2 % 203 %"
    assert "rejected: 9.77 TB/s is 2.03 × the limit 4.81 TB/s: memory clock 3200 MHz ×" in text


def test_what_could_not_be_measured_is_told_by_reason() -> None:
    text = printed()
    assert "– unsupported: tcgen05-bf16-f32, tcgen05-latency: tcgen05 needs sm_100a" in text
    assert "– not permitted: clock-lock: locking clocks needs administrator rights" in text


def test_a_reason_for_doubt_is_told_once_with_its_number() -> None:
    doubtful = {
        f"bandwidth/b{number}": value(1e12, "B/s", verdict="plausible", reasons=("no disassembler",))
        for number in range(40)
    }
    text = printed(seen(replace(MADE_UP, values=doubtful)))
    assert text.count("no disassembler") == 1
    assert "not checked of 40 values: no disassembler" in text


def test_doubt_of_one_value_stands_below_it_however_many_others_there_are() -> None:
    doubtful = {
        f"bandwidth/b{number}": value(1e12, "B/s", verdict="plausible", reasons=(f"reason {number // 2}",))
        for number in range(13)
    }
    lines = printed(seen(replace(MADE_UP, values=doubtful))).splitlines()
    alone = next(index for index, line in enumerate(lines) if line.startswith("~ b12"))
    assert lines[alone + 1] == "    plausible: reason 6"
    # The five that are told of most values are told once, below.
    assert sum("not checked of 2 values" in line for line in lines) == 5
    assert sum("plausible: reason 5" in line for line in lines) == 2


def test_what_held_the_clocks_back_stands_below_the_value() -> None:
    assert "    power limited (power cap), at 1.41 GHz" in printed().splitlines()


def test_a_quick_run_has_no_empty_columns_and_says_what_it_lacks() -> None:
    text = printed(seen(replace(MADE_UP, values={"latency/l1": VALUES["latency/l1"]}, curves={})))
    assert line_with(text, "Latency") == "Latency ± normal?"
    assert "Not in this file: bandwidth, bank conflict, tensor, atomics" in text


def test_conditions_are_told_and_what_is_not_known_is_no_zero() -> None:
    unknown = replace(MADE_UP, conditions=Conditions("2026-01-02", "0.1.0"))
    text = " ".join(printed(seen(unknown)).split())
    for words in ("driver not known, CUDA not known", "ECC not known, MIG not known", "other processes not known"):
        assert words in text
    known = " ".join(printed().split())
    assert "power limit 500 W (700 W by default)" in known
    assert "PCIe 4 × 16 (at most PCIe 5 × 16)" in known
    assert "DRAM clock 3.20 GHz ECC" in known
    assert "0 other processes" in known


def test_colour_is_for_terminals_only_and_not_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in printed()
    assert "\x1b[32m" in printed(terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3[1-6]", printed(terminal=True))


def test_ascii_terminals_get_marks_that_they_have() -> None:
    tolerate(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    out = Ascii()
    text = printed(stream=out)
    assert "+ dram-read" in text
    assert "x rejected" in text
    assert line_with(text, "Latency") == "Latency +- limit rated normal?"
    assert "?" not in text.replace("normal?", "").replace("?C", "")


def hostile() -> Measured:
    """Every text that a file can hold is hostile."""
    evidence = replace(
        VALUES["bandwidth/dram-read"].evidence,
        gate=HOSTILE,
        limit_name=HOSTILE,
        limit_source=HOSTILE,
        opcodes={HOSTILE: 1},
        counters={HOSTILE: 1.0},
    )
    rejected = value(1e12, "B/s", verdict="rejected", reasons=(HOSTILE,), throttling=(HOSTILE,))
    bad = replace(rejected, method=HOSTILE, configuration={HOSTILE: HOSTILE}, evidence=evidence)
    return replace(
        MADE_UP,
        name=HOSTILE,
        spec=HOSTILE,
        device=replace(MADE_UP.device, name=HOSTILE, pci_id=HOSTILE, compute_capability=HOSTILE),
        conditions=replace(MADE_UP.conditions, date=HOSTILE, gpuprof=HOSTILE, driver=HOSTILE, cuda=HOSTILE),
        values={
            f"bandwidth/{HOSTILE}": bad,
            HOSTILE: missing("unsupported", HOSTILE),
            f"latency/l1 {HOSTILE}": value(33.0, "cycle", verdict="plausible", reasons=(HOSTILE,)),
            f"{HOSTILE}/x": value(1.0, HOSTILE),
        },
        curves={f"latency/l1 {HOSTILE}": Curve(HOSTILE, HOSTILE, ((1.0, 1.0), (2.0, 3.0)))},
    )


def seen_hostile() -> View:
    measured = hostile()
    published = {name: Published(1.0, 2.0, HOSTILE) for name in measured.values}
    titles = {f"bandwidth/{HOSTILE}": HOSTILE, "latency/l1": HOSTILE, f"{HOSTILE}/y": HOSTILE}
    return view_of(measured, assess(measured, published, GPU), titles)


@each_row("width", [60, 80, 120])
def test_hostile_texts_are_text(width: int) -> None:
    text = printed(seen_hostile(), width=width)
    assert not any(unicodedata.category(char) in {"Cc", "Cf"} for char in text if char != "\n")
    assert "[red]" in text.replace("\n", "")
    assert "\\x1b" in text


def test_five_hundred_values_are_all_there() -> None:
    values = {f"instruction/op{number}-throughput": value(64.0, "result/clk/SM") for number in range(500)}
    text = printed(seen(replace(MADE_UP, values=values)))
    assert sum(line.startswith("✓ op") for line in text.splitlines()) == 500


def test_a_very_long_name_stands_above_its_figures() -> None:
    name = "n" * 300
    lines = printed(seen(only(**{name: value(1e12, "B/s")}))).splitlines()
    (row,) = (line for line in lines if line.startswith("✓ ") and "0.2 %" in line)
    assert row.split()[1:3] == ["1.00", "TB/s"]
    assert max(map(len, lines)) <= 80
    assert sum(line.count("n") for line in lines if set(line.strip()) == {"n"}) == 300


def test_a_file_that_was_written_and_read_back_gives_the_same_sheet() -> None:
    read = parse_measured(parse_tree(measured_text(MADE_UP), "made-up.measured.yaml"))
    assert printed(seen(read), 120) == printed(width=120)


def test_the_example_of_a_limit_in_the_documentation_is_right() -> None:
    text = (Path(__file__).parents[1] / "docs" / "explanation" / "measuring.md").read_text(encoding="utf-8")
    limit = 2 * 3200e6 * 6016 / 8
    assert f"÷ 8 = {amount(limit, 'B/s', 4)}" in text
    assert f"9.77 ÷ 4.813 = {9.77e12 / limit:.2f}" in text


# Live


def lived(*events: Event, width: int = 100, terminal: bool = False) -> str:
    out = io.StringIO()
    live = LiveLines(Console(file=out, width=width, force_terminal=terminal, color_system=None))
    for event in events:
        live(event)
    live(Finished(60.0, interrupted=False))
    return out.getvalue()


def result(name: str) -> Result:
    return Result(name, VALUES[name], PUBLISHED.get(name))


def test_a_result_comes_with_what_was_expected_beside_it() -> None:
    head, row, below = lived(result("bandwidth/dram-read")).splitlines()
    assert head.split() == ["±", "published", "normal?"]
    assert row.split() == ["✓", "bandwidth/dram-read", "3.90", "TB/s", "0.2", "%", "4.43–4.72", "low"]
    assert below.strip() == "12 % below 4.43 to 4.72 TB/s"


def test_the_columns_are_named_once() -> None:
    text = lived(result("latency/l1"), result("latency/l2"))
    assert text.count("published") == 1
    assert len(text.splitlines()) == 3


def test_what_gives_no_result_says_why() -> None:
    text = lived(result("tensor/tcgen05-latency"), result("bandwidth/l2-read"))
    assert "  tensor/tcgen05-latency: unsupported: tcgen05 needs sm_100a\n" in text
    assert "    rejected: 9.77 TB/s is 2.03 × the limit" in text


def test_remarks_stay_and_wrap() -> None:
    text = lived(Remark("latency/l2", "held back by " + "its power cap " * 20), width=60)
    assert text.startswith("  latency/l2: held back by its power cap")
    assert max(map(len, text.splitlines())) <= 60


STARTED = Started("latency/l2-capacity", "Bytes that L2 holds", "short", "zeros", 33, 64)


def test_how_far_it_is_shows_on_terminals_only_and_goes() -> None:
    plan = RunPlanned(("latency/l2-capacity",), 360.0)
    assert lived(plan, STARTED, Compiling(1, 2)) == ""
    text = lived(plan, STARTED, terminal=True)
    assert text == "[33 of 64] about 3 min left, latency/l2-capacity\r\x1b[K"


def test_what_is_timed_takes_the_place_of_the_line_before() -> None:
    taken = ConfigurationTaken("latency/l2-capacity", "size=1048576", 33, 272.0, "cycle")
    shown = lived(STARTED, taken, terminal=True).split("\r\x1b[K")
    assert shown == ["[33 of 64] latency/l2-capacity", "[33 of 64] latency/l2-capacity: size=1048576 272 cycles", ""]


def test_results_push_the_line_down() -> None:
    text = lived(STARTED, result("latency/l1"), terminal=True)
    assert re.sub(r"\r\x1b\[K", "<", text).count("[33 of 64] latency/l2-capacity<") == 2
    assert text.index("latency/l1") < text.rindex("[33 of 64]")


def test_how_far_it_is_takes_one_line_whatever_the_name() -> None:
    long = replace(STARTED, probe=f"latency/{HOSTILE}{'n' * 300}")
    line = lived(long, width=80, terminal=True).removesuffix("\r\x1b[K")
    assert len(line) == 79
    assert line.isprintable()
    assert line.endswith("…")


@each_row("width", [60, 80, 120])
def test_live_lines_fit_the_terminal(width: int) -> None:
    lines = lived(*map(result, VALUES), width=width).splitlines()
    assert len(lines) >= 27
    assert max(map(len, lines)) <= width


# JSON


def document(view: View | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads("\n".join(json_lines(measured_json(view or seen()))))
    return found


def test_json_keeps_base_units_and_says_what_is_missing() -> None:
    found = document()
    assert found["conditions"]["power_limit_w"] == 500
    first = found["values"][0]
    assert (first["name"], first["probe"], first["value"], first["unit"]) == (
        "bandwidth/dram-read", "bandwidth/dram-read", 3.9e12, "B/s",
    )  # fmt: skip
    assert first["assessment"]["published"] == {
        "low": pytest.approx(0.92 * 4.8128e12),
        "high": pytest.approx(0.98 * 4.8128e12),
        "source": "RRZE gpu-benches: GH200 97 %",
    }
    assert first["evidence"]["clock_hz"] == CLOCK
    (unsupported,) = (one for one in found["values"] if one["name"] == "tensor/mma-sync-fp4-f32")
    assert (unsupported["value"], unsupported["low"], unsupported["reasons"]) == (None, None, ["sm_90a has no FP4 mma"])
    assert found["curves"][4]["points"][1] == [2.0, 2.5]


def test_json_keys_are_stable() -> None:
    found = document()
    assert list(found) == [
        "schema_version", "kind", "name", "spec", "normal", "device", "conditions", "values", "curves",
    ]  # fmt: skip
    assert {tuple(one) for one in found["values"]} == {(
        "name", "family", "probe", "title", "value", "unit", "low", "high", "verdict", "reasons", "ceiling", "regime",
        "throttling", "statistic", "samples", "allocations", "of_allocations", "method", "configuration", "evidence",
        "assessment",
    )}  # fmt: skip
    assert list(found["values"][0]["evidence"]) == [
        "gate", "opcodes", "cubin_sha256", "scaling_residual", "clock_hz", "nvml_clock_hz", "limit", "limit_name",
        "limit_source", "limit_confirmed", "counters",
    ]  # fmt: skip
    assert list(found["values"][0]["assessment"]) == [
        "normal",
        "of_limit",
        "of_rated",
        "published",
        "causes",
        "chosen_over",
        "passed_over_for",
        "of_best",
    ]


def test_json_has_a_line_for_each_value_and_steers_nothing() -> None:
    lines = list(json_lines(measured_json(seen_hostile())))
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert document(seen_hostile())["device"]["name"] == HOSTILE
    assert sum('"family"' in line and '"verdict"' in line for line in json_lines(measured_json(seen()))) == 26


def test_json_of_an_empty_file_is_whole() -> None:
    assert document(seen(only()))["values"] == []


# Two files


def slower(factor: float) -> Measured:
    """The same file, each rate and time scaled; a newer driver, and no value for L1."""
    scaled = {
        name: replace(
            one, value=one.value * factor, low=one.value * factor * 0.998, high=one.value * factor * 1.002
        ) if one.value is not None and one.unit == "B/s" else one
        for name, one in VALUES.items()
        if name != "latency/l1"
    }  # fmt: skip
    conditions = replace(MADE_UP.conditions, driver="111.11", power_limit_w=700, mig=None, max_sm_clock_hz=1.5e9)
    return replace(MADE_UP, name="later", values=scaled, conditions=conditions)


def compared(base: Measured, new: Measured, width: int = 80) -> str:
    out = io.StringIO()
    print_comparison(Console(file=out, width=width, color_system=None), base, new)
    return out.getvalue()


def test_a_comparison_counts_first_and_names_what_differs() -> None:
    text = compared(MADE_UP, slower(0.8))
    flat = " ".join(text.split())
    assert flat.startswith(
        "later against made-up, 26 values: 16 the same within 2 %, 4 worse, 1 only in base, 5 not comparable. driver: "
    )
    for words in ("driver: 000.00 → 111.11", "MIG: off → not known", "power limit: 500 W → 700 W",
                  "highest SM clock: 1.98 GHz → 1.50 GHz"):  # fmt: skip
        assert words in flat


def test_a_comparison_has_both_values_and_the_change() -> None:
    text = compared(MADE_UP, slower(0.8))
    assert line_with(text, "dram-read") == "dram-read 3.90 3.12 TB/s −20 % −20 % worse"
    assert line_with(text, "l2") == "l2 273 273 cycles 0 % same"
    assert "  not comparable: l2-read\n" in text
    assert "  only in base: l1\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_values_whose_prefix_changes_keep_both_units() -> None:
    text = compared(MADE_UP, slower(0.1))
    assert line_with(text, "dram-read") == "dram-read 3.90 TB/s 390 GB/s −90 % −90 % worse"


def test_two_files_of_one_name_are_told_apart_by_their_date() -> None:
    later = replace(MADE_UP, conditions=replace(MADE_UP.conditions, date="2026-02-01"))
    assert " ".join(compared(MADE_UP, later).split()).startswith(
        "made-up of 2026-02-01 against made-up of 2026-01-02T03:04:05Z, 26 values: 21 the same"
    )


@each_row(
    ("ratio", "text"),
    [(1.031, "+3.1 %"), (0.996, "−0.40 %"), (1.0002, "0 %"), (2.5, "+150 %"), (0.8, "−20 %"), (None, "")],
)
def test_changes_have_a_sign(ratio: float | None, text: str) -> None:
    assert change_text(ratio) == text


def test_a_comparison_as_markdown_is_a_table_that_hostile_names_cannot_break() -> None:
    bad = replace(hostile(), curves={})
    lines = list(comparison_markdown(bad, replace(bad, device=replace(bad.device, name="other"))))
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + len(bad.values)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}
    assert not any(re.search(r"(?<!\\)<", line) for line in lines)
    table = list(comparison_markdown(MADE_UP, slower(0.8)))
    assert "| bandwidth/dram-read | 3.90 TB/s | 3.12 TB/s | −20 % | −20 % | worse |" in table


def test_a_comparison_as_json_keeps_both_sides() -> None:
    new = slower(0.8)
    found = json.loads(
        "\n".join(json_lines(comparison_json(MADE_UP, new, side_by_side(MADE_UP, new), differences(MADE_UP, new))))
    )
    first = found["rows"][0]
    assert (first["base"]["value"], first["verdict"]) == (3.9e12, "worse")
    assert first["new"]["value"] == pytest.approx(3.12e12)
    assert first["ratio"] == pytest.approx(0.8)
    assert {"name": "driver", "base": "000.00", "new": "111.11"} in found["differences"]
    (gone,) = (row for row in found["rows"] if row["name"] == "latency/l1")
    assert (gone["new"], gone["ratio"], gone["verdict"]) == (None, None, "only base")
