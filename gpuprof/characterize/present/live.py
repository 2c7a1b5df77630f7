"""What is said on stderr while a GPU is measured: each result as it comes, and one line that tells how far it is.

Nothing here runs by itself: a thread that moves a spinner would take time from the host's side of the measurement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprof.characterize.measure.events import (
    Compiling,
    ConfigurationTaken,
    Event,
    Finished,
    Remark,
    Result,
    RunPlanned,
    Started,
)
from gpuprof.characterize.present.console_parts import Sheet
from gpuprof.characterize.present.row import head_line, live_columns, remark_lines, row_lines
from gpuprof.characterize.present.view import entry_of
from gpuprof.characterize.present.words import amount, is_outlier, is_worse, outside_text, reasons_text, verdict_word
from gpuprof.characterize.sheet.measured import Conditions, Measured, MeasuredDevice, plain_name
from gpuprof.characterize.sheet.normal import Assessment, assess
from gpuprof.units import format_si

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_CLEAR = "\r\x1b[K"
_MINUTE_S = 90.0
_NOWHERE = Measured("", MeasuredDevice("", "", 0), Conditions("", ""), values={})
"""Whether a value lies in its range does not hang on the GPU; why it does not is told by the sheet."""


@dataclass(slots=True)
class LiveLines:
    """Writes the events of a run to a console of stderr. Results stay; the line that tells how far it is goes.

    Call it with each event, and `close` it where a run ends without `Finished`.
    """

    console: Console
    seconds: float = 0.0
    headed: bool = False
    status: str = ""
    started: Started | None = None

    def __call__(self, event: Event) -> None:
        """Show an event."""
        sheet = Sheet.of(self.console)
        match event:
            case RunPlanned():
                self.seconds = event.seconds
            case Compiling():
                self._show(f"{event.done} of {event.total} kernels compiled", sheet)
            case Started():
                self.started = event
                self._show(started_text(event, self.seconds), sheet)
            case ConfigurationTaken() if self.started is not None:
                self._show(f"{started_text(self.started, self.seconds)}: {taken_text(event)}", sheet)
            case Result() | Remark():
                self._print(event, sheet)
            case Finished():
                self.close()

    def close(self) -> None:
        """Remove the line that tells how far it is."""
        if self.status:
            self.console.file.write(_CLEAR)
            self.console.file.flush()
            self.status = ""

    def _show(self, text: str, sheet: Sheet) -> None:
        """Put a line in the place of the one before, where somebody watches."""
        if not self.console.is_terminal:
            return
        self.close()
        self.status = _cut(sheet.legible(text), sheet)
        self.console.file.write(self.status)
        self.console.file.flush()

    def _print(self, event: Result | Remark, sheet: Sheet) -> None:
        """Print lines that stay; what shows how far it is moves below them."""
        status = self.status
        self.close()
        if isinstance(event, Result) and event.value.value is not None and not self.headed:
            self.headed = True
            self.console.print(head_line("", live_columns(sheet), sheet))
        for line in event_lines(event, sheet):
            self.console.print(line)
        if status:
            self._show(status, sheet)


def started_text(event: Started, seconds: float) -> str:
    """Write how far it is, by the seconds of the whole plan: "[12 of 64] about 3 min left, latency/l2-capacity"."""
    left = seconds * (event.total - event.number + 1) / event.total if event.total else 0.0
    return f"[{event.number} of {event.total}] {f'about {_duration(left)} left, ' if left else ''}{event.probe}"


def taken_text(event: ConfigurationTaken) -> str:
    """Write what was just timed."""
    value = f" {amount(event.value, event.unit)}" if event.value is not None else ""
    return f"{event.configuration}{value}"


def _cut(text: str, sheet: Sheet) -> str:
    """Return what fits into one line."""
    room = sheet.width - 1
    more = sheet.legible("…")
    return text if len(text) <= room else text[: room - len(more)] + more


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= _MINUTE_S else format_si(max(1.0, round(seconds)), "s", 2)


def event_lines(event: Result | Remark, sheet: Sheet) -> Iterator[Text]:
    """Yield what stays of an event: a result in the columns of the sheet, with what is unusual below it."""
    if isinstance(event, Remark):
        about = f"{event.probe}: " if event.probe is not None else ""
        yield sheet.paragraph(f"{about}{event.text}", "yellow", indent=2)
        return
    if event.value.value is None:
        text = f"{event.name}: {verdict_word(event.value)}: {reasons_text(event.value)}"
        yield sheet.paragraph(text, "dim", indent=2)
        return
    entry = entry_of(event.name, event.value, _assessed(event), {})
    yield from row_lines(entry, event.name, live_columns(sheet), sheet)
    yield from remark_lines(entry, sheet, ("rejected",))
    if is_outlier(entry.assessment):
        style = "yellow" if is_worse(entry.assessment) else "cyan"
        yield sheet.paragraph(outside_text(entry.assessment), style, indent=4)
    yield from remark_lines(entry, sheet, ("throttled",))


def _assessed(event: Result) -> Assessment:
    published = {event.name: event.expected} if event.expected is not None else {}
    alone = replace(_NOWHERE, values={event.name: event.value})
    assessment = assess(alone, published)[0]
    # Another way to measure the same ceiling may come that is faster: only the sheet knows them all.
    several = event.value.ceiling is not None and plain_name(event.name) != event.name
    return assess(alone, {})[0] if several and assessment.word == "low" else assessment
