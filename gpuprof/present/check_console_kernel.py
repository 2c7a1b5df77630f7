"""A reviewed kernel in the terminal: briefly, what it takes and what to change; in depth, all that is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from gpuprof.model.session import Finding
from gpuprof.present.check_alike import same_memory
from gpuprof.present.check_blocks import Block, BlockFinding, BlockVariant, file_name
from gpuprof.present.check_console_access import access_lines, loop_lines
from gpuprof.present.check_text import (
    bytes_text,
    code_text,
    evidence_texts,
    launch_text,
    more_places_text,
    occupancy_text,
    place_text,
    spilled_text,
    spills_text,
    sure_text,
    takes_text,
    unreviewed_text,
    where_text,
)
from gpuprof.present.console_parts import Sheet
from gpuprof.review.contract import KernelArgument, ReviewedKernel
from gpuprof.units import ARROW
from gpuprof.words.profile_values import count_text
from gpuprof.words.sentences import without_stop

if TYPE_CHECKING:
    from rich.text import Text

_INDENT, _HANG = 3, 2
_MOST_VARIANTS, _MOST_DEEP, _MOST_ARGUMENTS = 4, 8, 24
_MOST_NAME_LINES = 4
_VARIANT_WIDTH = 24


class Brief(Struct, frozen=True, kw_only=True):
    """How short a kernel is: how many findings it has (None: all), and whether each of their texts is one line."""

    findings: int | None
    cut: bool = False


def brief_lines(block: Block, sheet: Sheet, brief: Brief, *, number: bool) -> Iterator[Text]:
    """Yield a kernel: its name, what it takes for each architecture, and its first findings with what to change."""
    yield _heading(block, sheet, number=number)
    yield from _taken(block, sheet, cut=brief.cut)
    if block.unreviewed:
        yield limited(sheet, unreviewed_text(block.unreviewed), 1 if brief.cut else None, "bold", indent=_INDENT)
    shown = block.findings[: brief.findings]
    for told in shown:
        yield from finding_lines(told, sheet, cut=brief.cut)
    more = len(block.findings) - len(shown)
    if more:
        yield sheet.paragraph(f"… and {count_text(more, 'more finding')}: -v shows all", "dim", _INDENT)


def deep_lines(block: Block, sheet: Sheet, *, number: bool) -> Iterator[Text]:
    """Yield everything about a kernel: name, resources, loops and accesses of each variant, and its findings."""
    kernel = block.kernel
    yield _heading(block, sheet, number=number)
    if kernel.name != kernel.label:
        yield limited(sheet, kernel.name, _MOST_NAME_LINES, "dim", indent=_INDENT)
    shown = block.variants[:_MOST_DEEP]
    before: ReviewedKernel | None = None
    for variant in shown:
        if len(block.variants) > 1:
            yield sheet.paragraph(_variant_name(variant), "bold", _INDENT)
        yield from _facts(variant, sheet)
        if before is not None and same_memory(before, variant.kernel):
            yield sheet.field("loops", f"and accesses as on {before.target}", "dim")
        else:
            yield from loop_lines(variant.kernel, sheet)
            yield from access_lines(variant.kernel, sheet)
        before = variant.kernel
    if len(block.variants) > len(shown):
        more = count_text(len(block.variants) - len(shown), "more launch configuration")
        yield sheet.paragraph(f"… and {more}: --format json has all", "dim", _INDENT)
    for told in block.findings:
        yield sheet.paragraph("")
        yield from _card(told, sheet)
    notes = dict.fromkeys(note for variant in block.variants for note in variant.kernel.notes)
    if notes:
        yield sheet.paragraph("")
    for note in notes:
        yield sheet.paragraph(note, "dim", _INDENT)


def finding_lines(told: BlockFinding, sheet: Sheet, *, cut: bool) -> Iterator[Text]:
    """Yield a finding: where it is and what, and below that what to change."""
    finding, most = told.finding, 1 if cut else None
    where = where_text(finding)
    place = sheet.fitted(where, sheet.width // 2)
    only = f" ({', '.join(told.only[:_MOST_VARIANTS])})" if told.only else ""
    guess = " (guess)" if finding.confidence == "guess" else ""
    text = f"{place}: {finding.headline}{guess}{only}" if place else f"{finding.headline}{guess}{only}"
    line = limited(sheet, text, most, indent=_INDENT, hang=_HANG)
    line.stylize("cyan", _INDENT, _INDENT + len(place))
    yield line
    if finding.action:
        yield limited(sheet, f"{ARROW} {finding.action}", most, "bold", indent=_INDENT + _HANG, hang=_HANG)


def limited(sheet: Sheet, text: str, most: int | None, style: str = "", *, indent: int = 0, hang: int = 0) -> Text:
    """Return a text that takes no more lines than `most`: what is beyond goes. All but the first hang further in."""
    from rich.text import Text

    lines = sheet.wrapped(text, indent + hang)
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], sheet.clipped(" ".join(lines[most - 1 :]), sheet.width - indent - hang)]
    first, rest = " " * indent, " " * (indent + hang)
    return Text(first + f"\n{rest}".join(lines), style=style, overflow="fold")


def _heading(block: Block, sheet: Sheet, *, number: bool) -> Text:
    """The kernel's number and name, and for which architecture and launch configuration it is told."""
    from rich.text import Text

    kernel = block.kernel
    begin = f"#{kernel.id} " if number else ""
    one_target = len({variant.kernel.target for variant in block.variants}) == 1
    parts = [kernel.target if one_target else "", launch_text(kernel) if len(block.variants) == 1 else ""]
    parts.append(count_text(block.launches, "launch", "es") if block.launches else "")
    parts.append(sheet.fitted(block.file, sheet.width // 3))
    about = ", ".join(part for part in parts if part)
    room = sheet.width - len(begin) - (len(about) + 2 if about else 0)
    line = Text(f"{begin}{sheet.fitted(kernel.label, max(room, 10))}", "bold cyan", no_wrap=True, overflow="ignore")
    if about:
        line.append(f"  {sheet.legible(about)}", "not bold dim")
    return line


def _taken(block: Block, sheet: Sheet, *, cut: bool) -> Iterator[Text]:
    """Yield what the variants take: those that take the same in one line."""
    texts: dict[str, list[str]] = {}
    for variant in block.variants:
        text = f"{takes_text(variant.kernel.resources)}; occupancy {occupancy_text(variant.kernel, step=not cut)}"
        texts.setdefault(text, []).append(variant.name)
    shown = list(texts.items())[:_MOST_VARIANTS]
    for text, names in shown:
        label = _names(names) if len(block.variants) > 1 else ""
        margin = _INDENT + (_HANG if label else 0)
        most = 1 if cut else None
        line = limited(sheet, f"{label}: {text}" if label else text, most, indent=_INDENT, hang=margin - _INDENT)
        line.stylize("dim", _INDENT, _INDENT + len(label))
        yield line
    if len(texts) > len(shown):
        more = count_text(len(texts) - len(shown), "more launch configuration")
        yield sheet.paragraph(f"… and {more}: -v shows more", "dim", _INDENT)


def _names(names: Sequence[str]) -> str:
    """Name variants that are alike: all of a few, else the first and how many more."""
    listed = " and ".join(names) if len(names) <= 2 else ", ".join(names)
    if len(names) > 1 and len(listed) > 2 * _VARIANT_WIDTH:
        return f"{names[0]} and {len(names) - 1} more"
    return listed


def _variant_name(variant: BlockVariant) -> str:
    return f"{variant.name}, {count_text(variant.launches, 'launch', 'es')}" if variant.launches else variant.name


def _facts(variant: BlockVariant, sheet: Sheet) -> Iterator[Text]:
    """Yield where a kernel is from, what it takes, its occupancy and its arguments."""
    kernel, resources = variant.kernel, variant.kernel.resources
    yield sheet.field("from", sheet.fitted(file_name(kernel.origin), 3 * sheet.width))
    parts = [takes_text(resources), *filter(None, [code_text(resources)])]
    if resources.stack_bytes and spills_text(resources.spills):
        parts.append(f"{bytes_text(resources.stack_bytes)} of stack")
    if resources.barriers:
        parts.append(count_text(resources.barriers, "barrier"))
    if resources.max_threads is not None:
        parts.append(f"launch bounds: {count_text(resources.max_threads, 'thread')} per block")
    yield sheet.field("takes", ", ".join(parts))
    spills = resources.spills
    if spills is not None and spills_text(spills):
        yield sheet.field("spills", spilled_text(spills))
    yield sheet.field("occupancy", list(_occupancy(kernel)))
    if kernel.arguments:
        shown = list(map(_argument, kernel.arguments[:_MOST_ARGUMENTS]))
        more = len(kernel.arguments) - len(shown)
        yield sheet.field("arguments", ", ".join([*shown, *([f"{more} more"] if more else [])]))


def _occupancy(kernel: ReviewedKernel) -> Iterator[str]:
    yield occupancy_text(kernel)
    if kernel.occupancy is not None:
        yield kernel.occupancy.sentence
        yield from [*dict.fromkeys(step.sentence for step in kernel.occupancy.steps)][1:]


def _argument(argument: KernelArgument) -> str:
    name = f"{argument.ordinal} {argument.name:.60}" if argument.name is not None else f"{argument.ordinal}"
    size = f" ({bytes_text(argument.size_bytes)})"
    if argument.value is not None:
        return f"{name} = {argument.value}"
    return ", ".join([f"{name}{size}", *(f"{part.name:.60} = {part.value}" for part in argument.parts)])


def _card(told: BlockFinding, sheet: Sheet) -> Iterator[Text]:
    """Yield a finding in full."""
    finding = told.finding
    yield from finding_lines(told, sheet, cut=False)
    yield sheet.field("why", finding.why)
    if finding.advice and without_stop(finding.advice) != without_stop(finding.action):
        yield sheet.field("how", finding.advice)
    evidence = list(evidence_texts(finding))
    if evidence:
        yield sheet.field("evidence", evidence)
    for text in _places(finding):
        yield sheet.field("where", text)
    yield sheet.field("sure", f"{sure_text(finding)}; rule {finding.rule}")


def _places(finding: Finding) -> Iterator[str]:
    """Yield the first place with its instruction, and where else it is."""
    if not finding.places:
        return
    first = finding.places[0]
    offset = f" at 0x{first.pc:x}" if first.pc is not None and first.file is not None else ""
    sass = f": {first.sass:.200}" if first.sass else ""
    more = more_places_text(finding)
    yield f"{place_text(first)}{offset}{sass}{f'; {more}' if more else ''}"
