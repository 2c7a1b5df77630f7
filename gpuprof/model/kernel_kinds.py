"""What a kernel does in a language model, by its name, its operator and the shapes of that: attention, GEMM, norm …

Precision comes before recall: a name that does not tell is of no kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from msgspec import Struct

from gpuprof.model.headline import main_point
from gpuprof.model.kernel_names import KernelName, parse_name
from gpuprof.model.label_families import SAYS_NOTHING, worded
from gpuprof.model.label_torch import TORCH_CARRIERS
from gpuprof.model.name_tree import walk
from gpuprof.model.session import KernelProfile
from gpuprof.model.torch_ranges import innermost_operator, least_side

BoundBy = Literal["dram", "reuse", "links"]
"""What binds a kind: the bytes of DRAM; DRAM or arithmetic, by the side of the ridge; links between GPUs."""

COMMUNICATION, _ROUTING = "communication", "moe-routing"
_ATTENTION, _DECODE, _PREFILL = "attention", "attention-decode", "attention-prefill"
_GEMM, _LOW_REUSE, _GROUPED, _QUANTISED = "gemm", "gemm-low-reuse", "gemm-grouped", "gemm-quantised"

FEW_ROWS = 64
"""A weight of two bytes serves a multiply-add a row, so that rows are FLOP per byte. The tensor cores of every product
since Volta with a spec of both do more than that in the time of a byte of DRAM: 76 on an RTX 3090, 295 on an H100.
"""


class Kind(Struct, frozen=True):
    """A kind of kernel: its id, its name in a sentence, what binds it, and whether it multiplies matrices."""

    id: str
    title: str
    binds: BoundBy
    multiplies: bool = False


KINDS = {
    kind.id: kind
    for kind in (
        Kind(_ATTENTION, "attention", "reuse", multiplies=True),
        Kind(_PREFILL, "prefill attention", "reuse", multiplies=True),
        Kind(_DECODE, "decode attention", "dram", multiplies=True),
        Kind("attention-backward", "attention backward", "reuse", multiplies=True),
        Kind("attention-combine", "split-attention combine", "dram"),
        Kind(_GEMM, "GEMM", "reuse", multiplies=True),
        Kind(_LOW_REUSE, "low-reuse GEMM", "dram", multiplies=True),
        Kind(_GROUPED, "grouped GEMM", "reuse", multiplies=True),
        Kind(_QUANTISED, "quantised GEMM", "reuse", multiplies=True),
        Kind("gemv", "GEMV", "dram", multiplies=True),
        Kind("gemm-reduce", "split-K reduction", "dram"),
        Kind("norm", "normalisation", "dram"),
        Kind("rotary", "rotary embedding", "dram"),
        Kind("softmax", "softmax", "dram"),
        Kind("kv-write", "KV-cache write", "dram"),
        Kind("activation", "activation", "dram"),
        Kind("embedding", "embedding", "dram"),
        Kind("sampling", "sampling", "dram"),
        Kind(_ROUTING, "MoE routing", "dram"),
        Kind("quantise", "quantisation or dequantisation", "dram"),
        Kind(COMMUNICATION, "communication", "links"),
    )
}


def kind_named(kind: str | None) -> Kind | None:
    """Return the kind of that id; None without one, and for one that this version does not know."""
    return KINDS.get(kind) if kind is not None else None


def kernel_kind(kernel: KernelProfile) -> str | None:
    """Return the id of a kernel's kind: by its name, else its operator; None where these do not tell.

    A GEMM has little reuse where a side of its operator's matrices is short. Where no shapes tell, it has if its point
    of the tensor cores lies under the memory roof; one of plain arithmetic lies there for other reasons, too.
    """
    operator = _told(_pieces(innermost_operator(kernel.ranges).partition(" ")[0].rpartition("::")[2]))
    if operator == "":
        return None
    kind = kind_by_name(kernel.demangled) or _of_operator(operator, kernel.demangled)
    if kind == _ATTENTION:
        return _phase(kernel.ranges) or kind
    if kind == _GEMM:
        side, point = least_side(kernel.ranges), main_point(kernel)
        under = point is not None and point.bound == "memory" and point.path.startswith("tensor")
        return _LOW_REUSE if (side < FEW_ROWS if side is not None else under) else kind
    return kind


@lru_cache(maxsize=16384)
def kind_by_name(demangled: str) -> str | None:
    """Return the id of the kind that a name tells: its function, else the namespace that it is in."""
    name = parse_name(demangled)
    inside = _mangled(demangled) if name.plain else ()
    carried = inside[inside.index(name.base) + 1 :][:_CARRIED] if name.base in SAYS_NOTHING and inside else ()
    kind = _told(_pieces("_".join(carried) or worded(name).partition("<")[0]))
    scopes = _pieces("_".join(part.name for part in name.scopes))
    if kind in (_GEMM, _QUANTISED) and _told(scopes) == _GROUPED:
        return _GROUPED
    if kind == _GEMM:
        return _gemm_of_types({*inside, *(part.name for part in walk(name.args))})
    if kind == _PREFILL:
        return _phase_of_tile(name)
    if kind == _QUANTISED and _OF_EXPERTS.search(scopes):
        return _GROUPED
    if kind is None and name.scopes:
        return _of_namespace(scopes)
    return kind or None


def _of_namespace(text: str) -> str | None:
    kind = _told(text)
    if kind in _NAMESPACES:
        return kind
    return _ROUTING if _OF_EXPERTS.search(text) is not None else None


@lru_cache(maxsize=16384)
def _of_operator(kind: str | None, demangled: str) -> str | None:
    """Return the kind of an operator for what it launched, unless that copies and fills, as any operator does.

    Beside its product an operator launches other kernels: only a name that says nothing is the product.
    """
    name = parse_name(demangled)
    head = worded(name).partition("<")[0]
    if kind is None or name.base in TORCH_CARRIERS or _HELPERS.search(_pieces(head)):
        return None
    return kind if kind in _OPERATORS or (KINDS[kind].multiplies and head in SAYS_NOTHING) else None


def _phase(ranges: Iterable[str]) -> str | None:
    """Return the kind of attention that a range around it names: prefill or decode."""
    told = {kind for text in ranges for pattern, kind in _PHASES if pattern.search(_pieces(text))}
    return told.pop() if len(told) == 1 else None


def _mangled(text: str) -> tuple[str, ...]:
    """Return the identifiers of a mangled name in order; a trace can have a name that its writer did not demangle."""
    identifiers: list[str] = []
    position = 2
    while text.startswith("_Z") and (match := _LENGTH.search(text, position)):
        position = match.end()
        if match[1]:
            identifiers.append(text[position : position + int(match[1])])
            position += int(match[1])
    return tuple(identifiers)


def _gemm_of_types(names: set[str]) -> str:
    """Return which GEMM a template makes: of groups, with an input of 8 bits or fewer, or any."""
    if any(word.startswith(_GROUPS) for word in names):
        return _GROUPED
    is_narrow = bool(names & _NARROW_TYPES) or any(_MIXED.search(word) for word in names)
    return _QUANTISED if is_narrow else _GEMM


def _phase_of_tile(name: KernelName) -> str:
    """Return the phase of a prefill kernel: FlashInfer gives tiles of 16 query rows to decoding on tensor cores."""
    traits = next((part for part in walk(name.args) if part.name == "KernelTraits"), None)
    sizes = [arg.parts[-1].name for arg in (traits.args or [])[1:2]] if traits is not None else []
    return _DECODE if sizes == ["16"] else _PREFILL


@lru_cache(maxsize=16384)
def _told(text: str) -> str | None:
    """Return the kind that words tell; empty where they tell of something else, None where they tell nothing.

    Inductor names what it fuses after all operators that it comes from: what it makes of them multiplies no matrices
    and exchanges nothing with other GPUs.
    """
    if not any(part in text for part in _PARTS_OF_WORDS):
        return None
    fused = _FUSED.match(text) is not None
    for kind, pattern in _WORDS:
        if not (fused and kind and _is_own_kernel(KINDS[kind])) and pattern.search(text):
            return _first(_PARTS, text) or kind if kind == _ATTENTION else kind
    return None


def _is_own_kernel(kind: Kind) -> bool:
    """Tell whether Inductor leaves a kind to a kernel of its own."""
    return kind.multiplies or kind.binds == "links"


def _first(table: Iterable[tuple[str, _Words]], text: str) -> str | None:
    return next((kind for kind, pattern in table if pattern.search(text)), None)


@lru_cache(maxsize=16384)
def _pieces(text: str) -> str:
    """Return the words of a name in small letters, with `_` between and around them: `_flash_attn_fwd_sm90_`."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text[:_LONGEST])
    return f"_{re.sub(r'[^A-Za-z0-9]+', '_', split).lower()}_"


@dataclass(frozen=True)
class _Words:
    """Patterns of whole words, one after the other, in what `_pieces` returns; compiled where they are first asked."""

    alternatives: tuple[str, ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """All of them in one."""
        return re.compile(rf"_(?:{'|'.join(self.alternatives)})(?=_)")

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match."""
        return self.pattern.search(text)


def _words(*alternatives: str) -> _Words:
    return _Words(alternatives)


_LONGEST = 400
_CARRIED = 4
"""So many identifiers behind that of a carrier are the kernel in it, with its namespaces."""
_LENGTH = re.compile(r"L[a-z]n?\d+E|(\d{1,3})(?=[A-Za-z_])")
"""A value in a mangled name, or the length of the identifier that follows."""
_GROUPS = ("GroupProblemShape", "GemmGrouped", "GroupedProblem", "MoEProblemShape", "MoeFCGemm")
_NARROW_TYPES = frozenset(
    {
        "float_e4m3_t",
        "float_e5m2_t",
        "float_e2m1_t",
        "__nv_fp8_e4m3",
        "__nv_fp8_e5m2",
        "int8_t",
        "int4b_t",
        "uint4b_t",
        "uint4_t",
        "fp4_e2m1_t",
        "integer_subbyte",
    }
)
_MIXED = re.compile(r"MixedInput|Machete")
_FUSED = re.compile(r"_triton_(?:poi|per|red|for|split_scan)_")
_HELPERS = _words("fill", "copy", "memset", "memcpy", "cub", "thrust", "cat", "transpose", "convert", "cast")
_NAMESPACES = frozenset({COMMUNICATION, "norm", "activation", "sampling", _ROUTING})
"""What a namespace tells of all that is in it."""
_OPERATORS = frozenset({"norm", "rotary", "softmax", "kv-write", "activation", "embedding", "sampling", "quantise"})
"""What operators do in one kernel, beside copies. Those of experts or attention have many in them."""
_PHASES = ((_words("prefill"), _PREFILL), (_words("decode"), _DECODE))

_ATTENTION_WORDS = (
    r"flash_?(?:fwd|bwd|attn|attention|mla|decode|decoding)\w*|fmha|sdpa|mha|mmha|xqa|attn|attentions?"
    r"|fa[234]_(?:fwd|bwd|forward|backward)|bwd_kernel_dkd[qv]\w*|flex_decoding|scaled_dot_product\w*|(?:single|batch)_(?:prefill|decode)\w*_kv\w*|(?:prefill|pod)_with_kv\w*"
)
_TO_CACHE = r"(?:store|write|append|update|copy|set|insert|save|put)"
_CACHE = r"(?:paged_)?kv_?(?:cache|buffer|pool)\w*"
_MATRIX = r"(?:[a-z0-9]*gemm(?!a)[a-z0-9]*|matmul\d*|mm|bmm|mul_mat)"
_NARROW = (
    r"(?:[aw]\d{1,2}_?[aw]\d{1,2}|wna16|fp[48]|int[48]|[48]bit|e4m3\w*|e5m2\w*|e2m1\w*|nvfp4|mxfp[48]|[is]8\w*"
    r"|awq|gptq)"
)
_EXPERTS = r"(?:moe|experts?)"


_OF_EXPERTS = _words(_EXPERTS)
_ATTENTION_NAME = _words(_ATTENTION_WORDS)

_PARTS: tuple[tuple[str, _Words], ...] = (
    ("attention-combine", _words(r"combine\w*", r"merge\w*", r"reduce\w*", "reduction", "fixup")),
    ("attention-backward", _words(r"bwd\w*", "backward", r"bprop\w*", "dkdv", "dq", "dk", "dv", "cutlass_b")),
    (
        _DECODE,
        _words(
            "decode",
            "decoding",
            "paged_attention(?:_v[12])?",
            "masked_multi_?head",
            "mmha",
            "xqa",
            r"flash_attn_(?:ext_)?vec\w*",
            "single_query",
            "gen",
            "kernel_mha",
            "kernel_unified_attention_3d",
            "splitkv_mla",
            r"(?:sm\d+_)?fmha_mla",
            "flash_mla",
        ),
    ),
    (_PREFILL, _words(r"prefill\w*", r"(?:persistent_|static_)?context(?:_attention)?", "extend")),
)
"""What else the name of an attention kernel tells of it, the first that fits."""

_PARTS_OF_WORDS = (
    "ccl", "shmem", "deep_ep", "userbuf", "allr", "all_r", "allg", "all_g", "reduce_s", "reduces", "allto", "all_to",
    "cross_d", "multimem", "symm_mem", "quick", "att", "deform", "conv", "grad", "implicit", "im2col", "col2im", "mm",
    "metadata", "norm", "sampl", "repack", "embed", "cache", "concat", "kv", "vllm", "ln_", "moment", "gamma", "rsqrt",
    "rms", "rotary", "rope", "soft", "merge", "stage", "segments", "mla", "flash", "mha", "sdpa", "xqa", "fa2", "fa3",
    "fa4", "dkd", "decod", "scaled_dot", "gating", "moe", "expert", "top", "rout", "expand_input", "ep_", "gemv", "mul",
    "split", "matv", "mat_v", "weight", "marlin", "machete", "allspark", "nvjet", "a_int", "quant", "fp8", "int8",
    "to_fp", "cast_t", "exllama", "elu", "glu", "silu", "act", "swish", "min_p", "arg", "multinomial", "kth", "penalt",
    "image", "img", "jpeg", "pixel", "colo", "hist",
)  # fmt: skip
"""Whatever has one of the words below has one of these: most names have none, and need no pattern."""

_WORDS: tuple[tuple[str, _Words], ...] = (
    # What goes over a block or warp is no exchange with other GPUs.
    ("", _words(r"(?:block|warp|wave|group|thread|lane|cta|cluster)_(?:\w+_)?all_?reduce")),
    (
        COMMUNICATION,
        _words(
            r"nccl\w*",
            r"rccl\w*",
            r"nvshmem\w*",
            r"mscclpp\w*",
            "deep_ep",
            r"userbuffers\w*",
            r"all_?reduce",
            "all_?gather",
            "reduce_?scatter",
            "all_?to_?allv?",
            "cross_device_reduce",
            "multimem",
            "symm_mem",
            "quick_?reduce",
        ),
    ),
    # Convolutions, sparse products, attention of another kind, and what prepares a kernel.
    (
        "",
        _words(
            r"linear_att\w*",
            r"lightning_att\w*",
            r"deform\w*",
            r"conv(?:\d?d)?",
            r"convol\w*",
            "[dw]grad",
            "winograd",
            "implicit",
            "im2col",
            "col2im",
            "spgemm",
            "spmm",
            "metadata",
            r"batch_?norm\w*",
            r"weight_?norm\w*",
            r"upsample\w*",
            r"downsample\w*",
            r"grid_sampl\w*",
            r"repack\w*",
            r"timestep_embed\w*",
            r"(?:attn|attention)_mask\w*",
            r"gather_(?:\w+_)?cache\w*",
            r"concat_and_(?!cache)\w*",
            "bmm_chunk",
            r"(?:image|jpeg)\w*",
            "img",
            "pixels?",
            "colou?rs?",
            "hist(?:ogram)?s?",
        ),
    ),
    # Writes to the cache, norms and rotary embeddings, with what is fused to them.
    (
        "kv-write",
        _words(
            r"reshape_and_cache",
            "concat_and_cache",
            rf"{_TO_CACHE}_(?:\w+_)?{_CACHE}",
            r"(?:\w+_)?copy_kv",
            rf"{_CACHE}_(?:\w+_)?{_TO_CACHE}",
            r"append_paged_kv\w*",
            "vllm_copy_blocks",
            "process_kv",
            "store_cache",
        ),
    ),
    (
        "norm",
        _words(
            r"rms_?norm\w*",
            r"layer_?norm\w*",
            r"group_?norm\w*",
            "ln_[fb]wd",
            "qk_?norm",
            "norm_f32",
            "add_rms",
            r"fused?_add_norm",
            "gemma_norm",
            "rowwise_moments",
            r"gamma_beta\w*",
            r"fused_(?:\w+_)?mean_(?:\w+_)?rsqrt",
            "normalization",
            "flashinfer_norm",
        ),
    ),
    (
        "rotary",
        _words(
            r"rotary_(?:emb|pos|kernel|fwd|bwd|forward|backward|qk|cos)\w*",
            r"(?:apply|fused|batch)_(?:\w+_)?rotary\w*",
            r"(?:apply|fused|batch|triton|qk?v?|k|neox|mla|norm|yarn|pe)_(?:\w+_)?m?rope",
            r"m?rope_(?:\w+_)?(?:kernel|fwd|bwd|forward|backward|b?f\w*16|f32|neox|norm|quant\w*|inplace|cos\w*|cache|kv"
            r"|emb\w*|vision|multi)",
        ),
    ),
    ("softmax", _words(r"(?:attn|attention|masked|scaled)_(?:\w+_)?soft_?max\w*")),
    # Attention.
    (
        "attention-combine",
        _words(r"(?:\w+_)?merge_(?:attn_)?states?(?:_inplace)?", "fwd_kernel_stage2", "reduce_segments"),
    ),
    (_DECODE, _words("fwd_(?:grouped_)?kernel_stage1", "mla_paged_attention")),
    (_ATTENTION, _ATTENTION_NAME),
    # Mixtures of experts, then other matrix products.
    (
        _ROUTING,
        _words(
            r"(?:top_?k_?)?gating\w*",
            rf"{_EXPERTS}_(?:\w+_)?(?:align|sum|permute|unpermute|gate|top_?k|gather|scatter|sort|reduce"
            r"|combine|dispatch|rout(?:e|ing)|tokens?|counts?|maps?|offsets?|prefix)\w*",
            r"finalize_moe\w*",
            r"grouped_top_?k\w*",
            "group_idx_and_topk_idx",
            "topk_with_k2",
            r"routing_(?:main|indices|init)\w*",
            "expand_input_rows",
            r"count_and_sort_expert\w*",
            r"ep_(?:scatter|gather)\w*",
            "topk_softmax",
            r"moe_soft_?max",
        ),
    ),
    (
        _GROUPED,
        _words(
            r"group(?:ed)?_(?:\w+_)?(?:gemm|mm|matmul|gemv)",
            rf"{_MATRIX}_grouped",
            "fused_moe",
            "fused_experts",
            rf"{_EXPERTS}_(?:\w+_)?(?:marlin|{_MATRIX})",
            rf"(?:marlin|{_MATRIX}|mul_mat_\w+)_(?:\w+_)?{_EXPERTS}",
            r"matmul_ogs\w*",
            "segment_gemm",
            r"bmm_\w+_t\d+x\d+x\d+u?\d?",
            r"marlin_moe\w*",
        ),
    ),
    ("gemm-reduce", _words(r"split_?k_?reduce\w*", "reduce_split_?k")),
    ("gemv", _words(r"[a-z0-9]*gemv\w*", r"mul_mat_vec\w*", "mat_?vec", "weight_only")),
    (
        _QUANTISED,
        _words(
            r"marlin\w*",
            r"machete\w*",
            r"allspark\w*",
            rf"{_MATRIX}_(?:\w+_)?{_NARROW}",
            rf"{_NARROW}_(?:\w+_)?{_MATRIX}",
            r"(?:int|scaled)_mm\w*",
            r"mul_mat_q\w*",
            r"tinygemm\w*",
            r"igemm\w*",
            r"i\d+gemm",
            r"fp[48]gemm\w*",
            rf"block_?scaled?_(?:\w+_)?{_MATRIX}",
            "gemm_half_q_half",
            r"q_?gemm",
            rf"dequant\w*_(?:\w+_)?{_MATRIX}",
            r"nvjet_qq\w*",
            r"fp_?a_int_?b\w*",
        ),
    ),
    (
        _GEMM,
        _words(
            _MATRIX,
            r"nvjet\w*",
            r"mat_?mul\w*",
            r"matrix_mul\w*",
            "addmm",
            "baddbmm",
            r"batched_(?:gemm|matmul)",
        ),
    ),
    # Passes over activations.
    ("quantise", _words(r"act(?:ivations?)?_quant\w*", r"per_(?:token|tensor|channel|group)_(?:fp8|int8)")),
    (
        "activation",
        _words(
            r"(?:quick_?|fast_?|new_?)?(?:gelu|silu|swiglu|geglu|reglu)\w*",
            "swish",
            "act_and_mul",
            r"(?:gated_)?activations?",
            "glu",
        ),
    ),
    (
        "sampling",
        _words(
            "top_?[kp]",
            "min_p",
            r"arg_?max",
            r"multinomial",
            "[sm]b_?topk",
            r"radix_find_kth\w*",
            r"(?:repetition|presence|frequency|logits?|tokens?|sampling|apply)_(?:\w+_)?penalt(?:y|ies)",
            r"penalt(?:y|ies)_(?:\w+_)?(?:logits?|tokens?)",
            r"(?:token|logits?|probs?|rejection|recovered|greedy|speculative|gumbel)_(?:\w+_)?sampl\w*",
            r"sampl\w*_(?:\w+_)?(?:probs?|logits?|tokens?)",
            "flashinfer_sampling",
            "sampling_from_prob",
        ),
    ),
    ("softmax", _words(r"(?:log_?)?soft_?max\w*")),
    ("embedding", _words(r"embeddings?\w*", r"embed_tokens")),
    (
        "quantise",
        _words(
            "(?:de|re)?quant",
            r"(?:de|re)?quanti[sz](?:e|ation)",
            r"(?:scaled_)?(?:fp8|int8)_quant\w*",
            r"cvt_\w*to_fp[48]",
            r"cast_transpose\w*",
            "to_fp[48]",
            r"reconstruct_exllama\w*",
        ),
    ),
)
"""What the words of a name tell, the first that fits: a fused kernel is of the kind of its main part."""
