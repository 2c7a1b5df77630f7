"""Findings in the terminal: what to fix first over all kernels, and the findings of one kernel in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprof.diagnose.priorities import Priority, fix_first
from gpuprof.model.session import Finding, KernelProfile, Session
from gpuprof.present.console_parts import SEVERITY_STYLES, Sheet
from gpuprof.present.finding_text import (
    CONFIDENCE_WORDS,
    at_most,
    evidence_texts,
    fix_first_note,
    found_in,
    gain_text,
    location_text,
)
from gpuprof.present.source_names import in_source

if TYPE_CHECKING:
    from rich.text import Text

_BAR_WIDTH = 10
_GAIN_WIDTH = 9
_INDENT = 2
_BRIEF = ("low", "info")
_TEXT_COLUMN = _INDENT + _BAR_WIDTH + _GAIN_WIDTH + 2


def fix_first_lines(session: Session, sheet: Sheet) -> Iterator[Text]:
    """Yield the list of what to repair first, nothing where the ranking is empty."""
    from rich.text import Text

    first = fix_first(session)
    if not first:
        return
    heading = Text("Fix first", style="bold")
    heading.append(f"  {fix_first_note(first)}", style="not bold dim")
    yield heading
    for item in first:
        yield _priority(item, sheet, session)
    yield Text("")


def _priority(item: Priority, sheet: Sheet, session: Session) -> Text:
    """The gain as a bar and a number, the headline, and below it the kernel, the rule and how sure it is."""
    from rich.text import Text

    finding = item.finding
    line = Text(" " * _INDENT, overflow="fold")
    line.append(sheet.bar(item.gain or 0.0, _BAR_WIDTH), SEVERITY_STYLES[finding.severity])
    line.append(f"{sheet.legible(at_most(item.gain)).rjust(_GAIN_WIDTH)}  ", "bold")
    margin = f"\n{' ' * _TEXT_COLUMN}"
    line.append(margin.join(sheet.wrapped(finding.headline, _TEXT_COLUMN)))
    name = f"#{item.kernel.id} {item.kernel.label}{in_source(session, item.kernel)}"
    about = ", ".join(part for part in (name, found_in(item, session), finding.rule, finding.confidence) if part)
    line.append(margin + margin.join(sheet.wrapped(about, _TEXT_COLUMN)), "dim")
    return line


def finding_lines(kernel: KernelProfile, sheet: Sheet, *, whole: bool) -> Iterator[Text]:
    """Yield the findings of a kernel; unless `whole`, those with little to gain only by their headline."""
    from rich.text import Text

    brief = () if whole else _BRIEF
    for finding in kernel.findings:
        if finding.severity not in brief:
            yield Text("")
            yield from _card(finding, sheet)
    also = [_brief(finding) for finding in kernel.findings if finding.severity in brief]
    if also:
        yield Text("")
        yield sheet.field("also", also)


def _brief(finding: Finding) -> str:
    return finding.headline if finding.severity == "info" else f"{finding.headline} ({gain_text(finding)})"


def _card(finding: Finding, sheet: Sheet) -> Iterator[Text]:
    yield sheet.field(finding.severity, finding.headline, "bold", SEVERITY_STYLES[finding.severity])
    yield sheet.field("gain", gain_text(finding))
    yield sheet.field("why", finding.why)
    yield sheet.field("evidence", evidence_texts(finding))
    where = location_text(finding.location)
    if where:
        yield sheet.field("where", where)
    yield sheet.field("do", finding.advice)
    yield sheet.field("sure", f"{CONFIDENCE_WORDS[finding.confidence]}; rule {finding.rule}")
