"""The machine code of a kernel as a document: every instruction with its counters, under the source lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from gpuprof.annotated.listing import ListedInstruction, Listing
from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.stalls import stall_name
from gpuprof.units import factor, format_percent, format_si, spaced
from gpuprof.views.document import Block, Cell, Code, CodeLine, Document, Heading, Inline, Note, anchor
from gpuprof.words.finding_text import short_gain
from gpuprof.words.profile_values import count_text, duration_text

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = ("samples", "main stall", "memory", "executed", "threads")
# The instructions with least weight are folded if they have no more than this share together.
_COLD_SHARE = 0.05
_AROUND = 2
_LEAST_FOLDED = 6
_TAB = 4
# Nsight Compute's source page uses these names.
_SHORT_STALLS = {
    "long_scoreboard": "Long SB",
    "short_scoreboard": "Short SB",
    "math_pipe_throttle": "Math Pipe",
    "branch_resolving": "Branch",
    "dispatch_stall": "Dispatch",
    "no_instruction": "No Instr",
    "tex_throttle": "TEX",
    "lg_throttle": "LG",
    "mio_throttle": "MIO",
    "imc_miss": "IMC",
}

_Stretch = tuple[ListedInstruction, ...]


def print_listing(console: Console, kernel: KernelProfile, listing: Listing, whole: bool) -> None:
    """Print the listing of a kernel; unless the `whole` is wanted, what takes next to no time is folded."""
    from gpuprof.views.terminal import print_document

    print_document(console, listing_document(kernel, listing, whole=whole))


def markdown_listing(_session: Session, kernel: KernelProfile, listing: Listing, whole: bool) -> Iterator[str]:
    """Return the same as lines of Markdown, however many they are."""
    from gpuprof.views.markdown import markdown_lines

    return markdown_lines(listing_document(kernel, listing, whole=whole), sys.maxsize)


def listing_document(kernel: KernelProfile, listing: Listing, *, whole: bool) -> Document:
    """Return the listing of a kernel. Stretches that take next to no time are folded unless the `whole` is wanted."""
    title = f"#{kernel.id} {kernel.label}"
    time = f": {duration_text(kernel.duration_s)}" if kernel.duration_s is not None else ""
    blocks: list[Block] = [Heading(title + time)]
    if listing.launches > 1:
        blocks.append(Note(f"launch #{kernel.id}, the median of {listing.launches} equal launches"))
    blocks.append(Note(_sums(listing)))
    for missing in listing.missing:
        blocks.append(Note(f"not known: {missing.what}: {missing.why}; {missing.how}", "muted"))
    folded: list[ListedInstruction] = []
    lines = tuple(_lines(kernel, listing, folded, whole=whole))
    has_code = any(each.sass for each in listing.instructions)
    blocks.append(Code("SASS" if has_code else "", lines, _COLUMNS, most=len(lines), numbers="offset"))
    if folded:
        blocks.append(Note(f"folded: {_stretch_text(folded)}; -v shows them", "muted"))
    return Document(title, tuple(blocks))


def _sums(listing: Listing) -> str:
    sums = [count_text(len(listing.instructions), "instruction")]
    if listing.samples is not None:
        sums.append(f"{spaced(listing.samples)} samples of warps")
    if listing.executed is not None:
        sums.append(f"{_amount(listing.executed)} warp instructions executed")
    return ", ".join(sums)


def _lines(
    kernel: KernelProfile, listing: Listing, folded: list[ListedInstruction], *, whole: bool
) -> Iterator[CodeLine]:
    """Yield headings, instructions with their findings, and remarks for what is folded, which `folded` collects."""
    names = _file_names(listing)
    hottest = max((each.share or 0.0 for each in listing.instructions), default=0.0)
    function = -1
    place: tuple[str | None, int | None] | None = None
    for is_warm, stretch in _stretches(listing.instructions, whole=whole):
        if stretch[0].function != function:
            function = stretch[0].function
            if len(listing.functions) > 1:
                place = None
                own = listing.functions[function]
                name = own.symbol or f"function at 0x{own.address:x}"
                yield CodeLine(name, None, across=True, tone="strong")
        if not is_warm and len(stretch) >= _LEAST_FOLDED:
            place = None
            folded.extend(stretch)
            yield CodeLine("", f"… {_stretch_text(stretch)}", across=True, tone="muted")
            continue
        for instruction in stretch:
            if (instruction.file, instruction.line) != place:
                place = (instruction.file, instruction.line)
                yield from _line_heading(listing, instruction, names)
            yield _instruction(kernel, instruction, hottest)
            yield from _findings(kernel, instruction)


def _stretches(code: Sequence[ListedInstruction], *, whole: bool) -> Iterator[tuple[bool, _Stretch]]:
    """Yield instructions in a row of one function that all are warm, or all cold."""
    warm = frozenset(range(len(code))) if whole else _warm(code)

    def kind(index: int) -> tuple[bool, int]:
        return index in warm, code[index].function

    for (is_warm, _), indices in groupby(range(len(code)), kind):
        yield is_warm, tuple(code[index] for index in indices)


def _warm(code: Sequence[ListedInstruction]) -> frozenset[int]:
    """Return the indices of instructions with weight or a finding, and their neighbours; all if none has weight.

    The weight are samples; without them, executions.
    """
    weights = [each.samples or 0.0 for each in code]
    if not any(weights):
        weights = [each.executed or 0.0 for each in code]
    left = _COLD_SHARE * sum(weights)
    if not left:
        return frozenset(range(len(code)))
    cold = set()
    for index in sorted(range(len(code)), key=lambda index: weights[index]):
        left -= weights[index]
        if left < 0:
            break
        cold.add(index)
    warm: set[int] = set()
    for index, each in enumerate(code):
        if index not in cold or each.findings:
            warm.update(range(index - _AROUND, index + _AROUND + 1))
    return frozenset(warm)


def _stretch_text(stretch: Sequence[ListedInstruction]) -> str:
    """Say what is folded: "240 instructions, 0.3 % of samples"."""
    shares = [each.share for each in stretch if each.share is not None]
    share = f", {format_percent(sum(shares))} of samples" if shares else ""
    return count_text(len(stretch), "instruction") + share


def _file_names(listing: Listing) -> dict[str, str]:
    """Return the name of each file, or its whole path if another file has that name."""
    files = list(dict.fromkeys(each.file for each in listing.instructions if each.file is not None))
    names = [file.replace("\\", "/").rpartition("/")[2] for file in files]
    return {file: name if names.count(name) == 1 else file for file, name in zip(files, names, strict=True)}


def _line_heading(listing: Listing, instruction: ListedInstruction, names: Mapping[str, str]) -> Iterator[CodeLine]:
    """Yield the heading of a source line; of code without a line only if other code has one."""
    if instruction.file is not None and instruction.line is not None:
        text = listing.source_lines.get(instruction.file, {}).get(instruction.line, "")
        place = f"{names[instruction.file]}:{instruction.line}"
        yield CodeLine(place, text.strip().expandtabs(_TAB), across=True)
    elif names:
        yield CodeLine("no source line", None, across=True)


def _instruction(kernel: KernelProfile, instruction: ListedInstruction, hottest: float) -> CodeLine:
    notes: tuple[Inline, ...] = (
        _share_text(instruction),
        _stall_note(instruction),
        _access_note(instruction),
        _amount(instruction.executed) if instruction.executed is not None else "",
        f"{instruction.threads:.3g}" if instruction.threads is not None else "",
    )
    return CodeLine(
        f"{instruction.offset:04x}",
        instruction.sass,
        heat=(instruction.share or 0.0) / hottest if hottest else 0.0,
        notes=notes,
        anchor=anchor("sass", kernel.id, f"{instruction.pc:x}"),
    )


def _findings(kernel: KernelProfile, instruction: ListedInstruction) -> Iterator[CodeLine]:
    """Yield the findings that point at an instruction, each with its id, severity, gain and headline."""
    for finding in kernel.findings:
        if finding.id not in instruction.findings:
            continue
        weight: str = finding.severity
        if finding.gain_kernel is not None and finding.severity != "info":
            weight += f", {short_gain(finding.gain_kernel, finding.gain_kind)}"
        yield CodeLine("", f"▲ {finding.id} ({weight}): {finding.headline}", across=True, tone=finding.severity)


def _share_text(instruction: ListedInstruction) -> str:
    if instruction.share is not None:
        return format_percent(instruction.share)
    return "0 %" if instruction.samples == 0 else ""


def _stall_note(instruction: ListedInstruction) -> Inline:
    """Return the main stall reason with its share of the samples at the instruction."""
    stall = instruction.stall
    if stall is None:
        return ""
    share = format_percent(stall.share)
    name = stall_name(stall.reason)
    return Cell(f"{_SHORT_STALLS.get(stall.reason, name)} {share}", whole=f"{name} {share}")


def _access_note(instruction: ListedInstruction) -> Inline:
    """Return what its accesses cost, of the least that they could: "4.0x L2", in full "8.39 M sectors 4.0x"."""
    short = []
    whole = []
    for count, ideal, place, noun in (
        (instruction.sectors, instruction.sectors_ideal, "L2", "sectors"),
        (instruction.wavefronts, instruction.wavefronts_ideal, "shared", "wavefronts"),
        (instruction.sectors_local, None, "local", "local sectors"),
    ):
        if not count:
            continue
        excess = factor(count / ideal) if ideal else ""
        short.append(f"{excess} {place}".strip())
        whole.append(f"{_amount(count)} {noun} {excess}".strip())
    return Cell("; ".join(short), whole="; ".join(whole)) if short else ""


def _amount(count: float) -> str:
    return f"{count:.0f}" if count < 1000 else format_si(count, "").strip()
