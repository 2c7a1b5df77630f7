"""The view of a comparison: which lines of code, checks and kernels it has."""

from __future__ import annotations

from gpuprof.comparison.contract import Gate, KernelChange
from gpuprof.comparison.lines import line_changes
from gpuprof.views.changed_kernel import changed_kernel
from gpuprof.views.comparison import brief_comparison, whole_comparison
from gpuprof.views.document import Block, Code, Facts, Fold, Note, Table, text_of
from gpuprof.views.paired_code import paired_code
from tests import made_comparisons as made
from tests.compare_builders import kernel, pair_of
from tests.test_compare_lines import line


def table_of(blocks: tuple[Block, ...]) -> Table:
    return next(block for block in blocks if isinstance(block, Table) and block.label == "Kernels")


def gate_rows(blocks: tuple[Block, ...]) -> list[tuple[str, str]]:
    facts = [block for block in blocks if isinstance(block, Facts)]
    return [(name, text_of(value)) for name, value in facts[1].rows]


def test_lines_of_both_sides_are_one_listing_with_counts_and_marks() -> None:
    before = [line(10, "a = b;", 1000.0), line(11, "c = a / d;", 5000.0), line(12, "e = c;", 10.0)]
    after = [line(10, "a = b;", 1000.0), line(12, "c = a * d;", 500.0), line(13, "e = c;", 10.0)]
    base, new = kernel(lines=before), kernel(lines=after)
    changes = line_changes(pair_of(base, new))
    (code,) = paired_code(made.change(lines=changes), base, new)
    assert isinstance(code, Code)
    shown = [(found.number, *map(text_of, found.notes), found.text, found.marked) for found in code.lines]
    assert shown == [
        ("10", "1\u202f000", "1\u202f000", "", "a = b;", False),
        ("11", "5\u202f000", "", "−", "c = a / d;", True),
        ("12", "", "500", "+", "c = a * d;", True),
        ("13", "10", "10", "", "e = c;", False),
    ]
    assert [found.heat for found in code.lines] == [0.2, 1.0, 0.1, 0.002]


def test_code_that_a_side_lacks_is_said_to_be_missing() -> None:
    (note,) = paired_code(made.change(), kernel(lines=[line(10, "a = b;", 1.0)]), kernel())
    assert isinstance(note, Note) and "not collected on the new side" in text_of(note.text)


def test_a_kernel_of_one_side_has_no_column_of_the_other() -> None:
    gone = made.change(0, "old", "gone")
    compared = made.compared(gone)
    section = changed_kernel(gone, compared.comparison, compared.pairs[0])
    fold = next(block for block in section if isinstance(block, Fold) and block.title == "Launch and counters")
    (table,) = fold.blocks
    assert isinstance(table, Table) and [column.name for column in table.columns] == ["quantity", "base", "counter"]


def test_a_brief_gate_lists_what_fails_first_and_counts_the_rest() -> None:
    kernels: list[KernelChange] = [made.change(number, name) for number, name in enumerate("abcdef")]
    checks = (
        *(made.check("unclear", number, "registers") for number in range(3)),
        *(made.check(kernel=number) for number in range(5)),
    )
    compared = made.compared(*kernels, gate=Gate(passed=False, exit_code=6, checks=checks, ok=1))
    blocks = brief_comparison(compared).blocks
    assert [name for name, _ in gate_rows(blocks)] == ["regression"] * 3
    (short,) = [block.short for block in blocks if isinstance(block, Fold) and block.short]
    assert short.startswith("… and 5 more checks")
    assert len(gate_rows(whole_comparison(compared).blocks)) == len(checks)


def test_kernels_that_exceed_a_limit_come_first() -> None:
    kernels = [made.change(number, name) for number, name in enumerate("abc")]
    compared = made.compared(*kernels, gate=made.gate(made.check(kernel=2)))
    table = table_of(brief_comparison(compared, 2).blocks)
    assert [text_of(row[1]) for row in table.rows] == ["c", "a"]
    assert table.more.startswith("… and 1 more kernel")


def test_kernels_of_one_name_are_told_apart_by_their_launches() -> None:
    sides = [(made.side_kernel("gemm", grid=(blocks, 1, 1)),) for blocks in (8, 16)]
    kernels = [made.change(number, "gemm", base=side, new=side) for number, side in enumerate(sides)]
    table = table_of(whole_comparison(made.compared(*kernels)).blocks)
    assert [text_of(row[1]) for row in table.rows] == ["gemm 8×256", "gemm 16×256"]
