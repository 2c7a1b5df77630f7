"""The source lines that a changed kernel can be reported at, the most telling first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.comparison.contract import FindingChange, KernelChange
from gpuprof.comparison.pair import Pair
from gpuprof.model.session import KernelProfile
from gpuprof.present.compare_paths import Place, place_of

_PROFILES = 50
"""Launches of a kernel whose files are looked through: all have the same code."""


def candidates(kernel: KernelChange, pair: Pair) -> Iterator[Place]:
    """Yield places of a kernel on the new side, files as its report names them.

    The line of what makes it slower, the lines that do more than before, those of other causes and of findings that
    came, and last its hottest line. A comparison names a file without its folders; the report has them.
    """
    profiles = _profiles(pair)
    files = _files(profiles)
    yield from _told([cause.location for cause in kernel.causes if cause.direction == "slower"], files)
    for line in kernel.lines:
        if line.new_line is not None and (line.new or 0.0) > (line.base or 0.0):
            yield from _whole(Place(line.file, line.new_line), files)
    yield from _told([cause.location for cause in kernel.causes if cause.direction != "slower"], files)
    yield from _told([change.location for change in kernel.findings if change.word == "came"], files)
    for profile in profiles[:1]:
        yield from _hottest(profile)


def finding_candidates(pair: Pair, change: FindingChange, place: Place | None) -> Iterator[Place]:
    """Yield the place of a finding that came: what the report has of it, else what the comparison says."""
    if place is not None:
        yield place
    else:
        yield from _told([change.location], _files(_profiles(pair)))


def _profiles(pair: Pair) -> list[KernelProfile]:
    return [profile for side in pair.new for profile in (side.speaker, *side.profiles[:_PROFILES])]


def _told(locations: Sequence[str], files: Sequence[str]) -> Iterator[Place]:
    for location in locations:
        place = place_of(location)
        if place is not None:
            yield from _whole(place, files)


def _whole(place: Place, files: Sequence[str]) -> Iterator[Place]:
    """Yield a place with the folders of its file, where the name alone is told and one file of the report has it."""
    if _name(place.file) != place.file:
        yield place
        return
    fitting = [file for file in files if _name(file) == place.file and file != place.file]
    if len(fitting) < 2:
        yield Place(fitting[0], place.line) if fitting else place


def _files(profiles: Sequence[KernelProfile]) -> tuple[str, ...]:
    """Return the source files that the report of a kernel names."""
    files: dict[str, None] = {}
    for profile in profiles:
        files.update(dict.fromkeys(line.file for line in profile.lines))
        files.update(dict.fromkeys(excerpt.file for excerpt in profile.excerpts if excerpt.file))
        places = (finding.location for finding in profile.findings)
        files.update(dict.fromkeys(place.file for place in places if place is not None and place.file))
    return tuple(files)


def _hottest(profile: KernelProfile) -> Iterator[Place]:
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
        yield Place(file, number)
    elif profile.lines:
        most = max(profile.lines, key=lambda line: (line.samples or 0.0, line.instructions or 0.0))
        yield Place(most.file, most.number)


def _name(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]
