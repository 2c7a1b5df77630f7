"""What is planned by one name is found under the names that ncu of 2022 to 2026 compares: a corpus of real kernels."""

from __future__ import annotations

import random
import re
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuprof.collect.name_filter import LONGEST, by_name, by_symbol
from gpuprof.collect.name_pieces import as_ncu_may_write
from tests.kernel_name_corpus import MADE_UP, Names, library_name, of_libraries, renamed
from tests.readings import report_of
from tests.table import each_row

H100 = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"
GEMV = (
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, "
    "__nv_bfloat16, float, false, true, true, false, 6, false, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched"
    "<__nv_bfloat16 const>, cublasGemvTensorStridedBatched<__nv_bfloat16 const>, cublasGemvTensorStridedBatched"
    "<__nv_bfloat16>, float> >(cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<__nv_bfloat16 const>, "
    "cublasGemvTensorStridedBatched<__nv_bfloat16 const>, cublasGemvTensorStridedBatched<__nv_bfloat16>, float>)"
)


def finds(source: str, name: str) -> bool:
    return re.search(by_name([source]).expression, name) is not None


def test_kernels_of_pytorch_and_others_are_found_under_every_name() -> None:
    assert len(of_libraries()) > 290
    for kernel in of_libraries():
        for source in {kernel.library, kernel.nvidia}:
            assert finds(source, kernel.nvidia)
            assert finds(source, kernel.renamed)
            assert source.startswith("_Z") or finds(source, source)
        assert re.search(by_symbol([kernel.symbol]).expression, kernel.symbol)


def test_a_name_that_was_cut_off_finds_the_kernel() -> None:
    chosen = random.Random(1)
    for kernel in of_libraries():
        if not kernel.library.startswith("_Z"):
            length = chosen.randrange(8, len(kernel.library))
            for cut in (kernel.library[:length], f"{kernel.library[:length]}..."):
                assert finds(cut, kernel.nvidia), cut
    assert finds("...", "nothing_is_left()")


@settings(max_examples=40)
@given(MADE_UP)
@example(Names("", "void a<const <unnamed>::b *>(T1, int)", "void a<(anonymous namespace)::b const*>(int*, int)"))
def test_kernels_that_are_made_up_are_found_too(kernel: Names) -> None:
    for source in (kernel.library, kernel.nvidia):
        for name in (kernel.library, kernel.nvidia, kernel.renamed):
            assert finds(source, name)


def test_every_kernel_of_our_own_reports_is_found() -> None:
    files = (H100 / "graphs" / "node.ncu-rep", H100 / "names-of-templates" / "every.ncu-rep")
    launches = [launch for file in files for launch in report_of(file)]
    names = {launch.mangled: launch.demangled for launch in launches if launch.mangled is not None}
    assert len(names) >= 6
    for symbol, nvidia in names.items():
        for source in (library_name(symbol), nvidia):
            assert finds(source, nvidia) and finds(source, renamed(nvidia))
    assert finds("void f<-2>(float*)", "void f<(int)-2>(T1 *)")
    assert not finds("void f<-2>(float*)", "void f<(int)2>(T1 *)")


def test_other_kernels_of_a_template_stay_out() -> None:
    library = "void at::native::f<4, a::B<float> >(int)"
    for other in (
        "void at::native::f<(int)5, a::B<float>>(int)", "void at::native::f<(int)4, a::B<double>>(int)",
        "void at::native::g<(int)4, a::B<float>>(int)", "f", "void at::native::f<(int)14, a::B<float>>(int)",
    ):  # fmt: skip
        assert not finds(library, other)
    assert not finds("triton_poi_0", "triton_poi_01") and not finds("triton_poi_0", "xtriton_poi_0")


def many(number: int) -> list[str]:
    """Names with much in common and their difference late."""
    return [f"void space::kernel<{'x' * 120}<{one % 7}>, {one}>(int)" for one in range(number)]


NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@each_row(
    "wanted",
    [
        [GEMV, *many(200)], ["_Z6KernelI4GemmEvT_", "_Z6KernelIfEvT_"],
        [kernel.library for kernel in of_libraries()] * 2, ["void (anonymous namespace)::f<1>(int)", GEMV],
    ],
)  # fmt: skip
def test_a_kernel_that_would_hang_never_comes(wanted: list[str]) -> None:
    made = by_name(wanted, never=[NCCL])
    assert not re.search(made.expression, NCCL) and len(made.expression) <= LONGEST + 4


@settings(max_examples=40)
@given(st.sets(st.sampled_from(of_libraries()), min_size=2, max_size=120), st.integers(1, 60))
def test_what_must_not_come_does_not_whatever_is_wanted(chosen: set[Names], number: int) -> None:
    wanted, never = sorted(chosen)[number % len(chosen) :], sorted(chosen)[: number % len(chosen)]
    named = by_name([one.library for one in wanted], never=[one.library for one in never])
    assert not any(re.search(named.expression, one.library) for one in never)
    symbols = by_symbol([one.symbol for one in wanted], never=[one.symbol for one in never])
    assert not any(re.search(symbols.expression, one.symbol) for one in never)


def test_an_expression_has_nothing_that_dialects_read_differently() -> None:
    odd = "void k<a::b$.c, (x)1>(float\\*) [clone .1] \u4e2d"
    for made in (by_name([odd, *(kernel.library for kernel in of_libraries())]), by_symbol(["_Z1$a.x", "\\E"])):
        assert re.fullmatch(r"[\w .*?|()>,^$-]*", made.expression, re.ASCII)
        assert "^" not in made.expression[1:] and not re.search(r"\$(?![|)]|$)", made.expression)
    assert as_ncu_may_write("a$b.c") == "a.b.c$"
