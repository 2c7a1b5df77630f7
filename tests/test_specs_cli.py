"""`gpuprof specs`: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuprof.cli.specs import command
from gpuprof.errors import SpecError
from gpuprof.resources import data_dir
from tests.test_specs import GPU, changed, for_a100, write_gpu

H100 = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/passes/full/profile.ncu-rep"


@pytest.fixture(autouse=True)
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "user specs"
    monkeypatch.setenv("GPUPROF_SPECS", str(folder))
    return folder


def specs(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def succeed(*arguments: str) -> Result:
    result = specs(*arguments)
    assert result.exit_code == 0, result.output
    return result


def test_list_as_json_is_in_base_units() -> None:
    listed = json.loads(succeed("list", "--format", "json").stdout)
    names = [gpu["name"] for gpu in listed["gpus"]]
    assert names == sorted(names)
    h200 = next(gpu for gpu in listed["gpus"] if gpu["name"] == "h200-sxm")
    assert h200["title"] == "NVIDIA H200 SXM 141GB" and h200["unconfirmed"] == []
    assert h200["dram_bytes_per_s"] == 4.8e12
    assert h200["tensor_fp16_flop_per_s"] == pytest.approx(989.5e12)
    assert listed["architectures"][0]["compute_capability"] == "7.0"


def test_show_gives_value_source_note_and_place() -> None:
    shown = succeed("show", "h200-sxm").stdout
    file = data_dir("specs") / "gpu" / "h200-sxm.yaml"
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "memory_bus" in text)
    assert "6016 bit (unconfirmed)" in shown and f"{file.name}:{line}" in shown and "60 MiB" in shown
    assert str(file) in "".join(shown.split())
    assert succeed("show", "nvidia h200").stdout == shown
    hopper = " ".join(succeed("show", "sm_90").stdout.split())
    assert "1. total: sm__ops_path_tensor_src_fp64.sum" in hopper and "0 B, 8 KiB, 16 KiB" in hopper
    assert "2. per-sm-cycle: sm__ops_path_tensor_src_fp64.sum.per_cycle_elapsed" in hopper


def test_show_as_json_has_the_implied_peak() -> None:
    shown = json.loads(succeed("show", "a100-80gb-pcie", "--format", "json").stdout)
    rated = shown["rated"]["fp32"]
    assert rated["clock_hz"] == 1.41e9
    assert rated["sms_times_rate_times_clock"] == pytest.approx(108 * 128 * 1.41e9)
    assert shown["compute"]["fp64"]["value"] == 64 and shown["compute"]["fp64"]["file"].endswith("sm_80.yaml")
    hopper = json.loads(succeed("show", "sm_90", "--format", "json").stdout)
    assert hopper["limits"]["warps_per_sm"]["value"] == 64
    assert hopper["counters"]["duration"][0]["terms"] == {"gpu__time_duration.sum": 1.0}


def test_text_that_steers_a_terminal_is_made_visible(user_folder: Path) -> None:
    write_gpu(user_folder, GPU.replace("title: Toy GPU", 'title: "Toy\\e[2J\\u202e GPU"'))
    assert "Toy\\x1b[2J\\u202e GPU" in succeed("show", "toy").stdout
    assert json.loads(succeed("show", "toy", "--format", "json").stdout)["title"] == "Toy\x1b[2J\u202e GPU"


def test_check_ends_with_5_on_errors_alone(tmp_path: Path) -> None:
    text, line = changed(GPU, "12.8 TFLOP/s", "99 TFLOP/s")
    path = write_gpu(tmp_path, text)
    result = specs("check", str(path))
    assert result.stdout.startswith(f"{path}:{line}: error: ") and "100 SMs × 128" in result.stdout
    assert len(result.stdout.splitlines()) == 1
    assert isinstance(result.exception, SpecError) and result.exception.exit_code == 5
    missing = specs("check", str(tmp_path / "none.yaml"))
    assert missing.stdout.startswith(f"{tmp_path}/none.yaml:1: error: ") and isinstance(missing.exception, SpecError)
    text, _ = changed(GPU, '  names: ["Toy"]\n  pci_ids: ["10de:0001"]', "  sm_count: 100 SM")
    assert ": warning: " in succeed("check", str(write_gpu(tmp_path, text))).stdout
    assert "0 errors, 0 warnings; " in succeed("check").stderr


def test_match_says_which_spec_and_why(user_folder: Path) -> None:
    shown = succeed("match", str(H100)).stdout
    assert str(data_dir("specs") / "gpu" / "h100-sxm.yaml") in "".join(shown.split()) and "132 SM" in shown
    assert "h100-sxm by PCI id and name" in shown and shown.count("differs") == 0
    path = write_gpu(user_folder, for_a100("mine", "mine").replace("A100 80GB PCIe", "H100 80GB HBM3"), "mine")
    shown = succeed("match", str(H100)).stdout
    # A long path takes several lines.
    assert "mine by name" in shown and "".join(str(path).split()) in "".join(shown.split())
