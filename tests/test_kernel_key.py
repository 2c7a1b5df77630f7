"""One kernel under the names that different tools give it."""

from __future__ import annotations

import re

from hypothesis import given, settings

from gpuprof.collect.name_filter import by_name
from gpuprof.model.kernel_key import kernel_key
from tests.kernel_name_corpus import MADE_UP, Names, of_libraries
from tests.table import each_row

PAIRS = (
    ("mathKernel1(float*)", "mathKernel1(float *)"),
    ("kernel_C(double*, double const*, int)", "kernel_C(double *, const double *, int)"),
    ("void gmem<32>(int, float const*, float*)", "void gmem<(int)32>(int, const float *, float *)"),
    ("void f<true, 4ul, false>(int)", "void f<(bool)1, (unsigned long)4, (bool)0>(T1)"),
    ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
    (
        "void k<run(Config)::{lambda(Member const&)#5}, P<Q> >()",
        "void k<run(Config)::[lambda(const Member &) (instance 5)], P<Q>>()",
    ),
    (
        "void at::native::(anonymous namespace)::g<float, at::normal<c10::Half, 4ul>(double)::{lambda()#2}>(long)",
        "void at::native::<unnamed>::g<float, void at::normal<c10::Half, (unsigned long)4>(T1)::"
        "[lambda() (instance 2)]>(T2)",
    ),
)
"""A name as C++ libraries write it, and as NVIDIA's tools do."""


@each_row(("library", "nvidia"), PAIRS)
def test_a_kernel_has_one_key_under_both_names_and_its_expression_finds_it(library: str, nvidia: str) -> None:
    assert kernel_key(library) == kernel_key(nvidia)
    assert re.search(by_name([library]).expression, nvidia)


@each_row(("one", "other"), [
    ("f(float*)", "f(double*)"), ("void f<1>(T1)", "void f<2>(T1)"),
    ("void f<a::{lambda()#1}>()", "void f<a::{lambda()#2}>()"), ("a::f()", "b::f()"),
    ("void f<float, 1>()", "void f<1, float>()"),
])  # fmt: skip
def test_different_kernels_have_different_keys(one: str, other: str) -> None:
    assert kernel_key(one) != kernel_key(other)


def test_real_kernels_of_libraries_have_one_key_under_all_names() -> None:
    for kernel in of_libraries():
        if not kernel.library.startswith("_Z"):
            assert kernel_key(kernel.library) == kernel_key(kernel.nvidia)
    assert len({kernel_key(kernel.nvidia) for kernel in of_libraries()}) == len(of_libraries())


@given(MADE_UP)
@settings(max_examples=15)
def test_kernels_that_are_made_up_have_one_key_too(kernel: Names) -> None:
    assert kernel_key(kernel.library) == kernel_key(kernel.nvidia)


def test_a_name_may_be_nested_as_deep_as_it_likes() -> None:
    deep = f"void f{'<a' * 3000}{'>' * 3000}()"
    assert kernel_key(deep) == kernel_key(f" {deep}")
    # Types of one's own may be called as templates name theirs, and a symbol is its own key.
    assert kernel_key("f(a::T1)") != kernel_key("f(a::T2)") and kernel_key("k(T3)") != kernel_key("k(T4)")
    symbol = "_ZN7cutlass7Kernel2INS_4GemmEEEvT_"
    assert kernel_key(symbol) == symbol
