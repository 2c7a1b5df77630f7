"""`gpuprof doctor`: each check on a machine made of files, and the command as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuprof.collect.doctor import NOTE, OK, PROBLEM, UNKNOWN, Check, examine
from tests.cli import gpuprof
from tests.test_installation import machine, ncu, program


def named(checks: list[Check], name: str) -> list[Check]:
    """The checks of that name."""
    return [check for check in checks if check.name == name]


def good(root: Path) -> dict[str, str]:
    """Make a machine where nothing stands in the way, and return its environment."""
    machine(root, "580.65.06")
    (root / "proc/driver/nvidia/params").write_text("RmProfilingAdminOnly: 0\n")
    ncu(root / "bin/ncu", "2025.3.0.0")
    program(root / "bin/nvidia-smi", "NVIDIA H200, 9.0, 580.65.06, Disabled, Enabled")
    (root / "home").mkdir()
    return {"PATH": str(root / "bin"), "HOME": str(root / "home")}


def test_a_good_machine_has_no_problem(tmp_path: Path) -> None:
    checks = examine(good(tmp_path), machine(tmp_path))
    assert [check for check in checks if check.state == PROBLEM] == []
    assert named(checks, "driver")[0].result == "NVIDIA 580.65.06"
    assert named(checks, "GPU")[0].result == "NVIDIA H200, compute capability 9.0"
    assert named(checks, "counters")[0].state == OK


def test_counters_for_the_administrator_only(tmp_path: Path) -> None:
    environ = good(tmp_path)
    (tmp_path / "proc/driver/nvidia/params").write_text("RmProfilingAdminOnly: 1\n")
    status = tmp_path / "proc/self/status"
    status.parent.mkdir(parents=True)
    status.write_text("Name:\tx\nCapEff:\t0000000000000000\n")
    (check,) = named(examine(environ, machine(tmp_path)), "counters")
    assert check.state == PROBLEM and "NVreg_RestrictProfilingToAdminUsers=0" in check.fix
    # Bit 21 is CAP_SYS_ADMIN.
    status.write_text("CapEff:\t0000000000200000\n")
    assert named(examine(environ, machine(tmp_path)), "counters")[0].state == OK


def test_an_ncu_that_the_driver_does_not_support_is_a_problem_only_if_there_is_no_other(tmp_path: Path) -> None:
    environ = good(tmp_path)
    place = tmp_path / "proc/driver/nvidia/version"
    place.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 12\n")
    checks = named(examine(environ, machine(tmp_path)), "ncu")
    assert checks[-1].state == PROBLEM and "driver 580" in checks[-1].result
    ncu(tmp_path / "opt/nvidia/nsight-compute/2024.1/ncu", "2024.1.1.0")
    checks = named(examine(environ, machine(tmp_path)), "ncu")
    assert "2024.1.1.0" in checks[0].result
    assert PROBLEM not in {check.state for check in checks}


def test_packages_that_are_too_new_for_the_driver_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ, names = good(tmp_path), ["cupy-cuda13x", "Nvidia-CUDA-NVRTC"]
    here = lambda: [SimpleNamespace(metadata={"Name": name}) for name in names]  # noqa: E731
    monkeypatch.setattr("importlib.metadata.distributions", here)
    assert named(examine(environ, machine(tmp_path)), "CUDA") == []
    place = tmp_path / "proc/driver/nvidia/version"
    place.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.172.08  Tue Mar 12\n")
    notes = named(examine(environ, machine(tmp_path)), "CUDA")
    assert {check.state for check in notes} == {NOTE} and "driver 570" in notes[0].result
    assert [check.fix.split()[-1] for check in notes] == ["cupy-cuda12x", "nvidia-cuda-nvrtc-cu12"]
    names += ["cupy-cuda12x", "nvidia-cuda-nvrtc-cu12"]
    assert named(examine(environ, machine(tmp_path)), "CUDA") == []


def test_the_command_prints_json_and_ends_with_3_on_problems(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path), "COLUMNS": "60"}
    states = {check.name: check.state for check in examine(environ, machine(tmp_path))}
    assert states["driver"] == states["ncu"] == PROBLEM
    assert states["GPU"] == states["counters"] == UNKNOWN
    done = gpuprof("doctor", "--format", "json", environ=environ)
    checks = json.loads(done.stdout)["checks"]
    assert {"name", "state", "found", "fix"} == set(checks[0])
    problems = [check for check in checks if check["state"] == "problem"]
    assert done.returncode == (3 if problems else 0)
    text = gpuprof("doctor", environ=environ)
    assert text.returncode == done.returncode
    assert not problems or text.stdout.splitlines()[-1].startswith(f"{len(problems)} of {len(checks)} ")
    assert max(map(len, text.stdout.splitlines())) <= 60
