"""A comparison as one HTML page that needs nothing else: complete without its script, safe for hostile names.

Its contents are one value: texts, and nothing for the templates to decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import Comparison, GateCheck, KernelChange, RunCondition
from gpuprof.comparison.pair import Pair
from gpuprof.present.compare_page.kernels import ChangeTable, change_table
from gpuprof.present.compare_page.parts import TwoSided, told
from gpuprof.present.compare_page.provenance import (
    SideFacts,
    TotalRow,
    short_files,
    side_facts,
    side_rows,
    total_rows,
)
from gpuprof.present.compare_page.section import ChangeSection, change_section
from gpuprof.present.html import page_environment, page_policy, page_source
from gpuprof.present.page.parts import Chart, KernelLabel, chart_of, label
from gpuprof.text import cut_middle, printable
from gpuprof.units import signed_percent
from gpuprof.views.comparison_figure import comparison_figures
from gpuprof.views.glossary import Term, glossary
from gpuprof.views.options import DEFAULTS, WriteOptions
from gpuprof.views.theme import colour_variables
from gpuprof.words.comparison_conditions import condition_values
from gpuprof.words.comparison_gate import CHECK_WORDS, gate_text
from gpuprof.words.comparison_values import count_name
from gpuprof.words.comparison_verdicts import verdicts_text
from gpuprof.words.profile_values import count_text

_MOST_SECTIONS, _MOST_CHECKS, _MOST_NOTES = 20, 60, 6
_VALUE_LENGTH, _FEW = 200, 12
_SCRIPT, _STYLES = "report.js", ("report.css", "compare.css")
_TERMS = (
    Term("verdict on time", "How long a launch takes, sampled: SM cycles where both sides have them, else seconds. "
         "Unclear: too few launches or too much noise to tell."),
    Term("verdict on work", "What a launch executes and moves, counted: the same code on the same data gives the same "
         "counts, whatever else the GPU does."),
    Term("interval", "What the ratio of the times lies between, at 99 %. It includes the spread between runs."),
    Term("tolerance", "What a counter may differ by without a change of the code."),
)  # fmt: skip


class LimitRow(Struct, frozen=True):
    """A limit that did not simply hold."""

    word: str
    name: str
    limit: str
    kernel: KernelLabel | None
    href: str
    change: str
    sentence: str
    accepted: str


class GatePart(Struct, frozen=True):
    """The result of the gate: failed limits first."""

    passed: bool
    text: str
    rows: tuple[LimitRow, ...]
    left_out: int


class ConditionRow(Struct, frozen=True):
    """What is not the same around the two runs."""

    name: str
    base: str
    new: str
    affects: str
    sentence: str


class ComparisonContents(Struct, frozen=True):
    """What the template shows."""

    title: str
    verdict: str
    context: tuple[str, ...]
    sides: tuple[TwoSided, ...]
    gate: GatePart | None
    conditions: tuple[ConditionRow, ...]
    total: tuple[TotalRow, ...]
    table: ChangeTable
    chart: Chart | None
    sections: tuple[ChangeSection, ...]
    sections_left_out: str
    provenance: tuple[SideFacts, ...]
    terms: tuple[Term, ...]
    version: str


def comparison_page(compared: Compared) -> str:
    """Return the page. Folders and what else is private in commands is left out, as on the page of a session."""
    from markupsafe import Markup

    environment = page_environment()
    script = page_source(environment, _SCRIPT)
    style = colour_variables() + "".join(page_source(environment, name) for name in _STYLES)
    return environment.get_template("compare.html").render(
        page=contents_of(compared),
        policy=page_policy(script),
        script=Markup(script),  # noqa: S704  (our own file)
        style=Markup(style),  # noqa: S704  (our own file)
        svg=Markup,
    )


def page_lines(compared: Compared, _options: WriteOptions = DEFAULTS) -> list[str]:
    """Return the lines of the page, without line ends."""
    return comparison_page(compared).split("\n")


def contents_of(compared: Compared) -> ComparisonContents:
    """Return everything that the page says of a comparison."""
    comparison = compared.comparison
    pairs = zip(comparison.kernels, compared.pairs, strict=True)
    changed = [change for change, pair in pairs if _has_section(change, pair)]
    changed.sort(key=lambda change: not change.is_changed)
    detailed = {change.id for change in changed[:_MOST_SECTIONS]}
    sections = tuple(
        change_section(change, pair)
        for change, pair in zip(comparison.kernels, compared.pairs, strict=True)
        if change.id in detailed
    )
    rest = len(changed) - len(sections)
    page = ComparisonContents(
        title=f"Comparison: {short_files(comparison.base)} → {short_files(comparison.new)}",
        verdict=_capital(told(comparison.sentence)),
        context=tuple(_context(comparison)),
        sides=tuple(side_rows(comparison)),
        gate=_gate(comparison, detailed),
        conditions=tuple(map(_condition, comparison.conditions)),
        total=tuple(total_rows(comparison)),
        table=change_table(comparison.kernels, detailed),
        chart=_chart(compared),
        sections=sections,
        sections_left_out=f"Details are given for the {len(sections)} with most effect; "
        f"{count_text(rest, 'more changed kernel')}."
        if rest > 0
        else "",
        provenance=(side_facts(compared.base, "Base"), side_facts(compared.new, "New")),
        terms=(),
        version=printable(comparison.gpuprof_version),
    )
    return replace(page, terms=glossary(page, _TERMS))


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _has_section(change: KernelChange, pair: Pair) -> bool:
    """Return whether there is more to show of a kernel than its row has: of one side, what was counted of it."""
    if change.is_one_sided:
        representatives = [kernel.representative for kernel in (*pair.base, *pair.new)]
        return any(representative.roofline or representative.throughput for representative in representatives)
    moved = any(finding.word != "stayed" for finding in change.findings)
    return change.is_changed or moved or (change.time.verdict, change.work.verdict) == ("unclear", "unclear")


def _context(comparison: Comparison) -> Iterator[str]:
    counts = verdicts_text(comparison.kernels)
    if len(comparison.kernels) > _FEW:
        yield f"{count_text(len(comparison.kernels), 'kernel')}: {counts}."
    for note in comparison.notes[:_MOST_NOTES]:
        yield told(note)
    if len(comparison.notes) > _MOST_NOTES:
        yield f"{count_text(len(comparison.notes) - _MOST_NOTES, 'more note')}: gpuprof compare -v has all."


def _gate(comparison: Comparison, detailed: set[int]) -> GatePart | None:
    gate = comparison.gate
    if gate is None:
        return None
    labels: dict[int | None, str] = {change.id: change.label for change in comparison.kernels}
    return GatePart(
        passed=gate.passed,
        text=gate_text(gate),
        rows=tuple(_gate_row(check, labels, detailed) for check in gate.checks[:_MOST_CHECKS]),
        left_out=max(0, len(gate.checks) - _MOST_CHECKS),
    )


def _gate_row(check: GateCheck, labels: dict[int | None, str], detailed: set[int]) -> LimitRow:
    kernel, name = check.kernel, labels.get(check.kernel)
    return LimitRow(
        word=check.word,
        name=CHECK_WORDS.get(check.word, check.word),
        limit=cut_middle(printable(check.limit), _VALUE_LENGTH),
        kernel=label(name) if name is not None else None,
        href=f"#{'kernel' if kernel in detailed else 'row'}-{kernel}" if name is not None else "",
        change=signed_percent(check.change) if check.change is not None else "",
        sentence=told(check.sentence),
        accepted=told(check.accepted),
    )


def _condition(condition: RunCondition) -> ConditionRow:
    base, new = condition_values(condition)
    affects = {"both": "no verdict", None: ""}
    return ConditionRow(
        name=_capital(printable(count_name(condition.name))),
        base=cut_middle(told(base), _VALUE_LENGTH),
        new=cut_middle(told(new), _VALUE_LENGTH),
        affects=affects.get(condition.affects, f"no verdict on {condition.affects}"),
        sentence=told(condition.sentence),
    )


def _chart(compared: Compared) -> Chart | None:
    links = {change.id: f"#row-{change.id}" for change in compared.comparison.kernels}
    return next(map(chart_of, comparison_figures(compared, links)), None)
