"""Labels of PyTorch's carrier kernels, by the operation that a functor or lambda brings into them."""

from __future__ import annotations

import re

from gpuprof.model.kernel_names import KernelName
from gpuprof.model.name_tree import Type, walk
from gpuprof.model.type_words import dtype_of, first_dtype, head_of, is_constant, joined

TORCH_CARRIERS = {
    "vectorized_elementwise_kernel": "vectorized_elementwise",
    "vectorized_templated_elementwise_kernel": "vectorized_templated",
    "unrolled_elementwise_kernel": "unrolled_elementwise",
    "unrolled_elementwise_kernel_for_multi_outputs": "unrolled_multi_output",
    "unrolled_templated_elementwise_kernel": "unrolled_templated",
    "elementwise_kernel": "elementwise",
    "elementwise_kernel_with_index": "elementwise_with_index",
    "index_elementwise_kernel": "index_elementwise",
    "_scatter_gather_elementwise_kernel": "",
    "distribution_elementwise_grid_stride_kernel": "distribution_elementwise",
    "reduce_kernel": "reduce",
}
_TORCH_WRAPPERS = {
    **dict.fromkeys(("gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_kernel"), ("", "")),
    **dict.fromkeys(("gpu_index_kernel", "gpu_kernel_with_index"), ("", "")),
    **dict.fromkeys(("ReduceOp", "func_wrapper_t", "BinaryFunctor"), ("", "")),
    "BUnaryFunctor": ("", " scalar"),
    "AUnaryFunctor": ("scalar ", ""),
}


def torch_elementwise(name: KernelName) -> str:
    """Word PyTorch's carriers of an operation: elementwise, reduction, random distribution."""
    if name.base not in TORCH_CARRIERS:
        return ""
    functor = next((arg for arg in name.args if not is_constant(arg) and not dtype_of(arg.parts[-1])), None)
    if functor is None:
        return ""
    operation, dtype = _torch_operation(functor)
    casts = any(arg.parts[-1].name == "LoadWithCast" for arg in name.args)
    return joined(TORCH_CARRIERS[name.base], operation, dtype, "cast" if casts else "")


def torch_multi_tensor(name: KernelName) -> str:
    """Word `multi_tensor_apply_kernel`, the carrier of PyTorch's optimisers, by its functors and type."""
    if not name.base.startswith("multi_tensor_apply"):
        return ""
    functors = [head_of(arg).name for arg in name.args if not is_constant(arg) and not dtype_of(arg.parts[-1])]
    operations = [_operation_word(functor) for functor in functors if "Metadata" not in functor][:2]
    return joined("multi_tensor_apply", *operations, first_dtype(name.args)) if operations else ""


def _torch_operation(functor: Type) -> tuple[str, str]:
    """Return what a functor computes and on which type, through the wrappers that carry it.

    The type is the parameter of the innermost lambda (`{lambda(float)#1}`), or the functor's first data type.
    """
    before = after = ""
    for _ in range(4):
        head = head_of(functor)
        inner = [arg for arg in head.args or [] if not is_constant(arg) and not dtype_of(arg.parts[-1])]
        if head.name not in _TORCH_WRAPPERS or not inner:
            break
        functor = inner[0]
        before, after = before + _TORCH_WRAPPERS[head.name][0], _TORCH_WRAPPERS[head.name][1] + after
    opaque = next((part for part in walk([functor]) if part.name == "OpaqueType"), None)
    innermost = [param for param in functor.parts[-1].params or [] if not param.pointer]
    dtype = (dtype_of(opaque) if opaque else "") or first_dtype(innermost) or first_dtype([functor])
    return before + _operation_word(head_of(functor).name) + after, dtype


def _operation_word(name: str) -> str:
    """Return `mul` for `MulFunctor`, `direct_copy` for `direct_copy_kernel_cuda`, `mean` for `MeanOps`."""
    word = re.sub(r"\ACUDAFunctorOnSelf_(.+)", r"\1 scalar", name)
    word = re.sub(r"\A(?:CUDAFunctor_|launch_|_cuda_)(?=.)", "", word)
    word = re.sub(r"(?<=.)(?:Functor|Ops|_functor)\Z", "", word)
    word = re.sub(r"(?<=.)(?:_and_transform|(?:_internal|_kernel|_impl|_cuda){1,4})\Z", "", word)
    return word.lower() if re.fullmatch(r"[A-Z][a-z]+", word) else word
