"""Finding ncu: where it is looked for, which one is taken, and what is said where none will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprof.collect.installation import Ncu, choose_ncu, find_ncu
from gpuprof.collect.machine import InstalledGpu, Machine, gpus_here
from gpuprof.errors import EnvironmentProblem
from tests.table import each_row

BANNER = "NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion {} (build 1) (public-release)"


def program(path: Path, text: str, code: int = 0) -> Path:
    """Write an executable that prints a text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nprintf '{text}\\n'\nexit {code}\n")
    path.chmod(0o755)
    return path


def ncu(path: Path, version: str) -> Path:
    """Write an executable that answers as ncu of that version does."""
    return program(path, BANNER.format(version))


def machine(root: Path, driver: str | None = None) -> Machine:
    """A machine whose files lie in a folder, with a driver of that version."""
    if driver is not None:
        place = root / "proc/driver/nvidia/version"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Mar 12 23:07:58 UTC 2024\n")
    return Machine(root)


def test_all_places_are_looked_at_and_links_count_once(tmp_path: Path) -> None:
    here = ncu(tmp_path / "bin/ncu", "2024.1.1.0")
    ncu(tmp_path / "cuda/bin/ncu", "2023.2.0.0")
    ncu(tmp_path / "root/opt/nvidia/nsight-compute/2025.3.0/ncu", "2025.3.0.0")
    ncu(tmp_path / "root/usr/local/cuda-12.1/bin/ncu", "2023.1.0.0")
    link = tmp_path / "root/usr/local/cuda/bin"
    link.mkdir(parents=True)
    (link / "ncu").symlink_to(here)
    found = find_ncu({"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "cuda")}, machine(tmp_path / "root"))
    assert [(one.version[:2], one.origin) for one in found] == [
        ((2025, 3), "/opt/nvidia/nsight-compute"),
        ((2024, 1), "PATH"),
        ((2023, 2), "CUDA_HOME"),
        ((2023, 1), "/usr/local"),
    ]


@each_row(
    ("driver", "version"),
    [("580.65.06", (2025, 3)), ("550.54.15", (2024, 1)), ("470.82.01", (2024, 1)), (None, (2025, 3))],
)
def test_the_newest_that_the_driver_supports_is_taken(
    tmp_path: Path, driver: str | None, version: tuple[int, int]
) -> None:
    # CUDA 13 needs driver 580; where none fits, the oldest is the best guess.
    ncu(tmp_path / "a/ncu", "2025.3.0.0")
    ncu(tmp_path / "b/ncu", "2024.1.1.0")
    environ = {"PATH": f"{tmp_path / 'a'}:{tmp_path / 'b'}"}
    assert choose_ncu(environ, machine=machine(tmp_path / "root", driver)).version[:2] == version


def test_an_old_release_that_the_driver_supports_is_no_choice(tmp_path: Path) -> None:
    # 2022.3 came with CUDA 11.8 and suits any driver, but is too old for our command lines.
    ncu(tmp_path / "a/ncu", "2025.3.0.0")
    ncu(tmp_path / "b/ncu", "2022.3.0.0")
    environ = {"PATH": f"{tmp_path / 'a'}:{tmp_path / 'b'}"}
    assert choose_ncu(environ, machine=machine(tmp_path / "root", "550.54.15")).version[:2] == (2025, 3)


def test_without_ncu_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="not found") as caught:
        choose_ncu({"PATH": str(tmp_path)}, machine=Machine(tmp_path))
    assert "--ncu PATH" in (caught.value.hint or "")


def test_an_ncu_that_is_too_old_is_refused(tmp_path: Path) -> None:
    old = ncu(tmp_path / "ncu", "2021.3.1.0")
    with pytest.raises(EnvironmentProblem, match=r"2021\.3\.1\.0; 2023\.1 or newer"):
        choose_ncu({"PATH": ""}, str(old))


def test_a_folder_may_be_named(tmp_path: Path) -> None:
    ncu(tmp_path / "ncu", "2024.1.1.0")
    assert choose_ncu({"PATH": ""}, str(tmp_path)).path == tmp_path / "ncu"


@each_row(("text", "code"), [("ls (GNU coreutils) 9.1", 0), (BANNER.format("2024.1"), 1), ("", 0)])
def test_another_program_is_not_taken_for_ncu(tmp_path: Path, text: str, code: int) -> None:
    other = program(tmp_path / "ncu", text, code)
    assert find_ncu({"PATH": str(tmp_path)}, Machine(tmp_path)) == ()
    with pytest.raises(EnvironmentProblem, match="is not Nsight Compute's ncu"):
        choose_ncu({"PATH": ""}, str(other))


def test_files_that_cannot_be_run_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "ncu").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b/ncu").write_text("no program")
    assert find_ncu({"PATH": f"{tmp_path}:{tmp_path / 'b'}:"}, Machine(tmp_path)) == ()


def test_driver_and_permission_are_read_as_the_driver_writes_them(tmp_path: Path) -> None:
    here = machine(tmp_path, "550.54.15")
    assert here.driver_version() == (550, 54, 15)
    assert here.counters_need_admin() is None
    for value, needed in (("1", True), ("0", False)):
        (tmp_path / "proc/driver/nvidia/params").write_text(f"ResmanDebugLevel: 1\nRmProfilingAdminOnly: {value}\n")
        assert here.counters_need_admin() is needed
    assert Machine(tmp_path / "none").driver_version() is None


def test_open_kernel_modules_name_their_version_too(tmp_path: Path) -> None:
    place = tmp_path / "proc/driver/nvidia/version"
    place.parent.mkdir(parents=True)
    place.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root@x)\n")
    assert Machine(tmp_path).driver_version() == (580, 65, 6)


def test_gpus_are_those_of_nvidia_smi(tmp_path: Path) -> None:
    program(
        tmp_path / "nvidia-smi",
        "NVIDIA H200, 9.0, 580.65.06, Disabled, Enabled\\nTesla T4, 7.5, 580.65.06, [N/A], Disabled",
    )
    assert gpus_here({"PATH": str(tmp_path)}) == (
        InstalledGpu("NVIDIA H200", "9.0", "580.65.06", False, True),
        InstalledGpu("Tesla T4", "7.5", "580.65.06", None, False),
    )
    assert gpus_here({"PATH": str(tmp_path)})[0].arch == "sm_90"
    program(tmp_path / "nvidia-smi", "NVIDIA-SMI has failed", 9)
    assert gpus_here({"PATH": str(tmp_path)}) == ()


def test_a_release_knows_the_oldest_driver_of_its_cuda() -> None:
    assert [Ncu(Path(), version, "").oldest_driver for version in ((2025, 3), (2025, 2), (2022, 3))] == [580, 525, 450]
