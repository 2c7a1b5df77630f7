"""The table of kernels: one row each, with what its columns are sorted by, and which columns have something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.headline import asked_of_peak, main_point, main_stall, nearest_limit
from gpuprof.model.session import Finding, KernelProfile, Session
from gpuprof.present.kernel_columns import launches_text, peak_text
from gpuprof.present.page.findings import rule_name
from gpuprof.present.page.parts import Bar, KernelLabel, bar, label
from gpuprof.views.kernel import finding_anchor
from gpuprof.words.finding_text import short_gain
from gpuprof.words.profile_values import (
    NOT_COLLECTED,
    launch_text,
    limit_text,
    occupied_text,
    resource_texts,
    roof_text,
    stall_text,
    time_text,
)
from gpuprof.words.source_names import source_name

_NAME_LENGTH = 80
"""What four lines of the column hold beside those of counters."""


class Amount(Struct, frozen=True):
    """A text and the number that its column is sorted by, as text; empty where there is none."""

    text: str
    order: str


class FirstFinding(Struct, frozen=True):
    """The finding to look at first: its name, what it can gain, its headline, and where its card is, if it has one."""

    name: str
    gain: str
    order: str
    headline: str
    href: str | None


class KernelRow(Struct, frozen=True):
    """One line of the kernel table; `configuration` is given where the name stands in several lines."""

    id: int
    label: KernelLabel
    file: str
    configuration: str
    has_section: bool
    launches: Amount
    time: Amount
    share: Bar
    share_order: str
    peak: Amount
    limit: Amount
    roof: Bar
    roof_order: str
    occupancy: Amount
    stall: Amount
    finding: FirstFinding | None


def kernel_rows(
    session: Session, kernels: Sequence[KernelProfile], with_section: Collection[int]
) -> Iterator[KernelRow]:
    """Yield the rows of kernels of a session; `with_section` are the numbers of those that have a section."""
    registers, shared = resource_texts(kernels)
    times = Counter((kernel.label, source_name(session, kernel)) for kernel in kernels)
    for kernel in kernels:
        file = source_name(session, kernel)
        taken = (f"{registers[kernel.id]} registers" if registers else "", shared[kernel.id] if shared else "")
        parts = (launch_text(kernel), *taken) if times[kernel.label, file] > 1 else ()
        name = label(kernel.label) if session.only_times else label(kernel.label, _NAME_LENGTH)
        row = _row(kernel, name, has_section=kernel.id in with_section)
        yield replace(row, file=file, configuration=", ".join(filter(None, parts)))


def columns_of(rows: Sequence[KernelRow], *, only_times: bool) -> frozenset[str]:
    """Return the columns in which any row has something; a timeline has none of counters."""
    filled = {
        name: any(getattr(row, name).text != NOT_COLLECTED for row in rows)
        for name in ("time", "share", *(("peak",) if only_times else ("limit", "roof", "occupancy", "stall")))
    }
    filled["launches"] = any(row.launches.order != "1" for row in rows)
    filled["finding"] = any(row.finding is not None for row in rows)
    return frozenset(name for name, has_any in filled.items() if has_any)


def _row(kernel: KernelProfile, name: KernelLabel, *, has_section: bool) -> KernelRow:
    point, limit, stall = main_point(kernel), nearest_limit(kernel), main_stall(kernel)
    return KernelRow(
        id=kernel.id,
        label=name,
        file="",
        configuration="",
        has_section=has_section,
        launches=Amount(launches_text(kernel), str(kernel.launches)),
        time=Amount(time_text(kernel), _order(kernel.time_total_s)),
        share=bar(kernel.time_share),
        share_order=_order(kernel.time_share),
        peak=_of_peak(kernel),
        limit=Amount(limit_text(kernel), _order(limit.fraction if limit is not None else None)),
        roof=bar(point.fraction_of_roof if point is not None else None, roof_text(kernel)),
        roof_order=_order(point.fraction_of_roof if point is not None else None),
        occupancy=_occupancy(kernel),
        stall=Amount(stall_text(kernel), _order(stall.share if stall is not None else None)),
        finding=_first_finding(kernel.findings[0], linked=has_section) if kernel.findings else None,
    )


def _order(value: float | None) -> str:
    return f"{value:.6g}" if value is not None else ""


def _of_peak(kernel: KernelProfile) -> Amount:
    nearer = asked_of_peak(kernel.own_flop, kernel.operator_bytes)
    if nearer is None:
        return Amount(NOT_COLLECTED, "")
    return Amount(peak_text(kernel), _order(nearer.most))


def _occupancy(kernel: KernelProfile) -> Amount:
    achieved, theoretical = kernel.occupancy.achieved, kernel.occupancy.theoretical
    return Amount(occupied_text(kernel), _order(theoretical if achieved is None else achieved))


def _first_finding(finding: Finding, *, linked: bool) -> FirstFinding:
    gain = finding.gain_total if finding.gain_total is not None else finding.gain_kernel
    return FirstFinding(
        name=rule_name(finding.rule),
        gain=short_gain(gain, finding.gain_kind) if gain else "",
        order=_order(gain or 0.0),
        headline=finding.headline,
        href=f"#{finding_anchor(finding)}" if linked else None,
    )
