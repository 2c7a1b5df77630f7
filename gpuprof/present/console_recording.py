"""A recording in the terminal: as a story of slow kernels and their fixes, or in two lines; and what to type next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from gpuprof.comparison.compare import Compared
from gpuprof.model.session import Session
from gpuprof.model.version_pairs import version_pairs, what_to_fix
from gpuprof.present.console_parts import Sheet, print_blocks
from gpuprof.recordings import Recording
from gpuprof.words.recommendations import headline_text, recommendation_texts
from gpuprof.words.versions import action_text, outcome_text, saved_text, slow_text, why_texts

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_INDENT = 3
_CHAPTER_WIDTH = 6
_NEXT_WIDTH = 20


def print_story(console: Console, recording: Recording, session: Session) -> None:
    """Print each kernel with its fix, and what all of them gave; the kernels come in the order of the fixes."""
    print_blocks(console, _story(recording, session, Sheet.of(console)))


def _story(recording: Recording, session: Session, sheet: Sheet) -> Iterator[Text]:
    yield sheet.paragraph(f"{recording.title} ({origin_text(recording, session)})", "bold")
    for pair in version_pairs(session.kernels):
        yield sheet.paragraph("")
        yield _chapter("slow", [slow_text(pair.before, session)], sheet, "bold red")
        yield _chapter("why", why_texts(pair.finding), sheet, "bold yellow")
        yield _chapter("fix", [action_text(pair.finding)], sheet, "bold cyan")
        yield _chapter("gain", [saved_text(pair)], sheet, "bold green")
    yield sheet.paragraph("")
    yield sheet.paragraph(outcome_text(session.kernels), "bold")
    rest = what_to_fix(session.kernels[-1])
    if rest is not None:
        yield sheet.paragraph(f"→ {action_text(rest)}", indent=_INDENT)


def _chapter(label: str, texts: Iterable[str], sheet: Sheet, style: str) -> Text:
    """A label and, beside it, texts that begin a line each."""
    from rich.text import Text

    lines = [line for text in texts for line in sheet.wrapped(text, _CHAPTER_WIDTH)]
    chapter = Text(label.ljust(_CHAPTER_WIDTH), style, overflow="fold")
    return chapter.append(f"\n{' ' * _CHAPTER_WIDTH}".join(lines), "not bold default")


def print_others(console: Console, others: Iterable[tuple[Recording, Session, PurePath]]) -> None:
    """Print each other recording in two lines: its page, and what to fix first."""
    print_blocks(console, _others(others, Sheet.of(console)))


def _others(others: Iterable[tuple[Recording, Session, PurePath]], sheet: Sheet) -> Iterator[Text]:
    told = list(others)
    if not told:
        return
    drawn = all(any(kernel.roofline for kernel in session.kernels) for _, session, _ in told)
    yield sheet.paragraph("")
    heading = f"More recordings{', with rooflines' if drawn else ''}: open their pages in a browser"
    yield sheet.paragraph(heading, "bold")
    for recording, session, page in told:
        yield sheet.paragraph(f"{page}: {recording.title}", indent=_INDENT)
        yield sheet.paragraph(_first_fix(session), "dim", indent=2 * _INDENT)


def _first_fix(session: Session) -> str:
    first = next(iter(recommendation_texts(session)), None)
    return f"{first.gain}  {first.headline}" if first is not None else headline_text(session)


def print_versions(console: Console, compared: Compared, page: PurePath) -> None:
    """Print in two lines what the first fix gave as a comparison has it, and where its page is."""
    print_blocks(console, _versions(compared, page, Sheet.of(console)))


def _versions(compared: Compared, page: PurePath, sheet: Sheet) -> Iterator[Text]:
    yield sheet.paragraph("")
    yield sheet.paragraph(f"The first fix, compared: {page}", "bold")
    for change in compared.comparison.kernels[:1]:
        yield sheet.paragraph(change.sentence, "dim", indent=_INDENT)


def print_next(console: Console, compare: str, show: str) -> None:
    """Print what to type with a program, a report or two of one's own; both commands given are for the recording."""
    print_blocks(console, _next(compare, show, Sheet.of(console)))


def _next(compare: str, show: str, sheet: Sheet) -> Iterator[RenderableType]:
    yield sheet.paragraph("")
    yield sheet.paragraph("Next", "bold")
    commands = (
        ("with a GPU and ncu", "gpuprof run -- ./app"),
        ("with a report", "gpuprof show YOUR.ncu-rep"),
        ("with two reports", "gpuprof compare BASE.ncu-rep NEW.ncu-rep"),
        ("the versions above", compare),
        ("the kernels above", show),
    )
    for label, command in commands:
        yield _command(label, command, sheet)


def _command(label: str, command: str, sheet: Sheet) -> RenderableType:
    """A command to be copied, which is never broken."""
    from rich.console import Group
    from rich.text import Text

    line = Text(" " * _INDENT + label.ljust(_NEXT_WIDTH), no_wrap=True, overflow="ignore")
    # A text that is printed by itself loses how it is to be laid out.
    return Group(line.append(sheet.legible(command), "cyan"))


def origin_text(recording: Recording, session: Session) -> str:
    """Say on which GPU it was recorded, and by whom with which licence."""
    where = " and ".join(device.name or "a GPU of unknown name" for device in session.devices)
    origin = recording.origin
    return f"{where}, {origin.repository}, {origin.licence}" if origin is not None else f"{where}, by this project"
