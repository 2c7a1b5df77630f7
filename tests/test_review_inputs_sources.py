"""CUDA sources and PTX are compiled for the targets that are asked for, with lines and names of arguments."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.code.binary.cubin import read_cubin
from gpuprof.code.tools import programs
from gpuprof.code.tools.compile import Compiled
from gpuprof.code.tools.nvrtc import find_nvrtc
from gpuprof.code.tools.nvrtc_child import compile_apart
from gpuprof.code.tools.programs import CompileLimits, LimitReached, compile_in, find_programs, private_folder, run_in
from gpuprof.code.tools.ptx_lines import with_own_lines
from gpuprof.code.tools.ptxas import compile_ptx
from gpuprof.errors import EnvironmentProblem, InputError, UsageError
from gpuprof.review.inputs import sources
from gpuprof.review.inputs.signatures import argument_names, names_for
from tests.cli import gpuprof
from tests.cuda_tools import needs_cuda_wheels
from tests.review_inputs import CACHE, SAXPY, kernels, modules, needs_nvcc, needs_ptxas
from tests.table import each_row


@pytest.fixture
def saxpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a source in the folder that the test runs in."""
    monkeypatch.chdir(tmp_path)
    Path("saxpy.cu").write_text(SAXPY)
    return "saxpy.cu"


@needs_cuda_wheels
def test_a_source_is_compiled_for_hopper_where_nobody_names_a_target_and_says_so(saxpy: str) -> None:
    (module,) = modules(saxpy)
    assert (module.target, module.form, module.holds) == ("sm_90", "sass", 3)
    assert module.notes == ("saxpy.cu: compiled for sm_90, since no --arch was given",)
    (tool,) = module.tools
    assert re.fullmatch(r"NVRTC \d+\.\d+ --gpu-architecture=sm_90 --std=c\+\+17 --generate-line-info", tool)


@needs_cuda_wheels
def test_lines_are_those_of_the_source_by_the_name_that_was_typed(saxpy: str) -> None:
    kernel = kernels(modules(saxpy))["saxpy"]
    assert kernel.lines is not None
    assert {file for file, _ in kernel.lines.values()} == {"saxpy.cu"}
    assert {line for _, line in kernel.lines.values()} <= {2, 3, 4, 5}


@needs_cuda_wheels
def test_arguments_have_the_names_of_the_declaration_and_values_by_name_or_number(saxpy: str) -> None:
    named = kernels(modules(saxpy, arguments={"n": 4096, "3": 0x7F00}))
    assert named["saxpy"].argument_names == ("n", "a", "x", "y")
    assert named["saxpy"].shape.arguments == {0: 4096, 3: 0x7F00}
    assert named["void scale<float>(float*, float)"].argument_names == ("values", "by")
    assert named["void scale<float>(float*, float)"].shape.arguments == {}


@needs_cuda_wheels
@each_row(
    ("key", "value", "what"),
    [
        ("m", 1, "no kernel has an argument of that name"),
        ("4", 1, "no kernel has an argument of that number"),
        ("n", 2**32, "does not fit into 4 bytes"),
        ("n", -(2**31) - 1, "does not fit into 4 bytes"),
    ],
)
def test_an_argument_that_no_kernel_has_is_refused(saxpy: str, key: str, value: int, what: str) -> None:
    with pytest.raises(UsageError, match=what) as refused:
        modules(saxpy, kernel="saxpy", arguments={key: value})
    if "no kernel" in what:
        assert refused.value.hint == "saxpy has 0 (n), 1 (a), 2 (x), 3 (y)"


@needs_cuda_wheels
def test_a_source_is_compiled_for_each_target(saxpy: str) -> None:
    targets = [module.target for module in modules(saxpy, targets=("sm_80", "sm_90a"))]
    assert targets == ["sm_80", "sm_90a"]
    with pytest.raises(UsageError, match="no compiler here compiles for sm_999"):
        modules(saxpy, targets=("sm_999",))


@needs_cuda_wheels
def test_a_block_above_the_launch_bounds_is_left_out_with_a_note_or_refused(saxpy: str) -> None:
    named = kernels(modules(saxpy, block=(256, 1, 1)))
    assert named["saxpy"].shape.block == (256, 1, 1)
    bounded = named["void scale<float>(float*, float)"]
    assert bounded.shape.block is None
    assert bounded.notes == ("--block 256 is not applied: the code allows 128 threads per block",)
    with pytest.raises(UsageError, match="the code allows 128 threads"):
        modules(saxpy, block=(256, 1, 1), kernel="scale")


@needs_cuda_wheels
def test_cuda_headers_are_there_for_nvrtc(tmp_path: Path) -> None:
    source = tmp_path / "half.cu"
    source.write_text("#include <cuda_fp16.h>\n__global__ void twice(half* h) { h[threadIdx.x] *= half(2.0f); }\n")
    (module,) = modules(source, targets=("sm_80",))
    assert module.tools[0].startswith("NVRTC")
    assert set(kernels([module])) == {"twice(__half*)"}


@needs_cuda_wheels
@needs_nvcc
def test_what_needs_a_host_compiler_is_compiled_by_nvcc_with_the_kernels_that_it_launches(tmp_path: Path) -> None:
    source = tmp_path / "host.cu"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own.h").write_text("#define OFFSET 3\n")
    source.write_text(
        "#include <vector>\n#include <cuda_fp16.h>\n#include <own.h>\n"
        "template <class T> __global__ void k(T* out, float scale) { out[threadIdx.x] = T(scale + OFFSET + BIAS); }\n"
        "int main() { std::vector<float*> v(1); k<<<1, 32>>>(v[0], 1.0f); k<<<1, 32>>>((half*)nullptr, 1.0f); }\n"
    )
    (module,) = modules(source, targets=("sm_80",), defines=("BIAS=1",), folders=(str(tmp_path / "own"),))
    assert module.tools[0].startswith("nvcc ")
    assert "-lineinfo -DBIAS=1" in module.tools[0]
    named = kernels([module])
    assert set(named) == {"void k<float>(float*, float)", "void k<__half>(__half*, float)"}
    assert all(kernel.argument_names == ("out", "scale") for kernel in named.values())


CONCEPT = """\
template <class T> concept Small = sizeof(T) <= 4;
template <Small T> __global__ void fill(T* y) { y[threadIdx.x] = 1; }
template __global__ void fill<float>(float*);
"""


@needs_cuda_wheels
def test_what_only_newer_cpp_has_is_told_and_compiles_with_it(tmp_path: Path) -> None:
    source = tmp_path / "concept.cu"
    source.write_text(CONCEPT)
    with pytest.raises(InputError, match='"concept" is undefined') as refused:
        modules(source, targets=("sm_90",))
    assert refused.value.hint == "it compiles as C++20: --std c++20"
    (module,) = modules(source, targets=("sm_90",), standard="c++20")
    assert "--std=c++20 --generate-line-info" in module.tools[0]
    with pytest.raises(InputError, match='"concept" is undefined') as refused:
        modules(source, targets=("sm_90",), standard="c++14")
    assert refused.value.hint is None


@needs_cuda_wheels
def test_flags_reach_the_compiler_and_are_among_its_options(tmp_path: Path) -> None:
    """Division of floats calls a function for its slow path, unless -use_fast_math makes it approximate."""
    source = tmp_path / "divide.cu"
    source.write_text('extern "C" __global__ void divide(float* y, float by) { y[threadIdx.x] /= by; }\n')
    (exact,), (fast,) = (
        modules(source, targets=("sm_90",)),
        modules(source, targets=("sm_90",), flags=("-use_fast_math", "-maxrregcount=32")),
    )
    assert fast.tools[0].endswith("--generate-line-info -use_fast_math -maxrregcount=32")
    assert len(fast.kernels[0].kernel.code) < len(exact.kernels[0].kernel.code)


@needs_cuda_wheels
@each_row(
    ("flag", "said"),
    [
        ("-no-such-flag", "nvrtc: error: unrecognized option -no-such-flag found"),
        ("-maxrregcount=many", "expects an integer value"),
    ],
)
@each_row("has_nvcc", [True, False])
def test_a_flag_that_no_compiler_knows_ends_in_the_words_of_nvrtc(
    saxpy: str, monkeypatch: pytest.MonkeyPatch, flag: str, said: str, has_nvcc: bool
) -> None:
    if not has_nvcc:
        monkeypatch.setattr(sources, "nvcc_for", lambda _: None)
    with pytest.raises(UsageError, match=re.escape(said)) as refused:
        modules(saxpy, targets=("sm_90",), flags=(flag,))
    assert refused.value.hint is not None and "--flag=-maxrregcount=64" in refused.value.hint


@needs_cuda_wheels
@needs_nvcc
@each_row("flag", ["-ptx", "-dlto", "--dryrun", "--help"])
def test_a_flag_that_leaves_no_machine_code_is_refused(saxpy: str, flag: str) -> None:
    with pytest.raises(UsageError) as refused:
        modules(saxpy, targets=("sm_90",), flags=("-use_fast_math", flag))
    assert str(refused.value) == f"saxpy.cu: with --flag=-use_fast_math --flag={flag} no machine code is written"
    assert refused.value.hint is not None


@needs_cuda_wheels
@needs_nvcc
def test_a_flag_that_only_nvcc_knows_has_it_compile(tmp_path: Path) -> None:
    source = tmp_path / "lambda.cu"
    source.write_text(
        "template <class F> __global__ void k(F f, float* y) { *y = f(*y); }\n"
        "int main() { auto f = [] __device__(float x) { return x * 2; }; k<<<1, 32>>>(f, nullptr); }\n"
    )
    with pytest.raises(InputError, match="requires --extended-lambda") as refused:
        modules(source, targets=("sm_90",))
    assert refused.value.hint == "--flag=--extended-lambda"
    (module,) = modules(source, targets=("sm_90",), flags=("--extended-lambda",))
    assert module.tools[0].startswith("nvcc ") and "--extended-lambda" in module.tools[0]


@needs_cuda_wheels
def test_a_missing_header_has_two_ways_out(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("#include <own/tile.h>\n__global__ void k(float* y) { *y = 1; }\n")
    with pytest.raises(InputError, match=r"own/tile\.h") as refused:
        modules(source, targets=("sm_80",))
    assert (refused.value.hint or "").startswith(
        "-I DIR names the folder of own/tile.h; or compile it as your build does, with "
        "`nvcc -cubin -lineinfo -arch=sm_80 k.cu`, and check k.cubin"
    )


@each_row(
    "options",
    [{"defines": ("N=3",)}, {"standard": "c++20"}, {"flags": ("-use_fast_math",)}, {"folders": (".",)}],
)
def test_options_for_sources_are_refused_where_no_file_is_one(options: dict[str, Any]) -> None:
    cubin = next(iter(sorted(CACHE.glob("*/row_sums.cubin"))))
    for file in (cubin, CACHE):
        with pytest.raises(UsageError, match="none of the files is a source"):
            modules(file, **options)
    with pytest.raises(InputError, match="no such file"):
        modules("nowhere.cu", **options)


@needs_cuda_wheels
def test_options_for_sources_stand_where_one_of_the_files_is_one(saxpy: str) -> None:
    cubin = next(iter(sorted(CACHE.glob("*/row_sums.cubin"))))
    listed = modules(saxpy, cubin, targets=("sm_90",), standard="c++20")
    assert "c++20" in listed[0].tools[0]


@needs_cuda_wheels
def test_an_error_of_the_compiler_names_file_and_line(saxpy: str) -> None:
    Path(saxpy).write_text(SAXPY.replace("a * x[i]", "alpha * x[i]"))
    with pytest.raises(InputError, match=r'saxpy\.cu:4: error: identifier "alpha" is undefined'):
        modules(saxpy)


@needs_cuda_wheels
def test_without_nvcc_the_errors_are_those_of_nvrtc_and_the_hint_says_what_is_missing(
    saxpy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "nvcc_for", lambda _: None)
    monkeypatch.setattr(sources, "find_programs", lambda _: ())
    Path(saxpy).write_text("#include <vector>\n" + SAXPY)
    with pytest.raises(InputError, match=r"saxpy\.cu:1: .*vector") as refused:
        modules(saxpy)
    assert refused.value.hint is not None
    assert "nvidia-cuda-nvcc" in refused.value.hint


@needs_cuda_wheels
def test_templates_that_nothing_instantiates_are_told(tmp_path: Path) -> None:
    source = tmp_path / "template.cu"
    source.write_text("template <class T> __global__ void k(T* a) { a[0] = T(); }\n")
    with pytest.raises(InputError, match="nothing instantiates its templates"):
        modules(source)


@needs_cuda_wheels
def test_nothing_is_left_of_a_compilation_that_fails(emptied: Path, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    source.write_text("__global__ void k() { wrong; }\n")
    with pytest.raises(InputError):
        modules(source)
    assert list(emptied.iterdir()) == []


@needs_cuda_wheels
def test_an_option_that_nvrtc_refuses_is_told(emptied: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="--no-such-option"):
        compile_apart(find_nvrtc()[0], "", "k.cu", ["--no-such-option"])
    assert list(emptied.iterdir()) == []


def test_a_program_that_does_not_end_is_ended_with_what_it_started(emptied: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="did not finish within 0 s"), private_folder() as folder:
        run_in(folder, ["sh", "-c", f"sleep 60 & echo $! > {folder.parent.parent}/pid; wait"], 0.3)
    started = int((emptied.parent / "pid").read_text())
    deadline = time.monotonic() + 20
    while _runs(started) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(started)


@each_row("code", [0, 3])
def test_what_a_program_leaves_running_is_ended_with_it(emptied: Path, code: int) -> None:
    with private_folder() as folder:
        told = run_in(folder, ["sh", "-c", f"sleep 60 & echo $! > {emptied.parent}/pid; exit {code}"], 20)
    assert told.code == code
    started = int((emptied.parent / "pid").read_text())
    deadline = time.monotonic() + 20
    while _runs(started) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(started)


def test_a_program_gets_no_secrets_and_no_more_memory_than_it_may(
    emptied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_JOB_TOKEN", "secret-token")
    with private_folder() as folder:
        assert "secret-token" not in run_in(folder, ["env"], 20).said
        assert run_in(folder, ["sh", "-c", "ulimit -v; ulimit -c"], 20, 10**9).said == "976562\n0\n"
    with private_folder() as folder, pytest.raises(EnvironmentProblem, match="cannot be started"):
        run_in(folder, ["./none"], 20)


@each_row(
    "said",
    [
        "k.cu(1): error: x\nk.cu(1): catastrophic error: out of memory",
        "cc1plus: out of memory allocating 2147483664 bytes",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "ptxas fatal   : Memory allocation failure",
        "Traceback:\nMemoryError",
    ],
)
def test_a_compiler_without_memory_says_which_option_gives_more(emptied: Path, said: str) -> None:
    limits = CompileLimits(60, 3 * 10**9)
    with pytest.raises(LimitReached, match="more than 3 GB of memory") as caught, private_folder() as folder:
        compile_in(folder, ["sh", "-c", 'echo "$0"; exit 2', said], limits)
    assert caught.value.hint == "--compile-memory 6GB allows more"


def test_a_source_has_its_time_for_all_compilers_together(emptied: Path) -> None:
    limits = CompileLimits(0.4).begun()
    begun = time.monotonic()
    with private_folder() as folder:
        compile_in(folder, ["sleep", "0.2"], limits)
        with pytest.raises(LimitReached, match=r"longer than 0\.4 s") as caught:
            compile_in(folder, ["sleep", "20"], limits)
    assert time.monotonic() - begun < 10
    assert caught.value.hint == "--compile-timeout 0.8 allows more"


def macros(depth: int) -> str:
    """A source whose only expression has two to the power of this many terms."""
    lines = [f"#define A{number + 1} A{number} A{number}" for number in range(depth)]
    return "\n".join(["#define A0 a+", *lines, f'extern "C" __global__ void k(int *p, int a) {{ *p = A{depth} 0; }}'])


TEMPLATES = """
template <int N, int M> struct F { static const int v = F<N - 1, M * 2>::v + F<N - 1, M * 2 + 1>::v; };
template <int M> struct F<0, M> { static const int v = M; };
extern "C" __global__ void k(int *p) { *p = F<24, 1>::v; }
"""


@needs_cuda_wheels
@each_row(
    ("source", "options", "said"),
    [
        (macros(31), ("--compile-timeout", "2"), "longer than 2 s"),
        (TEMPLATES, ("--compile-memory", "300MB"), "more than 300 MB of memory"),
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
    assert f"error: bomb.cu: compiling takes {said}\nhint: {options[0]} " in done.stderr


@needs_nvcc
def test_the_compiler_of_a_host_has_the_same_limits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.h")
    (tmp_path / "waits.cu").write_text('#include <thread>\n#include "pipe.h"\n')
    done = gpuprof("check", "waits.cu", "--compile-timeout", "4", cwd=tmp_path)
    assert done.returncode == InputError.exit_code
    assert "waits.cu" in done.stderr


def test_limits_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "good.cu").write_text(SAXPY)
    for options in (("--compile-timeout", "0"), ("--compile-memory", "x"), ("--compile-memory", "1MB")):
        done = gpuprof("check", "good.cu", *options, cwd=tmp_path)
        assert done.returncode == UsageError.exit_code and options[0] in done.stderr


@needs_cuda_wheels
@each_row("included", ["../secret.txt", "linked.h"])
def test_messages_of_a_compiler_quote_no_file_that_is_not_the_sources(tmp_path: Path, included: str) -> None:
    place = tmp_path / "sources"
    place.mkdir()
    (tmp_path / "secret.txt").write_text("planted_secret\n")
    (place / "linked.h").symlink_to("../secret.txt")
    (place / "k.cu").write_text(f'#include "{included}"\n__global__ void k(char *a) {{ *a = 1; }}\n')
    done = gpuprof("check", "k.cu", "--arch", "sm_80", cwd=place)
    assert done.returncode == InputError.exit_code
    assert "k.cu" in done.stderr
    assert "planted_secret" not in done.stdout + done.stderr


@needs_cuda_wheels
def test_a_source_includes_headers_beside_its_folder(tmp_path: Path) -> None:
    for folder in ("common", "chapter"):
        (tmp_path / folder).mkdir()
    (tmp_path / "common/one.h").write_text("#define ONE 1\n")
    (tmp_path / "chapter/k.cu").write_text(
        '#include "../common/one.h"\nextern "C" __global__ void k(int *p) { *p = ONE; }\n'
    )
    done = gpuprof("check", "k.cu", "--arch", "sm_80", cwd=tmp_path / "chapter")
    assert done.returncode == 0, done.stderr


@needs_cuda_wheels
def test_a_line_of_another_file_shows_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("planted_secret\n" * 9)
    place = tmp_path / "sources"
    place.mkdir()
    kernel = (
        f'extern "C" __global__ void k(float *a) {{\n#line 2 "{tmp_path}/secret.txt"\na[threadIdx.x * 32] += %s;\n}}\n'
    )
    for right in ("1", "wrong"):
        (place / "k.cu").write_text(kernel % right)
        outputs = ("-o", f"{right}.html", "-o", f"{right}.json", "-o", f"{right}.md")
        done = gpuprof("check", "k.cu", "--arch", "sm_80", "-v", *outputs, cwd=place)
        assert done.returncode == (0 if right == "1" else InputError.exit_code)
        written = "".join(file.read_text() for file in place.iterdir() if file.suffix != ".cu")
        assert "planted_secret" not in done.stdout + done.stderr + written


def _runs(process: int) -> bool:
    """Whether it runs; one that has ended may wait for somebody to ask how."""
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2][:4]
    except OSError:
        return False


@needs_ptxas
def test_a_compiler_is_found_once_per_version_newest_first() -> None:
    versions = [tool.version for tool in find_programs("ptxas")]
    assert versions == sorted(set(versions), reverse=True)


def test_a_program_that_is_not_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "library_folders", lambda *_: iter(()))
    monkeypatch.setenv("PATH", os.devnull)
    programs.find_programs.cache_clear()
    assert find_programs("ptxas") == ()
    programs.find_programs.cache_clear()


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


@needs_ptxas
def test_ptx_is_compiled_for_its_own_target_with_its_own_lines_and_block(tmp_path: Path) -> None:
    source = tmp_path / "first.ptx"
    source.write_text(_PTX)
    (module,) = modules(source)
    kernel = kernels([module])["first"]
    assert (module.target, module.notes, kernel.shape.block) == ("sm_80", (), (64, 1, 1))
    assert kernel.lines is not None
    assert {file for file, _ in kernel.lines.values()} == {str(source)}
    assert {line for _, line in kernel.lines.values()} <= {7, 8, 10, 12, 13, 14, 15}
    assert 14 in {line for _, line in kernel.lines.values()}


@needs_ptxas
def test_naming_the_lines_of_ptx_changes_no_instruction() -> None:
    made = [compile_ptx(ptx, "sm_80", "k.ptx") for ptx in (_PTX.encode(), with_own_lines(_PTX.encode()))]
    plain, named = (read_cubin(compiled.cubin) for compiled in made if isinstance(compiled, Compiled))
    assert plain.kernels[0].code == named.kernels[0].code


@needs_ptxas
def test_ptx_for_a_chip_that_ptxas_no_longer_knows_is_compiled_for_the_next(tmp_path: Path) -> None:
    source = tmp_path / "old.ptx"
    source.write_text(_PTX.replace("sm_80", "sm_52"))
    (module,) = modules(source)
    assert module.notes == (f"{source}: compiled for {module.target}, since no ptxas here knows sm_52",)


@needs_ptxas
def test_ptx_for_one_chip_compiles_for_no_other(tmp_path: Path) -> None:
    source = tmp_path / "own.ptx"
    source.write_text(_PTX.replace("sm_80", "sm_90a"))
    with pytest.raises(InputError, match="PTX for sm_90a, which does not compile for sm_100") as refused:
        modules(source, targets=("sm_100",))
    assert (refused.value.hint or "").endswith("--arch sm_90a, or leave --arch out")


def test_ptx_for_a_newer_chip_than_is_asked_for_says_what_to_ask_for(tmp_path: Path) -> None:
    source = tmp_path / "new.ptx"
    source.write_text(_PTX.replace("sm_80", "sm_100"))
    with pytest.raises(InputError, match="PTX for sm_100, which does not compile for sm_90") as refused:
        modules(source, targets=("sm_90",))
    assert (refused.value.hint or "").endswith("--arch sm_100 or newer, or leave --arch out")


@needs_ptxas
def test_an_error_in_ptx_names_its_line(tmp_path: Path) -> None:
    source = tmp_path / "wrong.ptx"
    source.write_text(_PTX.replace("st.global.u32", "st.globe.u32"))
    with pytest.raises(InputError, match=r"wrong\.ptx:14: "):
        modules(source)


@each_row(
    ("parameters", "names"),
    [
        ("", ()),
        ("void", ()),
        ("int n, float* a", ("n", "a")),
        ("const float *__restrict__ in, float (&out)[4], int (*table)[8]", ("in", "out", "table")),
        ("std::array<int, 4> shape = {1, 2}, int n = f(1, 2)", ("shape", "n")),
        ("int, float*, unsigned int, const Foo", (None, None, None, None)),
        ("float* __restrict__, ns::Type, Type<int>", (None, None, None)),
        ("T... rest", (None,)),
        ("void (*call)(int, float), int m[]", ("call", "m")),
        ("const __grid_constant__ CUtensorMap map /* of a, b */, int n // , last\n", ("map", "n")),
    ],
)
def test_names_of_parameters_are_read_as_they_are_declared(parameters: str, names: tuple[str | None, ...]) -> None:
    assert argument_names(f"__global__ void k({parameters}) {{}}") == {"k": [names]}


@each_row(
    "declaration",
    [
        "__global__ void __launch_bounds__(256, 2) k(int n) {}",
        "template <class T, int N = (3 > 2)> __global__ __launch_bounds__(64) void k(int n);",
        'extern "C" __global__ __attribute__((used)) void k(int n) { g(1); h(2); }',
        "namespace a { static __global__ void k(int n) { } }",
        "template <> __global__ void k<float, 3>(int n) {}",
        "KERNEL_ATTRIBUTES(1) __global__ void OTHERS(2) k(int n) {}",
        "// __global__ void k(float* wrong)\n/* __global__ void k(float* wrong) */ __global__ void k(int n);",
        "#define DECLARE __global__ void k(float* wrong)\n__global__ void k(int n);",
        'const char* text = "__global__ void k(float* wrong)"; __global__ void k(int n);',
        "__global__ void k(int n);\n__global__ void k(int);",
    ],
)
def test_a_declaration_is_read_in_all_its_forms(declaration: str) -> None:
    assert names_for("void k<float>(int)", 1, argument_names(declaration)) == ("n",)


def test_names_are_unknown_rather_than_wrong() -> None:
    either = "#if A\n__global__ void k(int n) {}\n#else\n__global__ void k(int m) {}\n#endif"
    assert names_for("k(int)", 1, argument_names(either)) == (None,)
    assert names_for("k(int)", 1, argument_names("__global__ void k(PARAMETERS) {}")) == (None,)
    assert names_for("k(int, int)", 2, argument_names("__global__ void k(PARAMETERS) {}")) == ()
    assert names_for("k(int, int)", 2, argument_names("__global__ void k(int n, ...) {}")) == ("n", None)


@given(st.text(alphabet=st.sampled_from(list("__global__ void k(int a,<>{}[]=;\"'/*\n\\#&:.")), max_size=300))
def test_no_text_stops_the_reading_of_names(text: str) -> None:
    for listed in argument_names(f"__global__ {text}").values():
        assert all(isinstance(names, tuple) for names in listed)


def test_a_source_of_open_brackets_is_read_in_little_time() -> None:
    assert argument_names("__global__ void k(" * 3000) == {}
