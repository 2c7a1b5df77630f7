"""A compared kernel in depth: verdict, causes, time, launch, counters, findings, warp states and code of both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from gpuprof.comparison.contract import (
    SIDES,
    ComparedKernel,
    Comparison,
    CountChange,
    FindingChange,
    KernelChange,
    TimeChange,
)
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import SideKernel
from gpuprof.model.headline import limited_by, stalls_of
from gpuprof.model.session import KernelProfile, Stall
from gpuprof.model.stalls import NOT_STALLED, stall_name
from gpuprof.text import cut_end, cut_middle
from gpuprof.units import counted, format_percent, format_si, format_waves, signed_percent, significant
from gpuprof.views.document import Block, Cell, Column, Facts, Fold, Inline, Note, Table, Tone
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
from gpuprof.words.profile_values import (
    NOT_COLLECTED,
    dims_text,
    percent_text,
    registers_text,
    shared_text,
)
from gpuprof.words.sentences import joined_by, short_list

TIME_TONES: dict[str, Tone] = {"slower": "bad", "faster": "good", "unclear": "warning", "unknown": "warning"}
_LONGEST_SENTENCE = 600
_MOST_OPCODES = 6
_MOST_LINES = 20
_MOST_LISTED = 16
_MOST_STATES = 8
_LEAST_SHARE = 0.005
_LEAST_CYCLES = 0.01
# ncu averages clocks over a launch.
_SAME_CLOCK = 0.01
# Below it a tolerance is for the rounding of a report.
_LEAST_TOLERANCE = 1e-5
_NAME_LENGTH = 120
_WHOLE_NAME = 2000
_OPCODE = "opcode."
_ABSENT = "not there"
_FINDING_WORDS: dict[str, tuple[str, Tone]] = {
    "went": ("went", "good"), "came": ("came", "bad"), "stayed": ("stays", "muted"),
}  # fmt: skip


class _Quantity(Struct, frozen=True):
    """A fact of a launch or a counter on both sides, as texts."""

    name: str
    base: str
    new: str
    is_changed: bool
    change: Cell = Cell("")
    verdict: str = ""
    counter: str = ""


def changed_kernel(change: KernelChange, pair: Pair, comparison: Comparison) -> Iterator[Block]:
    """Yield everything about a kernel."""
    tone = TIME_TONES.get(change.time.verdict, "")
    yield Note(Cell(_verdict(change), tone), "strong")
    rows = (
        *_causes(change), *_time(change), *_launches(change, comparison), *_findings(change), *_lines(change)
    )  # fmt: skip
    yield Facts(rows)
    launch = list(_launch_quantities(change, pair))
    counts = _count_quantities(change)
    moved = [quantity for quantity in (*launch, *counts) if quantity.is_changed]
    same = [quantity for quantity in (*launch, *counts) if not quantity.is_changed]
    if moved:
        yield _quantity_table(f"What differs, kernel {change.id}", moved, change, _opcodes_left_out(change))
    if same:
        title = "Launch and counters" if change.is_one_sided else "Unchanged values"
        if not change.is_one_sided:
            yield Note(f"Unchanged: {short_list([quantity.name for quantity in same], _MOST_LISTED)}", "muted")
        table = _quantity_table(f"{title}, kernel {change.id}", same, change)
        yield Fold(title, (table,), open=change.is_one_sided)
    yield from _warp_states(change, pair)
    base = _longest(pair.base)
    new = _longest(pair.new)
    if base is not None and new is not None:
        yield from paired_code(change, base, new)
    yield from _full_names(change)


def changes_of_kernel(change: KernelChange) -> Iterator[Block]:
    """Yield the counters, lines and findings of a kernel that changed; nothing if none did."""
    counts = [quantity for quantity in _count_quantities(change) if quantity.is_changed]
    if counts:
        yield _quantity_table(f"Counters, kernel {change.id}", counts, change)
    findings = [(word, text) for word, text in _findings(change) if word != "stays"]
    rows = (*findings, *_lines(change))
    if rows:
        yield Facts(rows)


def sentence(text: str) -> str:
    """Return a sentence of a limited length: texts of reports may be as long as their authors like."""
    return cut_end(text[: 8 * _LONGEST_SENTENCE], _LONGEST_SENTENCE)


def finite(value: float | None) -> float | None:
    """Return a number that a table can be sorted by."""
    return value if value is not None and math.isfinite(value) else None


def _verdict(change: KernelChange) -> str:
    """Write what became of the kernel, and what that is of the run."""
    verdict = change.sentence if change.is_one_sided else kernel_verdict(change)
    effect = finite(change.effect)
    share = f"{signed_percent(effect)} of the base's GPU time" if effect is not None else ""
    return joined_by("; ", sentence(verdict), share)


def _causes(change: KernelChange) -> Iterator[tuple[str, Inline]]:
    """Yield the causes, with their certainty unless they are counted."""
    for index, cause in enumerate(change.causes):
        line = cause.location
        place = f"{file_name(line.file)}:{line.line}" if line is not None and not names_its_file(change) else ""
        doubt = cause.certainty if cause.certainty != "counted" else ""
        known = joined_by(", ", cut_middle(place, _NAME_LENGTH), doubt)
        text = sentence(cause.sentence)
        yield "" if index else "why", f"{text} ({known})" if known else text


def _time(change: KernelChange) -> Iterator[tuple[str, Inline]]:
    """Yield the verdict on time in seconds and in cycles, from how many runs, at which noise, and why it is unclear."""
    if change.is_one_sided:
        return
    time = change.time
    texts: list[str] = [time.verdict]
    if time.base_s is not None or time.new_s is not None:
        values = both_text(time.base_s, time.new_s, "s")
        texts = [f"{time.verdict}: {values}{_change(time.ratio, interval_text(time.interval))}"]
    if time.base_cycles is not None and time.new_cycles is not None:
        cycles = both_text(time.base_cycles, time.new_cycles)
        texts.append(f"SM cycles {cycles}{_change(time.cycles_ratio, interval_text(time.cycles_interval))}")
    texts += _samples(time)
    for index, text in enumerate(filter(None, texts)):
        yield "" if index else "time", sentence(text)


def _samples(time: TimeChange) -> Iterator[str]:
    measured = samples_text(time)
    if measured:
        yield f"measured: {measured}"
    if time.noise is not None:
        source = f" ({time.noise_source})" if time.noise_source else ""
        yield f"noise {format_percent(time.noise)}{source}"
    yield time.reason
    if time.runs_needed is not None:
        yield f"{runs_needed_text(time)} at this noise"


def _change(ratio: float | None, interval: str) -> str:
    if ratio is None:
        return ""
    at = f"; {interval} at 99 %" if interval else ""
    return f" ({change_text(ratio)}{at})"


def _launches(change: KernelChange, comparison: Comparison) -> Iterator[tuple[str, Inline]]:
    """Yield how the sides were matched, how each was launched, and the verdict on the work."""
    match = match_text(change)
    if match:
        yield "matched", sentence(match)
    base = [_launch(kernel, comparison.base.files, change) for kernel in change.base]
    new = [_launch(kernel, comparison.new.files, change) for kernel in change.new]
    if base == new and len(base) == 1:
        yield "launch", f"{base[0]}, on both sides"
    else:
        for name, texts in zip(SIDES, (base, new), strict=True):
            for text in texts:
                yield name, text
    if not change.is_one_sided:
        yield "work", sentence(joined_by(": ", change.work.verdict, change.work.reason))


def _launch(kernel: ComparedKernel, files: Sequence[str], change: KernelChange) -> str:
    """Write how a kernel was launched; its name if that is not the change's, its file if the side has several."""
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
    place = ""
    if finding.location is not None:
        place = f"at {cut_middle(file_name(finding.location.file), _NAME_LENGTH)}:{finding.location.line}"
    gain = gain_text(finding) if finding.word == "went" else ""
    return joined_by("; ", headline, place, gain)


def _launch_quantities(change: KernelChange, pair: Pair) -> Iterator[_Quantity]:
    """Yield the facts of a launch that no counter of the change repeats."""
    base = _longest(pair.base)
    new = _longest(pair.new)
    for name, count, text in _FACTS:
        if count and change.work.count(count) is not None:
            continue
        texts = [text(kernel) if kernel is not None else _ABSENT for kernel in (base, new)]
        if set(texts) <= {NOT_COLLECTED, _ABSENT}:
            continue
        yield _Quantity(name, texts[0], texts[1], is_changed=_differ(*texts))
    for name, of in _CLOCKS:
        clocks = [of(kernel) if kernel is not None else None for kernel in (base, new)]
        if any(clocks):
            texts = [format_si(clock, "Hz") if clock else NOT_COLLECTED for clock in clocks]
            is_changed = bool(clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > _SAME_CLOCK)
            yield _Quantity(name, texts[0], texts[1], is_changed)


def _differ(base: str, new: str) -> bool:
    return base != new and not {base, new} & {NOT_COLLECTED, _ABSENT}


def _longest(kernels: Sequence[SideKernel]) -> KernelProfile | None:
    """Return the representative of the kernel of a side that takes longest."""
    longest = max(kernels, key=lambda kernel: kernel.total_s or 0.0, default=None)
    return longest.representative if longest is not None else None


def _theoretical(kernel: KernelProfile) -> str:
    fraction = kernel.occupancy.theoretical
    if fraction is None:
        return NOT_COLLECTED
    return joined_by(", ", format_percent(fraction), limited_by(kernel.occupancy))


def _waves(kernel: KernelProfile) -> str:
    return format_waves(kernel.waves) if kernel.waves is not None else NOT_COLLECTED


# Name, the count that says the same, and the text.
_FACTS: tuple[tuple[str, str, Callable[[KernelProfile], str]], ...] = (
    ("Waves", "", _waves),
    ("Registers per thread", "registers", registers_text),
    ("Shared memory per block", "shared-memory", shared_text),
    ("Theoretical occupancy", "occupancy", _theoretical),
    ("Achieved occupancy", "", lambda kernel: percent_text(kernel.occupancy.achieved)),
)
_CLOCKS: tuple[tuple[str, Callable[[KernelProfile], float | None]], ...] = (
    ("SM clock", lambda kernel: kernel.sm_clock_hz),
    ("DRAM clock", lambda kernel: kernel.dram_clock_hz),
)


def _count_quantities(change: KernelChange) -> list[_Quantity]:
    """Return the counters; of the opcodes that are not the same only those that moved most."""
    opcodes = [count for count in change.work.counts if count.name.startswith(_OPCODE)]
    others = [count for count in change.work.counts if not count.name.startswith(_OPCODE)]
    moved = [count for count in opcodes if count.word != "same"]
    moved.sort(key=_size, reverse=True)
    return [_quantity(count) for count in (*others, *moved[:_MOST_OPCODES])]


def _opcodes_left_out(change: KernelChange) -> str:
    moved = [count for count in change.work.counts if count.name.startswith(_OPCODE) and count.word != "same"]
    left_out = len(moved) - _MOST_OPCODES
    return f"{counted(left_out, 'more opcode')} changed less: --format json has all" if left_out > 0 else ""


def _size(count: CountChange) -> float:
    return finite(abs((count.new or 0.0) - (count.base or 0.0))) or 0.0


def _quantity(count: CountChange) -> _Quantity:
    base, new = side_texts(count.base, count.new, count.unit, count.name)
    is_less_good = count.name == "occupancy"
    tones: dict[str, Tone] = {"more": "good" if is_less_good else "bad", "less": "bad" if is_less_good else "good"}
    verdict = count.word.replace("-", " ")
    tolerance = f"±{format_percent(count.tolerance)} is the same" if count.tolerance >= _LEAST_TOLERANCE else "exact"
    return _Quantity(
        cut_middle(count_name(count.name), _NAME_LENGTH),
        base,
        new,
        is_changed=count.word != "same",
        change=Cell(change_text(count.ratio, ""), tones.get(count.word, ""), whole=tolerance),
        verdict=joined_by(", ", verdict, "depends on the data" if count.data_dependent else ""),
        counter=cut_middle(count.metric, _NAME_LENGTH),
    )


def _quantity_table(label: str, quantities: Sequence[_Quantity], change: KernelChange, more: str = "") -> Table:
    """Return a table of both sides, or of the side that has the kernel."""
    columns: list[Column] = [Column("quantity")]
    if change.lacking != "base":
        columns.append(Column("base", "number"))
    if change.lacking != "new":
        columns.append(Column("new", "number"))
    if change.lacking is None:
        columns += [Column("change", "number"), Column("verdict")]
    columns.append(Column("counter", rank=1))
    rows: list[tuple[Inline, ...]] = []
    for quantity in quantities:
        row: list[Inline] = [quantity.name]
        if change.lacking != "base":
            row.append(quantity.base)
        if change.lacking != "new":
            row.append(quantity.new)
        if change.lacking is None:
            row += [quantity.change, quantity.verdict]
        row.append(Cell(quantity.counter, "muted", code=True))
        rows.append(tuple(row))
    return Table(label, tuple(columns), tuple(rows), more=more)


def _lines(change: KernelChange) -> Iterator[tuple[str, Inline]]:
    for index, line in enumerate(change.lines[:_MOST_LINES]):
        text = joined_by(": ", line_text(line, file_name(line.file)), line.text.strip())
        yield "" if index else "lines", sentence(text)
    more = len(change.lines) - _MOST_LINES
    if more > 0:
        yield "", f"and {counted(more, 'more line')}"


def _warp_states(change: KernelChange, pair: Pair) -> Iterator[Block]:
    """Yield the states of the warps on both sides; nothing if a side has none."""
    base = _longest(pair.base)
    new = _longest(pair.new)
    if base is None or new is None or not stalls_of(base) or not stalls_of(new):
        return
    families = [family_text(kernel) for kernel in (base, new)]
    if families[0] != families[1]:
        yield Note(f"Warp states cannot be compared: base is {families[0]}, new is {families[1]}.", "muted")
        return
    before = {stall.reason: stall for stall in stalls_of(base)}
    after = {stall.reason: stall for stall in stalls_of(new)}
    shares = {}
    for reason in dict.fromkeys((*before, *after)):
        shares[reason] = max(_share(before.get(reason)), _share(after.get(reason)))
    most = sorted((reason for reason in shares if shares[reason] >= _LEAST_SHARE), key=lambda reason: -shares[reason])
    rows: list[tuple[Inline, ...]] = []
    for reason in most[:_MOST_STATES]:
        sides = (before.get(reason), after.get(reason))
        note = " (no stall)" if reason in NOT_STALLED else ""
        bars = [Cell(format_percent(_share(stall)), bar=_share(stall)) for stall in sides]
        rows.append((f"{stall_name(reason)}{note}", *bars, *map(_cycles, sides)))
    cycles = "Warp cycles in this state per issued instruction."
    columns = (
        Column("warp state"),
        Column("base", "number"),
        Column("new", "number"),
        Column("base cycles", "number", 1, cycles),
        Column("new cycles", "number", 1, cycles),
    )
    if rows:
        yield Table(f"Shares of warp states, {families[0]}, kernel {change.id}", columns, tuple(rows))


def _share(stall: Stall | None) -> float:
    return stall.share if stall is not None else 0.0


def _cycles(stall: Stall | None) -> str:
    if stall is None or stall.cycles_per_issue is None:
        return ""
    return significant(stall.cycles_per_issue) if stall.cycles_per_issue >= _LEAST_CYCLES else f"<{_LEAST_CYCLES}"


def _full_names(change: KernelChange) -> Iterator[Block]:
    """Yield the full names if the label is shorter."""
    rows: list[tuple[str, Inline]] = []
    for name, kernels in zip(SIDES, (change.base, change.new), strict=True):
        for full in dict.fromkeys(kernel.demangled for kernel in kernels):
            if full != change.label:
                rows.append((name, Cell(cut_middle(full, _WHOLE_NAME), code=True)))
    if rows:
        yield Fold("Full name", (Facts(tuple(rows)),))
