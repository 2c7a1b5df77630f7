"""The code around a kernel's hot places, with samples by line: source and SASS.

If the report has neither but maps its instructions to lines, show the line numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuprof.annotated.counts import EXECUTED, SAMPLES, stall_metric
from gpuprof.annotated.kernel_code import CountedCode, total
from gpuprof.model.groups import summed
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.model.session import CodeLine, Excerpt, StallShare

_HOT_PLACES = 3
_LEAST_SHARE = 0.03
_LINES_AROUND = 2
_INSTRUCTIONS_AROUND = 5
_REASONS_SHOWN = 3
_LONGEST_LINE = 400
_LINES_ALONE = 8
"""A line without its text takes one row, which leaves room for more of them."""

_Line = tuple[str, int]
"""A file and the number of a line."""


def excerpts(code: CountedCode, texts: Mapping[str, str]) -> tuple[Excerpt, ...]:
    """Return up to three pieces of source around the hottest lines, and the hottest SASS.

    `texts` are the source texts by file. If there are neither these nor SASS, return the numbers of
    the lines with most samples. Without samples, executed instructions weigh the lines. Return
    nothing without counts of instructions.
    """
    weight = SAMPLES
    word = "samples"
    if not total(code.instructions, weight):
        weight = EXECUTED
        word = "executed instructions"
    whole = total(code.instructions, weight)
    if whole <= 0:
        return ()
    shares = {line: total(instructions, weight) / whole for line, instructions in code.by_line.items()}
    shown = (*_source(code, texts, shares, word), *_sass(code, weight, word, whole))
    return shown or tuple(_lines(code, shares, word))


def _hottest(shares: Mapping[_Line, float], most: int) -> list[_Line]:
    """Return the heaviest lines, heaviest first: at least one, others if worth showing."""
    hottest = sorted(shares, key=lambda line: (-shares[line], line))[:most]
    while len(hottest) > 1 and shares[hottest[-1]] < _LEAST_SHARE:
        hottest.pop()
    return hottest


def _by_file(lines: Iterable[_Line]) -> dict[str, list[int]]:
    """Return the numbers of the lines of each file."""
    numbers: dict[str, list[int]] = {}
    for file, number in lines:
        numbers.setdefault(file, []).append(number)
    return numbers


def _source(code: CountedCode, texts: Mapping[str, str], shares: Mapping[_Line, float], word: str) -> Iterator[Excerpt]:
    hot = _hottest({line: share for line, share in shares.items() if texts.get(line[0])}, _HOT_PLACES)
    for file, numbers in _by_file(hot).items():
        lines = texts[file].splitlines()
        for first, last in _spans(numbers, len(lines)):
            shown = tuple(_code_line(code, shares, (file, at), lines[at - 1]) for at in range(first, last + 1))
            yield Excerpt(language="source", file=file, weight=word, lines=shown)


def _lines(code: CountedCode, shares: Mapping[_Line, float], word: str) -> Iterator[Excerpt]:
    """Yield the hot lines of each file without their text, the heaviest line of all first."""
    hot = [line for line in _hottest(shares, _LINES_ALONE) if shares[line] > 0]
    for file, numbers in _by_file(hot).items():
        shown = tuple(_code_line(code, shares, (file, number), "") for number in sorted(numbers))
        yield Excerpt(language="source", file=file, weight=word, lines=shown)


def _code_line(code: CountedCode, shares: Mapping[_Line, float], line: _Line, text: str) -> CodeLine:
    stalls = _stalls(code.by_line.get(line, ()))
    return CodeLine(number=line[1], pc=None, text=_cut(text), share=shares.get(line, 0.0), stalls=stalls)


def _spans(numbers: Sequence[int], length: int) -> list[tuple[int, int]]:
    """Return the ranges of lines around these lines, joined if they touch."""
    spans: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if not 1 <= number <= length:
            continue
        first = max(1, number - _LINES_AROUND)
        last = min(length, number + _LINES_AROUND)
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return spans


def _sass(code: CountedCode, weight: str, word: str, whole: float) -> Iterator[Excerpt]:
    if not code.has_sass:
        return
    every = code.instructions
    hottest = max(range(len(every)), key=lambda index: every[index].counts.get(weight, 0.0))
    first = max(0, hottest - _INSTRUCTIONS_AROUND)
    last = min(len(every), hottest + _INSTRUCTIONS_AROUND + 1)
    lines = tuple(
        CodeLine(
            number=instruction.line,
            pc=instruction.pc,
            text=_cut(instruction.sass),
            share=instruction.counts.get(weight, 0.0) / whole,
            stalls=_stalls((instruction,)),
        )
        for instruction in every[first:last]
    )
    yield Excerpt(language="sass", file=every[hottest].file, weight=word, lines=lines)


def _stalls(code: Sequence[ProfiledInstruction]) -> tuple[StallShare, ...]:
    """Return the main states of the warps sampled here, as shares of the samples."""
    sums = summed(item for instruction in code for item in sampled_reasons(instruction.counts).items())
    sampled = sum(sums.values())
    ranked = sorted(sums, key=lambda reason: (-sums[reason], reason))[:_REASONS_SHOWN]
    return tuple(StallShare(reason, sums[reason] / sampled) for reason in ranked if sums[reason] > 0)


STALL_SAMPLES = stall_metric("", "sampled")
"""The prefix of the metrics that count samples by state."""


def sampled_reasons(counts: Mapping[str, float]) -> dict[str, float]:
    """Return the samples of an instruction by warp state, as far as its counts include them."""
    samples = {}
    for name, value in counts.items():
        if name.startswith(STALL_SAMPLES):
            state = name.removeprefix(STALL_SAMPLES)
            samples["no_instruction" if state == "no_instructions" else state] = value
    return samples


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 1]}…"
