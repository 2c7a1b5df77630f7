"""What a file is, is told by its content; the code that is asked for is chosen; what cannot be is refused clearly."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.errors import GpuprofError, InputError, UsageError
from gpuprof.review.inputs.chosen import fitting
from gpuprof.review.inputs.targets import compiles_for, runs_on, target_named
from tests.device_code import FOLDER
from tests.review_inputs import CACHE, kernels, modules, needs_ptxas
from tests.table import each_row

PLAIN = FOLDER / "plain.fatbin"
"""Uncompressed code for sm_80, sm_90a and sm_100f, and PTX for compute_90."""
CUBIN = next(iter(sorted(CACHE.glob("*/row_sums.cubin"))))


@each_row(
    ("written", "target"),
    [("sm_90", "sm_90"), ("90a", "sm_90a"), ("9.0", "sm_90"), ("10.0f", "sm_100f"), ("sm120", "sm_120")],
)
def test_architectures_are_read_as_users_write_them(written: str, target: str) -> None:
    assert target_named(written) == target_named(target) == target


@each_row("written", ["", "sm_", "sm_9", "hopper", "sm_90b", "sm_9000", "90\n0", "９0"])
def test_what_is_no_architecture_is_refused(written: str) -> None:
    assert target_named(written) is None


@each_row(
    ("code", "chip", "runs"),
    [
        ("sm_80", "sm_86", True), ("sm_86", "sm_80", False), ("sm_80", "sm_90", False), ("sm_90a", "sm_90", True),
        ("sm_100a", "sm_103", False), ("sm_100f", "sm_103", True),
    ],
)  # fmt: skip
def test_machine_code_runs_within_a_major_number(code: str, chip: str, runs: bool) -> None:
    assert runs_on(code, chip) is runs


@each_row(
    ("ptx", "chip", "compiles"),
    [
        ("compute_80", "sm_120", True), ("compute_90", "sm_89", False), ("compute_90a", "sm_100", False),
        ("compute_100f", "sm_103", True), ("compute_100f", "sm_120", False),
    ],
)  # fmt: skip
def test_ptx_compiles_for_newer_chips(ptx: str, chip: str, compiles: bool) -> None:
    assert compiles_for(ptx, chip) is compiles


def test_a_chip_runs_its_own_code_else_the_newest_that_runs_on_it() -> None:
    assert fitting("sm_89", ["sm_75", "sm_80", "sm_86", "sm_90"]) == "sm_86"
    assert fitting("sm_80", ["sm_75", "sm_80", "sm_86"]) == "sm_80"
    assert fitting("sm_70", ["sm_75"]) is None


def test_the_code_for_the_targets_that_are_named_is_taken() -> None:
    listed = modules(PLAIN)
    assert [(module.target, module.form, module.holds, len(module.kernels)) for module in listed] == [
        ("sm_80", "sass", 1, 1), ("sm_90a", "sass", 1, 1), ("sm_100f", "sass", 1, 1), ("compute_90", "ptx", 1, 0),
    ]  # fmt: skip
    (module,) = modules(PLAIN, targets=("sm_80",))
    assert (module.target, len(module.kernels), module.notes) == ("sm_80", 1, ())
    listed = modules(PLAIN, targets=("sm_89",))
    assert [(module.target, len(module.kernels)) for module in listed] == [
        ("sm_80", 1), ("sm_90a", 0), ("sm_100f", 0), ("compute_90", 0),
    ]  # fmt: skip
    assert "sm_89" in listed[0].notes[0] and "sm_80" in listed[0].notes[0]


@pytest.mark.compilers
@needs_ptxas
@each_row("name", ["plain.fatbin", "lz4.fatbin"])
def test_ptx_is_compiled_for_an_architecture_without_machine_code(name: str) -> None:
    listed = modules(FOLDER / name, targets=("sm_120",))
    assert [(module.target, module.form, len(module.kernels)) for module in listed if module.kernels] == [
        ("sm_120", "sass", 1)
    ]
    assert "sm_120" in listed[-1].notes[0] and "compute_90" in listed[-1].notes[0]


def test_an_archive_names_its_members(tmp_path: Path) -> None:
    if shutil.which("ar") is None:
        pytest.skip("there is no ar")
    archive = tmp_path / "two.a"
    assert (
        os.spawnlp(os.P_WAIT, "ar", "ar", "rcs", str(archive), str(FOLDER / "first.o"), str(FOLDER / "second.o")) == 0
    )
    origins = {module.origin for module in modules(archive)}
    assert origins == {f"{archive}[first.o]", f"{archive}[second.o]"}
    assert [kernel.name for module in modules(archive, kernel="^copy") for kernel in module.kernels] == ["copy"] * 2


def test_kernels_are_chosen_by_a_part_of_the_name_or_by_number() -> None:
    assert [kernel.target for module in modules(PLAIN, kernel="#1") for kernel in module.kernels] == ["sm_90a"]
    assert len(kernels(modules(PLAIN, kernel="sc.le$"))) == 1
    for kernel, said, hint in (("other", "'other'", "scale"), ("#3", "#2", ""), ("(", "'('", "")):
        with pytest.raises(UsageError) as refused:
            modules(PLAIN, kernel=kernel)
        assert said in refused.value.message and hint in (refused.value.hint or "")


@each_row(
    ("name", "content", "named"),
    [
        ("empty.cubin", b"", "empty.cubin"), ("noise", b"\xff\x00\x01" * 99, "noise"),
        ("notes.txt", b"nothing of use\n", "notes.txt"), ("train.py", b"import torch\n", "Python"),
        ("torch.whl", b"PK\x03\x04\0\0", "archive"), ("app.ncu-rep.gz", b"\x1f\x8b\x08\0", "archive"),
        ("k.ttgir", b"module {}\n", "Triton"), ("k.json", b"{}", "no GPU code"),
        ("big.cubin", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"), ("k.ptx", b"ret;\n", ".target"),
        ("app.exe", b"MZ\x90\0\x03", "Windows"), ("cut.cubin", CUBIN.read_bytes()[:3000], "cut.cubin"),
        ("cut.fatbin", PLAIN.read_bytes()[:3000], "truncated"),
    ],
)  # fmt: skip
def test_what_has_no_code_or_is_broken_is_refused(tmp_path: Path, name: str, content: bytes, named: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=named):
        modules(path)


def test_content_counts_more_than_the_name(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    shutil.copy(PLAIN, path)
    assert {module.target for module in modules(path)} == {"sm_80", "sm_90a", "sm_100f", "compute_90"}


@given(
    st.binary(min_size=1, max_size=400), st.sampled_from([b"", b"\x7fELF\x02\x01\x01", b"\x50\xed\x55\xba", b"NVR\0"])
)
def test_noise_is_refused_without_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, head: bytes
) -> None:
    path = tmp_path_factory.mktemp("noise") / "noise.bin"
    path.write_bytes(head + noise)
    with pytest.raises(GpuprofError):
        list(modules(path))
