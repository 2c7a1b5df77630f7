"""Which walks a review makes: what can be known in none is left out, and what a long kernel leaves out is said."""

from __future__ import annotations

from gpuprof.code.flow.graph import ControlFlowGraph, graph_of
from gpuprof.code.lanes.access import every_access
from gpuprof.code.lanes.effects import effect_of, names_of
from gpuprof.code.lanes.operands import Reader, ThreadBlock, WarpRegisters
from gpuprof.code.lanes.possible import possible_steps
from gpuprof.code.lanes.rules import results
from gpuprof.code.lanes.values import LANES, UNIFORM, LaneValue, constant, value
from gpuprof.code.lanes.warp_dependence import follows_from_warp
from gpuprof.code.lanes.warps import any_warp
from gpuprof.code.sass.instruction import Instruction, parse_sass
from gpuprof.review.code import KernelCode
from gpuprof.review.memory import accesses_of, assumptions_of
from gpuprof.review.walks import MOST_INSTRUCTIONS
from tests.cuda_tools import recorded
from tests.table import each_row
from tests.test_review_memory import TID, known

BLOCK = (256, 1, 1)
ROW = ("IMAD.WIDE.U32 R2, R1, 0x4, c[0x0][0x160]", "LDG.E R9, [R2.64]")
SOME = ("ISETP.GE.AND P0, PT, R1, 0x64, PT", "@P0 EXIT")


def lengthened(code: KernelCode, length: int) -> KernelCode:
    """The same kernel with NOPs in front of its last instruction, an EXIT."""
    *lines, _ = code.code
    nop, leave = parse_sass("/*0*/ NOP ;\n/*10*/ EXIT ;")
    padding = (Instruction.at(16 * at, nop.operation) for at in range(len(lines), length - 1))
    whole = (*lines, *padding, Instruction.at(16 * (length - 1), leave.operation))
    return KernelCode(kernel=code.kernel, code=whole, lines=code.lines, arch=code.arch)


def graph(*lines: str) -> ControlFlowGraph:
    made = graph_of(parse_sass("\n".join(f"/*{16 * at:04x}*/ {line} ;" for at, line in enumerate((*lines, "EXIT")))))
    assert made is not None
    return made


@each_row(
    ("length", "said"),
    [(2_000, ""), (2_001, "7 of 8 warps"), (5_334, "2 of 8 warps"), (16_000, "1 of 8 warps"), (16_001, "not checked")],
)
def test_a_long_kernel_says_how_many_warps_were_looked_at(length: int, said: str) -> None:
    """16,000 instructions of all warps together: eight times 2,000, seven times 2,285, twice 8,000."""
    code = lengthened(known(TID, *SOME, *ROW), length)
    notes = assumptions_of(code)[1:]
    assert len(notes) == bool(said) and all(said in note for note in notes)


def test_a_long_kernel_leaves_out_no_more_than_it_must() -> None:
    assert assumptions_of(lengthened(known(TID, *ROW), 8_000))[1:] == ()
    few = known(TID, "ISETP.GE.AND P0, PT, R1, 0x28, PT", "@P0 EXIT", *ROW, block=(64, 1, 1))
    assert [len(assumptions_of(lengthened(few, length))[1:]) for length in (8_000, 8_001)] == [0, 1]
    (access,) = accesses_of(lengthened(known(TID, *ROW), MOST_INSTRUCTIONS + 1), {})
    assert access.sectors_per_request is None and "200,000" in access.unknown
    assert [access.unknown for access in accesses_of(known(TID, *ROW), {})] == [""]


def test_nothing_is_ever_known_of_what_follows_from_a_load() -> None:
    """R9 is loaded from different places, so that R10 is never known, but R2 is: what it was is forgotten once."""
    (steps,) = possible_steps(
        graph(TID, "MOV R9, 0x4", *ROW, "IADD3 R10, R9, 0x1, RZ", "IADD3 R11, R1, 0x1, RZ", "LDS R12, [R10]"),
        frozenset({0x30}),
    )
    told = [(str(step.instruction).partition(" ")[0], step.runs, sorted(names_of(step.forgets))) for step in steps]
    assert told == [
        ("S2R", True, []),
        ("MOV", True, []),
        ("IMAD.WIDE.U32", True, []),
        ("LDG.E", False, ["R9"]),
        ("IADD3", True, []),
        ("LDS", False, []),
        ("EXIT", False, []),
    ]
    assert [step.may_be_known for step in steps if step.effect.touches] == [True, False]


def test_a_guard_by_what_was_loaded_is_open_in_each_warp_as_in_all() -> None:
    """Also where a register held the index before, and the load is guarded itself."""
    loaded = (*ROW, "ISETP.NE.AND P0, PT, R9, RZ, PT", "@!P0 LDG.E R1, [R2.64+0x80]", "ISETP.NE.AND P1, PT, R9, R1, PT")
    by_load, by_index = graph(TID, *loaded, "@P1 STG.E [R2.64], R9"), graph(TID, *ROW, *SOME, "STG.E [R2.64], R9")
    for made, follows in ((by_load, False), (by_index, True)):
        some = any_warp(BLOCK)
        every = every_access(made, some, {}) if some is not None else None
        assert every is not None
        assert (every.undecided, follows_from_warp(made, every.known)) == (True, follows)


def test_a_walk_for_some_addresses_tells_of_others_which_lanes_run_them() -> None:
    made = graph(TID, "ISETP.GE.AND P0, PT, R1, 0x10, PT", "@P0 EXIT", *ROW, "LDS R5, [R1]")
    whole = every_access(made, ThreadBlock(BLOCK), {})
    part = every_access(made, ThreadBlock(BLOCK), {}, addresses=frozenset({0x50}))
    assert whole is not None
    assert part is not None
    load, shared = (0x40, "global"), (0x50, "shared")
    assert part.known[shared] == whole.known[shared]  # type: ignore[index]
    assert part.known[load].active == whole.known[load].active == (True,) * 16 + (False,) * 16  # type: ignore[index]
    assert whole.known[load].offsets == tuple(4 * lane for lane in range(LANES))  # type: ignore[index]
    assert part.known[load].offsets is None  # type: ignore[index]


SAMPLES = (constant(0), constant(3), UNIFORM, value(range(LANES)), value(range(LANES), 5))


@each_row(
    "name",
    [
        "bulk-copy-sm_90a",
        "ffma-left-by-a-call-sm_80",
        "ffma-sm_120a",
        "ffma-sm_70",
        "ffma-spills-sm_90a",
        "fp8-emulated-sm_90a",
        "fp8-merged-sm_90a",
        "int4-by-calls-sm_100a",
        "mma-sm_90a",
        "mma-zero-fragments-sm_80",
        "read-sm_75",
        "shared-atomic-sm_90a",
    ],
)
def test_what_a_result_needs_is_what_its_rule_needs(name: str) -> None:
    """Of each instruction of compiled kernels: nothing is known without what it needs, and no more is written."""
    looked_at = 0
    for operation in {instruction.operation for instruction in recorded(name)}:
        effect = effect_of(operation)
        if operation.predicate is not None or effect.asks or operation.idle:
            continue
        names = names_of(effect.reads)
        for sample in SAMPLES:
            for missing in names_of(effect.all_of) or {""}:
                held: dict[str, LaneValue] = {name: sample for name in names if name != missing}
                reader = Reader(effect.instruction, WarpRegisters(-1 % (1 << LANES), held), ThreadBlock(BLOCK), {})
                written = [(name, held) for name, held in results(effect.instruction, reader) if name[-1] not in "ZT"]
                assert {name for name, _ in written} <= names_of(effect.gone)
                if missing or effect.blank:
                    assert not [name for name, held in written if held is not None and name[0] != "U"]
                looked_at += 1
    assert looked_at
