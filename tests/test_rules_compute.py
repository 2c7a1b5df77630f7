"""Rules on arithmetic: which pipe is the limit, what its fix leaves, and when they say nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuprof.annotated.counts import EXECUTED
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import Location
from tests.kernels import (
    Histograms,
    Made,
    Program,
    busy,
    issued,
    lasting,
    made,
    operations,
    pipe_metric,
    pipes,
)  # fmt: skip
from tests.rule_examples import (
    COMPUTE,
    DIVIDES,
    FP32_HALF,
    Judged,
    On,
    check_row,
    said,
    says,
    silent,
)  # fmt: skip
from tests.table import each_row

FP64, FP32, INTEGER, SPECIAL, TENSOR = (
    f"{name}-bound" for name in ("fp64", "fp32-compute", "integer", "special-function", "tensor-compute")
)
SLOTS, IDLE, FUSING = "issue-bound", "tensor-cores-idle", "non-fused-fp"
V100, T4, TURING = ("Tesla V100-SXM2-16GB", "7.0", 80), ("Tesla T4", "7.5", 40), ("GeForce RTX 2080 Ti", "7.5", 68)
A10G, RTX_3090 = ("NVIDIA A10G", "8.6", 80), ("NVIDIA GeForce RTX 3090", "8.6", 82)
SM_BUSY = made(busy(sm=70, dram=20))
IMADS = made(busy(sm=75), pipes(fma=75), histograms={WARP_OPCODES: {"IMAD.WIDE": 40.0, "IMAD": 20.0, "FFMA": 40.0}})
CONSTANTS: Histograms = {WARP_OPCODES: {"FFMA": 900.0, "DMUL": 30.0, "F2F.F64.F32": 30.0}}
SORTS: Histograms = {WARP_OPCODES: {"ISETP.GT": 30.0, "SEL": 30.0, "SHFL": 15.0, "IADD3": 20.0, "LDS": 5.0}}
RANDOM = "void at::native::distribution_elementwise_grid_stride_kernel<float, 4>(int)"
FP32_QUARTER = operations(ffma=1.728e9, fadd=0, fmul=0)
OTHER_PIPES = pipes(alu=5, fma=5, xu=5, fp64=0, tensor=0)
MOSTLY_ACTIVE = {"sm__cycles_active.avg": 0.95e6, "sm__cycles_elapsed.max": 1e6}
ALONE = made(pipes(fma=80), operations(ffma=0, fadd=50, fmul=50))
GEMM = made(busy(sm=91, memory=15), issued(3.3), MOSTLY_ACTIVE, name="gemm_kernel")
TENSOR_NAMES = ("turing_fp16_s1688gemm_fp16_256x128_ldg8_relu_f2f_tn", "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT")


def fp64(**opcodes: float) -> Made:
    executed: Histograms = {WARP_OPCODES: {name.replace("_", "."): count for name, count in opcodes.items()}}
    return made(pipes(fp64=80), histograms=executed)


HALVES = {f"sm__pipe_fma{half}_cycles_active.avg.pct_of_peak_sustained_elapsed": busy
          for half, busy in (("heavy", 44.0), ("lite", 68.0))}  # fmt: skip


def of_kinds(integers: float) -> Histograms:
    """100 instructions: so many integers, 20 multiply-adds and for the rest loads."""
    return {WARP_OPCODES: {"IMAD": integers, "FFMA": 20.0, "LDS": 80.0 - integers}}


def product(ffma: float, name: str = "my_gemm") -> Made:
    return made(pipes(tensor=0), lasting(), operations(ffma=ffma, fadd=0, fmul=0), name=name)


def half_tensor(opcode: str = "") -> Made:
    opcodes: Histograms = {WARP_OPCODES: {opcode: 100.0, "FFMA": 10.0}} if opcode else {}
    return made(pipes(tensor=48, alu=10), histograms=opcodes)


def test_packed_products_are_integers_that_compare_and_select_nothing() -> None:
    # 200 of the 800 integer instructions are comparisons; IDP multiplies and adds.
    counts: dict[str | int, float] = {"IDP.4A.S8.S8": 600.0, "LDG.E": 200.0, "ISETP.GE.AND": 200.0}
    launch = made(pipes(alu=90, fma=40), busy(sm=90, memory=10), issued(60), histograms={WARP_OPCODES: counts})
    assert said(launch, INTEGER).amount("data") == 0.25


@each_row(
    ("launch", "rule", "expected"),
    [
        # A busy SM without pipes is a guess.
        says("no pipes", SM_BUSY, SLOTS, 0.3, "not collected", confidence="guess", severity="low", kind="conditional"),
        silent("59 %", made(busy(sm=59, dram=20)), SLOTS),
        silent("memory is busier", made(busy(sm=70, dram=80)), SLOTS),
        silent("the load/store unit is part of the SM", made(busy(sm=70, memory=69)), SLOTS),
        silent("FP32 work", made(busy(sm=70), lasting(), FP32_HALF), INTEGER, SLOTS),
        says("FP32 work", made(busy(sm=70), lasting(), FP32_HALF), FP32, 0.3, confidence="guess"),

        # 3 · 7 of 100 are divisions, and half of the others' time stays.
        says("few divisions", fp64(DFMA=97.0, DADD=3.0, MUFU_RSQ64H=3.0), FP64, 1 - 0.8 * 0.79 / 2,
             evidence={WARP_OPCODES: 21.0}),
        # Constants in FP64: 30 of 930 floating-point instructions keep the few units of FP64 busy for 41 % of the time.
        says("constants", On(made(pipes(fp64=41, fma=20), histograms=CONSTANTS), *RTX_3090), FP64, 0.41, "FP32 kernel",
             confidence="inferred", kind="conditional"),
        # Other instructions stay: 80 % of the ALU.
        says("a fuller pipe", On(made(pipes(fp64=41, alu=80), histograms=CONSTANTS), *RTX_3090), FP64, 0.2),
        silent("an A100 has many units", made(pipes(fp64=41, fma=20), histograms=CONSTANTS), FP64),
        silent("no FP32 work is known", On(made(pipes(fp64=41, fma=20)), *RTX_3090), FP64),
        # Narrower data take fewer bytes.
        *(says("narrower data", made(pipes(**{pipe: 65}), busy(dram=75, l2=10, sm=65), lasting()), rule, 0.25,
               kind="conditional") for rule, pipe in ((FP64, "fp64"), (TENSOR, "tensor"), (FP32, "fma"))),

        silent("integers on the FMA pipe", IMADS, FP32),
        # Halves of the FMA pipe, 68 and 44 %, are its 56 %: FP32 limits a busy SM.
        says("a busier half", On(made(busy(sm=69), OTHER_PIPES, pipes(fma=56), HALVES), *A10G), FP32, 0.31, "56 %",
             confidence="inferred"),
        # A pipe of a busy SM is its limit only if no other one can be busier.
        says("other pipes are unknown", made(busy(sm=66), pipes(tensor=54)), TENSOR, 0.34, "54 %", confidence="guess"),
        says("no pipe is busier than the SM", made(busy(sm=60), pipes(tensor=59)), TENSOR, 0.4, confidence="inferred"),
        says("other pipes are unknown", made(busy(sm=70, dram=20), pipes(fp64=54)), FP64, 1 - 0.54 / 2,
             confidence="guess"),
        # 60 of 80 integer instructions compare and select: a sort computes no indices.
        says("a sort", made(busy(sm=70), pipes(alu=69), histograms=SORTS), INTEGER, 1.0,
             evidence={pipe_metric("alu"): 69.0}),
        # Fewer passes or values move fewer bytes, too; simpler indices do not.
        says("a sort reads its data", made(busy(sm=80, dram=60), pipes(alu=80), histograms=SORTS), INTEGER, 0.4,
             kind="conditional"),
        says("random numbers are written", replace(made(busy(sm=80, dram=60), pipes(alu=80)), name=RANDOM), INTEGER,
             0.4, kind="conditional"),
        says("indices move no bytes", made(busy(sm=80, dram=60), pipes(alu=80)), INTEGER, 0.4, kind="bound"),
        # Random numbers are integer work by design.
        says("random numbers", replace(made(busy(sm=70), pipes(alu=69)), name=RANDOM), INTEGER, 1.0, severity="info"),
        # 75 % of the slots while SMs work, for 95 % of the time: 60 of 100 instructions are integers and go, or 20.
        says("slots full of integers", made(issued(75), MOSTLY_ACTIVE, pipes(alu=45, fma=30), busy(dram=20),
             histograms=of_kinds(60)), INTEGER, 1 - 0.4 * 0.75 * 0.95, "60 % of the instructions"),
        says("slots full of loads", made(issued(75), MOSTLY_ACTIVE, OTHER_PIPES, busy(dram=20),
             histograms=of_kinds(20)), SLOTS, 1 - 0.75 * 0.95, "60 % of the instructions are loads",
             confidence="measured"),
        # The FMA pipe of an FP32 kernel may be as full.
        says("slots without all pipes", made(issued(75), MOSTLY_ACTIVE, pipes(alu=45)), SLOTS, 1 - 0.75 * 0.95,
             confidence="guess", severity="low"),
        silent("slots full of integers", made(issued(75), MOSTLY_ACTIVE, histograms=of_kinds(60)), SLOTS),
        silent("memory is as busy", made(issued(75), MOSTLY_ACTIVE, busy(dram=72)), SLOTS),
        silent("59 % of the slots", made(issued(62), MOSTLY_ACTIVE), SLOTS, INTEGER),
        says("near its ceiling", made(issued(90), MOSTLY_ACTIVE, pipes(alu=50)), SLOTS, 1 - 0.9 * 0.95,
             "near its ceiling", severity="info"),

        # A busy load/store unit does not hide full issue slots.
        says("full issue slots", made(busy(sm=75), OTHER_PIPES, pipes(fma=56, lsu=64)), FP32, 0.25, "56 %",
             confidence="inferred"),

        says("the pipe is unknown", made(operations(ffma=60, fadd=30, fmul=10)), FUSING, None, severity="info"),
        says("all stands alone", ALONE, FUSING, 0.5 * 0.8),

        silent("tensor cores work", made(pipes(tensor=20), lasting(), FP32_HALF), IDLE),
        # 2 · 2.176e9 FLOP in 1 ms of 68 SMs · 128 · 1 GHz: half of the FP32 peak. Tensor cores of a T4 have 8 times its
        # rate, those of other cards 4 times with sums in FP32.
        *(says("Turing with tensor cores", On(product(2.176e9), name, "7.5", 68), IDLE, 1 - 0.5 / times)
          for name, times in (("NVIDIA GeForce RTX 2080 Ti", 4), ("Tesla T4", 8), ("Some RTX card", 4))),
        *(silent("Turing without", On(product(2.176e9), name, "7.5", 68), IDLE)
          for name in ("NVIDIA GeForce GTX 1660 Ti", "NVIDIA GeForce GTX 1650", "NVIDIA T400", "")),

        # Arithmetic is 25 % of its peak, an eighth of that in TF32. With the same reuse the busier L1 stays.
        says("L1 is the limit", made(pipes(tensor=0), busy(l1=85, sm=85), lasting(), FP32_QUARTER, name="my_gemm"),
             IDLE, 0.15, severity="info", kind="conditional"),
        # It feeds arithmetic of 50 %, which takes wider accesses on tensor cores: that is an assumption, too.
        says("L1 feeds the arithmetic", made(pipes(tensor=0), busy(l1=85, sm=85), lasting(), FP32_HALF, name="my_gemm"),
             IDLE, 1 - 0.5 / 8, severity="high", kind="conditional"),

        # If FP32 accumulation has half the rate, half of the pipe is the roof.
        says("half of the rate", On(half_tensor("HMMA.16816.F32.BF16"), *RTX_3090), TENSOR, 1 - 0.48 / 0.5, "50 %",
             severity="info", kind="conditional"),
        silent("an A100 has the full rate", half_tensor("HMMA.16816.F32.BF16"), TENSOR),
        # An SM that is busy with hardly an instruction multiplies matrices.
        says("an instruction in 29 cycles", GEMM, TENSOR, 0.09, "29 cycles", confidence="inferred", severity="info"),
        # FP64 takes as long on a GPU with few units of it.
        says("or FP64", On(GEMM, *RTX_3090), TENSOR, 0.09, "FP64", confidence="guess", severity="info"),
        silent("an instruction in 29 cycles", GEMM, FP32, SLOTS),
        # On Turing, the longest matrix instruction takes 16 cycles of a scheduler: 2048 FLOP at 128 FLOP a cycle.
        says("only FP64", On(GEMM, *T4), FP64, 1 - 0.91 / 32, "29 cycles", confidence="inferred", severity="high"),
        silent("only FP64", On(GEMM, *T4), TENSOR, FP32, SLOTS),
        silent("FP64 is idle", On(GEMM.plus(pipes(fp64=10)), *T4), FP64),
        # The 32 cycles of GeForce cards of Ampere could be products.
        silent("or FP64", On(GEMM, *RTX_3090), FP64),
        says("a wmma name", On(replace(GEMM, name=TENSOR_NAMES[0]), *T4), TENSOR, 0.09, "29 cycles"),
        # The name reveals matrix instructions if nothing else does.
        *(says("by its name", made(busy(sm=74, memory=38), name=name), TENSOR, 0.26, "74 %", confidence="guess")
          for name in TENSOR_NAMES),
        *(silent("by its name", made(busy(sm=74, memory=38), name=name), FP32, SLOTS) for name in TENSOR_NAMES),
    ],
)  # fmt: skip
def test_rules_on_arithmetic(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


def test_an_unknown_pipe_is_not_advised_simpler_indices() -> None:
    # The opcodes are integers, but what keeps the SM busy is unknown.
    launch = replace(SM_BUSY, histograms={WARP_OPCODES: {"IMAD": 60.0, "FFMA": 40.0}})
    assert launch.finding(SLOTS).cases.advice == ("unknown",)


def test_full_pipes_are_roofs_of_what_cannot_be_avoided() -> None:
    examples = {(example.rule, example.what): example.launch for example in COMPUTE}
    for what in ("near its ceiling", "full of little work"):
        assert examples[FP32, what].finding(FP32).gain_kind == "conditional"
    for rule in (INTEGER, SPECIAL):
        assert examples[rule, "full"].finding(rule).severity == "high"


# Divisions are located where they run, not where most FP64 work is.


def division_at(
    *code: tuple[str, int | None, float], machine_code: bytes = b"", gap_before: int = 0
) -> Location | None:
    """Where divisions of a full FP64 pipe are: its instructions with their lines and how often they run.

    From `gap_before` on they lie elsewhere: a function that is called comes first.
    """
    pcs = [16 * place + (4096 if place >= gap_before else 0) for place in range(len(code))]
    items = tuple(
        ProfiledInstruction(pc, sass, "flux.f90" if line else None, line, {EXECUTED: runs})
        for pc, (sass, line, runs) in zip(pcs, code, strict=True)
    )
    runs: Histograms = {EXECUTED: {item.pc: item.counts[EXECUTED] for item in items}, **DIVIDES}
    launch = made(pipes(fp64=80), histograms=runs, details=Program(items, machine=machine_code))
    return launch.finding(FP64).place


def encoded(lower: int, upper: int = 0) -> bytes:
    return lower.to_bytes(8, "little") + upper.to_bytes(8, "little")


def test_divisions_are_told_at_the_line_where_most_of_them_run() -> None:
    place = division_at(
        ("DMUL R2, R4, R6", 288, 500.0), ("MUFU.RCP64H R7, R9", 295, 30.0), ("DFMA R8, R6, R4, R2", 295, 30.0),
        ("MUFU.RSQ64H R7, R9", 297, 10.0), ("MUFU.RCP64H R5, R7", None, 90.0),
    )  # fmt: skip
    # 30 of 40 that have a line: the slow path that all of them call has none.
    assert place is not None and place.line == 295 and place.share == pytest.approx(0.75)


def test_divisions_are_found_by_their_encoding_where_the_report_has_no_text() -> None:
    # As nvdisasm reads them: DMUL, MUFU.RCP64H R7, R9, MUFU.RCP64H R13, 60, MUFU.RCP R5, R4, EXIT, NOP.
    code = b"".join((encoded(0x7228), encoded(0x900077308, 0x4E220000001800), encoded(0x404E0000000D7908, 0x1800),
                     encoded(0x400057308, 0x1000), encoded(0x794D), encoded(0x7918)))  # fmt: skip
    lines = (("", None, 900.0), ("", None, 900.0),  # a function that is called
             ("", 288, 500.0), ("", 295, 30.0), ("", 296, 10.0), ("", 280, 600.0), ("", 301, 5.0))  # fmt: skip
    place = division_at(*lines, machine_code=code, gap_before=2)
    assert place is not None and place.line == 295 and place.share == pytest.approx(0.75)
    # Which run of addresses the machine code is of is not certain.
    assert division_at(*lines, machine_code=code[:64], gap_before=2) is None


A100, L4, H100, B200 = (
    ("NVIDIA A100-SXM4-40GB", "8.0", 108), ("NVIDIA L4", "8.9", 58), ("NVIDIA H100 80GB HBM3", "9.0", 132),
    ("NVIDIA B200", "10.0", 148),
)  # fmt: skip
UNKNOWN = (None, None, None)


@each_row(
    ("gpu", "action", "advice"),
    [
        (V100, "less", ("less",)),
        (T4, "narrower", ("int8", "less")),
        (A100, "narrower", ("int8", "sparsity", "less")),
        (L4, "narrower", ("fp8", "sparsity", "less")),
        (H100, "narrower", ("fp8", "wgmma", "sparsity", "less")),
        (B200, "narrower", ("fp8", "tcgen05", "sparsity", "less")),
        (UNKNOWN, "less", ("less",)),
    ],
)  # fmt: skip
def test_tensor_cores_are_advised_only_what_the_gpu_has(
    gpu: tuple[str | None, str | None, int | None], action: str, advice: tuple[str, ...]
) -> None:
    cases = said(On(made(pipes(tensor=70)), *gpu), "tensor-compute-bound").cases
    assert (cases.action, cases.advice) == ((action,), advice)


@each_row(
    ("opcode", "action", "advice"),
    [
        ("HGMMA.64x256x16.F32", "narrower", ("fp8", "sparsity", "less")),
        ("QGMMA.64x256x32.F32.E4M3.E4M3", "less", ("sparsity", "less")),
    ],
)  # fmt: skip
def test_tensor_cores_are_not_advised_what_the_kernel_has(opcode: str, action: str, advice: tuple[str, ...]) -> None:
    histograms: Histograms = {WARP_OPCODES: {opcode: 50.0, "STG.E": 1.0}}
    cases = said(On(made(pipes(tensor=70), histograms=histograms), *H100), "tensor-compute-bound").cases
    assert (cases.action, cases.advice) == ((action,), advice)


@each_row(
    ("gpu", "advice"),
    [
        (H100, ("main", "packed", "tensor")),
        # Packed FP16 has the rate of FP32.
        (A10G, ("main", "tensor")),
        (("NVIDIA GeForce GTX 1660 Ti", "7.5", 24), ("main", "packed")),
        (UNKNOWN, ("main", "on-any-gpu")),
    ],
)  # fmt: skip
def test_a_type_with_a_higher_rate_is_one_that_the_gpu_has(
    gpu: tuple[str | None, str | None, int | None], advice: tuple[str, ...]
) -> None:
    assert said(On(made(pipes(fma=70)), *gpu), "fp32-compute-bound").cases.advice == advice
