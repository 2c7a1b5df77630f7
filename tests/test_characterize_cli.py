"""`gpuprof characterize` without a GPU: what it prints and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuprof.characterize.gates import table
from gpuprof.characterize.probes import library
from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.characterize.probes.probe import Probe, all_targets
from gpuprof.cli import characterize as module
from gpuprof.cli.characterize import command
from gpuprof.code.tools import nvrtc
from gpuprof.code.tools.nvrtc import find_nvrtc
from gpuprof.errors import EnvironmentProblem, GpuprofError, UsageError
from tests.cuda_tools import kernel_of, needs_cuda_wheels, twin_named
from tests.table import each_row

FMA, MMA = "twins/fma", "twins/mma"


def characterize(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), standalone_mode=False)


@pytest.fixture(autouse=True)
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Probe, ...]:
    """Let the probes of the tests be all that there are."""
    probes = tuple(twin_named(name, tmp_path) for name in ("chase", "fma", "fp8-mma", "mma"))
    monkeypatch.setattr(library, "load_probes", lambda folder: probes)
    return probes


@needs_cuda_wheels
def test_json_has_what_is_promised_and_nothing_else() -> None:
    chosen = ("--only", FMA, "--only", MMA, "--arch", "sm_75", "--arch", "sm_90")
    result = characterize("--compile-only", *chosen, "--format", "json")
    assert result.return_value == 0
    written = json.loads(result.stdout)
    assert set(written) == {"kernels"}
    rows = {(row["probe"], row["arch"]): row for row in written["kernels"]}
    assert list(rows) == [(FMA, "sm_75"), (FMA, "sm_90a"), (MMA, "sm_75"), (MMA, "sm_90a")]
    assert all(set(row) == {"probe", "arch", "gate", "why", "opcodes"} for row in rows.values())
    assert [row["gate"] for row in rows.values()] == ["pass", "pass", "unsupported", "pass"]
    assert rows[FMA, "sm_90a"]["opcodes"]["FFMA"] == 128
    assert rows[MMA, "sm_75"] == {
        "probe": MMA,
        "arch": "sm_75",
        "gate": "unsupported",
        "why": "mma.m16n8k16 needs sm_80",
        "opcodes": {},
    }


@needs_cuda_wheels
def test_the_table_has_a_row_for_a_probe_and_a_column_for_a_target() -> None:
    result = characterize("--compile-only", "--only", MMA, "--arch", "sm_75", "--arch", "sm_80")
    assert result.stdout.splitlines() == ["probe      sm_75  sm_80", "twins/mma  -      pass"]


@needs_cuda_wheels
def test_for_one_target_the_table_says_why() -> None:
    result = characterize("--compile-only", "--only", MMA, "--arch", "sm_90a")
    assert "twins/mma sm_90a: pass: TILES=4 UNROLL=8: 32 HMMA.16816.F32 and 3 others in the loop" in result.stdout


@needs_cuda_wheels
def test_a_failed_gate_ends_with_1_and_names_the_variant() -> None:
    result = characterize("--compile-only", "--arch", "sm_90a")
    assert result.return_value == 1
    assert "twins/chase sm_90a: fail: CHAINS=2: 16 of 16 LDG do not wait for the one before" in result.stdout
    assert "twins/fp8-mma sm_90a: fail: STEPS=1 REPEAT=4: 2 HMMA.16816.F32 in the loop, not 8" in result.stdout
    assert "4 kernel builds, 2 failed" in result.stderr


@needs_cuda_wheels
def test_a_failed_gate_is_in_the_json_with_its_opcodes() -> None:
    result = characterize("--compile-only", "--only", "twins/chase", "--arch", "sm_80", "--format", "json")
    (row,) = json.loads(result.stdout)["kernels"]
    assert (result.return_value, row["gate"]) == (1, "fail")
    assert row["opcodes"]["LDG.E.64"] == 16


@needs_cuda_wheels
def test_emulation_is_said(twins: tuple[Probe, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    (probe,) = (probe for probe in twins if probe.name == "fp8-mma")
    kernel = replace(kernel_of(probe), parameters=(("STEPS", ("4",)), ("REPEAT", ("1",))), left_out=())
    monkeypatch.setattr(library, "load_probes", lambda folder: (replace(probe, kernel=kernel),))
    result = characterize("--compile-only", "--arch", "sm_89", "--arch", "sm_90a", "--format", "json")
    assert [row["gate"] for row in json.loads(result.stdout)["kernels"]] == ["pass", "emulated"]
    assert result.return_value == 0


@needs_cuda_wheels
def test_code_that_nothing_here_can_read_is_said_once_for_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprof.characterize.gates.check.disassembler_for", lambda target: None)
    result = characterize("--compile-only", "--only", FMA, "--only", MMA, "--arch", "sm_80")
    assert result.return_value == 0
    (said,) = [line for line in result.stdout.splitlines() if "not checked" in line]
    assert said.startswith("sm_80: 2 kernels compiled but not checked: ")
    assert [line.split()[-1] for line in result.stdout.splitlines() if line.startswith("twins/")] == ["?", "?"]
    assert result.stderr == "2 kernel builds, 2 compiled but not checked\n"
    form = characterize("--compile-only", "--only", FMA, "--arch", "sm_80", "--format", "json")
    (row,) = json.loads(form.stdout)["kernels"]
    assert row["gate"] == "unsupported"
    assert "not checked" in row["why"]


@each_row(
    ("name", "target", "why"),
    [
        ("mma", "sm_70", "needs sm_80 or newer"),
        ("mma", "sm_75", "mma.m16n8k16 needs sm_80"),
        ("fp8-mma", "sm_80", "needs sm_89 or newer"),
    ],
)
def test_an_unsupported_target_says_what_is_needed(twins: tuple[Probe, ...], name: str, target: str, why: str) -> None:
    (probe,) = (probe for probe in twins if probe.name == name)
    assert table.why_not(probe, target) == why


def test_a_probe_for_some_targets_names_them(twins: tuple[Probe, ...]) -> None:
    probe = replace(twins[0], targets=("sm_90a", "sm_100a"))
    assert table.why_not(probe, "sm_120a") == "the probe is for sm_90a, sm_100a"


def test_list_names_every_probe(twins: tuple[Probe, ...]) -> None:
    assert characterize("--list").stdout.splitlines() == [
        "twins/chase    cycle        Latency of a load from L1, with one chain and with two",
        "twins/fma      FLOP/clk/SM  Multiply-adds",
        "twins/fp8-mma  FLOP/clk/SM  FP8 matrix multiplies, native, emulated, and emulated with equal products",
        "twins/mma      FLOP/clk/SM  Matrix multiplies",
    ]


def test_list_as_json() -> None:
    (probe,) = json.loads(characterize("--list", "--only", MMA, "--format", "json").stdout)["probes"]
    assert probe == {
        "probe": MMA,
        "title": "Matrix multiplies",
        "quantity": "throughput",
        "unit": "FLOP/clk/SM",
        "architectures": [target for target in all_targets() if target not in {"sm_70", "sm_75"}],
    }


def test_the_probes_that_ship_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "load_probes", load_probes)
    lines = characterize("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [probe.id for probe in load_probes(probe_folder())]


def error_of(*arguments: str) -> GpuprofError:
    result = characterize(*arguments)
    assert isinstance(result.exception, GpuprofError)
    return result.exception


@each_row(
    ("arguments", "message"),
    [
        (("--compile-only", "--arch", "sm_9"), "unknown target: --arch sm_9"),
        (("--compile-only", "--only", "nothing"), "unknown probe or family: --only nothing"),
        (("--arch", "sm_90"), "--arch needs --compile-only"),
    ],
)
def test_wrong_use_is_explained(arguments: tuple[str, ...], message: str) -> None:
    error = error_of(*arguments)
    assert isinstance(error, UsageError)
    assert error.message.startswith(message)
    assert error.hint


def test_without_a_gpu_it_ends_in_one_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprof.collect.machine.gpus_here", lambda environ: ())
    error = error_of()
    assert isinstance(error, EnvironmentProblem)
    assert (error.exit_code, error.message) == (3, "no NVIDIA GPU to measure on this machine")
    assert error.hint == "--compile-only checks the kernels without a GPU"


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(nvrtc, "_candidates", lambda environ: iter(()))
    find_nvrtc.cache_clear()
    yield
    find_nvrtc.cache_clear()


@pytest.mark.usefixtures("no_compiler")
def test_without_nvrtc_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "find_disassemblers", lambda: ("one",))
    error = error_of("--compile-only", "--only", FMA)
    assert (error.exit_code, error.message) == (3, "NVRTC (the CUDA run-time compiler) was not found")
    assert error.hint == "install it: python -m pip install nvidia-cuda-nvrtc nvidia-cuda-nvdisasm"


def test_without_nvdisasm_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "find_disassemblers", lambda: ())
    error = error_of("--compile-only", "--only", FMA)
    assert (error.exit_code, error.message) == (3, "nvdisasm was not found: the code cannot be checked")
    assert error.hint is not None
    assert "nvidia-cuda-nvdisasm" in error.hint


def test_progress_is_told_only_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert module._progress() is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    tell = module._progress()
    assert tell is not None
    tell(1, 2)
    assert capsys.readouterr().err == "\r1 of 2 kernels compiled"
    tell(2, 2)
    assert capsys.readouterr().err == "\r\x1b[K"
