"""A kernel's machine code as rows: headings, instructions, what points at them, and stretches that are folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from gpuprof.annotated.listing import ListedInstruction, Listing
from gpuprof.model.session import Finding, KernelProfile
from gpuprof.model.stalls import stall_name
from gpuprof.units import factor, format_percent, format_si, spaced
from gpuprof.words.finding_text import short_gain
from gpuprof.words.profile_values import count_text, duration_text

_COLD_SHARE = 0.05
"""The instructions with least weight that together have no more than this are cold."""
_AROUND = 2
_LEAST_FOLDED = 6


class FoldedStretch(Struct, frozen=True):
    """Instructions in a row that take next to nothing of the time."""

    instructions: tuple[ListedInstruction, ...]


class Heading(Struct, frozen=True):
    """What the instructions below it belong to: a function, or a line with its text, as far as that is known."""

    place: str
    text: str
    is_function: bool = False


ListingRow = Heading | ListedInstruction | FoldedStretch


def listing_rows(listing: Listing, *, whole: bool) -> Iterator[ListingRow]:
    """Yield headings and instructions in order; cold stretches are folded unless the `whole` is wanted."""
    warm = frozenset(range(len(listing.instructions))) if whole else _warm(listing.instructions)
    names = file_names(listing)
    function, at = -1, None
    for shown, group in groupby(enumerate(listing.instructions), lambda item: (item[0] in warm, item[1].function)):
        stretch = tuple(instruction for _, instruction in group)
        if shown[1] != function and len(listing.functions) > 1:
            at = None
            yield _function_heading(listing, shown[1])
        function = shown[1]
        if not shown[0] and len(stretch) >= _LEAST_FOLDED:
            yield FoldedStretch(stretch)
            at = None
            continue
        for instruction in stretch:
            place = (instruction.file, instruction.line)
            if place != at:
                at = place
                yield from _line_heading(listing, instruction, names)
            yield instruction


def _function_heading(listing: Listing, number: int) -> Heading:
    function = listing.functions[number]
    return Heading(function.symbol or f"function at 0x{function.address:x}", "", is_function=True)


def file_names(listing: Listing) -> dict[str, str]:
    """Return by file what it is called: its name alone where no other file has it, else its whole path."""
    files = list(dict.fromkeys(each.file for each in listing.instructions if each.file is not None))
    names = [file.replace("\\", "/").rpartition("/")[2] for file in files]
    return {file: name if names.count(name) == 1 else file for file, name in zip(files, names, strict=True)}


def _line_heading(listing: Listing, instruction: ListedInstruction, names: Mapping[str, str]) -> Iterator[Heading]:
    """Yield the heading of a source line; of code without one only where other code has some."""
    if instruction.file is not None and instruction.line is not None:
        text = listing.source_lines.get(instruction.file, {}).get(instruction.line, "")
        yield Heading(f"{names[instruction.file]}:{instruction.line}", text.strip())
    elif names:
        yield Heading("no source line", "")


def _warm(code: Sequence[ListedInstruction]) -> frozenset[int]:
    """Return the places of what is shown: what has weight or a finding, and its neighbours; all where nothing has any.

    Weight are samples; without them, executions.
    """
    weights = [each.samples or 0.0 for each in code]
    if not any(weights):
        weights = [each.executed or 0.0 for each in code]
    left = _COLD_SHARE * sum(weights)
    if not left:
        return frozenset(range(len(code)))
    cold = set()
    for place in sorted(range(len(code)), key=lambda place: weights[place]):
        left -= weights[place]
        if left < 0:
            break
        cold.add(place)
    hot = [place for place, each in enumerate(code) if place not in cold or each.findings]
    return frozenset(near for place in hot for near in range(place - _AROUND, place + _AROUND + 1))


def folded_text(stretch: FoldedStretch) -> str:
    """Say what is folded: "… 240 instructions, 0.3 % of samples"."""
    shares = [each.share for each in stretch.instructions if each.share is not None]
    share = f", {format_percent(sum(shares))} of samples" if shares else ""
    return f"… {count_text(len(stretch.instructions), 'instruction')}{share}"


def all_folded_text(rows: Sequence[ListingRow]) -> str:
    """Say how much is folded in all, and what shows it; empty where nothing is."""
    stretches = [row for row in rows if isinstance(row, FoldedStretch)]
    if not stretches:
        return ""
    together = FoldedStretch(tuple(each for stretch in stretches for each in stretch.instructions))
    return f"folded: {folded_text(together).removeprefix('… ')}; -v shows them"


def head_texts(kernel: KernelProfile, listing: Listing) -> Iterator[str]:
    """Yield what is shown: the kernel, its time, which launch of several it is, and the sums of the columns."""
    time = f": {duration_text(kernel.duration_s)}" if kernel.duration_s is not None else ""
    yield f"#{kernel.id} {kernel.label}{time}"
    if listing.launches > 1:
        yield f"launch #{kernel.id}, which speaks for {listing.launches} equal launches by its median time"
    sums = [count_text(len(listing.instructions), "instruction")]
    if listing.samples is not None:
        sums.append(f"{spaced(listing.samples)} samples of warps")
    if listing.executed is not None:
        sums.append(f"{_amount(listing.executed)} warp instructions executed")
    yield ", ".join(sums)


def note_texts(listing: Listing) -> Iterator[str]:
    """Yield what is missing, and what would show it."""
    for missing in listing.missing:
        yield f"{missing.what}: {missing.why}; {missing.how}"


def finding_texts(kernel: KernelProfile, instruction: ListedInstruction) -> Iterator[str]:
    """Yield the findings that point at an instruction, each with its id, severity and headline."""
    for finding in kernel.findings:
        if finding.id in instruction.findings:
            yield f"{finding.id} ({_weight(finding)}): {finding.headline}"


def _weight(finding: Finding) -> str:
    if finding.gain_kernel is None or finding.severity == "info":
        return finding.severity
    return f"{finding.severity}, {short_gain(finding.gain_kernel, finding.gain_kind)}"


def offset_text(instruction: ListedInstruction) -> str:
    """Write an offset as the debuggers do."""
    return f"{instruction.offset:04x}"


def share_text(instruction: ListedInstruction) -> str:
    """Write the share of samples; empty where none were collected."""
    if instruction.share is None:
        return "0 %" if instruction.samples == 0 else ""
    return format_percent(instruction.share)


def main_stall_text(instruction: ListedInstruction) -> str:
    """Write the main stall reason with its share of the samples at the instruction."""
    stall = instruction.stall
    return f"{stall_name(stall.reason)} {format_percent(stall.share)}" if stall is not None else ""


_SHORT_STALLS = {
    "long_scoreboard": "Long SB", "short_scoreboard": "Short SB", "math_pipe_throttle": "Math Pipe",
    "branch_resolving": "Branch", "dispatch_stall": "Dispatch", "no_instruction": "No Instr", "tex_throttle": "TEX",
    "lg_throttle": "LG", "mio_throttle": "MIO", "imc_miss": "IMC",
}  # fmt: skip
"""As the heads of Nsight Compute's source page have them."""


def short_stall_text(instruction: ListedInstruction) -> str:
    """Write the same in at most 15 characters."""
    stall = instruction.stall
    if stall is None:
        return ""
    return f"{_SHORT_STALLS.get(stall.reason, stall_name(stall.reason))} {format_percent(stall.share)}"


def executed_text(instruction: ListedInstruction) -> str:
    """Write how often it was executed."""
    return _amount(instruction.executed) if instruction.executed is not None else ""


def threads_text(instruction: ListedInstruction) -> str:
    """Write the average active threads."""
    return f"{instruction.threads:.3g}" if instruction.threads is not None else ""


def access_text(instruction: ListedInstruction) -> str:
    """Write what its accesses cost: "8.39 M sectors 4.0x" of the least that they could; empty where it has none."""
    return "; ".join(
        f"{_amount(count)} {noun}{f' {factor(count / ideal)}' if ideal else ''}"
        for count, ideal, noun in _accesses(instruction)
    )


def short_access_text(instruction: ListedInstruction) -> str:
    """Write the same in a few characters: "4.0x L2", "2.0x shared", "local"."""
    where = {"sectors": "L2", "wavefronts": "shared", "local sectors": "local"}
    return "; ".join(
        f"{factor(count / ideal)} {where[noun]}" if ideal else where[noun]
        for count, ideal, noun in _accesses(instruction)
    )


def _accesses(instruction: ListedInstruction) -> Iterator[tuple[float, float | None, str]]:
    """Yield what was moved, the least that it could have been, and what it is."""
    for count, ideal, noun in (
        (instruction.sectors, instruction.sectors_ideal, "sectors"),
        (instruction.wavefronts, instruction.wavefronts_ideal, "wavefronts"),
        (instruction.sectors_local, None, "local sectors"),
    ):
        if count:
            yield count, ideal, noun


def _amount(count: float) -> str:
    return f"{count:.0f}" if count < 1000 else format_si(count, "").strip()
