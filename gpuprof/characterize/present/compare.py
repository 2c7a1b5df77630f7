"""Two measured files side by side in the terminal and as Markdown: what changed first, then every quantity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, get_args

from gpuprof.characterize.present.console_parts import Sheet
from gpuprof.characterize.present.row import Columns, fitted_columns, head_line
from gpuprof.characterize.present.view import by_family, family_title
from gpuprof.characterize.present.words import NOT_KNOWN, amount, value_text
from gpuprof.characterize.sheet.measured import Measured, MeasuredValue
from gpuprof.characterize.sheet.side_by_side import (
    SAME,
    ChangeWord,
    ComparedValue,
    Difference,
    differences,
    side_by_side,
)
from gpuprof.units import format_change
from gpuprof.views.markdown import escape
from gpuprof.views.terminal import print_blocks
from gpuprof.words.profile_values import count_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_STYLES = {"better": "cyan", "worse": "bold red", "unclear": "yellow", "same": ""}
_HEADS = ("base", "new", "change", "per clock", "")
_SHOWN = 0.0005
"""A change that is less is none: nothing is measured that well."""
_WITHIN = f"{100 * SAME:.0f} %"
_LEFT = (1, 4)
"""The columns that are set to the left: the new value and the verdict."""
_PHRASES = {
    "same": f"the same within {_WITHIN}",
    "better": "better",
    "worse": "worse",
    "unclear": "unclear",
    "only base": "only in base",
    "only new": "only in new",
    "not comparable": "not comparable",
}
_CONDITIONS = {
    "date": ("measured", ""),
    "power_limit_w": ("power limit", "W"),
    "default_power_limit_w": ("default power limit", "W"),
    "max_sm_clock_hz": ("highest SM clock", "Hz"),
    "memory_clock_hz": ("memory clock", "Hz"),
    "max_memory_clock_hz": ("highest memory clock", "Hz"),
    "pcie_generation": ("PCIe generation", ""),
    "pcie_width": ("PCIe width", ""),
    "max_pcie_generation": ("highest PCIe generation", ""),
    "max_pcie_width": ("highest PCIe width", ""),
    "cuda": ("CUDA", ""),
    "ecc": ("ECC", ""),
    "mig": ("MIG", ""),
}


def print_comparison(console: Console, base: Measured, new: Measured) -> None:
    """Print what differs, and every quantity of both files."""
    print_blocks(console, _blocks(base, new, Sheet.of(console)))


def comparison_markdown(base: Measured, new: Measured) -> Iterator[str]:
    """Yield the comparison as Markdown, line by line."""
    rows = side_by_side(base, new)
    yield f"**{escape(comparison_sentence(base, new, rows))}**"
    yield ""
    for difference in differences(base, new):
        name, before, after = difference_texts(difference)
        yield f"- {escape(name)}: {escape(before)} → {escape(after)}"
    yield ""
    yield "| quantity | base | new | change | per clock | verdict |"
    yield "|---|--:|--:|--:|--:|---|"
    for row in rows:
        yield f"| {' | '.join(map(escape, (row.name, *row_texts(row))))} |"


def comparison_sentence(base: Measured, new: Measured, rows: Sequence[ComparedValue]) -> str:
    """Count the verdicts: "b against a, 36 values: 30 the same within 2 %, 6 worse."."""
    numbers = Counter(row.word for row in rows)
    counts = [f"{numbers[word]} {_PHRASES[word]}" for word in get_args(ChangeWord) if numbers[word]]
    sides = f"{_label(new, base)} against {_label(base, new)}"
    return f"{sides}, {count_text(len(rows), 'value')}{': ' if counts else ''}{', '.join(counts)}."


def _label(measured: Measured, beside: Measured) -> str:
    """Return the name of a file; with its date where both have the same."""
    return measured.name if measured.name != beside.name else f"{measured.name} of {measured.conditions.date}"


def row_texts(row: ComparedValue) -> tuple[str, ...]:
    """Return both values, the change, the change per clock and the verdict."""
    return _side(row.base), _side(row.new), change_text(row.ratio), change_text(row.per_clock), row.word


def change_text(ratio: float | None) -> str:
    """Write a ratio as a change: 1.031 → "+3.1 %"."""
    if ratio is None:
        return ""
    return format_change(ratio) if abs(ratio - 1) >= _SHOWN else "0 %"


def difference_texts(difference: Difference) -> tuple[str, str, str]:
    """Return what differs, and how it is in both, in plain words and with units."""
    name, unit = _CONDITIONS.get(difference.name, (difference.name.replace("_", " "), ""))
    return name, _with_unit(difference.base, unit), _with_unit(difference.new, unit)


def _with_unit(text: str, unit: str) -> str:
    return amount(float(text), unit) if unit and text != NOT_KNOWN else text


def _side(value: MeasuredValue | None) -> str:
    """Write a value with its verdict where that is not the usual one."""
    if value is None:
        return ""
    text = value_text(value)
    return f"{text} {value.verdict}" if value.verdict == "rejected" else text


def _blocks(base: Measured, new: Measured, sheet: Sheet) -> Iterator[RenderableType]:
    from rich.text import Text

    rows = side_by_side(base, new)
    yield sheet.paragraph(comparison_sentence(base, new, rows), "bold")
    for difference in differences(base, new):
        name, before, after = difference_texts(difference)
        yield sheet.paragraph(f"{name}: {before} → {after}", indent=2)
    cells = [_cells(row, sheet) for row in rows if row.ratio is not None]
    columns = fitted_columns(_HEADS, [_HEADS, *cells], _LEFT, sheet)
    for family, members in by_family(rows):
        yield Text("")
        yield from _family(family, members, columns, sheet)
    yield Text("")
    yield sheet.paragraph(
        f"change: new ÷ base - 1; per clock: the same for rates and times in SM clocks; unclear: more than {_WITHIN}, "
        "but the 95 % intervals overlap",
        "dim",
    )


def _family(family: str, rows: Sequence[ComparedValue], columns: Columns, sheet: Sheet) -> Iterator[RenderableType]:
    """Yield the rows that can be compared under their heads, then the names of the others."""
    from rich.text import Text

    title = family_title(family)
    compared = [row for row in rows if row.ratio is not None]
    yield head_line(title, columns, sheet) if compared else Text(sheet.legible(title), style="bold cyan")
    for row in compared:
        yield from _row_lines(row, row.name.removeprefix(f"{family}/"), columns, sheet)
    for word in ("not comparable", "only base", "only new"):
        names = [row.name.removeprefix(f"{family}/") for row in rows if row.word == word]
        if names:
            yield sheet.paragraph(f"{_PHRASES[word]}: {', '.join(names)}", "dim", indent=2)


def _cells(row: ComparedValue, sheet: Sheet) -> tuple[str, ...]:
    """Return the texts of a row; the base without its unit where the new value has the same."""
    base, new, *rest = row_texts(row)
    number, _, unit = base.partition(" ")
    return tuple(map(sheet.legible, (number if unit == new.partition(" ")[2] else base, new, *rest)))


def _row_lines(row: ComparedValue, name: str, columns: Columns, sheet: Sheet) -> Iterator[Text]:
    from rich.text import Text

    above, beside = columns.name_lines(sheet.legible(name), sheet)
    yield from map(Text, above)
    texts = " ".join(text for _, text in columns.padded(_cells(row, sheet)))
    yield Text(f"  {beside.ljust(columns.name)} {texts}".rstrip(), style=_STYLES.get(row.word, ""))
