"""The lines of code at the end of an explanation: where a finding is, and where most warps wait for a reason."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.model.session import CodeLine, Excerpt, KernelProfile, Location
from gpuprof.units import format_percent
from gpuprof.words.explain_node import ExplanationNode, percent_node

_LEAST_LINE = 0.01
_CODE_SHOWN = 60

SourceLine = tuple[str | None, int]
"""File and line, or no file and the address of an instruction."""


def location_node(kernel: KernelProfile, location: Location | None) -> Iterator[ExplanationNode]:
    """Yield the place of a finding with its share of the finding and of all samples; nothing if no place is known."""
    places = places_of(location)
    if location is None or not places:
        return
    share = 100 * location.share if location.share is not None else None
    line, excerpt = next(((line, excerpt) for at, line, excerpt in _lines(kernel) if at == places[0]), (None, None))
    weight = f"{format_percent(line.share)} of all {excerpt.weight}" if line is not None and excerpt is not None else ""
    detail = ", ".join(part for part in ("of the finding" if share is not None else "", weight) if part)
    code = line.text if line is not None else location.sass or ""
    yield ExplanationNode("line", _line_text(places[0], code), share, unit="%", detail=detail)


def places_of(location: Location | None) -> list[SourceLine]:
    """Return what identifies a place in the code: file and line, and the address."""
    if location is None:
        return []
    line = [(location.file, location.line)] if location.file is not None and location.line is not None else []
    return [*line, *([(None, location.pc)] if location.pc is not None else [])]


def hottest_line(kernel: KernelProfile, reason: str) -> Iterator[tuple[SourceLine, ExplanationNode]]:
    """Yield the line with most samples of a reason: its source if the report has it, else its instruction."""
    weighed = [
        (line.share * stall.share, stall.share, place, line)
        for place, line, excerpt in _lines(kernel)
        if excerpt.weight == "samples"
        for stall in line.stalls
        if stall.reason == reason
    ]
    from_source = [entry for entry in weighed if entry[2][0] is not None] or weighed
    weight, part, place, line = max(from_source, key=lambda entry: entry[0], default=(0.0, 0.0, (None, 0), None))
    if line is not None and weight >= _LEAST_LINE:
        detail = f"of all samples, {format_percent(part)} of them for this reason"
        yield place, percent_node("line", _line_text(place, line.text), line.share, detail)


def _lines(kernel: KernelProfile) -> Iterator[tuple[SourceLine, CodeLine, Excerpt]]:
    for excerpt in kernel.excerpts:
        for line in excerpt.lines:
            if excerpt.language == "source" and excerpt.file is not None and line.number is not None:
                yield (excerpt.file, line.number), line, excerpt
            elif line.pc is not None:
                yield (None, line.pc), line, excerpt


def _line_text(place: SourceLine, code: str) -> str:
    file, number = place
    place_name = f"{file.replace(chr(92), '/').rpartition('/')[2]}:{number}" if file is not None else f"0x{number:x}"
    code = code.strip()
    return f"{place_name}  {code[:_CODE_SHOWN]}{'…' if len(code) > _CODE_SHOWN else ''}".rstrip()


def missing_lines(kernel: KernelProfile, *, from_text: bool) -> Iterator[ExplanationNode]:
    """Say how to get source lines if the profile has none."""
    if from_text:
        yield ExplanationNode("left-out", "source lines", detail="it has no code; the .ncu-rep may have it")
    elif not kernel.excerpts:
        how = "compile with -lineinfo, collect with ncu --section SourceCounters --import-source yes"
        yield ExplanationNode("missing", "source lines", detail=how)
    elif all(excerpt.language != "source" for excerpt in kernel.excerpts) and not _knows_lines(kernel):
        how = "compile with -lineinfo, collect with ncu --import-source yes; the SASS is there"
        yield ExplanationNode("missing", "source lines", detail=how)


def _knows_lines(kernel: KernelProfile) -> bool:
    """Return whether a finding names a line of source, which is known even if the report lacks its text."""
    return any(finding.place is not None and finding.place.line is not None for finding in kernel.findings)
