"""CUDA sources and PTX are compiled for the targets that are asked for, with lines and names of arguments."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from gpuprof.errors import EnvironmentProblem, InputError, UsageError
from gpuprof.review.inputs import sources
from gpuprof.sass.binary.cubin import read_cubin
from gpuprof.sass.tools.compile import compile_ptx
from gpuprof.sass.tools.programs import run
from gpuprof.sass.tools.ptx_lines import with_own_lines
from tests.cli import gpuprof
from tests.cuda_tools import needs_cuda_wheels
from tests.review_inputs import SAXPY, kernels, modules, needs_nvcc, needs_ptxas
from tests.table import each_row


@pytest.fixture
def saxpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a source in the folder that the test runs in."""
    monkeypatch.chdir(tmp_path)
    Path("saxpy.cu").write_text(SAXPY)
    return "saxpy.cu"


@pytest.fixture
def without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC alone: what it refuses is not tried again."""
    monkeypatch.setattr(sources, "program_for", lambda *_: None)


@pytest.mark.compilers
@needs_cuda_wheels
def test_a_source_is_compiled_with_lines_and_names_and_values_of_arguments(saxpy: str) -> None:
    (module,) = modules(saxpy, arguments={"n": 4096, "3": 0x7F00}, block=(256, 1, 1))
    assert (module.target, module.form, module.holds) == ("sm_90", "sass", 3)
    assert "sm_90" in module.notes[0] and "--arch" in module.notes[0]
    (tool,) = module.tools
    assert re.fullmatch(r"NVRTC \d+\.\d+ --gpu-architecture=sm_90 --std=c\+\+17 --generate-line-info", tool)
    named = kernels([module])
    lines = named["saxpy"].lines
    assert lines is not None and {file for file, _ in lines.values()} == {"saxpy.cu"}
    assert {line for _, line in lines.values()} <= {2, 3, 4, 5}
    assert named["saxpy"].argument_names == ("n", "a", "x", "y")
    assert (named["saxpy"].shape.arguments, named["saxpy"].shape.block) == ({0: 4096, 3: 0x7F00}, (256, 1, 1))
    # Its launch bounds allow 128 threads.
    scale = named["void scale<float>(float*, float)"]
    assert (scale.argument_names, scale.shape.arguments, scale.shape.block) == (("values", "by"), {}, None)
    assert "256" in scale.notes[0] and "128" in scale.notes[0]


@pytest.mark.compilers
@needs_cuda_wheels
@each_row(
    ("options", "named"),
    [
        ({"arguments": {"m": 1}}, "m"), ({"arguments": {"4": 1}}, "4"), ({"arguments": {"n": 2**32}}, "4 bytes"),
        ({"arguments": {"n": -(2**31) - 1}}, "4 bytes"), ({"block": (256, 1, 1), "kernel": "scale"}, "128"),
        ({"targets": ("sm_90",), "flags": ("-no-such-flag",)}, "-no-such-flag"),
        ({"targets": ("sm_90",), "flags": ("-maxrregcount=many",)}, "integer"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("without_nvcc")
def test_what_a_source_cannot_have_is_a_usage_error(saxpy: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError) as refused:
        modules(saxpy, **{"kernel": "saxpy", **options})
    assert named in str(refused.value)
    if refused.value.hint and "arguments" in options and "4 bytes" not in named:
        assert "n, a, x, y" in refused.value.hint


@pytest.mark.compilers
@needs_cuda_wheels
@pytest.mark.usefixtures("without_nvcc")
@each_row(
    ("source", "said", "hint"),
    [
        ('#include "own/tile.h"\n__global__ void k(float* y) { *y = 1; }\n', "own/tile.h", "nvcc -cubin"),
        ("template <class T> __global__ void k(T* a) { a[0] = T(); }\n", "k.cu", "template __global__"),
        (SAXPY.replace("a * x[i]", "alpha * x[i]"), 'k.cu:4: error: identifier "alpha"', "nvcc"),
        ("#include <vector>\n" + SAXPY, "k.cu:1: ", "nvcc"),
    ],
)
def test_what_does_not_compile_has_the_words_of_the_compiler_and_a_way_out(
    tmp_path: Path, emptied: Path, source: str, said: str, hint: str
) -> None:
    (tmp_path / "k.cu").write_text(source)
    with pytest.raises(InputError) as refused:
        modules(tmp_path / "k.cu", targets=("sm_90",))
    assert said in refused.value.message and hint in (refused.value.hint or "")
    assert list(emptied.iterdir()) == []


@pytest.mark.compilers
@needs_cuda_wheels
@needs_nvcc
def test_what_needs_a_host_compiler_is_compiled_by_nvcc_with_the_kernels_that_it_launches(tmp_path: Path) -> None:
    source = tmp_path / "host.cu"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own.h").write_text("#define OFFSET 3\n")
    source.write_text(
        "#include <vector>\n#include <cuda_fp16.h>\n#include <own.h>\n"
        "template <class T, class F> __global__ void k(T* out, float scale, F f) {\n"
        "  out[threadIdx.x] = T(f(scale) + OFFSET + BIAS); }\n"
        "int main() { std::vector<float*> v(1); auto f = [] __device__(float x) { return x * 2; };\n"
        "  k<<<1, 32>>>(v[0], 1.0f, f); k<<<1, 32>>>((half*)nullptr, 1.0f, f); }\n"
    )
    given: dict[str, Any] = {
        "targets": ("sm_80",),
        "folders": (str(tmp_path / "own"),),
        "standard": "c++17",
    }
    with pytest.raises(InputError) as refused:
        modules(source, defines=("BIAS=1",), **given)
    assert "--extended-lambda nvcc flag" in refused.value.message
    (module,) = modules(source, defines=("BIAS=1",), flags=("--extended-lambda",), **given)
    assert module.tools[0].startswith("nvcc ") and "--generate-line-info --extended-lambda -DBIAS=1" in module.tools[0]
    named = kernels([module])
    assert len(named) == 2
    assert all(kernel.argument_names == ("out", "scale", "f") for kernel in named.values())


@each_row("ending", ["wait", "exit 3"])
def test_what_a_program_leaves_running_is_ended_with_it(emptied: Path, ending: str) -> None:
    command = ["sh", "-c", f"sleep 60 & echo $! > {emptied.parent}/pid; {ending}"]
    if ending == "wait":
        with pytest.raises(EnvironmentProblem):
            run(command, 0.3)
    else:
        assert run(command, 20).code == 3
    started = int((emptied.parent / "pid").read_text())
    deadline = time.monotonic() + 20
    while _runs(started) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(started)


def test_a_program_gets_no_secrets_and_no_more_memory_than_it_may(
    emptied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_JOB_TOKEN", "secret-token")
    assert "secret-token" not in run(["env"], 20).log
    assert run(["sh", "-c", "ulimit -v; ulimit -c"], 20, memory_bytes=10**9).output == "976562\n0\n"
    with pytest.raises(EnvironmentProblem):
        run(["./none"], 20)


def macros(depth: int) -> str:
    """A source whose only expression has two to the power of this many terms."""
    lines = [f"#define A{number + 1} A{number} A{number}" for number in range(depth)]
    return "\n".join(["#define A0 a+", *lines, f'extern "C" __global__ void k(int *p, int a) {{ *p = A{depth} 0; }}'])


TEMPLATES = """
template <int N, int M> struct F { static const int v = F<N - 1, M * 2>::v + F<N - 1, M * 2 + 1>::v; };
template <int M> struct F<0, M> { static const int v = M; };
extern "C" __global__ void k(int *p) { *p = F<24, 1>::v; }
"""


@pytest.mark.compilers
@needs_cuda_wheels
@each_row(
    ("source", "options", "said"),
    [
        (macros(31), ("--compile-timeout", "2"), "2 s"),
        (TEMPLATES, ("--compile-memory", "300MB"), "300 MB"),
    ],
    ids=["time", "memory"],
)
def test_a_source_that_takes_too_much_is_named_and_the_others_are_reviewed(
    tmp_path: Path, source: str, options: tuple[str, str], said: str
) -> None:
    (tmp_path / "bomb.cu").write_text(source)
    (tmp_path / "good.cu").write_text(SAXPY)
    done = gpuprof("check", "bomb.cu", "good.cu", "--arch", "sm_80", *options, cwd=tmp_path)
    assert done.returncode == InputError.exit_code
    assert "saxpy" in done.stdout
    error, hint = done.stderr.splitlines()[-2:]
    assert error.startswith("error: bomb.cu: ") and said in error
    assert hint.startswith(f"hint: {options[0]} ")


@pytest.mark.compilers
@needs_cuda_wheels
@pytest.mark.usefixtures("without_nvcc")
@each_row(
    ("source", "compiles"),
    [
        ('#include "../secret.txt"\n__global__ void k(char *a) { *a = 1; }\n', False),
        ('#include "linked.h"\n__global__ void k(char *a) { *a = 1; }\n', False),
        ('#include "../common/number.h"\nextern "C" __global__ void k(int *p) { *p = NUMBER; }\n', True),
        ('__global__ void k(float *a) {\n#line 2 "../secret.txt"\na[threadIdx.x * 32] += 1;\n}\n', True),
        ('__global__ void k(float *a) {\n#line 2 "../secret.txt"\na[threadIdx.x * 32] += wrong;\n}\n', False),
    ],
)
def test_nothing_is_shown_of_a_file_that_is_not_the_sources(tmp_path: Path, source: str, compiles: bool) -> None:
    """A header next to its folder is included, and a file that is no header is not quoted."""
    place = tmp_path / "sources"
    for folder in (place, tmp_path / "common"):
        folder.mkdir()
    (tmp_path / "common/number.h").write_text("#define NUMBER 1\n")
    (tmp_path / "secret.txt").write_text("planted_secret\n" * 9)
    (place / "linked.h").symlink_to("../secret.txt")
    (place / "k.cu").write_text(source)
    outputs = ("-o", "a.html", "-o", "a.json", "-o", "a.md")
    done = gpuprof("check", "k.cu", "--arch", "sm_80", "--std", "c++17", "-v", *outputs, cwd=place)
    assert done.returncode == (0 if compiles else InputError.exit_code)
    written = "".join(file.read_text() for file in place.iterdir() if file.suffix not in (".cu", ".h"))
    assert "planted_secret" not in done.stdout + done.stderr + written


def _runs(process: int) -> bool:
    """Whether it runs; one that has ended may wait for somebody to ask how."""
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2][:4]
    except OSError:
        return False


_PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry first(.param .u64 to, .param .u32 by) .reqntid 64, 1, 1
{
  .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [by]; mov.u32 %r2, %tid.x;
AGAIN:
  mad.lo.s32 %r3,
    %r1, %r2, %r3;
  setp.lt.s32 %p1, %r3, 100;
  @%p1 bra AGAIN;
  st.global.u32 [%rd1], %r3;
  ret;
}
"""


@pytest.mark.compilers
@needs_ptxas
def test_ptx_is_compiled_for_its_own_target_with_its_lines_and_its_block(tmp_path: Path) -> None:
    source = tmp_path / "first.ptx"
    source.write_text(_PTX)
    (module,) = modules(source)
    kernel = kernels([module])["first"]
    assert (module.target, module.notes, kernel.shape.block) == ("sm_80", (), (64, 1, 1))
    assert kernel.lines is not None
    assert {file for file, _ in kernel.lines.values()} == {str(source)}
    assert {14} <= {line for _, line in kernel.lines.values()} <= {7, 8, 10, 12, 13, 14, 15}
    # To name the lines changes no instruction.
    compiled = [compile_ptx(ptx, "sm_80", "k.ptx") for ptx in (_PTX.encode(), with_own_lines(_PTX.encode()))]
    plain, named = (read_cubin(item.cubin) for item in compiled)
    assert plain.kernels[0].code == named.kernels[0].code
    source.write_text(_PTX.replace("  st.global", "  .loc 1 7 0\n  st.global") + '.file 1 "k.py"\n')
    (module,) = modules(source)
    assert set((kernels([module])["first"].lines or {}).values()) == {("k.py", 7)}
    # What ptxas no longer knows is compiled for the next chip.
    source.write_text(_PTX.replace("sm_80", "sm_52"))
    (module,) = modules(source)
    assert "sm_52" in module.notes[0] and module.target in module.notes[0]
