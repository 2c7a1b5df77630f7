"""The lines of measured values in the terminal: columns that fit a width, for the sheet, live progress and comparisons.

They are no table of rich's: the columns go on over families with whole paragraphs in between, and the live ones are
there before the values are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.characterize.present.console_parts import Sheet
from gpuprof.characterize.present.view import AssessedValue
from gpuprof.characterize.present.words import (
    half_width_text,
    is_outlier,
    is_worse,
    normal_word,
    published_text,
    remarks,
    share,
    value_text,
    verdict_word,
)

if TYPE_CHECKING:
    from rich.text import Text

WIDE = 100
"""From here on the sheet has room for the published range and the verdict in words."""
_SHEET = ("number", "unit", "half_width", "limit", "rated", "normal")
_WIDE_SHEET = (*_SHEET, "published", "verdict")
_LIVE = ("number", "unit", "half_width", "published", "normal")
VERDICT_STYLES = {"verified": "green", "plausible": "yellow", "rejected": "red"}
OUTLIER_STYLES = {True: "bold red", False: "cyan"}
"""By whether a value is worse than published."""
_REMARK_STYLES = {"rejected": "red", "throttled": "yellow"}
_MARKS = {"verified": ("✓", "+"), "plausible": ("~", "~"), "rejected": ("✗", "x")}
_NO_MARK = ("–", "-")
_LEFT = (1, 7)
"""The columns that are set to the left: units and verdicts."""
_LEAST_NAME = 14
_GAP = 1
_INDENT = 2


class Cells(NamedTuple):
    """The texts of one value; empty where there is nothing to say."""

    number: str = ""
    unit: str = ""
    half_width: str = ""
    limit: str = ""
    rated: str = ""
    published: str = ""
    normal: str = ""
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Columns:
    """How wide each column is; 0: it is left out. `name` is what is left. Those in `left` begin where others end."""

    heads: tuple[str, ...]
    left: tuple[int, ...]
    name: int
    widths: tuple[int, ...]

    def padded(self, texts: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yield the texts of a line as wide as their columns, each with its column's number."""
        for index, (text, width) in enumerate(zip(texts, self.widths, strict=True)):
            if width:
                yield index, text.ljust(width) if index in self.left else text.rjust(width)

    def name_lines(self, name: str, sheet: Sheet) -> tuple[list[str], str]:
        """Return the lines above the figures, for a name that is too long for its column, and the text beside them."""
        if len(name) > self.name:
            return [f"{' ' * _INDENT}{line}" for line in sheet.wrapped(name, _INDENT)], ""
        return [], name


def mark(verdict: str, sheet: Sheet) -> str:
    """Return the one character that stands for a verdict."""
    return _MARKS.get(verdict, _NO_MARK)[0 if sheet.blocks else 1]


def plus_minus(sheet: Sheet) -> str:
    """Return the sign of an interval."""
    return "±" if sheet.blocks else "+-"


def columns_for(entries: Iterable[AssessedValue], sheet: Sheet) -> Columns:
    """Return columns as wide as these values need; columns that nothing would stand in are left out."""
    return _sheet_columns(
        [cells_of(entry, sheet) for entry in entries], _WIDE_SHEET if sheet.width >= WIDE else _SHEET, sheet
    )


def live_columns(sheet: Sheet) -> Columns:
    """Return columns for values that are not known yet."""
    widest = Cells(number="99.9", unit="result/clk/SM", half_width="99.9 %", published="99.9–99.9", normal="normal")
    return _sheet_columns([widest], _LIVE, sheet)


def _sheet_columns(rows: Sequence[Cells], shown: Sequence[str], sheet: Sheet) -> Columns:
    heads = Cells(
        half_width=plus_minus(sheet), limit="limit", rated="rated", published="published", normal="normal?",
        verdict="verdict",
    )  # fmt: skip
    kept = [tuple(text if field in shown else "" for field, text in row._asdict().items()) for row in rows]
    return fitted_columns(heads, kept, _LEFT, sheet)


def fitted_columns(heads: Sequence[str], rows: Sequence[Sequence[str]], left: tuple[int, ...], sheet: Sheet) -> Columns:
    """Return columns as wide as their heads and the texts of the rows, without those that are empty in all rows."""
    widest = [max((len(row[index]) for row in rows), default=0) for index in range(len(heads))]
    widths = tuple(max(width, len(head)) if width else 0 for width, head in zip(widest, heads, strict=True))
    name = sheet.width - _INDENT - sum(width + _GAP for width in widths if width)
    return Columns(heads=tuple(heads), left=left, name=name if name >= _LEAST_NAME else 0, widths=widths)


def head_line(title: str, columns: Columns, sheet: Sheet) -> Text:
    """Return the line above the columns, which begins with a title, or has it above where it is too long."""
    from rich.text import Text

    shown, room = sheet.legible(title), _INDENT + columns.name + _GAP
    start = shown.ljust(room) if len(shown) < room else f"{shown}\n{' ' * room}"
    line = Text(start, style="bold cyan")
    line.append(" ".join(text for _, text in columns.padded(columns.heads)), "not bold dim default")
    line.rstrip()
    return line


def row_lines(entry: AssessedValue, name: str, columns: Columns, sheet: Sheet) -> Iterator[Text]:
    """Yield the line of a value; a name that is too long for its column stands above."""
    from rich.text import Text

    above, beside = columns.name_lines(sheet.legible(name), sheet)
    yield from map(Text, above)
    line = Text()
    line.append(f"{mark(entry.value.verdict, sheet)} ", VERDICT_STYLES.get(entry.value.verdict, "dim"))
    line.append(beside.ljust(columns.name + _GAP))
    for index, text in columns.padded(cells_of(entry, sheet)):
        line.append(f"{text} ", _style(Cells._fields[index], entry))
    line.rstrip()
    yield line


def remark_lines(
    entry: AssessedValue, sheet: Sheet, kinds: Collection[str] = ("rejected", "throttled")
) -> Iterator[Text]:
    """Yield what stands below the line of a value, of these kinds."""
    for kind, text in remarks(entry.value):
        if kind in kinds:
            yield sheet.paragraph(text, _REMARK_STYLES[kind], indent=4)


def cells_of(entry: AssessedValue, sheet: Sheet) -> Cells:
    """Return the texts of one value."""
    value, assessment = entry.value, entry.assessment
    number, _, unit = value_text(value).partition(" ") if value.value is not None else ("", "", "")
    return Cells(
        number=number,
        unit=sheet.legible(unit),
        half_width=half_width_text(value),
        limit=share(assessment.of_limit),
        rated=share(assessment.of_rated),
        published=sheet.legible(_without_unit(published_text(assessment), unit)),
        normal=normal_word(assessment),
        verdict=verdict_word(value),
    )


def _without_unit(published: str, unit: str) -> str:
    """Return a range without its unit where the value beside it has the same."""
    return published.removesuffix(f" {unit}") if unit else published


def _style(field: str, entry: AssessedValue) -> str:
    if field == "verdict":
        return VERDICT_STYLES.get(entry.value.verdict, "dim")
    if not entry.value.usable:
        return "dim"
    if field == "normal" and is_outlier(entry.assessment):
        return OUTLIER_STYLES[is_worse(entry.assessment)]
    return "bold" if field in {"number", "unit"} else ""
