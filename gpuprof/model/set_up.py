"""Kernels that only prepare data for others: random numbers, fills and first copies.

They are recognized by their names. Random numbers and fills are set-up at any time. A copy is set-
up only if it is launched before any other kernel, because later copies belong to the work. Kernels
that only warm the GPU up are also recognized by their names. Tries of an autotuner are among the
kernels of a session only if a report has nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from gpuprof.model.kernel_names import parse_name
from gpuprof.model.session import KernelProfile

AUTOTUNING_RANGE = "gpuprof: autotuning"
"""Range around the tries of Triton's and inductor's autotuners, which gpuprof opens when it annotates a program."""
_LIBRARIES = re.compile(
    # PyTorch (and OneFlow): rand, randn, randint, bernoulli; fill_, zeros, ones, full; arange,
    # linspace, eye.
    r"\bdistribution_(?:elementwise|nullary)|\bFillFunctor\b|\belementwise_kernel_with_index\b"
    # cuRAND, and the random numbers of JAX and TensorFlow, mangled, too.
    r"|\bgen_(?:sequenced|mtgp32)|\bgenerate_seed_pseudo|ThreeFry2x32Kernel|FillPhiloxRandomKernel"
    # CuPy and Julia.
    r"|\bcupy_(?:fill|random|arange|linspace)(?![a-z])|\bgpu_fill_kernel_?\b"
    # Thrust: fill, device_vector(n, value), sequence. Kokkos: deep_copy of a value, a new view.
    r"|\b__(?:uninitialized_)?fill::functor\b|\b(?:uninitialized_)?fill_functor<|\bcompute_sequence_value\b"
    r"|\bKokkos::Impl::View(?:Fill|ValueFunctor)<"
    # TensorFlow, MXNet, XGBoost, RAFT, CUTLASS.
    r"|\btensorflow::Set(?:Zero|ToValue)\b|\bset_to_int<|\bHostDeviceVectorImpl<[\w:]*>::Fill\("
    r"|\braft::random::(?:\w+::){0,9}(?:rngKernel|fillKernel)\b|\bTensorFill\w*Func\b|\bRandom(?:Uniform|Gaussian)Func\b"
)
_OWN = re.compile(
    # Whole names that programs give such a kernel, without a namespace, because functions of
    # libraries in one are part of something else; `setup_kernel` is from cuRAND's manual.
    r"(?:gpu_?|cuda_?|d_?)?(?:memset|set_?zeros?|zero_?fill|fill|init|initiali[sz]e|(?:init_?|fill_?|set_?up_?)?curand"
    r"|set_?up|(?:fill_?|init_?|initiali[sz]e_?|generate_?|set_?up_?)(?:with_?)?(?:random|rand|rng|ones|zeros?)"
    r"|random_?(?:init|fill)|rng_?(?:init|set_?up))"
    r"(?:_?(?:kernels?|arrays?|data|matrix|matrices|vectors?|random|rand|rng|curand|states?|seeds?|buffers?|gpu|cuda"
    r"|constant|values?|zeros?|ones|inputs?|numbers?|float|int|double|half|1d|2d|3d))*_?",
    re.IGNORECASE,
)
_WARM_UP = re.compile(
    r"(?:gpu_?|cuda_?|device_?)?warm(?:ing|s)?_?up(?:_?(?:kernels?|gpu|cuda|device))?_?", re.IGNORECASE
)
_COPIES = re.compile(
    r"\bdirect_copy_kernel|\bcopy_device_to_device\b|\bb?float(?:8|16)_copy_kernel|\bcupy_copy(?![a-z])"
    r"|\bCopyFunctor<|\b__copy::functor\b|\bcuda_cub::__transform::unary_transform_f<.{0,200}\bidentity\b"
    # A cast that inductor does not fuse with anything.
    r"|\btriton_\w{2,4}_fused__to_copy_\d"
)
_NO_SET_UP = frozenset({"init", "set_up", "setup"})
"""Names that are too general to show set-up."""


Role = Literal["data", "warm-up", "try"]
"""Purpose of a kernel that does no work: make data, warm the GPU up, or autotune."""


def set_up_kernels(kernels: Sequence[KernelProfile]) -> frozenset[int]:
    """Return the ids of the kernels that only prepare data for others."""
    making = set[int]()
    working = list[int]()
    for kernel in kernels:
        if _role(kernel) is not None:
            making.add(kernel.id)
        elif not _is_copy(kernel):
            working.append(kernel.id)
    # If there are only copies, the user asked about them.
    if making or working:
        first = min(working, default=math.inf)
        making.update(kernel.id for kernel in kernels if kernel.id < first)
    return frozenset(making)


def roles_of(kernels: Iterable[KernelProfile]) -> frozenset[Role]:
    """Return the purposes of kernels that only set up; copies make data."""
    return frozenset(_role(kernel) or "data" for kernel in kernels)


def _role(kernel: KernelProfile) -> Role | None:
    if any(AUTOTUNING_RANGE in name for name in kernel.ranges):
        return "try"
    if _warms_up(kernel.name):
        return "warm-up"
    return "data" if makes_data(kernel) else None


@lru_cache(maxsize=1 << 16)
def _warms_up(name: str) -> bool:
    parsed = parse_name(name)
    return not parsed.scopes and _WARM_UP.fullmatch(parsed.base) is not None


def makes_data(kernel: KernelProfile) -> bool:
    """Return whether a kernel makes random numbers or fills, by its name."""
    return _makes_data(kernel.name) or _makes_data(kernel.demangled)


@lru_cache(maxsize=1 << 16)
def _makes_data(name: str) -> bool:
    if _LIBRARIES.search(name):
        return True
    parsed = parse_name(name)
    return not parsed.scopes and parsed.base.lower() not in _NO_SET_UP and _OWN.fullmatch(parsed.base) is not None


def _is_copy(kernel: KernelProfile) -> bool:
    """Return whether a kernel is a single launch that copies, and not a group of launches."""
    return kernel.launches == 1 and _COPIES.search(kernel.demangled) is not None
