"""Triton's cache is read with block, shared memory and names of arguments; strange metadata stop nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.errors import DamagedInput, InputError
from gpuprof.review.kernel import CompiledKernel
from tests.review_inputs import CACHE, modules
from tests.table import each_row

SIGNATURE = "tt.func public @row_sums(%rows: !tt.ptr<f32>, %sums: !tt.ptr<f32>, %width: i32) attributes {} {\n"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The folder of a kernel that sums rows, to be changed."""
    folder = tmp_path / "cache"
    shutil.copytree(next(iter(sorted(CACHE.glob("*/row_sums.cubin")))).parent, folder)
    return folder


def row_sums(folder: Path) -> CompiledKernel:
    (module,) = modules(folder)
    return module.kernels[0]


def test_a_cache_gives_its_kernels_with_block_and_shared_memory_by_its_metadata() -> None:
    listed = [kernel for module in modules(CACHE) for kernel in module.kernels]
    assert sorted(
        (kernel.name, kernel.target, kernel.shape.block, kernel.shape.dynamic_shared_bytes) for kernel in listed
    ) == [
        ("row_sums", "sm_80", (128, 1, 1), 16),
        ("row_sums", "sm_90a", (128, 1, 1), 16),
        ("strided_copy", "sm_80", (256, 1, 1), 0),
        ("strided_copy", "sm_90a", (256, 1, 1), 0),
    ]
    assert {module.tools for module in modules(CACHE)} == {("Triton 3.9.0",)}


def test_arguments_have_names_but_for_constants_and_what_triton_adds() -> None:
    listed = {kernel.name: kernel for module in modules(CACHE, arguments={"width": 7}) for kernel in module.kernels}
    assert listed["strided_copy"].argument_names == ("source", "target", "count", "stride")
    assert listed["row_sums"].argument_names == ("rows", "sums", "width")
    assert len(listed["row_sums"].kernel.parameters) == 5
    assert listed["row_sums"].shape.arguments == {2: 7}


@each_row(
    ("changed", "block", "shared"),
    [
        ({"num_warps": "many"}, (128, 1, 1), None), ({"num_warps": -4}, (128, 1, 1), None),
        ({"num_warps": 10**30}, (128, 1, 1), None), ({"num_warps": True}, (128, 1, 1), None),
        ({"shared": float("nan")}, (128, 1, 1), None), ({"shared": None}, (128, 1, 1), None),
        ({"target": ["cuda", 80]}, (128, 1, 1), 16), ({"name": ["row_sums"]}, (128, 1, 1), None),
    ],
)  # fmt: skip
def test_what_the_metadata_cannot_mean_is_not_known(
    copied: Path, changed: dict[str, object], block: tuple[int, int, int], shared: int | None
) -> None:
    original = json.loads(next(iter(sorted(CACHE.glob("*/row_sums.json")))).read_text())
    (copied / "row_sums.json").write_text(json.dumps(original | changed))
    kernel = row_sums(copied)
    assert (kernel.shape.block, kernel.shape.dynamic_shared_bytes) == (block, shared)


@each_row(
    ("signature", "names"),
    [
        (SIGNATURE, ("rows", "sums", "width")),
        (SIGNATURE.replace("%rows", "%arg0").replace("%width", "%arg2"), (None, "sums", None)),
        (
            SIGNATURE.replace("f32>", 'f32, 1> {tt.divisibility = 16 : i32} loc("a, (b"(#loc))'),
            ("rows", "sums", "width"),
        ),
        (SIGNATURE.replace("%width: i32", "%width: i64"), ("rows", "sums")),
        (SIGNATURE.replace("%sums: !tt.ptr<f32>", "%sums: !tt.tensordesc<tensor<8x8xf32>>"), ("rows",)),
        (SIGNATURE.replace(")", ", %a: i32, %b: i32, %c: i32, %d: i32)"), ()),
        (SIGNATURE.replace("@row_sums", "@other"), ()),
        (SIGNATURE.replace("%", "?"), ()),
        (SIGNATURE.partition("%width")[0], ("rows", "sums")),
    ],
)
def test_names_go_as_far_as_the_declaration_fits_the_code(
    copied: Path, signature: str, names: tuple[str | None, ...]
) -> None:
    (copied / "row_sums.ttir").write_text(signature)
    assert row_sums(copied).argument_names == names


def test_a_folder_without_kernels_is_refused_and_one_broken_kernel_is_told(copied: Path, tmp_path: Path) -> None:
    (copied / "zz.cubin").write_bytes(b"\x7fELF")
    listed = modules(copied)
    assert [len(module.kernels) for module in listed] == [1]
    assert "zz.cubin" in " ".join(listed[0].notes)
    (copied / "row_sums.cubin").unlink()
    with pytest.raises(DamagedInput, match=r"zz\.cubin"):
        modules(copied)
    (tmp_path / "bare").mkdir()
    with pytest.raises(InputError, match=r"\*\.cubin"):
        modules(tmp_path / "bare")


@given(st.text(alphabet=st.sampled_from(list('%(){}<>[],:!="#-> abi32.tptr\n')), max_size=200))
def test_no_intermediate_code_stops_the_reading(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("cache")
    source = next(iter(sorted(CACHE.glob("*/row_sums.cubin"))))
    for suffix in (".cubin", ".json"):
        shutil.copy(source.with_suffix(suffix), folder)
    (folder / "row_sums.ttir").write_text(f"tt.func public @row_sums({text}")
    assert len(row_sums(folder).argument_names) <= 5
