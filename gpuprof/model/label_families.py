"""The families of kernels and how each words its labels; a kernel of no family is called by its own name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from gpuprof.model.kernel_names import KernelName, without_specialisation
from gpuprof.model.label_torch import TORCH_CARRIERS, torch_elementwise, torch_multi_tensor
from gpuprof.model.name_tree import Part, Type, walk
from gpuprof.model.type_words import (
    callable_name,
    dtype_of,
    first_dtype,
    first_value_dtype,
    is_constant,
    is_value,
    joined,
    short,
)

TARGET_WIDTH = 48
"""What labels aim at, in characters; `labels.MAX_WIDTH` is what none exceeds."""
SAYS_NOTHING = frozenset(
    {"kernel", "Kernel", "Kernel2", "globalKernel", "device_kernel", "main_kernel", "run", *TORCH_CARRIERS}
)
"""Names that many kernels share."""

_ELLIPSIS = "…"
_MAX_ARGUMENTS = TARGET_WIDTH // 3  # each takes a character and `, `
_INNER_SCOPES = frozenset({"impl", "detail", "internal", "operator()"})
_LIBRARIES = {
    **dict.fromkeys(("cudnn", "cask_cudnn", "cask_cudnn_infer", "cask_cudnn_train"), "cudnn"),
    **dict.fromkeys(("cublas", "cublasLt"), "cublas"),
    **{name: name for name in ("cusparse", "cusolver", "cufft", "cutlass", "raft", "cudf", "faiss", "amrex")},
    **{name: name for name in ("vllm", "flashinfer", "tensorrt_llm", "deep_gemm", "xformers")},
}


def worded(name: KernelName) -> str:
    """Return the words of the first family that knows the name."""
    if name.plain:
        return _nccl(name) or _identifier(name.text)
    return next((label for family in _FAMILIES if (label := family(name))), "") or _generic(name)


def _nccl(name: KernelName) -> str:
    prefix = re.match(r"ncclDev(?:Kernel|Func)_|ncclKernel_", name.base)
    if not prefix:
        return ""
    return joined("nccl", re.sub(r"_(?!LL|SIMPLE)", " ", name.base[prefix.end() :]))


def _identifier(text: str) -> str:
    """Return a name without brackets and without its constant words: Triton's digits, cuDNN's and XMMA's."""
    text = without_specialisation(text) or text
    text = re.sub(r"\Acudnn_(?:infer|train)_(?=.)", "", text)
    if len(text) > TARGET_WIDTH and "_xmma_" in text:
        text = re.sub(r"_execute_(?:segment_k_off_)?kernel.*", "", text, flags=re.DOTALL)
        text = re.sub(r"_(?:warpsize|warpgroupsize)\d+x\d+x\d+|(?<=_)tilesize", "", text)
    return text


def _flash_attention(name: KernelName) -> str:
    if not name.base.startswith("flash_"):
        return ""
    traits = next((part for part in walk(name.args) if "_kernel_traits" in part.name), None)
    if traits is None or len(traits.args or []) < 3:
        return ""
    head_dim, block_m, block_n = (short(arg) for arg in (traits.args or [])[:3])
    causal_position = 1 if "splitkv" in name.base else 2
    flags = [short(arg) for arg in name.args]
    causal = "causal" if flags[causal_position : causal_position + 1] == ["true"] else ""
    head = re.sub(r"_kernel\Z|_loop_seqk_parallel_kernel\Z", "", name.base)
    return joined(head, f"hdim{head_dim}", f"{block_m}x{block_n}", first_dtype(name.args), causal)


def _cutlass(name: KernelName) -> str:
    """Word `cutlass::Kernel<…>` and `device_kernel<…>` by the kernel in it, its tile, types and schedule."""
    if name.base not in {"Kernel", "Kernel2", "device_kernel"} or not name.args:
        return ""
    inner = name.args[0]
    while inner.parts[-1].name.startswith("enable_") and inner.parts[-1].args:
        inner = inner.parts[-1].args[0]
    part = inner.parts[-1]
    if not any(component.args for component in inner.parts):
        return _identifier(part.name)
    schedule = _cutlass_schedule([inner])
    return joined("cutlass", part.name, _cutlass_tile([inner]), first_value_dtype([inner]), schedule)


def _cutlass_tile(types: list[Type]) -> str:
    """Return the thread block's tile: the first `GemmShape`, or CuTe triple too large for a cluster."""
    for part in walk(types):
        if part.name in {"GemmShape", "tuple"} and part.args and len(part.args) == 3:
            sizes = [_constant_size(arg) for arg in part.args]
            if part.name == "GemmShape" or min(sizes) >= 8:
                return "x".join(str(size) for size in sizes)
    return ""


def _constant_size(a_type: Type) -> int:
    """Return the number of `128` or `cute::C<128>`, or 0."""
    part = a_type.parts[-1]
    word = part.args[0].parts[-1].name if part.name == "C" and part.args else part.name
    return int(word) if word.isdecimal() and len(word) < 10 else 0


def _cutlass_schedule(types: list[Type]) -> str:
    for part in walk(types):
        if schedule := re.search(r"Pingpong|Cooperative", part.name):
            return schedule.group().lower()
    return ""


def _cublas(name: KernelName) -> str:
    """Word cuBLAS's GEMV, whose function is called `kernel`, and its split-K reduction."""
    if name.base == "splitKreduce_kernel":
        return joined("cublas splitKreduce", first_value_dtype(name.args))
    scope = name.scopes[-1].name if name.scopes else ""
    if name.base != "kernel" and not name.base.startswith("gemv"):
        return ""
    if not scope.startswith("gemv") and all(not part.name.startswith("cublasGemv") for part in walk(name.args)):
        return ""
    if name.base != "kernel":
        return f"cublas {_generic(name)}"
    return joined("cublas", scope if scope.startswith("gemv") else "gemv", first_value_dtype(name.args))


def _kokkos(name: KernelName) -> str:
    if name.library != "Kokkos" or not name.args or not name.args[0].parts[-1].args:
        return ""
    pattern = name.args[0].parts[-1]
    functor = (pattern.args or [])[0]
    if functor.parts[-1].name == "CombinedFunctorReducer" and functor.parts[-1].args:
        functor = functor.parts[-1].args[0]
    return joined("Kokkos", pattern.name, short(functor))


def _raja(name: KernelName) -> str:
    if name.library != "RAJA":
        return ""
    body = next(filter(None, map(callable_name, name.args)), "")
    return joined("RAJA", name.base.removesuffix("_kernel"), body)


def _cub_and_thrust(name: KernelName) -> str:
    """Word CUB's device kernels, and thrust's agents by algorithm (`__transform::`), functor and type."""
    libraries = [part.name for part in name.scopes if part.name in {"cub", "thrust"}]
    if not libraries:
        return ""
    carriers = {"static_kernel", "_kernel_agent"}
    scope = name.scopes[-1].name
    what = scope if name.base in carriers else re.sub(r"_?[Kk]ernel\Z", "", name.base)
    if name.base == "_kernel_agent" and name.args:
        what = re.sub(r"Agent\Z", "", name.args[0].parts[-1].name)
    operation = [word for word in _thrust_operation(name.args) if word.lower() != what.lower()]
    return joined(libraries[0], what, *operation, first_dtype(name.args))


def _thrust_operation(types: list[Type]) -> list[str]:
    """Return the algorithm and the caller's functor inside thrust's own, where they are written."""
    for part, following in _scoped_parts(types):
        if part.name.startswith("__") and part.args is None and not part.name.startswith("__nv"):
            functors = [arg for arg in following.args or [] if not _is_library_type(arg)]
            user = [short(functor, depth=0) for functor in functors[:1]]
            return [] if part.name == "__parallel_for" else [part.name.strip("_"), *user]
    return []


def _scoped_parts(types: list[Type]) -> Iterator[tuple[Part, Part]]:
    """Yield each namespace of thrust's algorithms with the component after it, the agent's own excepted."""
    waiting = list(types)[::-1]
    while waiting:
        parts = waiting.pop().parts
        yield from ((a, b) for a, b in pairwise(parts) if a.name != "__parallel_for")
        waiting.extend(arg for part in parts[::-1] for arg in (part.args or [])[::-1])


def _is_library_type(a_type: Type) -> bool:
    scope = a_type.parts[0].name if len(a_type.parts) > 1 else ""
    return scope in {"thrust", "cub", "cuda"} or bool(dtype_of(a_type.parts[-1])) or is_constant(a_type)


def _generic(name: KernelName) -> str:
    """Return the function's name with its template arguments, as many as the target width takes."""
    head = _identifier(_function_name(name))
    library = _LIBRARIES.get(name.library, "")
    prefix = f"{library} {head}" if library and not head.startswith(library) else head
    if not name.args:
        return prefix
    if len(name.args) > _MAX_ARGUMENTS:
        return _leading_arguments(prefix, [short(arg, depth=0) for arg in name.args[:_MAX_ARGUMENTS]])
    arguments = [short(arg) for arg in name.args]
    brief = _runs_merged([short(arg, depth=0) for arg in name.args])
    for spelled in (arguments, _runs_merged(arguments), brief):
        if len(full := f"{prefix}<{', '.join(spelled)}>") <= TARGET_WIDTH:
            return full
    return _leading_arguments(prefix, brief)


def _function_name(name: KernelName) -> str:
    """Return the function's name, with its class or namespace where it says nothing by itself."""
    function = name.function.name
    if function in SAYS_NOTHING or function.startswith("operator") or name.function.is_lambda:
        owners = [part.name for part in name.scopes if not part.is_lambda and part.name not in _INNER_SCOPES]
        return "::".join([*owners[-1:], function])
    return function


def _runs_merged(arguments: list[str]) -> list[str]:
    """Write `float, float, float` as `float×3`; values stay, as they are read by position."""
    merged: list[tuple[str, int]] = []
    for argument in arguments:
        if merged and merged[-1][0] == argument and not is_value(argument):
            merged[-1] = (argument, merged[-1][1] + 1)
        else:
            merged.append((argument, 1))
    return [f"{argument}×{count}" if count > 1 else argument for argument, count in merged]


def _leading_arguments(head: str, arguments: list[str]) -> str:
    """Return `head<first, …>` with the arguments that the target width takes."""
    shown: list[str] = []
    for argument in arguments:
        if len(f"{head}<{', '.join([*shown, argument, _ELLIPSIS])}>") > TARGET_WIDTH:
            break
        shown.append(argument)
    return f"{head}<{', '.join([*shown, _ELLIPSIS])}>" if shown else head


_FAMILIES: tuple[Callable[[KernelName], str], ...] = (
    _nccl,
    torch_elementwise,
    torch_multi_tensor,
    _flash_attention,
    _cutlass,
    _cublas,
    _kokkos,
    _raja,
    _cub_and_thrust,
)
