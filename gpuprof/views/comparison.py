"""The view of a comparison: brief for a screen or a comment on a pull request, whole for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import (
    ComparedSide,
    Comparison,
    Gate,
    GateCheck,
    KernelChange,
    RunCondition,
    SideName,
    figures_to_show,
)
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import Side
from gpuprof.text import cut_end, cut_middle
from gpuprof.units import counted, signed_percent
from gpuprof.views.changed_kernel import TIME_TONES, changed_kernel, finite, sentence
from gpuprof.views.document import (
    Block,
    Cell,
    Column,
    Document,
    Facts,
    Fold,
    Heading,
    Inline,
    Note,
    Table,
    Tone,
)
from gpuprof.views.options import WriteOptions
from gpuprof.words.comparison_conditions import condition_values
from gpuprof.words.comparison_gate import CHECK_WORDS, gate_text
from gpuprof.words.comparison_rows import changed_rows, folded, quiet_rows
from gpuprof.words.comparison_values import (
    change_text,
    count_name,
    gpu_texts,
    interval_text,
    value_text,
)
from gpuprof.words.comparison_verdicts import beside_figures, quantity_text, quiet_texts, time_texts, verdicts_text
from gpuprof.words.file_names import file_name
from gpuprof.words.profile_values import dims_text
from gpuprof.words.provenance import run_facts, source_facts
from gpuprof.words.sentences import capital, joined_by, short_list

if TYPE_CHECKING:
    from rich.console import Console

# CI finds its comment again by this line, to update it.
MARKER = "<!-- gpuprof-compare -->"
_COMMENT_ROWS = 10
_FEW_KERNELS = 12
_MOST_ROWS = 100
_MOST_OTHERS = 1000
_MOST_SECTIONS = 20
_BRIEF_CHECKS = 3
_PAGE_CHECKS = 10
_MOST_CHECKS = 60
_BRIEF_CONDITIONS = 2
_BRIEF_NOTES = 2
_SHORT_VERDICT = 200
_MOST_FILES = 3
_NAME_LENGTH = 120
_FILE_LENGTH = 100
_LIMIT_LENGTH = 40
_NONE = "–"
_CHECK_TONES: dict[str, Tone] = {
    "regression": "bad", "unclear": "warning", "not-compared": "warning", "accepted": "muted",
}  # fmt: skip
_COLUMNS = (
    Column("#", "number"),
    Column("kernel", "name"),
    Column("base", "number", meaning="Median time of a launch on the base side."),
    Column("new", "number", meaning="Median time of a launch on the new side."),
    Column("change", "number", meaning="Of the time of a launch: new to base."),
    Column("at 99 %", "number", rank=4, meaning="The interval of that change, with the spread between runs."),
    Column(
        "time", id="word", meaning="Verdict on the time, which is sampled; unclear: too few launches or too much noise."
    ),
    Column("work", rank=2, id="word", meaning="Verdict on what a launch executes and moves, which is counted."),
    Column("on the run", "number", rank=3, meaning="What all launches add to the GPU time of the base."),
    Column("why", "sentence"),
)


def print_comparison(
    console: Console, compared: Compared, *, top: int | None = None, verbose: bool = False, chosen: bool = False
) -> None:
    """Print the first `top` kernels that changed (0: all kernels; None: as many as a screen of 30 lines has room for).

    With `verbose` each kernel that changed is printed in depth; with `chosen`, if the user named kernels, each of them.
    """
    from gpuprof.views.terminal import SCREEN_HEIGHT, print_document

    if verbose or chosen:
        kernels: Sequence[KernelChange] = compared.comparison.kernels
        shown = kernels if chosen or top == 0 else changed_rows(kernels)
        print_document(console, whole_comparison(compared, shown[: top or None]), "short")
    else:
        height = SCREEN_HEIGHT if top is None else None
        print_document(console, brief_comparison(compared, top), "short", height)


def comment_lines(compared: Compared, options: WriteOptions) -> Iterator[str]:
    """Yield Markdown for a pull request, at most as long as a comment may be."""
    from gpuprof.views.markdown import markdown_lines

    yield MARKER
    yield from markdown_lines(brief_comparison(compared, _COMMENT_ROWS if options.top is None else options.top))


def brief_comparison(compared: Compared, top: int | None = None) -> Document:
    """Return the verdict, the gate and the kernels that changed; all else is folded away."""
    comparison = compared.comparison
    kernels = folded(comparison.kernels)
    checks = comparison.gate.checks if comparison.gate is not None else ()
    failing = {check.kernel for check in checks if check.word == "regression"}
    rows: Sequence[KernelChange] = sorted(changed_rows(kernels), key=lambda kernel: kernel.id not in failing)
    if top is not None:
        rows = rows[:top] if top else kernels
    others = _without(kernels, rows)
    forbidding = comparison.forbidding[:_BRIEF_CONDITIONS]
    hidden = len(comparison.conditions) - len(forbidding)
    more = [("runs", Cell(f"{counted(hidden, 'note')} on the runs: -v shows all", "muted"))] if hidden else []
    verdict = capital(sentence(comparison.sentence))
    blocks = [
        Note(verdict, "strong", short=cut_end(verdict, _SHORT_VERDICT)),
        Facts((*_sides(comparison), *_conditions(forbidding), *more)),
        *gate_blocks(comparison.gate, _labels(comparison)),
        *_kernel_table(rows, others),
        *_notes(comparison.notes[:_BRIEF_NOTES]),
        *(_section(change, comparison) for change in rows[:_MOST_SECTIONS]),
    ]
    if others:
        blocks.append(Fold(counted(len(others), "other kernel"), (_table(others[:_MOST_OTHERS], "Other kernels"),)))
    made_by = ("gpuprof", f"{comparison.gpuprof_version}; intervals at 99 %")
    blocks.append(Fold("How this was compared", (Facts((*_conditions(comparison.conditions), made_by)),)))
    return Document(_title(comparison), tuple(blocks), version=comparison.gpuprof_version)


def page_lines(compared: Compared, _options: object = None) -> list[str]:
    """Return the lines of the page."""
    from gpuprof.views.html import render_page

    return render_page(whole_comparison(compared)).split("\n")


def whole_comparison(compared: Compared, chosen: Sequence[KernelChange] | None = None) -> Document:
    """Return everything about a comparison: in depth the chosen kernels, or of those that changed the first ones.

    Figures are drawn if no kernel is chosen.
    """
    comparison = compared.comparison
    pairs = {change.id: pair for change, pair in zip(comparison.kernels, compared.pairs, strict=True)}
    rows: Sequence[KernelChange] = comparison.kernels
    in_depth = chosen
    left_out = 0
    if in_depth is None:
        changed = []
        for change in rows:
            if change.is_changed or any(finding.word != "stayed" for finding in change.findings):
                changed.append(change)
        in_depth = changed[:_MOST_SECTIONS]
        left_out = len(changed) - len(in_depth)
    if chosen is not None or len(rows) > _FEW_KERNELS:
        rows = (chosen or changed_rows(rows))[:_MOST_ROWS]
    targets = {change.id: f"kernel-{change.id}" for change in in_depth}
    others = _without(comparison.kernels, rows)
    blocks: list[Block] = [
        Note(capital(sentence(comparison.sentence)), "strong"),
        Facts(tuple(_sides(comparison))),
        *_notes(comparison.notes),
    ]
    if comparison.gate is not None:
        blocks += [
            Heading("Gate", anchor="gate"),
            *gate_blocks(comparison.gate, _labels(comparison), targets, are_folded=chosen is None),
        ]
    if comparison.conditions:
        blocks += [Heading("Conditions", anchor="conditions"), Facts(tuple(_conditions(comparison.conditions)))]
    blocks += [Heading("Kernels", anchor="kernels"), *_kernel_table(rows, others, targets)]
    if others:
        table = _table(others[:_MOST_OTHERS], "Other kernels", targets)
        blocks.append(Fold(f"{counted(len(others), 'more kernel')}: {verdicts_text(others)}", (table,)))
    if chosen is None:
        blocks += _figures(compared)
    if in_depth:
        blocks.append(Heading("Kernel by kernel", anchor="details"))
    if left_out:
        rest = counted(left_out, "more kernel")
        blocks.append(Note(f"Only those with most effect are here; {rest} changed, too.", "muted"))
    for change in in_depth:
        blocks.append(_section(change, comparison, pairs[change.id]))
    runs = (*_runs("base", compared.base), *_runs("new", compared.new))
    blocks.append(Fold("Provenance", runs, anchor="provenance"))
    return Document(_title(comparison), tuple(blocks), version=comparison.gpuprof_version)


def _labels(comparison: Comparison) -> dict[int, str]:
    return {kernel.id: kernel.label for kernel in comparison.kernels}


def _without(kernels: Sequence[KernelChange], shown: Sequence[KernelChange]) -> list[KernelChange]:
    ids = {kernel.id for kernel in shown}
    return [kernel for kernel in kernels if kernel.id not in ids]


def _figures(compared: Compared) -> Iterator[Block]:
    from gpuprof.views.comparison_figure import comparison_figures

    rows = {change.id: f"#row-{change.id}" for change in compared.comparison.kernels}
    for figure in comparison_figures(compared, rows):
        if figure.svg is not None:
            yield Heading("Roofline of both sides", anchor="roofline")
            yield figure
        else:
            yield Note(f"Roofline: {' '.join(figure.notes)}", "muted")


def _title(comparison: Comparison) -> str:
    return f"Comparison: {_files(comparison, comparison.base, 1)} → {_files(comparison, comparison.new, 1)}"


def _files(comparison: Comparison, side: ComparedSide, most: int = _MOST_FILES) -> str:
    """List the files of a side, each with its folder if files of one name are compared."""
    every = {*comparison.base.files, *comparison.new.files}
    names = [file_name(file) for file in side.files]
    if len({file_name(file) for file in every}) < len(every):
        names = ["/".join(file.replace("\\", "/").split("/")[-2:]) for file in side.files]
    return short_list([cut_middle(name, _FILE_LENGTH) for name in names], most) or "nothing"


def _sides(comparison: Comparison) -> Iterator[tuple[str, Inline]]:
    """Yield the two sides and the figures of the run that changed, beside the time that the sentence has."""
    for name, side in (("base", comparison.base), ("new", comparison.new)):
        parts = [cut_middle(text, _FILE_LENGTH) for text in gpu_texts(side.gpus)[:_MOST_FILES]]
        if len(side.files) > 1:
            parts.append(counted(len(side.files), "run"))
        parts.append(counted(side.kernels, "kernel"))
        parts.append(counted(side.launches, "launch", "es"))
        if side.time_s is not None:
            parts.append(value_text(side.time_s, "s"))
        yield name, f"{_files(comparison, side)}: {', '.join(parts)}"
    texts = []
    for figure in figures_to_show(comparison.total):
        verdict = figure.verdict if figure.verdict != "unknown" else ""
        texts.append(joined_by(" ", quantity_text(figure), verdict))
    if texts:
        yield "run", ", ".join(texts)


def _notes(sentences: Iterable[str]) -> Iterator[Block]:
    for text in sentences:
        yield Note(sentence(text), "muted")


def gate_blocks(
    gate: Gate | None,
    kernels: Mapping[int, str],
    targets: Mapping[int, str] | None = None,
    *,
    whole: str = "the run",
    are_folded: bool = False,
) -> Iterator[Block]:
    """Yield the result and all checks that are not simply ok, those that fail first; without `targets` a few.

    `kernels` are labels by id, `whole` is that of no kernel. If checks `are_folded`, those that do not fail are folded
    away if they are many.
    """
    if gate is None:
        return
    yield Note(gate_text(gate), "good" if gate.passed else "bad")
    labels = {kernel: cut_middle(label, _LIMIT_LENGTH) for kernel, label in kernels.items()}
    checks = sorted(gate.checks, key=lambda check: not gate.fails(check))
    rows = [_check_row(check, labels, targets, whole) for check in checks]
    most = _BRIEF_CHECKS if targets is None else len(rows)
    if are_folded:
        most = max(_PAGE_CHECKS, sum(map(gate.fails, checks)))
    shown, rest = tuple(rows[:most]), tuple(rows[most:])
    if shown:
        yield Facts(shown)
    if rest:
        more = counted(len(rest), "more check")
        short = f"… and {more}: -v shows all"
        yield Fold(more, (Facts(rest if are_folded else rest[:_MOST_CHECKS]),), short=short)


def _check_row(
    check: GateCheck, labels: Mapping[int, str], targets: Mapping[int, str] | None, whole: str
) -> tuple[str, Inline]:
    whose = f"{whole}, " if check.pattern is None else ""
    href = ""
    if check.kernel is not None:
        whose = f"{labels.get(check.kernel, check.kernel)}, "
        href = targets.get(check.kernel, f"row-{check.kernel}") if targets is not None else ""
    text = f"{whose}{cut_middle(check.limit, _LIMIT_LENGTH)}: {sentence(check.sentence)}"
    text = joined_by("; ", text, sentence(check.accepted))
    return CHECK_WORDS.get(check.word, check.word), Cell(text, _CHECK_TONES[check.word], href=href)


def _conditions(conditions: Sequence[RunCondition]) -> Iterator[tuple[str, Inline]]:
    for condition in conditions:
        base, new = [cut_middle(value, _FILE_LENGTH) for value in condition_values(condition)]
        text = sentence(f"{base} and {new}. {condition.sentence}")
        name = cut_middle(count_name(condition.name), _FILE_LENGTH)
        yield name, Cell(text, "warning" if condition.affects is not None else "")


def _kernel_table(
    rows: Sequence[KernelChange], others: Sequence[KernelChange], targets: Mapping[int, str] | None = None
) -> Iterator[Block]:
    """Yield the table, and how many kernels are not in it with which verdicts."""
    quiet = quiet_rows(others)
    if rows:
        left_out = _without(others, quiet)
        more = ""
        if left_out:
            more = f"… and {counted(len(left_out), 'more kernel')} ({verdicts_text(left_out)}): --top 0 shows all"
        yield _table(rows, "Kernels", targets, more)
    elif not others:
        yield Note("No kernel was recorded on either side.", "muted")
    yield from _notes(quiet_texts(quiet))


def _table(
    kernels: Sequence[KernelChange], label: str, targets: Mapping[int, str] | None = None, more: str = ""
) -> Table:
    """Return a row for each kernel, with links to `targets`; without these for a medium that has no links."""
    repeated = Counter(kernel.label for kernel in kernels)
    rows = []
    for kernel in kernels:
        name = kernel.label
        if repeated[name] > 1:
            launched = (*kernel.new, *kernel.base)[0]
            if launched.grid is not None and launched.block is not None:
                name += f" {dims_text(launched.grid)}×{dims_text(launched.block)}"
        rows.append(_row(kernel, name, targets.get(kernel.id, "") if targets else ""))
    return Table(
        label,
        _COLUMNS,
        tuple(rows),
        anchors=tuple(f"row-{kernel.id}" for kernel in kernels) if targets is not None else (),
        more=more,
        least=2,
        short_more=lambda shown: f"… and {counted(len(kernels) - shown, 'more kernel')}: --top 0 shows all",
        filter=targets is not None and len(kernels) > 1,
    )


def _row(kernel: KernelChange, name: str, href: str) -> tuple[Inline, ...]:
    time = kernel.time
    base, new = time_texts(time)
    tone = TIME_TONES.get(time.verdict, "")
    effect = finite(kernel.effect)
    return (
        Cell(str(kernel.id), order=kernel.id),
        Cell(cut_middle(name, _NAME_LENGTH), href=href),
        Cell(base if time.base_s is not None else _NONE, order=finite(time.base_s)),
        Cell(new if time.new_s is not None else _NONE, order=finite(time.new_s)),
        Cell(change_text(time.ratio, _NONE), tone, order=finite(time.ratio)),
        interval_text(time.interval),
        Cell(time.verdict, tone),
        _NONE if kernel.is_one_sided else kernel.work.verdict,
        Cell(signed_percent(effect) if effect is not None else _NONE, order=effect),
        sentence(beside_figures(kernel)),
    )


def _section(change: KernelChange, comparison: Comparison, pair: Pair | None = None) -> Fold:
    """Return a kernel in depth, open with a target of links if its `pair` is given."""
    title = Cell(f"#{change.id} {cut_middle(change.label, _NAME_LENGTH)}", "strong")
    anchor = f"kernel-{change.id}" if pair is not None else ""
    return Fold(title, tuple(changed_kernel(change, comparison, pair)), open=pair is not None, anchor=anchor)


def _runs(name: SideName, side: Side) -> Iterator[Block]:
    for run in side.runs:
        rows = [*run_facts(run.session), ("gpuprof", run.session.gpuprof_version)]
        for source in run.session.sources:
            rows += source_facts(source)
        yield Facts(tuple(rows), label=f"{name}: {cut_middle(file_name(run.file), _FILE_LENGTH)}")
