"""What a name says of a matrix product: whether it is one, on which pipe a library runs it, how wide its inputs are.

`kernel_kinds` tells from whole words what a kernel does, and what it tells holds here, too. Where it tells nothing, a
part of a word is enough here, and convolutions count, because counters or code have to say the same.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from gpuprof.model.kernel_kinds import kind_by_name, kind_named

_PRODUCT = re.compile(
    r"gemm|mat_?mul|matrix_?mul|mmul|attention|attn|fmha|(?:^|[_:< ])(?:add|baddb)?b?mm(?=[_<\d]|$)"
    r"|scudnn|wgrad|dgrad|fprop",
    re.IGNORECASE,
)
_CONVOLUTION = re.compile(r"conv(?!e|oy)", re.IGNORECASE)
"""A matrix product where it has many channels; the filter of an image with one channel is none."""
_NO_PRODUCT = re.compile(
    r"gemv|mat_?vec|sp_?mm|spmv|splitk_?reduce|depthwise|separable|conv[a-z_]{0,20}(?:rows|column)|im2col"
    r"|winograd[a-z_]{0,20}transform|triton_(?:poi|per|red|for|split_scan)_",
    re.IGNORECASE,
)
"""What has such a name and is bound by bytes: a vector or one channel for an operand, data only moved, or what Inductor
fuses behind a product."""
_PLAIN_LIBRARY = re.compile(
    r"(?:^|[<: ])(?:maxwell|volta|turing|ampere|ada|hopper|blackwell)_(?:fp16_|bf16_)?(?P<blas>[sdchz])gemm_"
    r"|cutlass(?:3x)?_(?:sm)?\d+_simt_(?P<cutlass>[sdchzi])\d*(?:gemm|fprop|dgrad|wgrad)|_(?P<dnn>s)cudnn_"
    r"|magma_(?P<magma>[sd])gemmEx_kernel<(?:float|double), (?:float|double),"
    r"|(?:^|[<: ])(?P<early>[sd])gemm_\d+x\d+x\d+_[NT]{2}(?![A-Za-z])"
    r"|implicit_convolve_(?P<conv>[sdh])gemm|_xmma_\w{1,200}_(?P<xmma>[fd])fma_"
)
"""Kernels of cuBLAS, CUTLASS and cuDNN whose names say that they run on the pipes for scalars, and the type."""
_TENSOR_CORES = re.compile(
    r"(?:^|[_:< ])[a-z]{1,2}(?:884|1688|16816|16832|16864|8816|8832|88128|168128|168256|161616)"
    r"(?:gemm|cudnn|fprop|dgrad|wgrad|implicit|symm|syrk|herk|trmm)"
    r"|(?<![A-Za-z])[tT]ensor[oO]p(?![a-z])|tensor\d+x\d+x\d+|xmma_\w{0,200}warpgroupsize|(?<![A-Za-z])(?:nvjet|tcgen05)"
    r"|(?<![A-Za-z])[tT][fF]32|(?<![A-Za-z\d])m(?:8n8k(?:4|16|32|128)|16n8k(?:4|8|16|32|64|128|256)|16n16k(?:4|8|16))(?!\d)"
    r"|(?<![a-z])(?:[bdhigu]|wg?)mma(?![a-z])|[GU]mma|[Ww]mma|[GU]MMA"
)
"""Shapes of matrix instructions (s1688, tensor16x8x16, m16n8k16), their names, a type that nothing else multiplies, and
libraries that use nothing else."""
_NEEDS_FEW_WARPS = re.compile(
    r"(?<![A-Za-z])[whiq]?gmma|Gmma|GMMA|tcgen05|TmaUmma|(?<!S)UMMA|[Ww]arp_?[Ss]peciali[sz]ed|warpgroupsize|(?<![A-Za-z])nvjet"
    r"|Sm(?:90|100)(?!\d)|(?<![A-Za-z])sm_?(?:90|100)a?_\w{0,80}(?:gemm|attn|fmha|mla|flash|fprop)|tma_(?:\w{1,20}_)?ws(?![A-Za-z])"
)
"""Asynchronous matrix instructions, warps with roles, and libraries that use nothing else on Hopper and Blackwell."""
_GENERATION = re.compile(
    r"(?:cutlass_|(?<![A-Za-z0-9])sm_?)(?P<major>\d{1,2})\d(?!\d)"
    r"|(?<![A-Za-z])(?P<name>volta|turing|ampere|ada|hopper|blackwell)_"
)
_GENERATIONS = {"volta": 7, "turing": 7, "ampere": 8, "ada": 8, "hopper": 9, "blackwell": 10}
_ALIGNED = re.compile(
    r"(?<![a-z])tensorop_(?P<cutlass>\w{0,40}gemm\w{0,80}?)_(?P<cutlass_layout>[nt]{2})_align(?P<elements>\d{1,2})(?!\d)"
    r"|_xmma_(?P<xmma>gemm_\w{1,80}?_(?P<xmma_layout>[nt]{2})_[nt]_\w{1,120}?_tensor\d+x\d+x\d+)_aligna(?P<first>\d{1,2})(?!\d)"
)
"""Products on tensor cores whose names say how many elements of an operand they load at once."""
_ELEMENT_BYTES = (
    (re.compile(r"_?[us]8(?!\d)|i(?:8816|16832|16864)|e[45]m[23]"), 1),
    (re.compile(r"f16|h(?:884|1688|16816|161616)"), 2),
    (re.compile(r"[cdz]\d{3,6}gemm|f64|[us]4(?!\d)|b1(?!\d)"), None),
    (re.compile(r"s1688|tf32|s16168"), 4),
)
"""Bytes of an element of the inputs by the words of such a name, the first that fits; None for other types."""
_WITHOUT_TENSOR_CORES = re.compile(r"gemv|gemmk1|gcgemm", re.IGNORECASE)
_TYPES = {"s": "fp32", "f": "fp32", "c": "fp32", "d": "fp64", "z": "fp64", "h": "fp16", "i": "int8"}
_OF_16_BITS = re.compile(r"\b(?:__half2?|half2?|__nv_bfloat162?|nv_bfloat162?|c10::(?:BFloat16|Half))\b")
_NAMED_16_BITS = re.compile(r"_(?:fp|bf)16_s(?:gemm|cudnn)_")
"""Kernels of cuBLAS and cuDNN with inputs of 16 bits that they multiply in FP32."""
_BF16 = re.compile(r"bf(?:loat)?16", re.IGNORECASE)
_OF_8_BITS = re.compile(r"\b(?:(?:un)?signed char|u?int8_t)\b")
_OF_TORCH = re.compile(r"\b(?:at::|c10::|torch|triton_\w+_fused)")
_INPUT = re.compile(r"\bconst\b[^*]*\*")


FULL_ALIGNMENT_BYTES = 16
"""The most that a thread loads at once, and the alignment that it needs for that."""


class OperandAlignment(NamedTuple):
    """Elements that a kernel loads at once, elements of 16 bytes, bytes of an element, and the layout of operands.

    `layout` says of both operands in the order of BLAS, which counts columns first, whether they are transposed: `tn`.
    """

    elements: int
    full: int
    element_bytes: int
    layout: str


@lru_cache(maxsize=4096)
def is_product_by_name(demangled: str) -> bool:
    """Tell whether a kernel's name, without its parameters, says that it multiplies matrices."""
    name, _ = _name_and_parameters(demangled)
    is_product = _PRODUCT.search(name) is not None or _CONVOLUTION.search(name) is not None
    if not is_product or _NO_PRODUCT.search(name) is not None:
        return False
    kind = kind_named(kind_by_name(demangled))
    return kind is None or kind.multiplies


@lru_cache(maxsize=4096)
def is_only_a_convolution(demangled: str) -> bool:
    """Tell whether a kernel's name says that it convolves, but not how."""
    name, _ = _name_and_parameters(demangled)
    return _CONVOLUTION.search(name) is not None and _PRODUCT.search(name) is None


@lru_cache(maxsize=4096)
def plain_library_type(demangled: str) -> str | None:
    """Return the type that a library's matrix product without tensor cores multiplies, by its name; else None."""
    return _TYPES.get(_plain_letter(demangled))


def multiplies_complex_numbers(demangled: str) -> bool:
    """Return whether a library's matrix product without tensor cores is one of complex numbers, by its name."""
    return _plain_letter(demangled) in ("c", "z")


def _plain_letter(demangled: str) -> str:
    match = _PLAIN_LIBRARY.search(demangled)
    return next((group for group in match.groups() if group), "") if match is not None else ""


def multiplies_on_scalar_pipes(demangled: str) -> bool:
    """Tell whether a kernel's name says that a library multiplies matrices or a vector without tensor cores."""
    return plain_library_type(demangled) is not None or _WITHOUT_TENSOR_CORES.search(demangled) is not None


@lru_cache(maxsize=4096)
def multiplies_on_tensor_cores(demangled: str) -> bool:
    """Tell whether a kernel's name says that it executes matrix instructions."""
    has_name = _TENSOR_CORES.search(demangled) is not None or needs_few_warps_by_name(demangled)
    return has_name and plain_library_type(demangled) is None


@lru_cache(maxsize=4096)
def needs_few_warps_by_name(demangled: str) -> bool:
    """Return whether a kernel's name shows wgmma, tcgen05 or warps with roles: wgmma_kernel, FlashAttnBwdSm90."""
    return _NEEDS_FEW_WARPS.search(demangled) is not None


@lru_cache(maxsize=4096)
def has_inputs_of_16_bits(demangled: str) -> bool:
    """Return whether all inputs have 16 bits, by a library's name or by the pointers that the signature only reads."""
    return _NAMED_16_BITS.search(demangled) is not None or _are_all_inputs(_OF_16_BITS, demangled)


def names_bf16(demangled: str) -> bool:
    """Return whether a kernel's name or signature has the type BF16."""
    return _BF16.search(demangled) is not None


@lru_cache(maxsize=4096)
def has_inputs_of_8_bits(demangled: str) -> bool:
    """Tell whether all that the kernel's signature only reads through pointers are integers of 8 bits."""
    return _are_all_inputs(_OF_8_BITS, demangled)


@lru_cache(maxsize=4096)
def operand_alignment(demangled: str) -> OperandAlignment | None:
    """Return the alignment of operands that a matrix product on tensor cores is made for; None if no name says it."""
    match = _ALIGNED.search(demangled)
    if match is None:
        return None
    name = match["cutlass"] or match["xmma"]
    size = next((size for words, size in _ELEMENT_BYTES if words.search(name)), None)
    if size is None:
        return None
    elements, layout = int(match["elements"] or match["first"]), match["cutlass_layout"] or match["xmma_layout"]
    return OperandAlignment(elements, FULL_ALIGNMENT_BYTES // size, size, layout)


@lru_cache(maxsize=4096)
def newest_generation(demangled: str) -> int | None:
    """Return the newest generation of GPUs that a kernel's name says it was made for: 8 for `sm80_…`, `ampere_…`.

    It is the major compute capability. None if the name says nothing.
    """
    found = (int(match["major"] or _GENERATIONS[match["name"]]) for match in _GENERATION.finditer(demangled))
    return max(found, default=None)


def is_torchs(demangled: str) -> bool:
    """Tell whether a kernel's name is one of PyTorch's own kernels, or of those that it compiles."""
    return _OF_TORCH.search(demangled) is not None


def _are_all_inputs(of_type: re.Pattern[str], demangled: str) -> bool:
    _, parameters = _name_and_parameters(demangled)
    inputs = [item for item in parameters.split(",") if _INPUT.search(item)]
    return bool(inputs) and all(of_type.search(item) for item in inputs)


def _name_and_parameters(demangled: str) -> tuple[str, str]:
    """Split `void scale<(int)4>(float *, int)` before the parameters; they are empty where there are none."""
    text = demangled.rstrip()
    depth = 0
    for at in range(len(text) - 1, -1, -1) if text.endswith(")") else ():
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return text[:at], text[at + 1 : -1]
    return text, ""
