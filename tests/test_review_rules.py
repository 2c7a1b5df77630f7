"""Rules on code: each with a kernel that shows its habit, compiled for five architectures, and near misses."""

from __future__ import annotations

import pytest

from gpuprof.code.binary.cubin import CubinKernel
from gpuprof.code.sass.instruction import Instruction, parse_sass
from gpuprof.review.contract import CodeFinding
from gpuprof.review.registry import CODE_RULES
from gpuprof.review.rules import arithmetic, build, control
from tests.cuda_tools import needs_cuda_wheels
from tests.reviewed_code import TARGETS, case_of, compiled_cases, told
from tests.table import each_row

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
FOUND = (
    ("divides", "special-function-bound", "FP32 division"),
    ("inverts", "special-function-bound", "FP32 division"),
    ("roots", "special-function-bound", "FP32 square root"),
    ("sines", "special-function-bound", "FP32 sine"),
    ("powers", "special-function-bound", "powf"),
    ("remainders", "special-function-bound", "fmodf"),
    ("indexes", "integer-bound", "Integer division"),
    ("indexes_by_loaded", "integer-bound", "Integer division"),
    ("indexes_wide", "integer-bound", "64-bit integer division"),
    ("literal", "fp64-bound", "FP64 arithmetic on FP32 values"),
    ("compares", "fp64-bound", "FP64 arithmetic on FP32 values"),
    ("fp64_divides", "fp64-bound", "FP64 division"),
    ("fp64_roots", "fp64-bound", "FP64 division or square root"),
    ("fp64_sines", "fp64-bound", "FP64 sine"),
    ("loops_by_thread", "divergent-barrier", ""),
    ("halves", "divergent-barrier", "1 barrier behind a condition"),
    ("multiplies", "tensor-cores-idle", "FP32 matrix multiplication"),
)
SILENT = (
    ("divides_fast", "special-function-bound"),
    ("inverts_once", "special-function-bound"),
    ("reciprocal_roots", "special-function-bound"),
    ("sines_fast", "special-function-bound"),
    ("sines_of_pi", "special-function-bound"),
    ("exponentials", "special-function-bound"),
    ("indexes_by_constant", "integer-bound"),
    ("literal_in_fp32", "fp64-bound"),
    ("sums_in_fp64", "fp64-bound"),
    ("means_in_fp64", "fp64-bound"),
    ("sines", "fp64-bound"),
    ("fp64", "fp64-bound"),
    ("adds_products", "non-fused-fp"),
    ("adds_products", "tensor-cores-idle"),
    ("loops_by_block", "divergent-barrier"),
    ("halves_by_argument", "divergent-barrier"),
    ("leaves_early", "divergent-barrier"),
    ("reduces", "divergent-barrier"),
    ("divides", "debug-build"),
)
RULES = (*arithmetic.RULES, *control.RULES, *build.RULES)


def of_kernel(name: str, target: str, rule: str, *options: str) -> list[CodeFinding]:
    return told(compiled_cases(SOURCE, target, options)[name], RULES, rule)


@needs_cuda_wheels
@each_row("target", TARGETS)
@each_row(("name", "rule", "headline"), FOUND)
def test_a_kernel_that_shows_a_habit_is_told_of_it(name: str, rule: str, headline: str, target: str) -> None:
    findings = of_kernel(name, target, rule)
    assert [finding.headline[: len(headline)] for finding in findings] == [headline]
    assert findings[0].loop_depth >= (name != "halves")
    assert findings[0].places[0].line is not None


@needs_cuda_wheels
@each_row("target", TARGETS)
@each_row(("name", "rule"), SILENT)
def test_a_near_miss_is_not_told_of(name: str, rule: str, target: str) -> None:
    assert of_kernel(name, target, rule) == []


@needs_cuda_wheels
@each_row("target", TARGETS)
def test_the_line_of_the_literal_is_named(target: str) -> None:
    (finding,) = of_kernel("literal", target, "fp64-bound")
    lines = {place.line for place in finding.places}
    assert {SOURCE.splitlines()[line - 1].split("(")[1].split(")")[0] for line in lines if line} == {"literal"}
    assert all(place.sass.startswith("DMUL") for place in finding.places)


@needs_cuda_wheels
@each_row("target", TARGETS)
def test_an_fp32_division_has_the_eight_instructions_that_ptxas_writes(target: str) -> None:
    """A reciprocal, its check, five multiply-adds and a jump, as read in the listing of each architecture."""
    operations = compiled_cases(SOURCE, target)["divides"].operations
    assert {(operation.kind, operation.cost) for operation in operations} == {("division-fp32", 8)}
    assert all(operation.slow > 50 for operation in operations)


@needs_cuda_wheels
@each_row("target", TARGETS)
def test_an_fp64_division_is_counted_up_to_the_jump_to_its_slow_path(target: str) -> None:
    """A seed, eight FP64 instructions, a multiply-add and a comparison of the result, and the jump."""
    operations = compiled_cases(SOURCE, target)["fp64_divides"].operations
    assert {(operation.kind, operation.cost) for operation in operations} == {("division-fp64", 12)}


@needs_cuda_wheels
@each_row("target", TARGETS)
def test_a_divisor_that_does_not_change_is_told_of_where_the_loop_divides(target: str) -> None:
    (finding,) = of_kernel("indexes", target, "integer-bound")
    assert finding.places[0].sass.startswith("IMAD.HI")


@needs_cuda_wheels
@each_row("target", ["sm_75", "sm_80", "sm_90"])
def test_a_division_by_warpsize_is_called_that(target: str) -> None:
    (finding,) = of_kernel("indexes_by_warps", target, "integer-bound")
    assert finding.headline.startswith("Integer division or modulo by warpSize: ")
    assert finding.action == "Write 32 instead of warpSize, which is a variable to the compiler"


@needs_cuda_wheels
def test_divisions_outside_of_loops_are_not_told_to_leave_a_loop() -> None:
    (finding,) = of_kernel("divides_without_loop", "sm_80", "special-function-bound")
    assert finding.headline == "FP32 division: 64, 8 instructions each"
    assert finding.action.startswith("Use an approximate division where that will do")


@needs_cuda_wheels
@each_row("target", TARGETS)
def test_sums_that_the_compiler_may_not_fuse_are_told_of(target: str) -> None:
    (finding,) = of_kernel("adds_products", target, "non-fused-fp", "--fmad=false")
    assert finding.evidence[0].value == pytest.approx(50)
    assert all(place.sass.startswith("FADD") for place in finding.places)


@needs_cuda_wheels
@each_row("target", TARGETS)
def test_code_for_a_debugger_is_told_of(target: str) -> None:
    (finding,) = of_kernel("divides", target, "debug-build", "--device-debug")
    assert 16 <= finding.evidence[0].value <= 44


@needs_cuda_wheels
@each_row(("target", "newer"), [("sm_80", None), ("sm_90", "wgmma"), ("sm_100", "tcgen05"), ("sm_120", None)])
def test_older_matrix_instructions_are_told_of_where_there_are_newer(target: str, newer: str | None) -> None:
    case = compiled_cases(MMA, target)["multiplies"]
    assert [newer in finding.headline for finding in told(case, RULES, "old-architecture") if newer] == [True] * bool(
        newer
    )
    assert told(case, RULES, "tensor-cores-idle") == []


@needs_cuda_wheels
@each_row(("target", "compile_for"), [("sm_90", True), ("sm_90a", False), ("sm_100a", False)])
def test_older_matrix_instructions_are_left_to_tiles_of_few_rows(target: str, compile_for: bool) -> None:
    (finding,) = told(compiled_cases(MMA, target)["multiplies"], RULES, "old-architecture")
    assert "mma.sync is what is left" in finding.advice
    assert ("Compile your own kernels" in finding.advice) is compile_for


@needs_cuda_wheels
def test_no_rule_says_how_long_something_takes() -> None:
    findings = [
        finding for case in compiled_cases(SOURCE, "sm_90").values() for rule in RULES for finding in rule.check(case)
    ]
    text = " ".join(f"{item.headline} {item.why} {item.action} {item.advice}" for item in findings)
    assert len(findings) >= len(FOUND)
    assert not any(word in text for word in ("faster", "slower", " µs", " ms", "seconds", "speed"))


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
    assert [place.offset for place in finding.places] == [0x40]
    assert finding.certainty == "guess"


def test_a_branch_by_the_block_may_have_a_barrier() -> None:
    text = """
        /*0000*/ S2R R0, SR_CTAID.X;
        /*0010*/ ISETP.GE.AND P0, PT, R0, 0x20, PT;
        /*0020*/ BSSY B0, 0x60;
        /*0030*/ @P0 BRA 0x50;
        /*0040*/ BAR.SYNC.DEFER_BLOCKING 0x0;
        /*0050*/ BSYNC B0;
        /*0060*/ EXIT;
    """
    assert of_text(text, "divergent-barrier") == []


def of_text(text: str, rule: str) -> list[CodeFinding]:
    code = parse_sass(text)
    return told(case_of(CubinKernel(mangled="kernel", code=b"\0" * 16 * len(code)), code, "sm_90"), RULES, rule)


def test_no_code_breaks_no_rule() -> None:
    case = case_of(CubinKernel(mangled="kernel", code=b""), (), "sm_90")
    assert [finding for rule in RULES for finding in rule.check(case)] == []


def test_hostile_operands_break_no_rule() -> None:
    names = (
        "FCHK",
        "MUFU.RCP64H",
        "I2F.RP",
        "ISETP",
        "FSETP",
        "FMUL",
        "F2F.F64.F32",
        "DADD",
        "CALL",
        "BSSY",
        "BAR.SYNC",
    )
    odd = ((), ("",), ("R", "P9", "0x1ffffff"), ("R4294967295", "105615", "[[", "c[0x0"), ("0x3a2c32e4",) * 3)
    code = tuple(
        Instruction(16 * index, name, operands, None)
        for index, (name, operands) in enumerate((name, operands) for name in names for operands in odd)
    )
    case = case_of(CubinKernel(mangled="kernel", code=b"\0" * 16 * len(code)), code, "sm_90")
    for rule in CODE_RULES:
        if rule in RULES:
            list(rule.check(case))
