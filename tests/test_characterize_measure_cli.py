"""`gpuprof characterize` on a fake GPU: what it prints, where it writes, how it ends."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuprof.characterize import characterization as run
from gpuprof.characterize.counters import Verified
from gpuprof.characterize.on_gpu import served_gpu
from gpuprof.characterize.probes import library
from gpuprof.characterize.sheet.measured import load_measured
from gpuprof.cli.characterize import command
from gpuprof.errors import EnvironmentProblem, UsageError
from tests import fake_probes
from tests.fake_gpu import FakeGpu, Misbehaviour, compiled
from tests.table import each_row
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
    result = characterize("--quick", "--only", "instruction")
    assert result.exception is None
    assert result.return_value == 0
    file = tmp_path / "specs" / "measured" / "fake-gpu-of-the-tests.measured.yaml"
    assert load_measured(file).values["instruction/ffma-throughput"].verdict == "verified"
    assert file.with_name("fake-gpu-of-the-tests.samples.jsonl").is_file()
    assert f"measured: {file}" in result.stderr


def test_sheet_is_on_stdout_and_progress_on_stderr(gpu: FakeGpu, tmp_path: Path) -> None:
    result = characterize("--only", "latency/l2", "-o", str(tmp_path / "a.measured.yaml"))
    assert "Fake GPU of the tests" in result.stdout
    assert "210" in result.stdout
    assert "latency/l2" in result.stderr


def test_json_has_the_values_in_base_units(gpu: FakeGpu, tmp_path: Path) -> None:
    result = characterize("--only", "latency/l2", "--format", "json", "-o", str(tmp_path / "a.measured.yaml"))
    (value,) = json.loads(result.stdout)["values"]
    assert value["name"] == "latency/l2"
    assert value["verdict"] == "verified"
    assert value["value"] == pytest.approx(210, rel=0.01)


def test_page_is_written_and_not_overwritten(gpu: FakeGpu, tmp_path: Path) -> None:
    page, file = tmp_path / "page.html", tmp_path / "a.measured.yaml"
    assert characterize("--only", "bank-conflict", "--html", str(page), "-o", str(file)).exception is None
    assert "load-4" in page.read_text()
    again = characterize("--only", "bank-conflict", "--html", str(page), "-o", str(tmp_path / "b.measured.yaml"))
    assert isinstance(again.exception, UsageError)


def test_load_of_a_power_probe_is_compiled_though_only_the_power_was_asked_for(gpu: FakeGpu, tmp_path: Path) -> None:
    file = tmp_path / "a.measured.yaml"
    characterize("--only", "clocks/ffma-throughput", "-o", str(file))
    values = load_measured(file).values
    assert values["clocks/ffma-throughput"].value == 100
    assert values["clocks/ffma-throughput energy"].unit == "J/FLOP"


@each_row("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_ctrl_c_writes_what_was_measured_and_resume_goes_on(gpu: FakeGpu, tmp_path: Path, name: str) -> None:
    file = tmp_path / "a.measured.yaml"

    def interrupt(entry: str) -> None:
        if entry == "bank_conflict_load_4" and gpu.calls < 10_000:
            gpu.calls = 10_000
            os.kill(os.getpid(), signal.Signals[name])

    gpu.fail_where = interrupt
    before = signal.getsignal(signal.Signals[name])
    result = characterize("--only", "latency/l2", "--only", "bank-conflict", "-o", str(file))
    assert (result.return_value, result.exception) == (128 + signal.Signals[name], None)
    assert set(load_measured(file).values) == {"latency/l2"}
    assert "--resume measures what is missing" in result.stderr
    assert signal.getsignal(signal.Signals[name]) is before
    again = characterize("--only", "latency/l2", "--only", "bank-conflict", "--resume", "-o", str(file))
    assert again.return_value == 0
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
    from gpuprof.cli.measuring import _Stop

    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    stop = _Stop()
    stop.ask(signal.SIGINT, None)
    assert (stop.asked(), ended) == (True, [])
    stop.ask(signal.SIGINT, None)
    assert ended == [130]


def test_lost_gpu_is_an_environment_problem_after_the_file_is_written(gpu: FakeGpu, tmp_path: Path) -> None:
    from gpuprof.characterize.record.gpu import DeviceError

    gpu.bad, gpu.gone = Misbehaviour(raises={40: DeviceError("an illegal address", fatal=True)}), True
    result = characterize("--only", "latency", "-o", str(tmp_path / "a.measured.yaml"))
    assert isinstance(result.exception, EnvironmentProblem)
    assert result.exception.message == "the GPU was lost: an illegal address; it is not there any more"
    assert (tmp_path / "a.measured.yaml").is_file()


def test_without_cupy_but_with_a_gpu_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    monkeypatch.setattr("gpuprof.collect.machine.gpus_here", lambda environ: ("one",))
    result = characterize()
    assert isinstance(result.exception, EnvironmentProblem)
    assert (result.exception.hint or "").startswith("install it: python -m pip install cupy-cuda")
