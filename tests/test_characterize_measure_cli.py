"""`gpuprof characterize` on a fake GPU: what it prints, where it writes, how it ends."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuprof.characterize import characterization as run
from gpuprof.characterize.counters import Verified
from gpuprof.characterize.on_gpu import served_gpu
from gpuprof.characterize.probes import library
from gpuprof.characterize.record.gpu import DeviceError
from gpuprof.characterize.sheet.measured import load_measured
from gpuprof.cli.characterize import command
from gpuprof.cli.measuring import _Stop
from gpuprof.errors import EnvironmentProblem, UsageError
from tests import fake_probes
from tests.fake_gpu import FakeGpu, Misbehaviour, compiled
from tests.test_characterize_run import LAWS


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """A fake GPU in the place of CUDA's first, with the usual probes and a spec folder of the test's own."""
    probes = fake_probes.every(tmp_path / "probes")
    fake = FakeGpu(probes, LAWS)
    monkeypatch.setattr(library, "load_probes", lambda folder: probes)
    monkeypatch.setattr(served_gpu, "ServedGpu", lambda index, stop: fake)
    monkeypatch.setattr(run, "fitting_compiler", lambda _gpu, _target: compiled)
    monkeypatch.setattr("os.fsync", lambda _file: None)
    monkeypatch.setenv("GPUPROF_SPECS", str(tmp_path / "specs"))
    return fake


def characterize(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), standalone_mode=False)


def test_values_go_where_a_profile_of_this_gpu_finds_them(gpu: FakeGpu, tmp_path: Path) -> None:
    result = characterize("--quick", "--only", "instruction", "--only", "clocks/ffma-throughput")
    assert (result.exception, result.return_value) == (None, 0)
    file = tmp_path / "specs" / "measured" / "fake-gpu-of-the-tests.measured.yaml"
    values = load_measured(file).values
    assert values["instruction/ffma-throughput"].verdict == "verified"
    assert (values["clocks/ffma-throughput"].value, values["clocks/ffma-throughput energy"].unit) == (100, "J/FLOP")
    assert file.with_name("fake-gpu-of-the-tests.samples.jsonl").is_file()
    assert str(file) in result.stderr and "instruction/ffma-throughput" in result.stderr
    assert "Fake GPU of the tests" in result.stdout


def test_json_has_the_values_in_base_units_and_the_page_is_not_overwritten(gpu: FakeGpu, tmp_path: Path) -> None:
    page, file = tmp_path / "page.html", tmp_path / "a.measured.yaml"
    result = characterize("--only", "latency/l2", "--format", "json", "--html", str(page), "-o", str(file))
    (value,) = json.loads(result.stdout)["values"]
    assert (value["name"], value["verdict"], value["unit"]) == ("latency/l2", "verified", "cycle")
    assert value["value"] == pytest.approx(210, rel=0.01)
    assert "210 cycles" in page.read_text()
    again = characterize("--only", "latency/l2", "--html", str(page), "-o", str(tmp_path / "b.measured.yaml"))
    assert isinstance(again.exception, UsageError)


def test_a_signal_writes_what_was_measured_and_resume_goes_on(gpu: FakeGpu, tmp_path: Path) -> None:
    sent: list[signal.Signals] = []

    def interrupt(entry: str) -> None:
        if entry == "bank_conflict_load_4" and sent:
            os.kill(os.getpid(), sent.pop())

    gpu.fail_where = interrupt
    for number in (signal.SIGINT, signal.SIGTERM):
        file = tmp_path / f"{number}.measured.yaml"
        arguments = ("--quick", "--only", "latency/l2", "--only", "bank-conflict", "-o", str(file))
        before = signal.getsignal(number)
        sent.append(number)
        result = characterize(*arguments)
        assert (result.return_value, result.exception) == (128 + number, None)
        assert set(load_measured(file).values) == {"latency/l2"}
        assert "--resume" in result.stderr
        assert signal.getsignal(number) is before
        assert characterize(*arguments, "--resume").return_value == 0
        assert "bank-conflict/load-4" in load_measured(file).values


def test_ctrl_c_while_counters_are_verified_is_an_interruption(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = Verified({}, None, interrupted=True)
    monkeypatch.setattr("gpuprof.characterize.characterization.verify_counters", lambda *_: stopped)
    file = tmp_path / "a.measured.yaml"
    result = characterize("--only", "latency/l2", "--verify-counters", "-o", str(file))
    assert (result.return_value, result.exception) == (130, None)
    assert set(load_measured(file).values) == {"latency/l2"}


def test_second_ctrl_c_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    stop = _Stop()
    stop.ask(signal.SIGINT, None)
    assert (stop.asked(), ended) == (True, [])
    stop.ask(signal.SIGINT, None)
    assert ended == [130]


def test_lost_gpu_is_an_environment_problem_after_the_file_is_written(gpu: FakeGpu, tmp_path: Path) -> None:
    gpu.bad, gpu.gone = Misbehaviour(raises={40: DeviceError("an illegal address", fatal=True)}), True
    result = characterize("--only", "latency", "-o", str(tmp_path / "a.measured.yaml"))
    assert isinstance(result.exception, EnvironmentProblem)
    assert "illegal address" in result.exception.message
    assert (tmp_path / "a.measured.yaml").is_file()


def test_without_cupy_but_with_a_gpu_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cupy", "cupy.cuda"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("gpuprof.collect.machine.gpus_here", lambda environ: ("one",))
    result = characterize()
    assert isinstance(result.exception, EnvironmentProblem)
    assert "pip install cupy-cuda" in (result.exception.hint or "")
