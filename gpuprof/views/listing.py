"""The machine code of a kernel as a document: every instruction with its counters, under the source lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from gpuprof.annotated.listing import ListedInstruction, Listing
from gpuprof.model.session import KernelProfile
from gpuprof.model.stalls import stall_name
from gpuprof.units import factor, format_percent, format_si, spaced
from gpuprof.views.document import Block, Code, CodeLine, Document, Heading, Note, anchor
from gpuprof.words.file_names import file_name
from gpuprof.words.finding_text import short_gain
from gpuprof.words.profile_values import count_text, duration_text
from gpuprof.words.sentences import joined_by

_COLUMNS = ("samples", "main stall", "memory", "executed", "threads")
# Instructions with less than this share of the weight of the hottest one are folded.
_COLD_SHARE = 0.03
_AROUND = 2
_LEAST_FOLDED = 6
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

# Consecutive instructions, and whether they are folded.
_Stretch = tuple[bool, Sequence[ListedInstruction]]


def listing_document(_session: object, kernel: KernelProfile, listing: Listing, whole: bool) -> Document:
    """Return the listing of a kernel. Stretches that take almost no time are folded unless `whole`."""
    time = duration_text(kernel.duration_s) if kernel.duration_s is not None else ""
    title = joined_by(": ", f"#{kernel.id} {kernel.label}", time)
    blocks: list[Block] = [Heading(title)]
    if listing.launches > 1:
        blocks.append(Note(f"launch #{kernel.id}, the median of {listing.launches} equal launches"))
    sums = [count_text(len(listing.instructions), "instruction")]
    if listing.samples is not None:
        sums.append(f"{spaced(listing.samples)} samples of warps")
    if listing.executed is not None:
        sums.append(f"{_amount(listing.executed)} warp instructions executed")
    blocks.append(Note(", ".join(sums)))
    for missing in listing.missing:
        blocks.append(Note(f"not known: {missing.what}: {missing.why}; {missing.how}", "muted"))
    stretches = list(_stretches(listing.instructions, whole=whole))
    has_code = any(each.sass for each in listing.instructions)
    lines = tuple(_lines(kernel, listing, stretches))
    blocks.append(Code("SASS" if has_code else "", lines, _COLUMNS, most=len(lines), numbers="offset"))
    if any(is_folded for is_folded, _ in stretches):
        blocks.append(Note("-v shows what is folded", "muted"))
    return Document(title, tuple(blocks))


def _stretches(code: Sequence[ListedInstruction], *, whole: bool) -> Iterator[_Stretch]:
    """Yield instructions in a row of one function that are folded, or that are shown.

    Shown are instructions with weight or a finding, and their neighbours. The weight is the samples; without any, the
    executions.
    """
    weights = [each.samples or 0.0 for each in code]
    if not any(weights):
        weights = [each.executed or 0.0 for each in code]
    least = _COLD_SHARE * max(weights, default=0.0)
    warm: set[int] = set()
    for index, each in enumerate(code):
        if weights[index] >= least or each.findings:
            warm.update(range(index - _AROUND, index + _AROUND + 1))
    for (is_warm, _), indices in groupby(range(len(code)), lambda index: (index in warm, code[index].function)):
        stretch = [code[index] for index in indices]
        yield not (whole or is_warm) and len(stretch) >= _LEAST_FOLDED, stretch


def _lines(kernel: KernelProfile, listing: Listing, stretches: Sequence[_Stretch]) -> Iterator[CodeLine]:
    """Yield headings, instructions with their findings, and a remark for each folded stretch."""
    hottest = max((each.share or 0.0 for each in listing.instructions), default=0.0)
    has_lines = any(each.line is not None for each in listing.instructions)
    function = -1
    place: object = None
    for is_folded, stretch in stretches:
        if len(listing.functions) > 1 and stretch[0].function != function:
            function = stretch[0].function
            place = None
            own = listing.functions[function]
            yield CodeLine(own.symbol or f"function at 0x{own.address:x}", None, across=True, tone="strong")
        if is_folded:
            place = None
            text = f"… {count_text(len(stretch), 'instruction')}"
            shares = [each.share for each in stretch if each.share is not None]
            if shares:
                text += f", {format_percent(sum(shares))} of samples"
            yield CodeLine("", text, across=True, tone="muted")
            continue
        for instruction in stretch:
            file, line = instruction.file, instruction.line
            if has_lines and (file, line) != place:
                code = listing.source_lines.get(file or "", {}).get(line or 0)
                name = f"{file_name(file)}:{line}" if file and line else "no source line"
                yield CodeLine(name, code, across=True)
            place = (file, line)
            yield _instruction(kernel, instruction, hottest)
            yield from _findings_at(kernel, instruction)


def _findings_at(kernel: KernelProfile, instruction: ListedInstruction) -> Iterator[CodeLine]:
    for finding in kernel.findings:
        if finding.id in instruction.findings:
            gain = short_gain(finding.gain_kernel, finding.gain_kind) if finding.gain_kernel else ""
            weight = joined_by(", ", finding.severity, gain)
            text = f"▲ {finding.id} ({weight}): {finding.headline}"
            yield CodeLine("", text, across=True, tone=finding.severity)


def _instruction(kernel: KernelProfile, instruction: ListedInstruction, hottest: float) -> CodeLine:
    share = format_percent(instruction.share) if instruction.share is not None else ""
    executed = _amount(instruction.executed) if instruction.executed is not None else ""
    threads = f"{instruction.threads:.3g}" if instruction.threads is not None else ""
    stall = ""
    if instruction.stall is not None:
        reason = instruction.stall.reason
        stall = f"{_SHORT_STALLS.get(reason, stall_name(reason))} {format_percent(instruction.stall.share)}"
    # Sectors or wavefronts of its accesses as a multiple of the ideal number: "4.0x L2".
    accesses = []
    for count, ideal, place in (
        (instruction.sectors, instruction.sectors_ideal, "L2"),
        (instruction.wavefronts, instruction.wavefronts_ideal, "shared"),
        (instruction.sectors_local, None, "local"),
    ):
        if count:
            accesses.append(joined_by(" ", factor(count / ideal) if ideal else "", place))
    return CodeLine(
        f"{instruction.offset:04x}",
        instruction.sass,
        heat=(instruction.share or 0.0) / hottest if hottest else 0.0,
        notes=(share, stall, "; ".join(accesses), executed, threads),
        anchor=anchor("sass", kernel.id, f"{instruction.pc:x}"),
    )


def _amount(count: float) -> str:
    return f"{count:.0f}" if count < 1000 else format_si(count, "").strip()
