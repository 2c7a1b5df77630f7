"""Source and SASS on the page: the lines of an excerpt with their heat, their stalls, and a place to link to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpuprof.model.session import CodeLine, Excerpt, KernelProfile
from gpuprof.model.stalls import stall_name
from gpuprof.units import format_percent
from gpuprof.views.document import anchor
from gpuprof.views.warp_states import stall_colour
from gpuprof.words.file_names import file_name

_TAB = 4
_ALONE = "Hot lines; the report has no source text"


class LineStall(Struct, frozen=True):
    """A stall reason of a line: its name with its share of the line's samples, and its colour."""

    text: str
    colour: str


class CodeRow(Struct, frozen=True):
    """A line of code. `heat` is 0 to 1, relative to the hottest line of the kernel's excerpts.

    `number` names the file too where the text is missing.
    """

    id: str
    number: str
    text: str
    share: str
    heat: str
    stalls: tuple[LineStall, ...]


class CodeTable(Struct, frozen=True):
    """An excerpt: what it is of, what its heat counts, and its lines, which can be without text."""

    title: str
    weight: str
    number_title: str
    has_text: bool
    lines: tuple[CodeRow, ...]


def code_tables(kernel: KernelProfile) -> Iterator[CodeTable]:
    """Yield a kernel's excerpts; lines without text share a table, hottest first."""
    hottest = max((line.share for excerpt in kernel.excerpts for line in excerpt.lines), default=0.0)
    alone: list[tuple[float, CodeRow]] = []
    for index, excerpt in enumerate(kernel.excerpts):
        if not excerpt.has_text:
            file = f"{_file(excerpt)}:" if excerpt.file else ""
            for line in excerpt.lines:
                place = _line_id(kernel.id, index, line)
                alone.append((line.share, _line(place, line, "", hottest, before=file)))
            continue
        texts = _dedented([line.text.expandtabs(_TAB) for line in excerpt.lines])
        lines = tuple(
            _line(_line_id(kernel.id, index, line), line, text, hottest)
            for line, text in zip(excerpt.lines, texts, strict=True)
        )
        number_title = "Address" if excerpt.language == "sass" else "Line"
        yield CodeTable(_title(excerpt), excerpt.weight, number_title, has_text=True, lines=lines)
    if alone:
        alone.sort(key=lambda entry: -entry[0])
        hottest_first = tuple(line for _, line in alone)
        yield CodeTable(_ALONE, kernel.excerpts[0].weight, "Line", has_text=False, lines=hottest_first)


def code_places(kernel: KernelProfile) -> Mapping[tuple[str | None, int], str]:
    """Return the id of each line of the excerpts: source by file and number, SASS by no file and address."""
    places: dict[tuple[str | None, int], str] = {}
    for index, excerpt in enumerate(kernel.excerpts):
        for line in excerpt.lines:
            if excerpt.language == "source" and line.number is not None:
                places.setdefault((excerpt.file, line.number), _line_id(kernel.id, index, line))
            elif line.pc is not None:
                places.setdefault((None, line.pc), _line_id(kernel.id, index, line))
    return places


def _line_id(kernel: int, excerpt: int, line: CodeLine) -> str:
    place = line.pc if line.pc is not None else line.number
    return anchor("line", kernel, excerpt, place if place is not None else "x")


def _file(excerpt: Excerpt) -> str:
    return file_name(excerpt.file) if excerpt.file else ""


def _title(excerpt: Excerpt) -> str:
    file = _file(excerpt)
    if excerpt.language == "source":
        return f"Source, {file}" if file else "Source"
    return f"SASS, from {file}" if file else "SASS"


def _line(place: str, line: CodeLine, text: str, hottest: float, before: str = "") -> CodeRow:
    number = f"{line.pc:#x}" if line.pc is not None else str(line.number) if line.number is not None else ""
    return CodeRow(
        id=place,
        number=before + number,
        text=text,
        share=format_percent(line.share) if line.share > 0 else "",
        heat=f"{line.share / hottest:.2f}" if hottest > 0 else "0",
        stalls=tuple(
            LineStall(f"{stall_name(stall.reason)} {format_percent(stall.share)}", stall_colour(stall.reason))
            for stall in line.stalls
        ),
    )


def _dedented(lines: list[str]) -> list[str]:
    """Drop the indentation that all lines share."""
    common = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
    return [line[common:] for line in lines]
