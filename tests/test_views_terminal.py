"""Documents on a terminal: how wide, how high, what is cut, and what may not steer it."""

from __future__ import annotations

import io
import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from gpuprof.model.field_types import Severity
from gpuprof.text import printable, tolerate
from gpuprof.views import document as doc
from gpuprof.views.terminal import SCREEN_HEIGHT, print_document
from tests.table import each_row
from tests.view_documents import HOSTILE, Kind, every_block, table_of

WIDTHS = (60, 80, 100, 140)
NAMES = st.text(st.characters(codec="utf-8"), max_size=200)
NUMBERS = st.integers(0, 10**9).map(lambda number: f"{number:,}")
Row = tuple[str, str, str, str, str]


def printed(
    *blocks: doc.Block,
    width: int = 80,
    form: doc.Form = "full",
    height: int | None = None,
    encoding: str = "utf-8",
    terminal: bool = False,
) -> str:
    """Return what a console prints of blocks; on a terminal with its colours."""
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding=encoding)
    tolerate(stream)
    colours: Literal["standard"] | None = "standard" if terminal else None
    console = Console(file=stream, width=width, highlight=False, force_terminal=terminal, color_system=colours)
    print_document(console, doc.Document("title", blocks), form, height)
    stream.flush()
    return data.getvalue().decode(encoding)


def lines_of(*blocks: doc.Block, width: int = 80, form: doc.Form = "full", height: int | None = None) -> list[str]:
    """Return the lines that a pipe gets."""
    return printed(*blocks, width=width, form=form, height=height).splitlines()


@each_row("text", HOSTILE)
@each_row("width", WIDTHS)
@each_row("form", ["full", "short"])
def test_no_text_steers_the_terminal_or_leaves_its_width(text: str, width: int, form: doc.Form) -> None:
    blocks = [block for block in every_block(text).blocks if not isinstance(block, doc.Command)]
    for line in lines_of(*blocks, width=width, form=form):
        assert cell_len(line) <= width
        assert line == line.rstrip()
        assert line.isprintable()


@each_row("text", HOSTILE)
@each_row("encoding", ["ascii", "latin-1"])
def test_a_stream_without_unicode_gets_its_own_characters_in_its_width(text: str, encoding: str) -> None:
    blocks = [block for block in every_block(text).blocks if not isinstance(block, doc.Command)]
    shown = printed(*blocks, encoding=encoding)
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.replace("\n", "").isprintable()


@each_row("text", HOSTILE)
def test_no_text_gives_a_command_another_line(text: str) -> None:
    lines = lines_of(doc.Command(f"gpuprof show {text}"), width=10_000)
    assert len(lines) == 1
    assert lines[0].isprintable()


def test_markup_of_rich_is_text() -> None:
    shown = printed(doc.Note("[bold]x[/bold] [link=y]z[/link]"), terminal=True)
    assert shown == "[bold]x[/bold] [link=y]z[/link]\n"


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    note = doc.Note("slow", "bad")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[31mslow" in printed(note, terminal=True)
    assert printed(note) == "slow\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed(note, terminal=True) == "slow\n"


@given(
    rows=st.lists(st.tuples(NUMBERS, NAMES, NUMBERS, NAMES, NAMES), min_size=1, max_size=5),
    width=st.sampled_from(WIDTHS),
)
def test_a_table_keeps_to_its_width_and_cuts_nothing_without_an_ellipsis(rows: list[Row], width: int) -> None:
    kinds: list[tuple[Kind, int]] = [("number", 0), ("name", 0), ("number", 0), ("text", 1), ("text", 0)]
    header, rule, *lines = lines_of(table_of(kinds, rows), width=width)
    assert len(lines) == len(rows)
    assert set(rule) == {"─"}
    for line, row in zip(lines, rows, strict=True):
        assert cell_len(line) <= width
        assert row[0] in line
        assert row[2] in line
        shown = [row[1], row[4]]
        if "column 3" in header:
            shown.append(row[3])
        assert "…" in line or all(printable(text).rstrip() in line for text in shown)


def test_columns_go_by_rank_before_any_text_is_cut() -> None:
    kinds: list[tuple[Kind, int]] = [("name", 0), ("number", 0), ("text", 2), ("text", 1)]
    table = table_of(kinds, [("kernel" * 20, "12.3 ms", "a stall of some length", "a finding")])
    shown = {width: lines_of(table, width=width) for width in WIDTHS}
    assert "column 2" not in shown[60][0]
    assert "column 3" in shown[60][0]
    assert shown[60][2].endswith("12.3 ms  a finding")
    assert shown[140][2].endswith("12.3 ms  a stall of some length  a finding")
    assert shown[140][2].startswith("kernelkernel")
    for width, lines in shown.items():
        assert len(lines[1]) == width


def test_only_columns_that_are_shown_are_explained() -> None:
    columns = (
        doc.Column("kernel", "name"), doc.Column("time", "number", meaning="Of all launches."),
        doc.Column("stall", rank=1, meaning="The longest."),
    )  # fmt: skip
    table = doc.Table("Kernels", columns, (("gather_rows_of_a_matrix", "1.00 ms", "a stall reason of many words" * 2),))
    assert lines_of(table)[3:] == ["time: Of all launches."]
    assert lines_of(table, width=140)[3:] == ["time: Of all launches.", "stall: The longest."]


def test_a_name_keeps_24_columns_beside_texts_that_are_cut() -> None:
    kinds: list[tuple[Kind, int]] = [("name", 0), ("text", 0), ("number", 0)]
    table = table_of(kinds, [("kernel_" * 20, "many words " * 20, "12.3 ms")])
    line = lines_of(table, width=60)[2]
    name, text, number = re.split(" {2,}", line)
    assert 20 <= len(name) <= 24
    assert "…" in name
    assert text.rstrip().endswith("…")
    assert number == "12.3 ms"


def test_sentences_are_written_below_their_row() -> None:
    table = table_of([("name", 0), ("sentence", 0)], [("kernel", "faster by many words " * 9)] * 9)
    whole = lines_of(table)
    assert whole[0].startswith("column 0") and "column 1" not in whole[0]
    assert whole[2] == "kernel"
    assert whole[3].startswith("   faster by many words")
    screen = lines_of(table, form="short", height=9)
    assert len(screen) <= 9
    assert screen[3].endswith("…")


def test_wide_characters_take_two_columns() -> None:
    table = table_of([("name", 0), ("number", 0)], [("名前" * 30, "1 ms"), ("x", "2 ms")])
    lines = lines_of(table, width=60)
    assert cell_len(lines[2]) == cell_len(lines[3]) <= 60
    assert "…" in lines[2]


def test_numbers_stay_beside_their_units() -> None:
    text = "it takes 12.5 ms of the step, at most ≤ 50 % of 3.35 TB/s " * 5
    for width in range(60, 100):
        for line in lines_of(doc.Note(text), width=width):
            assert not re.search(r"(\d|≤)$", line)


def test_a_screen_shows_the_verdict_and_loses_no_action_or_condition() -> None:
    document = every_block("a text of some words " * 6, rows=500)
    blocks = [block for block in document.blocks if not isinstance(block, doc.Findings | doc.Code | doc.Bars)]
    lines = lines_of(*blocks, form="short", height=SCREEN_HEIGHT)
    assert lines[0].startswith("a text of some words")
    shown = " ".join("\n".join(lines).split())
    fixes = len(re.findall("≤ 50 %", shown))
    whole = " ".join(("a text of some words " * 6).split())
    assert 1 <= fixes < 3
    assert shown.count(f"→ act on {whole}") == fixes
    assert shown.count(f"if {whole}") == fixes
    assert f"{3 - fixes} more with -v" in shown
    assert "more: --top 0" in shown


@each_row("rows", [4, 12, 20, 21, 22, 23, 24, 25, 26, 27, 500])
def test_a_screen_is_filled_by_its_last_table(rows: int) -> None:
    table = every_block("name", rows).blocks[4]
    assert isinstance(table, doc.Table)
    table = replace(table, more="")
    lines = lines_of(doc.Note("verdict", "strong"), table, form="short", height=SCREEN_HEIGHT)
    whole = 2 + 2 + rows
    assert len(lines) == min(whole, SCREEN_HEIGHT)
    if whole > SCREEN_HEIGHT:
        assert lines[-1] == f"{rows - (SCREEN_HEIGHT - 5)} more: --top 0"


def test_a_word_that_is_longer_than_the_terminal_takes_several_rows() -> None:
    table = every_block("name", 500).blocks[4]
    command = doc.Command(f"ncu --kernel-name {'x' * 150} ./a.out", "To collect what is missing:")
    lines = lines_of(command, table, form="short", height=SCREEN_HEIGHT)
    assert sum(-(-len(line) // 80) or 1 for line in lines) == SCREEN_HEIGHT


def test_a_long_note_of_a_screen_ends_in_an_ellipsis() -> None:
    lines = lines_of(doc.Note("many words " * 100), form="short", height=SCREEN_HEIGHT)
    assert len(lines) == 5
    assert lines[-1].endswith("…")


@each_row("text", ["\U0010ffff" * 200, "漢" * 200])
def test_characters_that_take_more_columns_make_no_verdict_longer_than_five_lines(text: str) -> None:
    """200 characters of which each is written with ten: four lines of 60 columns and a rest."""
    lines = lines_of(doc.Note(text * 3, "strong", short=text), width=60, form="short")
    assert len(lines) <= 5 and lines[-1].endswith("…")


@each_row("width", WIDTHS)
def test_the_name_of_a_kernel_is_cut_but_not_its_launches(width: int) -> None:
    recommendations = every_block("text").blocks[2]
    assert isinstance(recommendations, doc.Recommendations)
    item = replace(recommendations.items[0], kernels="kernel_of_a_long_name<float>" * 9, spread=" (45 launches, 52 %)")
    shown = " ".join(printed(doc.Recommendations((item,)), width=width, form="short").split())
    assert "… (45 launches, 52 %), text, measured, if text" in re.sub(r"…[^ ]*", "…", shown)


def test_recommendations_without_gains_have_no_bars() -> None:
    grades: tuple[Severity, ...] = ("high", "low")
    items = [doc.Recommendation("what", "do", it, "", "", "a.cu:1", "kernel", "sure", severity=it) for it in grades]
    first = lines_of(doc.Recommendations(tuple(items)))[0]
    assert first.split() == ["high", "what"] and first.index("what") < 20
    items[1] = replace(items[1], gain="≤ 5.0 %", bar=0.05)
    assert lines_of(doc.Recommendations(tuple(items)))[0].index("what") > 20


def test_a_screen_without_a_table_is_shortened_too() -> None:
    recommendations = every_block("a text of some words " * 6).blocks[2]
    lines = lines_of(recommendations, form="short", height=15)
    assert len(lines) <= 15
    assert lines[-1].endswith("more with -v")


def test_findings_with_little_to_gain_take_a_line() -> None:
    findings = every_block("a headline").blocks[5]
    short = lines_of(findings, form="short")
    assert short[0] == "high         a headline"
    assert short[-1] == "low          minor a headline (a headline)"
    full = "\n".join(lines_of(findings))
    assert "evidence     a headline: 5.1 GB/s (threshold 10 %)" in full
    assert "cause        a headline" in full


def test_a_short_excerpt_says_of_how_many_lines_it_is() -> None:
    code = every_block("x = y[i];").blocks[6]
    lines = lines_of(code, form="short")
    assert lines == [
        "line  samples  x = y[i]; (5 of 9 lines)",
        *(f"   {number}      {number} %  x = y[i];" for number in range(4, 9)),
    ]


def test_code_keeps_its_indentation_and_needs_no_text() -> None:
    code = doc.Code("a.cu", (doc.CodeLine("7", "\tif (x)"), doc.CodeLine("8", None, notes=("5 %",))), ("time",))
    assert lines_of(code) == ["line  time  a.cu", "   7            if (x)", "   8   5 %"]


def test_folds_and_figures_are_for_the_full_form() -> None:
    fold = doc.Fold("Missing", (doc.Note("counters"),))
    figure = doc.Figure(None, "a roofline", ("memory-bound",))
    assert lines_of(fold, figure) == ["Missing", "counters", "", "memory-bound"]
    assert lines_of(fold, figure, form="short") == []
    assert lines_of(replace(fold, open=True), form="short") == ["Missing", "counters"]


def test_a_command_is_broken_where_a_shell_reads_on() -> None:
    command = "gpuprof run --kernel 'a b' -o out.html --set full --verbose -- python train.py --epochs 3 --data 'x y z'"
    lines = lines_of(doc.Command(command, "To collect:"), width=60)
    assert lines[0] == "To collect:"
    assert all(line.endswith(" \\") for line in lines[1:-1])
    joined = " ".join(line.removesuffix("\\").strip() for line in lines[1:])
    assert joined == command
    assert max(map(len, lines)) <= 60


def test_a_command_whose_quotes_do_not_match_stays_whole() -> None:
    assert lines_of(doc.Command("echo 'a " + "b " * 60), width=60)[0].endswith("b")


def test_blocks_without_content_take_no_lines() -> None:
    empty = (doc.Facts(()), table_of([("name", 0)], ()), doc.Findings(()), doc.Fold("x", (), open=True))
    assert lines_of(*empty, form="short") == ["x"]
    assert lines_of(doc.Bars("Throughput", ())) == ["Throughput"]
