"""The view of a session: one document, brief for a screen, whole for a page, and short for a review."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

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
from gpuprof.views.kernel_table import kernel_table, left_out_text
from gpuprof.views.markdown import markdown_lines
from gpuprof.views.provenance import origin, provenance, provenance_in_full
from gpuprof.views.time_by import SHOW_ALL, rows_of, times_blocks
from gpuprof.words.finding_text import certainty_text
from gpuprof.words.profile_values import count_text, device_text, row_noun, verdict_text
from gpuprof.words.provenance import collected_facts, run_facts
from gpuprof.words.recommendations import RecommendationText, Summary, recommendation_texts, summary_of
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
_SCREEN_NOTES = 2
_SCREEN_FACTS = 3
_MARKDOWN_REPORTS = 3
_TITLE_FILES = 3


class PageChoice(Struct, frozen=True):
    """How a page differs from a terminal: how the time of the whole session is spread, and its rooflines."""

    spread: str
    level: str = "dram"
    ceiling: CeilingOrigin = "at-clock"


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
    """Print a session: what a screen has room for, or with a `depth` everything about the longest or all kernels.

    The table has the first `top` kernels (0: all), or operators if there are `times`; without `top` as many as a screen
    of 30 lines has room for.
    """
    from gpuprof.views.terminal import SCREEN_HEIGHT, print_document

    if depth == "none":
        height = SCREEN_HEIGHT if top is None else None
        print_document(console, screen(session, kernels, times, rates, top), "short", height)
        return
    rows = _TOP if top is None else top
    shown = kernels[: rows or None]
    sections = shown if depth == "all" else shown[:1]
    form: Form = "full" if depth == "all" else "short"
    print_document(console, whole(session, kernels, times, rates, top=top, sections=sections), form)


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
    """Return the page of a session. `top` limits the sections, `kernels` (ids) restricts all but the spread of time."""
    from gpuprof.views.html import render_page

    return render_page(page(session, title=title, top=top, kernels=kernels, level=level, ceiling=ceiling))


def screen(
    session: Session,
    kernels: Sequence[KernelProfile],
    times: TimeBy | None = None,
    rates: Rates = NO_RATES,
    top: int | None = None,
) -> Document:
    """Return what matters first: the verdict, what to fix, and what takes most of the time."""
    texts = summary_of(session)
    blocks = [*_verdict(texts, _SCREEN_NOTES), *_warnings(session, _SCREEN_NOTES)]
    blocks += _recommendations(texts, session, title="Fix first")
    facts = tuple(_brief_facts(session, rates))
    if facts:
        blocks.append(Facts(facts))
    blocks += _unknown(texts)
    if times is not None:
        blocks += times_blocks(times, rows_of(times, top))
    elif kernels:
        rows = _SCREEN_ROWS if top is None else top
        blocks.append(kernel_table(session, kernels, rows or len(kernels), SHOW_ALL))
    return Document(_title(session), tuple(blocks), session.gpuprof_version)


def summary(session: Session, kernels: Sequence[KernelProfile], top: int, times: TimeBy | None = None) -> Document:
    """Return what a review needs: the verdict, what to fix, the `top` kernels or operators (0: all), and the origin."""
    texts = summary_of(session)
    blocks = [*_verdict(texts), *_recommendations(texts, session, title="Fix first"), *_unknown(texts)]
    facts = tuple(timeline_facts(session))
    if facts:
        blocks.append(Facts(facts))
    if times is not None:
        blocks += times_blocks(times, top)
    elif kernels:
        blocks.append(kernel_table(session, kernels, top or len(kernels), "not shown"))
    devices = [("GPU", device_text(device)) for device in session.devices]
    blocks.append(Facts((*devices, *origin(session, _MARKDOWN_REPORTS))))
    return Document(_title(session), tuple(blocks), session.gpuprof_version)


def page(
    session: Session,
    *,
    title: str | None = None,
    top: int = 12,
    kernels: Collection[int] | None = None,
    level: str = "dram",
    ceiling: CeilingOrigin = "at-clock",
) -> Document:
    """Return everything about a session, or about some of its kernels, for a page that carries it.

    `top` is the number of kernels with a section (0: all); those with a recommendation always have one.
    """
    from gpuprof.store.page import packed_session

    part = _part_of(session, kernels)
    longest_first = by_time(part.kernels)
    first = {item.kernel for item in recommendation_texts(part)}
    sections = [kernel for rank, kernel in enumerate(longest_first) if not top or rank < top or kernel.id in first]
    choice = PageChoice(verdict_text(session), level, ceiling)
    times = first_times(part, longest_first)
    made = whole(part, longest_first, times, top=_PAGE_ROWS, sections=sections, page=choice)
    return Document(title or made.title, made.blocks, made.version, data=lambda: packed_session(part))


def whole(
    session: Session,
    kernels: Sequence[KernelProfile],
    times: TimeBy | None = None,
    rates: Rates = NO_RATES,
    *,
    top: int | None = None,
    sections: Sequence[KernelProfile] = (),
    page: PageChoice | None = None,
) -> Document:
    """Return everything about a session, with a section for each of `sections`.

    `top` is the number of rows of each table (0: all).
    """
    texts = summary_of(session)
    links = {kernel.id: f"kernel-{kernel.id}" for kernel in sections}
    show_all = SHOW_ALL if page is None else "gpuprof show --top 0 lists all"
    rows = (_TOP if top is None else top) or len(kernels)
    blocks = [*_verdict(texts, spread=page.spread if page is not None else ""), *_warnings(session)]
    facts = (*run_facts(session), *collected_facts(session))
    if facts:
        blocks.append(Facts(facts))
    advice = [*_recommendations(texts, session, links), *_unknown(texts)]
    if page is None and texts.fixes and len(kernels) == len(sections) == 1:
        # The section of the only kernel says the same.
        advice = list(_unknown(texts))
    if advice:
        blocks += [Heading("Fix first", anchor="fix-first"), *advice]
    blocks += _timeline(session, rates)
    if page is not None:
        in_table = {kernel.id: f"row-{kernel.id}" for kernel in kernels[:rows]}
        blocks += _rooflines(session, page, in_table | links)
    if times is not None:
        blocks.append(Heading(f"{times.by.capitalize()}s", anchor=f"{times.by}s"))
        blocks += times_blocks(times, rows_of(times, top), show_all)
    if kernels:
        blocks.append(Heading("Kernels", anchor="kernels"))
        blocks.append(kernel_table(session, kernels, rows, show_all, links))
    blocks += _sections(session, kernels, sections, page)
    blocks += provenance(session)
    if page is not None:
        blocks += provenance_in_full(session)
    return Document(_title(session), tuple(blocks), session.gpuprof_version)


def _title(session: Session) -> str:
    names = [source.file for source in session.sources]
    more = " …" if len(names) > _TITLE_FILES else ""
    return f"GPU profile: {', '.join(names[:_TITLE_FILES])}{more}"


def _part_of(session: Session, kernels: Collection[int] | None) -> Session:
    """Return the session with these of its kernels alone, judged by them; None for all of it."""
    if kernels is None:
        return session
    return worded(chosen(session, (kernel for kernel in session.kernels if kernel.id in kernels)))


def _verdict(texts: Summary, most: int | None = None, spread: str = "") -> Iterator[Block]:
    """Yield the state of the kernel with most time, how the time is spread, and at most so many notes on both."""
    if texts.headline:
        yield Note(texts.headline, "strong")
    yield Note(spread or texts.spread, "" if texts.headline else "strong")
    for note in texts.notes[:most]:
        yield Note(note)


def _warnings(session: Session, most: int | None = None) -> Iterator[Block]:
    """Yield the first `most` warnings of the files, and how many are left out."""
    warnings = [f"warning: {source.file}: {warning}" for source in session.sources for warning in source.warnings]
    for warning in warnings[:most]:
        yield Note(warning, "warning")
    left_out = len(warnings) - len(warnings[:most])
    if left_out:
        yield Note(f"… and {count_text(left_out, 'more warning')}: -v shows all", "warning")


def _recommendations(
    texts: Summary, session: Session, links: Mapping[int, str] | None = None, title: str = ""
) -> Iterator[Block]:
    """Yield the changes to make first, or that there is none."""
    if texts.nothing:
        yield Note(texts.nothing)
    if texts.fixes:
        items = tuple(_recommendation(item, session, links or {}) for item in texts.fixes)
        more = f"And {texts.left_out}." if texts.left_out else ""
        yield Recommendations(items, texts.legend, more, title)


def _recommendation(item: RecommendationText, session: Session, links: Mapping[int, str]) -> Recommendation:
    kernels = item.kernels if item.everywhere else Cell(item.kernels, href=links.get(item.kernel, ""))
    return Recommendation(
        headline=item.headline,
        action=item.action,
        gain=item.gain,
        of=item.of,
        condition="; ".join(filter(None, (item.held, item.after))),
        place=item.where,
        kernels=kernels,
        certainty=item.doubt or item.confidence,
        certainty_meaning=certainty_text(item.confidence, only_times=session.only_times),
        severity=item.severity,
        bar=item.bar,
        doubted=bool(item.doubt),
        href=finding_anchor(item.finding) if item.kernel in links else "",
    )


def _unknown(texts: Summary) -> Iterator[Block]:
    """Yield what is not known, and the command that collects it."""
    if texts.command:
        yield Command(texts.command, texts.unknown)
    elif texts.unknown:
        yield Note(texts.unknown)


def _brief_facts(session: Session, rates: Rates) -> Iterator[tuple[str, str]]:
    """Yield how many ranks are shown, the steps, MFU if it is known and, unless a fix has it, the GPU's time.

    If no kernel ran, copies take that time. If there is no room for all of several GPUs, the least busy one is shown.
    """
    every = list(timeline_facts(session, rates))
    yield from [*(fact for fact in every if fact[0] == "ranks"), *_main_facts(session, rates, every)][:_SCREEN_FACTS]
    yield from [fact for fact in every if fact[0] in NOT_JUDGED][: len(NOT_JUDGED)]


def _main_facts(session: Session, rates: Rates, every: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    labels: tuple[str, ...] = ("GPU", "steps") if session.kernels else ("GPU", "copies")
    if any(item.rule == "launch-gaps" for item in session.recommendations):
        labels = ("steps",)
    if are_ranks(session):
        return _facts_of(rank_facts(session, rates), labels)
    facts = _facts_of(every, labels)
    devices = session.timeline.devices if session.timeline is not None else ()
    if len(facts) <= _SCREEN_FACTS or len(devices) < 2:
        return facts
    gpu = min(devices, key=busy_share)
    (name, text), *others = timeline_facts(session, rates, gpu)
    return [(name, f"the least busy of {len(devices)}: {text}"), *_facts_of(others, labels)]


def _facts_of(facts: Iterable[tuple[str, str]], labels: tuple[str, ...]) -> list[tuple[str, str]]:
    return [fact for fact in facts if fact[0].startswith((*labels, "CUDA graphs")) or "MFU" in fact[1]]


def _timeline(session: Session, rates: Rates) -> Iterator[Block]:
    facts = tuple(timeline_facts(session, rates))
    if not facts:
        return
    from gpuprof.views.timeline_figure import timeline_figures

    yield Heading("Timeline", anchor="timeline")
    yield from timeline_figures(session)
    yield Facts(facts)


def _rooflines(session: Session, page: PageChoice, links: Mapping[int, str]) -> Iterator[Block]:
    """Yield the figures over all kernels of each GPU; a timeline has no counters to place a kernel by."""
    if session.only_times:
        return
    from gpuprof.views.roofline import overview_figures

    targets = {number: f"#{anchor}" for number, anchor in links.items()}
    figures = overview_figures(session, page.level, page.ceiling, targets)
    if figures:
        yield Heading("Roofline", anchor="roofline")
        yield from figures


def _sections(
    session: Session,
    kernels: Sequence[KernelProfile],
    sections: Sequence[KernelProfile],
    page: PageChoice | None,
) -> Iterator[Block]:
    """Yield a section for each of these kernels; a page says how many others there are."""
    if not sections:
        return
    ceiling = page.ceiling if page is not None else "at-clock"
    yield Heading("Kernel by kernel", anchor="details")
    for kernel in sections:
        title = Cell(f"#{kernel.id} {kernel.label}{in_source(session, kernel)}", whole=kernel.demangled)
        blocks = kernel_blocks(session, kernel, ceiling=ceiling)
        yield Fold(title, blocks, open=kernel is sections[0], anchor=f"kernel-{kernel.id}")
    if page is not None:
        shown = {kernel.id for kernel in sections}
        rest = [kernel for kernel in kernels if kernel.id not in shown]
        more = left_out_text(rest, row_noun(session.kernels), "gpuprof report --top 0 shows them")
        if more:
            yield Note(more, "muted")
