"""Measuring from plan to file on a fake GPU: its peaks come out, its lies are rejected, interruptions cost nothing."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gpuprof.characterize import counters
from gpuprof.characterize.characterization import Characterization, Wanted, characterize
from gpuprof.characterize.counters import ToCount
from gpuprof.characterize.gates.check import Checked
from gpuprof.characterize.gates.gate import Judgement
from gpuprof.characterize.maths import fit, statistics
from gpuprof.characterize.maths.statistics import StopRule
from gpuprof.characterize.measure.effort import EFFORTS, Effort
from gpuprof.characterize.measure.events import (
    ConfigurationTaken,
    Event,
    Finished,
    Remark,
    Result,
    RunPlanned,
    Started,
    silence,
)
from gpuprof.characterize.measure.forecast import Where
from gpuprof.characterize.methods.curve import coarse_to_fine
from gpuprof.characterize.methods.table import METHODS
from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record import reduction, samples
from gpuprof.characterize.record.configurations import ResultPoint
from gpuprof.characterize.record.gpu import DeviceError, Others, Stopped
from gpuprof.characterize.record.samples import SampleFile, read_samples
from gpuprof.characterize.record.series import RunNote, Series
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.judging import CountedAndClaimed
from gpuprof.characterize.schedule import plan
from gpuprof.characterize.sheet.measured import MeasuredValue, load_measured
from gpuprof.collect import installation
from gpuprof.errors import EnvironmentProblem, GpuprofError, InputError, UsageError
from gpuprof.hardware.certificates import read_certificate
from gpuprof.hardware.library import SpecLibrary
from gpuprof.resources import data_dir
from tests import fake_probes
from tests.fake_gpu import DRAM_PEAK, PROPERTIES, SM_HZ, Call, FakeGpu, Law, Misbehaviour, compiled
from tests.table import each_row

LIBRARY = SpecLibrary(folders=(data_dir("specs"),))
DRAM = 0.9 * DRAM_PEAK
FFMA, L2_CYCLES, FAR_CYCLES, IN_FLIGHT_CYCLES = 100.0, 210.0, 480.0, 600.0


def by_chains(call: Call) -> float:
    """FFMA reaches its rate with eight chains in blocks of 256; less of either is slower."""
    rate = FFMA * (1.0 if call.assignment["CHAINS"] == "8" else 0.7) * (1.0 if call.shape.block == 256 else 0.8)
    return call.per_sm("flop") / rate


def dram_law(call: Call) -> float:
    deep = call.assignment.get("DEPTH", "4") == "4" and call.shape.grid == 4 * PROPERTIES.sm_count
    return call.work("byte") / (DRAM if deep else 0.6 * DRAM) * SM_HZ


def chase_law(call: Call) -> float:
    held = call.arguments["bytes chain"] <= PROPERTIES.l2_bytes
    return 16 * (L2_CYCLES if held else FAR_CYCLES)


def little_law(call: Call) -> float:
    """Bytes in flight over latency, up to the peak."""
    per_sm = call.per_sm("byte")
    return max(IN_FLIGHT_CYCLES, per_sm / (DRAM / PROPERTIES.sm_count / SM_HZ))


LAWS: dict[str, Law] = {
    "instruction_ffma_throughput": by_chains,
    "bandwidth_dram_read": dram_law,
    "latency_l2": chase_law,
    "latency_l2_capacity": chase_law,
    "bandwidth_dram_in_flight": little_law,
    "bank_conflict_load_4": lambda call: 32 * (call.arguments["ways"] + 1.5),
    "latency_l2_map": lambda _call: 16 * L2_CYCLES,
    "occupancy_resident_warps": lambda _call: 64.0,
}


class Heard:
    """What a run told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Files that nobody keeps need not be safe from power cuts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _file: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def equal_samples_are_evaluated_once() -> Iterator[None]:
    """Runs that are compared with one another take the same samples, and draw the same ones anew from them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "bootstrap", once(statistics.bootstrap))
        patch.setattr(statistics, "lowest_mode", once(statistics.lowest_mode))
        patch.setattr(reduction, "line", once(fit.line))
        yield


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of samples or points, which knows what it said of them."""
    said: dict[object, Any] = {}

    def asked(values: Sequence[object], *words: object, **named: object) -> Any:
        key = (tuple(values), words, tuple(named.items()))
        if key not in said:
            said[key] = function(values, *words, **named)
        return said[key]

    return asked


def measure(
    folder: Path,
    probes: Sequence[Probe],
    gpu: FakeGpu,
    *,
    mode: str = "default",
    tell: Callable[[Event], None] = silence,
    stop: Callable[[], bool] = lambda: False,
    compile_all: Callable[..., dict[str, tuple[Checked, ...]]] = compiled,
    **wanted: Any,
) -> Characterization:
    asked = Wanted(probes, mode, named=True, output=folder / "fake.measured.yaml", **wanted)
    return characterize(gpu, asked, library=LIBRARY, tell=tell, stop=stop, compile_all=compile_all)


def value_of(probe: Probe, folder: Path, name: str | None = None, **gpu: Any) -> MeasuredValue:
    """The one value of one probe on a fake with the usual laws."""
    run = measure(folder, [probe], FakeGpu([probe], LAWS, **gpu))
    return run.measured.values[name or probe.id]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Characterization, Heard, FakeGpu]:
    """One run of every kind of probe."""
    folder, heard = tmp_path_factory.mktemp("whole"), Heard()
    probes = fake_probes.every(folder / "probes")
    gpu = FakeGpu(probes, LAWS)
    gpu.by_sm["latency_l2_map"] = lambda _call, sm: 1.0 if sm < 4 else 2.0
    return measure(folder, probes, gpu, mode="full", tell=heard), heard, gpu


# What the fake has comes out


KNEE = DRAM / PROPERTIES.sm_count * IN_FLIGHT_CYCLES / SM_HZ
"""Bytes in flight: 11,520, between the shapes with 8 and with 16 KiB."""
RECOVERED = {
    "instruction/ffma-throughput": (FFMA, 0.01),
    "bandwidth/dram-read": (DRAM, 0.01),
    "latency/l2": (L2_CYCLES, 0.005),
    "latency/l2-capacity": (PROPERTIES.l2_bytes, 0.001),
    "bandwidth/dram-in-flight": (DRAM, 0.01),
    "bandwidth/dram-in-flight at 95 % of peak": (8192 * 2 ** ((0.95 - 8192 / KNEE) / (1 - 8192 / KNEE)), 0.01),
    "bandwidth/dram-in-flight knee": (KNEE, 0.02),
    "bank-conflict/load-4": (1.0, 0.01),
    "bank-conflict/load-4 first": (2.5, 0.01),
    "latency/l2-map": (L2_CYCLES, 0.005),
    "latency/l2-map far": (2 * L2_CYCLES, 0.005),
    "occupancy/resident-warps": (16, 0),
    "launch/null-queued": (2e-6, 0.01),
    "copies/host-to-device-pinned": (20e9, 0.01),
    "copies/host-to-device-pinned latency": (4e-6, 0.02),
    "clocks/idle": (100.0, 0),
    "clocks/ffma-throughput": (100.0, 0),
    "clocks/ffma-throughput energy": (100.0 / (FFMA * PROPERTIES.sm_count * SM_HZ), 0.02),
}


@each_row("name", RECOVERED)
def test_run_recovers_what_the_fake_has(whole: tuple[Characterization, Heard, FakeGpu], name: str) -> None:
    value, (wanted, tolerance) = whole[0].measured.values[name], RECOVERED[name]
    assert value.value == pytest.approx(wanted, rel=tolerance, abs=0)


VERIFIED = [
    "instruction/ffma-throughput", "bandwidth/dram-read", "latency/l2", "latency/l2-capacity",
    "bandwidth/dram-in-flight", "bank-conflict/load-4", "occupancy/resident-warps", "launch/null-queued",
    "copies/host-to-device-pinned", "clocks/idle",
]  # fmt: skip


@each_row("name", VERIFIED)
def test_value_that_passes_every_check_is_verified(whole: tuple[Characterization, Heard, FakeGpu], name: str) -> None:
    value = whole[0].measured.values[name]
    assert (value.verdict, value.reasons) == ("verified", ())


def test_best_configuration_wins_and_is_named(whole: tuple[Characterization, Heard, FakeGpu]) -> None:
    values = whole[0].measured.values
    assert values["instruction/ffma-throughput"].configuration["CHAINS"] == "8"
    assert values["instruction/ffma-throughput"].configuration["block"] == "256"
    assert values["bandwidth/dram-read"].configuration["blocks_per_sm"] == "4"


def test_capacity_has_the_configuration_of_the_size_that_it_names(
    whole: tuple[Characterization, Heard, FakeGpu],
) -> None:
    value = whole[0].measured.values["latency/l2-capacity"]
    assert value.configuration["size"] == str(int(value.value or 0))


def test_evidence_names_code_clocks_limit_and_scaling(whole: tuple[Characterization, Heard, FakeGpu]) -> None:
    evidence = whole[0].measured.values["instruction/ffma-throughput"].evidence
    assert evidence.gate == "pass"
    assert evidence.cubin_sha256 is not None
    assert len(evidence.cubin_sha256) == 64
    assert evidence.clock_hz == pytest.approx(SM_HZ, rel=1e-3)
    assert evidence.nvml_clock_hz == SM_HZ
    assert evidence.limit == 128
    assert evidence.scaling_residual is not None
    assert evidence.scaling_residual < 0.01


def test_ceilings_are_those_of_the_probes_limits(whole: tuple[Characterization, Heard, FakeGpu]) -> None:
    values = whole[0].measured.values
    found = {name: value.ceiling for name, value in values.items() if value.ceiling is not None}
    assert found == {"instruction/ffma-throughput": "fp32", "bandwidth/dram-read": "dram"}


def test_measured_file_reads_back_with_its_curves_and_conditions(
    whole: tuple[Characterization, Heard, FakeGpu],
) -> None:
    run = whole[0]
    stored = load_measured(run.path)
    assert stored.values.keys() == run.measured.values.keys()
    assert {name: value.verdict for name, value in stored.values.items()} == {
        name: value.verdict for name, value in run.measured.values.items()
    }
    assert {"latency/l2-capacity", "bandwidth/dram-in-flight", "bank-conflict/load-4"} <= stored.curves.keys()
    assert (stored.conditions.driver, stored.conditions.ecc, stored.conditions.mig) == ("999.1", True, False)
    assert (stored.conditions.pcie_generation, stored.conditions.pcie_width) == (4, 16)
    assert stored.conditions.power_limit_w == 400
    assert stored.device.pci_id == "ffff:0001"


def test_sample_file_has_clocks_before_and_after_and_the_code_of_each_series(
    whole: tuple[Characterization, Heard, FakeGpu],
) -> None:
    stored = read_samples(whole[0].samples.read_bytes(), "fake")
    steps, others = ([note for note in stored.notes if (note.what == "step") == wanted] for wanted in (True, False))
    assert [note.what for note in others] == ["environment", "before", "after"]
    assert all(note.facts["sm_clock_hz"] == SM_HZ for note in others[1:])
    assert [note.probe for note in steps] == [event.probe for event in whole[1].of(Started)]
    assert all(float(note.facts["seconds"]) > 0 for note in steps)
    environment = stored.notes[0].facts
    assert (environment["mps"], environment["persistence"], environment["driver"]) == (False, True, "999.1")
    kernels = [one for one in stored.series if one.probe == "instruction/ffma-throughput"]
    assert all(len(one.config.cubin or "") == 12 for one in kernels)


def test_each_window_is_longer_than_200_steps_of_the_coarsest_timer(
    whole: tuple[Characterization, Heard, FakeGpu],
) -> None:
    stored = read_samples(whole[0].samples.read_bytes(), "fake")
    timed = [one for one in stored.series if one.probe.partition("/")[0] in {"instruction", "bandwidth", "latency"}]
    assert timed
    assert min(sample.time_s for one in timed for sample in one.samples) > 200 * 1.024e-6


def test_numbers_of_iterations_are_n_2n_and_4n(whole: tuple[Characterization, Heard, FakeGpu]) -> None:
    stored = read_samples(whole[0].samples.read_bytes(), "fake")
    for one in stored.series:
        if one.probe == "instruction/ffma-throughput":
            counts = sorted({sample.iterations for sample in one.samples})
            assert [count // counts[0] for count in counts] == [1, 2, 4]


def test_winner_of_a_sweep_is_measured_again_and_latencies_on_several_allocations(
    whole: tuple[Characterization, Heard, FakeGpu],
) -> None:
    stored = read_samples(whole[0].samples.read_bytes(), "fake")
    ffma = [one for one in stored.series if one.probe == "instruction/ffma-throughput"]
    assert sorted(one.round for one in ffma) == [0, 0, 0, 0, 1]
    walks = [one for one in stored.series if one.probe == "latency/l2"]
    assert len({one.config.allocation for one in walks}) >= 3


def test_order_is_idle_then_latency_then_short_then_sustained(whole: tuple[Characterization, Heard, FakeGpu]) -> None:
    order = [event.probe for event in whole[1].of(Started)]
    places = [order.index(name) for name in (
        "clocks/idle", "latency/l2", "instruction/ffma-throughput", "bandwidth/dram-read",
    )]  # fmt: skip
    assert places == sorted(places)


def test_events_tell_the_plan_each_sample_and_each_result_with_its_published_range(
    whole: tuple[Characterization, Heard, FakeGpu],
) -> None:
    run, heard, _ = whole
    (planned,) = heard.of(RunPlanned)
    assert len(planned.steps) == len(heard.of(Started)) == 12
    assert any(
        event.probe == "latency/l2" and event.value == pytest.approx(L2_CYCLES, 0.01)
        for event in heard.of(ConfigurationTaken)
    )
    results = {event.name: event for event in heard.of(Result)}
    assert results.keys() == run.measured.values.keys()
    expected = results["instruction/ffma-throughput"].expected
    assert (expected.low, expected.high, expected.of_limit, expected.source) == (0.4, 0.6, True, "chosen here")
    assert heard.of(Finished) == [heard.events[-1]]


def test_memory_is_given_back(whole: tuple[Characterization, Heard, FakeGpu]) -> None:
    assert whole[2].memory == {}


# What the fake lies about is rejected


def test_time_that_is_not_proportional_to_the_iterations_is_rejected(tmp_path: Path) -> None:
    value = value_of(fake_probes.ffma(tmp_path), tmp_path, bad=Misbehaviour(nonlinear=0.05))
    assert value.verdict == "rejected"
    assert "iteration" in value.reasons[0]


def test_value_above_its_physical_limit_is_rejected(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path)
    run = measure(
        tmp_path, [probe], FakeGpu([probe], {"instruction_ffma_throughput": lambda c: c.per_sm("flop") / 130})
    )
    value = run.measured.values[probe.id]
    assert value.verdict == "rejected"
    assert "1.02 × the limit 128.0 FLOP/clk/SM" in value.reasons[0]


def test_value_just_below_its_limit_is_verified(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path)
    run = measure(
        tmp_path, [probe], FakeGpu([probe], {"instruction_ffma_throughput": lambda c: c.per_sm("flop") / 127})
    )
    assert run.measured.values[probe.id].verdict == "verified"


def test_clock_that_nvml_tells_otherwise_is_rejected(tmp_path: Path) -> None:
    value = value_of(fake_probes.ffma(tmp_path), tmp_path, bad=Misbehaviour(nvml_factor=1.1))
    assert value.verdict == "rejected"
    assert "1.500 GHz in the kernel and 1.650 GHz by NVML" in value.reasons[0]


def test_walk_that_ends_elsewhere_is_rejected(tmp_path: Path) -> None:
    value = value_of(fake_probes.chase(tmp_path), tmp_path, bad=Misbehaviour(wrong_walk=True))
    assert value.verdict == "rejected"
    assert "the kernel's result is wrong: 48 steps led to" in value.reasons[0]


def test_blocks_without_a_record_are_no_measurement(tmp_path: Path) -> None:
    value = value_of(fake_probes.ffma(tmp_path), tmp_path, bad=Misbehaviour(lost_blocks=3))
    assert (value.value, value.verdict) == (None, "unsupported")
    assert "3 of 16 blocks left no record" in value.reasons[0]


def test_events_shorter_than_the_blocks_own_window_are_no_measurement(tmp_path: Path) -> None:
    value = value_of(fake_probes.ffma(tmp_path), tmp_path, bad=Misbehaviour(events_short=True))
    assert value.value is None
    assert "by globaltimer" in value.reasons[0]


def test_cubin_that_is_not_the_gates_is_not_run(tmp_path: Path) -> None:
    def altered(*words: Any) -> dict[str, tuple[Checked, ...]]:
        found = compiled(*words)
        return {
            name: tuple(
                one._replace(compiled=structs.replace(one.compiled, cubin=b"{}")) for one in ones if one.compiled
            )
            for name, ones in found.items()
        }

    probe = fake_probes.chase(tmp_path)
    run = measure(tmp_path, [probe], FakeGpu([probe], LAWS), compile_all=altered)
    assert run.measured.values[probe.id].reasons == ("the cubin of latency_l2 is not the one that was checked",)


def test_code_that_failed_its_gate_is_not_timed(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path)
    gpu = FakeGpu([probe], LAWS)
    run = measure(tmp_path, [probe], gpu, compile_all=lambda *words: compiled(*words, gate="fail"))
    assert run.measured.values[probe.id].verdict == "unsupported"
    assert run.measured.values[probe.id].reasons == ("its code was not timed: made up by the tests",)
    assert gpu.calls == 0


def test_variant_that_failed_its_gate_does_not_compete(tmp_path: Path) -> None:
    def half(*words: Any) -> dict[str, tuple[Checked, ...]]:
        found = compiled(*words)
        bad = Judgement("fail", "eight chains were merged", {})
        return {
            name: tuple(one._replace(judgement=bad) if one.variant.assignment["CHAINS"] == "8" else one for one in ones)
            for name, ones in found.items()
        }

    probe = fake_probes.ffma(tmp_path)
    value = measure(tmp_path, [probe], FakeGpu([probe], LAWS), compile_all=half).measured.values[probe.id]
    assert value.configuration["CHAINS"] == "4"
    assert value.value == pytest.approx(0.7 * FFMA, rel=0.01)


def test_fraction_of_a_limit_is_no_ceiling(tmp_path: Path) -> None:
    probe = fake_probes.write_probe(
        tmp_path, "bandwidth", "dram-write", "limit: {bandwidth: dram, fraction: 50 %, source: chosen here}\n",
        quantity="bandwidth", unit="B/s", work="{byte: 16}", arguments="clocks, iterations, sink",
    )  # fmt: skip
    law: dict[str, Law] = {"bandwidth_dram_write": lambda call: call.work("byte") / (0.4 * DRAM_PEAK) * SM_HZ}
    value = measure(tmp_path, [probe], FakeGpu([probe], law)).measured.values[probe.id]
    assert (value.verdict, value.ceiling) == ("verified", None)
    assert value.of_limit == pytest.approx(0.8, rel=0.01)


def test_launches_of_a_dram_probe_go_through_several_times_l2(whole: tuple[Characterization, Heard, FakeGpu]) -> None:
    stored = read_samples(whole[0].samples.read_bytes(), "fake")
    curve = [one for one in stored.series if one.probe == "bandwidth/dram-in-flight"]
    assert curve
    for one in curve:
        each = 16 * int(one.config.values["DEPTH"]) * one.grid * one.block
        assert min(sample.iterations for sample in one.samples) * each >= 4 * PROPERTIES.l2_bytes


def test_code_that_nobody_looked_at_makes_a_value_only_plausible(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path)
    run = measure(tmp_path, [probe], FakeGpu([probe], LAWS), compile_all=lambda *words: compiled(*words, gate=None))
    value = run.measured.values[probe.id]
    assert value.verdict == "plausible"
    assert value.reasons == ("no disassembler: the code that ran was not checked",)


def test_copy_that_arrives_altered_has_no_value(tmp_path: Path) -> None:
    value = value_of(fake_probes.copy(tmp_path), tmp_path, bad=Misbehaviour(copies_wrong=True))
    assert (value.value, value.reasons) == (None, ("the data copied to device memory differs from what was sent",))


def test_copy_faster_than_its_link_is_rejected(tmp_path: Path) -> None:
    probe = fake_probes.copy(tmp_path)
    gpu = FakeGpu([probe])
    gpu.rates["pinned", "device"] = 33e9
    value = measure(tmp_path, [probe], gpu).measured.values[probe.id]
    assert value.verdict == "rejected"
    assert "PCIe 4 × 16" in value.reasons[0]


def test_residency_that_cudas_calculator_contradicts_is_rejected(tmp_path: Path) -> None:
    probe = fake_probes.resident(tmp_path)

    class Contradicting(FakeGpu):
        def blocks_at_once(self, *words: Any) -> int:
            return super().blocks_at_once(*words) + (1 if self.asked_by_step else 0)

        @property
        def asked_by_step(self) -> bool:
            import inspect

            return any(frame.function == "_resident" for frame in inspect.stack()[2:3])

    value = measure(tmp_path, [probe], Contradicting([probe], LAWS)).measured.values[probe.id]
    assert value.verdict == "rejected"
    assert "CUDA's calculator" in value.reasons[0]


# Counters of ncu


@each_row(("ratio", "verdict"), [(1.001, "verified"), (1.05, "rejected")])
def test_counters_that_disagree_with_the_claimed_work_reject_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratio: float, verdict: str
) -> None:
    ncu_here = SimpleNamespace(path=Path("/opt/ncu"), version=(2025, 3, 1))
    monkeypatch.setattr(installation, "choose_ncu", lambda environ: ncu_here)

    def count(ncu: Path, asked: Sequence[ToCount], arch: object, device: int) -> dict[str, CountedAndClaimed]:
        (one,) = asked
        found = {name: ratio * claim for name, claim in one.claims.items()}
        each = {(name, frozenset({"a__b"})): value for name, value in found.items()}
        return {one.probe.id: CountedAndClaimed(one.claims, found, each)}

    monkeypatch.setattr(counters, "_count", count)
    probe = fake_probes.ffma(tmp_path)
    value = measure(tmp_path, [probe], FakeGpu([probe], LAWS), counters=True).measured.values[probe.id]
    (certificate,) = [read_certificate(path) for path in tmp_path.glob("sm_80-ncu-2025.3.yaml")]
    (agreement,) = certificate.agreements
    assert (agreement.quantity, agreement.known) == ("work.fp32", f"probe {probe.id}")
    assert agreement.lowest == agreement.highest == pytest.approx(ratio)
    assert certificate.level_of("work.fp32", frozenset({"a__b"}), "2025.3") == ("certified" if ratio < 1.01 else None)
    assert value.verdict == verdict
    assert value.evidence.counters == pytest.approx({"work.fp32": ratio})
    if verdict == "rejected":
        assert value.reasons == ("ncu counts 1.05 × the work.fp32 that the probe claims",)


@pytest.fixture
def ncu_counts(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, float]], None]:
    """Makes ncu count such ratios of what probes claim, by the name of the counter."""
    monkeypatch.setattr(
        installation, "choose_ncu", lambda _environ: SimpleNamespace(path=Path("/opt/ncu"), version=(2025, 3, 1))
    )

    def counting(ratios: dict[str, float]) -> None:
        def count(ncu: Path, asked: Sequence[ToCount], arch: object, _: int) -> dict[str, CountedAndClaimed]:
            return {one.probe.id: CountedAndClaimed(one.claims, one.claims, each(one.claims)) for one in asked}

        def each(claims: Mapping[str, float]) -> dict[tuple[str, frozenset[str]], float]:
            return {
                (quantity, frozenset({name})): share * claim
                for quantity, claim in claims.items()
                for name, share in ratios.items()
            }

        monkeypatch.setattr(counters, "_count", count)

    return counting


def certified(folder: Path) -> dict[tuple[str, str, str], float]:
    """The lowest ratios in the certificate of a folder, by quantity, counter and probe."""
    (found,) = [read_certificate(path) for path in folder.glob("sm_80-ncu-2025.3.yaml")]
    return {(one.quantity, min(one.counters), one.known): one.lowest for one in found.agreements}


def test_second_run_adds_to_the_certificate_of_the_first(
    tmp_path: Path, ncu_counts: Callable[[dict[str, float]], None]
) -> None:
    ffma, dram = fake_probes.ffma(tmp_path), fake_probes.dram(tmp_path)
    ncu_counts({"a__b": 1.0, "c__d": 0.5})
    measure(tmp_path, [ffma], FakeGpu([ffma], LAWS), counters=True)
    ncu_counts({"a__b": 1.01})
    measure(tmp_path, [dram], FakeGpu([dram], LAWS), counters=True, force=True)
    measure(tmp_path, [ffma], FakeGpu([ffma], LAWS), counters=True, force=True)
    assert certified(tmp_path) == pytest.approx({
        ("work.fp32", "a__b", f"probe {ffma.id}"): 1.01,
        ("work.fp32", "c__d", f"probe {ffma.id}"): 0.5,
        ("traffic.dram", "a__b", f"probe {dram.id}"): 1.01,
    })  # fmt: skip


def test_counter_that_runs_backwards_is_certified_to_be_wrong(
    tmp_path: Path, ncu_counts: Callable[[dict[str, float]], None]
) -> None:
    probe = fake_probes.ffma(tmp_path)
    ncu_counts({"a__b": 1.0, "c__d": -1.0})
    measure(tmp_path, [probe], FakeGpu([probe], LAWS), counters=True)
    assert {counter: ratio for (_, counter, _), ratio in certified(tmp_path).items()} == {"a__b": 1.0, "c__d": 0.0}


def test_where_nothing_was_counted_nothing_is_written_and_that_is_told(
    tmp_path: Path, ncu_counts: Callable[[dict[str, float]], None]
) -> None:
    probe, heard = fake_probes.ffma(tmp_path), Heard()
    ncu_counts({})
    measure(tmp_path, [probe], FakeGpu([probe], LAWS), counters=True, tell=heard)
    assert not list(tmp_path.glob("sm_80-*"))
    assert [remark.text for remark in heard.of(Remark)] == [
        "no certificate of the counters: ncu counted none of the known work"
    ]


def test_without_ncu_the_values_stay_and_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here(environ: object) -> None:
        raise EnvironmentProblem("ncu was not found")

    monkeypatch.setattr(installation, "choose_ncu", none_here)
    probe, heard = fake_probes.ffma(tmp_path), Heard()
    value = measure(tmp_path, [probe], FakeGpu([probe], LAWS), counters=True, tell=heard).measured.values[probe.id]
    assert value.verdict == "verified"
    assert [remark.text for remark in heard.of(Remark)] == ["the counters were not verified: ncu was not found"]


@pytest.fixture
def slow_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ncu that never ends; it writes a line into the file that is returned whenever it is to profile."""
    started, script = tmp_path / "started", tmp_path / "ncu"
    script.write_text(f"#!/bin/sh\ncase $1 in --help|--version) exit 0;; esac\necho x >>{started}\nexec sleep 60\n")
    script.chmod(0o755)
    here = SimpleNamespace(path=script, version=(2025, 3, 1))
    monkeypatch.setattr(installation, "choose_ncu", lambda _environ: here)
    return started


def test_ctrl_c_under_ncu_ends_the_counting_and_what_was_measured_is_written(tmp_path: Path, slow_ncu: Path) -> None:
    probes = [fake_probes.ffma(tmp_path), fake_probes.dram(tmp_path)]

    def interrupt() -> None:
        while not slow_ncu.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    run = measure(tmp_path, probes, FakeGpu(probes, LAWS), counters=True)
    assert slow_ncu.read_text() == "x\n"
    assert run.outcome.cut_short == "interrupted"
    assert {value.verdict for value in load_measured(run.path).values.values()} == {"verified"}
    assert not list(tmp_path.glob("sm_80-*"))


def test_probe_that_a_run_of_ncu_leaves_out_is_counted_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ncu_counts: Callable[[dict[str, float]], None]
) -> None:
    ncu_counts({"a__b": 1.0})
    count, runs = counters._count, []

    def leaving_out(ncu: Path, asked: Sequence[ToCount], *rest: Any) -> dict[str, CountedAndClaimed]:
        runs.append([one.probe.id for one in asked])
        if asked[0].probe.id == dram.id:
            raise GpuprofError("the report is damaged")
        return count(ncu, asked[:1], *rest)

    monkeypatch.setattr(counters, "_count", leaving_out)
    ffma, dram = fake_probes.ffma(tmp_path), fake_probes.dram(tmp_path)
    heard = Heard()
    run = measure(tmp_path, [ffma, dram], FakeGpu([ffma, dram], LAWS), counters=True, tell=heard)
    assert runs == [[ffma.id, dram.id], [dram.id]]
    assert set(certified(tmp_path)) == {("work.fp32", "a__b", f"probe {ffma.id}")}
    assert heard.of(Remark)[0].text == f"the counters of {dram.id} were not verified: the report is damaged"
    assert run.outcome.cut_short is None


def test_what_is_emulated_is_not_counted(tmp_path: Path, ncu_counts: Callable[[dict[str, float]], None]) -> None:
    ncu_counts({"a__b": 1.0})
    ffma, dram = fake_probes.ffma(tmp_path), fake_probes.dram(tmp_path)

    def emulating(probes: Sequence[Probe], *words: Any) -> dict[str, tuple[Checked, ...]]:
        return compiled([dram], *words) | compiled([ffma], *words, gate="emulated")

    measure(tmp_path, [ffma, dram], FakeGpu([ffma, dram], LAWS), counters=True, compile_all=emulating)
    assert {known for _, _, known in certified(tmp_path)} == {f"probe {dram.id}"}


def test_ncu_that_counts_nothing_is_not_run_for_each_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ncu_counts: Callable[[dict[str, float]], None]
) -> None:
    ncu_counts({})
    runs: list[list[str]] = []

    def failing(_ncu: Path, asked: Sequence[ToCount], *_: object) -> dict[str, CountedAndClaimed]:
        runs.append([one.probe.id for one in asked])
        raise GpuprofError("the driver and ncu do not fit")

    monkeypatch.setattr(counters, "_count", failing)
    monkeypatch.setattr(counters, "_TOGETHER", 2)
    probes, heard = [fake_probes.dram(tmp_path, name) for name in ("one", "two", "three")], Heard()
    measure(tmp_path, probes, FakeGpu(probes, LAWS), counters=True, tell=heard)
    assert runs == [[probes[0].id, probes[1].id], [probes[0].id]]
    assert [remark.text for remark in heard.of(Remark)][:3] == [
        "the counters of bandwidth/one were not verified: the driver and ncu do not fit",
        "the counters of bandwidth/two were not verified: the driver and ncu do not fit",
        "no other counters were verified: of the first 2 ncu counted none",
    ]


def test_what_was_counted_before_the_user_stops_is_certified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ncu_counts: Callable[[dict[str, float]], None]
) -> None:
    ncu_counts({"a__b": 1.0})
    count, asked_to_stop = counters._count, [False]

    def stopping(*words: Any) -> dict[str, CountedAndClaimed]:
        asked_to_stop[0] = True
        return count(*words)

    monkeypatch.setattr(counters, "_count", stopping)
    monkeypatch.setattr(counters, "_TOGETHER", 1)
    probes = [fake_probes.ffma(tmp_path), fake_probes.dram(tmp_path)]
    run = measure(tmp_path, probes, FakeGpu(probes, LAWS), counters=True, stop=lambda: asked_to_stop[0])
    assert run.outcome.cut_short == "interrupted"
    assert set(certified(tmp_path)) == {("work.fp32", "a__b", f"probe {probes[0].id}")}


def test_ctrl_c_between_two_runs_of_ncu_ends_the_counting(tmp_path: Path, slow_ncu: Path) -> None:
    probe, asked = fake_probes.ffma(tmp_path), [False]

    def heard(event: Event) -> None:
        asked[0] = asked[0] or isinstance(event, Result)

    run = measure(tmp_path, [probe], FakeGpu([probe], LAWS), counters=True, tell=heard, stop=lambda: asked[0])
    assert not slow_ncu.exists()
    assert run.outcome.cut_short == "interrupted"


def test_kernel_that_hangs_under_ncu_costs_the_counts_of_its_run(
    tmp_path: Path, slow_ncu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "_START_S", 0.3)
    monkeypatch.setattr(counters, "_PROBE_S", 0.1)
    probes, heard = [fake_probes.ffma(tmp_path), fake_probes.dram(tmp_path)], Heard()
    run = measure(tmp_path, probes, FakeGpu(probes, LAWS), counters=True, tell=heard)
    assert slow_ncu.read_text() == "x\n"  # what hangs is not run again
    assert run.outcome.cut_short is None
    told = [remark.text for remark in heard.of(Remark)]
    assert [text.partition(":")[0] for text in told[:2]] == [
        f"the counters of {probe.id} were not verified" for probe in probes
    ]


# Throttling and settling


def test_throttling_that_passes_is_waited_out(tmp_path: Path) -> None:
    bad = Misbehaviour(reasons=lambda time: 0x4 if time < 1.5 else 0)
    value = value_of(fake_probes.ffma(tmp_path), tmp_path, bad=bad)
    assert (value.regime, value.throttling, value.verdict) == ("short", (), "verified")


def test_throttling_that_stays_is_measured_as_power_limited_after_a_few_retries(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path)
    gpu = FakeGpu([probe], LAWS, bad=Misbehaviour(reasons=lambda _time: 0x4))
    value = measure(tmp_path, [probe], gpu).measured.values[probe.id]
    assert (value.regime, value.throttling) == ("power_limited", ("power cap",))
    assert value.value == pytest.approx(FFMA, rel=0.01)
    assert gpu.clock < 30


def test_sustained_load_is_not_measured_again_for_being_throttled(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path, regimes="sustained")
    taken = {}
    for name, reasons in (("free", 0), ("capped", 0x4)):
        gpu = FakeGpu([probe], LAWS, bad=Misbehaviour(reasons=lambda _time, bits=reasons: bits))  # type: ignore[misc]
        run = measure(tmp_path / name, [probe], gpu)
        taken[name] = gpu.calls, run.measured.values[probe.id]
    assert taken["capped"][0] == taken["free"][0]
    assert (taken["capped"][1].regime, taken["capped"][1].throttling) == ("power_limited", ("power cap",))
    assert taken["free"][1].regime == "sustained"


def test_idle_and_application_clocks_are_no_throttling(tmp_path: Path) -> None:
    value = value_of(fake_probes.ffma(tmp_path), tmp_path, bad=Misbehaviour(reasons=lambda _time: 0x3))
    assert (value.regime, value.throttling) == ("short", ())


def test_sustained_value_is_that_of_the_settled_clock(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path, regimes="sustained")
    gpu = FakeGpu([probe], LAWS, bad=Misbehaviour(sm_hz=lambda time: SM_HZ * (0.8 if time > 3.0 else 1 - time / 15)))
    value = measure(tmp_path, [probe], gpu, mode="full").measured.values[probe.id]
    assert value.evidence.clock_hz == pytest.approx(0.8 * SM_HZ, rel=0.005)
    assert value.regime == "sustained"
    assert value.verdict == "verified"


def test_sweep_is_short_and_only_the_winner_waits_for_its_clock(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path, regimes="sustained")
    gpu = FakeGpu([probe], LAWS, bad=Misbehaviour(sm_hz=lambda time: SM_HZ * (0.8 if time > 1.0 else 1 - time / 5)))
    run = measure(tmp_path, [probe], gpu, mode="full")
    series = [one for one in read_samples(run.samples.read_bytes(), "fake").series if one.probe == probe.id]
    longest = {number: max(sample.time_s for one in series if one.round == number for sample in one.samples)
               for number in (0, 1)}  # fmt: skip
    assert longest[0] < 0.005
    assert longest[1] > 0.018
    assert [one.seen.settled for one in series if one.round == 1] == [True]
    assert gpu.clock < 30
    value = run.measured.values[probe.id]
    assert (value.verdict, value.reasons) == ("verified", ())


def test_clock_that_never_settles_leaves_a_doubt(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path, regimes="sustained")
    gpu = FakeGpu([probe], LAWS, bad=Misbehaviour(sm_hz=lambda time: SM_HZ * (1 - time / 60)))
    value = measure(tmp_path, [probe], gpu).measured.values[probe.id]
    assert "the clock had not settled when it was measured" in value.reasons


def test_every_regime_and_kind_of_data_has_a_value_of_its_own(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path, regimes="short, sustained", data="zeros, random")
    values = measure(tmp_path, [probe], FakeGpu([probe], LAWS)).measured.values
    assert set(values) == {
        f"{probe.id} {data} {regime}" for data in ("zeros", "random") for regime in ("short", "sustained")
    }


# Time that is short


@each_row("kind", ["capacity", "chase", "in_flight", "sm_map", "copy"])
def test_time_that_is_short_costs_allocations_and_rounds_but_no_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    probe = getattr(fake_probes, kind)(tmp_path)
    axes, taken = {*probe.sweeps, probe.along, "sm", "size"}, {}
    for name, total_s in (("long", 1000.0), ("short", 1e-6)):
        monkeypatch.setitem(EFFORTS, "test", replace(EFFORTS["default"], total_s=total_s))
        gpu = slow(FakeGpu([probe], LAWS))
        run = measure(tmp_path / name, [probe], gpu, mode="test")
        taken[name] = [one for one in read_samples(run.samples.read_bytes(), "fake").series if one.probe == probe.id]
        assert all(value.value is not None for value in run.measured.values.values())
    places = {
        name: {str([one.config.settings().get(axis) for axis in sorted(filter(None, axes))]) for one in series}
        for name, series in taken.items()
    }
    assert places["short"] == places["long"]
    assert {one.config.allocation or 0 for one in taken["short"]} == {0}
    if kind in {"capacity", "chase"}:
        assert {one.config.allocation or 0 for one in taken["long"]} == {0, 1, 2}
    assert sum(len(one.samples) for one in taken["short"]) <= sum(len(one.samples) for one in taken["long"])


def test_plan_that_needs_longer_than_its_mode_takes_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe, said = fake_probes.capacity(tmp_path), {}
    for total_s in (0.5, 1000.0):
        heard = Heard()
        monkeypatch.setitem(EFFORTS, "test", replace(EFFORTS["default"], total_s=total_s))
        measure(tmp_path / str(total_s), [probe], FakeGpu([probe], LAWS), mode="test", tell=heard)
        said[total_s] = [one.text for one in heard.of(Remark) if "longer than this mode should take" in one.text]
        (planned,) = heard.of(RunPlanned)
    assert [len(said[total_s]) for total_s in (0.5, 1000.0)] == [1, 0]
    assert said[0.5][0].startswith("measuring each point once takes about ")
    assert planned.seconds < 1000


def slow(gpu: FakeGpu) -> FakeGpu:
    """A GPU whose calls take some times as long as they were forecast to."""

    def wait() -> None:
        gpu.clock += 2e-3

    gpu.hook = wait
    return gpu


@given(st.integers(1, 200), st.integers(0, 3))
def test_curves_are_measured_from_coarse_to_fine(count: int, seed: int) -> None:
    sizes = [128 * 2**number for number in range(count)]
    found = [ResultPoint((("size", size),)) for size in sizes]
    order = [dict(point.fixed)["size"] for point in coarse_to_fine("size", found, seed)]
    assert sorted(map(int, order)) == sizes
    for step in (8, 4, 2):
        begun = sorted(sizes.index(int(size)) for size in order[: -(-count // step)])
        assert begun == list(range(0, count, step))


def test_each_curve_of_a_probe_has_its_own_coarse_places() -> None:
    found = [ResultPoint((("stride", stride), ("size", size))) for stride in (32, 64) for size in range(16)]
    first = [dict(point.fixed) for point in coarse_to_fine("size", found, 0)][:4]
    assert sorted((one["stride"], one["size"]) for one in first) == [(32, 0), (32, 8), (64, 0), (64, 8)]


# Interruptions


class Interrupting:
    """Asks to stop at the n-th question."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def small(folder: Path) -> tuple[Probe, ...]:
    return (fake_probes.ffma(folder), fake_probes.chase(folder), fake_probes.launch(folder), fake_probes.copy(folder),
            fake_probes.conflicts(folder), fake_probes.sm_map(folder))  # fmt: skip


def keys(file: Path) -> list[object]:
    stored = read_samples(file.read_bytes(), "fake")
    return [(one.probe, one.config, one.seen, one.round) for one in stored.series]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Characterization:
    """A run of a few probes without noise."""
    folder = tmp_path_factory.mktemp("undisturbed")
    probes = small(folder / "probes")
    return measure(folder, probes, FakeGpu(probes, LAWS, noise=0))


@settings(max_examples=8)
@given(first=st.integers(0, 1900), second=st.integers(0, 1900))
def test_run_interrupted_anywhere_and_resumed_is_the_run_that_was_not(
    undisturbed: Characterization, tmp_path_factory: pytest.TempPathFactory, first: int, second: int
) -> None:
    folder = tmp_path_factory.mktemp("resumed")
    probes = small(folder / "probes")
    measure(folder, probes, FakeGpu(probes, LAWS, noise=0), stop=Interrupting(first))
    measure(folder, probes, FakeGpu(probes, LAWS, noise=0), stop=Interrupting(second), resume=True)
    done = keys(folder / "fake.samples.jsonl")
    gpu = FakeGpu(probes, LAWS, noise=0)
    resumed = measure(folder, probes, gpu, resume=True)
    assert keys(resumed.samples)[: len(done)] == done
    assert len(set(map(str, keys(resumed.samples)))) == len(keys(resumed.samples))
    assert set(map(str, keys(resumed.samples))) == set(map(str, keys(undisturbed.samples)))
    assert resumed.outcome.cut_short is None
    for name, value in undisturbed.measured.values.items():
        again = resumed.measured.values[name]
        assert again.verdict == value.verdict, name
        assert again.value == pytest.approx(value.value, rel=1e-3), name


def test_complete_run_resumed_launches_no_kernel_again(tmp_path: Path) -> None:
    probes = small(tmp_path / "probes")
    whole = measure(tmp_path, probes, FakeGpu(probes, LAWS))
    gpu = FakeGpu(probes, LAWS)
    again = measure(tmp_path, probes, gpu, resume=True)
    assert gpu.calls == 0
    assert again.measured.values == whole.measured.values


def test_interrupted_run_writes_what_it_has(tmp_path: Path) -> None:
    probes = small(tmp_path / "probes")
    heard = Heard()
    run = measure(tmp_path, probes, FakeGpu(probes, LAWS), stop=Interrupting(400), tell=heard)
    assert run.outcome.cut_short == "interrupted"
    assert run.measured.values
    assert load_measured(run.path).values.keys() == run.measured.values.keys()
    assert heard.of(Finished)[0].interrupted


def test_run_that_is_stopped_while_kernels_are_compiled_leaves_nothing(tmp_path: Path) -> None:
    probes, told = small(tmp_path / "probes"), list[int]()

    def compiling(probes: Sequence[Probe], target: str, tell: Callable[[int, int], None]) -> Any:
        for done in range(1000):
            told.append(done)
            tell(done, 1000)
        return compiled(probes, target, tell)

    gpu = FakeGpu(probes, LAWS)
    with pytest.raises(Stopped):
        measure(tmp_path, probes, gpu, stop=Interrupting(5), compile_all=compiling)
    assert len(told) < 10
    assert gpu.calls == 0
    assert not list(tmp_path.glob("fake*"))


def test_keyboard_interrupt_in_the_middle_of_a_launch_writes_what_there_is(tmp_path: Path) -> None:
    probes = small(tmp_path / "probes")
    run = measure(tmp_path, probes, FakeGpu(probes, LAWS, bad=Misbehaviour(raises={300: KeyboardInterrupt()})))
    assert run.outcome.cut_short == "interrupted"
    assert load_measured(run.path).values


def test_half_written_line_is_measured_again(tmp_path: Path) -> None:
    probes = small(tmp_path / "probes")
    whole = measure(tmp_path, probes, FakeGpu(probes, LAWS))
    content = whole.samples.read_bytes()
    whole.samples.write_bytes(content[: len(content) * 2 // 3])
    heard = Heard()
    again = measure(tmp_path, probes, FakeGpu(probes, LAWS), resume=True, tell=heard)
    assert any("half written" in remark.text for remark in heard.of(Remark))
    assert set(map(str, keys(again.samples))) >= {str(key) for key in keys(whole.samples)}


@each_row(
    ("probe", "setting"),
    [
        ("copies/host-to-device-pinned", "size"),
        ("bank-conflict/load-4", "ways"),
        ("instruction/ffma-throughput", "grid"),
    ],
)
@each_row("counters", [False, True])
def test_samples_that_lack_a_setting_cost_only_their_own_probe(
    tmp_path: Path,
    ncu_counts: Callable[[dict[str, float]], None],
    *,
    probe: str,
    setting: str,
    counters: bool,
) -> None:
    ncu_counts({"a__b": 1.0})
    probes = small(tmp_path / "probes")
    whole = measure(tmp_path, probes, FakeGpu(probes, LAWS))
    entries = [json.loads(line) for line in whole.samples.read_text().splitlines()]
    damaged = next(entry for entry in entries if entry.get("probe") == probe and entry["round"] == FINAL)
    del damaged["configuration"][setting]
    whole.samples.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    values = measure(tmp_path, probes, FakeGpu(probes, LAWS), resume=True, counters=counters).measured.values
    assert values[probe].reasons[0].startswith("its samples cannot be evaluated: they lack ")
    others = {name: value for name, value in values.items() if not name.startswith(probe)}
    assert len(others) >= len(probes) - 1
    assert all(value.value is not None for value in others.values())


def test_run_that_goes_on_takes_no_more_time_than_is_left(tmp_path: Path) -> None:
    probes = small(tmp_path / "probes")

    def run(stop_after: int | None = None) -> tuple[Heard, FakeGpu]:
        heard, gpu = Heard(), FakeGpu(probes, LAWS)
        measure(
            tmp_path, probes, gpu, resume=True, tell=heard,
            stop=lambda: stop_after is not None and len(heard.of(Started)) > stop_after,
        )  # fmt: skip
        return heard, gpu

    planned = []
    for stop_after in (4, None, None):
        heard, gpu = run(stop_after)
        planned.append((heard.of(RunPlanned)[0].seconds, gpu.now()))
    (whole_s, first_s), (rest_s, second_s), (nothing_s, third_s) = planned
    assert 0 < rest_s < whole_s
    assert nothing_s == 0
    assert third_s < 3
    assert first_s + second_s < EFFORTS["default"].total_s * 1.1


def test_sweeps_do_not_ask_nvml_and_what_counts_does(whole: tuple[Characterization, Heard, FakeGpu]) -> None:
    stored = read_samples(whole[0].samples.read_bytes(), "fake")
    ffma = [one for one in stored.series if one.probe == "instruction/ffma-throughput"]
    for one in ffma:
        assert any(sample.sm_clock_hz for sample in one.samples) == (one.round == FINAL)


def test_kernel_that_was_compiled_anew_is_measured_anew(tmp_path: Path) -> None:
    def other(*words: Any) -> dict[str, tuple[Checked, ...]]:
        import hashlib

        found = compiled(*words)
        changed = {}
        for name, ones in found.items():
            cubins = [(one, (one.compiled.cubin if one.compiled else b"") + b" ") for one in ones]
            changed[name] = tuple(
                one._replace(
                    compiled=structs.replace(one.compiled, cubin=cubin, sha256=hashlib.sha256(cubin).hexdigest())
                )
                for one, cubin in cubins
                if one.compiled
            )
        return changed

    probe = fake_probes.ffma(tmp_path)
    before = measure(tmp_path, [probe], FakeGpu([probe], LAWS)).measured.values[probe.id]
    slower = {**LAWS, "instruction_ffma_throughput": lambda call: 2 * LAWS["instruction_ffma_throughput"](call)}
    anew = measure(tmp_path, [probe], FakeGpu([probe], slower), resume=True, compile_all=other).measured.values
    assert anew[probe.id].verdict == "verified"
    assert anew[probe.id].value == pytest.approx((before.value or 0) / 2, rel=0.01)
    assert anew[probe.id].samples == before.samples


def test_samples_of_another_gpu_are_not_gone_on_with(tmp_path: Path) -> None:
    probe = fake_probes.chase(tmp_path)
    measure(tmp_path, [probe], FakeGpu([probe], LAWS))
    other = FakeGpu([probe], LAWS, properties=replace(PROPERTIES, driver="1000.0"))
    with pytest.raises(InputError, match=r"with driver 999\.1"):
        measure(tmp_path, [probe], other, resume=True)


# A GPU that fails


@settings(max_examples=10)
@given(st.integers(0, 420))
def test_call_that_is_refused_costs_its_own_point_only(tmp_path_factory: pytest.TempPathFactory, call: int) -> None:
    folder = tmp_path_factory.mktemp("refused")
    probes = small(folder / "probes")
    bad = Misbehaviour(raises={call: DeviceError("the call was refused")})
    run = measure(folder, probes, FakeGpu(probes, LAWS, bad=bad))
    assert run.outcome.cut_short is None
    lost = [value for value in run.measured.values.values() if value.value is None]
    assert len(lost) <= 1
    assert all(value.reasons == ("the call was refused",) for value in lost)


@settings(max_examples=8)
@given(st.integers(0, 420))
def test_call_after_which_nothing_works_costs_its_own_probe_only(
    tmp_path_factory: pytest.TempPathFactory, call: int
) -> None:
    folder = tmp_path_factory.mktemp("restarted")
    probes = small(folder / "probes")
    gpu = FakeGpu(probes, LAWS, bad=Misbehaviour(raises={call: DeviceError("an illegal address", fatal=True)}))
    run = measure(folder, probes, gpu)
    assert run.outcome.cut_short is None
    assert gpu.restarts == (1 if gpu.calls > call else 0)
    why = "the process that held the GPU had to be started again: an illegal address"
    died = {name.split(" ")[0] for name, value in run.measured.values.items() if why in value.reasons}
    assert len(died) <= gpu.restarts
    for probe in probes:
        names = [name for name in run.measured.values if name.split(" ")[0] == probe.id]
        assert probe.id in died or any(run.measured.values[name].value is not None for name in names), probe.id


@settings(max_examples=8)
@given(st.integers(0, 420))
def test_gpu_that_cannot_be_opened_again_ends_the_run_with_what_there_is(
    tmp_path_factory: pytest.TempPathFactory, call: int
) -> None:
    folder = tmp_path_factory.mktemp("lost")
    probes = small(folder / "probes")
    bad = Misbehaviour(raises={call: DeviceError("an illegal address", fatal=True)})
    gpu = FakeGpu(probes, LAWS, bad=bad)
    gpu.gone = True
    run = measure(folder, probes, gpu)
    if gpu.calls <= call:
        return
    assert run.outcome.cut_short == "the GPU was lost: an illegal address; it is not there any more"
    assert load_measured(run.path).values.keys() == run.measured.values.keys()


def test_gpu_on_which_everything_dies_is_given_up(tmp_path: Path) -> None:
    probes = load_probes(probe_folder())[:20]

    def die(_entry: str) -> None:
        raise DeviceError("an illegal address", fatal=True)

    gpu = FakeGpu(probes, LAWS)
    gpu.fail_where = die
    run = measure(tmp_path, probes, gpu)
    assert run.outcome.cut_short == "the GPU was lost: an illegal address"
    assert gpu.restarts == 9


def test_probe_that_was_not_launched_is_no_sign_that_the_gpu_works(tmp_path: Path) -> None:
    probes = [probe for probe in load_probes(probe_folder()) if probe.family == "instruction"][:40]

    def every_other(*words: Any) -> dict[str, tuple[Checked, ...]]:
        found = compiled(*words)
        for name in list(found)[::2]:
            found[name] = tuple(one._replace(judgement=Judgement("fail", "made up", {})) for one in found[name])
        return found

    def die(_entry: str) -> None:
        raise DeviceError("an illegal address", fatal=True)

    gpu = FakeGpu(probes, LAWS)
    gpu.fail_where = die
    run = measure(tmp_path, probes, gpu, compile_all=every_other)
    assert run.outcome.cut_short == "the GPU was lost: an illegal address"
    assert gpu.restarts == 9


def test_gpu_on_which_every_other_probe_dies_is_given_up_before_long(tmp_path: Path) -> None:
    probes = [probe for probe in load_probes(probe_folder()) if probe.method == "slope" and "sm_80" in probe.targets]
    doomed = {probe.kernel.entry for probe in probes[::2] if probe.kernel is not None}

    def die(entry: str) -> None:
        if entry in doomed:
            raise DeviceError("an illegal address", fatal=True)

    gpu = FakeGpu(probes, LAWS)
    gpu.fail_where = die
    assert len(doomed) > 40
    assert measure(tmp_path, probes, gpu, mode="quick").outcome.cut_short == "the GPU was lost: an illegal address"
    assert gpu.restarts == 29


def test_probe_that_died_is_left_out_when_the_run_is_resumed(tmp_path: Path) -> None:
    probes = small(tmp_path / "probes")

    def die(entry: str) -> None:
        if entry == "bank_conflict_load_4":
            raise DeviceError("an illegal address", fatal=True)

    gpu = FakeGpu(probes, LAWS)
    gpu.fail_where = die
    run = measure(tmp_path, probes, gpu)
    assert (run.outcome.cut_short, gpu.restarts) == (None, 1)
    assert run.measured.values["bank-conflict/load-4"].reasons == (
        "the process that held the GPU had to be started again: an illegal address",
    )
    resumed = FakeGpu(probes, LAWS)
    resumed.fail_where = die
    again = measure(tmp_path, probes, resumed, resume=True)
    assert resumed.restarts == 0
    assert again.measured.values["bank-conflict/load-4"].reasons == ("it died in an earlier run: an illegal address",)
    assert again.measured.values["instruction/ffma-throughput"].verdict == "verified"


def test_probe_that_died_is_not_tried_in_its_other_regime_nor_as_a_load(tmp_path: Path) -> None:
    probes = (
        fake_probes.ffma(tmp_path, regimes="short, sustained"),
        fake_probes.power(tmp_path, "instruction/ffma-throughput"),
    )
    tried: list[str] = []

    def die(entry: str) -> None:
        tried.append(entry)
        raise DeviceError("an illegal address", fatal=True)

    gpu = FakeGpu(probes, LAWS)
    gpu.fail_where = die
    values = measure(tmp_path, probes, gpu).measured.values
    assert len(tried) == 1
    assert {value.verdict for value in values.values()} == {"unsupported"}
    assert len(values) == 3


def test_samples_that_make_no_sense_cost_only_their_own_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def senseless(*_: object) -> Iterator[Result]:
        raise ValueError("a point is not finite")

    monkeypatch.setitem(METHODS, "curve", replace(METHODS["curve"], reduce=senseless))
    probes = (fake_probes.conflicts(tmp_path), fake_probes.ffma(tmp_path))
    values = measure(tmp_path, probes, FakeGpu(probes, LAWS)).measured.values
    assert values["bank-conflict/load-4"].reasons == ("its samples cannot be evaluated: a point is not finite",)
    assert values["instruction/ffma-throughput"].verdict == "verified"


def test_gpu_with_too_little_memory_lacks_only_what_needs_more(tmp_path: Path) -> None:
    probes = (fake_probes.dram(tmp_path), fake_probes.chase(tmp_path))
    gpu = FakeGpu(probes, LAWS, properties=replace(PROPERTIES, memory_bytes=32 * 2**20))
    values = measure(tmp_path, probes, gpu).measured.values
    assert values["bandwidth/dram-read"].reasons == ("no configuration fits this GPU",)
    assert values["latency/l2"].verdict == "verified"


def test_shapes_that_registers_forbid_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = fake_probes.in_flight(tmp_path)
    gpu = FakeGpu([probe], LAWS)
    monkeypatch.setattr(gpu, "blocks_at_once", lambda _function, block, _shared_bytes: 512 // block)
    run = measure(tmp_path, [probe], gpu)
    reasons = {reason for value in run.measured.values.values() for reason in value.reasons}
    assert "8 blocks of 1024 threads do not fit on the SMs at once" in reasons


# The library


BRIEF = Effort(1e5, StopRule(3, 1.0, 0.05), 1, StopRule(3, 1.0, 0.05), settle_s=0.1, power_s=0.3, allocations=1)


def test_probes_that_the_default_leaves_out_come_to_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others do so in test_virtual_run.py."""
    monkeypatch.setitem(EFFORTS, "brief", BRIEF)
    properties, every, heard = replace(PROPERTIES, compute_capability="9.0"), load_probes(probe_folder()), Heard()
    default = plan(every, Where("sm_90a", properties, 1e9), "default", EFFORTS["default"]).steps
    rest = [probe for probe in every if probe.id not in {step.probe.id for step in default}]
    run = measure(tmp_path, rest, FakeGpu(rest, properties=properties, noise=0), mode="brief", tell=heard)
    assert run.outcome.cut_short is None
    assert {"latency/tlb", "latency/l2-map", "atomics/global-red"} <= {event.probe for event in heard.of(Started)}
    assert load_measured(run.path).values.keys() == run.measured.values.keys()
    assert {event.name.split(" ")[0] for event in heard.of(Result)} == {event.probe for event in heard.of(Started)}
    for name, value in run.measured.values.items():
        assert value.verdict == "verified" or value.reasons, name
        assert not any("cannot be evaluated" in reason for reason in value.reasons), name


# Files


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    probe = fake_probes.launch(tmp_path)
    measure(tmp_path, [probe], FakeGpu([probe]))
    with pytest.raises(UsageError, match="already exists"):
        measure(tmp_path, [probe], FakeGpu([probe]))
    assert measure(tmp_path, [probe], FakeGpu([probe]), force=True).measured.values


def test_samples_without_a_measured_file_are_not_overwritten_either(tmp_path: Path) -> None:
    probe = fake_probes.launch(tmp_path)
    measure(tmp_path, [probe], FakeGpu([probe])).path.unlink()
    with pytest.raises(UsageError, match=r"samples\.jsonl already exists"):
        measure(tmp_path, [probe], FakeGpu([probe]))


@each_row("name", ["fake.samples.jsonl", "fake.measured.yaml"])
def test_link_that_others_put_is_not_written_through(tmp_path: Path, name: str) -> None:
    probe = fake_probes.launch(tmp_path / "probes")
    (tmp_path / "mine").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "mine" / "new")
    with pytest.raises(UsageError, match="already exists"):
        measure(tmp_path, [probe], FakeGpu([probe]))
    if name.endswith(".jsonl"):
        with pytest.raises(GpuprofError, match="It is a link"):
            measure(tmp_path, [probe], FakeGpu([probe]), resume=True)
    measure(tmp_path, [probe], FakeGpu([probe]), force=True)
    assert list((tmp_path / "mine").iterdir()) == [] and not (tmp_path / name).is_symlink()


def test_samples_that_are_a_pipe_are_not_waited_for(tmp_path: Path) -> None:
    probe = fake_probes.launch(tmp_path / "probes")
    os.mkfifo(tmp_path / "fake.samples.jsonl")
    with pytest.raises(InputError, match="It is not a regular file"):
        measure(tmp_path, [probe], FakeGpu([probe]), resume=True)


def test_run_that_cannot_begin_leaves_the_samples_of_the_last_one(tmp_path: Path) -> None:
    def no_compiler(*_: object) -> dict[str, tuple[Checked, ...]]:
        raise EnvironmentProblem("NVRTC was not found")

    probe = fake_probes.launch(tmp_path)
    before = measure(tmp_path, [probe], FakeGpu([probe])).samples.read_bytes()
    with pytest.raises(EnvironmentProblem):
        measure(tmp_path, [probe], FakeGpu([probe]), force=True, compile_all=no_compiler)
    assert (tmp_path / "fake.samples.jsonl").read_bytes() == before


@each_row("number", [0, 1, 29, 30])
def test_full_disk_ends_the_run_and_leaves_samples_to_go_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    probes = small(tmp_path / "probes")
    written = SampleFile.append
    count = 0

    def append(self: SampleFile, entry: Series | RunNote) -> None:
        nonlocal count
        count += 1
        if count > number:
            with self.path.open("ab") as file:
                file.write(samples.entry_line(entry)[:20])
            raise OSError(28, "No space left on device")
        written(self, entry)

    monkeypatch.setattr(SampleFile, "append", append)
    with pytest.raises(GpuprofError, match="No space left on device") as caught:
        measure(tmp_path, probes, FakeGpu(probes, LAWS))
    assert "--resume" in (caught.value.hint or "")
    monkeypatch.undo()
    resumed = measure(tmp_path, probes, FakeGpu(probes, LAWS), resume=True)
    assert resumed.outcome.cut_short is None
    ffma = resumed.measured.values["instruction/ffma-throughput"]
    assert (ffma.configuration["CHAINS"], ffma.configuration["block"]) == ("8", "256")
    assert ffma.value == pytest.approx(FFMA, rel=0.01)


def test_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    probe = fake_probes.launch(tmp_path / "probes")
    (tmp_path / "file").write_text("")
    with pytest.raises(GpuprofError, match="cannot write"):
        measure(tmp_path / "file", [probe], FakeGpu([probe]))


def test_measured_file_that_cannot_be_written_leaves_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = fake_probes.launch(tmp_path)

    def refuse(self: Path, target: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(GpuprofError, match="Permission denied") as caught:
        measure(tmp_path, [probe], FakeGpu([probe]))
    assert "--resume" in (caught.value.hint or "")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["fake.samples.jsonl"]


# Neighbours


def test_gpu_that_others_keep_busy_is_refused_with_the_reason(tmp_path: Path) -> None:
    probe = fake_probes.launch(tmp_path)
    with pytest.raises(EnvironmentProblem, match="2 other processes keep the GPU 40 % busy") as caught:
        measure(tmp_path, [probe], FakeGpu([probe], others=Others(2, 0.4)))
    assert "--force" in (caught.value.hint or "")
    assert not (tmp_path / "fake.samples.jsonl").exists()


def test_moment_of_work_is_no_busy_gpu(tmp_path: Path) -> None:
    probe = fake_probes.launch(tmp_path)
    gpu = FakeGpu([probe])
    looks = iter([Others(0, 1.0), Others(0, 0.5)])
    gpu.others = lambda: next(looks, Others(0, 0.0))  # type: ignore[method-assign]
    assert measure(tmp_path, [probe], gpu).measured.values


def test_busy_gpu_is_measured_with_force_and_the_file_says_who_else_was_there(tmp_path: Path) -> None:
    probe, heard = fake_probes.launch(tmp_path), Heard()
    run = measure(tmp_path, [probe], FakeGpu([probe], others=Others(2, 0.4)), force=True, tell=heard)
    assert run.measured.conditions.other_processes == 2
    assert any("40%" in remark.text for remark in heard.of(Remark))


def test_idle_neighbours_and_mig_are_noted(tmp_path: Path) -> None:
    probe, heard = fake_probes.launch(tmp_path), Heard()
    gpu = FakeGpu([probe], properties=replace(PROPERTIES, mig=True, mps=True), others=Others(1, 0.0))
    measure(tmp_path, [probe], gpu, tell=heard)
    told = " ".join(remark.text for remark in heard.of(Remark))
    assert "MIG is on" in told
    assert "MPS is on" in told
    assert "1 other processes are on the GPU" in told


def test_gpu_that_no_probe_is_made_for_is_refused(tmp_path: Path) -> None:
    probe = fake_probes.launch(tmp_path)
    with pytest.raises(EnvironmentProblem, match=r"compute capability 6\.1"):
        measure(tmp_path, [probe], FakeGpu([probe], properties=replace(PROPERTIES, compute_capability="6.1")))
