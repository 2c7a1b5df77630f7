"""Values of compiled code as text: sizes, spills, places, loops, and how sure a finding is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuprof.model.session import Finding, Location
from gpuprof.text import cut_middle
from gpuprof.units import counted, format_binary, significant
from gpuprof.words.file_names import file_name
from gpuprof.words.sentences import joined_by, short_list

NOT_KNOWN = "not known"
_SASS_LENGTH = 160
_NAME_LENGTH = 60
_MOST_NAMES = 4
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


def code_place(file: str | None, line: int | None, offset: int | None) -> str:
    """Write the place of an instruction: "transpose.cu:12"; without line information "at 0x120"; empty if unknown."""
    if file is not None:
        return joined_by(":", file_name(file), str(line or ""))
    return f"at 0x{offset:x}" if offset is not None else ""


def instruction_text(place: Location, number: int) -> str:
    """Write instructions that are alike with their place: "transpose.cu:12 at 0x120: LDS R7, [R14] ×4"."""
    offset = f"at 0x{place.pc:x}" if place.pc is not None and place.file is not None else ""
    sass = cut_middle((place.sass or "")[: 8 * _SASS_LENGTH], _SASS_LENGTH)
    text = joined_by(": ", joined_by(" ", code_place(place.file, place.line, place.pc), offset), sass)
    return f"{text} ×{number}" if number > 1 else text


def code_certainty(finding: Finding) -> str:
    """Write how sure a finding on compiled code is."""
    return "a guess" if finding.confidence == "guess" else "shown by the code"


def code_text(instructions: int | None, size: int | None) -> str:
    """Write the length of the code: "117 instructions, 2 KiB"."""
    if instructions is None:
        return NOT_KNOWN if size is None else f"{bytes_text(size)}, not read"
    return f"{counted(instructions, 'instruction')}, {bytes_text(size)}"


def spilled_text(loads: int, stores: int, load_bytes: int, store_bytes: int, in_loops: int) -> str:
    """Write the instructions that spill: "4 loads of 16 B per thread, 3 stores of 12 B; 2 in loops"."""
    if not loads and not stores:
        return "none"
    loaded = f"{counted(loads, 'load')} of {bytes_text(load_bytes)} per thread"
    return f"{loaded}, {counted(stores, 'store')} of {bytes_text(store_bytes)}; {in_loops} in loops"


def cost_text(cost: float | None, unit: str) -> str:
    """Write the cost of a request: "32 sectors"."""
    if cost is None:
        return NOT_KNOWN
    return f"{significant(cost, strip=True)} {unit}{'s' if cost != 1 else ''}"


def only_text(variants: Sequence[str]) -> str:
    """Write which variants of a kernel have a finding; empty if all have."""
    return f"only {short_list(variants, _MOST_NAMES)}" if variants else ""


def argument_text(ordinal: int, name: str | None, size: int, value: int | None) -> str:
    """Write an argument: "2 n = 4096", "0 out (8 B)"."""
    text = joined_by(" ", str(ordinal), cut_middle(name or "", _NAME_LENGTH))
    return f"{text} = {value}" if value is not None else f"{text} ({bytes_text(size)})"


def part_text(name: str, value: int) -> str:
    """Write a part of a structure: "in.stride = 1024"."""
    return f"{cut_middle(name, _NAME_LENGTH)} = {value}"


def limit_text(limiters: Sequence[str], steps: Iterable[str]) -> str:
    """Write the limiters of occupancy, and the next step: "limited by registers: at 64 registers …"; empty if none."""
    limits = " and ".join(limiters)
    return joined_by(": ", f"limited by {limits}" if limits else "", " or ".join(dict.fromkeys(steps)))


def range_text(values: Iterable[int | None]) -> str:
    """Write the values of several variants: "80–84"."""
    known = sorted({value for value in values if value is not None})
    return "–".join(map(str, dict.fromkeys((known[0], known[-1])))) if known else NOT_KNOWN


def left_out(count: int, noun: str, rest: str) -> str:
    """Write how many are left out: "… and 3 more notes: -v shows all"; empty if none."""
    return f"… and {counted(count, f'more {noun}')}: {rest}" if count > 0 else ""
