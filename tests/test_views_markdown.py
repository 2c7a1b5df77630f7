"""Documents as Markdown: what a review tool makes of it, and how long it may be."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from gpuprof.views import document as doc
from gpuprof.views.markdown import escape, inline, markdown_lines
from tests.table import each_row
from tests.view_documents import HOSTILE, every_block, table_of

COMMONMARK = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def markdown_of(*blocks: doc.Block, most: int = 60_000) -> str:
    """Return blocks as one text."""
    return "\n".join(markdown_lines(doc.Document("title", blocks), most))


def kinds_of(text: str) -> set[str]:
    """Return the kinds of elements that a reader of Markdown makes of a text."""
    kinds = set()
    for token in COMMONMARK.parse(text):
        kinds.add(token.type)
        kinds.update(child.type for child in token.children or ())
    return kinds


@each_row("text", HOSTILE)
def test_no_text_becomes_markup(text: str) -> None:
    shown = markdown_of(*every_block(text).blocks)
    assert kinds_of(shown) - {"html_block"} == kinds_of(markdown_of(*every_block("name").blocks)) - {"html_block"}
    html = "".join(token.content for token in COMMONMARK.parse(shown) if token.type == "html_block")
    assert re.findall("<[^>]*>", html) == ["<details>", "<summary>", "</summary>", "</details>"]
    assert all(line.isprintable() for line in shown.splitlines())


@each_row("text", HOSTILE)
def test_tables_keep_their_columns(text: str) -> None:
    lines = markdown_of(every_block(text).blocks[4]).splitlines()[:5]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {6}


def test_users_issues_and_addresses_are_not_linked() -> None:
    assert escape("@user #12 !3") == "@&#8203;user \\#&#8203;12 \\!&#8203;3"
    assert escape("GH-12 GH200") == "GH&#8203;-12 GH200"
    assert escape("https://x.example www.x.example") == "https:&#8203;//x.example www&#8203;.x.example"
    details = markdown_of(doc.Fold("@user #1 <b>", (doc.Note("x"),)))
    assert details.startswith("<details><summary>@&#8203;user #&#8203;1 &lt;b&gt;</summary>")


def test_commands_and_code_are_kept_as_they_are() -> None:
    shown = markdown_of(doc.Command("echo `a` | tee @b", "Run:"), doc.Code("f.cu", (doc.CodeLine("7", "```@x"),)))
    assert shown.splitlines() == [
        "Run: `` echo `a` | tee @b ``",
        "",
        "``````",
        "line  f.cu",
        "   7  ```@x",
        "``````",
    ]


def test_texts_are_cut_with_an_ellipsis_and_stay_bounded() -> None:
    assert "…" in inline("ns::kernel<float, 128>" * 50)
    for text in ("@" * 10_000, "|" * 10_000, "word " * 10_000):
        assert len(inline(text, 100)) <= 900
        assert "…" in inline(text)


def test_strong_texts_are_bold() -> None:
    shown = markdown_of(doc.Note("slow ", "strong"), doc.Facts((("GPU", doc.Cell("H100", "strong")),)))
    assert shown.splitlines() == ["**slow**", "", "- GPU: **H100**"]


def test_a_table_that_is_too_long_shows_the_rows_that_fit_and_counts_the_rest() -> None:
    table = table_of([("name", 0), ("number", 0)], [(f"kernel {number}", "1 ms") for number in range(9000)])
    shown = markdown_of(table, doc.Note("behind"))
    assert len(shown) <= 60_000
    rows = len(re.findall(r"^\| kernel \d", shown, re.MULTILINE))
    assert rows > 2000
    assert f"{9000 - rows} more rows" in shown
    assert "behind" in shown


def test_a_fold_that_is_too_long_shows_the_blocks_that_fit_and_counts_the_rest() -> None:
    notes = tuple(doc.Note(f"note {number} " + "word " * 80) for number in range(500))
    shown = markdown_of(doc.Fold("All", notes), most=10_000)
    assert len(shown) <= 10_000
    assert shown.rstrip().endswith("</details>")
    kept = shown.count("note ")
    assert 15 < kept < 500
    assert f"{500 - kept} parts left out" in shown


def test_what_does_not_fit_is_counted() -> None:
    notes = [doc.Note("word " * 100) for _ in range(9)]
    shown = markdown_of(*notes, most=1_500)
    assert len(shown) <= 1_500
    assert "7 parts left out" in shown


def test_a_recommendation_has_its_condition_and_no_number_sign() -> None:
    recommendation = doc.Recommendation(
        "Uncoalesced", "make it contiguous", "~ 12 %", "", "if L2 stays", "a.cu:3", "#3 copy", "measured"
    )
    shown = markdown_of(doc.Recommendations((recommendation,), "estimated saving"))
    line = "1. **\\~ 12 % (if L2 stays)** Uncoalesced → make it contiguous – 3 copy, a.cu:3, measured"
    assert shown.splitlines()[2] == line


def test_a_finding_has_its_reasons_and_its_places() -> None:
    finding = doc.Finding(
        rule="rule", severity="high", headline="what", gain="", remains="", certainty="sure", why="Why.", action="Do",
        advice="", place=doc.Cell("a.cu:1"), evidence=(doc.Evidence("share", doc.Cell("5")),), places=("a.cu:2",),
    )  # fmt: skip
    lines = list(markdown_lines(doc.Document("", (doc.Findings((finding,)),))))
    assert lines[:2] == ["- **high** what → Do (a.cu:1)", "  - Why; share: 5; a.cu:2"]
