"""Which kernels only set up data for others, by names as frameworks and programs give them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuprof.model.session import KernelProfile
from gpuprof.model.set_up import AUTOTUNING_RANGE as RANGE
from gpuprof.model.set_up import makes_data, roles_of, set_up_kernels
from tests import hand_made
from tests.kernel_name_corpus import of_libraries
from tests.table import each_row

MAKES_DATA = [
    # PyTorch's rand, randn and zeros, as ncu, PyTorch's traces and ncu with --rename-kernels name them.
    "void at::native::<unnamed>::distribution_elementwise_grid_stride_kernel<float, (int)4, void "
    "at::native::templates::cuda::normal_and_transform<c10::Half, float, (unsigned long)4, at::CUDAGeneratorImpl *>>()",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1> >"
    "(int, at::native::FillFunctor<float>, at::detail::Array<char*, 1>)",
    "void vectorized_elementwise_kernel<4, FillFunctor<float>, array<char *, 1>>(int, T2, T3)",
    # cuRAND.
    "void gen_sequenced<curandStateXORWOW, float, int, &(curand_uniform_noargs)>(T1 *, T2 *, unsigned long, T3)",
    "void generate_seed_pseudo<rng_config<curandStateXORWOW, (curandOrdering)101>>(unsigned long long)",
    # JAX, TensorFlow (mangled, too), CuPy, Julia.
    "jax::cuda::(anonymous namespace)::ThreeFry2x32Kernel(unsigned int const*, unsigned int const*)",
    "_ZN10tensorflow7functor28FillPhiloxRandomKernelLaunchINS_6random19UniformDistributionINS2_12PhiloxRandomEfEEEEvPKy",
    "void tensorflow::SetZero<float>(int, float*)",
    "cupy_fill",
    "cupy_random_1_minus_x",
    # Thrust, Kokkos, CUTLASS.
    "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<"
    "thrust::cuda_cub::__uninitialized_fill::functor<thrust::device_ptr<float>, float>, unsigned long>>()",
    "void Kokkos::Impl::cuda_parallel_launch_local_memory<Kokkos::Impl::ParallelFor<Kokkos::Impl::ViewFill<"
    "Kokkos::View<double*>, Kokkos::LayoutRight, Kokkos::Cuda, 1, int>>>()",
    "void cutlass::reference::device::kernel::BlockForEach<float, "
    "cutlass::reference::device::detail::RandomUniformFunc<float>>(T1 *, unsigned long)",
    # Programs' own.
    "fill_kernel(int,float,float*,int)",
    "fill_kernel",
    "setup_kernel(curandState *)",
    "initKernel(float*, int)",
    "initRandomStates(curandState*, unsigned long)",
    "memset_kernel",
    "init_curand",
]
WORKS = [
    "init_flash(float*)",
    "init",
    "set_halo_values_x_396_gpu",
    "fill_holes_kernel(float*)",
    "copy_if(int*, int*)",
    "embedding_dense_backward(float*)",
    "initialize_and_integrate",
    "monte_carlo_rng_pi",
    "void at::native::<unnamed>::fused_dropout_kernel<c10::Half, float, unsigned int, (int)-1, (int)1, bool>()",
    "void at::native::<unnamed>::masked_fill_kernel(at::TensorIterator &)",
    "void at::native::_scatter_gather_elementwise_kernel<(int)128, (int)8, void "
    "at::native::_cuda_scatter_fill_internal_kernel<unsigned char, int>>(int, T3)",
    "void at::native::<unnamed>::sampleMultinomialWithReplacement<float>(at::PhiloxCudaState, int, long *, long)",
    "void at::native::<unnamed>::CatArrayBatchedCopy<float, unsigned int, 1, 128, 1>(float*)",
    "softmax_warp_forward",
    "layernorm_kernel",
    "ReferenceGemm_kernel(int)",
    "data_kernel",
    "",
]


def kernel(name: str, number: int = 0, launches: int = 1) -> KernelProfile:
    return hand_made.kernel(number, name=name, demangled=name, launches=launches)


def test_random_numbers_and_fills_are_set_up_and_what_computes_is_not() -> None:
    assert [name for name in MAKES_DATA if not makes_data(kernel(name))] == []
    assert [name for name in WORKS if makes_data(kernel(name))] == []


CAST, FUSED = "triton_poi_fused__to_copy_0", "triton_poi_fused__to_copy_mul_0"


def test_of_three_libraries_kernels_only_fills_random_numbers_and_ranges_are_set_up() -> None:
    making = {names.nvidia for names in of_libraries() if makes_data(kernel(names.nvidia))}
    marks = ("FillFunctor", "distribution_elementwise", "elementwise_kernel_with_index", "__fill::functor", "::Fill(")
    assert making and all(any(mark in name for mark in marks) for name in making)
    missed = [names.nvidia for names in of_libraries() if names.nvidia not in making]
    assert not any(mark in name for mark in marks for name in missed)


COPY = "void at::native::elementwise_kernel<(int)128, (int)2, at::native::direct_copy_kernel_cuda()::[lambda()]>(int)"


@each_row(
    ("names", "set_up"),
    [
        # A copy is set-up before the work and among nothing but set-up.
        ((COPY, "fill_kernel", "gemm", COPY), {0, 1}),
        (("fill_kernel", COPY), {0, 1}),
        (("fill_kernel", CAST), {0, 1}),
        # A copy alone is what was asked about; a cast that is fused with other work is work.
        ((COPY,), set()),
        ((COPY, COPY), set()),
        ((FUSED, "gemm"), set()),
        *(
            ((name, "mathKernel1"), set())
            for name in ("warm_start_solver", "swarm_update", "warp_up", "global_warming_up_model")
        ),
    ],
)
def test_a_copy_is_set_up_only_before_the_work(names: tuple[str, ...], set_up: set[int]) -> None:
    assert set_up_kernels([kernel(name, number) for number, name in enumerate(names)]) == set_up
    # One that is launched again and again is work.
    assert set_up_kernels([kernel(COPY, 0, launches=12), kernel("gemm", 1)]) == frozenset()


@each_row("name", ["warmingUp", "warmup", "warm_up_gpu", "warmup_kernel", "gpuWarmUp", "cuda_warmup"])
def test_what_warms_the_gpu_up_is_set_up(name: str) -> None:
    run = [kernel(f"{name}(float *)", 0), kernel("mathKernel1(float *)", 1)]
    assert set_up_kernels(run) == {0} and roles_of(run[:1]) == {"warm-up"}


def test_tries_that_a_session_is_made_of_are_set_up() -> None:
    tries = [hand_made.kernel(number, name="matmul", demangled="matmul", ranges=(RANGE,)) for number in (0, 1)]
    assert set_up_kernels(tries) == {0, 1} and roles_of(tries) == {"try"}
    assert roles_of([*tries, kernel("fill_kernel", 2)]) == {"try", "data"}


@given(st.text(max_size=60))
def test_any_name_is_judged(name: str) -> None:
    assert makes_data(kernel(name)) in (True, False)


def test_a_very_long_name_is_judged_at_once() -> None:
    assert not makes_data(kernel("init_" * 20_000 + "x"))
    assert not makes_data(kernel("cuda_cub::__transform::unary_transform_f<" * 2_000))
    assert not makes_data(kernel("raft::random::" * 2_000))
