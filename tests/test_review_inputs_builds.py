"""Sources with the flags of their build, or of PyTorch's extensions, and arguments that are structures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpuprof
from gpuprof.errors import EnvironmentProblem, GpuprofError, UsageError
from gpuprof.review.inputs.builds import builds_of
from gpuprof.review.inputs.headers import header_hint
from gpuprof.review.inputs.torch_headers import torch_build
from gpuprof.sass.binary.debug_arguments import debug_arguments
from tests.cli import gpuprof as typed
from tests.cuda_tools import needs_cuda_wheels
from tests.review_inputs import kernels, modules, needs_nvcc
from tests.table import each_row

VIEW = """\
struct Shape { int rows, columns; };
template <class T> struct View { T *p; long long strides[2]; Shape shape; };
__global__ void rows(const View<float> in, float *out, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < n) out[r] = in.p[r * in.strides[0] + in.shape.columns];
}
"""
ROWS = ("_Z4rows4ViewIfEPfi",)
MEMBERS = ["in.p", "in.strides[0]", "in.strides[1]", "in.shape.rows", "in.shape.columns"]


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A source with a structure of 32 bytes as an argument."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "view.cu").write_text(VIEW)
    return "view.cu"


def database(folder: Path, *entries: object) -> str:
    file = folder / "compile_commands.json"
    file.write_text(json.dumps(entries))
    return str(file)


def command(folder: Path, options: str, name: str = "k.cu") -> dict[str, object]:
    return {"directory": str(folder), "command": f"/opt/cuda/bin/nvcc {options} -c {name} -o k.o", "file": name}


@pytest.mark.compilers
@needs_cuda_wheels
def test_members_of_a_structure_are_named_as_the_compiler_places_them(view: str) -> None:
    (kernel,) = kernels(modules(view, targets=("sm_80",))).values()
    assert kernel.argument_names == ("in", "out", "n")
    assert [str(part) for part in kernel.members] == MEMBERS
    assert [(part.offset, part.size_bytes) for part in kernel.members] == [(0, 8), (8, 8), (16, 8), (24, 4), (28, 4)]
    assert [str(kernel.part_at(offset)) for offset in (0, 12, 28, 32, 40, 44)] == [
        "in.p", "in.strides[0]", "in.shape.columns", "1", "2", "None"
    ]  # fmt: skip


@pytest.mark.compilers
@needs_cuda_wheels
@each_row("key", ["in.strides[0]", "in+8", "0+8", "0.strides[0]"])
def test_a_part_of_a_structure_is_set_by_its_member_or_its_offset(view: str, key: str) -> None:
    review = gpuprof.check(view, arch="sm_80", block=256, args={key: 1024})
    (load,) = [access for access in review.kernels[0].accesses if access.kind == "load"]
    assert (load.sectors_per_request, load.lane_stride_bytes) == (32, 4096)
    (part,) = review.kernels[0].arguments[0].parts
    assert (part.name, part.offset, part.size_bytes, part.value) == ("in.strides[0]", 8, 8, 1024)
    assert review.kernels[0].arguments[0].value is None


@pytest.mark.compilers
@needs_cuda_wheels
def test_an_unknown_stride_is_named_by_its_part(view: str) -> None:
    review = gpuprof.check(view, arch="sm_80", block=256)
    (load,) = [access for access in review.kernels[0].accesses if access.kind == "load"]
    assert "in.strides[0] × 4 B" in load.unknown and "argument 0" not in load.unknown
    (finding,) = review.kernels[0].findings
    assert "in.strides[0]" in finding.headline


@pytest.mark.compilers
@needs_nvcc
def test_without_debug_information_a_part_is_named_by_its_offset(view: str) -> None:
    (kernel,) = kernels(modules(view, targets=("sm_80",))).values()
    Path("view.cubin").write_bytes(kernel.cubin)
    review = gpuprof.check("view.cubin", block=256)
    (load,) = [access for access in review.kernels[0].accesses if access.kind == "load"]
    assert "argument 0+8 × 4 B" in load.unknown
    review = gpuprof.check("view.cubin", block=256, args={"0+8": 1024})
    (load,) = [access for access in review.kernels[0].accesses if access.kind == "load"]
    assert load.sectors_per_request == 32
    assert any("0+12" in note for note in review.notes)
    # Where its second word is given, too, the first has four bytes.
    review = gpuprof.check("view.cubin", block=256, args={"0+24": 3, "0+28": 5})
    assert [(part.offset, part.size_bytes) for part in review.kernels[0].arguments[0].parts] == [(24, 4), (28, 4)]


@pytest.mark.compilers
@needs_cuda_wheels
@each_row(
    ("values", "message", "hint"),
    [
        ({"in": 1024}, "--arg in:", "in.p, in.strides[0]"),
        ({"0": 1}, "--arg 0:", "in.strides[0]"), ({"in.stride": 1}, "--arg in.stride:", "in.strides[0]"),
        ({"in+32": 1}, "in+32", "in.p"), ({"n.x": 1}, "n.x", "out, n"), ({"m.x": 1}, "m.x", "out, n"),
        ({"in.shape.rows": 2**32}, "4 bytes", ""), ({"in.p": 0, "in+0": 1}, "two values", "once"),
    ],
)  # fmt: skip
def test_what_no_part_can_be_is_refused_with_the_parts_that_there_are(
    view: str, values: dict[str, int], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        modules(view, targets=("sm_80",), arguments=values)
    assert message in refused.value.message and hint in (refused.value.hint or "")


@pytest.mark.compilers
@needs_cuda_wheels
def test_broken_debug_information_names_nothing_and_takes_no_time(view: str) -> None:
    (kernel,) = kernels(modules(view, targets=("sm_80",), flags=("-G",))).values()
    assert [argument.name for argument in debug_arguments(kernel.cubin, ROWS)[ROWS[0]]] == ["in", "out", "n"]
    start = kernel.cubin.index(b"lgenfe")
    for at in range(start - 30, min(start + 600, len(kernel.cubin))):
        for byte in (0, 0x7F, 0xFF):
            damaged = bytearray(kernel.cubin)
            damaged[at] = byte
            assert len(debug_arguments(bytes(damaged), ROWS)) <= 1


def test_the_flags_of_a_build_are_those_for_device_code(tmp_path: Path) -> None:
    (tmp_path / "flags.rsp").write_text("-I inc -isystem=/usr/x --use_fast_math")
    options = (
        "-forward-unknown-to-host-compiler -DA=1 '-DTEXT=\"a b\"' -D B --options-file flags.rsp "
        "--generate-code=arch=compute_80,code=[compute_80,sm_80] -gencode arch=compute_90a,code=sm_90a -ccbin /bin/no "
        "-Xcompiler=-fopenmp -Xcompiler -DHOST -maxrregcount 64 -Xptxas=-v,-dlcm=ca,-o,/etc/x -std=gnu++20 -MD -MF x.d "
        "--expt-relaxed-constexpr -G -rdc=true -UA -O3 -x cu --dryrun -keep-dir /etc"
    )
    ((name, (build,)),) = builds_of(database(tmp_path, command(tmp_path, options)), None).items()
    assert name == str(tmp_path / "k.cu")
    assert build.targets == ("sm_80", "sm_90a")
    assert build.standard == "c++20"
    assert build.flags == (
        "-DA=1", '-DTEXT="a b"', "-DB", f"--include-path={tmp_path / 'inc'}", "-isystem=/usr/x", "--use_fast_math",
        "-maxrregcount=64", "-Xptxas=-dlcm=ca", "--expt-relaxed-constexpr", "-G", "-rdc=true", "--undefine-macro=A",
    )  # fmt: skip


def test_clang_and_lists_of_arguments_are_read_too(tmp_path: Path) -> None:
    arguments = ["ccache", "clang++", "-x", "cuda", "--cuda-gpu-arch=sm_80", "-ffast-math", "-Iinc", "k.cpp"]
    entries = (
        {"directory": "build", "arguments": arguments, "file": "../k.cpp"},
        {"directory": "build", "arguments": ["c++", "-c", "host.cpp"], "file": "../host.cpp"},
    )
    builds = builds_of(database(tmp_path, *entries), None)
    assert list(builds) == [str(tmp_path / "k.cpp")]
    (build,) = builds[str(tmp_path / "k.cpp")]
    assert build.targets == ("sm_80",)
    assert build.flags == ("-use_fast_math", f"--include-path={tmp_path / 'build' / 'inc'}")


@each_row(
    ("options", "targets"),
    [
        ("-arch=compute_80 -code=sm_86", ("sm_86",)), ("-gencode arch=compute_80,code=sm_86", ("sm_86",)),
        ("-gencode=arch=compute_80,code=[compute_80,sm_86]", ("sm_86",)), ("-arch=native", ()),
        ("-gencode arch=compute_90,code=compute_90 -gencode arch=compute_90a,code=sm_90a", ("sm_90", "sm_90a")),
        ("--gpu-architecture sm_80", ("sm_80",)), ("-gencode arch=compute_80,code=lto_80", ("sm_80",)),
    ],
)  # fmt: skip
def test_the_architectures_of_a_build_are_those_of_its_machine_code(
    tmp_path: Path, options: str, targets: tuple[str, ...]
) -> None:
    ((build,),) = builds_of(database(tmp_path, command(tmp_path, options)), None).values()
    assert build.targets == targets


def test_a_pattern_chooses_sources_and_each_way_of_compiling_one_counts(tmp_path: Path) -> None:
    file = database(
        tmp_path, *(command(tmp_path, options, name) for name in ("a.cu", "b.cu") for options in ("-DX", ""))
    )
    assert {Path(name).name: len(ways) for name, ways in builds_of(file, "*/b.cu").items()} == {"b.cu": 2}
    with pytest.raises(UsageError) as refused:
        builds_of(file, "c*")
    assert "a.cu" in (refused.value.hint or "")
    with pytest.raises(UsageError):
        gpuprof.check("k.cu", file="*")


@each_row(
    "content",
    [
        "", "{", "{}", "[1]", '[{"file": 1}]', '[{"file": "k.cu", "arguments": "x"}]', "[" * 100_000,
        '[{"file": "k.cu", "command": "nvcc \'"}]', '[{"file": "k.cu", "command": "nvcc @self"}]',
        '[{"file": "k.cu", "command": "nvcc --options-file"}]', '[{"file": "k.cu", "command": "nvcc @missing"}]',
        '[{"file": "\\u0000.cu", "command": "nvcc"}]', '[{"file": "k.cpp", "command": "c++ k.cpp"}]', "[]",
    ],
)  # fmt: skip
def test_a_damaged_database_is_one_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "self").write_text("@self @self")
    file = tmp_path / "compile_commands.json"
    file.write_text(content)
    with pytest.raises(GpuprofError) as refused:
        gpuprof.check(compile_commands=file)
    assert refused.value.hint or "missing: no such file" in refused.value.message


@pytest.mark.compilers
@needs_nvcc
def test_sources_are_reviewed_with_the_flags_of_their_build(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "n.h").write_text("#include <vector>\nconstexpr int n = N;\n")
    (tmp_path / "k.cu").write_text('#include "n.h"\n__global__ void k(float *o) { o[n * threadIdx.x] = n; }\n')
    entry = command(tmp_path, "-Iinc -DN=2 -gencode=arch=compute_80,code=sm_80 -ccbin /bin/false")
    database(tmp_path, entry)
    done = typed("check", "--compile-commands", "compile_commands.json", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [kernel["target"] for kernel in document["kernels"]] == ["sm_80"]
    assert [access["lane_stride_bytes"] for access in document["kernels"][0]["accesses"]] == [8]
    assert "-DN=2" in document["tools"][0]
    # What the user says counts for more.
    done = typed("check", "--compile-commands", "compile_commands.json", "--arch", "90", "--top", "0", cwd=tmp_path)
    assert "sm_90" in done.stdout and "sm_80" not in done.stdout


def test_the_headers_of_torch_are_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = tmp_path / "lib" / "python3.12" / "site-packages" / "torch"
    (torch / "include" / "ATen").mkdir(parents=True)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    build = torch_build()
    for folder in ("include", "include/torch/csrc/api/include"):
        assert f"--include-path={torch / folder}" in build.flags
    assert "-D__CUDA_NO_HALF_OPERATORS__" in build.flags and build.standard == "c++17"
    (torch / "utils").mkdir()
    (torch / "utils" / "cpp_extension.py").write_text("raise SystemExit\nflags = ['-std=c++20']\n")
    assert torch_build().standard == "c++20"


def test_without_torch_its_option_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    monkeypatch.setattr("gpuprof.review.inputs.torch_headers.cuda_folders", lambda *_: iter(()))
    with pytest.raises(EnvironmentProblem) as refused:
        gpuprof.check("k.cu", torch=True)
    assert refused.value.hint


@each_row(
    ("header", "package"),
    [
        ("curand_kernel.h", "nvidia-curand"), ("cublas_v2.h", "nvidia-cublas"),
        ("cusparseLt.h", "nvidia-cusparselt-cu13"),
        ("cusparse.h", "nvidia-cusparse"), ("nccl.h", "nvidia-nccl-cu13"), ("cudnn.h", "nvidia-cudnn-cu13"),
        ("cutlass/gemm/device/gemm.h", "nvidia-cutlass"), ("nvtx3/nvToolsExt.h", "nvidia-nvtx"),
        ("cuda_profiler_api.h", "nvidia-cuda-profiler-api"), ("cub/cub.cuh", "nvidia-cuda-cccl"),
        ("cufftXt.h", "nvidia-cufft"), ("torch/extension.h", "--torch"),
    ],
)  # fmt: skip
def test_a_missing_header_of_a_library_names_its_package(header: str, package: str) -> None:
    hint = header_hint(header)
    assert hint is not None and hint.replace("python -m pip install ", "").split()[0] == package
    assert header_hint("helper_cuda.h") is None


@pytest.mark.compilers
@needs_nvcc
def test_the_error_of_a_compiler_names_the_package_of_the_header(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("#include <cutensorMp.h>\n__global__ void k() {}\n")
    with pytest.raises(GpuprofError) as refused:
        modules(source, targets=("sm_80",))
    assert refused.value.hint == "python -m pip install cutensor-cu13"
