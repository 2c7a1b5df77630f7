"""Rules on memory, on kernels that NVRTC compiles: what they say of each shape, and where they are silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gpuprof.diagnose.access_shape import cases_of_shape
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.kernel import KnownLaunch
from gpuprof.review.registry import CODE_RULES
from gpuprof.words.findings import with_sentences
from tests.cuda_tools import needs_cuda_wheels
from tests.reviewed_code import compiled_cases
from tests.table import each_row
from tests.test_review_memory import known

TARGETS = ("sm_75", "sm_90", "sm_120")
ROW: Dim3 = (256, 1, 1)
TILE: Dim3 = (32, 8, 1)
SQUARE: Dim3 = (16, 16, 1)
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
LOOP = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)"
TRANSPOSE = (
    "(float* o, const float* a, int n) {{ __shared__ float t[32][{0}]; int x = threadIdx.x, y = threadIdx.y;\n"
    "t[y][x] = a[(blockIdx.y * 32 + y) * n + blockIdx.x * 32 + x]; __syncthreads();\n"
    "o[(blockIdx.x * 32 + y) * n + blockIdx.y * 32 + x] = t[x][y]; }}"
)
HEAD = """
struct P { float x, y, z, w, u; };
__device__ __noinline__ void generic(P* p) { p[threadIdx.x].x = p[threadIdx.x].z; }
"""


def _copy(index: str, to: str, read: str = "((float*)t)[threadIdx.x]") -> str:
    """A kernel that copies 16 bytes a thread from global to shared memory, and reads a word; not on sm_75."""
    return (
        "(float* o, const float4* a) { __shared__ float4 t[512]; int i = threadIdx.x;\n#if __CUDA_ARCH__ >= 800\n"
        'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: '
        f'"r"((unsigned)__cvta_generic_to_shared(&t[{to}])), "l"(a + {index}) : "memory");\n'
        'asm volatile("cp.async.wait_all;" ::: "memory");\n#endif\n__syncthreads();\n'
        f"o[i] = {read}; }}"
    )


def _rows(length: int) -> str:
    """A kernel that reads whole rows of words."""
    sums = " + ".join(f"a[r * {length} + {word}]" for word in range(length))
    return f"(float* o, const float* a, int w) {{ {INDEX} int r = i / w; o[i] = {sums}; }}"


KERNELS = {
    "tile": TRANSPOSE.format(32),
    "padded_tile": TRANSPOSE.format(33),
    "column": f"(float* o, const float* a) {{ {INDEX}\no[i * 1024] = a[i]; }}",
    "members": f"(P* p, float d) {{ {INDEX} p[i].x += d * p[i].z; }}",
    "pairs": f"(float* o, const float* a) {{ {INDEX} o[i] = a[2 * i] + a[2 * i + 1]; }}",
    "by_argument": f"(float* o, const float* a, int n) {{ {INDEX} o[i] = a[i * n]; }}",
    "row_by_argument": (
        f"(float* o, const float* a, int n) {{ {INDEX}\nconst float* p = a + i * n;\n"
        "o[i] = p[0] + p[1] + p[2] + p[3] + p[4] + p[5] + p[6] + p[7]; }"
    ),
    "two_bytes": f"(unsigned short* o, const unsigned short* a) {{ {INDEX} o[i] = a[i] + 1; }}",
    "looked_up": (
        f"(float* o, const float* a, const int* at) {{ {INDEX} const float* p = a + 4 * at[i];\n"
        "o[i] = p[0] + p[1] + p[2] + p[3]; }"
    ),
    "all_add": f"(float* o, const float* a, int n) {{ {INDEX} if (i < n) atomicAdd(o, a[i]); }}",
    "counts": f"(int* o, const int* a, int n) {{ {LOOP} atomicAdd(o + a[i], 1); }}",
    "some_count": f"(int* o, const int* a, int n) {{ {LOOP} if (threadIdx.x % 4 == 0) atomicAdd(o + a[i], 1); }}",
    "backwards_by_nine": f"(float* o, const float* a, int n) {{ {INDEX} o[i] = a[n + ~i * 9]; }}",
    "backwards": f"(float* o, const float* a, int n) {{ {INDEX} o[i] = a[n + ~i]; }}",
    "rows_of_five": _rows(5),
    "rows_of_eight": _rows(8),
    "copied_rows": _copy("(i / 4) * 64 + i % 4", "i"),
    "copied_into_one_bank": _copy("i", "2 * i"),
    "read_by_rows": _copy("i", "i", "t[255 - threadIdx.x].x"),
    "half_rows": "(float* o, int n) { o[(threadIdx.x / 2) * n + threadIdx.x % 2] = 1; }",
    "two_words": (
        "(float* o, const signed char* a, int n) { int y = blockIdx.y * 16 + threadIdx.y; float s = 0;\n"
        "for (int k = 0; k < n; k++) s += a[y * n + k];\n"
        "o[(blockIdx.y * 16 + threadIdx.y) * 16 + threadIdx.x] = s; }"
    ),
}
SILENT = {
    "copies_16_bytes": f"(float4* o, const float4* a, int n) {{ {LOOP} o[i] = a[i]; }}",
    "copies_8_bytes": f"(double* o, const double* a, int n) {{ {LOOP} o[i] = a[i]; }}",
    "stencil": f"(float* o, const float* a, int n) {{ {LOOP} o[i] = a[i] + a[i + 1] + a[i + 2]; }}",
    "gather": f"(float* o, const float* a, const int* at) {{ {INDEX} o[i] = a[at[i]]; }}",
    "two_ends": f"(float* o, const int* r, int n) {{ {INDEX} if (i < n) o[i] = r[r[i] + 1] - r[r[i]]; }}",
    "one_thread_adds": "(float* o, const float* a) { if (threadIdx.x == 0) atomicAdd(o, a[0]); }",
    "ptxas_aggregates": (
        "(int* o, const int* a, int n) { int i = threadIdx.x; if (i < n && a[i] > 0) atomicAdd(o, 1); }"
    ),
    "a_lane_adds": (
        "(float* o, const float* a) { float s = a[threadIdx.x]; for (int k = 16; k; k /= 2) "
        "s += __shfl_xor_sync(-1, s, k); if ((threadIdx.x & 31) == 0) atomicAdd(o, s); }"
    ),
    "counts_in_shared": (
        "(int* o, const int* a, int n) { __shared__ int c[256]; c[threadIdx.x] = 0; __syncthreads(); "
        f"{LOOP} atomicAdd(c + a[i], 1); __syncthreads(); atomicAdd(o + threadIdx.x, c[threadIdx.x]); }}"
    ),
    "all_read": f"(float* o, const float* a) {{ {INDEX} o[i] = a[0] + a[1] * (a[2] + a[3]); }}",
    "either_space": "(P* p, int g) { __shared__ P s[256]; generic(g ? s : p); }",
}
SOURCE = HEAD + "".join(
    f'#line 1 "{name}.cu"\nextern "C" __global__ void {name}{body}\n' for name, body in (KERNELS | SILENT).items()
)


def case_of(name: str, target: str, block: Dim3 = ROW, arguments: Mapping[int, int] | None = None) -> CodeFacts:
    known = compiled_cases(SOURCE, target)[name]
    shape = KnownLaunch(block=block, arguments=arguments or {})
    return replace(known, kernel=replace(known.kernel, shape=shape))


IDS = ("uncoalesced-global", "shared-bank-conflict", "narrow-access", "atomic-contention")


def findings(case: CodeFacts) -> list[Finding]:
    return [with_sentences(finding) for rule in CODE_RULES if rule.id in IDS for finding in rule.check(case)]


Said = tuple[str, str, list[float], list[int]]


def said(case: CodeFacts) -> list[Said]:
    """Rule, certainty, numbers of the evidence, and lines of each finding."""
    return [
        (
            finding.rule,
            finding.confidence,
            [item.value for item in finding.evidence],
            [place.line for place in finding.places if place.line is not None],
        )
        for finding in findings(case)
    ]


CONFLICT, UNCOALESCED, NARROW, ATOMIC = (
    "shared-bank-conflict", "uncoalesced-global", "narrow-access", "atomic-contention",
)  # fmt: skip
EXPECTED: tuple[tuple[str, Dim3, list[Said]], ...] = (
    ("tile", TILE, [(CONFLICT, "inferred", [32, 4, 128], [3])]),
    ("padded_tile", TILE, []),
    ("column", ROW, [(UNCOALESCED, "inferred", [32, 4, 4096], [2])]),
    ("members", ROW, [(UNCOALESCED, "inferred", [20, 4, 20], [1, 1, 1])]),
    ("pairs", ROW, [(UNCOALESCED, "inferred", [8, 4, 8, 2], [1, 1])]),
    ("by_argument", ROW, [(UNCOALESCED, "guess", [32, 4], [1])]),
    ("row_by_argument", ROW, [(UNCOALESCED, "guess", [32, 4], [3] * 8)]),
    ("half_rows", ROW, [(UNCOALESCED, "guess", [16, 3], [1])]),
    ("backwards_by_nine", SQUARE, [(UNCOALESCED, "inferred", [16, 4, -36], [1])]),
    ("two_bytes", ROW, [(NARROW, "inferred", [100, 2], [1, 1])]),
    ("looked_up", ROW, [(NARROW, "inferred", [4, 4, 4], [2] * 4)]),
    # Rows of 20 bytes begin at a multiple of 8 for one thread and not for the next.
    ("rows_of_five", ROW, []),
    ("rows_of_eight", ROW, [(NARROW, "inferred", [8, 4, 8], [1] * 8)]),
    ("all_add", ROW, [(ATOMIC, "inferred", [32], [1])]),
    ("counts", ROW, [(ATOMIC, "guess", [1], [1])]),
    ("some_count", ROW, [(ATOMIC, "guess", [1], [1])]),
    ("backwards", SQUARE, []),
    # A block of 16 × 16: two sectors for each of two rows; 32 adjacent words are four.
    ("two_words", SQUARE, []),
    *((name, ROW, []) for name in SILENT),
)


@pytest.mark.compilers
@needs_cuda_wheels
@pytest.mark.parametrize("target", TARGETS)
def test_what_compiled_kernels_do_is_told_with_its_numbers_and_lines(target: str) -> None:
    for name, block, expected in EXPECTED:
        assert said(case_of(name, target, block)) == expected, name
    (tile,) = findings(case_of("tile", target, TILE))
    amounts = {amount.name: amount.value for amount in tile.amounts}
    assert (amounts["pad"], amounts["row"], "pad-by" in tile.cases.advice) == (4, 132, True)
    fixes = [findings(case_of(name, target))[0].cases.action[0] for name in ("by_argument", "row_by_argument")]
    assert fixes == [*cases_of_shape("stride").action, *cases_of_shape("neighbours").action]
    # The argument as given decides.
    assert said(case_of("by_argument", target, arguments={2: 1})) == []
    ((rule, certainty, numbers, _),) = said(case_of("by_argument", target, arguments={2: 4}))
    assert (rule, certainty, numbers[0]) == (UNCOALESCED, "inferred", 16)
    rows = case_of("two_words", target, SQUARE, arguments={2: 4096})
    assert 2.0 in {access.sectors_per_request for access in rows.accesses if access.kind == "load"}
    assert UNCOALESCED not in [finding.rule for finding in findings(rows)]


INDEXED = ("S2R R1, SR_TID.X", "IMAD.WIDE.U32 R2, R1, 0x1000, c[0x0][0x160]")


@each_row(
    ("lines", "expected"),
    [
        ((*INDEXED, "LDG.E R9, [R2.64]"), [(UNCOALESCED, "inferred", [32, 4, 4096])]),
        (("S2R R1, SR_TID.X", "IMAD R3, R1, 0x80, RZ", "LDS R9, [R3]"), [(CONFLICT, "inferred", [32, 4, 128])]),
        (("S2R R1, SR_TID.X", "IMAD.SHL.U32 R3, R1, 0x4, RZ", "LDS R9, [R3]"), []),
        (
            ("S2R R1, SR_TID.X", "IMAD R3, R1, c[0x0][0x168], RZ", "IMAD.WIDE R2, R3, 0x4, c[0x0][0x160]",
             "LDG.E R9, [R2.64]"),
            [(UNCOALESCED, "guess", [32, 4])],
        ),
        (("MOV R2, c[0x0][0x160]", "MOV R3, c[0x0][0x164]", "RED.E.ADD.STRONG.GPU [R2.64], R5"),
         [(ATOMIC, "inferred", [32])]),
    ],
)  # fmt: skip
def test_rules_on_instructions_by_hand(lines: tuple[str, ...], expected: list[tuple[str, str, list[float]]]) -> None:
    assert [entry[:3] for entry in said(known(*lines))] == expected


@each_row(
    ("widths", "begins", "ends"),
    [
        (["U8"], "the only global access", "moves at most 1 byte"),
        (["U8", "128"], "1 of 2 global accesses", "moves at most 1 byte"),
        (["U8", "U16"], "2 of 2 global accesses", "move at most 2 bytes"),
    ],
)
def test_one_narrow_access_is_written_as_one(widths: list[str], begins: str, ends: str) -> None:
    lines = ["S2R R1, SR_TID.X"]
    for number, width in enumerate(widths):
        size = {"U8": 1, "U16": 2, "128": 16}[width]
        register = 4 + 2 * number
        lines.append(f"IMAD.WIDE.U32 R{register}, R1, {size:#x}, c[0x0][{0x160 + 8 * number:#x}]")
        lines.append(f"LDG.E.{width} R{20 + 4 * number}, [R{register}.64]")
    (finding,) = findings(known(*lines))
    assert begins in finding.headline and ends in finding.headline
