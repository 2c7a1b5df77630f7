"""A document: the content of a view as a sequence of blocks. Pure data: no layout, no escaping, no medium.

A view is a function from a product to a `Document`. `terminal`, `html` and `markdown` render any document. Each block
has a full form and a short one; the renderer takes the form that the caller asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.field_types import Severity

Tone = Literal["", "muted", "strong", "good", "bad", "warning", "high", "medium", "low", "info"]
"""The role of a text, which gives its colour and weight: a severity, an improvement, a regression, an aside."""
Form = Literal["full", "short"]

_NO_ID = re.compile(r"[^A-Za-z0-9_.-]")


class Cell(Struct, frozen=True):
    """A text that says more than its characters.

    `href` is the anchor of a block or row in the same document. `order` is the value that a table is sorted by. `bar`
    is the length of a bar beside the text, 0 to 1, and `mark` a threshold on it. `whole` is the text without cuts or
    the meaning behind it, for a tooltip. `code` texts are identifiers or places in code.
    """

    text: str
    tone: Tone = ""
    href: str = ""
    order: float | None = None
    bar: float | None = None
    mark: float | None = None
    whole: str = ""
    code: bool = False


Inline = str | Cell


class Heading(Struct, frozen=True):
    """The title of the blocks up to the next heading of its level (1 to 4); `anchor` makes it a target of links."""

    text: Inline
    level: int = 2
    anchor: str = ""


class Note(Struct, frozen=True):
    """A paragraph; `short` is the text of its short form (empty: the same)."""

    text: Inline
    tone: Tone = ""
    short: str = ""


class Facts(Struct, frozen=True):
    """Names with values."""

    rows: tuple[tuple[str, Inline], ...]
    label: str = ""


class Column(Struct, frozen=True):
    """A column of a table. Columns with the highest `rank` go first if there is too little room; those of 0 stay.

    `kind`: names are cut in the middle, texts at their end, numbers never and stand to the right. Sentences are of any
    length: a terminal writes them below their row. `meaning` explains the column below the table or in a tooltip. `id`
    names it for scripts and styles; empty if none needs it.
    """

    name: str
    kind: Literal["name", "text", "number", "sentence"] = "text"
    rank: int = 0
    meaning: str = ""
    id: str = ""


class Table(Struct, frozen=True):
    """Rows under columns. `anchors` are the ids of the rows, or empty.

    `more` is the text below: remarks on the rows, and how many are left out. The short form may show fewer rows, but at
    least `least`; `short_more` returns the text for a given number of rows. With `filter` the page can filter and sort
    rows.
    """

    label: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Inline, ...], ...]
    anchors: tuple[str, ...] = ()
    more: str = ""
    short_more: Callable[[int], str] | None = None
    least: int = 3
    filter: bool = False


class Recommendation(Struct, frozen=True):
    """A change to make: its place, the time that it saves (`gain`, a share `of` which time), and how certain that is.

    If nothing is known of times, `gain` is the severity. `spread` follows the kernels: how many launches, or in which
    files. `bar` is the gain from 0 to 1; None if it is unknown or doubted. `href` leads to the finding.
    """

    headline: str
    action: str
    gain: str
    of: str
    condition: str
    place: str
    kernels: Inline
    certainty: str
    spread: str = ""
    rule: str = ""
    severity: Severity = "info"
    bar: float | None = None
    doubted: bool = False
    href: str = ""


class Recommendations(Struct, frozen=True):
    """Changes in the order of their gain. `legend` explains the gains, `more` counts the changes left out.

    `title` is that of a list without a heading of its own. The short form may show fewer and cut headlines, places and
    actions, but no gain and no condition.
    """

    items: tuple[Recommendation, ...]
    legend: str = ""
    more: str = ""
    title: str = ""


class Evidence(Struct, frozen=True):
    """A value that a finding rests on, with the threshold that it passed (empty: context) and its counter."""

    meaning: str
    value: Cell
    threshold: str = ""
    metric: str = ""


class Finding(Struct, frozen=True):
    """A finding with all that supports it. `explained_by` names the finding that causes it; its own text then folds.

    `places` are those beside the first.
    """

    rule: str
    severity: Severity
    headline: str
    gain: str
    remains: str
    certainty: str
    why: str
    action: str
    advice: str
    place: Cell
    evidence: tuple[Evidence, ...] = ()
    explained_by: Inline = ""
    anchor: str = ""
    places: tuple[str, ...] = ()


class Findings(Struct, frozen=True):
    """The findings of one kernel, the first one first. The short form has no evidence, reasons or advice."""

    items: tuple[Finding, ...]


class CodeLine(Struct, frozen=True):
    """A line of code with its number or address, its text (None: not in the report) and its annotations.

    `heat` is 0 to 1, relative to the hottest line shown. `notes` stand beside the line in the columns of `Code`; the
    `whole` of a note is shown if there is room. A line `across` the columns is a heading of the lines below if it has a
    number, else a remark; `tone` is that of such a line.
    """

    number: str
    text: str | None
    heat: float = 0.0
    notes: tuple[Inline, ...] = ()
    anchor: str = ""
    marked: bool = False
    across: bool = False
    tone: Tone = ""


class Code(Struct, frozen=True):
    """Source or machine code. The short form has the `most` hottest lines and all that are marked.

    `numbers` names the numbers of the lines. If there is too little room, the last columns go first.
    """

    title: str
    lines: tuple[CodeLine, ...]
    columns: tuple[str, ...] = ()
    most: int = 5
    numbers: str = "line"


class Figure(Struct, frozen=True):
    """A drawing. `svg` draws it when a medium shows it, with ids unique in the page; `alt` describes it in words.

    Media without pictures show `notes` alone. `id` is the id of its frame.
    """

    svg: Callable[[], str] | None
    alt: str
    notes: tuple[str, ...] = ()
    id: str = ""
    caption: str = ""


class Bar(Struct, frozen=True):
    """A quantity as a share of its ceiling or of a whole, 0 to 1 (None: unknown). `colour` is used if it is stacked."""

    name: Inline
    fraction: float | None
    text: str
    whole: str = ""
    colour: str = ""


class Bars(Struct, frozen=True):
    """Shares of a ceiling, or of one whole (`stacked`). `ceiling` is the name of 100 %."""

    label: str
    items: tuple[Bar, ...]
    ceiling: str = ""
    note: str = ""
    stacked: bool = False


class Tree(Struct, frozen=True):
    """A step of an explanation, its number, and the steps below it."""

    text: Inline
    number: str = ""
    children: tuple[Tree, ...] = ()


class Command(Struct, frozen=True):
    """A command line to copy; `lead` says what it does."""

    text: str
    lead: str = ""


class Fold(Struct, frozen=True):
    """Blocks behind a title: the page folds them unless `open`, other media show them in the full form only.

    With an `anchor` it is a section of its own that others link to. `short` is what the short form has in its place.
    """

    title: Inline
    blocks: tuple[Block, ...]
    open: bool = False
    anchor: str = ""
    short: str = ""


Block = (
    Heading | Note | Facts | Table | Recommendations | Findings | Code | Figure | Bars | Tree | Command | Fold
)  # fmt: skip


class Document(Struct, frozen=True):
    """A title and blocks. `data` is kept in a page, so that the page can be read again; `version` wrote it."""

    title: str
    blocks: tuple[Block, ...]
    version: str = ""
    data: Callable[[], str | None] | None = None


def anchor(*parts: object) -> str:
    """Return an id for a block, row or line: "finding-3-small-grid"."""
    return _NO_ID.sub("-", "-".join(map(str, parts)))


def text_of(value: Inline) -> str:
    """Return the characters of an inline text."""
    return value if isinstance(value, str) else value.text


def filled(table: Table, *empty: str) -> Table:
    """Return a table without the columns whose cells are all empty, or one of the texts `empty`."""
    nothing = {"", *empty}
    kept = []
    for index in range(len(table.columns)):
        if any(text_of(row[index]) not in nothing for row in table.rows):
            kept.append(index)
    columns = tuple(table.columns[index] for index in kept)
    rows = tuple(tuple(row[index] for index in kept) for row in table.rows)
    return replace(table, columns=columns, rows=rows)


def first_rows(table: Table, count: int) -> Table:
    """Return a table of the first `count` rows; the text below it says how many are left out."""
    if count >= len(table.rows):
        return table
    more = f"{len(table.rows) - count} more rows"
    if table.short_more is not None:
        more = table.short_more(count)
    return replace(table, rows=table.rows[:count], anchors=table.anchors[:count], more=more)


def shortest_excerpt(code: Code) -> tuple[CodeLine, ...]:
    """Return the hottest lines and those that are marked, in the order of the code."""
    hottest = sorted(range(len(code.lines)), key=lambda index: -code.lines[index].heat)[: code.most]
    kept = set(hottest)
    return tuple(line for index, line in enumerate(code.lines) if index in kept or line.marked)


def evidence_text(evidence: Evidence) -> str:
    """Return a value that a finding rests on as text, with its threshold."""
    threshold = f" (threshold {evidence.threshold})" if evidence.threshold else ""
    return f"{evidence.meaning}: {evidence.value.text}{threshold}"
