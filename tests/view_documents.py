"""Documents for tests of the renderers: every block, with a text from anywhere in each of its fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gpuprof.views import document as doc

Kind = Literal["name", "text", "number", "sentence"]

HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07", "[bold]not bold[/bold] [link=x]y[/link]", "one\ntwo\r\x00three\tfour",
    "right\u200fto\u202eleft", "a|b||c", "`tick` ``two`` ```three", "@user and @org/team", "#1 owner/repo#2 !3",
    "</details><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[text](https://x.example) www.x.example",
    "名前" * 40, "ns::kernel<float, 128>(float*)" * 9, "| --- |\n# heading", "\ud800", "a &amp; &lt;b&gt; ~~c~~ **d**",
)  # fmt: skip
"""What names in reports may contain, to steer a terminal, a page or a review tool."""


def every_block(text: str, rows: int = 12) -> doc.Document:
    """Return a document with every block; all texts from outside are `text`."""
    cell = doc.Cell(text, whole=text, code=True)
    recommendation = doc.Recommendation(
        headline=text, action=f"act on {text}", gain="≤ 50 %", of="of GPU time", condition=f"if {text}", place=text,
        kernels=text, certainty="measured", severity="high", bar=0.5,
    )  # fmt: skip
    finding = doc.Finding(
        rule="some-rule", severity="high", headline=text, gain="saves 5 ms", remains=text, certainty="measured",
        why=text, action=text, advice=text, place=cell, evidence=(doc.Evidence(text, doc.Cell("5.1 GB/s"), "10 %"),),
        anchor="finding-1",
    )  # fmt: skip
    minor = doc.Finding(
        rule="other-rule", severity="low", headline=f"minor {text}", gain="saves 1 ms", remains="", certainty="guess",
        why="", action="", advice="", place=cell, explained_by=cell,
    )  # fmt: skip
    columns = (
        doc.Column("#", "number"),
        doc.Column("kernel", "name"),
        doc.Column("time", "number"),
        doc.Column("main stall", rank=3),
        doc.Column("first finding", rank=4),
    )
    table = doc.Table(
        "Kernels",
        columns,
        tuple((str(index), cell, "12.3 ms", text, "uncoalesced") for index in range(rows)),
        short_more=lambda shown: f"{rows - shown} more: --top 0",
        more=text,
    )
    code = doc.Code(text, tuple(doc.CodeLine(str(n), text, n / 9, (f"{n} %",)) for n in range(9)), ("samples",))
    return doc.Document(
        text,
        (
            doc.Heading(cell, 2, "kernel-1"),
            doc.Note(text, "strong"),
            doc.Recommendations((recommendation,) * 3, f"share of the run saved, {text}"),
            doc.Facts(((text, text), ("steps", "10 of 18.5 ms")), label=text),
            table,
            doc.Findings((finding, minor)),
            code,
            doc.Code("no text", (doc.CodeLine("1", None, 0.5, ()), doc.CodeLine("2", None, 0.1, ("3 %",))), ("time",)),
            doc.Figure(None, text, (text,)),
            doc.Bars(text, (doc.Bar(cell, 0.91, "91 %"), doc.Bar("DRAM", None, "n/c")), text, text),
            doc.Bars("Stalls", (doc.Bar("math", 0.5, "50 %"), doc.Bar("wait", 0.25, "25 %")), stacked=True),
            doc.Command(f"gpuprof show {text}", text),
            doc.Fold(cell, (doc.Note(text),)),
        ),
    )


def table_of(kinds: Iterable[tuple[Kind, int]], rows: Iterable[tuple[str, ...]]) -> doc.Table:
    """Return a table with columns of these kinds and ranks."""
    columns = [doc.Column(f"column {index}", kind, rank) for index, (kind, rank) in enumerate(kinds)]
    return doc.Table("table", tuple(columns), tuple(rows))
