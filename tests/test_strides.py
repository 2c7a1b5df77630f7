"""What makes an access unknown: arguments as strides, looked-up addresses, branches; and what it would cost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.code.binary.cubin import CubinKernel
from gpuprof.code.flow.graph import graph_of
from gpuprof.code.formulas import registers
from gpuprof.code.formulas.addresses import lane_addresses
from gpuprof.code.formulas.registers import LaneSums
from gpuprof.code.sass.instruction import Instruction, parse_sass
from gpuprof.review import strides
from gpuprof.review.code import KernelCode
from gpuprof.review.kernel import CompiledKernel, KnownLaunch
from gpuprof.review.memory import accesses_of
from gpuprof.review.strides import cost_words, costs_of_values, kernel_addresses, stride_arguments, unknown_causes
from tests.code_cases import case_of
from tests.cuda_tools import needs_cuda_wheels
from tests.table import each_row

COST = "1 → 4 sectors, 8 or more → 32"

TARGETS = ("sm_75", "sm_90", "sm_120")
HEAD = 'extern "C" __global__ void k'
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
STRIDED = f"{HEAD}(float* o, const float* a, int n) {{ {INDEX} o[i] = a[i * n]; }}"
ROWS = (
    f"{HEAD}(float* o, const float* a, int n) {{ {INDEX} float s = 0; "
    "for (int c = 0; c < n; c++) s += a[i * n + c]; o[i] = s; }"
)
GATHER = f"{HEAD}(float* o, const float* a,\nconst int* at) {{ {INDEX}\no[i] = a[at[i]]; }}"
SHARED = (
    f"{HEAD}(float* o, int n) {{ extern __shared__ float t[]; t[threadIdx.x * n] = 1; __syncthreads(); o[0] = t[0]; }}"
)
CHOSEN = f"{HEAD}(float* o, const float* a, int m) {{ {INDEX} o[i] = a[m ? i : i * 33]; }}"
TILED = (
    f"{HEAD}(float* o, const float* a, int n) {{ int x = threadIdx.x & 31, w = threadIdx.x >> 5; "
    "o[w * n + x] = a[x * n + w]; }"
)
DIVIDED = f"{HEAD}(float* o, const float* a, int n) {{ {INDEX} o[i] = a[i / n * 64 + i % n]; }}"


def causes(source: str, target: str = "sm_90", names: tuple[str | None, ...] = ("o", "a", "n")) -> list[str]:
    """What is said of the accesses of a kernel, each once."""
    return list(dict.fromkeys(unknown_causes(case_of(source, target, names=names).known).values()))


def sass(*lines: str) -> tuple[Instruction, ...]:
    return parse_sass("\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate(lines)))


@pytest.mark.compilers
@needs_cuda_wheels
@pytest.mark.parametrize("target", TARGETS)
def test_a_stride_that_is_an_argument_is_named_with_what_it_costs(target: str) -> None:
    for source in (STRIDED, TILED):
        (said,) = causes(source, target)
        assert "argument 2 (n) × 4 B" in said and COST in said
    # Rows that threads walk along have the same stride in all unrolled loops.
    rows = causes(ROWS, target)
    assert rows and all("argument 2 (n) × 4 B" in said for said in rows)
    # A looked-up address is a gather with the line of its index.
    (said,) = causes(GATHER, target)
    assert "kernels.cu:3" in said and "gather" in said


@pytest.mark.compilers
@needs_cuda_wheels
def test_arguments_are_named_or_numbered_and_a_given_one_leaves_nothing_unknown() -> None:
    (unnamed,) = causes(STRIDED, names=())
    assert "argument 2 × 4 B" in unnamed and COST in unnamed
    (long,) = causes(STRIDED, names=("o", "a", "n" * 15_000))
    assert len(long) < 300
    case = case_of(STRIDED, arguments={2: 3})
    assert [(access.sectors_per_request, access.unknown) for access in case.accesses] == [(12.0, ""), (4.0, "")]
    # A stride in shared memory costs wavefronts.
    (shared,) = causes(SHARED, names=("o", "n"))
    assert "argument 1 (n) × 4 B" in shared and "1 → 1 wavefront, 32 → 32" in shared
    # An argument that chooses between addresses, or divides, is no stride.
    for source, names in ((CHOSEN, ("o", "a", "m")), (DIVIDED, ("o", "a", "n"))):
        assert all(f"argument 2 ({names[2]})" in said and "×" not in said for said in causes(source, names=names))


@pytest.mark.compilers
@needs_cuda_wheels
def test_costs_are_those_of_the_formula_for_sectors() -> None:
    case = case_of(STRIDED)
    addresses = kernel_addresses(case.known)
    assert addresses is not None
    item = next(item for item in addresses.of.values() if item.times)
    assert stride_arguments(case.known, item) == (2,)
    # 32 lanes of 4 B that lie 8 B, 16 B and 32 B apart span 8, 16 and 32 sectors of 32 B.
    assert [costs_of_values(item)[value] for value in (1, 2, 4, 8, 256)] == [4, 8, 16, 32, 32]
    assert cost_words(item) == COST


def test_what_no_way_through_a_branch_writes_is_known_behind_it() -> None:
    code = sass(
        "S2R R0, SR_TID.X",
        "ULDC UR4, c[0x0][0x160]",
        "ISETP.GT.AND P0, PT, R0, 0x7, PT",
        "@P0 BRA 0x50",
        "MOV R6, 0x1",
        "IMAD R2, R0, 0x4, UR4",
        "STG.E [R2.64], R6",
        "EXIT",
    )
    addresses = lane_addresses(code, (64, 1, 1), {})
    assert addresses is not None
    item = addresses.of[0x60, "global"]
    assert (item.stride, item.base) == (4, "1·c[0x0][0x160] + 4·lanes 0")


@each_row("load", ["ULDC UR4, c[0x0][RZ]", "MOV R6, c[0x0][RZ]", "LDC R6, c[0x0][0x0]"])
def test_the_first_word_of_the_bank_has_no_number(load: str) -> None:
    """It is blockDim.x on sm_90 and older; a block of 64 threads is known."""
    code = sass("S2R R0, SR_TID.X", load, f"IMAD R2, R0, {load.split()[1]} RZ", "LDG.E R3, [R2.64]", "EXIT")
    for constants, times, apart in (({}, {("c[0x0][0x0]",): 1}, 0), ({0: 64, 1: 0, 2: 0, 3: 0}, {}, 64)):
        addresses = lane_addresses(code, (64, 1, 1), constants)
        assert addresses is not None
        item = addresses.of[0x30, "global"]
        assert {factors: vector[1] for factors, vector in item.times.items()} == times
        assert item.apart[1] == apart


def test_what_follows_from_a_loop_is_known_once_the_loop_is() -> None:
    # R2 grows by a register that only the inner loop tells to be the same in all lanes; R5 cuts lanes off by LOP3.
    code = sass(
        "S2R R0, SR_TID.X",
        "MOV R2, RZ",
        "MOV R3, RZ",
        "IADD3 R3, R3, 0x4, RZ",
        "ISETP.NE.AND P0, PT, R3, c[0x0][0x160], PT",
        "@P0 BRA 0x30",
        "IADD3 R2, R2, R3, RZ",
        "ISETP.NE.AND P1, PT, R2, c[0x0][0x164], PT",
        "@P1 BRA 0x30",
        "LOP3.LUT R5, R0, 0x3, RZ, 0xc0, !PT",
        "IMAD R6, R5, 0x4, R2",
        "STS [R6], R5",
        "EXIT",
    )
    addresses = lane_addresses(code, (64, 1, 1), {})
    assert addresses is not None
    item = addresses.of[0xB0, "shared"]
    assert item.known
    assert item.apart == tuple(4 * (lane % 4) for lane in range(32))


def test_a_loop_that_adds_the_same_in_all_lanes_keeps_their_distance() -> None:
    code = sass(
        "S2R R0, SR_TID.X",
        "IMAD R2, R0, 0x30, RZ",
        "MOV R4, c[0x0][0x170]",
        "LDG.E R6, [R2.64]",
        "IADD3 R2, R2, 0x8, RZ",
        "IADD3 R4, R4, -0x1, RZ",
        "ISETP.NE.AND P0, PT, R4, RZ, PT",
        "@P0 BRA 0x30",
        "EXIT",
    )
    addresses = lane_addresses(code, (64, 1, 1), {})
    assert addresses is not None
    item = addresses.of[0x30, "global"]
    assert (item.known, item.stride, item.step, item.moves) == (True, 48, 8, True)


def test_lanes_that_came_on_different_ways_have_no_common_stride() -> None:
    code = sass(
        "S2R R0, SR_TID.X",
        "MOV R2, 0x100",
        "ISETP.GT.AND P0, PT, R0, 0x7, PT",
        "@P0 BRA 0x50",
        "IMAD R2, R0, 0x30, RZ",
        "LDG.E R6, [R2.64]",
        "EXIT",
    )
    addresses = lane_addresses(code, (64, 1, 1), {})
    assert addresses is not None
    assert not addresses.of[0x50, "global"].known


_LINES = (
    "S2R R{0}, SR_TID.X", "MOV R{0}, c[0x0][0x168]", "IMAD R{0}, R{1}, R{2}, R{0}", "IADD3 R{0}, R{1}, 0x10, RZ",
    "LDG.E R{0}, [R{1}.64]", "@P{p} BRA {t:#x}", "@!P{p} IADD3 R{0}, R{1}, R{2}, RZ", "SHF.L.U32 R{0}, R{1}, 0x2, RZ",
    "ISETP.NE.AND P{p}, PT, R{0}, R{1}, PT", "LDC.64 R{0}, c[0x0][0x380]", "STS [R{1}+0x4], R{0}", "EXIT",
    "LOP3.LUT R{0}, R{1}, 0x1f, RZ, 0xc0, !PT", "SEL R{0}, R{1}, R{2}, P{p}", "BRA {t:#x}", "R2UR UR{0}, R{1}",
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(_LINES),
            st.tuples(*(st.integers(0, 7) for _ in range(3))),
            st.integers(0, 2),
            st.integers(0, 39),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_any_code_is_followed_to_an_end(lines: list[tuple[str, tuple[int, int, int], int, int]]) -> None:
    code = sass(*(line.format(*names, p=flag, t=16 * (at % len(lines))) for line, names, flag, at in lines), "EXIT")
    addresses = lane_addresses(code, (32, 2, 1), {})
    assert addresses is None or all(len(item.apart) == 32 for item in addresses.of.values())


def test_a_long_chain_of_sums_is_followed_without_recursion() -> None:
    code = sass("S2R R2, SR_TID.X", *["IADD3 R2, R2, 0x1, RZ"] * 3000, "LDG.E R4, [R2.64]", "EXIT")
    addresses = lane_addresses(code, (64, 1, 1), {})
    assert addresses is not None
    (item,) = addresses.of.values()
    assert (item.stride, item.offset) == (1, 3000)


def test_kernels_and_addresses_that_are_too_long_to_follow_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strides, "_MOST_INSTRUCTIONS", 900)
    monkeypatch.setattr(registers, "_MOST_STEPS", 600)
    gather = ("S2R R2, SR_TID.X", "LDG.E R4, [R2.64]", "LDG.E R6, [R4.64]")
    short, long = review_of(*gather), review_of(*gather, *["FADD R9, R9, R9"] * 900)
    assert "gather" in accesses_of(short, {})[-1].unknown and "0x10" in accesses_of(short, {})[-1].unknown
    assert accesses_of(long, {})[-1].unknown == strides._TOO_LONG
    code = review_of(
        "S2R R2, SR_TID.X",
        "LDG.E R3, [R2.64]",
        "ISETP.GT.AND P0, PT, R3, 0x7, PT",
        *["@P0 IADD3 R2, R2, R3, RZ"] * 310,
        "STG.E [R2.64], R2",
        "STG.E [R3.64], R2",
    )
    *_, summed, loaded = accesses_of(code, {})
    assert "too long" in summed.unknown and "gather" not in summed.unknown
    assert "gather" in loaded.unknown
    graph = graph_of(sass("S2R R2, SR_TID.X", *["IADD3 R2, R2, 0x1, RZ"] * 700, "LDG.E R4, [R2.64]", "EXIT"))
    assert graph is not None
    sums = LaneSums(graph, (64, 1, 1), {})
    (held,) = sums.addresses([(0, 701, "[R2.64]")])
    assert held is not None
    assert any(sums.symbols.of[name].kind == "beyond" for name, _ in held.terms)
    assert sums.cut_short


def review_of(*lines: str) -> KernelCode:
    """A kernel of these instructions, which the rest of a review knows nothing of."""
    kernel = CubinKernel(mangled="k", code=b"", parameters_offset=0x160)
    shape = KnownLaunch(block=(64, 1, 1))
    compiled = CompiledKernel(name="k", target="sm_80", origin="k", cubin=b"", kernel=kernel, shape=shape)
    return KernelCode(kernel=compiled, code=sass(*lines, "EXIT"), lines={}, arch=None)
