"""The table of a comparison: a row for each kernel by its effect on the run, and which rows are folded away."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from gpuprof.comparison.contract import ComparedKernel, KernelChange, TimeChange
from gpuprof.present.compare_page.parts import Span, span_of, span_reach, told
from gpuprof.present.page.parts import KernelLabel, label
from gpuprof.text import cut_middle, printable
from gpuprof.units import format_si, signed_percent
from gpuprof.words.comparison_values import change_text, count_name, interval_text
from gpuprof.words.comparison_verdicts import (
    brief_work_reason,
    main_count,
    match_text,
    reason_text,
    time_texts,
    time_values,
)
from gpuprof.words.profile_values import count_text, dims_text
from gpuprof.words.sentences import full_stop

_ALL_UP_TO, _MOST_OPEN, _MOST_FOLDED = 12, 100, 1000
"""So many kernels are all shown; of more, those without a change are folded, and so are the changed ones beyond."""
_NAME_LENGTH, _REASON_LENGTH, _MATCH_LENGTH = 80, 280, 100
_CAUSES = 3
_NO_VERDICT = ("unclear", "unknown")


class Amount(Struct, frozen=True):
    """A text and the number that its column is sorted by, as text; empty if there is none."""

    text: str
    order: str


class ChangeRow(Struct, frozen=True):
    """One line of the table."""

    id: int
    label: KernelLabel
    match: str
    configuration: str
    has_section: bool
    time: str
    change: str
    change_order: str
    values: str
    interval: str
    span: Span | None
    work: str
    work_what: str
    effect: Amount
    effect_share: str
    why: str
    needs: str


class ChangeTable(Struct, frozen=True):
    """The rows that are open, those that are folded with what they are called, and what the spans' ends stand for."""

    rows: tuple[ChangeRow, ...]
    folded: tuple[ChangeRow, ...]
    folded_title: str
    left_out: str
    note: str
    has_reasons: bool


def change_table(changes: Sequence[KernelChange], with_section: Collection[int]) -> ChangeTable:
    """Return the table of all changes, in their order; `with_section` are the ids of those that have a section."""
    reach = span_reach(changes)
    several = Counter(change.label for change in changes)
    opened = _opened(changes)
    kept = {change.id for change in opened}
    others = [change for change in changes if change.id not in kept]

    def rows(chosen: Sequence[KernelChange]) -> tuple[ChangeRow, ...]:
        return tuple(
            _row(change, reach, has_section=change.id in with_section, configured=several[change.label] > 1)
            for change in chosen
        )

    rest = len(others) - _MOST_FOLDED
    has_spans = any(change.time.ratio is not None for change in changes)
    ends = math.exp(reach)
    return ChangeTable(
        rows=rows(opened),
        folded=rows(others[:_MOST_FOLDED]),
        folded_title=_folded_title(others),
        left_out=f"The table stops here; {count_text(rest, 'more kernel')}." if rest > 0 else "",
        note=f"The line under a change is its interval at 99 %, the dot the ratio; the tick "
        f"in the middle stands for 1x, the ends for {1 / ends:.2g}x and {ends:.2g}x."
        if has_spans
        else "",
        has_reasons=any(change.causes or _lacks_reason(change) or _needs(change) for change in changes),
    )


def _opened(changes: Sequence[KernelChange]) -> list[KernelChange]:
    """Return the changes that are not folded: all of few, else those that a verdict calls changed or unclear."""
    if len(changes) <= _ALL_UP_TO:
        return list(changes)
    telling = [change for change in changes if change.is_changed]
    unclear = [change for change in changes if change.time.verdict == "unclear" and not change.is_changed]
    first = [*telling, *unclear[:_ALL_UP_TO]][:_MOST_OPEN]
    return sorted(first, key=lambda change: change.id) or list(changes[:_ALL_UP_TO])


def _folded_title(others: Sequence[KernelChange]) -> str:
    """Write what the folded rows are: "487 kernels without a change"."""
    unchanged = all(change.time.verdict == "same" and not change.is_changed for change in others)
    return f"{count_text(len(others), 'more kernel')}{', time and work the same' if unchanged else ''}"


def _row(change: KernelChange, reach: float, *, has_section: bool, configured: bool) -> ChangeRow:
    time = change.time
    work, what = _work(change)
    effect = change.effect
    return ChangeRow(
        id=change.id,
        label=label(change.label, _NAME_LENGTH),
        match=cut_middle(printable(match_text(change)), _MATCH_LENGTH),
        configuration=_configuration(change) if configured else "",
        has_section=has_section,
        time=time.verdict,
        change=change_text(time.ratio, "") if time.verdict not in ("new", "gone") else "",
        change_order=_order(time.ratio),
        values=_values(time),
        interval=interval_text(time.interval),
        span=span_of(time, reach) if time.verdict != "unknown" else None,
        work=work,
        work_what=what,
        effect=Amount(_signed_time(change.effect_s), _order(change.effect_s)),
        effect_share=signed_percent(effect) if effect is not None and math.isfinite(effect) else "",
        why="; ".join(_why(change)),
        needs=_needs(change),
    )


def _values(time: TimeChange) -> str:
    """Write the median launch on both sides; without a change that is known, with no more digits than that takes."""
    if time.verdict not in ("same", "unclear") or time.base_s is None or time.new_s is None:
        return time_values(time)
    return " → ".join(dict.fromkeys(time_texts(time)))


def _configuration(change: KernelChange) -> str:
    kernels: tuple[ComparedKernel, ...] = change.new or change.base
    kernel = kernels[0] if kernels else None
    if kernel is None or (kernel.grid is None and kernel.block is None):
        return ""
    return f"grid {dims_text(kernel.grid)}, block {dims_text(kernel.block)}"


def _work(change: KernelChange) -> tuple[str, str]:
    """Return the verdict on work, and the count that changed most."""
    if change.is_one_sided:
        return "", ""
    main = main_count(change.work) if change.work.verdict in ("more", "less", "changed") else None
    if main is None:
        return change.work.verdict, ""
    size = f" {change_text(main.ratio)}" if main.ratio is not None else ""
    return change.work.verdict, printable(f"{count_name(main.name)}{size}")


def _why(change: KernelChange) -> Iterator[str]:
    """Yield the first causes; without any, why there is no verdict on the work."""
    for cause in change.causes[:_CAUSES]:
        yield told(cause.sentence, _REASON_LENGTH)
    if _lacks_reason(change):
        yield told(brief_work_reason(change), _REASON_LENGTH)


def _lacks_reason(change: KernelChange) -> bool:
    """Return whether there are no causes, and instead notes on why the work has no verdict."""
    return not change.causes and change.work.verdict in _NO_VERDICT and bool(change.work.notes)


def _needs(change: KernelChange) -> str:
    """Write why there is no clear verdict on time, and what would settle it; not again what its interval says."""
    time = change.time
    if time.verdict not in _NO_VERDICT:
        return ""
    why = reason_text(time, brief=time.interval is not None)
    return full_stop(f"Time: {told(why, _REASON_LENGTH)}") if why else ""


def _signed_time(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds):
        return "not known"
    if seconds == 0:
        return "0 s"
    return f"{'+' if seconds > 0 else '−'}{format_si(abs(seconds), 's')}"


def _order(value: float | None) -> str:
    return f"{value:.6g}" if value is not None and math.isfinite(value) else ""
