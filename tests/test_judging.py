"""What results are judged by: floors and published ranges of every probe on every product that is described."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from gpuprof.characterize.judge.limits import Bound, PcieLink, physical_limit, probe_limit
from gpuprof.characterize.judge.verdict import limit_check
from gpuprof.characterize.methods import slope
from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.characterize.probes.probe import Expected, Probe, target_of
from gpuprof.characterize.probes.probe_file import read_probe
from gpuprof.characterize.record.series import Observed, Sample, Series, SeriesConfig
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.judging import Judging, floor_of
from gpuprof.characterize.sheet.measured import Conditions, Measured, MeasuredDevice, MeasuredValue, load_measured
from gpuprof.characterize.sheet.measured_text import measured_text
from gpuprof.characterize.sheet.normal import assess
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.ceilings import Hardware
from gpuprof.model.quantities import Clocks
from gpuprof.resources import data_dir
from tests import builders, fake_probes
from tests.table import each_row

LIBRARY = SpecLibrary(folders=(data_dir("specs"),))
PROBES = {probe.id: probe for probe in load_probes(probe_folder())}
PRODUCTS = sorted({path.stem for path in data_dir("specs").glob("gpu/*.yaml")} - {"jetson-agx-xavier"})
"""Probes are compiled for none of sm_72."""
NOT_HELD = ("B", "s", "cycle", "block")
"""Units of sizes, times and counts, which have no limit to be held against."""
BEYOND = {("instruction/mufu-throughput", product): 31.1 for product in ("b300", "gb300")}
"""Ranges whose upper end a limit rejects, and what was published within. EX2 on a B300, whose
chip a GB300 has: 31.1 of 32 results per clock and SM; the range ends at 32.2, the limit and 0.6 % for the clock, where
the limit leaves 0.5 %."""


class Place(NamedTuple):
    """A product as it is measured: its limits at its highest clocks, and the target of its kernels."""

    hardware: Hardware
    clocks: Clocks
    target: str


def place(name: str) -> Place:
    hardware = builders.product(name)
    gpu, target = hardware.gpu, target_of(hardware.arch.compute_capability)
    assert gpu is not None and target is not None
    rate = gpu.number("memory_rate")
    clocks = Clocks(sm_hz=gpu.number("boost_clock"), dram_hz=rate / 2 if rate is not None else None)
    return Place(hardware, clocks, target)


def bound_of(probe: Probe, where: Place, assignment: dict[str, str]) -> Bound | None:
    limit = probe.limit(where.target, assignment)
    if limit is None or probe.unit in NOT_HELD:
        return None
    limited = (
        physical_limit("pcie", where.hardware, where.clocks, PcieLink(5, 16))
        if limit.bandwidth == "pcie"
        else probe_limit(limit, where.hardware, where.clocks, probe.unit)
    )
    return limited if isinstance(limited, Bound) else None


def ranges(name: str, where: Place) -> Iterator[tuple[Probe, dict[str, str], Expected]]:
    """Yield the ranges that hold for a product, as a run would take them: the first that fits each assignment."""
    for probe in PROBES.values():
        if where.target not in probe.targets:
            continue
        for assignment in probe.kernel.assignments(where.target) if probe.kernel is not None else iter([{}]):
            for expected in probe.expected:
                if (not expected.products or name in expected.products) and expected.condition.holds(
                    where.target, assignment
                ):
                    yield probe, assignment, expected
                    break


@pytest.mark.slow
@each_row("name", PRODUCTS)
def test_no_published_range_is_rejected_by_the_floor_or_the_limit_of_its_probe(name: str) -> None:
    where, held = place(name), set()
    for probe, assignment, expected in ranges(name, where):
        bound, limit = bound_of(probe, where, assignment), probe.limit(where.target, assignment)
        if bound is None or limit is None:
            continue
        held.add(probe.id)
        scale, what = bound.in_unit(probe.unit) if expected.of_limit else 1.0, f"{probe.id} {assignment}"
        if scale is not None:
            for value in (expected.low, BEYOND.get((probe.id, name), expected.high)):
                check = limit_check(value * scale, probe.unit, bound, floor_of(limit))
                assert check.state != "failed", f"{what}: {check.why}"
            near_floor = 1.5 * floor_of(limit) * (bound.in_unit(probe.unit) or 0)
            assert expected.low * scale > near_floor, what
        # A doubt is for a spec that is wrong; no published value needs it yet.
        if not expected.of_limit and bound.in_unit(probe.unit) is not None:
            state = limit_check(expected.high, probe.unit, bound, 0.0).state
            assert state == ("failed" if (probe.id, name) in BEYOND else "passed"), what
    # Of some laptops the rate of the memory is not known.
    assert "bandwidth/dram-read" in held or name.endswith("-laptop")


@each_row(("product", "probe", "values", "high"), [
    # caps-tum/mt4g, sample_results: mean and median.
    ("h100-sxm", "latency/dram", (834.5, 864), 864), ("h100-nvl", "latency/dram", (803, 802), 803),
    ("h100-sxm", "latency/l2", (219.3, 222), 281), ("h100-nvl", "latency/l2", (237.8, 227), 281),
    ("h100-sxm", "latency/shared", (29.9, 30), 30),
    # Other products keep what was measured on this chip.
    ("h100-pcie", "latency/dram", (565, 657), 689), ("h200-sxm", "latency/l2", (264.5,), 281),
])  # fmt: skip
def test_published_latencies_of_a_product_are_within_its_range(
    product: str, probe: str, values: tuple[float, ...], high: float
) -> None:
    where = place(product)
    fitting = (expected for found, _, expected in ranges(product, where) if found.id == probe)
    expected = next(fitting)
    assert all(expected.low <= value <= expected.high for value in values)
    assert expected.high == high


# What a run makes of it


SM_HZ = 1.6e9
SAMPLED = SeriesConfig(values={"DEPTH": 4}, block=128, grid=264, data="random", regime="sustained", cubin="")


def timed(
    probe: Probe,
    rate: float,
    *,
    nvml: Sequence[float] = (SM_HZ,),
    reasons: int = 0,
    allocation: int = 0,
) -> Series:
    """Samples of 16 · DEPTH bytes per thread and iteration at `rate` bytes/s, three rounds at N, 2N and 4N."""
    work = 16 * 4 * 128 * 264
    samples = [
        Sample(count, count * work / rate, count * work / rate * SM_HZ, nvml[index % len(nvml)], reasons)
        for index, count in enumerate((100000, 200000, 400000) * 3)
    ]
    config = replace(SAMPLED, allocation=allocation)
    return Series(probe=probe.id, config=config, seen=Observed(sms=132), round=FINAL, samples=tuple(samples))


def judged(folder: Path, *series: Series, product: str = "h200-sxm", dram_hz: float = 3.201e9) -> MeasuredValue:
    """The one result of the DRAM probe of these series."""
    where = place(product)
    judging = Judging(where.hardware, where.target, memory_clock_hz=dram_hz, product=product)
    (result,) = slope.reduce(fake_probes.dram(folder), series, judging)
    return result.value


MOVED, RISEN = (1.5e9, 1.75e9, 1.8e9), (0.345e9, *[1.98e9] * 17)


@each_row(
    ("nvml", "reasons", "verdict", "named"),
    [
        ([MOVED], 0x4, "plausible", None),  # at the power limit
        ([MOVED], 0, "rejected", "1.750 GHz by NVML"),
        ([(1.75e9, 1.8e9)], 0x4, "plausible", "1.750 GHz to 1.800 GHz"),
        # A single reading of an idle clock lets no other clock pass.
        ([RISEN[:9], RISEN[9:]], 0x4, "plausible", "1.980 GHz to 1.980 GHz"),
    ],
)
def test_clock_that_moved_rejects_only_where_nothing_held_it_back(
    tmp_path: Path, nvml: Sequence[Sequence[float]], reasons: int, verdict: str, named: str | None
) -> None:
    probe = fake_probes.dram(tmp_path)
    value = judged(tmp_path, *(
        timed(probe, 4.5e12, nvml=seen, reasons=reasons, allocation=number) for number, seen in enumerate(nvml)
    ))  # fmt: skip
    assert value.verdict == verdict
    assert [(named or "") in reason for reason in value.reasons if "GHz" in reason] == ([True] if named else [])


def test_value_above_an_unconfirmed_limit_is_plausible_and_its_file_reads_back(tmp_path: Path) -> None:
    # 3.125 GHz × 2 × 6016 bit ÷ 8 = 4.70 TB/s, and the bus of the H200 is in doubt.
    value = judged(tmp_path, timed(fake_probes.dram(tmp_path), 4.75e12), dram_hz=3.125e9)
    assert value.verdict == "plausible"
    assert any("1.01 ×" in reason and "4.700 TB/s" in reason for reason in value.reasons)
    assert value.evidence.limit == pytest.approx(4.7e12)
    assert not value.evidence.limit_confirmed
    file = tmp_path / "h200.measured.yaml"
    values = {"bandwidth/dram-read": value}
    file.write_text(
        measured_text(Measured("h200", MeasuredDevice("an H200", "9.0", 132), Conditions("2026", "0"), values))
    )
    stored = load_measured(file)
    assert not stored.values["bandwidth/dram-read"].evidence.limit_confirmed
    (said,) = assess(stored, {}, LIBRARY.gpu("h200-sxm"))
    assert said.of_limit == pytest.approx(4.75 / 4.7)
    far_above = judged(tmp_path, timed(fake_probes.dram(tmp_path), 15.8e12))
    assert far_above.verdict == "rejected"
    assert "5 % above rated" in far_above.reasons[0]


# Floors in probe files


def test_floor_of_a_file_decides_what_is_too_little(tmp_path: Path) -> None:
    # 120 GB/s of 4.81 TB/s is 2.5 %.
    slow = timed(fake_probes.dram(tmp_path), 0.12e12)
    assert judged(tmp_path, slow).verdict == "rejected"
    file = tmp_path / "bandwidth/dram-read.yaml"
    file.write_text(file.read_text().replace("{bandwidth: dram}", "{bandwidth: dram, floor: 2 %, why: made up}"))
    where = place("h200-sxm")
    judging = Judging(where.hardware, where.target, memory_clock_hz=3.201e9, product="h200-sxm")
    (result,) = slope.reduce(read_probe(file), [slow], judging)
    assert result.value.verdict == "plausible"
