"""Rules on code: each with a kernel that shows its habit, compiled, and near misses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuprof.model.session import Finding
from gpuprof.review.registry import CODE_RULES
from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.sass.instruction import parse_sass
from tests.cuda_tools import needs_cuda_wheels
from tests.reviewed_code import case_of, compiled_cases, told
from tests.table import each_row

LISTINGS = Path(__file__).parent / "data" / "listings"
SOURCE = """
#define KERNEL(name) extern "C" __global__ void name(const float *a, const float *b, float *c, int n, int d)
#define ME (blockIdx.x * blockDim.x + threadIdx.x)
KERNEL(divides) { float s = 0; for (int k = 0; k < n; ++k) s += a[ME + k * 256] / b[ME + k * 256]; c[ME] = s; }
KERNEL(divides_fast) { float s = 0; for (int k = 0; k < n; ++k) s += __fdividef(a[ME + k * 256], b[ME]); c[ME] = s; }
KERNEL(inverts) { float s = 0; for (int k = 0; k < n; ++k) s += 1.0f / a[ME + k * 256]; c[ME] = s; }
KERNEL(inverts_once) {
  const float r = 1.0f / b[ME];
  float s = 0;
  for (int k = 0; k < n; ++k) s += a[ME + k * 256] * r;
  c[ME] = s;
}
KERNEL(roots) { float s = 0; for (int k = 0; k < n; ++k) s += sqrtf(a[ME + k * 256]); c[ME] = s; }
KERNEL(reciprocal_roots) { float s = 0; for (int k = 0; k < n; ++k) s += rsqrtf(a[ME + k * 256]); c[ME] = s; }
KERNEL(sines) { float s = 0; for (int k = 0; k < n; ++k) s += sinf(a[ME + k * 256]); c[ME] = s; }
KERNEL(sines_fast) { float s = 0; for (int k = 0; k < n; ++k) s += __sinf(a[ME + k * 256]); c[ME] = s; }
KERNEL(sines_of_pi) { float s = 0; for (int k = 0; k < n; ++k) s += sinpif(a[ME + k * 256]); c[ME] = s; }
KERNEL(powers) { float s = 0; for (int k = 0; k < n; ++k) s += powf(a[ME + k * 256], b[k]); c[ME] = s; }
KERNEL(exponentials) { float s = 0; for (int k = 0; k < n; ++k) s += expf(a[ME + k * 256]) + logf(b[k]); c[ME] = s; }
KERNEL(remainders) { float s = 0; for (int k = 0; k < n; ++k) s += fmodf(a[ME + k * 256], b[k]); c[ME] = s; }
KERNEL(indexes) { float s = 0; for (int k = 0; k < n; ++k) s += a[(ME + k) / d]; c[ME] = s; }
KERNEL(indexes_by_loaded) { float s = 0; for (int k = 0; k < n; ++k) s += a[(ME + k) % (int)b[k]]; c[ME] = s; }
KERNEL(indexes_by_warps) { float s = 0; for (int k = 0; k < n; ++k) s += a[(ME + k) / warpSize]; c[ME] = s; }
KERNEL(divides_without_loop) { _Pragma("unroll") for (int k = 0; k < 64; ++k) c[ME + k] = a[ME + k] / (b[ME + k]); }
KERNEL(indexes_by_constant) { float s = 0; for (int k = 0; k < n; ++k) s += a[(ME + k) / 7]; c[ME] = s; }
KERNEL(indexes_wide) {
  float s = 0;
  for (long long k = 0; k < n; ++k) s += a[(ME * k) / (long long)b[k]];
  c[ME] = s;
}
KERNEL(literal) { for (int k = 0; k < n; ++k) c[ME + k * 256] = a[ME + k * 256] * 0.1; }
KERNEL(literal_in_fp32) { for (int k = 0; k < n; ++k) c[ME + k * 256] = a[ME + k * 256] * 0.1f; }
KERNEL(compares) { float s = 0; for (int k = 0; k < n; ++k) if (a[ME + k * 256] > 0.1) s += 2; c[ME] = s; }
KERNEL(sums_in_fp64) { double s = 0; for (int k = 0; k < n; ++k) s += a[ME + k * 256]; c[ME] = s; }
KERNEL(means_in_fp64) { double s = 0; for (int k = 0; k < n; ++k) s += a[ME + k * 256] * 0.5; c[ME] = s; }
KERNEL(adds_products) { float s = 0; for (int k = 0; k < n; ++k) s += a[ME + k * 256] * b[ME + k * 256]; c[ME] = s; }
extern "C" __global__ void fp64(const double *a, const double *b, double *c, int n) {
  double s = 0;
  for (int k = 0; k < n; ++k) s = s * 0.5 + a[ME + k * 256] * 1.5;
  c[ME] = s;
}
extern "C" __global__ void fp64_divides(const double *a, const double *b, double *c, int n) {
  double s = 0;
  for (int k = 0; k < n; ++k) s += a[ME + k * 256] / b[ME + k * 256];
  c[ME] = s;
}
extern "C" __global__ void fp64_roots(const double *a, const double *b, double *c, int n) {
  double s = 0;
  for (int k = 0; k < n; ++k) s += sqrt(a[ME + k * 256]);
  c[ME] = s;
}
extern "C" __global__ void fp64_sines(const double *a, const double *b, double *c, int n) {
  double s = 0;
  for (int k = 0; k < n; ++k) s += sin(a[ME + k * 256]);
  c[ME] = s;
}
KERNEL(loops_by_thread) {
  __shared__ float held[256];
  held[threadIdx.x] = threadIdx.x;
  for (int k = threadIdx.x; k < n; k += 256) {
    __syncthreads();
    held[255 - threadIdx.x] += 1;
    __syncthreads();
  }
  c[threadIdx.x] = held[threadIdx.x];
}
KERNEL(loops_by_block) {
  __shared__ float held[256];
  held[threadIdx.x] = threadIdx.x;
  for (int k = blockIdx.x; k < n; k += 256) {
    __syncthreads();
    held[255 - threadIdx.x] += 1;
    __syncthreads();
  }
  c[threadIdx.x] = held[threadIdx.x];
}
KERNEL(leaves_early) {
  __shared__ float held[256];
  if (ME >= n) return;
  held[threadIdx.x] = a[ME];
  __syncthreads();
  c[ME] = held[255 - threadIdx.x];
}
KERNEL(reduces) {
  __shared__ float part[256];
  part[threadIdx.x] = a[ME];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) c[blockIdx.x] = part[0];
}
extern "C" __global__ void halves(const float *a, float *c) {
  __shared__ float part[257];
  part[threadIdx.x] = a[ME];
  if (threadIdx.x < 128) {
    part[threadIdx.x] *= 2.0f;
    __syncthreads();
    part[threadIdx.x] += part[threadIdx.x + 1];
  }
  c[ME] = part[threadIdx.x];
}
extern "C" __global__ void halves_by_argument(const float *a, float *c, int n) {
  __shared__ float part[257];
  part[threadIdx.x] = a[ME];
  if (n > 128) {
    part[threadIdx.x] *= 2.0f;
    __syncthreads();
    part[threadIdx.x] += part[threadIdx.x + 1];
  }
  c[ME] = part[threadIdx.x];
}
extern "C" __global__ void multiplies(const float4 *a, const float4 *b, float4 *c, int n) {
  __shared__ float4 left[256], right[256];
  float sum[4][4] = {};
  for (int tile = 0; tile < n; ++tile) {
    left[threadIdx.x] = a[tile * 256 + threadIdx.x];
    right[threadIdx.x] = b[tile * 256 + threadIdx.x];
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < 16; ++k) {
      const float4 l = left[k * 16 + threadIdx.x / 16], r = right[k * 16 + threadIdx.x % 16];
      const float x[4] = {l.x, l.y, l.z, l.w}, y[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) c[threadIdx.x * 4 + i] = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}
"""
MMA = """
extern "C" __global__ void multiplies(const unsigned *a, float *c, int n) {
  float s[4] = {};
  for (int k = 0; k < n; ++k)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                 : "r"(a[k]), "r"(a[k + 1]), "r"(a[k + 2]), "r"(a[k + 3]), "r"(a[k + 4]), "r"(a[k + 5]));
  c[threadIdx.x] = s[0] + s[1] + s[2] + s[3];
}
"""
NAMES = {
    "fp64-bound", "special-function-bound", "integer-bound", "non-fused-fp", "tensor-cores-idle",
    "divergent-barrier", "debug-build", "old-architecture",
}  # fmt: skip
RULES = tuple(rule for rule in CODE_RULES if rule.id in NAMES)
TOLD: Mapping[str, tuple[str, set[str], set[int]]] = {
    "divides": ("special-function-bound", {"division-fp32"}, {4}),
    "inverts": ("special-function-bound", {"reciprocal-fp32"}, {6}),
    "roots": ("special-function-bound", {"root-fp32"}, {13}),
    "sines": ("special-function-bound", {"trigonometry-fp32"}, {15}),
    "powers": ("special-function-bound", {"power-fp32"}, {18}),
    "remainders": ("special-function-bound", {"remainder-fp32"}, {20}),
    "indexes": ("integer-bound", {"integer-32"}, {21}),
    "indexes_by_loaded": ("integer-bound", {"integer-32"}, {22}),
    "indexes_wide": ("integer-bound", {"integer-64"}, {28}),
    "literal": ("fp64-bound", set(), {31}),
    "compares": ("fp64-bound", set(), {33}),
    "fp64_divides": ("fp64-bound", {"division-fp64"}, {44}),
    "fp64_roots": ("fp64-bound", {"root-fp64"}, {49}),
    "fp64_sines": ("fp64-bound", {"trigonometry-fp64"}, {54}),
    "loops_by_thread": ("divergent-barrier", set(), {61, 63}),
    "halves": ("divergent-barrier", set(), {99}),
    "multiplies": ("tensor-cores-idle", set(), {128}),
}
"""The rule that fires for a kernel, its long operations, and the lines; no rule fires for the others."""
COSTS = {"divides": {8}, "inverts": {8}, "fp64_divides": {12}, "fp64_roots": {12}, "indexes_by_loaded": {14}}
"""Instructions on the fast way, as read in the listing of each architecture.

An FP32 division is a reciprocal, its check, five multiply-adds and a jump; an FP64 division a seed, eight FP64
instructions, a multiply-add, a comparison of the result and the jump to its slow path.
"""


@pytest.mark.compilers
@needs_cuda_wheels
@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
def test_kernels_that_show_a_habit_are_told_of_it_and_near_misses_are_not(target: str) -> None:
    cases = compiled_cases(SOURCE, target)
    for name, case in cases.items():
        findings = [finding for rule in RULES for finding in rule.check(case)]
        if name == "indexes_by_warps":
            # From CUDA 13 on the compiler knows warpSize on the newest architectures.
            assert [finding.rule for finding in findings] == ["integer-bound"] * (target != "sm_120")
            continue
        rule, kinds, lines = TOLD.get(name, (None, None, None))
        assert [finding.rule for finding in findings] == [rule] * (rule is not None), name
        for finding in findings:
            assert {place.line for place in finding.places} == lines, name
            assert finding.loops >= (name != "halves")
            assert {operation.kind for operation in case.operations} == kinds, name
        assert {operation.cost for operation in case.operations} == COSTS.get(name) or name not in COSTS, name
    assert all(operation.slow > 50 for operation in cases["divides"].operations)


DEBUG = """extern "C" __global__ void k(const float *a, const float *b, float *c, int n) {
  float s = 0;
  for (int i = 0; i < n; ++i) s += a[threadIdx.x + i * 256] * b[threadIdx.x + i * 256];
  c[threadIdx.x] = s;
}
"""


@pytest.mark.compilers
@needs_cuda_wheels
def test_how_the_code_was_compiled_is_told() -> None:
    (finding,) = told(compiled_cases(DEBUG, "sm_90", ("--fmad=false",))["k"], RULES, "non-fused-fp")
    assert finding.evidence[0].value == pytest.approx(50)
    assert all((place.sass or "").startswith("FADD") for place in finding.places)
    (finding,) = told(compiled_cases(DEBUG, "sm_90", ("--device-debug",))["k"], RULES, "debug-build")
    assert 16 <= finding.evidence[0].value <= 44


@pytest.mark.compilers
@needs_cuda_wheels
@each_row(("target", "newer"), [("sm_80", None), ("sm_90a", "wgmma"), ("sm_100a", "tcgen05"), ("sm_120", None)])
def test_older_matrix_instructions_are_told_of_where_there_are_newer(target: str, newer: str | None) -> None:
    case = compiled_cases(MMA, target)["multiplies"]
    findings = told(case, RULES, "old-architecture")
    names = [label.texts for finding in findings for label in finding.labels if label.name == "newer"]
    assert names == ([(newer,)] if newer else [])
    assert told(case, RULES, "tensor-cores-idle") == []


@each_row(
    ("name", "rule", "kinds", "costs"),
    [
        ("divides", "special-function-bound", {"division-fp32"}, {8}),
        ("indexes_by_loaded", "integer-bound", {"integer-32"}, {14}),
        ("fp64_divides", "fp64-bound", {"division-fp64"}, {12}),
        ("literal", "fp64-bound", set(), set()),
        ("multiplies", "tensor-cores-idle", set(), set()),
        ("loops_by_thread", "divergent-barrier", set(), set()),
    ],
)
def test_rules_on_a_recorded_listing(name: str, rule: str, kinds: set[str], costs: set[int]) -> None:
    """The listings are those of the kernels above for sm_90, by NVRTC 13."""
    code = parse_sass((LISTINGS / f"{name}-sm_90.sass").read_text(encoding="utf-8"))
    case = case_of(CubinKernel(mangled=name, code=b"\0" * 16 * len(code)), code, "sm_90")
    assert [finding.rule for check in RULES for finding in check.check(case)] == [rule]
    assert ({operation.kind for operation in case.operations}, {operation.cost for operation in case.operations}) == (
        kinds,
        costs,
    )


def test_a_barrier_of_some_warps_in_a_branch_is_meant_so() -> None:
    """BAR.SYNC 0x1, 0x80 waits for 128 threads; BAR.SYNC 0x0 in its place waits for all."""
    text = """
        /*0000*/ S2R R0, SR_TID.X;
        /*0010*/ ISETP.GE.AND P0, PT, R0, 0x20, PT;
        /*0020*/ BSSY B0, 0x60;
        /*0030*/ @P0 BRA 0x50;
        /*0040*/ {};
        /*0050*/ BSYNC B0;
        /*0060*/ EXIT;
    """
    assert of_text(text.replace("{}", "BAR.SYNC.DEFER_BLOCKING 0x1, 0x80"), "divergent-barrier") == []
    (finding,) = of_text(text.replace("{}", "BAR.SYNC.DEFER_BLOCKING 0x0"), "divergent-barrier")
    assert [place.pc for place in finding.places] == [0x40]
    assert finding.confidence == "guess"
    by_block = text.replace("{}", "BAR.SYNC.DEFER_BLOCKING 0x0").replace("SR_TID.X", "SR_CTAID.X")
    assert of_text(by_block, "divergent-barrier") == []


@pytest.mark.parametrize(
    ("source", "operation", "found"),
    [
        ("SR_TID.X", "LOP3.LUT R1, R0.reuse, 0x1, RZ, 0xc0, !PT", True),
        ("SR_TID.X", "IMAD R1, R0, 0x3, RZ", True),
        ("SR_CTAID.X", "LOP3.LUT R1, R0.reuse, 0x1, RZ, 0xc0, !PT", False),
        ("SR_TID.X", "LDS R1, [R0]", False),
    ],
)
def test_a_predicate_of_a_barrier_may_follow_from_bits_of_the_index(source: str, operation: str, found: bool) -> None:
    lines = (f"S2R R0, {source}", operation, "ISETP.NE.U32.AND P0, PT, R1, 0x1, PT", "@!P0 BAR.SYNC 0x0", "EXIT")
    text = "\n".join(f"/*{16 * place:04x}*/ {sass};" for place, sass in enumerate(lines))
    assert bool(of_text(text, "divergent-barrier")) is found


def test_an_addition_of_two_products_can_be_fused_with_one_of_them() -> None:
    step = ("FMUL R0, R4, R5", "FMUL R1, R6, R7", "FADD R8, R0, -R1", "STG.E [R2.64], R8")
    lines = [f"/*{16 * place:04x}*/ {sass};" for place, sass in enumerate((*4 * step, "EXIT"))]
    (finding,) = of_text("\n".join(lines), "non-fused-fp")
    assert [place.pc for place in finding.places] == [0x20, 0x60, 0xA0, 0xE0]
    assert [item.value for item in finding.evidence] == [pytest.approx(100 / 3), 0]


def test_a_product_that_another_path_reads_is_not_fusible() -> None:
    step = ("FMUL R0, R4, R5", "FADD R8, R0, R9", "STG.E [R2.64], R8")
    lines = (*3 * step, "FMUL R0, R4, R5", "@P0 BRA 0xd0", "FADD R8, R0, R9", "EXIT", "STG.E [R2.64], R0", "EXIT")
    text = "\n".join(f"/*{16 * place:04x}*/ {sass};" for place, sass in enumerate(lines))
    assert of_text(text, "non-fused-fp") == []
    (finding,) = of_text(text.replace("[R2.64], R0", "[R2.64], R4"), "non-fused-fp")
    assert [place.pc for place in finding.places] == [0x10, 0x40, 0x70, 0xB0]


@each_row("beginning", ["MOV R2, R0", "BRX R2 -0x20"])
def test_a_division_ends_where_the_quotient_by_zero_is_chosen(beginning: str) -> None:
    """Also if only a jump to an unknown address, as of a switch, leads to it."""
    lines = (
        beginning, "I2F.U32.RP R0, R9", "ISETP.NE.U32.AND P2, PT, R9, RZ, PT", "MUFU.RCP R0, R0",
        "IADD3 R3, R0, 0xffffffe, RZ", "F2I.FTZ.U32.TRUNC.NTZ R5, R3", "IMAD.MOV R7, RZ, RZ, -R5",
        "IMAD R7, R7, R9, RZ", "IMAD.HI.U32 R5, R5, R7, R4", "IMAD.HI.U32 R5, R5, R8, RZ", "IMAD.MOV R7, RZ, RZ, -R5",
        "IMAD R6, R7, R9, R8", "ISETP.GE.U32.AND P0, PT, R6, R9, PT", "@P0 IADD3 R6, R6, -R9, RZ",
        "@P0 IADD3 R5, R5, 0x1, RZ", "ISETP.GE.U32.AND P1, PT, R6, R9, PT", "@P1 IADD3 R5, R5, 0x1, RZ",
        "@!P2 LOP3.LUT R5, RZ, R9, RZ, 0x33, !PT", "IMAD R10, R5, 0x3, RZ", "EXIT",
    )  # fmt: skip
    code = parse_sass("\n".join(f"/*{16 * place:04x}*/ {sass};" for place, sass in enumerate(lines)))
    (division,) = case_of(CubinKernel(mangled="kernel", code=b"\0" * 16 * len(code)), code, "sm_90").operations
    assert division.parts == (0x10, *range(0x30, 0x120, 0x10))
    assert (division.kind, division.cost, division.times) == ("integer-32", 16, 1)


def of_text(text: str, rule: str) -> list[Finding]:
    code = parse_sass(text)
    return told(case_of(CubinKernel(mangled="kernel", code=b"\0" * 16 * len(code)), code, "sm_90"), RULES, rule)
