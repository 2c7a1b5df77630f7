"""Kinds of kernels of language models: which names and operators tell one, and what the diagnosis makes of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gpuprof.diagnose import kinds
from gpuprof.diagnose.registry import RULES
from gpuprof.model.kernel_kinds import FEW_ROWS, KINDS, kernel_kind, kind_by_name
from gpuprof.model.session import RooflinePoint
from gpuprof.words.wording import wording
from tests import hand_made
from tests.kernels import DURATION, WAVES, Values, busy, lasting, made, operations, pipes, session, stalls
from tests.rule_examples import HALF_OCCUPANCY
from tests.table import each_row
from tests.test_timeline import kernel as activity
from tests.test_timeline import session as traced
from tests.test_timeline import trace

DATA = Path(__file__).parent / "data"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
RULE_IDS = {rule.id for rule in RULES}
FP32_HALF = operations(ffma=3.456e9, fadd=0, fmul=0)
"""2 · 3.456e9 FLOP in 1 ms: half of 13.824 TFLOP/s."""


def names_of_kinds() -> Iterator[tuple[str, str]]:
    kind = ""
    for line in (DATA / "kernel_kinds.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            yield kind, line.strip()
        elif line and not line.startswith("#"):
            kind = line


def test_names_of_public_libraries_tell_their_kind() -> None:
    told = list(names_of_kinds())
    assert {name: kind_by_name(name) for _, name in told} == {
        name: None if kind == "-" else kind for kind, name in told
    }
    # Every kind has a name that identifies it, except those that only shapes identify.
    assert {kind for kind, _ in told} - {"-"} == set(KINDS) - {"gemm-low-reuse"}
    assert {rule for rules in kinds._HELPED.values() for rule in rules} <= RULE_IDS
    assert kinds._USUAL_CHANGES.keys() <= KINDS.keys() and kinds._FOR_EXCHANGE <= RULE_IDS
    # The action of each other rule on a kernel changes its code or launch.
    of_kernels = {rule.id for rule in RULES if not rule.of_run}
    assert of_kernels - kinds._FOR_USERS == {
        "latency-bound", "tail-effect", "load-imbalance", "low-occupancy", "block-size", "short-blocks", "small-grid",
        "memory-latency", "dependency-latency", "barrier-wait", "instruction-fetch", "constant-miss",
        "branch-divergence", "uncoalesced-global", "narrow-access", "shared-bank-conflict", "shared-bandwidth",
        "l1-bandwidth", "l2-bandwidth", "dram-bandwidth", "local-memory-spill", "non-fused-fp", "reduction-tree",
        "issue-bound", "integer-bound", "fp32-compute-bound", "special-function-bound",
    }  # fmt: skip
    assert of_kernels >= kinds._FOR_USERS
    assert all(action in wording(rule).action for rule, action in kinds._ACTIONS_FOR_USERS)


def test_names_of_other_programs_tell_none() -> None:
    lines = (DATA / "kernel_names.txt").read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if line and not line.startswith(("#", "_Z"))]
    kinds_told = {name: kind_by_name(name) for name in names}
    # PyTorch, XGBoost and bitsandbytes: 45 of 295 names are of a kind, such as softmax, norms and 4-bit GEMM.
    assert sum(kind is not None for kind in kinds_told.values()) == 45
    assert not any(kinds_told[name] for name in names if "conv" in name or "xgboost" in name or "cub::Device" in name)
    for name in (
        "jpeg_quantization_kernel", "penalty_method_step", "penalties_contact", "rotary_engine_sim", "rope_simulation",
        "color_lookup_table_kernel", "image_normalization_kernel", "attention_span_hist",
    ):  # fmt: skip
        assert kind_by_name(name) is None


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


@each_row(("operator", "kind"), [
    (f"aten::mm [{FEW_ROWS - 1}, 1000]×[1000, 2048]", "gemm-low-reuse"),
    (f"aten::mm [{FEW_ROWS}, 1000]×[1000, 2048]", "gemm"),
    # Few columns are the same the other way round.
    ("aten::addmm [4096, 1000]×[1000, 8]", "gemm-low-reuse"),
    # 2 · 16 rows of one weight matrix.
    ("aten::linear [2, 16, 1024]×[4096, 1024]", "gemm-low-reuse"),
    ("aten::linear [2, 512, 1024]×[4096, 1024]", "gemm"),
    # Each of 128 products has 16 rows, and a matrix of its own.
    ("aten::bmm [128, 16, 64]×[128, 64, 512]", "gemm-low-reuse"), ("aten::mm", "gemm"), ("aten::mm [4]×[4]", "gemm"),
])  # fmt: skip
def test_a_product_with_a_short_side_has_little_reuse(operator: str, kind: str) -> None:
    assert kind_in("ampere_bf16_s16816gemm_bf16_128x64_tn", operator) == kind


def point(path: str, bound: str) -> RooflinePoint:
    return RooflinePoint(path=path, level="dram", intensity=40.0, flop_per_s=1e13, roof_flop_per_s=4e13,
                         fraction_of_roof=0.25, ceiling="at-clock", bound=bound)  # type: ignore[arg-type]  # fmt: skip


@each_row(("path", "bound", "kind"), [
    ("tensor.bf16", "memory", "gemm-low-reuse"), ("tensor.bf16", "compute", "gemm"), ("fp32", "memory", "gemm"),
])  # fmt: skip
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
    kind_by_name(word * 5_000)
    assert time.process_time() - started < 2.5


def test_communication_is_not_told_to_fill_the_gpu() -> None:
    # 16 of 108 SMs, as NCCL takes: others compute beside it.
    few = made(busy(dram=20, sm=5), lasting(), stalls(long_scoreboard=80), grid=(16, 1, 1))
    assert few.findings("small-grid")
    assert replace(few, name=NCCL).profile().findings == ()
    short = made({DURATION: 2e-6}, grid=(16, 1, 1), name=NCCL)
    assert [finding.rule for finding in short.profile().findings] == ["short-kernel"]
    # A reduction within one GPU has the same name as an exchange; a kernel that fills a unit is reported as such.
    assert made(busy(dram=90, l2=40), lasting(), name="all_reduce").findings("dram-bandwidth")
    waiting = made(busy(dram=40, l2=20), stalls(long_scoreboard=80), lasting(), name="all_reduce")
    assert waiting.profile().findings == ()
    verdict = session(made(busy(dram=20, sm=5), lasting(), grid=(16, 1, 1), name=NCCL)).verdict
    assert verdict is not None and (verdict.state, verdict.command) == ("open", None)


@each_row(("name", "dram", "speaks"), [
    ("my_gemm", 20, True), ("softmax_rows", 20, False),
    # A GEMV at 90 % of DRAM gains nothing from tensor cores; one that DRAM does not limit can.
    ("gemv_rows", 90, False), ("gemv_rows", 20, True), ("vec_add", 20, True),
])  # fmt: skip
def test_tensor_cores_are_asked_only_of_what_could_use_them(name: str, dram: float, speaks: bool) -> None:
    launch = made(busy(dram=dram), pipes(tensor=0), lasting(), FP32_HALF, name=name)
    assert bool(launch.findings("tensor-cores-idle")) is speaks


def test_the_verdict_on_communication_says_what_runs_beside_it() -> None:
    # 100 µs of exchange, the last 40 of them beside a product.
    verdict = traced(trace(activity(NCCL, 0, 100), activity("my_gemm", 60, 50))).verdict
    assert verdict is not None and "60 % of the communication" in verdict.sentence


def test_a_backward_pass_is_not_advised_what_helps_the_forward_one() -> None:
    waiting = made(busy(dram=40, l2=20), stalls(long_scoreboard=80), lasting())
    for name, is_forward in (("rms_norm_kernel", True), ("rms_norm_backward_kernel", False), ("layer_norm_bwd", False)):
        (finding,) = replace(waiting, name=name).findings("memory-latency")
        assert ("kinds/norm-fuse" in finding.cases.advice) is is_forward, name


SGEMM, COPY = "ampere_sgemm_128x64_nn", "void at::native::elementwise_kernel<128, 4, copy>(int)"
IN_FLIGHT = (busy(dram=70, l2=20, sm=20), lasting(), stalls(long_scoreboard=60))
FULL_DRAM = (busy(dram=95, l2=20, sm=20), lasting())


@each_row(
    ("name", "metrics", "rule", "action"),
    [
        ("copy_rows", IN_FLIGHT, "dram-bandwidth", "few-in-flight"),
        (SGEMM, IN_FLIGHT, "dram-bandwidth", "kinds/another-algorithm"),
        (COPY, IN_FLIGHT, "dram-bandwidth", "kinds/operation"),
        # Fusion and narrower types are up to the user of a library.
        (SGEMM, FULL_DRAM, "dram-bandwidth", "main"),
        (COPY, FULL_DRAM, "dram-bandwidth", "main"),
        (SGEMM, (pipes(fma=70),), "fp32-compute-bound", "kinds/another-algorithm"),
        (COPY, (pipes(xu=70),), "special-function-bound", "kinds/operation"),
        ("void at::elementwise_kernel<128, 4>(int)", IN_FLIGHT, "dram-bandwidth", "kinds/operation"),
        (SGEMM, (busy(l2=80, dram=10, sm=20), lasting()), "l2-bandwidth", "kinds/another-algorithm"),
        # More warps are of no use beside a full unit: nothing to change.
        (SGEMM, (busy(sm=88), pipes(fma=88), HALF_OCCUPANCY, {WAVES: 8.0}), "low-occupancy", "unit-full"),
        (SGEMM, (busy(sm=20, memory=20), HALF_OCCUPANCY, {WAVES: 8.0}), "low-occupancy", "kinds/another-algorithm"),
    ],
)  # fmt: skip
def test_users_of_a_library_are_not_advised_to_change_its_code(
    name: str, metrics: tuple[Values, ...], rule: str, action: str
) -> None:
    (found,) = made(*metrics, name=name).findings(rule)
    assert found.cases.action[0] == action
