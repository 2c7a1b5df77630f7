"""What follows from what a kernel does in a language model: what it is held against, which rules speak, what helps.

A kind adds its usual repairs to the advice of the finding that tells its limit; it makes no finding of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.case import WELL_USED, Case
from gpuprof.diagnose.needs import LAUNCH
from gpuprof.diagnose.rule import Rule, RuleVerdict
from gpuprof.model.headline import main_point
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.session import KernelProfile

_BYTES = frozenset({"dram-bandwidth", "l2-bandwidth"})
_FILL = frozenset({"small-grid", "tail-effect", "load-imbalance", "latency-bound"})
_WORK = frozenset(
    {"tensor-compute-bound", "fp32-compute-bound", "integer-bound", "special-function-bound", "tensor-cores-idle"}
)
_SHORT = frozenset({"short-kernel"})
_UNFUSED = _BYTES | _FILL | _SHORT | {"memory-latency"}
"""Where a pass over data is faster only with fewer bytes or as a part of another kernel."""


class UsualRepair(Struct, frozen=True):
    """What usually helps a kind where one of these rules speaks."""

    rules: frozenset[str]
    text: str


_FEWER_SPLITS = "Use fewer splits: its time grows with them, and more than fill the GPU gain nothing."
_SKINNY = (
    UsualRepair(
        _BYTES,
        "With few rows, each weight is read for few of them: more rows at once (a larger batch, several tokens "
        "checked at a time by speculative decoding) cost hardly more time, and narrower weights (FP8, INT4) take "
        "fewer bytes. With many rows, larger tiles read less.",
    ),
    UsualRepair(
        _FILL,
        "Few rows make few tiles: split the sum over more blocks (split-K, stream-K), or use a GEMV kernel for one "
        "row to a few.",
    ),
    UsualRepair(
        _SHORT, "Merge the GEMMs that read the same rows (Q, K and V; gate and up), and launch with a CUDA graph."
    ),
)
_GEMM = (
    UsualRepair(
        _FILL,
        "Let the library choose another tile: cublasLt heuristics, torch.compile with max-autotune, split-K or "
        "stream-K where tiles are few. Dimensions that are multiples of the tile leave no part of one idle.",
    ),
    UsualRepair(
        frozenset({"tensor-compute-bound"}),
        "Use narrower inputs where they are accurate enough (FP8 from Ada and Hopper on, INT8 before), and no padding "
        "rows, which are multiplied for nothing.",
    ),
)

_REMEDIES: Mapping[str, tuple[UsualRepair, ...]] = {
    "attention-decode": (
        UsualRepair(
            _BYTES,
            "Its bytes are the keys and values. To read fewer: heads of a group that share one read (GQA packed into "
            "a tile), an FP8 cache, MQA or MLA, a sliding window. A larger batch reads more, unless a shared prefix "
            "is read once (cascade attention).",
        ),
        UsualRepair(
            _FILL,
            "One query row makes few blocks: split the keys and values over more of them (FlashDecoding, num_splits, "
            "split-KV), or decode more sequences at once.",
        ),
        UsualRepair(
            _WORK,
            "One query row does not fill a tile: pack the query heads that share keys and values into the rows of "
            "one, and use the tensor cores for it.",
        ),
        UsualRepair(
            _SHORT,
            "With a short cache it is as short as its launch: decode with a CUDA graph, or more sequences at once.",
        ),
    ),
    "attention-prefill": (
        UsualRepair(
            frozenset({"tensor-compute-bound"}),
            "Skip the blocks that the mask hides (causal, window), reuse the cache of a shared prefix, or multiply in "
            "FP8.",
        ),
        UsualRepair(
            frozenset({"special-function-bound", "fp32-compute-bound"}),
            "The softmax competes with the matrix multiplications: fold the scale into exp2, and overlap the "
            "exponentials of one tile with the multiplications of another (FlashAttention 3 on Hopper, 4 on "
            "Blackwell).",
        ),
        UsualRepair(
            _FILL, "Short prompts make few tiles: prefill several sequences in one launch (varlen), or in chunks."
        ),
    ),
    "attention-backward": (
        UsualRepair(
            _FILL,
            "Blocks cover keys, heads and sequences: more sequences per launch (varlen) fill the GPU better.",
        ),
    ),
    "attention-combine": (UsualRepair(_UNFUSED, _FEWER_SPLITS),),
    "gemm": _GEMM,
    "gemm-low-reuse": _SKINNY,
    "gemv": _SKINNY,
    "gemm-reduce": (UsualRepair(_UNFUSED, f"{_FEWER_SPLITS} Stream-K sums inside the GEMM kernel."),),
    "gemm-grouped": (
        UsualRepair(
            _BYTES,
            "The weights of every expert that a token chose are read: more tokens per expert (a larger batch, expert "
            "parallelism) cost hardly more time, and narrower weights take fewer bytes.",
        ),
        UsualRepair(
            _FILL,
            "Experts with few tokens make tiles of padding: choose the tile height by the tokens per expert, keep the "
            "tiles of an expert together, and balance the tokens.",
        ),
    ),
    "gemm-quantised": (
        *(remedy for remedy in _SKINNY if remedy.rules != _BYTES),
        UsualRepair(
            _BYTES,
            "The weights are narrow already: more rows at once cost hardly more time, until arithmetic is the limit.",
        ),
        UsualRepair(
            frozenset({"integer-bound", "fp32-compute-bound"}),
            "Unpacking the weights fills the pipe: lay them out for the tensor cores beforehand (Marlin), and convert "
            "several at a time with logic instructions. With many rows, multiply in FP8 or INT8, which needs no "
            "unpacking.",
        ),
    ),
    "norm": (
        UsualRepair(
            _UNFUSED,
            "It can read its row once and write it once: fuse the residual add before it and the quantisation after "
            "it (fused_add_rms_norm, with FP8 output), and keep the row in registers between both passes.",
        ),
    ),
    "rotary": (
        UsualRepair(
            _UNFUSED,
            "It reads and writes Q and K for a few operations: rotate where they are produced, or together with the "
            "norm of Q and K and the write to the cache. Read cosines and sines from a table.",
        ),
    ),
    "softmax": (
        UsualRepair(
            _UNFUSED,
            "In attention, use a fused kernel (FlashAttention, scaled_dot_product_attention), which never "
            "writes the scores. Else keep the row on the chip, so that it is read once.",
        ),
    ),
    "kv-write": (
        UsualRepair(
            _UNFUSED,
            "Write to the cache where K and V are produced last, with rotation and quantisation; 16 bytes per thread "
            "along the head dimension.",
        ),
    ),
    "activation": (
        UsualRepair(
            _UNFUSED,
            "Apply it where its input is produced, at the end of the GEMM; gate and up in one kernel (silu_and_mul), "
            "with the quantisation that follows.",
        ),
    ),
    "embedding": (UsualRepair(_UNFUSED, "It only gathers rows: fuse it with the first norm."),),
    "sampling": (
        UsualRepair(
            _UNFUSED,
            "A full sort passes over the vocabulary several times: take the largest by radix selection, sample by "
            "rejection without sorting (FlashInfer), use argmax for greedy sampling, and sample only the last "
            "position.",
        ),
    ),
    "moe-routing": (
        UsualRepair(
            _UNFUSED,
            "It has little data, so fewer kernels count most: softmax and top-k in one, the sort of tokens by expert "
            "in another, the permutation inside the grouped GEMM; launch them with a CUDA graph.",
        ),
    ),
    "quantise": (
        UsualRepair(
            _UNFUSED,
            "Convert where the values are produced (norm, activation, end of a GEMM) or used (inside the GEMM): a "
            "kernel of its own reads and writes them once more.",
        ),
    ),
}
_REMEDIES = {**_REMEDIES, "attention": (*_REMEDIES["attention-prefill"], *_REMEDIES["attention-decode"][:1])}

_COMPILED_IN_LIBRARY = re.compile(
    r"(?:void )?(?:cutlass::Kernel2?<cutlass_\d+_|cutlass\d*x?_|nvjet|sm\d+_xmma_"
    r"|(?:maxwell|volta|turing|ampere|ada|hopper|blackwell)_\w*gemm)"
)
"""Kernels that cuBLAS and cuDNN bring with them: names without namespaces and arguments, as no template has, or
with such a name as their only argument."""
_OF_CODE = frozenset(
    {
        "latency-bound", "tail-effect", "load-imbalance", "low-occupancy", "block-size", "short-blocks",
        "memory-latency", "dependency-latency", "barrier-wait", "instruction-fetch", "constant-miss",
        "branch-divergence", "uncoalesced-global", "narrow-access", "shared-bank-conflict", "shared-bandwidth",
        "l1-bandwidth", "local-memory-spill", "non-fused-fp", "reduction-tree",
    }
)  # fmt: skip
"""What only who can change a kernel's code or its launch can mend."""
_ANOTHER_ALGORITHM = "Let the library choose another tile or algorithm, and check sizes and alignment of its operands"
_HOW_ANOTHER = (
    "Try cublasLt heuristics, cudnn.benchmark or torch.compile with max-autotune, a newer release of the library, and "
    "dimensions that are multiples of the tile."
)

_OF_LINKS = frozenset({"short-kernel", "host-memory-traffic"})
"""What is also true of a kernel that waits for other GPUs. It takes few blocks on purpose: others run beside it."""


def speaking(rules: tuple[Rule, ...], case: Case) -> tuple[Rule, ...]:
    """Return the rules that have something to say of a kernel's kind.

    Exchange between GPUs waits for links and other ranks, unless it keeps a unit of its own GPU busy: then that is its
    limit, or the name means something else, such as a sum over a block.
    """
    kind = kind_named(case.kernel.kind)
    if kind is None or kind.binds != "links":
        return rules
    if any(need >= WELL_USED for unit, need in case.needs.items() if unit != LAUNCH):
        return rules
    return tuple(rule for rule in rules if rule.of_run or rule.id in _OF_LINKS)


def with_remedy(rule: Rule, verdict: RuleVerdict, case: Case) -> RuleVerdict:
    """Return a verdict with what usually helps a kernel of this kind."""
    kind = kind_named(case.kernel.kind)
    remedies = _REMEDIES.get(kind.id, ()) if kind is not None else ()
    texts = [remedy.text for remedy in remedies if rule.id in remedy.rules]
    if rule.id in _OF_CODE and _COMPILED_IN_LIBRARY.match(case.kernel.demangled):
        advice = f"Its code cannot be changed. {' '.join(texts) or _HOW_ANOTHER}"
        return replace(verdict, action=_ANOTHER_ALGORITHM, advice=advice)
    if kind is None or not texts:
        return verdict
    return replace(verdict, advice=f"{verdict.advice} For {kind.title}: {' '.join(texts)}")


def bytes_reached(kernel: KernelProfile) -> float | None:
    """Return how busy DRAM is with a kernel of a kind that its bytes bind; None for others, and where it is not known.

    What can be bound by either is so by its bytes where its point lies under the memory roof. Where L2 is busier, most
    bytes do not come from DRAM.
    """
    kind, point = kind_named(kernel.kind), main_point(kernel)
    if kind is None or kind.binds == "links":
        return None
    if kind.binds == "reuse" and (point is None or point.bound != "memory"):
        return None
    known = {unit.unit: unit.fraction for unit in kernel.throughput if unit.is_exact}
    dram = known.get("dram")
    if dram is None or known.get("l2", 0.0) > dram:
        return None
    return min(1.0, dram)
