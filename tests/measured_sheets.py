"""A measured file whose every number is made up, with published ranges and titles, and one of hostile texts.

No GPU gave these numbers, and the device says so by its name.
"""

from __future__ import annotations

from dataclasses import replace

from gpuprof.characterize.present.view import View, view_of
from gpuprof.characterize.sheet.measured import (
    Conditions,
    Curve,
    Measured,
    MeasuredDevice,
    MeasuredEvidence,
    MeasuredValue,
)
from gpuprof.characterize.sheet.normal import Published, assess
from gpuprof.hardware.library import SpecLibrary
from gpuprof.resources import data_dir
from tests.hand_made import HOSTILE

CLOCK = 1.755e9
SMS = 132
GPU = SpecLibrary(folders=(data_dir("specs"),)).gpu("h200-sxm")
"""Ratings to hold made-up values against."""


def value(number: float | None, unit: str, limit: float | None = None, **changes: object) -> MeasuredValue:
    """A verified value with an interval of 0.2 % to both sides."""
    low, high = (number * 0.998, number * 1.002) if number is not None else (None, None)
    evidence = MeasuredEvidence(
        gate="pass", opcodes={"LDG.E.128": 4}, cubin_sha256="0123456789abcdef" * 4, scaling_residual=0.0012,
        clock_hz=CLOCK, nvml_clock_hz=CLOCK * 1.001, limit=limit, limit_source="made up" if limit else None,
    )  # fmt: skip
    made = MeasuredValue(
        number, unit, "verified", low=low, high=high, regime="short", statistic="median", samples=33,
        method="16-byte loads over 8 GiB", configuration={"block": "512", "DEPTH": "4"}, evidence=evidence,
    )  # fmt: skip
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
    "tensor/mma-sync-bf16-f32 zeros": tensor(0.945, 2730.667, "tensor.bf16 fp32 mma.sync"),
    "tensor/wgmma-bf16-f32 N=256 SOURCE=shared zeros": tensor(0.968, 4096, "tensor.bf16 fp32 wgmma"),
    "tensor/wgmma-bf16-f32 N=128 SOURCE=shared zeros": tensor(0.94, 4096, "tensor.bf16 fp32 wgmma"),
    "tensor/wgmma-bf16-f32 N=256 SOURCE=shared random sustained": _HELD,
    "tensor/wgmma-e4m3-f32 zeros": tensor(0.96, 8192, "tensor.fp8 fp32 wgmma"),
    "tensor/mma-sync-e4m3-f32 zeros": replace(
        tensor(0.93, 2730.667, "tensor.fp8 fp32 mma.sync"), evidence=MeasuredEvidence(
            gate="emulated", clock_hz=CLOCK, limit=2730.667, limit_name="tensor.fp16 fp32 mma.sync")),
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


CURVES = {
    "bandwidth/dram-in-flight": Curve(
        "B", "B/s", tuple((512.0 * 2**step, min(4.4e12, 1e11 * 2**step)) for step in range(9))
    ),
    "bank-conflict/load-4": Curve("ways", "cycle", tuple((float(way), 0.5 + way) for way in (1, 2, 4, 8, 16, 32))),
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
    return view_of(measured, assess(measured, PUBLISHED if published is None else published, GPU), {})


def only(**values: MeasuredValue) -> Measured:
    """A file with these values in the family "bandwidth"."""
    return replace(MADE_UP, values={f"bandwidth/{name}": value for name, value in values.items()}, curves={})


def hostile() -> Measured:
    """Every text of the file is hostile."""
    evidence = replace(
        VALUES["bandwidth/dram-read"].evidence, gate=HOSTILE, limit_name=HOSTILE, limit_source=HOSTILE,
        opcodes={HOSTILE: 1}, counters={HOSTILE: 1.0},
    )  # fmt: skip
    rejected = value(1e12, "B/s", verdict="rejected", reasons=(HOSTILE,), throttling=(HOSTILE,))
    bad = replace(rejected, method=HOSTILE, configuration={HOSTILE: HOSTILE}, evidence=evidence)
    return replace(
        MADE_UP, name=HOSTILE, spec=HOSTILE,
        device=replace(MADE_UP.device, name=HOSTILE, pci_id=HOSTILE, compute_capability=HOSTILE),
        conditions=replace(MADE_UP.conditions, date=HOSTILE, gpuprof=HOSTILE, driver=HOSTILE, cuda=HOSTILE),
        values={
            f"bandwidth/{HOSTILE}": bad, HOSTILE: missing("unsupported", HOSTILE),
            f"latency/l1 {HOSTILE}": value(33.0, "cycle", verdict="plausible", reasons=(HOSTILE,)),
            f"{HOSTILE}/x": value(1.0, HOSTILE),
        },
        curves={f"latency/l1 {HOSTILE}": Curve(HOSTILE, HOSTILE, ((1.0, 1.0), (2.0, 3.0)))},
    )  # fmt: skip


def seen_hostile() -> View:
    measured = hostile()
    published = {name: Published(1.0, 2.0, HOSTILE) for name in measured.values}
    titles = {f"bandwidth/{HOSTILE}": HOSTILE, "latency/l1": HOSTILE, f"{HOSTILE}/y": HOSTILE}
    return view_of(measured, assess(measured, published, GPU), titles)
