"""The whole page as one value: which kernels get a row, a point and a section, and what every part says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.summary import chosen
from gpuprof.model.headline import by_time
from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.time_by import TimeBy, first_times
from gpuprof.present.page.charts import overview_charts
from gpuprof.present.page.findings import FixLine, fix_line
from gpuprof.present.page.kernels import KernelRow, columns_of, kernel_rows
from gpuprof.present.page.parts import Chart, LabelledText, Table
from gpuprof.present.page.provenance import ceiling_table, denominator_table, header_facts, run_facts, source_facts
from gpuprof.present.page.section import Section, kernel_section
from gpuprof.present.page.strips import Drawing, timeline_drawings
from gpuprof.present.time_by_text import columns_of as columns_of_times
from gpuprof.present.time_by_text import header_text, note_texts, rows_of, rows_of_cells
from gpuprof.units import format_percent
from gpuprof.views.glossary import Term, glossary
from gpuprof.words.profile_values import count_text, row_noun, verdict_text
from gpuprof.words.recommendations import Summary, summary_of
from gpuprof.words.sentences import capital
from gpuprof.words.session import worded
from gpuprof.words.timeline import timeline_facts
from gpuprof.workers import Worth, made_by_workers

_TABLE_ROWS = 1000
_MANY_ROWS = 200
"""With more, a browser lays out the table and the sections when they come into sight: three times as fast."""
_CHARTS = Worth(32, each=16)
"""Kernels with charts, of 15 ms each; fewer are drawn sooner than processes start."""


class Choice(Struct, frozen=True):
    """What the reader asked for: the title, how many sections (0: all), which kernels, and which ceilings."""

    title: str | None = None
    top: int = 12
    kernels: frozenset[int] | None = None
    level: str = "dram"
    ceiling: str = "at-clock"


class SessionPage(Struct, frozen=True):
    """What the template shows: texts, and nothing to decide."""

    title: str
    verdict: str
    context: tuple[str, ...]
    header: tuple[LabelledText, ...]
    summary: Summary
    legend: str
    fixes: tuple[FixLine, ...]
    fixes_doubted: bool
    charts: tuple[Chart, ...]
    diagnosed: bool
    operators: tuple[Table, tuple[str, ...]] | None
    rows: tuple[KernelRow, ...]
    columns: frozenset[str]
    rows_left_out: str | None
    is_long: bool
    sections: tuple[Section, ...]
    sections_left_out: str | None
    sources: tuple[tuple[LabelledText, ...], ...]
    run: tuple[LabelledText, ...]
    timeline: tuple[LabelledText, ...]
    strips: tuple[Drawing, ...]
    ceilings: Table
    denominators: Table
    terms: tuple[Term, ...]
    version: str


def build_page(whole: Session, choice: Choice) -> SessionPage:
    """Return the page of a session; `choice.kernels` restricts all but the sentence on how the time is spread."""
    session = part_of(whole, choice.kernels)
    kernels = by_time(session.kernels)
    summary = summary_of(session)
    first = frozenset(item.kernel for item in summary.fixes)
    detailed = [
        kernel for rank, kernel in enumerate(kernels) if not choice.top or rank < choice.top or kernel.id in first
    ]
    shown = kernels[:_TABLE_ROWS]
    in_table, with_section = {kernel.id for kernel in shown}, {kernel.id for kernel in detailed}
    links = {kernel.id: f"#row-{kernel.id}" for kernel in kernels if kernel.id in in_table}
    names = [source.file for source in session.sources]
    plural = "".join(row_noun(kernels))
    headline, spread = summary.headline, verdict_text(whole)
    rows = tuple(kernel_rows(session, shown, with_section))
    times = first_times(session, kernels)
    page = SessionPage(
        title=choice.title or f"GPU profile: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}",
        verdict=headline or spread,
        context=(*((spread,) if headline else ()), *summary.notes),
        header=tuple(header_facts(session)),
        summary=summary,
        legend=capital(summary.legend),
        fixes=tuple(fix_line(fix, only_times=session.only_times) for fix in summary.fixes),
        fixes_doubted=len({bool(item.doubt) for item in summary.fixes}) > 1,
        # A timeline has no counters to place a kernel by.
        charts=() if session.only_times else tuple(overview_charts(session, choice.level, choice.ceiling, links)),
        diagnosed=any(kernel.findings for kernel in session.kernels),
        operators=_operators(times) if times is not None and times.by == "operator" else None,
        rows=rows,
        columns=columns_of(rows, only_times=session.only_times),
        is_long=len(rows) > _MANY_ROWS,
        rows_left_out=_left_out(kernels, in_table, "The table stops here"),
        sections=tuple(_sections(session, detailed, choice)),
        sections_left_out=_left_out(kernels, with_section, f"Details are given for the {plural} with most time"),
        sources=tuple(tuple(source_facts(source)) for source in session.sources),
        run=tuple(run_facts(session)),
        timeline=tuple(LabelledText(capital(name), text) for name, text in timeline_facts(session)),
        strips=tuple(timeline_drawings(session)),
        ceilings=ceiling_table(session),
        denominators=denominator_table(session),
        terms=(),
        version=session.gpuprof_version,
    )
    return replace(page, terms=glossary(page))


def _operators(times: TimeBy) -> tuple[Table, tuple[str, ...]]:
    """Return the table of the operators that take most of the time, and what is to be known of it."""
    top = rows_of(times)
    columns = columns_of_times(times, top)
    table = Table(
        heads=tuple(map(capital, columns.values())),
        rows=tuple(tuple(row[name] for name in columns) for row in rows_of_cells(times, top)),
        numbers=tuple(place for place, name in enumerate(columns) if name not in ("name", "longest")),
    )
    return table, tuple(map(capital, (header_text(times), *note_texts(times, top))))


def _sections(session: Session, kernels: Sequence[KernelProfile], choice: Choice) -> Iterator[Section]:
    """Yield a section of each kernel; where many have charts, on all cores."""

    def made(number: int) -> Section:
        return kernel_section(session, kernels[number], choice.ceiling)

    if session.only_times:
        return map(made, range(len(kernels)))
    return made_by_workers(range(len(kernels)), made, _CHARTS)


def part_of(session: Session, kernels: Collection[int] | None) -> Session:
    """Return the session with these of its kernels alone, judged by them; None for all of it."""
    if kernels is None:
        return session
    return worded(chosen(session, (kernel for kernel in session.kernels if kernel.id in kernels)))


def _left_out(kernels: Sequence[KernelProfile], shown: Collection[int], what: str) -> str | None:
    rest = [kernel for kernel in kernels if kernel.id not in shown]
    if not rest:
        return None
    (noun, plural), launches = row_noun(kernels), sum(kernel.launches for kernel in rest)
    in_launches = f" in {count_text(launches, 'launch', 'es')}" if launches != len(rest) else ""
    share = sum(kernel.time_share or 0.0 for kernel in rest)
    of_time = f", {format_percent(share)} of the time" if share else ""
    return f"{what}; {count_text(len(rest), f'more {noun}', plural)}{in_launches}{of_time}."
