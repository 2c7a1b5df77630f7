"""Kernel labels: what an engineer calls each family, uniqueness, and names that mean harm."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from gpuprof.model.labels import MAX_WIDTH, label_kernels, launch_labels, short_name
from tests.table import each_row


def _label(name: str) -> str:
    return label_kernels([name])[0]


_COPY = "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
_FLASH_TRAITS = "Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4, (bool)0, (bool)0, cutlass::half_t>"
_THRUST = "thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust::cuda_cub::__transform"
_SM90 = "cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4, cute::tuple<cute::C<2>, cute::C<1>, cute::C<1>>, X>"

LABELS = [
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, A<char*, 1>>(int, T2)",
        "vectorized_elementwise fill float",
    ),
    (
        "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
        "at::native::sum_functor<float, float, float>::operator()(I&)::{lambda(float, float)#1}>, int> >(R)",
        "reduce sum float",
    ),
    (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, "
        f"cutlass::gemm::CollectiveMma<{_SM90}, cute::tuple<cute::C<64>, cute::C<128>, cute::C<64>>, "
        "cutlass::bfloat16_t>, cutlass::gemm::KernelTmaWarpSpecializedPingpong>>(T1::Params)",
        "cutlass GemmUniversal 64x128x64 bf16 pingpong",
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_"
        "execute_segment_k_off_kernel__5x_cublas",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_128x128x64",
    ),
    ("triton_poi_fused_add_mul_3", "triton_poi_fused_add_mul_3"),
    ("_fwd_kernel_0d1d2d3c4", "_fwd_kernel"),
    ("scan_0d", "scan_0d"),
    (
        f"void pytorch_flash::flash_fwd_kernel<{_FLASH_TRAITS}, false, true, false>(P)",
        "flash_fwd hdim128 128x64 fp16 causal",
    ),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(Args<4096>)", "nccl AllReduce Sum f32 RING_LL"),
    (
        "void Kokkos::Impl::cuda_parallel_launch_constant_memory<Kokkos::Impl::ParallelFor<"
        "collocate(Config)::[lambda(const Member &) (instance 5)], Kokkos::TeamPolicy<Kokkos::Cuda>>>()",
        "Kokkos ParallelFor collocate::lambda#5",
    ),
    (
        f"void thrust::cuda_cub::core::_kernel_agent<{_THRUST}::unary_transform_f<float*, float*, "
        "thrust::no_stencil_tag, saxpy_functor>, long>>(long)",
        "thrust ParallelFor transform saxpy_functor float",
    ),
    ("julia_bb_4477(CuDeviceArray<Int8x4, (int)1, (int)1>)", "julia_bb_4477"),
    ("cudapy::__main__::add_kernel[abi:v1][abi:cw51](Array<float, (int)1, C>)", "add_kernel"),
    ("Foo<int>::operator()(int) const", "Foo::operator()"),
    ("void launch<256, main::{lambda(int)#2}>(int)", "launch<256, main::lambda#2>"),
]


@each_row(("name", "label"), LABELS)
def test_kernel_is_called_what_its_author_or_its_library_calls_it(name: str, label: str) -> None:
    assert _label(name) == label


SPLIT = "void splitKreduce_kernel<32, 16, int, float, float, float, float, true, {}, false>(P<T6>, const T4*)"
NORM = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, {}, true, 1, true>(cudnnTensorStruct)"


@each_row(
    ("names", "labels"),
    [
        (["axpy(float*, int)", "axpy(double*, int)"], ("axpy(float*, int)", "axpy(double*, int)")),
        (["b(int)", "a(int)", "b(int)"], ("b", "a", "b")),
        (["_fwd_0d1d2c", "_fwd_0d1d2"], ("_fwd_0d1d2c", "_fwd_0d1d2")),
        (["f\x00", "f\x01", "f\x02"], ("f�", "f�#2", "f�#3")),
        (["bad\x1b[31m\x07\u202eevil"], ("bad�[31m��evil",)),
        ([SPLIT.format("false"), SPLIT.format("true")],
         ("cublas splitKreduce float <false>", "cublas splitKreduce float <true>")),
        ([NORM.format(512), NORM.format(32)],
         ("cudnn bn_fw_tr_1C11_kernel_NCHW<float×2, int, …, 512>",
          "cudnn bn_fw_tr_1C11_kernel_NCHW<float×2, int, …, 32>")),
        (["volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"],
         ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",)),
    ],
)  # fmt: skip
def test_equal_labels_are_told_apart_by_what_differs_first(names: list[str], labels: tuple[str, ...]) -> None:
    assert label_kernels(names) == labels


def test_hint_shared_by_all_launches_names_a_kernel_that_says_nothing() -> None:
    hints = [("step", "conv1"), ("step", "conv1"), ("step", "update")]
    labels = launch_labels(["Kernel", "Kernel", "saxpy"], hints)
    assert labels == (("Kernel @conv1", ""), ("Kernel @conv1", ""), ("saxpy", ""))
    assert launch_labels(["Kernel", "Kernel"], [("conv1",), ("conv2",)]) == (("Kernel", ""), ("Kernel", ""))


def test_fused_kernels_that_differ_in_their_number_are_one_function_under_labels_of_their_own() -> None:
    names = [
        "triton_poi_fused_add_mul_3", "triton_poi_fused_add_mul_12", "triton_per_fused_add_mul_4",
        "triton_poi_fused_add_mul_5_0d1d2de3", "triton_poi_fused_0", "triton_poi_fused_1", "sgemm_3", "sgemm_4",
    ]  # fmt: skip
    labels = launch_labels(names, [()] * len(names))
    assert [label for label, _ in labels] == [*names[:3], "triton_poi_fused_add_mul_5", *names[4:]]
    one = "triton_poi_fused_add_mul"
    # A number that distinguishes nothing stays, and so does one that is all of the name.
    assert [function for _, function in labels] == [one, one, "", one, "", "", "", ""]


def test_kernels_of_xla_that_differ_in_their_number_are_one_function() -> None:
    names = [
        "loop_add_fusion_3",
        "loop_add_fusion",
        "loop_add_fusion_12",
        "input_reduce_fusion_1",
        "fusion_4",
        "fusion_5",
    ]
    found = launch_labels(names, [()] * len(names))
    assert [function or label for label, function in found] == [
        "loop_add_fusion", "loop_add_fusion", "loop_add_fusion", "input_reduce_fusion_1", "fusion_4", "fusion_5",
    ]  # fmt: skip
    assert [label for label, _ in found] == names


def test_specialisations_of_one_fused_kernel_keep_its_number_and_are_two_functions() -> None:
    names = ["triton_poi_fused_add_3_0d1d2d", "triton_poi_fused_add_3_0d1d2de3"]
    assert launch_labels(names, [(), ()]) == tuple((name, "") for name in names)


@each_row("name", ["<" * 20_000, "a<" * 20_000, "(a" * 20_000, "[" * 20_000, "{lambda" * 9_000, "a<b>::" * 8_000])
def test_unbalanced_brackets_of_any_depth_give_a_label(name: str) -> None:
    assert 0 < len(_label(name)) <= MAX_WIDTH


_FRAGMENTS = st.sampled_from(
    [
        "void ", "at::native::", "reduce_kernel", "cutlass::Kernel", "thrust::", "Kokkos::", "<", ">", "(", ")", "[",
        "]", "kernel", "::", ", ", "*", " ", "#2", "[lambda(int) (instance 1)]", "{lambda()#2}", "'lambda1'",
        "<unnamed>::", "(anonymous namespace)::", "operator()", "operator<<", "GemmShape<128, 64, 32>",
        "__nv_dl_wrapper_t", "__nv_dl_tag", "Flash_fwd_kernel_traits", "flash_fwd_kernel", "__transform::", "float",
        "unsigned int", "(bool)1", "4ul", "-1", "ncclKernel_", "_Z9", "OpaqueType<4>", "integer_subbyte<4, true>",
        "\x1b[0m", "\u202e",
    ]
)  # fmt: skip
_NAMES = st.one_of(st.lists(_FRAGMENTS, max_size=25).map("".join), st.text(max_size=200))


@given(st.lists(_NAMES, max_size=30))
def test_different_names_have_different_short_harmless_labels(names: list[str]) -> None:
    labels = label_kernels(names)
    assert labels == label_kernels(names)
    assert len(set(zip(names, labels, strict=True))) == len(set(names)) == len(set(labels))
    for label in labels:
        assert 0 < len(label) <= MAX_WIDTH
        assert not {unicodedata.category(character) for character in label} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(_NAMES)
def test_any_text_has_a_short_name(name: str) -> None:
    assert short_name(name)
