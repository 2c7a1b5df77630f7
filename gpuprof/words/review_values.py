"""Values of compiled code as text: sizes, spills, places, loops, and how sure a finding is."""

from __future__ import annotations

from gpuprof.model.session import Finding, Location
from gpuprof.text import cut_middle
from gpuprof.units import format_binary
from gpuprof.words.file_names import file_name
from gpuprof.words.sentences import joined_by

NOT_KNOWN = "not known"
_SASS_LENGTH = 160
_LARGE = 1024


def bytes_text(size: int | None) -> str:
    """Write a number of bytes: "1008 B", "4.12 KiB"."""
    if size is None:
        return NOT_KNOWN
    return f"{size} B" if abs(size) < _LARGE else format_binary(size)


def shared_text(static: int | None, dynamic: int | None) -> str:
    """Write the shared memory of a block: "28 KiB (24 KiB dynamic)"."""
    if static is None:
        return NOT_KNOWN if not dynamic else f"{bytes_text(dynamic)} dynamic, static {NOT_KNOWN}"
    if not dynamic:
        return bytes_text(static)
    text = f"{bytes_text(dynamic)} dynamic"
    return f"{bytes_text(static + dynamic)} ({text})" if static else text


def loops_text(depth: int) -> str:
    """Write how deep in loops something is; empty if it is in none."""
    if depth <= 0:
        return ""
    return "in a loop" if depth == 1 else f"in {depth} nested loops"


def code_place(place: Location | None) -> str:
    """Write the place of an instruction: "transpose.cu:12"; without line information "at 0x120"."""
    if place is None:
        return ""
    if place.file is not None:
        return joined_by(":", file_name(place.file), str(place.line or ""))
    return f"at 0x{place.pc:x}" if place.pc is not None else ""


def instruction_text(place: Location, number: int) -> str:
    """Write instructions that are alike with their place: "transpose.cu:12 at 0x120: LDS R7, [R14] ×4"."""
    offset = f"at 0x{place.pc:x}" if place.pc is not None and place.file is not None else ""
    sass = cut_middle((place.sass or "")[: 8 * _SASS_LENGTH], _SASS_LENGTH)
    text = joined_by(": ", joined_by(" ", code_place(place), offset), sass)
    return f"{text} ×{number}" if number > 1 else text


def code_certainty(finding: Finding) -> str:
    """Write how sure a finding on compiled code is."""
    return "a guess" if finding.confidence == "guess" else "shown by the code"
