"""Measuring from plan to file on a fake GPU: its peaks come out, its lies are rejected, interruptions cost nothing."""

from __future__ import annotations

import hashlib
import os
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

from gpuprof.characterize import counters
from gpuprof.characterize.characterization import Characterization, Wanted, characterize
from gpuprof.characterize.counters import ToCount
from gpuprof.characterize.gates.check import Checked
from gpuprof.characterize.measure.events import (
    Event,
    Remark,
    silence,
)
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record import samples
from gpuprof.characterize.record.gpu import DeviceError, Others
from gpuprof.characterize.record.samples import SampleFile, read_samples
from gpuprof.characterize.record.series import RunNote, Series
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.judging import CountedAndClaimed
from gpuprof.characterize.sheet.measured import MeasuredValue, load_measured
from gpuprof.collect import installation
from gpuprof.errors import EnvironmentProblem, GpuprofError, InputError, UsageError
from gpuprof.hardware.certificates import read_certificate
from gpuprof.hardware.library import SpecLibrary
from gpuprof.resources import data_dir
from gpuprof.sass.tools.compile import Compiled
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
    "instruction_ffma_throughput": by_chains, "bandwidth_dram_read": dram_law, "latency_l2": chase_law,
    "latency_l2_capacity": chase_law, "bandwidth_dram_in_flight": little_law,
    "bank_conflict_load_4": lambda call: 32 * (call.arguments["ways"] + 1.5),
    "latency_l2_map": lambda _call: 16 * L2_CYCLES, "occupancy_resident_warps": lambda _call: 64.0,
}  # fmt: skip


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
    "instruction/ffma-throughput": (FFMA, 0.01), "bandwidth/dram-read": (DRAM, 0.01),
    "latency/l2": (L2_CYCLES, 0.005), "latency/l2-capacity": (PROPERTIES.l2_bytes, 0.001),
    "bandwidth/dram-in-flight": (DRAM, 0.01),
    "bandwidth/dram-in-flight at 95 % of peak": (8192 * 2 ** ((0.95 - 8192 / KNEE) / (1 - 8192 / KNEE)), 0.01),
    "bandwidth/dram-in-flight knee": (KNEE, 0.02), "bank-conflict/load-4": (1.0, 0.01),
    "bank-conflict/load-4 first": (2.5, 0.01), "latency/l2-map": (L2_CYCLES, 0.005),
    "latency/l2-map far": (2 * L2_CYCLES, 0.005), "occupancy/resident-warps": (16, 0),
    "launch/null-queued": (2e-6, 0.01), "copies/host-to-device-pinned": (20e9, 0.01),
    "copies/host-to-device-pinned latency": (4e-6, 0.02), "clocks/idle": (100.0, 0),
    "clocks/ffma-throughput": (100.0, 0),
    "clocks/ffma-throughput energy": (100.0 / (FFMA * PROPERTIES.sm_count * SM_HZ), 0.02),
}  # fmt: skip


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


def compiled_otherwise(*arguments: Any) -> dict[str, tuple[Checked, ...]]:
    """Compile other code than usual."""
    cubin = b'{"other": "1"}'
    other = Compiled(cubin, hashlib.sha256(cubin).hexdigest(), "no compiler", ())
    return {
        name: tuple(each._replace(compiled=other) for each in every) for name, every in compiled(*arguments).items()
    }


@each_row(("compile_all", "verdict", "value"), [
    (partial(compiled, gate="fail"), "unsupported", None),
    (partial(compiled, gate=None), "plausible", FFMA),  # no disassembler
])  # fmt: skip
def test_gate_decides_which_code_is_timed_and_believed(
    tmp_path: Path, compile_all: Callable[..., dict[str, tuple[Checked, ...]]], verdict: str, value: float | None
) -> None:
    result = value_of(tmp_path, fake_probes.ffma(tmp_path), compile_all=compile_all)
    assert (result.verdict, len(result.reasons)) == (verdict, verdict != "verified")
    assert result.value == (pytest.approx(value, rel=0.01) if value else None)


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


# Throttling and settling


@each_row(("regimes", "reasons", "regime", "throttling"), [
    ("short", lambda time: 0x4 if time < 1.5 else 0, "short", ()),  # it passes
    ("short", lambda _time: 0x4, "power_limited", ("power cap",)),
    ("short", lambda _time: 0x3, "short", ()),  # idle and application clocks
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


@pytest.mark.slow
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


def test_half_written_line_is_measured_again_and_a_complete_run_is_not(tmp_path: Path) -> None:
    probes = (fake_probes.ffma(tmp_path), fake_probes.chase(tmp_path))
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


def test_kernel_that_was_compiled_anew_is_measured_anew_and_another_gpu_is_refused(tmp_path: Path) -> None:
    probe = fake_probes.chase(tmp_path)
    before = value_of(tmp_path, probe)
    slower = {"latency_l2": lambda call: 2 * chase_law(call)}
    gpu = FakeGpu([probe], slower)
    anew = measure(tmp_path, [probe], gpu, resume=True, compile_all=compiled_otherwise).measured.values[probe.id]
    assert (anew.verdict, anew.samples) == ("verified", before.samples)
    assert anew.value == pytest.approx(2 * (before.value or 0), rel=0.01)
    renewed = FakeGpu([probe], LAWS, properties=replace(PROPERTIES, driver="1000.0"))
    with pytest.raises(InputError, match=r"999\.1"):
        measure(tmp_path, [probe], renewed, resume=True)


# A GPU that fails


@pytest.mark.slow
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


def test_gpu_with_too_little_memory_lacks_only_what_needs_more(tmp_path: Path) -> None:
    probes = (fake_probes.dram(tmp_path), fake_probes.chase(tmp_path))
    gpu = FakeGpu(probes, LAWS, properties=replace(PROPERTIES, memory_bytes=32 * 2**20))
    values = measure(tmp_path, probes, gpu).measured.values
    assert (values["bandwidth/dram-read"].value, values["bandwidth/dram-read"].verdict) == (None, "unsupported")
    assert values["latency/l2"].verdict == "verified"


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


def test_full_disk_ends_the_run_and_leaves_samples_to_go_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes, written, entries = (fake_probes.ffma(tmp_path), fake_probes.launch(tmp_path)), SampleFile.append, []

    def append(self: SampleFile, entry: Series | RunNote) -> None:
        entries.append(entry)
        if len(entries) > 6:
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


def test_gpu_that_no_probe_is_made_for_is_refused(tmp_path: Path) -> None:
    probe = fake_probes.launch(tmp_path)
    with pytest.raises(EnvironmentProblem, match=r"compute capability 6\.1"):
        measure(tmp_path, [probe], FakeGpu([probe], properties=replace(PROPERTIES, compute_capability="6.1")))
