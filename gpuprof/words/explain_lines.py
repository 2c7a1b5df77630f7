"""The lines of code in an explanation: of findings, and those at which most warps wait."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.model.session import CodeLine, Excerpt, KernelProfile, Location
from gpuprof.units import format_percent
from gpuprof.words.explain_node import ExplanationNode, percent_node

_LEAST_WEIGHT = 0.01
"""Minimum share of all samples, at one line for one reason, to show the line."""
_CODE_SHOWN = 60

SourceLine = tuple[str | None, int]
"""File and line, or no file and the address of an instruction."""


def location_node(kernel: KernelProfile, location: Location | None) -> Iterator[ExplanationNode]:
    """Yield the place of a finding, if known, with its share of the finding and of all samples."""
    places = places_of(location)
    if location is None or not places:
        return
    share = None
    details = []
    if location.share is not None:
        share = 100 * location.share
        details.append("of the finding")
    code = location.sass or ""
    for place, line, excerpt in _lines(kernel):
        if place == places[0]:
            code = line.text
            details.append(f"{format_percent(line.share)} of all {excerpt.weight}")
            break
    text = _line_text(places[0], code)
    yield ExplanationNode("line", text, share, unit="%", detail=", ".join(details))


def places_of(location: Location | None) -> list[SourceLine]:
    """Return what identifies a place in the code: file and line, and the address."""
    places: list[SourceLine] = []
    if location is None:
        return places
    if location.file is not None and location.line is not None:
        places.append((location.file, location.line))
    if location.pc is not None:
        places.append((None, location.pc))
    return places


def hottest_line(
    kernel: KernelProfile,
    reason: str,
) -> Iterator[tuple[SourceLine, ExplanationNode]]:
    """Yield the line of source with most samples of a reason; without source, the instruction."""
    weighed = []
    for place, line, excerpt in _lines(kernel):
        for stall in line.stalls:
            if excerpt.weight == "samples" and stall.reason == reason:
                weighed.append((line.share * stall.share, stall.share, place, line))
    from_source = [entry for entry in weighed if entry[2][0] is not None]
    hottest = max(from_source or weighed, key=lambda entry: entry[0], default=None)
    if hottest is not None and hottest[0] >= _LEAST_WEIGHT:
        _, part, place, line = hottest
        detail = f"of all samples, {format_percent(part)} of them for this reason"
        yield place, percent_node("line", _line_text(place, line.text), line.share, detail)


def _lines(kernel: KernelProfile) -> Iterator[tuple[SourceLine, CodeLine, Excerpt]]:
    for excerpt in kernel.excerpts:
        file = excerpt.file if excerpt.language == "source" else None
        for line in excerpt.lines:
            if file is not None and line.number is not None:
                yield (file, line.number), line, excerpt
            elif line.pc is not None:
                yield (None, line.pc), line, excerpt


def _line_text(place: SourceLine, code: str) -> str:
    """Write a place and its code: "gather.cu:41  sum += in[i];"."""
    file, number = place
    name = f"0x{number:x}"
    if file is not None:
        name = f"{file.replace(chr(92), '/').rpartition('/')[2]}:{number}"
    code = code.strip()
    if len(code) > _CODE_SHOWN:
        code = f"{code[:_CODE_SHOWN]}…"
    return f"{name}  {code}".rstrip()


def missing_lines(kernel: KernelProfile, *, from_text: bool) -> Iterator[ExplanationNode]:
    """Yield how to get source lines if the profile has none."""
    if from_text:
        detail = "it has no code; the .ncu-rep may have it"
        yield ExplanationNode("left-out", "source lines", detail=detail)
    elif not kernel.excerpts:
        options = "--section SourceCounters --import-source yes"
        yield _missing_lines(f"collect with ncu {options}")
    elif not _knows_lines(kernel):
        yield _missing_lines("collect with ncu --import-source yes; the SASS is there")


def _missing_lines(collect: str) -> ExplanationNode:
    return ExplanationNode("missing", "source lines", detail=f"compile with -lineinfo, {collect}")


def _knows_lines(kernel: KernelProfile) -> bool:
    """Return whether an excerpt has source, or a finding a line of source that the report lacks."""
    if any(excerpt.language == "source" for excerpt in kernel.excerpts):
        return True
    places = [finding.place for finding in kernel.findings]
    return any(place is not None and place.line is not None for place in places)
