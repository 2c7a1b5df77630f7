"""Measuring from plan to file on a fake GPU: its peaks come out, its lies are rejected, interruptions cost nothing."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
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
def no_waiting_for_disk_and_chance() -> Iterator[None]:
    """Files that nobody keeps need not be safe from power cuts, and no cache prefetches on a fake."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _file: None)
        patch.setattr("gpuprof.characterize.on_gpu.chase.random_cycle", lambda nodes, *_: np.arange(nodes, dtype="u4"))
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

    def asked(values: Sequence[object], *others: object, **named: object) -> Any:
        key = (tuple(values), others, tuple(named.items()))
        if key not in said:
            said[key] = function(values, *others, **named)
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


def value_of(folder: Path, probe: Probe, bad: Misbehaviour | None = None, **wanted: Any) -> MeasuredValue:
    """The value of one probe on a fake with the usual laws."""
    return measure(folder, [probe], FakeGpu([probe], LAWS, bad=bad), **wanted).measured.values[probe.id]


Whole = tuple[Characterization, "Heard", FakeGpu]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """One run of every kind of probe."""
    folder, heard = tmp_path_factory.mktemp("whole"), Heard()
    probes = fake_probes.every(folder / "probes")
    gpu = FakeGpu(probes, LAWS)
    gpu.by_sm["latency_l2_map"] = lambda _call, sm: 1.0 if sm < 4 else 2.0
    return measure(folder, probes, gpu, tell=heard), heard, gpu


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
def test_run_recovers_what_the_fake_has(whole: Whole, name: str) -> None:
    value, (wanted, tolerance) = whole[0].measured.values[name], RECOVERED[name]
    assert value.value == pytest.approx(wanted, rel=tolerance, abs=0)


VERIFIED = [
    "instruction/ffma-throughput", "bandwidth/dram-read", "latency/l2", "latency/l2-capacity",
    "bandwidth/dram-in-flight", "bank-conflict/load-4", "occupancy/resident-warps", "launch/null-queued",
    "copies/host-to-device-pinned", "clocks/idle",
]  # fmt: skip


def test_checked_values_are_verified_with_their_best_configuration_evidence_and_ceiling(whole: Whole) -> None:
    values = whole[0].measured.values
    assert {name: (values[name].verdict, values[name].reasons) for name in VERIFIED} == dict.fromkeys(
        VERIFIED, ("verified", ())
    )
    ffma = values["instruction/ffma-throughput"]
    assert (ffma.configuration["CHAINS"], ffma.configuration["block"]) == ("8", "256")
    assert values["bandwidth/dram-read"].configuration["blocks_per_sm"] == "4"
    capacity = values["latency/l2-capacity"]
    assert capacity.configuration["size"] == str(int(capacity.value or 0))
    evidence = ffma.evidence
    assert (evidence.gate, evidence.nvml_clock_hz, evidence.limit) == ("pass", SM_HZ, 128)
    assert len(evidence.cubin_sha256 or "") == 64
    assert evidence.clock_hz == pytest.approx(SM_HZ, rel=1e-3)
    assert evidence.scaling_residual is not None and evidence.scaling_residual < 0.01
    assert {name: value.ceiling for name, value in values.items() if value.ceiling is not None} == {
        "instruction/ffma-throughput": "fp32",
        "bandwidth/dram-read": "dram",
    }


def test_measured_file_reads_back_with_its_curves_and_conditions(whole: Whole) -> None:
    run = whole[0]
    stored = load_measured(run.path)
    assert {name: value.verdict for name, value in stored.values.items()} == {
        name: value.verdict for name, value in run.measured.values.items()
    }
    assert {"latency/l2-capacity", "bandwidth/dram-in-flight", "bank-conflict/load-4"} <= stored.curves.keys()
    conditions = stored.conditions
    assert (conditions.driver, conditions.ecc, conditions.mig, conditions.power_limit_w) == ("999.1", True, False, 400)
    assert (conditions.pcie_generation, conditions.pcie_width, stored.device.pci_id) == (4, 16, "ffff:0001")


def test_sample_file_has_the_conditions_of_the_run_and_the_time_of_each_step(whole: Whole) -> None:
    notes = read_samples(whole[0].samples.read_bytes(), "fake").notes
    steps, others = ([note for note in notes if (note.what == "step") == wanted] for wanted in (True, False))
    assert [note.what for note in others] == ["environment", "before", "after"]
    assert all(note.facts["sm_clock_hz"] == SM_HZ for note in others[1:])
    assert [note.probe for note in steps] == [event.probe for event in whole[1].of(Started)]
    assert all(float(note.facts["seconds"]) > 0 for note in steps)
    environment = others[0].facts
    assert (environment["mps"], environment["persistence"], environment["driver"]) == (False, True, "999.1")


def test_samples_have_the_windows_iterations_rounds_and_allocations_that_the_method_asks_for(whole: Whole) -> None:
    series = read_samples(whole[0].samples.read_bytes(), "fake").series
    timed = [taken for taken in series if taken.probe.partition("/")[0] in {"instruction", "bandwidth", "latency"}]
    assert min(sample.time_s for taken in timed for sample in taken.samples) > 200 * 1.024e-6  # steps of the timer
    ffma = [taken for taken in series if taken.probe == "instruction/ffma-throughput"]
    assert sorted(taken.round for taken in ffma) == [0, 0, 0, 0, FINAL]
    for taken in ffma:
        counts = sorted({sample.iterations for sample in taken.samples})
        assert [count // counts[0] for count in counts] == [1, 2, 4]
        assert len(taken.config.cubin or "") == 12
        # Only what counts asks NVML.
        assert any(sample.sm_clock_hz for sample in taken.samples) == (taken.round == FINAL)
    assert len({taken.config.allocation for taken in series if taken.probe == "latency/l2"}) >= 3
    curve = [taken for taken in series if taken.probe == "bandwidth/dram-in-flight"]
    assert curve
    for taken in curve:
        each = 16 * int(taken.config.values["DEPTH"]) * taken.grid * taken.block
        assert min(sample.iterations for sample in taken.samples) * each >= 4 * PROPERTIES.l2_bytes


def test_events_tell_the_plan_its_order_each_sample_and_each_result_with_its_published_range(whole: Whole) -> None:
    run, heard, gpu = whole
    (planned,) = heard.of(RunPlanned)
    order = [event.probe for event in heard.of(Started)]
    assert len(planned.steps) == len(order) == 12
    places = [order.index(name) for name in (
        "clocks/idle", "latency/l2", "instruction/ffma-throughput", "bandwidth/dram-read",
    )]  # fmt: skip
    assert places == sorted(places)
    assert any(
        event.probe == "latency/l2" and event.value == pytest.approx(L2_CYCLES, 0.01)
        for event in heard.of(ConfigurationTaken)
    )
    results = {event.name: event for event in heard.of(Result)}
    assert results.keys() == run.measured.values.keys()
    expected = results["instruction/ffma-throughput"].expected
    assert (expected.low, expected.high, expected.of_limit, expected.source) == (0.4, 0.6, True, "chosen here")
    assert heard.of(Finished) == [heard.events[-1]]
    assert gpu.memory == {}


# What the fake lies about is rejected


@each_row(("probe", "bad", "verdict", "named"), [
    (fake_probes.ffma, Misbehaviour(nonlinear=0.05), "rejected", "iteration"),
    (fake_probes.ffma, Misbehaviour(nvml_factor=1.1), "rejected", "1.650 GHz"),
    (fake_probes.chase, Misbehaviour(wrong_walk=True), "rejected", "48 steps"),
    (fake_probes.ffma, Misbehaviour(lost_blocks=3), "unsupported", "3 of 16"),
    (fake_probes.ffma, Misbehaviour(events_short=True), "unsupported", "globaltimer"),
    (fake_probes.copy, Misbehaviour(copies_wrong=True), "unsupported", "device memory"),
])  # fmt: skip
def test_lie_of_the_gpu_is_rejected_or_leaves_no_value(
    tmp_path: Path, probe: Callable[[Path], Probe], bad: Misbehaviour, verdict: str, named: str
) -> None:
    value = value_of(tmp_path, probe(tmp_path), bad)
    assert (value.verdict, value.value is None) == (verdict, verdict == "unsupported")
    assert named in value.reasons[0]


def test_value_above_its_physical_limit_is_rejected(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path)
    for rate, verdict, named in ((127, "verified", []), (130, "rejected", ["1.02 × the limit 128.0"])):
        law: dict[str, Law] = {"instruction_ffma_throughput": lambda call, rate=rate: call.per_sm("flop") / rate}  # type: ignore[misc]
        value = measure(tmp_path / verdict, [probe], FakeGpu([probe], law)).measured.values[probe.id]
        assert value.verdict == verdict
        assert all(name in reason for name, reason in zip(named, value.reasons, strict=True))


def with_other_cubins(*words: Any, cubin: bytes, checked_again: bool) -> dict[str, tuple[Checked, ...]]:
    """Compile other code than usual, with its own checksum or with that of the usual code."""
    changes = {"cubin": cubin, **({"sha256": hashlib.sha256(cubin).hexdigest()} if checked_again else {})}
    return {
        name: tuple(
            checked._replace(compiled=structs.replace(checked.compiled, **changes))
            for checked in every
            if checked.compiled
        )
        for name, every in compiled(*words).items()
    }


def test_cubin_that_is_not_the_one_that_was_checked_is_not_run(tmp_path: Path) -> None:
    altered = partial(with_other_cubins, cubin=b"{}", checked_again=False)
    value = value_of(tmp_path, fake_probes.chase(tmp_path), compile_all=altered)
    assert value.value is None
    assert "latency_l2" in value.reasons[0]


def half_failed(*arguments: Any) -> dict[str, tuple[Checked, ...]]:
    """Code of which the variants with eight chains fail their gate."""
    bad = Judgement("fail", "made up", {})
    return {
        name: tuple(
            checked._replace(judgement=bad) if checked.variant.assignment["CHAINS"] == "8" else checked
            for checked in every
        )
        for name, every in compiled(*arguments).items()
    }


@each_row(("compile_all", "verdict", "value"), [
    (partial(compiled, gate="fail"), "unsupported", None),
    (partial(compiled, gate=None), "plausible", FFMA),  # no disassembler
    (half_failed, "verified", 0.7 * FFMA),
])  # fmt: skip
def test_gate_decides_which_code_is_timed_and_believed(
    tmp_path: Path, compile_all: Callable[..., dict[str, tuple[Checked, ...]]], verdict: str, value: float | None
) -> None:
    result = value_of(tmp_path, fake_probes.ffma(tmp_path), compile_all=compile_all)
    assert (result.verdict, len(result.reasons)) == (verdict, verdict != "verified")
    assert result.value == (pytest.approx(value, rel=0.01) if value else None)


def test_residency_that_cudas_calculator_contradicts_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = fake_probes.resident(tmp_path)
    gpu = FakeGpu([probe], LAWS)
    records = gpu._records
    monkeypatch.setattr(gpu, "_records", lambda call, cycles, seconds, at_once: records(
        call, cycles, seconds, at_once - PROPERTIES.sm_count
    ))  # fmt: skip
    value = measure(tmp_path, [probe], gpu).measured.values[probe.id]
    assert (value.value, value.verdict) == (15, "rejected")
    assert "CUDA's calculator" in value.reasons[0]


# Counters of ncu


Counting = Callable[[dict[str, float]], None]


@pytest.fixture
def ncu_counts(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """Makes ncu count such ratios of what probes claim, by the name of the counter; the first is what is believed."""
    here = SimpleNamespace(path=Path("/opt/ncu"), version=(2025, 3, 1))
    monkeypatch.setattr(installation, "choose_ncu", lambda _environ: here)

    def counting(ratios: dict[str, float]) -> None:
        def count_one(claims: Mapping[str, float]) -> CountedAndClaimed:
            believed = {quantity: next(iter(ratios.values()), 1.0) * claim for quantity, claim in claims.items()}
            each = {(quantity, frozenset({name})): ratio * claim for quantity, claim in claims.items()
                    for name, ratio in ratios.items()}  # fmt: skip
            return CountedAndClaimed(claims, believed, each)

        def count(_ncu: Path, asked: Sequence[ToCount], *_: object) -> dict[str, CountedAndClaimed]:
            return {to_count.probe.id: count_one(to_count.claims) for to_count in asked}

        monkeypatch.setattr(counters, "_count", count)

    return counting


@each_row(("ratio", "verdict", "level"), [(1.001, "verified", "certified"), (1.05, "rejected", None)])
def test_counters_that_disagree_with_the_claimed_work_reject_the_value(
    tmp_path: Path, ncu_counts: Counting, ratio: float, verdict: str, level: str | None
) -> None:
    ncu_counts({"a__b": ratio})
    value = value_of(tmp_path, fake_probes.ffma(tmp_path), counters=True)
    (certificate,) = [read_certificate(path) for path in tmp_path.glob("sm_80-ncu-2025.3.yaml")]
    (agreement,) = certificate.agreements
    assert (agreement.quantity, agreement.known) == ("work.fp32", "probe instruction/ffma-throughput")
    assert agreement.lowest == agreement.highest == pytest.approx(ratio)
    assert certificate.level_of("work.fp32", frozenset({"a__b"}), "2025.3") == level
    assert (value.verdict, len(value.reasons)) == (verdict, 0 if level else 1)
    assert value.evidence.counters == pytest.approx({"work.fp32": ratio})


def certified(folder: Path) -> dict[tuple[str, str, str], float]:
    """The lowest ratios in the certificate of a folder, by quantity, counter and probe."""
    (certificate,) = [read_certificate(path) for path in folder.glob("sm_80-ncu-2025.3.yaml")]
    return {(each.quantity, min(each.counters), each.known): each.lowest for each in certificate.agreements}


def test_second_run_adds_to_the_certificate_of_the_first(tmp_path: Path, ncu_counts: Counting) -> None:
    ffma, dram = fake_probes.ffma(tmp_path), fake_probes.dram(tmp_path)
    ncu_counts({"a__b": 1.0, "c__d": 0.5, "e__f": -1.0})
    value_of(tmp_path, ffma, counters=True)
    ncu_counts({"a__b": 1.01})
    value_of(tmp_path, dram, counters=True, force=True)
    value_of(tmp_path, ffma, counters=True, force=True)
    assert certified(tmp_path) == pytest.approx({
        ("work.fp32", "a__b", f"probe {ffma.id}"): 1.01,
        ("work.fp32", "c__d", f"probe {ffma.id}"): 0.5,
        ("work.fp32", "e__f", f"probe {ffma.id}"): 0.0,  # it ran backwards
        ("traffic.dram", "a__b", f"probe {dram.id}"): 1.01,
    })  # fmt: skip


@each_row("missing", [True, False], ids=["no ncu", "nothing counted"])
def test_without_counts_the_values_stay_without_a_certificate_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ncu_counts: Counting, missing: bool
) -> None:
    def none_here(environ: object) -> None:
        raise EnvironmentProblem("ncu was not found")

    ncu_counts({})
    if missing:
        monkeypatch.setattr(installation, "choose_ncu", none_here)
    heard = Heard()
    assert value_of(tmp_path, fake_probes.ffma(tmp_path), counters=True, tell=heard).verdict == "verified"
    assert not list(tmp_path.glob("sm_80-*"))
    assert len(heard.of(Remark)) == 1


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


@each_row(
    ("together", "fails_alone", "runs", "told"),
    [(10, ["b"], [["a", "b", "c"], ["b"], ["c"]], ["b"]), (2, ["a", "b", "c"], [["a", "b"], ["a"]], ["a", "b"])],
    ids=["the first is counted", "nothing is counted"],
)
def test_probe_that_a_run_of_ncu_leaves_out_is_counted_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ncu_counts: Counting, together: int, fails_alone: list[str],
    runs: list[list[str]], told: list[str],
) -> None:  # fmt: skip
    ncu_counts({"a__b": 1.0})
    count, asked_for, heard = counters._count, [], Heard()

    def leaving_out(ncu: Path, asked: Sequence[ToCount], *rest: Any) -> dict[str, CountedAndClaimed]:
        asked_for.append([to_count.probe.name for to_count in asked])
        if asked[0].probe.name in fails_alone:
            raise GpuprofError("damaged")
        return count(ncu, asked[:1], *rest)

    monkeypatch.setattr(counters, "_count", leaving_out)
    monkeypatch.setattr(counters, "_TOGETHER", together)
    probes = [fake_probes.dram(tmp_path, name) for name in ("a", "b", "c")]
    run = measure(tmp_path, probes, FakeGpu(probes, LAWS), counters=True, tell=heard)
    assert (asked_for, run.outcome.cut_short) == (runs, None)
    remarks = " ".join(remark.text for remark in heard.of(Remark))
    assert [probe.name for probe in probes if f"{probe.id} " in remarks] == told


def test_what_is_emulated_is_not_counted(tmp_path: Path, ncu_counts: Counting) -> None:
    ncu_counts({"a__b": 1.0})
    ffma, dram = fake_probes.ffma(tmp_path), fake_probes.dram(tmp_path)

    def emulating(probes: Sequence[Probe], *words: Any) -> dict[str, tuple[Checked, ...]]:
        return compiled([dram], *words) | compiled([ffma], *words, gate="emulated")

    measure(tmp_path, [ffma, dram], FakeGpu([ffma, dram], LAWS), counters=True, compile_all=emulating)
    assert {known for _, _, known in certified(tmp_path)} == {f"probe {dram.id}"}


def test_kernel_that_hangs_under_ncu_costs_the_counts_of_its_run(
    tmp_path: Path, slow_ncu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "_START_S", 0.3)
    monkeypatch.setattr(counters, "_PROBE_S", 0.1)
    probes, heard = [fake_probes.ffma(tmp_path), fake_probes.dram(tmp_path)], Heard()
    run = measure(tmp_path, probes, FakeGpu(probes, LAWS), counters=True, tell=heard)
    assert slow_ncu.read_text() == "x\n"  # what hangs is not run again
    assert run.outcome.cut_short is None
    assert all(probe.id in remark.text for probe, remark in zip(probes, heard.of(Remark), strict=False))


# Throttling and settling


@each_row(("regimes", "reasons", "regime", "throttling"), [
    ("short", lambda time: 0x4 if time < 1.5 else 0, "short", ()),  # it passes
    ("short", lambda _time: 0x4, "power_limited", ("power cap",)),
    ("short", lambda _time: 0x3, "short", ()),  # idle and application clocks
    ("sustained", lambda _time: 0, "sustained", ()),
    ("sustained", lambda _time: 0x4, "power_limited", ("power cap",)),
])  # fmt: skip
def test_throttling_is_waited_out_or_named(
    tmp_path: Path, regimes: str, reasons: Callable[[float], int], regime: str, throttling: tuple[str, ...]
) -> None:
    probe = fake_probes.ffma(tmp_path, regimes=regimes)
    gpu = FakeGpu([probe], LAWS, bad=Misbehaviour(reasons=reasons))
    value = measure(tmp_path, [probe], gpu).measured.values[probe.id]
    assert (value.regime, value.throttling) == (regime, throttling)
    assert value.value == pytest.approx(FFMA, rel=0.01)
    assert gpu.clock < 30


@each_row(
    ("sm_hz", "settled_hz"),
    [(lambda time: 0.8 if time > 3.0 else 1 - time / 15, 0.8 * SM_HZ), (lambda time: 1 - time / 60, None)],
    ids=["settling", "sinking"],
)
def test_sustained_value_is_that_of_the_settled_clock(
    tmp_path: Path, sm_hz: Callable[[float], float], settled_hz: float | None
) -> None:
    probe = fake_probes.ffma(tmp_path, regimes="sustained")
    bad = Misbehaviour(sm_hz=lambda time: SM_HZ * sm_hz(time))
    value = value_of(tmp_path, probe, bad, mode="full" if settled_hz else "default")
    assert any("had not settled" in reason for reason in value.reasons) == (settled_hz is None)
    if settled_hz is not None:
        assert value.evidence.clock_hz == pytest.approx(settled_hz, rel=0.005)
        assert (value.regime, value.verdict) == ("sustained", "verified")


def test_every_regime_and_kind_of_data_has_a_value_of_its_own(tmp_path: Path) -> None:
    probe = fake_probes.ffma(tmp_path, regimes="short, sustained", data="zeros, random")
    assert set(measure(tmp_path, [probe], FakeGpu([probe], LAWS)).measured.values) == {
        f"{probe.id} {data} {regime}" for data in ("zeros", "random") for regime in ("short", "sustained")
    }


# Time that is short


@each_row(("total_s", "remarks"), [(1e-3, 1), (1000.0, 0)])
def test_plan_that_needs_longer_than_its_mode_takes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total_s: float, remarks: int
) -> None:
    probe, heard = fake_probes.conflicts(tmp_path), Heard()
    monkeypatch.setitem(EFFORTS, "test", replace(EFFORTS["default"], total_s=total_s))
    measure(tmp_path, [probe], FakeGpu([probe], LAWS), mode="test", tell=heard)
    assert len(heard.of(Remark)) == remarks
    (planned,) = heard.of(RunPlanned)
    assert planned.seconds < 1000


@given(st.integers(1, 200), st.integers(0, 3))
def test_curves_are_measured_from_coarse_to_fine(count: int, seed: int) -> None:
    sizes = [128 * 2**number for number in range(count)]
    result = [ResultPoint((("size", size),)) for size in sizes]
    order = [dict(point.fixed)["size"] for point in coarse_to_fine("size", result, seed)]
    assert sorted(map(int, order)) == sizes
    for step in (8, 4, 2):
        begun = sorted(sizes.index(int(size)) for size in order[: -(-count // step)])
        assert begun == list(range(0, count, step))


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
    series = read_samples(file.read_bytes(), "fake").series
    return [(taken.probe, taken.config, taken.seen, taken.round) for taken in series]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Characterization:
    """A run of a few probes without noise."""
    folder = tmp_path_factory.mktemp("undisturbed")
    probes = small(folder / "probes")
    return measure(folder, probes, FakeGpu(probes, LAWS, noise=0))


@settings(max_examples=4)
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


@each_row("by", ["question", "keyboard"])
def test_interrupted_run_writes_what_it_has(tmp_path: Path, by: str) -> None:
    probes, heard = small(tmp_path / "probes"), Heard()
    bad = Misbehaviour(raises={300: KeyboardInterrupt()} if by == "keyboard" else {})
    stop = Interrupting(400) if by == "question" else lambda: False
    run = measure(tmp_path, probes, FakeGpu(probes, LAWS, bad=bad), stop=stop, tell=heard)
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

    gpu = FakeGpu(probes, LAWS)
    with pytest.raises(Stopped):
        measure(tmp_path, probes, gpu, stop=Interrupting(5), compile_all=compiling)
    assert (len(told) < 10, gpu.calls, list(tmp_path.glob("fake*"))) == (True, 0, [])


def test_half_written_line_is_measured_again_and_a_complete_run_is_not(tmp_path: Path) -> None:
    probes = small(tmp_path / "probes")
    whole = measure(tmp_path, probes, FakeGpu(probes, LAWS))
    content, heard = whole.samples.read_bytes(), Heard()
    gpu = FakeGpu(probes, LAWS)
    assert measure(tmp_path, probes, gpu, resume=True).measured.values == whole.measured.values
    assert gpu.calls == 0
    taken = {str(key) for key in keys(whole.samples)}
    whole.samples.write_bytes(content[: len(content) * 2 // 3])
    again = measure(tmp_path, probes, FakeGpu(probes, LAWS), resume=True, tell=heard)
    assert len(heard.of(Remark)) == 1
    assert set(map(str, keys(again.samples))) >= taken


@each_row(("probe", "setting", "counters"), [
    ("copies/host-to-device-pinned", "size", False),
    ("bank-conflict/load-4", "ways", False),
    ("instruction/ffma-throughput", "grid", True),
])  # fmt: skip
def test_samples_that_lack_a_setting_cost_only_their_own_probe(
    tmp_path: Path, ncu_counts: Counting, undisturbed: Characterization, probe: str, setting: str, counters: bool
) -> None:
    ncu_counts({"a__b": 1.0})
    probes = small(tmp_path / "probes")
    entries = [json.loads(line) for line in undisturbed.samples.read_text().splitlines()]
    damaged = next(entry for entry in entries if entry.get("probe") == probe and entry["round"] == FINAL)
    del damaged["configuration"][setting]
    (tmp_path / "fake.samples.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    values = measure(tmp_path, probes, FakeGpu(probes, LAWS), resume=True, counters=counters).measured.values
    assert {name.split(" ")[0] for name, value in values.items() if value.value is None} == {probe}
    assert len({name.split(" ")[0] for name in values}) == len(probes)


def test_run_that_goes_on_takes_no_more_time_than_is_left(tmp_path: Path) -> None:
    probes, planned = small(tmp_path / "probes"), []
    for stop_after in (4, 100, 100):
        heard, gpu = Heard(), FakeGpu(probes, LAWS)
        stop = partial(lambda heard, last: len(heard.of(Started)) > last, heard, stop_after)
        measure(tmp_path, probes, gpu, resume=True, tell=heard, stop=stop)
        planned.append((heard.of(RunPlanned)[0].seconds, gpu.now()))
    (whole_s, first_s), (rest_s, second_s), (nothing_s, third_s) = planned
    assert 0 == nothing_s < rest_s < whole_s
    assert third_s < 3
    assert first_s + second_s < EFFORTS["default"].total_s * 1.1


def test_kernel_that_was_compiled_anew_is_measured_anew_and_another_gpu_is_refused(tmp_path: Path) -> None:
    probe = fake_probes.chase(tmp_path)
    before = value_of(tmp_path, probe)
    slower = {"latency_l2": lambda call: 2 * chase_law(call)}
    other = partial(with_other_cubins, cubin=b'{"other": "1"}', checked_again=True)
    gpu = FakeGpu([probe], slower)
    anew = measure(tmp_path, [probe], gpu, resume=True, compile_all=other).measured.values[probe.id]
    assert (anew.verdict, anew.samples) == ("verified", before.samples)
    assert anew.value == pytest.approx(2 * (before.value or 0), rel=0.01)
    renewed = FakeGpu([probe], LAWS, properties=replace(PROPERTIES, driver="1000.0"))
    with pytest.raises(InputError, match=r"999\.1"):
        measure(tmp_path, [probe], renewed, resume=True)


# A GPU that fails


BRIEF = Effort(1e5, StopRule(3, 1.0, 0.05), 1, StopRule(3, 1.0, 0.05), settle_s=0.1, power_s=0.3, allocations=1)


def die(_entry: str) -> None:
    raise DeviceError("an illegal address", fatal=True)


def dying(probes: Sequence[Probe], fail_where: Callable[[str], None] = die) -> FakeGpu:
    gpu = FakeGpu(probes, LAWS)
    gpu.fail_where = fail_where
    return gpu


@settings(max_examples=8)
@given(st.integers(0, 420), st.sampled_from(["refused", "restarted", "gone"]))
def test_call_that_fails_costs_its_point_its_probe_or_the_rest_of_the_run(
    tmp_path_factory: pytest.TempPathFactory, call: int, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("failing")
    probes = small(folder / "probes")
    failure = DeviceError("made up", fatal=kind != "refused")
    gpu = FakeGpu(probes, LAWS, bad=Misbehaviour(raises={call: failure}))
    gpu.gone = kind == "gone"
    run = measure(folder, probes, gpu)
    values, hit = run.measured.values, gpu.calls > call
    assert load_measured(run.path).values.keys() == values.keys()
    assert (run.outcome.cut_short is not None) == (hit and kind == "gone")
    assert gpu.restarts == (hit and kind != "refused")
    if kind == "gone":
        return
    told = {name for name, value in values.items() if any("made up" in reason for reason in value.reasons)}
    missing = {name for name, value in values.items() if value.value is None}
    if kind == "refused":
        assert missing <= told and len(missing) <= 1
    assert len({name.split(" ")[0] for name in told}) <= hit
    for probe in probes:
        names = {name for name in values if name.split(" ")[0] == probe.id}
        assert names & told or names - missing, probe.id


@pytest.mark.parametrize(
    ("method", "doomed", "unsupported", "restarts"),
    [
        pytest.param("", 1, 0, 9, id="all"),
        pytest.param("", 1, 2, 9, id="all that pass their gate"),
        pytest.param("slope", 2, 0, 29, id="every other", marks=pytest.mark.slow),
    ],
)
def test_gpu_on_which_many_probes_die_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, doomed: int, unsupported: int, restarts: int
) -> None:
    """What failed its gate is not launched, so it is no sign that the GPU works."""
    monkeypatch.setitem(EFFORTS, "brief", BRIEF)
    every = [probe for probe in load_probes(probe_folder()) if "sm_80" in probe.targets and probe.kernel is not None]
    probes = [probe for probe in every if probe.method == "slope"] if method else every[:40]
    deadly = {probe.kernel.entry for probe in probes[::doomed] if probe.kernel is not None}

    def compile_all(*arguments: Any) -> dict[str, tuple[Checked, ...]]:
        result = compiled(*arguments)
        for name in list(result)[::unsupported] if unsupported else []:
            result[name] = tuple(each._replace(judgement=Judgement("fail", "made up", {})) for each in result[name])
        return result

    gpu = dying(probes, lambda entry: die(entry) if entry in deadly else None)
    outcome = measure(tmp_path, probes, gpu, mode="brief", compile_all=compile_all).outcome
    assert "illegal address" in (outcome.cut_short or "")
    assert gpu.restarts == restarts


def test_probe_that_died_is_not_tried_again_in_another_regime_as_a_load_or_after_a_resume(tmp_path: Path) -> None:
    probes = (
        fake_probes.ffma(tmp_path, regimes="short, sustained"),
        fake_probes.power(tmp_path, "instruction/ffma-throughput"),
        fake_probes.chase(tmp_path),
    )
    tried: list[str] = []

    def die_of_ffma(entry: str) -> None:
        tried.append(entry)
        if "ffma" in entry:
            die(entry)

    for resume, restarts in ((False, 1), (True, 0)):
        gpu = dying(probes, die_of_ffma)
        run = measure(tmp_path, probes, gpu, resume=resume)
        assert (run.outcome.cut_short, gpu.restarts) == (None, restarts)
        values = dict(run.measured.values)
        assert values.pop("latency/l2").verdict == "verified"
        assert [value.verdict for value in values.values()] == ["unsupported"] * 3
    assert sum("ffma" in entry for entry in tried) == 1


def test_gpu_with_too_little_memory_lacks_only_what_needs_more(tmp_path: Path) -> None:
    probes = (fake_probes.dram(tmp_path), fake_probes.chase(tmp_path))
    gpu = FakeGpu(probes, LAWS, properties=replace(PROPERTIES, memory_bytes=32 * 2**20))
    values = measure(tmp_path, probes, gpu).measured.values
    assert (values["bandwidth/dram-read"].value, values["bandwidth/dram-read"].verdict) == (None, "unsupported")
    assert values["latency/l2"].verdict == "verified"


def test_shapes_that_registers_forbid_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = fake_probes.in_flight(tmp_path)
    gpu = FakeGpu([probe], LAWS)
    monkeypatch.setattr(gpu, "blocks_at_once", lambda _function, block, _shared_bytes: 512 // block)
    run = measure(tmp_path, [probe], gpu)
    assert any("1024 threads" in reason for value in run.measured.values.values() for reason in value.reasons)
    assert {taken.block for taken in read_samples(run.samples.read_bytes(), "fake").series} == {32, 64, 128, 256, 512}


# The library


@pytest.mark.slow
def test_probes_that_the_default_leaves_out_come_to_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others do so in test_virtual_run.py."""
    monkeypatch.setitem(EFFORTS, "brief", BRIEF)
    properties, every, heard = replace(PROPERTIES, compute_capability="9.0"), load_probes(probe_folder()), Heard()
    default = plan(every, Where("sm_90a", properties, 1e9), "default", EFFORTS["default"]).steps
    rest = [probe for probe in every if probe.id not in {step.probe.id for step in default}]
    run = measure(tmp_path, rest, FakeGpu(rest, properties=properties, noise=0), mode="brief", tell=heard)
    assert run.outcome.cut_short is None
    started = {event.probe for event in heard.of(Started)}
    assert {"latency/tlb", "latency/l2-map", "atomics/global-red"} <= started
    assert load_measured(run.path).values.keys() == run.measured.values.keys()
    assert {event.name.split(" ")[0] for event in heard.of(Result)} == started
    for name, value in run.measured.values.items():
        assert value.verdict == "verified" or value.reasons, name
        assert not any("cannot be evaluated" in reason for reason in value.reasons), name


# Files


def test_nothing_is_overwritten_without_force_nor_by_a_run_that_cannot_begin(tmp_path: Path) -> None:
    def no_compiler(*_: object) -> dict[str, tuple[Checked, ...]]:
        raise EnvironmentProblem("NVRTC was not found")

    probe = fake_probes.launch(tmp_path)
    written = measure(tmp_path, [probe], FakeGpu([probe]))
    before = written.samples.read_bytes()
    with pytest.raises(UsageError):
        value_of(tmp_path, probe)
    written.path.unlink()  # samples without a measured file are kept, too
    with pytest.raises(UsageError, match=r"samples\.jsonl"):
        value_of(tmp_path, probe)
    with pytest.raises(EnvironmentProblem):
        value_of(tmp_path, probe, force=True, compile_all=no_compiler)
    assert written.samples.read_bytes() == before
    assert value_of(tmp_path, probe, force=True).value


def test_link_or_pipe_that_others_put_is_not_written_through(tmp_path: Path) -> None:
    probe, mine = fake_probes.launch(tmp_path / "probes"), tmp_path / "mine"
    mine.mkdir()
    for name, resumed in (("fake.samples.jsonl", GpuprofError), ("fake.measured.yaml", None)):
        link = tmp_path / name
        link.symlink_to(mine / "new")
        with pytest.raises(UsageError):
            value_of(tmp_path, probe)
        if resumed is not None:
            with pytest.raises(resumed, match="link"):
                value_of(tmp_path, probe, resume=True)
        value_of(tmp_path, probe, force=True)
        assert list(mine.iterdir()) == [] and not link.is_symlink()
        for file in tmp_path.glob("fake.*"):
            file.unlink()
    os.mkfifo(tmp_path / "fake.samples.jsonl")
    with pytest.raises(InputError):
        value_of(tmp_path, probe, resume=True)
    with pytest.raises(GpuprofError):
        value_of(tmp_path / "fake.samples.jsonl", probe)


@each_row("number", [0, 29])
def test_full_disk_ends_the_run_and_leaves_samples_to_go_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    probes, written, entries = small(tmp_path / "probes"), SampleFile.append, []

    def append(self: SampleFile, entry: Series | RunNote) -> None:
        entries.append(entry)
        if len(entries) > number:
            with self.path.open("ab") as file:
                file.write(samples.entry_line(entry)[:20])
            raise OSError(28, "No space left")
        written(self, entry)

    with monkeypatch.context() as patch, pytest.raises(GpuprofError, match="No space left") as caught:
        patch.setattr(SampleFile, "append", append)
        measure(tmp_path, probes, FakeGpu(probes, LAWS))
    assert "--resume" in (caught.value.hint or "")
    resumed = measure(tmp_path, probes, FakeGpu(probes, LAWS), resume=True)
    assert resumed.outcome.cut_short is None
    assert resumed.measured.values["instruction/ffma-throughput"].value == pytest.approx(FFMA, rel=0.01)


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


def test_gpu_that_others_keep_busy_is_measured_only_with_force(tmp_path: Path) -> None:
    probe, heard, busy = fake_probes.launch(tmp_path), Heard(), Others(2, 0.4)
    with pytest.raises(EnvironmentProblem, match="40 %") as caught:
        measure(tmp_path, [probe], FakeGpu([probe], others=busy))
    assert "--force" in (caught.value.hint or "")
    assert not (tmp_path / "fake.samples.jsonl").exists()
    run = measure(tmp_path, [probe], FakeGpu([probe], others=busy), force=True, tell=heard)
    assert run.measured.conditions.other_processes == 2
    assert any("40%" in remark.text for remark in heard.of(Remark))


def test_moment_of_work_is_no_busy_gpu(tmp_path: Path) -> None:
    probe = fake_probes.launch(tmp_path)
    gpu = FakeGpu([probe])
    looks = iter([Others(0, 1.0), Others(0, 0.5)])
    gpu.others = lambda: next(looks, Others(0, 0.0))  # type: ignore[method-assign]
    assert measure(tmp_path, [probe], gpu).measured.values


def test_idle_neighbours_and_mig_are_noted(tmp_path: Path) -> None:
    probe, heard = fake_probes.launch(tmp_path), Heard()
    gpu = FakeGpu([probe], properties=replace(PROPERTIES, mig=True, mps=True), others=Others(1, 0.0))
    measure(tmp_path, [probe], gpu, tell=heard)
    told = " ".join(remark.text for remark in heard.of(Remark))
    assert all(name in told for name in ("MIG", "MPS", "1 other"))


def test_gpu_that_no_probe_is_made_for_is_refused(tmp_path: Path) -> None:
    probe = fake_probes.launch(tmp_path)
    with pytest.raises(EnvironmentProblem, match=r"compute capability 6\.1"):
        measure(tmp_path, [probe], FakeGpu([probe], properties=replace(PROPERTIES, compute_capability="6.1")))
