"""Where registers that are read were written: straight code, ways that meet, loops, calls, predicates."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.sass.dataflow.reaching_definitions import Definition, ReachingDefinitions
from gpuprof.sass.flow.graph import ControlFlowGraph, graph_of
from gpuprof.sass.instruction import parse_sass
from gpuprof.sass.operands import written

DIAMOND = (
    "MOV R1, 0x1", "MOV R2, 0x2", "@P0 BRA 0x50", "MOV R2, 0x3", "BRA 0x60", "MOV R3, 0x4", "IADD3 R4, R1, R2, R3",
    "EXIT",
)  # fmt: skip
"""Blocks 0 (to the first branch), 1 and 2 (its two ways) and 3 (where they meet)."""


def graph(*lines: str) -> ControlFlowGraph:
    code = parse_sass("\n".join(f"/*{16 * at:04x}*/ {line} ;" for at, line in enumerate(lines)))
    known = graph_of(code)
    assert known is not None
    return known


def followed(known: ControlFlowGraph) -> ReachingDefinitions:
    return ReachingDefinitions(known)


def test_ways_meet_only_for_what_is_written_on_them() -> None:
    read = followed(graph(*DIAMOND))
    assert read.read(3, 0, "R1") == Definition(0, 0, "R1")
    assert read.read(3, 0, "R2") == Definition(3, -1, "R2")
    assert read.sources(Definition(3, -1, "R2")) == (Definition(1, 0, "R2"), Definition(0, 1, "R2"))
    assert read.sources(Definition(3, -1, "R3")) == (Definition(0, -1, "R3"), Definition(2, 0, "R3"))
    code = graph("MOV R1, 0x1", "MOV R2, 0x2", "IADD3 R2, R2, R1, RZ", "@P0 BRA 0x20", "STG.E [R2.64], R1", "EXIT")
    read = followed(code)
    assert read.read(1, 0, "R1") == Definition(0, 0, "R1")
    assert read.sources(read.read(1, 0, "R2")) == (Definition(0, 1, "R2"), Definition(1, 0, "R2"))
    behind = read.read(2, 0, "R2")  # lanes may have left the loop in different iterations
    assert (behind, read.sources(behind)) == (Definition(2, -1, "R2"), (Definition(1, 0, "R2"),))


def test_under_the_same_predicate_what_was_written_under_it_is_read_as_if_it_were_true() -> None:
    code = graph("@P0 MOV R1, 0x1", "@P0 MOV R2, R1", "ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 MOV R3, R1", "EXIT")
    read = followed(code)
    assert read.read(0, 1, "R1", "@P0") == Definition(0, 0, "R1")
    assert read.read(0, 1, "R1", "@!P0") == Definition(0, 0, "R1", unguarded=False)
    assert read.read(0, 3, "R1", "@P0") == Definition(0, 0, "R1", unguarded=False)
    assert read.sources(Definition(0, 0, "R1", unguarded=False)) == (
        Definition(0, 0, "R1"), Definition(0, -1, "R1"), Definition(0, -1, "P0")
    )  # fmt: skip


_LINES = st.sampled_from(("MOV R1, R2", "MOV R2, R1", "@P0 MOV R1, R3", "MOV R3, R2", "@P1 BRA {:#x}", "BRA {:#x}"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_LINES, st.integers(0, 29)), min_size=4, max_size=30), st.randoms(use_true_random=False))
def test_on_any_way_through_any_code_the_last_writer_is_the_place(lines: list[tuple[str, int]], chance: Random) -> None:
    known = graph(*(line.format(16 * (to % len(lines))) for line, to in lines), "EXIT")
    read = followed(known)
    last = {name: Definition(0, -1, name) for name in ("R1", "R2", "R3")}
    block = 0
    for _ in range(60):
        begun = {name: read.read(block, 0, name) for name in last}
        last.update({name: place for name, place in begun.items() if place == Definition(block, -1, name)})
        assert begun == last
        for at, instruction in enumerate(known.blocks[block]):
            for name in written(instruction):
                last[name] = Definition(block, at, name, unguarded=instruction.predicate is None)
        if not known.successors[block]:
            break
        block = chance.choice(known.successors[block])
