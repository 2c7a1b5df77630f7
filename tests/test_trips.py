"""How often loops run: hand-worked loops, and what must stay unknown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuprof.sass.instruction import Instruction, parse_sass
from tests.followed_code import trip_counts
from tests.table import each_row


def sass(*lines: str) -> tuple[Instruction, ...]:
    """Code as nvdisasm prints it, 16 bytes an instruction."""
    return parse_sass("\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate(lines)))


def counted(*turn: str, begin: str = "MOV R0, 0x0", constants: dict[int, int] | None = None) -> int | None:
    """How often a loop from 0x10 runs, whose turn ends with its branch."""
    return trip_counts(sass(begin, *turn, "EXIT"), constants or {}).get(0x10)


def simulated(first: int, step: int, limit: int, how: str) -> int | None:
    """Run `do { first += step; } while (first how limit)` for at most 1,000 turns."""
    compare = {"LT": int.__lt__, "LE": int.__le__, "GT": int.__gt__, "GE": int.__ge__, "NE": int.__ne__}[how]
    for turn in range(1, 1001):
        first += step
        if not compare(first, limit):
            return turn
    return None


@given(
    first=st.integers(-50, 50),
    step=st.integers(-7, 7).filter(bool),
    limit=st.integers(-50, 50),
    how=st.sampled_from(["LT", "LE", "GT", "GE", "NE"]),
)
def test_a_counter_is_followed_to_its_limit(first: int, step: int, limit: int, how: str) -> None:
    number = f"{first % (1 << 32):#x}"
    turn = [f"IADD3 R0, R0, {step:#x}, RZ", f"ISETP.{how}.AND P0, PT, R0, {limit:#x}, PT", "@P0 BRA 0x10"]
    assert counted(*turn, begin=f"MOV R0, {number}") == simulated(first, step, limit, how)


@each_row(
    ("turn", "turns"),
    [
        (["VIADD R0, R0, 0x1", "ISETP.NE.AND P0, PT, R0, 0x8, PT", "@P0 BRA 0x10"], 8),
        (["IMAD.IADD R0, R0, 0x1, R5", "ISETP.NE.AND P0, PT, R0, 0x8, PT", "@P0 BRA 0x10"], None),
        (["IADD3 R0, R0, 0x4, RZ", "ISETP.GE.U32.AND P0, PT, R0, 0x40, PT", "@!P0 BRA 0x10"], 16),
        (["ISETP.LT.AND P0, PT, R0, 0x7, PT", "IADD3 R0, R0, 0x1, RZ", "@P0 BRA 0x10"], 8),
        (["IADD3 R1, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R1, 0x7, PT", "MOV R0, R1", "@P0 BRA 0x10"], 7),
        (["IADD3 R0, R0, 0x1, RZ", "ISETP.GT.AND P0, PT, 0x7, R0, PT", "@P0 BRA 0x10"], 7),
        (["IADD3 R0, R0, 0x1, RZ", "ISETP.GE.AND PT, P0, R0, 0x7, PT", "@P0 BRA 0x10"], 7),
        (["@P1 IADD3 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, 0x7, PT", "@P0 BRA 0x10"], None),
        (["IADD3 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, 0x7, P1", "@P0 BRA 0x10"], None),
        (["IADD3 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, R9, PT", "@P0 BRA 0x10"], None),
        (["@P1 EXIT", "IADD3 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, 0x7, PT", "@P0 BRA 0x10"], None),
        (["@P1 BRA 0x50", "IADD3 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, 0x7, PT", "@P0 BRA 0x10"], None),
        (["SHF.L.U32 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, 0x7, PT", "@P0 BRA 0x10"], None),
        (["IADD3 R0, R0, 0x3, RZ", "ISETP.NE.AND P0, PT, R0, 0x7, PT", "@P0 BRA 0x10"], None),
        (["LDG.E R0, [R2.64]", "ISETP.NE.AND P0, PT, R0, 0x7, PT", "@P0 BRA 0x10"], None),
    ],
)  # fmt: skip
def test_a_turn_is_counted_where_nothing_else_decides(turn: list[str], turns: int | None) -> None:
    assert counted(*turn) == turns


def test_a_bound_that_is_an_argument_counts_once_it_is_given() -> None:
    turn = ["IADD3 R0, R0, 0x2, RZ", "ISETP.GE.AND P0, PT, R0, c[0x0][0x168], PT", "@!P0 BRA 0x10"]
    assert counted(*turn) is None
    assert counted(*turn, constants={0x168: 100, 0x169: 0, 0x16A: 0, 0x16B: 0}) == 50
    turn = ["IADD3 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, 0x7, PT", "@P0 BRA 0x10"]
    assert counted(*turn, begin="S2R R0, SR_TID.X") is None
