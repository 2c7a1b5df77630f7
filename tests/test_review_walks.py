"""What the review of a long kernel leaves out is said."""

from __future__ import annotations

from gpuprof.review.code import KernelCode
from gpuprof.review.facts.memory import assumptions_of
from gpuprof.sass.instruction import Instruction, parse_sass
from tests.table import each_row
from tests.test_review_memory import TID, known

ROW = ("IMAD.WIDE.U32 R2, R1, 0x4, c[0x0][0x160]", "LDG.E R9, [R2.64]")
SOME = ("ISETP.GE.AND P0, PT, R1, 0x64, PT", "@P0 EXIT")


def lengthened(code: KernelCode, length: int) -> KernelCode:
    """The same kernel with NOPs in front of its last instruction, an EXIT."""
    *lines, _ = code.code
    nop, leave = parse_sass("/*0*/ NOP ;\n/*10*/ EXIT ;")
    padding = (Instruction(16 * at, nop.operation) for at in range(len(lines), length - 1))
    whole = (*lines, *padding, Instruction(16 * (length - 1), leave.operation))
    return KernelCode(kernel=code.kernel, code=whole, lines=code.lines, arch=code.arch)


@each_row(
    ("length", "said"),
    [(2_000, ""), (2_001, "7 of 8 warps"), (5_334, "2 of 8 warps"), (16_000, "1 of 8 warps"), (16_001, "not checked")],
)
def test_a_long_kernel_says_how_many_warps_were_looked_at(length: int, said: str) -> None:
    """16,000 instructions of all warps together: eight times 2,000, seven times 2,285, twice 8,000."""
    code = lengthened(known(TID, *SOME, *ROW), length)
    notes = assumptions_of(code)[1:]
    assert len(notes) == bool(said) and all(said in note for note in notes)
