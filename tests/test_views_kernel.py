"""The blocks of one kernel: rates against ceilings, hot code, findings with their places, and what is missing."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence

import pytest
from msgspec.structs import replace
from rich.console import Console

from gpuprof.diagnose.ranking import numbered
from gpuprof.model.recorded import Missing
from gpuprof.model.session import CodeLine, Excerpt, KernelProfile, Pipe, Session, Stall, StallShare
from gpuprof.views.document import Bars, Block, Cell, Code, Document, Facts, Findings, Fold, Form, Table
from gpuprof.views.kernel import finding_anchor, kernel_blocks
from gpuprof.views.terminal import print_document
from gpuprof.words.profile_values import roof_text
from tests.hand_made import finding
from tests.table import each_row
from tests.test_figures import kernel, session

LINES = (
    CodeLine(number=40, pc=None, text="\tint i = 0;", share=0.05, stalls=()),
    CodeLine(number=41, pc=None, text="\t\tout[i] = in[j];", share=0.1, stalls=(StallShare("wait", 0.9),)),
    *(CodeLine(number=number, pc=None, text="\twork();", share=0.06, stalls=()) for number in range(42, 48)),
    CodeLine(number=48, pc=None, text="\tmore();", share=0.01, stalls=()),
)
SOURCE = Excerpt(language="source", file="src/gather.cu", weight="samples", lines=LINES)
SASS = Excerpt(
    language="sass", file="src/gather.cu", weight="samples",
    lines=(CodeLine(number=41, pc=0x100, text="LDG.E R2, [R4]", share=0.5, stalls=()),),
)  # fmt: skip


def blocks_of(made: KernelProfile, read: Session | None = None, ceiling: str = "at-clock") -> list[Block]:
    """All blocks of a kernel, those of folds, too."""
    whole = read or session(made)
    return list(unfolded(kernel_blocks(whole, whole.kernels[0], ceiling=ceiling)))


def unfolded(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from unfolded(block.blocks)


def bars(blocks: Sequence[Block], label: str) -> Bars:
    return next(block for block in blocks if isinstance(block, Bars) and block.label.startswith(label))


def table(blocks: Sequence[Block], label: str) -> Table | None:
    return next((block for block in blocks if isinstance(block, Table) and block.label == label), None)


def facts(blocks: Sequence[Block]) -> dict[str, object]:
    return {name: value for block in blocks if isinstance(block, Facts) for name, value in block.rows}


def screen(blocks: Sequence[Block], form: Form, width: int = 100) -> str:
    out = io.StringIO()
    print_document(Console(file=out, width=width), Document("", tuple(blocks)), form)
    return out.getvalue()


@each_row(
    ("ceiling", "clock_hz", "fractions"),
    [
        # 1e13 FLOP/s and 4e12 B/s at 1 GHz; 5e9 FLOP and 1e9 B in 1 ms.
        ("at-clock", 1e9, [0.5, 0.25, 0.5]),
        # Rates of the SMs are half at half the clock, the bandwidth of DRAM is not.
        ("at-clock", 5e8, [1.0, 0.25, 0.5]),
        ("rated", 1e9, [5e12 / 1.25e13, None, 5e11 / 1.1e12]),
        ("measured", 1e9, [None, None, None]),
    ],
)
def test_rates_are_shares_of_ceilings_at_the_clock_of_the_kernel(
    ceiling: str, clock_hz: float, fractions: list[float | None]
) -> None:
    made = kernel(0, {"fp32": 5e9}, {"l2": 1e9, "dram": 5e8}, clock_hz=clock_hz)
    shown = bars(blocks_of(made, ceiling=ceiling), "Rates").items
    assert [item.fraction for item in shown] == [pytest.approx(part) if part else None for part in fractions]
    assert [item.name for item in shown] == ["FP32", "L2 bandwidth", "DRAM bandwidth"]
    if fractions[1] is None:
        assert shown[1].text == "1.00 TB/s, no ceiling known"


def test_integers_have_roofline_points_only_if_they_are_the_work_of_the_kernel() -> None:
    work = {"int32": 4e9}
    addresses = kernel(0, work, {"dram": 5e8}, pipes=(Pipe("lsu", 0.4, "lsu"), Pipe("alu", 0.1, "alu")))
    hashing = kernel(0, work, {"dram": 5e8}, pipes=(Pipe("alu", 0.8, "alu"),))
    assert table(blocks_of(addresses), "Roofline points") is None
    points = table(blocks_of(hashing), "Roofline points")
    assert points is not None and points.rows[0][0] == "INT32"
    assert "memory-bound" not in str(points) and "compute-bound" not in str(points)
    assert roof_text(addresses) == "no FLOP" and roof_text(hashing).startswith("int ")


def test_the_hottest_excerpt_comes_first_and_findings_lead_to_their_lines() -> None:
    (placed,) = numbered((finding(),), 0)
    made = kernel(0, {"fp32": 1e9}, {"dram": 1e9}, findings=(placed,), excerpts=(SOURCE, SASS))
    first, second = [block for block in blocks_of(made) if isinstance(block, Code)]
    assert (first.numbers, second.numbers) == ("address", "line")
    assert second.lines[0].text == "int i = 0;" and second.lines[1].text == "    out[i] = in[j];"
    assert [line.number for line in second.lines if line.marked] == ["41"]
    (shown,) = (block for block in blocks_of(made) if isinstance(block, Findings))
    assert shown.items[0].place.href == second.lines[1].anchor == "line-0-gather.cu-41"
    assert shown.items[0].anchor == finding_anchor(placed.id) == "finding-0-uncoalesced-global"


def test_the_short_form_of_code_keeps_the_line_of_a_finding() -> None:
    place = finding().place
    assert place is not None
    (placed,) = numbered((finding(place=replace(place, line=48, pc=None)),), 0)
    made = kernel(0, {"fp32": 1e9}, {"dram": 1e9}, findings=(placed,), excerpts=(SOURCE,))
    text = screen(tuple(kernel_blocks(session(made), made)), "short")
    assert "more();" in text and "out[i] = in[j];" in text and "int i = 0;" not in text


def test_lines_without_text_have_their_file_and_come_hottest_first() -> None:
    bare = replace(SOURCE, lines=tuple(replace(line, text="") for line in LINES[:2]))
    (code,) = (block for block in blocks_of(kernel(0, excerpts=(bare,))) if isinstance(block, Code))
    assert [(line.number, line.text) for line in code.lines] == [("gather.cu:41", None), ("gather.cu:40", None)]
    assert code.lines[0].notes == ("10 %", Cell("Wait 90 %", whole="Wait 90 %"))


def test_a_line_break_within_a_line_of_code_stays_in_its_line() -> None:
    broken = replace(SOURCE, lines=(LINES[0], replace(LINES[1], text="\ta;\nb;")))
    (code,) = (block for block in blocks_of(kernel(0, excerpts=(broken,))) if isinstance(block, Code))
    assert [line.text for line in code.lines] == ["int i = 0;", "a;\nb;"]


def test_an_explained_finding_leads_to_its_cause_and_repeats_no_advice() -> None:
    cause, effect = numbered((finding(), finding("l2-bandwidth", advice="ADVICE", headline="effect")), 0)
    effect = replace(effect, cause=cause.id)
    made = kernel(0, {"fp32": 1e9}, {"dram": 1e9}, findings=(cause, effect))
    blocks = tuple(kernel_blocks(session(made), made))
    (shown,) = (block for block in blocks if isinstance(block, Findings))
    assert isinstance(shown.items[1].explained_by, Cell) and shown.items[1].explained_by.href == finding_anchor(
        cause.id
    )
    assert "ADVICE" not in screen(blocks, "full")
    assert "effect (explained by #0 uncoalesced-global: fix that first)" in screen(blocks, "short")


def test_what_is_missing_is_grouped_by_what_would_collect_it() -> None:
    gaps = (Missing("a", "why", "collect"), Missing("b", "why", "collect"), Missing("c", "other", "collect more"))
    rows = facts(blocks_of(kernel(0, missing=gaps)))
    assert rows["a, b"] == "why; collect" and rows["c"] == "other; collect more"


def test_small_states_of_warps_are_one_part_and_ready_warps_are_no_stall() -> None:
    stalls = (("wait", 0.5), ("selected", 0.47), ("drain", 0.019), ("misc", 0.011))
    made = kernel(0, stalls=tuple(Stall(reason, share, None, family="counter") for reason, share in stalls))
    states = bars(blocks_of(made), "Warp states")
    assert states.stacked
    assert [(item.name, item.text) for item in states.items] == [
        ("Wait", "50 %"), ("Selected", "47 % (no stall)"), ("All others", "3.0 %"),
    ]  # fmt: skip


@each_row("width", [60, 80, 100, 140])
def test_nothing_is_wider_than_the_screen(width: int) -> None:
    long = replace(LINES[0], text="x" * 3000, stalls=(StallShare("long_scoreboard", 0.9),))
    made = kernel(0, {"fp32": 1e9}, {"l1": 1e9}, excerpts=(replace(SOURCE, lines=(long,)),), label="k" * 500)
    made = replace(made, demangled="template<" * 300)
    for form in ("short", "full"):
        text = screen(tuple(kernel_blocks(session(made), made)), form, width)
        assert max(map(len, text.splitlines())) <= width and "…" in text
