"""A comparison as Markdown for a pull request: verdict, gate and changed kernels, all else folded.

GitHub takes 65,536 characters a comment ("body is too long (maximum is 65536 characters)", as its API answers; seen in
danger/danger#424). What does not fit is counted. The first line is a comment that does not show: by it CI finds its
comment again, to update it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import (
    ComparedSide,
    Comparison,
    GateCheck,
    KernelChange,
    figures_to_show,
)
from gpuprof.present.markdown_parts import MOST_CHARACTERS, Page, cell
from gpuprof.views.exports.problems import sentence, short_name
from gpuprof.views.options import DEFAULTS, WriteOptions
from gpuprof.words.comparison_conditions import condition_values
from gpuprof.words.comparison_gate import gate_text
from gpuprof.words.comparison_values import change_text, count_name, count_values, gpu_texts, interval_text
from gpuprof.words.comparison_verdicts import (
    changed_counts,
    gain_text,
    line_text,
    match_text,
    quantity_text,
    reason_text,
    time_text,
    time_values,
    verdicts_text,
    work_text,
)
from gpuprof.words.file_names import file_name
from gpuprof.words.profile_values import count_text

MARKER = "<!-- gpuprof-compare -->"
ROWS = 10
_CHECKS, _CONDITIONS, _COUNTS, _LINES, _FINDINGS, _CAUSES, _FILES = 10, 5, 12, 5, 6, 2, 4
_TEXT_WIDTH = 300
_GATE_ORDER = ("regression", "accepted", "unclear", "not-compared")
_TABLE = ("| kernel | time | median launch | work | why |", "|---|---|--:|---|---|")
_COUNTS_TABLE = ("| counter | base → new | change |", "|---|--:|--:|")


def lines(compared: Compared, options: WriteOptions = DEFAULTS) -> Iterator[str]:
    """Yield the comment: what changed in a table of `top` kernels, then folded sections as long as there is room."""
    comparison = compared.comparison
    top = ROWS if options.top is None else options.top
    changed = changed_kernels(comparison)
    shown = changed[:top] if top else changed
    named = {kernel.id for kernel in shown}
    rest = [kernel for kernel in comparison.kernels if kernel.id not in named]
    ending = Page(MOST_CHARACTERS)
    ending.folded("How this was compared", [list(_provenance(comparison))], "line")
    page = Page(MOST_CHARACTERS - ending.length)
    page.add(MARKER, f"**{cell(comparison.sentence, _TEXT_WIDTH)}**", "")
    page.add(*_conditions(comparison), *_gate(comparison), *_totals(comparison))
    if shown:
        page.table(_TABLE, map(_row, shown), "more changed kernel")
    page.add(*_below_table(comparison, changed, shown))
    page.folded("Limits that do not fail the gate", _told_checks(comparison), "more check")
    page.folded(
        "Counters, lines and findings that changed",
        [block for kernel in shown if (block := _details(kernel))],
        "more kernel",
    )
    if rest:
        page.folded_table(count_text(len(rest), "other kernel"), _TABLE, map(_row, rest))
    yield from (*page.lines, *ending.lines)


def changed_kernels(comparison: Comparison) -> list[KernelChange]:
    """Return the kernels whose time or work changed, in their order, those that a limit is broken for first."""
    checks = comparison.gate.checks if comparison.gate is not None else ()
    broken = {check.kernel for check in checks if check.word == "regression"}
    changed = [kernel for kernel in comparison.kernels if kernel.id in broken or kernel.is_changed]
    return sorted(changed, key=lambda kernel: kernel.id not in broken)


def _conditions(comparison: Comparison) -> Iterator[str]:
    """Yield what forbids a verdict."""
    for condition in comparison.forbidding[:_CONDITIONS]:
        yield f"- **Not alike**: {cell(condition.sentence, _TEXT_WIDTH)}"
    if comparison.forbidding:
        yield ""


def _gate(comparison: Comparison) -> Iterator[str]:
    """Yield whether the limits hold, and what fails them."""
    gate = comparison.gate
    if gate is None:
        return
    yield f"**{gate_text(gate)}**"
    yield ""
    failing = [check for check in gate.checks if gate.fails(check)]
    yield from _check_lines(comparison, failing[:_CHECKS])
    if len(failing) > _CHECKS:
        yield f"- and {count_text(len(failing) - _CHECKS, 'more check')}"
    if failing:
        yield ""


def _check_lines(comparison: Comparison, checks: Sequence[GateCheck]) -> list[str]:
    whose: dict[int | None, str] = {kernel.id: f"{short_name(kernel.label)}: " for kernel in comparison.kernels}
    return [_check_line(check, whose.get(check.kernel, "")) for check in checks]


def _check_line(check: GateCheck, whose: str) -> str:
    """Write the check of a limit that is not kept."""
    accepted = f" Accepted: {cell(check.accepted, _TEXT_WIDTH)}" if check.accepted else ""
    text = cell(whose + sentence(check.sentence), _TEXT_WIDTH)
    return f"- **{check.word}** of {cell(check.limit)}: {text}{accepted}"


def _totals(comparison: Comparison) -> Iterator[str]:
    """Yield the figures of the run beside the time that the verdict has."""
    figures = figures_to_show(comparison.total)
    if figures:
        yield " · ".join(cell(quantity_text(figure)) for figure in figures)
        yield ""


def _row(kernel: KernelChange) -> str:
    match = match_text(kernel)
    span = interval_text(kernel.time.interval) if kernel.time.is_change else ""
    cells = (
        cell(short_name(kernel.label)) + (f" ({cell(match)})" if match else ""),
        cell(time_text(kernel.time)) + (f" ({cell(span)})" if span else ""),
        cell(time_values(kernel.time)),
        cell(work_text(kernel.work)) if not kernel.is_one_sided else "",
        cell(_why(kernel), _TEXT_WIDTH),
    )
    return f"| {' | '.join(cells)} |"


def _why(kernel: KernelChange) -> str:
    """Return the causes of a change, else why there is no verdict; empty if there is nothing to explain."""
    causes = [
        f"{cause.sentence} ({line.file}:{line.line})" if (line := cause.location) is not None else cause.sentence
        for cause in kernel.causes
    ]
    if causes:
        return "; ".join(causes[:_CAUSES])
    return kernel.sentence if kernel.time.is_change else reason_text(kernel.time)


def _below_table(
    comparison: Comparison, changed: Sequence[KernelChange], shown: Sequence[KernelChange]
) -> Iterator[str]:
    yield ""
    if len(changed) > len(shown):
        yield f"{count_text(len(changed) - len(shown), 'more changed kernel')} below.  "
    kernels = count_text(len(comparison.kernels), "kernel")
    yield f"Time of {kernels}: {verdicts_text(comparison.kernels)}." if comparison.kernels else "No kernels."
    for note in comparison.notes[:_CONDITIONS]:
        yield f"- {cell(note, _TEXT_WIDTH)}"
    yield ""


def _told_checks(comparison: Comparison) -> list[list[str]]:
    """Return what was accepted, unclear or not compared, a block each."""
    gate = comparison.gate
    told = [check for check in gate.checks if not gate.fails(check)] if gate is not None else []
    return [[line] for line in _check_lines(comparison, sorted(told, key=lambda check: _GATE_ORDER.index(check.word)))]


def _details(kernel: KernelChange) -> list[str]:
    """Return counters, lines and findings of a kernel; nothing if none changed."""
    counts = changed_counts(kernel.work)
    told = [*_lines(kernel), *_findings(kernel)]
    if not counts and not told:
        return []
    made = [f"**{cell(short_name(kernel.label))}**: {cell(kernel.sentence, _TEXT_WIDTH)}", ""]
    if counts:
        made += _COUNTS_TABLE
        for count in counts[:_COUNTS]:
            made.append(
                f"| {cell(count_name(count.name))} | {cell(count_values(count))} | {change_text(count.ratio, '')} |"
            )
        made.append("")
        if len(counts) > _COUNTS:
            made += [f"{count_text(len(counts) - _COUNTS, 'more counter')} in the JSON.", ""]
    return [*made, *told, ""] if told else made


def _lines(kernel: KernelChange) -> Iterator[str]:
    for line in kernel.lines[:_LINES]:
        yield f"- {cell(line_text(line, file_name(line.file)))}"
    if len(kernel.lines) > _LINES:
        yield f"- and {count_text(len(kernel.lines) - _LINES, 'more line')}"


def _findings(kernel: KernelChange) -> Iterator[str]:
    told = [change for change in kernel.findings if change.word != "stayed"]
    for change in told[:_FINDINGS]:
        headline = change.new if change.word == "came" else change.base
        gain = gain_text(change) if change.word == "went" else ""
        yield f"- {change.word}: {cell(headline or change.rule, _TEXT_WIDTH)}{cell(f' ({gain})' if gain else '')}"
    if len(told) > _FINDINGS:
        yield f"- and {count_text(len(told) - _FINDINGS, 'more finding')}"


def _provenance(comparison: Comparison) -> Iterator[str]:
    yield from _side("Base", comparison.base)
    yield from _side("New", comparison.new)
    for condition in comparison.conditions[:_CONDITIONS]:
        base, new = condition_values(condition)
        yield f"{cell(condition.name)}: {cell(base)} and {cell(new)}  "
    yield f"gpuprof {cell(comparison.gpuprof_version)}; intervals at 99 %."


def _in_folder(file: str) -> str:
    """Return a file with the folder that it is in, which distinguishes files of one name."""
    return "/".join(re.split(r"[/\\]", file)[-2:])


def _side(name: str, side: ComparedSide) -> Iterator[str]:
    names = [file_name(file) for file in side.files]
    told = names if len(set(names)) == len(names) else list(map(_in_folder, side.files))
    files = list(map(cell, told[:_FILES]))
    if len(side.files) > _FILES:
        files.append(f"{len(side.files) - _FILES} more")
    gpus = ", ".join(map(cell, gpu_texts(side.gpus)[:_FILES])) or "GPU not known"
    launches = f"{count_text(side.kernels, 'kernel')}, {count_text(side.launches, 'launch', 'es')} a run"
    yield f"{name}: {', '.join(files) or 'no file'}; {gpus}; {launches}  "
