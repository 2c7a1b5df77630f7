"""SASS that no compiler wrote: every kernel is reviewed to its end, and nothing is lost by an exception."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.review import batch
from gpuprof.review.kernel import CompiledKernel, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel
from gpuprof.sass.instruction import instruction_of

_NUMBERS = st.sampled_from(
    ("0x0", "0x10", "-0x10", "0x7fffffff", "0xffffffffffffffffff", "1e999", "+INF", "-QNAN", "2")
)
_REGISTERS = st.sampled_from(
    ("R0", "R1", "R2", "R2.64", "R254", "RZ", "R999", "UR4", "URZ", "P0", "!PT", "UP0", "B0", "SR_TID.X", "SR_LANEID",
     "c[0x0][0x0]", "c[0x0][0x210]", "c[0x3][R2]", "-R2", "|R2|", "R2.reuse", "~R2", "SB0")
)  # fmt: skip
_ADDRESSES = st.sampled_from(
    ("[R2]", "[R2.64]", "[R2.64+0x10]", "desc[UR4][R2.64]", "desc[UR4][R2.64+-0x8]", "[UR4]", "[R2+UR4+0x80000000]",
     "[RZ]", "[]", "[[R2]]", "[R2.X4+0x4]", "desc[][]", "[R1+0x10]", "[0x99999999999999999999]")
)  # fmt: skip
_OPERANDS = st.one_of(_NUMBERS, _REGISTERS, _ADDRESSES, st.text(" []()+-.,`@!|xR", max_size=8))
_OPCODES = st.sampled_from(
    ("LDG.E", "LDG.E.128", "STG.E.64", "LDS", "LDS.U8", "STS.128", "LDL", "STL.64", "LDGSTS.E.BYPASS.128",
     "ATOMG.ADD", "RED.E.ADD", "ATOMS.ADD", "LDC", "LDC.64", "ULDC", "S2R", "S2UR", "MOV", "UMOV", "IMAD",
     "IMAD.WIDE", "IMAD.X", "IADD3", "IADD3.X", "LEA", "LEA.HI.X", "SHF.L.U32", "SHF.R.S32.HI", "LOP3.LUT",
     "ISETP.GE.AND", "SEL", "PRMT", "FFMA", "FMUL", "FADD", "DADD", "DMUL", "DFMA", "MUFU.RCP", "MUFU.RSQ",
     "I2F", "F2I", "HMMA.16816.F32", "LDSM", "FCHK", "MUFU.RCP64H", "I2F.RP", "F2F.F64.F32", "BRA", "BRA.U",
     "BSSY", "BSYNC", "CALL.REL.NOINC", "RET.REL.NODEC", "EXIT", "BAR.SYNC", "WARPSYNC", "NOP", "BRX",
     "SHFL.BFLY", "VOTE.ANY", "R2UR", "UISETP.NE.U32.AND", "PLOP3.LUT", "UBLKCP", "X", "LDG.E.999", "STS.",
     "A.B.C.D")
)  # fmt: skip
_GUARDS = st.sampled_from(("", "", "", "@P0 ", "@!P0 ", "@!PT ", "@UP0 ", "@P9 "))
_INSTRUCTIONS = st.tuples(_GUARDS, _OPCODES, st.lists(_OPERANDS, max_size=5))


def text_of(number: int, instruction: tuple[str, str, list[str]], target: int) -> str:
    guard, opcode, operands = instruction
    if opcode.split(".")[0] in ("BRA", "BSSY", "CALL"):
        operands = [*operands[:1], hex(16 * target)]
    return f"{guard}{opcode} {', '.join(operands)}"


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(_INSTRUCTIONS, st.integers(-2, 40)), min_size=1, max_size=40),
    st.sampled_from(((256, 1, 1), (16, 16, 1), (1, 1, 1), (33, 3, 2), None)),
    st.sampled_from(("sm_75", "sm_80", "sm_90a", "sm_100", "sm_999", "x")),
)
def test_no_instruction_ends_a_review(
    lines: list[tuple[tuple[str, str, list[str]], int]], block: tuple[int, int, int] | None, target: str
) -> None:
    texts = enumerate(text_of(number, line, to) for number, (line, to) in enumerate(lines))
    code = tuple(filter(None, (instruction_of(text, 16 * number) for number, text in texts)))
    binary, shape = CubinKernel(mangled="k", code=bytes(16 * len(lines))), KnownLaunch(block=block)
    kernel = CompiledKernel(name="k", target=target, origin="k", cubin=b"", kernel=binary, shape=shape, lines={})
    told = batch._reviewed(kernel, code)
    assert not [note for note in told.notes if "could not be read" in note]
