"""A recording in the terminal: what it is, its verdict and table, each kernel in a few lines, and what repairs gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.diagnose.repairs import Repair
from gpuprof.model.session import KernelProfile, Session
from gpuprof.present.console import print_blocks
from gpuprof.present.console_findings import fix_first_lines, verdict_lines
from gpuprof.present.console_kernel import brief_lines
from gpuprof.present.console_parts import Sheet
from gpuprof.present.console_table import table_parts
from gpuprof.present.finding_text import short_gain
from gpuprof.present.session_text import duration_text
from gpuprof.recordings import Recording
from gpuprof.units import format_percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_MOST_KERNELS = 5


def print_recording(
    console: Console, place: str, recording: Recording, session: Session, kernels: list[KernelProfile],
    repairs: Iterable[Repair], *, fix_first: bool,
) -> None:  # fmt: skip
    """Print one of several recordings; `place` says which: "Recording 1 of 3".

    The kernels come in the order of the table. `fix_first` adds the list over all of them.
    """
    blocks = (
        *_head(place, recording, session, sheet := Sheet.of(console)),
        *(fix_first_lines(session, sheet) if fix_first else ()),
        *table_parts(session, kernels, [], console),
        *_kernels(kernels, sheet),
        *_repairs(repairs, sheet),
        *_lacking(kernels, sheet),
        sheet.paragraph(""),
    )
    print_blocks(console, blocks)


def _head(place: str, recording: Recording, session: Session, sheet: Sheet) -> Iterator[Text]:
    yield sheet.paragraph(f"{place}: {recording.title}", "bold underline")
    yield sheet.paragraph(f"{recording.about} {origin_text(recording, session)}", "dim")
    yield sheet.paragraph("")
    yield from verdict_lines(session, sheet)
    yield sheet.paragraph("")


def _kernels(kernels: Sequence[KernelProfile], sheet: Sheet) -> Iterator[Text]:
    for kernel in kernels[:_MOST_KERNELS]:
        yield sheet.paragraph("")
        yield from brief_lines(kernel, sheet)


def _repairs(repairs: Iterable[Repair], sheet: Sheet) -> Iterator[Text]:
    steps = [repair_text(repair) for repair in repairs]
    if steps:
        yield sheet.paragraph("")
        yield sheet.paragraph("What the repairs gave", "bold")
    for text in steps:
        yield sheet.paragraph(text, indent=3)


def _lacking(kernels: Sequence[KernelProfile], sheet: Sheet) -> Iterator[Text]:
    if lacks := lacking(kernels):
        yield sheet.paragraph("")
        yield sheet.paragraph(lacks, "dim")


def origin_text(recording: Recording, session: Session) -> str:
    """Say on which GPU and by whom it was recorded."""
    where = " and ".join(device.name or "a GPU of unknown name" for device in session.devices)
    if recording.origin is None:
        return f"Recorded on {where} by this project: {recording.command}"
    return f"Recorded on {where} by others: {recording.origin.repository} ({recording.origin.licence})."


def repair_text(repair: Repair) -> str:
    """Say what a finding promised, and what the repair gave."""
    before, after = repair.before, repair.after
    bound = short_gain(repair.finding.gain_kernel, repair.finding.gain_kind)
    held = "" if repair.within_bound else ", more than the bound"
    saved = f"saved {format_percent(repair.saved)}" if repair.saved >= 0 else f"cost {format_percent(-repair.saved)}"
    return (
        f"{before.label} → {after.label}: {repair.finding.rule} said {bound}, the repair {saved}{held}: "
        f"{duration_text(before.duration_s)} → {duration_text(after.duration_s)}"
    )


def lacking(shown: Sequence[KernelProfile]) -> str:
    """Say which of rooflines, stalls and lines of code the recording has for no kernel; empty where it has all."""
    parts = {
        "rooflines": any(kernel.roofline for kernel in shown),
        "warp states": any(kernel.stalls for kernel in shown),
        "lines of code": any(kernel.excerpts for kernel in shown),
    }
    without = [name for name, there in parts.items() if not there]
    if not without:
        return ""
    *others, last = without
    names = f"{', '.join(others)} or {last}" if others else last
    return f"This recording has no {names}: it lacks what they are made from."
