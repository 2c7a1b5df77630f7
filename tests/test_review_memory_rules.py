"""Rules on memory, on kernels that NVRTC compiles: what they say of each shape, and where they are silent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpuprof.review.case import CodeCase
from gpuprof.review.contract import CodeFinding
from gpuprof.review.registry import CODE_RULES
from gpuprof.review.rules.memory import RULES
from tests.code_cases import Dims, case_of
from tests.cuda_tools import needs_cuda_wheels
from tests.table import each_row

pytestmark = needs_cuda_wheels

TARGETS = ("sm_75", "sm_90", "sm_120")
HEAD = 'extern "C" __global__ void k'
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
LOOP = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)"
TRANSPOSE = (
    HEAD + "(float* o, const float* a, int n) {{ __shared__ float t[32][{0}]; int x = threadIdx.x, y = threadIdx.y;\n"
    "t[y][x] = a[(blockIdx.y * 32 + y) * n + blockIdx.x * 32 + x]; __syncthreads();\n"
    "o[(blockIdx.x * 32 + y) * n + blockIdx.y * 32 + x] = t[x][y]; }}"
)
TILE: Dims = (32, 8, 1)


def found(case: CodeCase) -> list[CodeFinding]:
    return [finding for rule in RULES for finding in rule.check(case)]


def rules_of(source: str, target: str = "sm_90", block: Dims = (256, 1, 1)) -> list[str]:
    return [finding.rule for finding in found(case_of(source, target, block=block))]


def only(source: str, target: str = "sm_90", block: Dims = (256, 1, 1), names: Sequence[str] = ()) -> CodeFinding:
    (finding,) = found(case_of(source, target, block=block, names=tuple(names)))
    return finding


@each_row("target", TARGETS)
def test_a_tile_without_padding_conflicts_and_the_padding_is_told(target: str) -> None:
    finding = only(TRANSPOSE.format(32), target, TILE)
    assert finding.rule == "shared-bank-conflict"
    assert finding.headline == "Shared-memory bank conflicts: 32 wavefronts per request, 1 needed (32-way): a load"
    assert finding.advice.startswith("Rows of 132 B, 4 B longer, would take 1 wavefront per request.")
    assert [place.line for place in finding.places] == [3]


@each_row("target", TARGETS)
def test_a_padded_tile_is_clean(target: str) -> None:
    assert rules_of(TRANSPOSE.format(33), target, TILE) == []


@each_row("target", TARGETS)
def test_columns_are_a_stride(target: str) -> None:
    finding = only(f"{HEAD}(float* o, const float* a) {{ {INDEX}\no[i * 1024] = a[i]; }}", target)
    assert finding.headline == "Uncoalesced global access: 32 sectors per request, 4 needed (a store)"
    assert (finding.rule, finding.certainty, finding.action) == (
        "uncoalesced-global", "from code", "Let consecutive threads access consecutive addresses",
    )  # fmt: skip
    assert [place.line for place in finding.places] == [2]


@each_row("target", TARGETS)
def test_members_of_structures_are_one_finding_for_loads_and_stores(target: str) -> None:
    source = f"struct P {{ float x, y, z, w, u; }}; {HEAD}(P* p, float d) {{ {INDEX} p[i].x += d * p[i].z; }}"
    finding = only(source, target)
    assert finding.headline == "Uncoalesced global access: 20 sectors per request, 4 needed (2 loads and a store)"
    assert finding.action == "Store an array per member (SoA), or move whole structures in 16-byte accesses"


def test_words_of_one_thread_are_its_neighbours_and_not_narrow_as_well() -> None:
    finding = only(f"{HEAD}(float* o, const float* a) {{ {INDEX} o[i] = a[2 * i] + a[2 * i + 1]; }}")
    assert finding.headline == "Uncoalesced global access: 8 sectors per request, 4 needed (2 loads)"
    assert finding.action == "Read a thread's neighbouring words in one wide access, or interleave its index"


@each_row("target", TARGETS)
def test_a_stride_by_an_argument_is_a_guess_with_both_costs(target: str) -> None:
    source = f"{HEAD}(float* o, const float* a, int n) {{ {INDEX} o[i] = a[i * n]; }}"
    finding = only(source, target, names=("o", "a", "n"))
    assert (finding.rule, finding.certainty) == ("uncoalesced-global", "guess")
    assert finding.headline.startswith("Uncoalesced global access if argument 2 (n) is large: 32 sectors per request")
    assert [item.value for item in finding.evidence] == [32.0, 4.0]
    assert finding.action.endswith(", unless argument 2 (n) is 1")


def test_the_argument_as_given_decides() -> None:
    source = f"{HEAD}(float* o, const float* a, int n) {{ {INDEX} o[i] = a[i * n]; }}"
    assert found(case_of(source, arguments={2: 1})) == []
    (finding,) = found(case_of(source, arguments={2: 4}))
    assert (finding.certainty, finding.evidence[0].value, finding.evidence[0].threshold) == ("from code", 16.0, 4.0)


@each_row("target", TARGETS)
@each_row(
    "body",
    [
        pytest.param(f"(float4* o, const float4* a, int n) {{ {LOOP} o[i] = a[i]; }}", id="copy of 16 bytes"),
        pytest.param(f"(double* o, const double* a, int n) {{ {LOOP} o[i] = a[i]; }}", id="copy of 8 bytes"),
        pytest.param(
            f"(float* o, const float* a, int n) {{ {LOOP} o[i] = a[i] + a[i + 1] + a[i + 2]; }}", id="stencil"
        ),
        pytest.param(f"(float* o, const float* a, const int* at) {{ {INDEX} o[i] = a[at[i]]; }}", id="gather"),
        pytest.param(
            f"(float* o, const int* r, int n) {{ {INDEX} if (i < n) o[i] = r[r[i] + 1] - r[r[i]]; }}", id="two ends"
        ),
        pytest.param("(float* o, const float* a) { if (threadIdx.x == 0) atomicAdd(o, a[0]); }", id="one thread adds"),
        pytest.param(
            "(int* o, const int* a, int n) { int i = threadIdx.x; if (i < n && a[i] > 0) atomicAdd(o, 1); }",
            id="aggregated by ptxas",
        ),
        pytest.param(
            "(float* o, const float* a) { float s = a[threadIdx.x]; for (int k = 16; k; k /= 2) "
            "s += __shfl_xor_sync(-1, s, k); if ((threadIdx.x & 31) == 0) atomicAdd(o, s); }",
            id="a lane adds for its warp",
        ),
    ],
)
def test_what_is_well_done_is_passed_over(target: str, body: str) -> None:
    assert rules_of(HEAD + body, target) == []


@each_row("target", TARGETS)
def test_lanes_that_move_two_bytes_are_narrow(target: str) -> None:
    source = f"{HEAD}(unsigned short* o, const unsigned short* a) {{ {INDEX} o[i] = a[i] + 1; }}"
    finding = only(source, target)
    assert finding.rule == "narrow-access"
    assert finding.headline == "Narrow accesses: 2 of 2 global accesses move at most 2 B per thread"


@each_row("target", TARGETS)
def test_looked_up_words_side_by_side_could_be_one_access(target: str) -> None:
    source = (
        f"{HEAD}(float* o, const float* a, const int* at) {{ {INDEX} const float* p = a + 4 * at[i];\n"
        "o[i] = p[0] + p[1] + p[2] + p[3]; }"
    )
    finding = only(source, target)
    assert finding.headline == "Narrow accesses: 4 adjacent loads of 4 B, where 1 of up to 16 B would do"
    assert (finding.certainty, {place.line for place in finding.places}) == ("from code", {2})


@each_row("target", TARGETS)
def test_a_warp_that_adds_to_one_address_contends(target: str) -> None:
    source = f"{HEAD}(float* o, const float* a, int n) {{ {INDEX} if (i < n) atomicAdd(o, a[i]); }}"
    finding = only(source, target)
    assert finding.headline == "Atomic contention: all lanes of a warp update one address"
    assert finding.certainty == "from code"


@each_row("target", TARGETS)
def test_counters_in_global_memory_are_a_guess_and_in_shared_memory_the_fix(target: str) -> None:
    counts = f"{HEAD}(int* o, const int* a, int n) {{ {LOOP} atomicAdd(o + a[i], 1); }}"
    finding = only(counts, target)
    assert (finding.headline, finding.certainty) == ("Atomic contention: an atomic in a loop", "guess")
    own = (
        f"{HEAD}(int* o, const int* a, int n) {{ __shared__ int c[256]; c[threadIdx.x] = 0; __syncthreads(); "
        f"{LOOP} atomicAdd(c + a[i], 1); __syncthreads(); atomicAdd(o + threadIdx.x, c[threadIdx.x]); }}"
    )
    assert rules_of(own, target) == []


@each_row("target", TARGETS)
def test_eight_lanes_of_a_warp_are_not_one_that_leads(target: str) -> None:
    source = f"{HEAD}(int* o, const int* a, int n) {{ {LOOP} if (threadIdx.x % 4 == 0) atomicAdd(o + a[i], 1); }}"
    assert rules_of(source, target) == ["atomic-contention"]


def test_a_structure_of_generic_pointers_is_passed_over() -> None:
    source = (
        "struct P { float x, y, z, w, u; }; "
        "__device__ __noinline__ void f(P* p) { p[threadIdx.x].x = p[threadIdx.x].z; }"
        f" {HEAD}(P* p, int g) {{ __shared__ P s[256]; f(g ? s : p); }}"
    )
    assert all(finding.rule != "uncoalesced-global" for finding in found(case_of(source)))


def test_rules_have_the_names_of_the_diagnosis() -> None:
    from gpuprof.diagnose.registry import RULES as DIAGNOSED

    titles = {rule.id: rule.title for rule in DIAGNOSED}
    assert [(rule.id, rule.title) for rule in RULES] == [(rule.id, titles[rule.id]) for rule in RULES]
    assert set(RULES) <= set(CODE_RULES)


def test_no_finding_speaks_of_time() -> None:
    sources = [TRANSPOSE.format(32), f"{HEAD}(float* o, const float* a, int n) {{ {INDEX} o[i] = a[i * n]; }}"]
    for finding in [finding for source in sources for finding in found(case_of(source, block=TILE))]:
        text = f"{finding.headline} {finding.why} {finding.action} {finding.advice}".lower()
        assert not any(word in text for word in ("faster", "slower", "second", "speedup", " µs", " ms "))


def _copy(index: str, to: str, read: str = "t[255 - threadIdx.x].x") -> str:
    """A kernel that copies 16 bytes a thread from global to shared memory, and reads a word."""
    return (
        f"{HEAD}(float* o, const float4* a) {{ __shared__ float4 t[512]; int i = threadIdx.x;\n"
        'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: '
        f'"r"((unsigned)__cvta_generic_to_shared(&t[{to}])), "l"(a + {index}) : "memory");\n'
        'asm volatile("cp.async.wait_all;" ::: "memory"); __syncthreads();\n'
        f"o[i] = {read}; }}"
    )


def test_wavefronts_of_a_copy_for_its_cache_lines_are_no_bank_conflict() -> None:
    """Rows of 64 bytes: a quarter of a warp copies from two cache lines, and its words lie in different banks."""
    case = case_of(_copy("(i / 4) * 64 + i % 4", "i", "((float*)t)[threadIdx.x]"))
    (copied,) = [access for access in case.accesses if access.space == "shared" and access.opcode.startswith("LDGSTS")]
    assert copied.wavefronts_per_request == 8.0
    assert "shared-bank-conflict" not in [finding.rule for finding in found(case)]


def test_a_copy_into_one_bank_conflicts() -> None:
    (finding,) = found(case_of(_copy("i", "2 * i", "((float*)t)[threadIdx.x]")))
    assert finding.headline == "Shared-memory bank conflicts: 8 wavefronts per request, 4 needed (2-way): a store"


def test_padding_keeps_rows_aligned_for_the_widest_access() -> None:
    """4 bytes more would do for the words, and leave the 16 bytes of the copy at addresses that are no multiple."""
    (finding,) = found(case_of(_copy("i", "i")))
    assert finding.headline == "Shared-memory bank conflicts: 4 wavefronts per request, 1 needed (4-way): a load"
    assert "B more in each row" not in finding.advice


def test_words_that_all_lanes_read_are_not_narrow() -> None:
    assert rules_of(f"{HEAD}(float* o, const float* a) {{ {INDEX} o[i] = a[0] + a[1] * (a[2] + a[3]); }}") == []


def test_two_rows_that_a_warp_reads_a_word_of_are_not_uncoalesced() -> None:
    """A block of 16 × 16: two sectors for two rows, where 32 words side by side are four."""
    source = (
        f"{HEAD}(float* o, const signed char* a, int n) {{ int y = blockIdx.y * 16 + threadIdx.y; float s = 0;\n"
        "for (int k = 0; k < n; k++) s += a[y * n + k];\n"
        "o[(blockIdx.y * 16 + threadIdx.y) * 16 + threadIdx.x] = s; }"
    )
    case = case_of(source, block=(16, 16, 1), arguments={2: 4096})
    assert 2.0 in {access.sectors_per_request for access in case.accesses if access.kind == "load"}
    assert "uncoalesced-global" not in [finding.rule for finding in found(case)]
    assert "uncoalesced-global" not in rules_of(source, block=(16, 16, 1))


@each_row("target", TARGETS)
def test_lanes_whose_places_no_formula_tells_are_a_stride_if_they_move_much(target: str) -> None:
    block = (16, 16, 1)
    finding = only(f"{HEAD}(float* o, const float* a, int n) {{ {INDEX} o[i] = a[n + ~i * 9]; }}", target, block)
    assert finding.headline == "Uncoalesced global access: 16 sectors per request, 2 needed (a load)"
    # Read backwards, a row begins inside a sector.
    assert rules_of(f"{HEAD}(float* o, const float* a, int n) {{ {INDEX} o[i] = a[n + ~i]; }}", target, block) == []


def test_lanes_that_lie_apart_by_more_than_a_stride_have_no_factor() -> None:
    source = f"{HEAD}(float* o, int n) {{ o[(threadIdx.x / 2) * n + threadIdx.x % 2] = 1; }}"
    (finding,) = found(case_of(source))
    assert finding.why.startswith("How far apart the lanes are depends on argument 1.")


@each_row(("words", "rules"), [(5, []), (8, ["narrow-access"])])
def test_rows_of_which_only_some_are_aligned_are_not_narrow(words: int, rules: list[str]) -> None:
    """Rows of 20 bytes begin at a multiple of 8 for one thread and not for the next."""
    sums = " + ".join(f"a[r * {words} + {word}]" for word in range(words))
    source = f"{HEAD}(float* o, const float* a, int w) {{ {INDEX} int r = i / w; o[i] = {sums}; }}"
    assert [rule for rule in rules_of(source) if rule == "narrow-access"] == rules
