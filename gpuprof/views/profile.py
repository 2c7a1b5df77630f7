"""The views of a session: a screen, a summary for a review, everything about kernels in a terminal, and the page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from gpuprof.diagnose.drawn import placed_point
from gpuprof.diagnose.summary import chosen
from gpuprof.model.field_types import CeilingOrigin
from gpuprof.model.headline import by_time
from gpuprof.model.run_totals import are_ranks
from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.time_by import TimeBy, first_times
from gpuprof.views.document import (
    Block,
    Cell,
    Command,
    Document,
    Facts,
    Fold,
    Form,
    Heading,
    Note,
    Recommendation,
    Recommendations,
)
from gpuprof.views.kernel import finding_anchor, kernel_blocks
from gpuprof.views.kernel_table import kernel_table
from gpuprof.views.markdown import markdown_lines
from gpuprof.views.provenance import origin, provenance, provenance_in_full
from gpuprof.views.time_by import times_blocks
from gpuprof.words.profile_values import count_text, device_text, verdict_text
from gpuprof.words.provenance import collected_facts, run_facts
from gpuprof.words.recommendations import RecommendationText, Summary, summary_of
from gpuprof.words.sentences import joined_by
from gpuprof.words.session import worded
from gpuprof.words.source_names import in_source
from gpuprof.words.timeline import NO_RATES, NOT_JUDGED, Rates, busy_share, rank_facts, timeline_facts

if TYPE_CHECKING:
    from rich.console import Console

# Which kernels have a section in a terminal.
Depth = Literal["none", "longest", "all"]
_TOP = 20
_PAGE_ROWS = 1000
_SCREEN_ROWS = 26
_SCREEN_WARNINGS = 2
_SCREEN_FACTS = 3
_MARKDOWN_REPORTS = 3
_TITLE_FILES = 3


def print_session(
    console: Console,
    session: Session,
    kernels: Sequence[KernelProfile],
    *,
    times: TimeBy | None = None,
    top: int | None = None,
    depth: Depth = "none",
    rates: Rates = NO_RATES,
) -> None:
    """Print a session: one screen, or with a `depth` everything about the longest or all kernels.

    The table has the first `top` kernels (0: all), or operators if there are `times`; without `top` as many as a screen
    of 30 lines has room for.
    """
    from gpuprof.views.terminal import SCREEN_HEIGHT, print_document

    if depth == "none":
        height = SCREEN_HEIGHT if top is None else None
        shown = _SCREEN_ROWS if top is None else top
        brief = _brief(session, kernels, times, shown, _brief_facts(session, rates))
        print_document(console, Document(_title(session), tuple(brief)), "short", height)
        return
    rows = _TOP if top is None else top
    sections = kernels[: rows or None]
    form: Form = "full"
    if depth == "longest":
        sections = sections[:1]
        form = "short"
    blocks = [
        *_first(session, summary_of(session), sections),
        *_timeline(session, rates),
        *_tables(session, kernels, times, rows, sections),
        *_sections(session, sections, "at-clock"),
        *provenance(session),
    ]
    print_document(console, Document(_title(session), tuple(blocks)), form)


def summary_lines(
    session: Session, kernels: Sequence[KernelProfile], top: int, times: TimeBy | None = None
) -> Iterator[str]:
    """Yield the summary for a review as Markdown."""
    return markdown_lines(summary(session, kernels, top, times))


def session_page(
    session: Session,
    *,
    title: str | None = None,
    top: int = 12,
    kernels: Collection[int] | None = None,
    level: str = "dram",
    ceiling: CeilingOrigin = "at-clock",
) -> str:
    """Return the page of a session: everything about it, or about `kernels` (ids) and how the time of all is spread.

    `top` is the number of kernels with a section (0: all); those with a recommendation always have one.
    """
    from gpuprof.store.page import packed_session
    from gpuprof.views.html import render_page

    part = session
    if kernels is not None:
        part = worded(chosen(session, (kernel for kernel in session.kernels if kernel.id in kernels)))
    texts = replace(summary_of(part), spread=verdict_text(session))
    ordered = by_time(part.kernels)
    first = {item.kernel for item in texts.fixes}
    sections = [kernel for rank, kernel in enumerate(ordered) if not top or rank < top or kernel.id in first]
    blocks = [
        *_first(part, texts, sections),
        *_timeline(part),
        *_rooflines(part, ordered[:_PAGE_ROWS], sections, level, ceiling),
        *_tables(part, ordered, first_times(part, ordered), _PAGE_ROWS, sections),
        *_sections(part, sections, ceiling),
    ]
    rest = len(ordered) - len(sections)
    if rest:
        blocks.append(Note(f"{count_text(rest, 'more section')}: gpuprof report --top 0 shows them", "muted"))
    blocks += [*provenance(part), *provenance_in_full(part)]
    name = title or _title(part)
    return render_page(Document(name, tuple(blocks), part.gpuprof_version, data=lambda: packed_session(part)))


def summary(session: Session, kernels: Sequence[KernelProfile], top: int, times: TimeBy | None = None) -> Document:
    """Return the content of a screen with the `top` kernels or operators (0: all), and the origin of the numbers."""
    blocks = _brief(session, kernels, times, top, timeline_facts(session))
    devices = [("GPU", device_text(device)) for device in session.devices]
    facts = Facts((*devices, *origin(session, _MARKDOWN_REPORTS)))
    return Document(_title(session), (*blocks, facts))


def _title(session: Session) -> str:
    names = [source.file for source in session.sources]
    more = " …" if len(names) > _TITLE_FILES else ""
    return f"GPU profile: {', '.join(names[:_TITLE_FILES])}{more}"


def _brief(
    session: Session,
    kernels: Sequence[KernelProfile],
    times: TimeBy | None,
    rows: int,
    facts: Iterable[tuple[str, str]],
) -> Iterator[Block]:
    """Yield the verdict, the recommendations, and the kernels or operators with most time."""
    texts = summary_of(session)
    yield from verdict_blocks(texts)
    yield from _warnings(session, _SCREEN_WARNINGS)
    yield from _recommendations(texts, title="Fix first")
    shown = tuple(facts)
    if shown:
        yield Facts(shown)
    yield from _unknown(texts)
    if times is not None:
        yield from times_blocks(times, rows)
    elif kernels:
        yield kernel_table(session, kernels, rows or len(kernels))


def _first(session: Session, texts: Summary, sections: Sequence[KernelProfile]) -> Iterator[Block]:
    """Yield the verdict, the facts of the run, and the recommendations."""
    yield from verdict_blocks(texts)
    yield from _warnings(session)
    facts = (*run_facts(session), *collected_facts(session))
    if facts:
        yield Facts(facts)
    advice = (*_recommendations(texts, _links(sections)), *_unknown(texts))
    if advice:
        yield Heading("Fix first", anchor="fix-first")
        yield from advice


def _links(sections: Sequence[KernelProfile]) -> dict[int, str]:
    return {kernel.id: f"kernel-{kernel.id}" for kernel in sections}


def verdict_blocks(texts: Summary) -> Iterator[Block]:
    """Yield the state of the kernel with most time, how the time is spread, and the notes on both."""
    if texts.headline:
        yield Note(texts.headline, "strong")
    yield Note(texts.spread, "" if texts.headline else "strong")
    for note in texts.notes:
        yield Note(note)


def _warnings(session: Session, most: int | None = None) -> Iterator[Block]:
    """Yield the first `most` warnings of the files, and how many are left out."""
    warnings = [f"warning: {source.file}: {warning}" for source in session.sources for warning in source.warnings]
    for warning in warnings[:most]:
        yield Note(warning, "warning")
    left_out = len(warnings) - len(warnings[:most])
    if left_out:
        yield Note(f"… and {count_text(left_out, 'more warning')}: -v shows all", "warning")


def _recommendations(texts: Summary, links: Mapping[int, str] | None = None, title: str = "") -> Iterator[Block]:
    """Yield the changes to make first, or that there is none."""
    if texts.nothing:
        yield Note(texts.nothing)
    if texts.fixes:
        items = tuple(_recommendation(item, links or {}) for item in texts.fixes)
        more = f"And {texts.left_out}." if texts.left_out else ""
        yield Recommendations(items, texts.legend, more, title)


def _recommendation(item: RecommendationText, links: Mapping[int, str]) -> Recommendation:
    kernels = item.name if item.everywhere else Cell(item.name, href=links.get(item.kernel, ""))
    return Recommendation(
        headline=item.headline,
        action=item.action,
        gain=item.gain,
        of=item.of,
        condition=joined_by("; ", item.held, item.after),
        place=item.where,
        kernels=kernels,
        certainty=item.doubt or item.confidence,
        spread=item.spread,
        rule=item.rule,
        severity=item.severity,
        bar=item.bar,
        doubted=bool(item.doubt),
        href=finding_anchor(item.finding) if item.kernel in links else "",
    )


def _unknown(texts: Summary) -> Iterator[Block]:
    """Yield the open questions, and the command that answers them."""
    if texts.command:
        yield Command(texts.command, texts.unknown)
    elif texts.unknown:
        yield Note(texts.unknown)


def _brief_facts(session: Session, rates: Rates) -> Iterator[tuple[str, str]]:
    """Yield the main facts of a timeline and its parts that are not judged; for GPUs without ranks the least busy."""
    if session.timeline is None:
        return
    devices = session.timeline.devices
    gpu = None
    if len(devices) > 1 and not are_ranks(session):
        gpu = min(devices, key=busy_share)
    facts = list(timeline_facts(session, rates, gpu))
    if gpu is not None:
        name, text = facts[0]
        facts[0] = (name, f"the least busy of {len(devices)}: {text}")
    main = facts
    if are_ranks(session):
        main = [*(fact for fact in facts if fact[0] == "ranks"), *rank_facts(session, rates)]
    labels = ["ranks", "steps", "CUDA graphs"]
    if all(name != "no MFU" for name, _ in facts):
        labels.append("model FLOP")
    if not any(item.rule == "launch-gaps" for item in session.recommendations):
        labels.append("GPU")
    if not session.kernels:
        labels.append("copies")
    yield from [fact for fact in main if fact[0].startswith(tuple(labels))][:_SCREEN_FACTS]
    yield from [fact for fact in facts if fact[0] in NOT_JUDGED][: len(NOT_JUDGED)]


def _timeline(session: Session, rates: Rates = NO_RATES) -> Iterator[Block]:
    facts = tuple(timeline_facts(session, rates))
    if not facts:
        return
    from gpuprof.views.timeline_figure import timeline_figures

    yield Heading("Timeline", anchor="timeline")
    yield from timeline_figures(session)
    yield Facts(facts)


def _rooflines(
    session: Session,
    in_table: Sequence[KernelProfile],
    sections: Sequence[KernelProfile],
    level: str,
    ceiling: CeilingOrigin,
) -> Iterator[Block]:
    """Yield the figures over all kernels of each GPU; a timeline has no counters to place a kernel by."""
    if session.only_times:
        return
    from gpuprof.views.roofline import overview_figures

    targets = {kernel.id: f"#row-{kernel.id}" for kernel in in_table}
    targets |= {kernel.id: f"#kernel-{kernel.id}" for kernel in sections}
    figures = overview_figures(session, level, ceiling, targets)
    if any(figure.svg for figure in figures):
        has_roofline = any(placed_point(kernel, level, ceiling) for kernel in session.kernels)
        yield Heading("Roofline" if has_roofline else "Bandwidth and throughput", anchor="roofline")
        yield from figures


def _tables(
    session: Session,
    kernels: Sequence[KernelProfile],
    times: TimeBy | None,
    rows: int,
    sections: Sequence[KernelProfile],
) -> Iterator[Block]:
    """Yield the tables of operators and of kernels, with at most `rows` rows (0: all)."""
    if times is not None:
        yield Heading(f"{times.by.capitalize()}s", anchor=f"{times.by}s")
        yield from times_blocks(times, rows)
    if kernels:
        yield Heading("Kernels", anchor="kernels")
        yield kernel_table(session, kernels, rows or len(kernels), _links(sections))


def _sections(session: Session, sections: Sequence[KernelProfile], ceiling: CeilingOrigin) -> Iterator[Block]:
    """Yield a section for each of these kernels, the first one open."""
    if sections:
        yield Heading("Kernel by kernel", anchor="details")
    for kernel in sections:
        title = Cell(f"#{kernel.id} {kernel.label}{in_source(session, kernel)}", whole=kernel.demangled)
        blocks = tuple(kernel_blocks(session, kernel, ceiling))
        yield Fold(title, blocks, open=kernel is sections[0], anchor=f"kernel-{kernel.id}")
