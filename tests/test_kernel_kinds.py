"""Kinds of kernels of language models: which names and operators tell one, and what the diagnosis makes of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gpuprof.diagnose import kinds
from gpuprof.diagnose.registry import rule_named
from gpuprof.diagnose.summary import summarised
from gpuprof.hardware.library import SpecLibrary, load_gpu
from gpuprof.model import kernel_kinds
from gpuprof.model.kernel_kinds import FEW_ROWS, KINDS, kernel_kind, kind_by_name, kind_named
from gpuprof.model.session import RooflinePoint
from gpuprof.model.trace import is_communication
from gpuprof.present.console_kernel import kernel_lines
from gpuprof.present.console_parts import Sheet
from gpuprof.present.page.parts import LabelledText
from gpuprof.present.page.section import kernel_section
from tests import hand_made
from tests.kernels import DURATION, busy, lasting, made, operations, pipes, session, stalls
from tests.table import each_row
from tests.test_timeline import kernel as activity
from tests.test_timeline import session as traced
from tests.test_timeline import trace

DATA = Path(__file__).parent / "data"
DECODE = "void vllm::paged_attention_v1_kernel<unsigned short, (int)128>(T1 *)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
FP32_HALF = operations(ffma=3.456e9, fadd=0, fmul=0)
"""2 · 3.456e9 FLOP in 1 ms: half of 13.824 TFLOP/s."""


def names_of_kinds() -> Iterator[tuple[str, str]]:
    kind = ""
    for line in (DATA / "kernel_kinds.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            yield kind, line.strip()
        elif line and not line.startswith("#"):
            kind = line


@each_row("kind", sorted({kind for kind, _ in names_of_kinds()}))
def test_names_of_public_libraries_tell_their_kind(kind: str) -> None:
    names = [name for known, name in names_of_kinds() if known == kind]
    assert {name: kind_by_name(name) for name in names} == dict.fromkeys(names, None if kind == "-" else kind)


def test_every_kind_has_a_name_that_tells_it_but_what_only_shapes_tell() -> None:
    assert {kind for kind, _ in names_of_kinds()} - {"-"} == set(KINDS) - {"gemm-low-reuse"}


def test_names_of_other_programs_tell_none() -> None:
    lines = (DATA / "kernel_names.txt").read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if line and not line.startswith(("#", "_Z"))]
    kinds_told = {name: kind_by_name(name) for name in names}
    # PyTorch, XGBoost and bitsandbytes: 45 of 295 names are of a kind, such as softmax, norms and 4-bit GEMM.
    assert sum(kind is not None for kind in kinds_told.values()) == 45
    assert not any(kinds_told[name] for name in names if "conv" in name or "xgboost" in name or "cub::Device" in name)


def kind_in(name: str, *ranges: str) -> str | None:
    return kernel_kind(hand_made.kernel(demangled=name, ranges=ranges))


@each_row(
    ("name", "ranges", "kind"),
    [
        ("my_pass", ("aten::native_layer_norm [8, 4096]",), "norm"),
        ("vectorized_gather_kernel", ("model", "aten::embedding"), "embedding"),
        ("run_8", ("_C::rotary_embedding",), "rotary"),
        # What fills and copies does so for any operator.
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, A<char*, 1>>(int, T2)",
         ("aten::embedding",), None),
        ("copy_rows", ("aten::native_layer_norm",), None),
        # Beside its product an operator launches what adds the bias.
        ("add_bias", ("aten::addmm [32, 64]×[64, 128]",), None),
        ("kernel", ("aten::mm [512, 64]×[64, 128]",), "gemm"),
        # A convolution by matrix product is a convolution.
        ("volta_sgemm_64x64_nn", ("aten::cudnn_convolution [32, 64, 56, 56]×[64, 64, 1, 1]",), None),
        # The innermost operator counts, and an operator of many kernels tells none of them.
        ("my_pass", ("aten::softmax", "aten::sum"), None),
        ("my_pass", ("vllm::moe_forward",), None),
    ],
)  # fmt: skip
def test_operators_tell_what_the_name_does_not(name: str, ranges: tuple[str, ...], kind: str | None) -> None:
    assert kind_in(name, *ranges) == kind


@each_row(
    ("operator", "kind"),
    [
        (f"aten::mm [{FEW_ROWS - 1}, 1000]×[1000, 2048]", "gemm-low-reuse"),
        (f"aten::mm [{FEW_ROWS}, 1000]×[1000, 2048]", "gemm"),
        # Few columns are the same the other way round.
        ("aten::addmm [4096, 1000]×[1000, 8]", "gemm-low-reuse"),
        # 2 · 16 rows of one weight matrix.
        ("aten::linear [2, 16, 1024]×[4096, 1024]", "gemm-low-reuse"),
        ("aten::linear [2, 512, 1024]×[4096, 1024]", "gemm"),
        # Each of 128 products has 16 rows, and a matrix of its own.
        ("aten::bmm [128, 16, 64]×[128, 64, 512]", "gemm-low-reuse"),
        ("aten::mm", "gemm"),
        ("aten::mm [4]×[4]", "gemm"),
    ],
)
def test_a_product_with_a_short_side_has_little_reuse(operator: str, kind: str) -> None:
    assert kind_in("ampere_bf16_s16816gemm_bf16_128x64_tn", operator) == kind


def test_few_rows_leave_the_tensor_cores_of_every_product_idle() -> None:
    library = SpecLibrary()
    for path in library.gpu_files():
        rated = load_gpu(path).rated
        dram = [fact.value for key, fact in rated.items() if key.path == "dram"]
        tensor = [fact.value for key, fact in rated.items() if key.path in ("tensor.fp16", "tensor.bf16")]
        assert not dram or not tensor or min(tensor) / dram[0] > FEW_ROWS, path


def point(path: str, bound: str) -> RooflinePoint:
    return RooflinePoint(path=path, level="dram", intensity=40.0, flop_per_s=1e13, roof_flop_per_s=4e13,
                         fraction_of_roof=0.25, ceiling="at-clock", bound=bound)  # type: ignore[arg-type]  # fmt: skip


@each_row(
    ("path", "bound", "kind"),
    [("tensor.bf16", "memory", "gemm-low-reuse"), ("tensor.bf16", "compute", "gemm"), ("fp32", "memory", "gemm")],
)
def test_without_shapes_the_roof_of_the_tensor_cores_tells_reuse(path: str, bound: str, kind: str) -> None:
    assert kernel_kind(hand_made.kernel(demangled="my_gemm", roofline=(point(path, bound),))) == kind


def test_ranges_tell_the_phase_of_attention() -> None:
    name = "void flash::flash_fwd_splitkv_kernel<X>(flash::Flash_fwd_params)"
    assert kind_in(name) == "attention"
    assert kind_in(name, "decode step 7") == "attention-decode"
    assert kind_in(name, "Prefill", "layers.3") == "attention-prefill"
    assert kind_in(name, "prefill and decode") == "attention"
    assert kind_in(name, "decoder.layers.3") == "attention"


@each_row("word", ["moe_", "flash_attn_", "all_", "dequant_", "_", "A", "kv_cache_set_", "bmm_t1x", "_ZN1a"])
def test_long_names_are_read_in_no_time(word: str) -> None:
    started = time.process_time()
    kind_by_name(word * 20_000)
    assert time.process_time() - started < 10


# What follows from a kind.


def test_remedies_are_of_known_kinds_and_rules() -> None:
    assert kinds._REMEDIES.keys() <= KINDS.keys()
    told = {rule for remedies in kinds._REMEDIES.values() for remedy in remedies for rule in remedy.rules}
    assert {rule for rule in told | kinds._OF_LINKS if rule_named(rule) is None} == set()


def test_a_limit_names_what_helps_the_kind() -> None:
    full = made(busy(dram=90, l2=40), lasting())
    assert "FP8 cache" in replace(full, name=DECODE).finding("dram-bandwidth").advice
    assert "fused_add_rms_norm" in replace(full, name="rms_norm_kernel").finding("dram-bandwidth").advice
    assert " For " not in full.finding("dram-bandwidth").advice


def test_few_blocks_of_decode_attention_are_split_over_the_cache() -> None:
    few = made(busy(dram=20, l2=10), lasting(), grid=(8, 1, 1), name=DECODE)
    assert "num_splits" in few.finding("small-grid").advice


def test_communication_is_not_told_to_fill_the_gpu() -> None:
    # 16 of 108 SMs, as NCCL takes: others compute beside it.
    few = made(busy(dram=20, sm=5), lasting(), stalls(long_scoreboard=80), grid=(16, 1, 1))
    assert few.findings("small-grid")
    assert replace(few, name=NCCL).profile().findings == ()
    short = made({DURATION: 2e-6}, grid=(16, 1, 1), name=NCCL)
    assert [finding.rule for finding in short.profile().findings] == ["short-kernel"]


def test_what_is_called_an_exchange_and_fills_a_unit_is_told_so() -> None:
    # A sum over blocks of one GPU has the same name.
    assert made(busy(dram=90, l2=40), lasting(), name="all_reduce").findings("dram-bandwidth")
    waiting = made(busy(dram=40, l2=20), stalls(long_scoreboard=80), lasting(), name="all_reduce")
    assert waiting.profile().findings == ()


@each_row(
    ("name", "dram", "speaks"),
    [
        ("my_gemm", 20, True),
        ("softmax_rows", 20, False),
        # A GEMV at 90 % of DRAM gains nothing by tensor cores; one that DRAM does not hold up can.
        ("gemv_rows", 90, False),
        ("gemv_rows", 20, True),
        ("vec_add", 20, True),
    ],
)
def test_tensor_cores_are_asked_only_of_what_could_use_them(name: str, dram: float, speaks: bool) -> None:
    launch = made(busy(dram=dram), pipes(tensor=0), lasting(), FP32_HALF, name=name)
    assert bool(launch.findings("tensor-cores-idle")) is speaks


# What is shown of a kind.


def sentence(name: str, **percent: float) -> str:
    verdict = session(made(busy(**percent), lasting(), grid=(8, 1, 1), name=name)).verdict
    assert verdict is not None
    return verdict.sentence


def test_the_verdict_names_the_kind_and_what_binds_it() -> None:
    assert sentence(DECODE, sm=30, dram=20, l2=10) == (
        "vllm paged_attention_v1_kernel<ushort, 128> (decode attention) does not fill the GPU: small grid. The "
        "busiest unit that was collected is 30 % busy; L1 was not collected. Kernels of its kind are memory-bound: it "
        "reaches 20 % of DRAM bandwidth."
    )
    # Where L2 is busier, most bytes do not come from DRAM.
    assert "Kernels of its kind" not in sentence(DECODE, sm=40, dram=20, l2=30)
    assert "Kernels of its kind" not in sentence("kernel", sm=30, dram=20, l2=10)


def test_the_verdict_on_communication_is_of_links() -> None:
    verdict = session(made(busy(dram=20, sm=5), lasting(), grid=(16, 1, 1), name=NCCL)).verdict
    assert verdict is not None and (verdict.state, verdict.command) == ("open", None)
    assert verdict.sentence.endswith("exchanges data with other GPUs: the links and the other ranks set its time.")


def test_the_verdict_on_communication_says_what_runs_beside_it() -> None:
    # 100 µs of exchange, the last 40 of them beside a product.
    ran = trace(activity(NCCL, 0, 100), activity("my_gemm", 60, 50))
    verdict = traced(ran).verdict
    assert verdict is not None and verdict.sentence.endswith(
        "the links and the other ranks set its time. 60 % of the communication time is exposed: no other kernel runs "
        "meanwhile."
    )


def test_the_time_is_told_by_kind_where_most_of_it_is_of_known_ones() -> None:
    shares = {"gemm": 0.5, "attention-decode": 0.2, "norm": 0.1, None: 0.2}
    kernels = [hand_made.kernel(number, kind=kind, time_share=share, label=str(kind))
               for number, (kind, share) in enumerate(shares.items())]  # fmt: skip
    verdict = summarised(hand_made.session(*kernels)).verdict
    assert verdict is not None
    assert verdict.notes == ("By kind: GEMM 50 %, decode attention 20 %, normalisation 10 %, others 20 %.",)
    few = summarised(
        hand_made.session(*(structs.replace(kernel, kind=None) for kernel in kernels[:1]), *kernels[1:])
    ).verdict
    assert few is not None and few.notes == ()


def test_terminal_and_page_say_the_kind_beside_the_name() -> None:
    kernel = hand_made.kernel(kind="kv-write")
    assert "kind" in (lines := "\n".join(str(line) for line in kernel_lines(kernel, Sheet(100), whole=False)))
    assert "KV-cache write" in lines
    assert LabelledText("Kind", "KV-cache write") in kernel_section(hand_made.session(kernel), kernel, "at-clock").facts


def test_a_kind_that_this_version_does_not_know_is_shown_as_none() -> None:
    kernel = hand_made.kernel(kind="of-tomorrow")
    assert kind_named(kernel.kind) is None
    assert (
        LabelledText("Kind", "of-tomorrow") not in kernel_section(hand_made.session(kernel), kernel, "at-clock").facts
    )


def test_a_library_s_own_all_reduce_is_communication_of_a_timeline() -> None:
    assert is_communication("void vllm::cross_device_reduce_2stage<__nv_bfloat16, (int)8>(T1)")
    assert is_communication("ncclDevKernel_X") and is_communication("nvshmemi_barrier")
    assert not is_communication("block_all_reduce_sum")


@each_row("patterns", [kind.alternatives for _, kind in kernel_kinds._WORDS], ids=lambda patterns: patterns[0])
@given(data=st.data())
@settings(max_examples=6)
def test_every_word_of_a_kind_has_one_of_the_parts_that_are_looked_for_first(
    patterns: tuple[str, ...], data: st.DataObject
) -> None:
    for pattern in patterns:
        text = data.draw(st.from_regex(pattern, fullmatch=True))
        assert any(part in text for part in kernel_kinds._PARTS_OF_WORDS), text


@each_row(
    "name",
    [
        "jpeg_quantization_kernel", "penalty_method_step", "penalties_contact", "rotary_engine_sim", "rope_simulation",
        "color_lookup_table_kernel", "image_normalization_kernel", "attention_span_hist",
    ],
)  # fmt: skip
def test_kernels_of_other_fields_have_no_kind(name: str) -> None:
    assert kind_by_name(name) is None
