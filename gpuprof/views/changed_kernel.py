"""A compared kernel in depth: verdict, causes, time, launch, values, findings and code of both sides."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpuprof.comparison.contract import (
    ComparedKernel,
    Comparison,
    CountChange,
    FindingChange,
    Interval,
    KernelChange,
    SourceLine,
)
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import SideKernel
from gpuprof.comparison.work.counts import OPCODES
from gpuprof.model.headline import stalls_of
from gpuprof.model.session import KernelProfile, Stall
from gpuprof.model.stalls import NOT_STALLED, stall_name
from gpuprof.text import cut_end, cut_middle
from gpuprof.units import counted, format_percent, format_waves, signed_percent
from gpuprof.views.document import Block, Cell, Column, Facts, Fold, Inline, Note, Table, Tone, text_of
from gpuprof.views.paired_code import paired_code
from gpuprof.views.warp_states import family_text
from gpuprof.words.comparison_causes import names_its_file
from gpuprof.words.comparison_values import (
    both_text,
    change_text,
    count_name,
    interval_text,
    side_texts,
    value_text,
)
from gpuprof.words.comparison_verdicts import (
    gain_text,
    kernel_verdict,
    line_text,
    match_text,
    per_step_text,
    runs_needed_text,
    samples_text,
)
from gpuprof.words.file_names import file_name
from gpuprof.words.profile_values import NOT_COLLECTED, dims_text, percent_text, registers_text, shared_text
from gpuprof.words.sentences import joined_by, short_list

TIME_TONES: dict[str, Tone] = {"slower": "bad", "faster": "good", "unclear": "warning", "unknown": "warning"}
_LONGEST_SENTENCE = 600
_MOST_OPCODES = 6
_MOST_LINES = 20
_MOST_LISTED = 16
# Maximum number of warp states of both sides together.
_MOST_STATES = 12
_NAME_LENGTH = 120
_WHOLE_NAME = 2000
_FINDING_WORDS: dict[str, tuple[str, Tone]] = {
    "went": ("went", "good"), "came": ("came", "bad"), "stayed": ("stays", "muted"),
}  # fmt: skip
_COLUMNS = (
    Column("quantity", "name"), Column("base", "number"), Column("new", "number"), Column("change", "number"),
    Column("verdict", rank=1), Column("counter", rank=2),
)  # fmt: skip
# The columns of a kernel that is on one side only, by the side that lacks it.
_SHOWN = {None: range(6), "base": (0, 2, 5), "new": (0, 1, 5)}
# The facts of a launch, each with the count that repeats it (empty: none).
_COUNT_OF = {
    "waves": "",
    "registers per thread": "registers",
    "shared memory per block": "shared-memory",
    "theoretical occupancy": "occupancy",
    "achieved occupancy": "",
}
# Whether a quantity changed, and its row under `_COLUMNS`.
_Quantity = tuple[bool, tuple[Inline, ...]]


def changed_kernel(change: KernelChange, comparison: Comparison, pair: Pair | None = None) -> Iterator[Block]:
    """Yield everything about a kernel; without its `pair` no values, warp states or code of its launches."""
    base = _longest(pair.base) if pair is not None else None
    new = _longest(pair.new) if pair is not None else None
    verdict = sentence(change.sentence if change.is_one_sided else kernel_verdict(change))
    effect = finite(change.effect)
    if effect is not None:
        verdict += f"; {signed_percent(effect)} of the base's GPU time"
    yield Note(Cell(verdict, TIME_TONES.get(change.time.verdict, "")), "strong")
    yield Facts((*_causes(change), *_time(change), *_launches(change, comparison), *_findings(change), *_lines(change)))
    quantities = [*_launch_facts(change, base, new), *_counts(change), *_stalls(base, new)]
    moved = [row for is_changed, row in quantities if is_changed]
    same = [row for is_changed, row in quantities if not is_changed]
    if moved:
        yield _table(f"What differs, kernel {change.id}", moved, change)
    if same:
        title = "Launch and counters" if change.is_one_sided else "Unchanged values"
        if not change.is_one_sided:
            names = [text_of(row[0]) for row in same]
            yield Note(f"Unchanged: {short_list(names, _MOST_LISTED)}", "muted")
        yield Fold(title, (_table(f"{title}, kernel {change.id}", same, change),), open=change.is_one_sided)
    if base is not None and new is not None:
        if family_text(base) != family_text(new):
            families = f"base {family_text(base) or NOT_COLLECTED}, new {family_text(new) or NOT_COLLECTED}"
            yield Note(f"Warp states cannot be compared: {families}.", "muted")
        yield from paired_code(change, base, new)
    every_name = dict.fromkeys(kernel.demangled for kernel in (*change.base, *change.new))
    full = [Cell(cut_middle(name, _WHOLE_NAME), code=True) for name in every_name if name != change.label]
    if full:
        yield Fold("Full name", tuple(Note(name) for name in full))


def sentence(text: str) -> str:
    """Return a sentence of a limited length: texts of reports may be as long as their authors like."""
    return cut_end(text[: 8 * _LONGEST_SENTENCE], _LONGEST_SENTENCE)


def finite(value: float | None) -> float | None:
    """Return a number that a table can be sorted by."""
    return value if value is not None and math.isfinite(value) else None


def _causes(change: KernelChange) -> Iterator[tuple[str, Inline]]:
    """Yield the causes, with their certainty unless they are counted."""
    for index, cause in enumerate(change.causes):
        place = _place(cause.location) if not names_its_file(change) else ""
        doubt = cause.certainty if cause.certainty != "counted" else ""
        known = joined_by(", ", place, doubt)
        text = sentence(cause.sentence)
        yield "" if index else "why", f"{text} ({known})" if known else text


def _time(change: KernelChange) -> Iterator[tuple[str, Inline]]:
    """Yield the verdict on time, in seconds and SM cycles, the samples and noise behind it, and why it is unclear."""
    time = change.time
    if change.is_one_sided:
        return
    texts: list[str] = [time.verdict]
    if time.base_s is not None or time.new_s is not None:
        texts[0] += f": {both_text(time.base_s, time.new_s, 's')}{_change(time.ratio, time.interval)}"
    if time.base_cycles is not None and time.new_cycles is not None:
        cycles = both_text(time.base_cycles, time.new_cycles)
        texts.append(f"SM cycles {cycles}{_change(time.cycles_ratio, time.cycles_interval)}")
    if samples_text(time):
        texts.append(f"measured: {samples_text(time)}")
    if time.noise is not None:
        source = f" ({time.noise_source})" if time.noise_source else ""
        texts.append(f"noise {value_text(time.noise, 'fraction')}{source}")
    texts += [time.reason, runs_needed_text(time)]
    for index, text in enumerate(filter(None, texts)):
        yield "" if index else "time", sentence(text)


def _change(ratio: float | None, interval: Interval | None) -> str:
    """Write a change with its interval: " (−47 %; −48 % to −45 % at 99 %)"."""
    if ratio is None:
        return ""
    at = f"; {interval_text(interval)} at 99 %" if interval is not None else ""
    return f" ({change_text(ratio)}{at})"


def _launches(change: KernelChange, comparison: Comparison) -> Iterator[tuple[str, Inline]]:
    """Yield the match, the launch configuration of each side, and the verdict on the work."""
    if match_text(change):
        yield "matched", sentence(match_text(change))
    for kernel in change.base:
        yield "base", _launch(kernel, comparison.base.files, change)
    for kernel in change.new:
        yield "new", _launch(kernel, comparison.new.files, change)
    if not change.is_one_sided:
        yield "work", sentence(joined_by(": ", change.work.verdict, change.work.reason))


def _launch(kernel: ComparedKernel, files: Sequence[str], change: KernelChange) -> str:
    """Write the launch of a kernel, with its name if the change has another, and its file if the side has several."""
    parts = [kernel.label] if kernel.label != change.label else []
    if kernel.grid is not None and kernel.block is not None:
        parts.append(f"grid {dims_text(kernel.grid)}, block {dims_text(kernel.block)}")
    if kernel.ranges:
        parts.append(f"in {' / '.join(kernel.ranges)}")
    launches = "launch" if kernel.launches == 1 else "launches"
    parts.append(f"{value_text(kernel.launches)} {launches}{per_step_text(change)}")
    if len(files) > 1 and kernel.run < len(files):
        parts.append(f"as in {file_name(files[kernel.run])}")
    return ", ".join(cut_middle(part, _NAME_LENGTH) for part in parts)


def _findings(change: KernelChange) -> Iterator[tuple[str, Inline]]:
    for finding in change.findings:
        word, tone = _FINDING_WORDS[finding.word]
        yield word, Cell(sentence(_finding(finding)), tone)


def _finding(finding: FindingChange) -> str:
    headline = finding.new or finding.base
    if finding.word == "stayed" and finding.base and finding.base != finding.new:
        headline = f"{headline} (was: {finding.base})"
    place = _place(finding.location)
    gain = gain_text(finding) if finding.word == "went" else ""
    return joined_by("; ", headline, place and f"at {place}", gain)


def _place(line: SourceLine | None) -> str:
    """Write the file and number of a line; empty without one."""
    return f"{cut_middle(file_name(line.file), _NAME_LENGTH)}:{line.line}" if line is not None else ""


def _lines(change: KernelChange) -> Iterator[tuple[str, Inline]]:
    for index, line in enumerate(change.lines[:_MOST_LINES]):
        text = joined_by(": ", line_text(line, file_name(line.file)), line.text.strip())
        yield "" if index else "lines", sentence(text)
    more = len(change.lines) - _MOST_LINES
    if more > 0:
        yield "", f"and {counted(more, 'more line')}"


def _longest(kernels: Sequence[SideKernel]) -> KernelProfile | None:
    """Return the representative of the kernel of a side that takes longest."""
    longest = max(kernels, key=lambda kernel: kernel.total_s or 0.0, default=None)
    return longest.representative if longest is not None else None


def _launch_facts(change: KernelChange, base: KernelProfile | None, new: KernelProfile | None) -> Iterator[_Quantity]:
    """Yield the facts of a launch, except those that a counter of the change repeats."""
    facts_of_base = _facts(base)
    facts_of_new = _facts(new)
    unknown = {"", NOT_COLLECTED}
    for name, count in _COUNT_OF.items():
        before = facts_of_base.get(name, "")
        after = facts_of_new.get(name, "")
        if change.work.count(count) is None and not unknown.issuperset((before, after)):
            is_changed = before != after and unknown.isdisjoint((before, after))
            yield is_changed, (name, before, after, "", "", "")


def _facts(kernel: KernelProfile | None) -> dict[str, str]:
    if kernel is None:
        return {}
    return {
        "waves": format_waves(kernel.waves) if kernel.waves is not None else NOT_COLLECTED,
        "registers per thread": registers_text(kernel),
        "shared memory per block": shared_text(kernel),
        "theoretical occupancy": percent_text(kernel.occupancy.theoretical),
        "achieved occupancy": percent_text(kernel.occupancy.achieved),
    }


def _counts(change: KernelChange) -> Iterator[_Quantity]:
    """Yield the counters; of the opcodes only those that moved most."""
    opcodes = 0
    for count in change.work.counts:
        is_opcode = count.name.startswith(OPCODES)
        opcodes += is_opcode
        if not is_opcode or (count.word != "same" and opcodes <= _MOST_OPCODES):
            yield _count(count)


def _count(count: CountChange) -> _Quantity:
    base, new = side_texts(count.base, count.new, count.unit, count.name)
    better = "more" if count.name == "occupancy" else "less"
    tone: Tone = ""
    if count.word in ("more", "less"):
        tone = "good" if count.word == better else "bad"
    verdict = count.word.replace("-", " ")
    return count.word != "same", (
        cut_middle(count_name(count.name), _NAME_LENGTH),
        base,
        new,
        Cell(change_text(count.ratio, ""), tone),
        f"{verdict}, depends on the data" if count.data_dependent else verdict,
        Cell(cut_middle(count.metric, _NAME_LENGTH), "muted", code=True),
    )


def _stalls(base: KernelProfile | None, new: KernelProfile | None) -> Iterator[_Quantity]:
    """Yield the most frequent warp states of both sides; none if the sides have them from different sources."""
    if base is None or new is None or family_text(base) != family_text(new):
        return
    before = {stall.reason: stall for stall in stalls_of(base)}
    after = {stall.reason: stall for stall in stalls_of(new)}
    longest = sorted((*stalls_of(base), *stalls_of(new)), key=lambda stall: -stall.share)
    reasons = dict.fromkeys(stall.reason for stall in longest[:_MOST_STATES])
    source = Cell(family_text(base), "muted")
    for reason in reasons:
        kind = "not stalled" if reason in NOT_STALLED else "stalled"
        sides = _stall(before.get(reason)), _stall(after.get(reason))
        yield sides[0] != sides[1], (f"{kind}: {stall_name(reason)}", *sides, "", "", source)


def _stall(stall: Stall | None) -> Inline:
    """Write the share of a warp state and, if counted, its warp cycles per issued instruction: "38 %, 3.30 cycles"."""
    if stall is None:
        return "0 %"
    cycles = f"{stall.cycles_per_issue:.2f} cycles" if stall.cycles_per_issue is not None else ""
    return Cell(joined_by(", ", format_percent(stall.share), cycles), bar=stall.share)


def _table(label: str, quantities: Sequence[tuple[Inline, ...]], change: KernelChange) -> Table:
    """Return a table of both sides, or of the side that has the kernel."""
    shown = _SHOWN[change.lacking]
    columns = tuple(_COLUMNS[index] for index in shown)
    rows = tuple(tuple(row[index] for index in shown) for row in quantities)
    return Table(label, columns, rows)
