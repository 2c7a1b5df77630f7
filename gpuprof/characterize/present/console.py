"""A measured file in the terminal: is the GPU normal, what is outside and why, every value by family, conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.characterize.present.console_parts import Sheet, aligned
from gpuprof.characterize.present.row import (
    OUTLIER_STYLES,
    VERDICT_STYLES,
    WIDE,
    Columns,
    columns_for,
    head_line,
    mark,
    plus_minus,
    remark_lines,
    row_lines,
)
from gpuprof.characterize.present.view import (
    AssessedValue,
    Doubt,
    TopRate,
    View,
    absent_families,
    advice,
    cause_sentence,
    ceilings,
    count_sentence,
    family_title,
    normal_sentence,
    own_doubts,
    probe_groups,
    probe_of,
    shared_doubts,
    unmeasured,
    variant_of,
)
from gpuprof.characterize.present.words import (
    VERDICTS,
    cause_text,
    condition_facts,
    device_text,
    is_worse,
    outside_text,
    share,
    value_text,
)
from gpuprof.views.terminal import print_blocks
from gpuprof.words.profile_values import count_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_OUTLIERS_SHOWN = 10
_NAMES_SHOWN = 12


def print_measured(console: Console, view: View) -> None:
    """Print the sheet: the answer first, then outliers, values by family, and the conditions."""
    print_blocks(console, _blocks(view, Sheet.of(console)))


def _blocks(view: View, sheet: Sheet) -> Iterator[RenderableType]:
    from rich.text import Text

    yield sheet.paragraph(normal_sentence(view), "bold")
    cause = cause_sentence(view)
    if cause:
        yield sheet.paragraph(cause)
    yield sheet.paragraph(count_sentence(view))
    outliers = view.outliers()
    if outliers:
        yield Text("")
        yield from _outliers(outliers, sheet)
    tops = ceilings(view)
    if tops:
        yield Text("")
        yield from _ceilings(tops, sheet)
    measured = [entry for entry in view.entries if entry.value.value is not None]
    columns, shared = columns_for(measured, sheet), shared_doubts(view.entries)
    for family, entries in view.families():
        yield Text("")
        yield from _family(family, entries, columns, shared, sheet)
    yield Text("")
    yield from _legend(view, shared, sheet)
    yield Text("")
    yield from _conditions(view, sheet)


def _outliers(outliers: Sequence[AssessedValue], sheet: Sheet) -> Iterator[RenderableType]:
    """Each value outside of its range: where it lies, and the likely cause."""
    from rich.text import Text

    yield Text("Outside the published range", style="bold")
    for entry in outliers[:_OUTLIERS_SHOWN]:
        worse = is_worse(entry.assessment)
        head = f"{entry.name}: {value_text(entry.value)}, {outside_text(entry.assessment)}"
        yield sheet.paragraph(head, OUTLIER_STYLES[worse].removeprefix("bold "), indent=2)
        source = entry.assessment.expected.source if entry.assessment.expected is not None else ""
        cause = f"{cause_text(entry.assessment)} " if worse else ""
        yield sheet.paragraph(f"{cause}Published: {source}", indent=4)
    if len(outliers) > _OUTLIERS_SHOWN:
        yield sheet.paragraph(f"… and {len(outliers) - _OUTLIERS_SHOWN} more, marked below", "dim", indent=2)


def _ceilings(tops: Sequence[TopRate], sheet: Sheet) -> Iterator[Text]:
    """What the GPU reaches, in short: the best of each level and path, its share of the limit, whose value it is."""
    from rich.text import Text

    yield Text("Ceilings: the best of each, with its share of the limit", style="bold cyan")
    rows = [
        (f"{mark(top.entry.value.verdict, sheet)} {top.name}", top.rate, share(top.entry.assessment.of_limit))
        for top in tops
    ]
    for line, top in zip(aligned(rows, right=(1, 2)), tops, strict=True):
        name = sheet.legible(f"  {top.entry.name}")
        legible = sheet.legible(line)
        yield Text(legible) if len(legible) + len(name) > sheet.width else Text(legible).append(name, "dim")


def _family(
    family: str, entries: Sequence[AssessedValue], columns: Columns, shared: Sequence[Doubt], sheet: Sheet
) -> Iterator[RenderableType]:
    from rich.text import Text

    measured = [entry for entry in entries if entry.value.value is not None]
    title = family_title(family)
    yield head_line(title, columns, sheet) if measured else Text(sheet.legible(title), style="bold cyan")
    for _, members in probe_groups(measured):
        if len(members) > 1:
            yield _probe_line(members[0], sheet)
        for entry in members:
            yield from row_lines(entry, _name(entry, alone=len(members) == 1), columns, sheet)
            yield from remark_lines(entry, sheet)
            yield from (sheet.paragraph(text, "yellow", indent=4) for text in own_doubts(entry, shared))
            yield from (sheet.paragraph(text, "dim", indent=4) for text in advice(entry))
    for group in unmeasured(entries):
        names = [entry.short for entry in group.entries[:_NAMES_SHOWN]]
        more = [f"{len(group.entries) - len(names)} more"] if len(group.entries) > len(names) else []
        text = f"{group.verdict}: {', '.join([*names, *more])}: {group.why}"
        yield sheet.hanging(f"{mark(group.entries[0].value.verdict, sheet)} ", text)


def _probe_line(entry: AssessedValue, sheet: Sheet) -> Text:
    """Return the line above several values of one probe: its name, and what it measures as far as there is room."""
    from rich.text import Text

    name = sheet.legible(probe_of(entry.name).removeprefix(f"{entry.family}/"))
    line = Text(f"  {name}")
    line.append(f"  {sheet.legible(entry.title or '')}".rstrip(), "dim")
    line.truncate(sheet.width, overflow="ellipsis")
    return line


def _name(entry: AssessedValue, *, alone: bool) -> str:
    return entry.short if alone else f"  {variant_of(entry.name) or 'default'}"


def _legend(view: View, shared: Sequence[Doubt], sheet: Sheet) -> Iterator[Text]:
    """Say what the marks and columns mean, as far as they occur, and what is not in the file."""
    present = {entry.value.verdict for entry in view.entries}
    if sheet.width < WIDE:
        marks = [f"{mark(word, sheet)} {word}" for word in VERDICT_STYLES if word in present]
        if marks:
            yield sheet.paragraph("   ".join(marks), "dim")
    for word in ("plausible", "rejected"):
        if word in present:
            yield sheet.paragraph(f"{word}: {VERDICTS[word]}", "dim")
    for doubt in shared:
        yield sheet.paragraph(f"not checked of {count_text(doubt.number, 'value')}: {doubt.why}", "dim", indent=2)
    yield sheet.paragraph(
        f"{plus_minus(sheet)}: larger half of the 95 % interval; limit: share of the limit at the measured clocks; "
        "rated: share of the datasheet's value; normal?: within the published range or close to it, empty without one",
        "dim",
    )
    absent = absent_families(view)
    if absent:
        families = ", ".join(absent).replace("-", " ")
        yield sheet.paragraph(f"Not in this file: {families}", "dim")


def _conditions(view: View, sheet: Sheet) -> Iterator[Text]:
    measured = view.measured
    yield sheet.field("GPU", device_text(measured.device, measured.spec))
    for name, text in condition_facts(measured.conditions):
        yield sheet.field(name, text)
