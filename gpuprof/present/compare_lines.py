"""The source lines that a changed kernel can be reported at, the most telling first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuprof.comparison.contract import FindingChange, KernelChange, SourceLine
from gpuprof.comparison.pair import Pair
from gpuprof.model.session import KernelProfile
from gpuprof.present.compare_options import CompareOptions
from gpuprof.present.file_names import file_name
from gpuprof.privacy.source_files import path_in_repository

_LAST_LINE = 2**31 - 1
"""The largest line number that readers of the formats accept: a signed 32-bit integer."""
_PROFILES = 50
"""Launches of a kernel whose files are looked through: all have the same code."""


def candidates(kernel: KernelChange, pair: Pair) -> Iterator[SourceLine]:
    """Yield places of a kernel on the new side, files as its report names them.

    The line of what makes it slower, the lines that do more than before, those of other causes and of findings that
    came, and last its hottest line. A comparison names a file without its folders; the report has them.
    """
    profiles = _profiles(pair)
    files = _files(profiles)
    yield from _known([cause.location for cause in kernel.causes if cause.direction == "slower"], files)
    for line in kernel.lines:
        if line.new_line is not None and (line.new or 0.0) > (line.base or 0.0):
            yield from _whole(SourceLine(line.file, line.new_line), files)
    yield from _known([cause.location for cause in kernel.causes if cause.direction != "slower"], files)
    yield from _known([change.location for change in kernel.findings if change.word == "came"], files)
    for profile in profiles[:1]:
        yield from _hottest(profile)


def place_in_repository(place: SourceLine, options: CompareOptions) -> SourceLine | None:
    """Return a place with the path of its file in the repository; None if it is outside, or not known."""
    path = path_in_repository(place.file, options.root, options.path_maps)
    return SourceLine(path, place.line) if path is not None and 1 <= place.line <= _LAST_LINE else None


def finding_candidates(pair: Pair, change: FindingChange, place: SourceLine | None) -> Iterator[SourceLine]:
    """Yield the place of a finding that came: what the report has of it, else what the comparison says."""
    if place is not None:
        yield place
    else:
        yield from _known([change.location], _files(_profiles(pair)))


def _profiles(pair: Pair) -> list[KernelProfile]:
    return [profile for side in pair.new for profile in (side.representative, *side.profiles[:_PROFILES])]


def _known(lines: Iterable[SourceLine | None], files: Sequence[str]) -> Iterator[SourceLine]:
    for line in lines:
        if line is not None:
            yield from _whole(line, files)


def _whole(place: SourceLine, files: Sequence[str]) -> Iterator[SourceLine]:
    """Yield a place with the folders of its file, if only the name is given and one file of the report has it."""
    if file_name(place.file) != place.file:
        yield place
        return
    fitting = [file for file in files if file_name(file) == place.file and file != place.file]
    if len(fitting) < 2:
        yield SourceLine(fitting[0], place.line) if fitting else place


def _files(profiles: Sequence[KernelProfile]) -> tuple[str, ...]:
    """Return the source files that the report of a kernel names."""
    files: dict[str, None] = {}
    for profile in profiles:
        files.update(dict.fromkeys(line.file for line in profile.lines))
        files.update(dict.fromkeys(excerpt.file for excerpt in profile.excerpts if excerpt.file))
        places = (finding.place for finding in profile.findings)
        files.update(dict.fromkeys(place.file for place in places if place is not None and place.file))
    return tuple(files)


def _hottest(profile: KernelProfile) -> Iterator[SourceLine]:
    """Yield the source line of a kernel with most weight."""
    hot = [
        (line.share, excerpt.file, line.number)
        for excerpt in profile.excerpts
        if excerpt.language == "source" and excerpt.file
        for line in excerpt.lines
        if line.number is not None
    ]
    if hot:
        _, file, number = max(hot, key=lambda place: place[0])
        yield SourceLine(file, number)
    elif profile.lines:
        most = max(profile.lines, key=lambda line: (line.samples or 0.0, line.instructions or 0.0))
        yield SourceLine(most.file, most.number)
