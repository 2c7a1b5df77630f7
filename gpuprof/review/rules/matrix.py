"""Matrix products without tensor cores, or with the instructions of an older architecture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuprof.diagnose.rules.tensor_cores_idle import FASTER, FUSED_SHARE, MULTIPLIES, OUTER_PRODUCTS
from gpuprof.hardware.specs import ArchSpec, ComputeKey
from gpuprof.model.product_names import is_only_a_convolution, is_product_by_name
from gpuprof.model.sass_opcodes import MatrixOpcode
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.contract import CodeLoop
from gpuprof.review.facts import CodeFacts
from gpuprof.review.rules.rule import code_evidence, finding_at
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.patterns.outer_products import MULTIPLY_ADDS, outer_products_of_loop
from gpuprof.units import format_percent

LEAST_MULTIPLIES = 4
"""The least product of two values with two others."""
_LONGEST_LOOP = 20_000
"""Instructions of a loop that are searched; unrolled products have some thousand."""
_INPUTS = {
    "fp32": ("tensor.tf32", "tensor.bf16", "tensor.fp16"),
    "fp16": ("tensor.fp16", "tensor.bf16"),
    "fp64": ("tensor.fp64",),
    "int8": ("tensor.int8",),
}
_PLAIN = {"fp32": "FFMA", "fp16": "HFMA2", "fp64": "DFMA", "int8": "IDP"}
_NAMES = {"fp32": "FP32", "fp16": "16-bit", "fp64": "FP64", "int8": "INT8"}
_TENSOR_NAMES = {
    "tensor.tf32": "TF32", "tensor.bf16": "BF16", "tensor.fp16": "FP16", "tensor.fp64": "FP64", "tensor.int8": "INT8",
}  # fmt: skip
_ACCURACY = {
    "fp32": "TF32 keeps 10 bits of mantissa of the inputs instead of 23, BF16 7, FP16 10 with a small range; sums "
    "stay in FP32. Where that is accurate enough: cuBLAS, CUTLASS, tl.dot in Triton, wmma or mma in CUDA. Where FP32 "
    "has to stay: three products in TF32 (3xTF32 in CUTLASS, 'tf32x3' in Triton).",
    "fp16": "The inputs stay as they are, and sums in FP32 are more accurate: torch.matmul, tl.dot, cublasGemmEx, "
    "CUTLASS, wmma or mma in CUDA.",
    "fp64": "The tensor cores multiply FP64 as accurately as DFMA does: cublasDgemm, CUTLASS with OpClassTensorOp, "
    "wmma or mma.m8n8k4 with .f64 in CUDA.",
    "int8": "The sums are the same, exact in 32 bits: cublasGemmEx with CUDA_R_8I and CUBLAS_COMPUTE_32I, CUTLASS, "
    "tl.dot on int8, wmma or mma in CUDA.",
}


_OF_LIBRARIES = (
    "Use a library built for this architecture (cuBLAS, cuDNN, CUTLASS 3 or later, a recent Triton; FlashAttention-3 "
    "on Hopper, 4 on Blackwell)."
)
_OF_TARGETS = (
    " Compile your own kernels for the architecture-specific target (sm_90a, sm_100a) or, from CUDA 12.9 and Blackwell "
    "on, the family-specific one (sm_100f): plain sm_90 and sm_100 lack these instructions."
)
_TILES = {
    "wgmma": " wgmma multiplies tiles of 64 rows with four warps: where a block has fewer rows, as in Triton with a "
    "BLOCK_M under 64 or under four warps, mma.sync is what is left.",
    "tcgen05": " tcgen05 multiplies tiles of 64 or 128 rows: where a block has fewer, mma.sync is what is left.",
}
"""M is 64 for wgmma.mma_async, and 64, 128 or, over two SMs, 256 for tcgen05.mma (PTX ISA, matrix shapes)."""


def without_tensor_cores(case: CodeFacts) -> Iterator[Finding]:
    """Yield a finding where the inner loop of a kernel is a matrix product of plain multiply-adds."""
    arch = case.known.arch
    if arch is None or case.matrix or not case.known.has_any(MULTIPLY_ADDS):
        return
    parents = {loop.parent for loop in case.loops}
    for loop in sorted(case.loops, key=lambda loop: -loop.depth):
        if loop.id in parents or loop.instructions > _LONGEST_LOOP:
            continue
        finding = _product(case, loop)
        if finding is not None:
            yield finding
            return


def _product(case: CodeFacts, loop: CodeLoop) -> Finding | None:
    code = [item for item in case.between(loop.start, loop.end) if case.innermost.get(item.address) == loop.id]
    multiplies = [item for item in code if item.name in MULTIPLY_ADDS]
    if len(multiplies) < LEAST_MULTIPLIES or 100 * len(multiplies) < MULTIPLIES.value * len(code):
        return None
    outer = outer_products_of_loop(code)
    if outer is not None and 100 * outer.share >= OUTER_PRODUCTS.value:
        how = f"{format_percent(outer.share)} of the arithmetic in the loop is outer products: a matrix multiplication."
        evidence = code_evidence(100 * outer.share, "%", "outer products in the loop", threshold=OUTER_PRODUCTS.value)
        return _finding(case, outer.path, multiplies, how, evidence, guess=False)
    name = case.known.kernel.name
    path = MULTIPLY_ADDS[Counter(item.name for item in multiplies).most_common(1)[0][0]]
    fused = _fused(code, path)
    if not is_product_by_name(name) or is_only_a_convolution(name) or 100 * fused < FUSED_SHARE.value:
        return None
    how = "By its name it is a matrix multiplication, and the arithmetic of its loop is multiply-adds."
    evidence = code_evidence(100 * fused, "%", "fused share in the loop", threshold=FUSED_SHARE.value)
    return _finding(case, path, multiplies, how, evidence, guess=True)


def _fused(code: Sequence[Instruction], path: str) -> float:
    """Return which share of a type's arithmetic is multiply-adds."""
    fused = _PLAIN[path]
    letter = fused[0]
    alone = {f"{letter}ADD", f"{letter}MUL", f"{letter}ADD2", f"{letter}MUL2"}
    both = sum(item.name == fused for item in code)
    return both / (both + sum(item.name in alone for item in code)) if both else 0.0


def _finding(
    case: CodeFacts, path: str, multiplies: Sequence[Instruction], how: str, evidence: Evidence, *, guess: bool
) -> Finding | None:
    arch = case.known.arch
    faster = _faster(arch, path) if arch is not None else ()
    if not faster:
        return None
    products = " on products that have tensor cores" if arch is not None and arch.name == "sm_75" else ""
    return finding_at(
        case,
        "tensor-cores-idle",
        [item for item in multiplies if MULTIPLY_ADDS[item.name] == path],
        headline=f"{_NAMES[path]} matrix multiplication without tensor cores",
        why=f"{how} The tensor cores of this architecture multiply {', '.join(faster)}{products}.",
        action=f"Run the {_NAMES[path]} matrix multiplication on the tensor cores",
        advice=_ACCURACY[path],
        evidence=(evidence,),
        is_guess=guess,
    )


def _faster(arch: ArchSpec, path: str) -> tuple[str, ...]:
    """Return what the tensor cores multiply instead, with its rate over that of plain instructions."""
    plain = arch.compute.get(ComputeKey("int32" if path == "int8" else path))
    if plain is None or not plain.value:
        return ()
    # An IDP multiplies and adds four pairs at the rate of integer multiply-adds, each counted as one operation.
    rate = plain.value * (8 if path == "int8" else 1)
    best = {
        name: max((fact.value for key, fact in arch.compute.items() if key.path == name), default=0.0) / rate
        for name in _INPUTS[path]
    }
    return tuple(
        f"{_TENSOR_NAMES[name]} at {times:.3g} times the {_NAMES[path]} rate"
        for name, times in best.items()
        if 100 * times >= FASTER.value
    )


def older_instructions(case: CodeFacts) -> Iterator[Finding]:
    """Yield a fact where loops multiply with mma.sync and the architecture has an instruction that replaces it."""
    arch = case.known.arch
    if arch is None:
        return
    matrix = case.matrix
    if not matrix or any(opcode.key.instruction != "mma.sync" for _, opcode in matrix):
        return
    newer = {name for _, opcode in matrix if (name := _newer(arch, opcode)) is not None}
    looped = [item for item, _ in matrix if case.depth(item.address)]
    if not newer or not looped:
        return
    name = min(newer)
    is_specific = case.known.kernel.target.endswith(("a", "f"))
    yield finding_at(
        case,
        "old-architecture",
        looped,
        headline=f"Older matrix instructions: mma.sync in loops; {case.known.kernel.target[:20]} has {name}",
        why=f"{name} reads operands directly from shared memory, without loads into registers, and runs while its "
        "warps continue; mma.sync does neither.",
        action=f"Use this architecture's own matrix instructions ({name})",
        advice=f"{_OF_LIBRARIES}{'' if is_specific else _OF_TARGETS}{_TILES.get(name, '')}",
        evidence=(code_evidence(len(looped), "", "mma.sync instructions in loops"),),
    )


def _newer(arch: ArchSpec, opcode: MatrixOpcode) -> str | None:
    """Return the name of another instruction of the architecture that multiplies the same; None where it has none."""
    names = (key.instruction for key in arch.compute if key.path == opcode.key.path)
    own = arch.compute.get(opcode.key)
    for name in names:
        if name not in (None, "mma.sync"):
            rates = [
                fact.value
                for key, fact in arch.compute.items()
                if (key.path, key.instruction) == (opcode.key.path, name)
            ]
            if own is None or max(rates) > own.value:
                return name
    return None
