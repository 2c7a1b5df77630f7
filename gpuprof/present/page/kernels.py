"""The table of kernels: one row each, with what its columns are sorted by."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gpuprof.model.headline import main_point, main_stall, nearest_limit
from gpuprof.model.session import Finding, KernelProfile
from gpuprof.present.finding_text import run_gain_text
from gpuprof.present.page.findings import card_id, rule_name
from gpuprof.present.page.parts import Bar, KernelLabel, bar, label
from gpuprof.present.session_text import count_text, duration_text, limit_text, percent_text, roof_text, stall_text
from gpuprof.present.text import printable
from gpuprof.units import format_percent


@dataclass(frozen=True, slots=True)
class Amount:
    """A text and the number that its column is sorted by, as text; empty where there is none."""

    text: str
    order: str


@dataclass(frozen=True, slots=True)
class FirstFinding:
    """The finding to look at first: its name, what it can gain, its headline, and where its card is, if it has one."""

    name: str
    gain: str
    order: str
    headline: str
    href: str | None


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One line of the kernel table."""

    id: int
    label: KernelLabel
    file: str
    has_section: bool
    launches: Amount
    time: Amount
    share: Bar
    share_order: str
    limit: Amount
    roof: Bar
    roof_order: str
    occupancy: Amount
    stall: Amount
    finding: FirstFinding | None


def kernel_row(kernel: KernelProfile, with_section: Collection[int], file: str) -> KernelRow:
    """Return the row of a kernel; `with_section` are the numbers of those that have a section of their own.

    `file` is the short name of its file, empty where all kernels are of one.
    """
    point, limit, stall = main_point(kernel), nearest_limit(kernel), main_stall(kernel)
    has_section = kernel.id in with_section
    return KernelRow(
        id=kernel.id,
        label=label(kernel.label),
        file=file,
        has_section=has_section,
        launches=Amount(count_text(kernel.launches, "", "").strip(), str(kernel.launches)),
        time=Amount(duration_text(kernel.time_total_s), _order(kernel.time_total_s)),
        share=bar(kernel.time_share),
        share_order=_order(kernel.time_share),
        limit=Amount(limit_text(kernel), _order(limit.fraction if limit is not None else None)),
        roof=bar(point.fraction_of_roof if point is not None else None, roof_text(kernel)),
        roof_order=_order(point.fraction_of_roof if point is not None else None),
        occupancy=_occupancy(kernel),
        stall=Amount(printable(stall_text(kernel)), _order(stall.share if stall is not None else None)),
        finding=_first_finding(kernel.findings[0], linked=has_section) if kernel.findings else None,
    )


def _order(value: float | None) -> str:
    return f"{value:.6g}" if value is not None else ""


def _occupancy(kernel: KernelProfile) -> Amount:
    achieved, theoretical = kernel.occupancy.achieved, kernel.occupancy.theoretical
    if achieved is None and theoretical is not None:
        return Amount(f"≤ {format_percent(theoretical)}", _order(theoretical))
    return Amount(percent_text(achieved), _order(achieved))


def _first_finding(finding: Finding, *, linked: bool) -> FirstFinding:
    gain = finding.gain_total if finding.gain_total is not None else finding.gain_kernel
    return FirstFinding(
        name=rule_name(finding.rule),
        gain=run_gain_text(finding) if gain else "",
        order=_order(gain or 0.0),
        headline=printable(finding.headline),
        href=f"#{card_id(finding)}" if linked else None,
    )
