"""Which addresses the lanes of a warp touch: rules for values, ways through the code, costs, and real kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.diagnosis.access import POINTER, ArgumentBytes, constants_for
from gpuprof.model.recorded import Dim3
from gpuprof.sass.dataflow.accesses import accesses_of
from gpuprof.sass.dataflow.expressions import spread
from gpuprof.sass.dataflow.request_costs import Access, sectors, wavefronts, ways
from gpuprof.sass.dataflow.warps import ThreadBlock, any_warp, thread_indices
from gpuprof.sass.flow.graph import flow_of
from gpuprof.sass.instruction import Instruction, parse_sass
from tests.cuda_tools import needs_cuda_wheels
from tests.followed_code import accesses, solution_of
from tests.reviewed_code import compiled_cases
from tests.table import each_row

LANES = range(32)
UNKNOWN = None


def sass(*lines: str) -> tuple[Instruction, ...]:
    """Code as nvdisasm prints it, 16 bytes an instruction."""
    return parse_sass("\n".join(f"/*{16 * index:04x}*/ {line} ;" for index, line in enumerate(lines)))


def only(
    *lines: str,
    block: tuple[int, int, int] = (256, 1, 1),
    constants: Mapping[int, int] | None = None,
    warp: int = 0,
) -> Access:
    """The last memory access of some code, which ends with it."""
    return accesses(sass(*lines, "EXIT"), block, constants or {}, warp)[-1]


def held(*lines: str, block: tuple[int, int, int] = (256, 1, 1)) -> tuple[int, ...] | None:
    """What R0 holds in each lane, by the exact shared address that it is used as; None where it is not exact."""
    access = only(*lines, "LDS R9, [R0]", block=block)
    if access.offsets is None or access.alignment < 1 << 32:
        return None
    return tuple((access.start + offset) % (1 << 32) for offset in access.offsets)


def every(numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(number % (1 << 32) for number in numbers)


TID = "S2R R1, SR_TID.X"
CTAID = "S2R R2, SR_CTAID.X"


# Values


@each_row(
    ("lines", "value"),
    [
        (["MOV R0, 0x30"], lambda lane: 0x30),
        (["IMAD R0, R1, 0x30, RZ"], lambda lane: 48 * lane),
        (["IMAD.SHL.U32 R0, R1.reuse, 0x4, RZ"], lambda lane: 4 * lane),
        (["IMAD.MOV R0, RZ, RZ, -R1"], lambda lane: -lane),
        (["IMAD.HI.U32 R0, R1, -0x55555555, RZ", "SHF.R.U32.HI R0, RZ, 0x1, R0"], lambda lane: lane // 3),
        (["MOV R2, RZ", "MOV R3, R1", "IMAD.HI R0, R1, -0x6db6db6d, R2", "SHF.R.U32.HI R0, RZ, 0x2, R0"],
         lambda lane: lane // 7),
        (["IADD3 R0, -R1, 0x1f, R1"], lambda lane: 31),
        (["IADD3 R0, PT, PT, ~R1, 0x8, RZ"], lambda lane: 7 - lane),
        (["IADD R0, R1, -0x4"], lambda lane: lane - 4),
        (["VIADD R0, R1, 0xfffffffc"], lambda lane: lane - 4),
        (["LEA R0, R1, 0x100, 0x3"], lambda lane: 8 * lane + 256),
        (["IADD R0, R1, -0x10", "LEA.HI R0, R0, R1, RZ, 0x1"], lambda lane: lane + (lane < 16)),
        (["IADD R0, R1, -0x10", "LEA.HI.SX32 R0, R0, RZ, 0x1e"], lambda lane: (lane - 16) >> 2),
        (["SHF.R.U32.HI R0, RZ, 0x3, R1"], lambda lane: lane >> 3),
        (["IADD R0, R1, -0x10", "SHF.R.S32.HI R0, RZ, 0x1f, R0"], lambda lane: -(lane < 16)),
        (["SHF.L.U32 R0, R1, 0x5, RZ"], lambda lane: lane << 5),
        (["LOP3.LUT R0, R1, 0x7, RZ, 0xc0, !PT"], lambda lane: lane & 7),
        (["MOV R2, 0x15", "LOP3.LUT R0, R1, 0x7, R2, 0x48, !PT"], lambda lane: (lane ^ 0x15) & 7),
        (["MOV R2, 0x15", "LOP3.LUT R0, R1, 0x7, R2, 0xf8, !PT"], lambda lane: lane | (7 & 0x15)),
        (["PRMT R0, R1, 0x7601, R1"], lambda lane: lane << 8),
        (["IADD R0, R1, -0x1", "PRMT R0, R0, 0x8880, RZ"], lambda lane: lane - 1),
        (["SGXT.U32 R0, R1, 0x3"], lambda lane: lane % 8),
        (["SGXT R0, R1, 0x3"], lambda lane: (lane % 8) - 8 * (lane % 8 >= 4)),
        (["S2R R2, SR_CTAID.X", "IMAD R0, R2, 0x8, R1", "SGXT.U32 R0, R0, 0x3"], lambda lane: lane % 8),
        (["S2R R2, SR_CTAID.X", "IMAD R0, R2, 0x8, R1", "SGXT.U32 R0, R0, 0x4"], UNKNOWN),
        (["HFMA2.MMA R0, -RZ, RZ, 0, 2.384185791015625e-07"], lambda lane: 4),
        (["HFMA2 R0, -RZ, RZ, 1.875, 0"], lambda lane: 0x3F800000),
        (["VIMNMX.U32 R0, R1, 0x8, PT"], lambda lane: min(lane, 8)),
        (["VIMNMX R0, PT, PT, R1, 0x8, !PT"], lambda lane: max(lane, 8)),
        (["ISETP.GT.AND P0, PT, R1, 0x7, PT", "SEL R0, R1, RZ, P0"], lambda lane: lane if lane > 7 else 0),
        (["ISETP.GT.AND P0, P1, R1, 0x7, PT", "SEL R0, R1, RZ, P1"], lambda lane: lane if lane <= 7 else 0),
        (["LOP3.LUT P0, RZ, R1, 0x1, RZ, 0xc0, !PT", "SEL R0, R1, RZ, !P0"], lambda lane: 0 if lane % 2 else lane),
        (["ISETP.GE.AND P0, PT, R1, 0x4, PT", "ISETP.LT.OR P0, PT, R1, 0x2, !P0", "SEL R0, 0x1, RZ, P0"],
         lambda lane: lane < 4),
        (["ISETP.GE.AND P0, PT, R1, 0x4, PT", "PLOP3.LUT P0, PT, P0, PT, PT, 0x8, 0x0", "SEL R0, 0x1, RZ, P0"],
         lambda lane: lane < 4),
        (["MOV R0, 0x40", "@P0 MOV R0, R1"], UNKNOWN),
        (["MOV R0, 0x40", "ISETP.LT.AND P0, PT, R1, 0x2, PT", "@P0 MOV R0, R1"], lambda lane: lane if lane < 2 else 64),
        (["IMAD.WIDE R2, R1, -0x4, RZ", "MOV R0, R3"], lambda lane: -(lane > 0)),
        (["IMAD.WIDE.U32 R2, R1, -0x4, RZ", "MOV R0, R3"], lambda lane: max(lane - 1, 0)),
        (["IADD3 R2, P0, R1, -0x10, RZ", "IADD3.X R0, RZ, -0x1, RZ, P0, !PT"], lambda lane: -(lane < 16)),
        (["IADD3 R2, P0, RZ, -R1, RZ", "IMAD.X R0, RZ, RZ, RZ, P0"], lambda lane: lane == 0),
        (["MOV.64 R2, -0x1", "IMAD.WIDE.U32 R4, R1, 0x1, RZ", "IADD.64 R2, R2, R4", "MOV R0, R3"],
         lambda lane: -(lane == 0)),
        (["MOV R2, R1", "MOV R3, R1", "SHF.R.U64 R0, R2, 0x1e, R3"], lambda lane: lane << 2),
        (["S2UR UR4, SR_CTAID.X", "UIMAD UR4, UR4, URZ, 0x80", "IMAD.U32 R0, RZ, RZ, UR4"], lambda lane: 128),
        (["FADD R0, R1, R1"], UNKNOWN),
        (["I2F R0, R1"], UNKNOWN),
        (["LDG.E R0, [R2.64]"], UNKNOWN),
        (["IMAD R0, R1, 0x4, R7"], UNKNOWN),
        (["S2R R0, SR_CLOCKLO"], UNKNOWN),
    ],
)  # fmt: skip
def test_a_register_holds_what_the_instructions_say(lines: list[str], value: Callable[[int], int] | None) -> None:
    assert held(TID, *lines) == (every([value(lane) for lane in LANES]) if value else None)


def test_threads_are_numbered_x_first_and_lanes_without_a_thread_take_no_part() -> None:
    lines = ("S2R R1, SR_TID.Y", "S2R R2, SR_TID.X", "IMAD R0, R1, 0x100, R2")
    assert held(*lines, block=(8, 4, 2)) == every([256 * (lane // 8) + lane % 8 for lane in LANES])
    assert only(*lines, "LDS R9, [R0]", block=(8, 16, 1), warp=1).start == 256 * 4
    access = only(TID, "LDS R9, [R1.X4]", block=(20, 1, 1))
    assert access.active == tuple(lane < 20 for lane in LANES)
    assert accesses(sass("@!PT LDS RZ, [RZ]", "NOP", "EXIT"), (32, 1, 1), {}) == ()


def test_an_instruction_without_a_rule_may_write_every_register_from_the_first_it_names() -> None:
    assert held(TID, "MOV R0, R1", "FROBNICATE R2, R3") == every(LANES)
    assert held("MOV R1, 0x4", "MOV R0, R1", "FROBNICATE R0, R3") is None
    assert held("S2R R5, SR_TID.X", "HGMMA.64x256x16.F32 R4, gdesc[UR8], R4", "MOV R0, R5") is None
    assert held(TID, "HMMA.16816.F32 R12, R4, R8, R12", "MOV R0, R1") == every(LANES)
    assert held("S2R R3, SR_TID.X", "F2F.F64.F32 R2, R8", "MOV R0, R3") is None
    assert held("S2R R3, SR_TID.X", "LDG.E.64 R2, [R8.64]", "MOV R0, R3") is None
    assert held("S2R R5, SR_TID.X", "LDS.128 R2, [R8]", "MOV R0, R5") is None
    assert held("S2R R3, SR_TID.X", "IMNMX.S64 PT, PT, R2, R12, R2, !PT, !PT", "MOV R0, R3") is None


# Warps


@given(st.tuples(st.integers(1, 70), st.integers(1, 12), st.integers(1, 6)))
def test_what_stands_for_all_full_warps_holds_for_each(block: tuple[int, int, int]) -> None:
    every = any_warp(block)
    full = block[0] * block[1] * block[2] // 32
    if every is None:
        return
    assert full
    for warp in range(full):
        for known, indices in zip(thread_indices(every), ThreadBlock(block, warp).indices(), strict=True):
            assert known is not None
            rest = {(index - lane) % 2**32 for index, lane in zip(indices, spread(known.lanes), strict=True)}
            assert len(rest) == 1
            assert rest.pop() % (1 << known.align) == 0


# Calls


def test_calls_keep_what_they_cannot_write() -> None:
    """ptxas leaves loops so, also in kernels with functions that do return."""
    code = sass(
        "CALL.REL.NOINC 0x60", "@P0 CALL.REL.NOINC 0x40", "NOP", "BRA 0x10",
        "@P1 BRA 0x10", "EXIT", "IADD3 R2, R2, 0x1, RZ", "RET.REL.NODEC R2 0x0",
    )  # fmt: skip
    assert flow_of(code).jumps == {0x10}
    assert flow_of(sass("CALL.ABS.NOINC 0x0", "EXIT")).jumps == frozenset()
    assert flow_of(sass("CALL.REL.NOINC 0x1000", "EXIT")).jumps == frozenset()
    lines = (TID, "MOV R16, 0x60", "CALL.REL.NOINC 0x70", "LDS R9, [R1.X4]", "@!P0 CALL.REL.NOINC 0x60", "BRA 0x30",
             "EXIT", "RET.REL.NODEC R16 0x0")  # fmt: skip
    assert accesses(sass(*lines), (32, 1, 1), {})[0].offsets == tuple(4 * lane for lane in LANES)
    lines = (TID, "MOV R2, R1", "CALL.REL.NOINC 0x60", "LDS R9, [R1.X4]", "LDS R9, [R2.X4]", "EXIT",
             "MOV R2, R8", "RET.REL.NODEC R4 0x0")  # fmt: skip
    first, second = accesses(sass(*lines), (32, 1, 1), {})
    assert (ways(first), ways(second)) == (1, None)


# Values that are the same for all lanes


def offsets(*lines: str, constants: Mapping[int, int] | None = None) -> tuple[int, ...] | None:
    """The lanes' differences for an address in R0, in any block and any turn."""
    access = only(*lines, "LDS R9, [R0]", constants=constants)
    return access.offsets


def test_what_is_the_same_for_all_lanes_leaves_their_differences_known() -> None:
    assert offsets(TID, CTAID, "IMAD R0, R2, 0x100, R1") == tuple(LANES)
    assert offsets(TID, "LDC R2, c[0x0][0x210]", "IADD3 R0, R2, R1, R1") == tuple(2 * lane for lane in LANES)
    assert offsets(TID, "IADD3 R0, R1, c[0x0][0x160], RZ") == tuple(LANES)
    assert offsets(TID, "LDC R2, c[0x0][0x210]", "IMAD R0, R2, R1, RZ") is None
    lines = (TID, CTAID, "IMAD R0, R2, R1, R1", "LDS R9, [R0]", "EXIT")
    assert only(*lines).offsets is None
    (access,) = accesses_of(solution_of(sass(*lines), ThreadBlock((256, 1, 1)), {})).values()
    assert access.offsets == tuple(LANES)  # in block 0
    assert offsets(TID, CTAID, "IMAD.WIDE R4, R2, 0x4, c[0x0][0x160]", "LDG.E R3, [R4.64]", "IADD R0, R3, R1") == tuple(
        LANES
    )
    assert offsets(TID, "IMAD.WIDE R4, R1, 0x4, c[0x0][0x160]", "LDG.E R3, [R4.64]", "IADD R0, R3, R1") is None
    assert offsets(TID, CTAID, "LDL R3, [R2]", "IADD R0, R3, R1") is None
    assert offsets(TID, "R2UR UR4, R7", "IADD R0, R1, UR4") == tuple(LANES)
    assert offsets(TID, "REDUX.SUM UR4, R7", "UIADD3 UR4, UR4, 0x1, URZ", "IADD R0, R1, UR4") == tuple(LANES)


def test_bits_are_known_below_and_above_what_is_unknown() -> None:
    tail = ("LOP3.LUT R0, R0, 0xff, RZ, 0xc0, !PT",)
    assert held(TID, CTAID, "IMAD R0, R2, 0x100, R1", *tail) == every(LANES)
    assert held(TID, CTAID, "IMAD R0, R2, 0x80, R1", *tail) is None
    # A swizzle: lanes are exclusive-ored below what is unknown.
    swizzle = (
        TID, CTAID, "SHF.R.U32.HI R3, RZ, 0x3, R1", "IMAD R0, R2, 0x20, R1", "LOP3.LUT R0, R0, R3, RZ, 0x3c, !PT",
    )  # fmt: skip
    assert offsets(*swizzle) == tuple(lane ^ lane >> 3 for lane in LANES)
    shift = "SHF.R.U32.HI R0, RZ, 0x4, R0"
    assert offsets(TID, CTAID, "IMAD R0, R2, 0x10, R1", shift) == tuple(lane >> 4 for lane in LANES)
    assert offsets(TID, CTAID, "IMAD R0, R2, 0x8, R1", shift) is None
    assert offsets(TID, CTAID, "IMAD R0, R2, 0x20, R1", "SHF.R.U32.HI R0, RZ, 0x6, R0") == (0,) * 32


# Addresses


def test_addresses_are_sums_of_registers_and_numbers() -> None:
    scaled = only(TID, "LDS R9, [R1.X8+0x10]")
    assert (scaled.offsets, scaled.start) == (tuple(8 * lane for lane in LANES), 0x10)
    assert only(TID, "UMOV UR4, 0x400", "LDS R9, [R1+UR4+-0x20]").start == 0x3E0
    stored = only("UMOV UR4, 0x400", "STS.64 [UR4], R2")
    assert (stored.address, stored.opcode, stored.space, stored.kind) == (16, "STS.64", "shared", "store")
    assert (stored.width_bytes, stored.offsets, stored.start) == (8, (0,) * 32, 0x400)
    assert only("LDS R9, [0x4]").start == 4


def test_lower_and_upper_words_are_added_one_after_the_other() -> None:
    lines = (TID, "IMAD.WIDE.U32 R2, R1, 0x8, c[0x0][0x160]")
    assert only(*lines, "LDG.E R9, desc[UR4][R2.64+0x10]").offsets == tuple(8 * lane for lane in LANES)
    assert only(*lines, "ATOMG.E.CAS.STRONG.GPU PT, R9, [R2], R6, R7").kind == "atomic"
    assert only(TID, "ULDC.64 UR4, c[0x0][0x160]", "LDG.E R9, [R1.U32+UR4]").offsets == tuple(LANES)
    # &p[tid - 1], with the sign of tid - 1: the first lane comes before the others.
    index = (TID, "IADD3 R2, R1, -0x1, RZ", "SHF.R.S32.HI R3, RZ, 0x1f, R2")
    by_lea = ("LEA R4, P0, R2, c[0x0][0x160], 0x2", "LEA.HI.X R5, R2, c[0x0][0x164], R3, 0x2, P0")
    by_shift = (
        "SHF.L.U64.HI R5, R2, 0x2, R3",
        "IMAD.SHL.U32 R4, R2, 0x4, RZ",
        "IADD3 R4, P1, P2, RZ, c[0x0][0x160], R4",
        "IADD3.X R5, RZ, c[0x0][0x164], R5, P1, P2",
    )
    for address in (by_lea, by_shift):
        access = only(
            *index, *address, "LDG.E R9, [R4.64]", constants=constants_for("sm_80", (256, 1, 1), None, [POINTER])
        )
        assert (access.offsets, access.start, access.alignment) == (tuple(4 * lane for lane in LANES), 252, 256)
    # A division by a constant makes the lanes' products wrap around on purpose.
    divided = ("IADD R3, R2, R1", "IMAD.WIDE.U32 R4, R3, -0x55555555, RZ", "SHF.R.U32.HI R0, RZ, 0x1, R5")
    assert offsets(TID, CTAID, *divided) is None
    # Indices do not wrap around between lanes: the upper word of their addresses is the same for all.
    assert offsets(TID, "IMAD.WIDE.U32 R2, R1, 0x8, c[0x0][0x160]", "MOV R0, R3") == (0,) * 32


def test_the_width_is_that_of_a_lane() -> None:
    for line, width in (
        ("LDG.E.U8.CONSTANT R0, [R2.64]", 1), ("STS.U16 [R2], R0", 2), ("LDG.E R0, [R2.64]", 4),
        ("LDG.E.LTC128B.64 R0, [R2.64]", 8), ("RED.E.ADD.F64.RN.STRONG.GPU [R2.64], R8", 8),
        ("LDL.128 R0, [R1+0x10]", 16), ("LDG.E.ENL2.256 R8, R4, desc[UR6][R2.64]", 32),
        ("ATOMG.E.ADD.F16x2.RN.STRONG.GPU PT, R0, [R2.64], R4", 4), ("ATOMS.POPC.INC.32 RZ, [R2+URZ]", 4),
        ("LDSM.16.M88.4 R4, [R2]", 16),
    ):  # fmt: skip
        assert only(line).width_bytes == width


# Ways through the code


def test_a_loop_moves_all_lanes_alike() -> None:
    loop = (TID, "IMAD.WIDE.U32 R2, R1, 0x4, c[0x0][0x160]", "LDG.E R9, [R2.64+0x4]", "IADD3 R2, P1, R2, 0x400, RZ",
            "IADD3.X R3, RZ, R3, RZ, P1, !PT", "ISETP.NE.AND P0, PT, R9, UR4, PT")  # fmt: skip
    constants = constants_for("sm_80", (256, 1, 1), None, [POINTER])
    access = accesses(sass(*loop, "@P0 BRA 0x20", "EXIT"), (256, 1, 1), constants)[0]
    assert (access.offsets, access.start, access.alignment) == (tuple(4 * lane for lane in LANES), 4, 256)


def test_lanes_that_part_are_put_together_again_where_that_is_known() -> None:
    """R0 = tid < 16 ? tid : 2 * tid, by jumps."""
    lines = (TID, "ISETP.LT.AND P0, PT, R1, 0x10, PT", "BSSY B0, 0x70", "@P0 BRA 0x60", "IMAD R0, R1, 0x2, RZ",
             "BSYNC B0", "MOV R0, R1", "NOP")  # fmt: skip
    assert held(*lines) == every([lane if lane < 16 else 2 * lane for lane in LANES])
    # if (x[tid] > 3) R0 = n; else R0 = n + 64: each is the same for its lanes, but not for all.
    apart = (TID, "LDS R7, [R1.X4]", "LDC R2, c[0x0][0x160]", "ISETP.GT.AND P0, PT, R7, 0x3, PT", "@P0 BRA 0x70",
             "MOV R3, R2", "BRA 0x80", "IADD R3, R2, 0x40", "NOP")  # fmt: skip
    assert offsets(*apart, "IADD R0, R3, R1") is None
    assert offsets(*apart, "IADD R0, R2, R1") == tuple(LANES)


def test_a_counter_stays_known_if_lanes_skip_the_rest_of_an_iteration() -> None:
    begin = (TID, "MOV R2, RZ", "IADD3 R3, R2, R1, RZ", "LDS R4, [R3]", "ISETP.GT.AND P0, PT, R4, 0x3, PT")
    end = ("IADD3 R2, R2, 0x80, RZ", "@P0 BRA 0x20", "FADD R5, R5, R4", "ISETP.LT.AND P1, PT, R2, UR4, PT",
           "@P1 BRA 0x20", "EXIT")  # fmt: skip
    access = accesses(sass(*begin, *end), (32, 1, 1), {})[0]
    assert access.offsets == tuple(LANES)


def test_lanes_that_left_are_not_counted() -> None:
    for leave in (("@P0 EXIT",), ("@P0 BRA 0x60",)):
        access = accesses(
            sass(TID, "ISETP.GE.AND P0, PT, R1, 0x3, PT", *leave, "LDS R9, [R1.X8]", "NOP", "NOP", "EXIT"),
            (32, 1, 1),
            {},
        )[0]
        assert access.active == tuple(lane < 3 for lane in LANES)
    lines = (TID, "ISETP.GE.AND P0, PT, R1, 0x20, PT", "@!P0 EXIT", "LDS R9, [R1.X4]")
    never = only(*lines)
    assert (never.runs, never.offsets, ways(never)) == (False, None, None)
    assert only(*lines, warp=1).offsets == tuple(4 * lane for lane in LANES)
    assert only("LDS R9, [R1]").runs


def test_a_predicate_guards_what_is_written_under_it() -> None:
    """@P0 address; @P0 load: known, though not what the register holds in the other lanes."""
    lines = (TID, "ISETP.GT.AND P0, PT, R7, 0x3, PT", "@P0 IMAD R0, R1, 0x8, RZ")
    assert only(*lines, "@P0 LDS R9, [R0]").offsets == tuple(8 * lane for lane in LANES)
    assert only(*lines, "@!P0 LDS R9, [R0]").offsets is None
    assert only(*lines, "LDS R9, [R0]").offsets is None
    assert only(*lines, "ISETP.GT.AND P0, PT, R8, 0x3, PT", "@P0 LDS R9, [R0]").offsets is None
    assert only(*lines, "FADD R0, R0, R0", "@P0 LDS R9, [R0]").offsets is None
    assert only(*lines, "@!P0 IMAD R0, R1, 0x8, RZ", "LDS R9, [R0]").offsets == tuple(8 * lane for lane in LANES)


# Costs


def request(
    space: str, width: int, places: Sequence[int], active: Sequence[bool] = (True,) * 32, start: int = 0
) -> Access:
    """A request with these offsets, at an address that is known modulo 256."""
    return Access(0, "LDX", space, "load", width, tuple(places), start, 256, tuple(active))  # type: ignore[arg-type]


@each_row(
    ("width", "stride", "start", "count"),
    [(4, 4, 0, 4), (4, 4, 4, 5), (4, 8, 0, 8), (4, 32, 0, 32), (4, 132, 0, 32), (4, 0, 28, 1), (8, 8, 0, 8),
     (16, 16, 0, 16), (16, 16, 8, 17), (4, 48, 0, 32), (1, 1, 0, 1), (2, 2, 30, 3), (32, 32, 0, 32), (4, -4, 124, 4)],
)  # fmt: skip
def test_sectors_are_the_pieces_of_32_bytes_that_are_touched(width: int, stride: int, start: int, count: int) -> None:
    assert sectors(request("global", width, [stride * lane for lane in LANES], start=start)) == count


@each_row(
    ("width", "stride", "passes", "degree"),
    [(4, 4, 1, 1), (4, 0, 1, 1), (4, 8, 2, 2), (4, 128, 32, 32), (4, 132, 1, 1), (4, 12, 1, 1), (4, 64, 16, 16),
     (8, 8, 2, 1), (8, 16, 4, 2), (8, 256, 32, 16), (8, 264, 2, 1), (8, 0, 1, 1), (16, 0, 2, 1),
     (16, 16, 4, 1), (16, 32, 8, 2), (16, 128, 32, 8), (16, 528, 4, 1), (1, 1, 1, 1), (2, 2, 1, 1), (1, 128, 32, 32)],
)  # fmt: skip
def test_ways_are_the_passes_beyond_those_of_the_width(width: int, stride: int, passes: int, degree: int) -> None:
    access = request("shared", width, [stride * lane for lane in LANES])
    assert (wavefronts(access), ways(access)) == (passes, degree)


def test_costs_are_of_their_own_space_and_of_known_addresses() -> None:
    """Lanes 0 and 1 ask one bank for different words: the first half takes 2 passes, the second 1."""
    access = request("shared", 8, [0, 256, *(8 * lane for lane in range(2, 32))])
    assert (wavefronts(access), ways(access)) == (3, 2)
    assert sectors(request("shared", 4, LANES)) is None
    assert ways(request("global", 4, LANES)) is None
    assert ways(request("generic", 4, LANES)) is None
    assert sectors(Access(0, "LDG", "global", "load", 4)) is None


places = st.lists(st.integers(-500, 500), min_size=32, max_size=32)
parts = st.lists(st.booleans(), min_size=32, max_size=32).filter(any)


@given(places, parts, st.sampled_from([1, 2, 4, 8, 16]), st.integers(0, 7))
def test_sectors_are_those_of_the_bytes_one_by_one(at: list[int], active: list[bool], width: int, start: int) -> None:
    begins = [start * width + width * place for place, here in zip(at, active, strict=True) if here]
    touched = {(begin + byte) // 32 for begin in begins for byte in range(width)}
    assert sectors(request("global", width, [width * place for place in at], active, start * width)) == len(touched)


@given(
    places | places.map(lambda at: [at[lane & ~1] for lane in LANES]),
    parts | st.just([True] * 32),
    st.sampled_from([1, 2, 4, 8, 16]),
)
def test_wavefronts_are_those_of_banks_that_serve_a_word_at_a_time(
    at: list[int], active: list[bool], width: int
) -> None:
    together = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[width]
    paired = width > 4 and all(active) and (at[::2] == at[1::2] or at == [at[lane ^ 2] for lane in LANES])
    together *= 1 + paired
    passes = least = 0
    for first in range(0, 32, together):
        lanes = [lane for lane in range(first, first + together) if active[lane]]
        waiting = {(width * at[lane] + byte) // 4 for lane in lanes for byte in range(width)}
        least += bool(waiting)
        while waiting:
            served = {word % 32: word for word in waiting}
            waiting -= set(served.values())
            passes += 1
    access = request("shared", width, [width * place for place in at], active)
    assert wavefronts(access) == passes
    assert ways(access) == -(-passes // (min(passes, 2 * least) if paired else least))


# Constants


def test_constants_lie_where_the_compiler_looks_for_them() -> None:
    arguments = [
        POINTER, ArgumentBytes(1, -1), ArgumentBytes(2, 0x1234), ArgumentBytes(8, 1 << 32), ArgumentBytes(4),
        ArgumentBytes(4, 7),
    ]  # fmt: skip
    known = constants_for("sm_90a", (32, 8, 1), (5, 6, 7), arguments)
    word = {offset: sum(known.get(offset + byte, 0) << 8 * byte for byte in range(4)) for offset in range(0, 0x240, 4)}
    assert [word[offset] for offset in range(0, 0x18, 4)] == [32, 8, 1, 5, 6, 7]
    assert (known[0x210], 0x211 in known) == (0, False)
    assert (known[0x218], 0x219 in known, word[0x218] >> 16) == (0xFF, False, 0x1234)
    assert (word[0x220], word[0x224], 0x228 in known, word[0x22C]) == (0, 1, False, 7)
    assert constants_for("sm_80", (1, 2, 3), None, [ArgumentBytes(4, 9)]) == {
        **dict.fromkeys(range(12), 0), 0: 1, 4: 2, 8: 3, **dict.fromkeys(range(0x161, 0x164), 0), 0x160: 9
    }  # fmt: skip
    assert min(constants_for("sm_120a", (1, 1, 1), (1, 1, 1))) == 0x360


# Kernels that NVRTC compiles

SOURCE = """
#define KERNEL extern "C" __global__ void
struct Particle { float v[12]; };
struct alignas(16) Four { float x, y, z, w; };
__device__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
KERNEL coalesced(const float *in, float *out, unsigned n) { if (thread() < n) out[thread()] = in[thread()] * 2.0f; }
KERNEL four(const Four *in, Four *out, unsigned n) { out[thread()] = in[thread()]; }
KERNEL strided(const float *in, float *out, unsigned n) {
    const unsigned long long i = thread();
    out[i] = in[2 * i] + in[8 * i + 1] + in[33 * i];
}
KERNEL records(const Particle *in, float *out, unsigned n) { out[thread()] = in[thread()].v[1] + in[thread()].v[11]; }
template <int width> __device__ void transpose(const float *in, float *out, unsigned n) {
    __shared__ float tile[32][width];
    const unsigned x = blockIdx.x * 32, y = blockIdx.y * 32;
    for (unsigned j = threadIdx.y; j < 32; j += 8) tile[j][threadIdx.x] = in[(y + j) * n + x + threadIdx.x];
    __syncthreads();
    for (unsigned j = threadIdx.y; j < 32; j += 8) out[(x + j) * n + y + threadIdx.x] = tile[threadIdx.x][j];
}
KERNEL transposed(const float *in, float *out, unsigned n) { transpose<32>(in, out, n); }
KERNEL padded(const float *in, float *out, unsigned n) { transpose<33>(in, out, n); }
KERNEL swizzled(const float *in, float *out, unsigned n) {
    __shared__ float tile[32 * 32];
    const unsigned x = threadIdx.x, y = threadIdx.y;
    for (unsigned j = 0; j < 32; j += 8) tile[(y + j) * 32 + (x ^ (y + j))] = in[(y + j) * n + x];
    __syncthreads();
    for (unsigned j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[x * 32 + (x ^ (y + j))];
}
KERNEL doubles(const double *in, double *out, unsigned n) {
    __shared__ double s[32 * 17];
    s[threadIdx.x * 2] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x % 32 * 17];
}
KERNEL indirect(const float *in, float *out, const unsigned *places) { out[thread()] = in[places[thread()]]; }
KERNEL carried(const float *in, float *out, unsigned n) {
    float sum = 0;
    const float *p = in + blockIdx.x * 1024 + threadIdx.x;
    #pragma unroll 1
    for (unsigned i = 0; i < n; ++i, p += 256) sum += *p;
    out[threadIdx.x * 4] = sum;
}
KERNEL rows(const float *in, float *out, unsigned n) {
    float sum = 0;
    #pragma unroll 1
    for (unsigned column = 0; column < n; ++column) sum += in[thread() * (unsigned long long)n + column];
    out[thread()] = sum;
}
KERNEL reduced(const float *in, float *out, unsigned n) {
    __shared__ float s[256];
    s[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    #pragma unroll 1
    for (unsigned half = 128; half; half /= 2) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
KERNEL expressions(volatile int *out, int n) {
    const int t = threadIdx.x, b = blockIdx.x;
    STATEMENTS
}
"""

EXPRESSIONS: tuple[tuple[str, Callable[[int, int], int]], ...] = (
    ("t * 5 + n", lambda t, n: t * 5 + n),
    ("t / 3 * 16 + (t & 3)", lambda t, n: t // 3 * 16 + (t & 3)),
    ("((t >> 2) ^ t) * 4 - t", lambda t, n: ((t >> 2) ^ t) * 4 - t),
    ("(long long)t * n - 1", lambda t, n: t * n - 1),
    ("t % 2 ? t : 31 - t", lambda t, n: t if t % 2 else 31 - t),
    ("t * 3 < 40 ? t * 3 : 40", lambda t, n: min(t * 3, 40)),
    ("(t + b * 32) % 7 + (t - 16) / 4 + 8", lambda t, n: t % 7 + int((t - 16) / 4) + 8),
    ("(b * 256 + t) / 32 * 64 + (b * 256 + t) % 32 * 2", lambda t, n: 2 * t),
    ("(t * n) % 31 | (t & 8) << 4", lambda t, n: t * n % 31 | (t & 8) << 4),
)
STATEMENTS = "\n".join(f"out[{text}] = {index};" for index, (text, _) in enumerate(EXPRESSIONS))


def of_kernel(target: str, name: str, block: Dim3 = (256, 1, 1), n: int | None = 1024) -> list[Access]:
    code = compiled_cases(SOURCE.replace("STATEMENTS", STATEMENTS), target)[name].code
    pointers = [POINTER] if name == "expressions" else [POINTER, POINTER]
    constants = constants_for(target, block, (64, 1, 1), [*pointers, ArgumentBytes(4, n)])
    known = accesses_of(solution_of(code, ThreadBlock(block), constants))
    return sorted(known.values(), key=lambda item: item.address)


def costs(listed: Sequence[Access], space: str, kind: str) -> dict[int | None, int]:
    """How many accesses of a kind have which cost."""
    of = sectors if space == "global" else ways
    return dict(Counter(of(access) for access in listed if (access.space, access.kind) == (space, kind)))


@pytest.mark.compilers
@needs_cuda_wheels
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_compiled_kernels_cost_what_their_sources_say(target: str) -> None:
    for name, loads, stores in (
        ("coalesced", {4: 1}, {4: 1}),
        ("four", {16: 1}, {16: 1}),
        ("strided", {8: 1, 32: 2}, {4: 1}),
        ("records", {32: 2}, {4: 1}),
        ("carried", {4: 1}, {16: 1}),
        ("rows", {32: 1}, {4: 1}),
        ("indirect", {4: 1, None: 1}, {4: 1}),
    ):
        listed = of_kernel(target, name)
        assert (costs(listed, "global", "load"), costs(listed, "global", "store")) == (loads, stores), name
    for name, load in (("transposed", 32), ("padded", 1), ("swizzled", 1)):
        listed = of_kernel(target, name, (32, 8, 1))
        assert (set(costs(listed, "shared", "store")), set(costs(listed, "shared", "load"))) == ({1}, {load}), name
        assert costs(listed, "global", "load").keys() == costs(listed, "global", "store").keys() == {4}, name
    # A stride of 16 bytes puts 2 of 16 lanes on each bank; one of 17 doubles puts each on another.
    listed = of_kernel(target, "doubles", (32, 1, 1))
    assert (costs(listed, "shared", "store"), costs(listed, "shared", "load")) == ({2: 1}, {1: 1})
    # In the first turns of a reduction all lanes of the first warp run, and at its end only the first lane.
    listed = of_kernel(target, "reduced")
    assert set(costs(listed, "shared", "load")) == set(costs(listed, "shared", "store")) == {1}
    assert (listed[-1].kind, sum(listed[-1].active), sectors(listed[-1])) == ("store", 1, 1)
    # A stride that is an argument is unknown unless the argument is known.
    load_of_rows, store_of_rows = of_kernel(target, "rows", n=None)
    assert (load_of_rows.offsets, sectors(store_of_rows)) == (None, 4)
    for n in (3, 64):
        for access, (text, formula) in zip(of_kernel(target, "expressions", (32, 1, 1), n), EXPRESSIONS, strict=True):
            numbers = [4 * formula(lane, n) for lane in LANES]
            assert access.offsets == tuple(number - numbers[0] for number in numbers), text
            assert access.start == numbers[0] % min(access.alignment, 256), text
