"""What makes an access unknown: arguments as strides, looked-up addresses, branches; and what it would cost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.review.facts.strides import cost_words, costs_of_values, kernel_addresses, stride_arguments, unknown_causes
from gpuprof.sass.dataflow.addresses import addresses_of
from gpuprof.sass.dataflow.warps import ThreadBlock
from gpuprof.sass.instruction import Instruction, parse_sass
from tests.code_cases import case_of
from tests.cuda_tools import needs_cuda_wheels
from tests.followed_code import solution_of

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
TILED = (
    f"{HEAD}(float* o, const float* a, int n) {{ int x = threadIdx.x & 31, w = threadIdx.x >> 5; "
    "o[w * n + x] = a[x * n + w]; }"
)


def causes(source: str, target: str = "sm_90", names: tuple[str | None, ...] = ("o", "a", "n")) -> list[str]:
    return list(dict.fromkeys(unknown_causes(case_of(source, target, names=names)).values()))


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
def test_costs_are_those_of_the_formula_for_sectors() -> None:
    case = case_of(STRIDED)
    addresses = kernel_addresses(case)
    assert addresses is not None
    item = next(item for item in addresses.by_request.values() if item.times)
    assert [str(part) for part in stride_arguments(case, item)] == ["2"]
    # 32 lanes of 4 B that lie 8 B, 16 B and 32 B apart span 8, 16 and 32 sectors of 32 B.
    assert [costs_of_values(item)[value] for value in (1, 2, 4, 8, 256)] == [4, 8, 16, 32, 32]
    assert cost_words(item) == COST


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
    addresses = addresses_of(solution_of(code, ThreadBlock((64, 1, 1)), {}))
    assert addresses is not None
    item = addresses.by_request[0x30, "global"]
    assert (item.known, item.stride, item.step, item.changes_in_loop) == (True, 48, 8, True)


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
    addresses = addresses_of(solution_of(code, ThreadBlock((32, 2, 1)), {}))
    assert addresses is None or all(len(item.apart) == 32 for item in addresses.by_request.values())


def test_a_long_chain_of_sums_is_followed_without_recursion() -> None:
    code = sass("S2R R2, SR_TID.X", *["IADD3 R2, R2, 0x1, RZ"] * 3000, "LDG.E R4, [R2.64]", "EXIT")
    addresses = addresses_of(solution_of(code, ThreadBlock((64, 1, 1)), {}))
    assert addresses is not None
    (item,) = addresses.by_request.values()
    assert (item.stride, item.offset) == (1, 3000)
