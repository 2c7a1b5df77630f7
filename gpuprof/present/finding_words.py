"""How findings are put into words by every presenter: gains, evidence, places, and the sentence that leads to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuprof.diagnose.ranking import changes_with_a_repair
from gpuprof.model.session import Evidence, Finding, KernelProfile, Location, Ranked, Session
from gpuprof.units import format_percent, format_si, significant

FIX_FIRST = 5
"""How many findings over all kernels a reader is told first."""

CONFIDENCE_WORDS = {
    "measured": "measured: a counter counts it",
    "inferred": "inferred from several counters",
    "guess": "a guess: nothing in the report proves it",
}
_LEAST_GAIN = 0.03
_LEAST_OF_RUN = 0.005
"""A finding that saves less of the run is left to its kernel."""
_PREFIXED = ("B", "B/s", "FLOP", "FLOP/s", "Hz", "s")


class Priority(NamedTuple):
    """A finding in the ranking and the kernel that it is about."""

    kernel: KernelProfile
    finding: Finding


def fix_first(session: Session, limit: int = FIX_FIRST) -> list[Priority]:
    """Return the first findings of the session's ranking, without those that hardly change the run.

    A kernel's limits and symptoms are left out behind a defect: repairing that changes them.
    """
    kernels = {kernel.id: kernel for kernel in session.kernels}
    listed: list[Priority] = []
    for item in session.ranking:
        small = item.gain_total is not None and item.gain_total < _LEAST_OF_RUN
        finding = None if small or item.kernel not in kernels else _ranked_finding(kernels[item.kernel], item)
        if finding is not None and not changes_with_a_repair(kernels[item.kernel], finding):
            listed.append(Priority(kernels[item.kernel], finding))
        if len(listed) == limit:
            break
    return listed


def _ranked_finding(kernel: KernelProfile, item: Ranked) -> Finding | None:
    """Return the finding that an entry of the ranking is about: a rule may find two things in one kernel."""
    same = [finding for finding in kernel.findings if finding.rule == item.rule]
    return next((finding for finding in same if finding.gain_total == item.gain_total), same[0] if same else None)


def gain_text(finding: Finding) -> str:
    """Write what a finding can gain: "at most 31 % of this kernel, 12 % of the run"; never without "at most"."""
    if finding.gain_kernel is None:
        return "gain not known"
    if finding.gain_kernel <= 0:
        return "nothing to gain by itself"
    text = f"at most {format_percent(finding.gain_kernel)} of this kernel's time"
    if finding.gain_total is None or finding.gain_total == finding.gain_kernel:
        return text
    return f"{text}, {format_percent(finding.gain_total)} of the run"


def run_gain_text(finding: Finding) -> str:
    """Write what a finding can gain of the run, else of its kernel, in a few characters: "≤ 12 %"."""
    gain = finding.gain_total if finding.gain_total is not None else finding.gain_kernel
    return f"≤ {format_percent(gain)}" if gain is not None else "–"


def location_text(location: Location | None) -> str:
    """Write where: "gather.cu:41", else the instruction; empty where the report has no code."""
    if location is None:
        return ""
    share = f", {format_percent(location.share)} of it" if location.share is not None else ""
    if location.file is not None and location.line is not None:
        name = location.file.replace("\\", "/").rpartition("/")[2]
        return f"{name}:{location.line}{share}"
    if location.sass:
        return f"{location.sass}{share}"
    return ""


def evidence_texts(finding: Finding) -> Iterator[str]:
    """Write each piece of evidence: what it means, its value, and what it was held against."""
    for item in finding.evidence:
        held = f", threshold {value_text(item.threshold, item.unit)}" if item.threshold is not None else ""
        yield f"{item.meaning or item.metric}: {value_text(item.value, item.unit)}{held}"


def value_text(value: float, unit: str) -> str:
    """Write a value of evidence with its unit."""
    if unit == "%":
        return format_percent(value / 100)
    if unit in _PREFIXED:
        return format_si(value, unit)
    number = f"{value:,.0f}".replace(",", "\u202f") if 1000 <= abs(value) < 1e15 else significant(value, strip=True)
    return f"{number} {_plural(unit, value)}" if unit else number


def _plural(unit: str, value: float) -> str:
    """Write a unit for a number of things: "2 wavefronts/request"."""
    what, slash, per = unit.partition("/")
    return f"{what}{'s' if value != 1 and len(what) > 1 else ''}{slash}{per}"


def evidence_bar(item: Evidence) -> float | None:
    """Return the length of a bar for a percentage, as a fraction; None for other units."""
    return min(1.0, max(0.0, item.value / 100)) if item.unit == "%" else None


def diagnosis_sentence(session: Session) -> str:
    """Write the second sentence of the verdict: the finding to repair first, or that there is nothing to gain."""
    if not session.kernels:
        return ""
    first = next(iter(fix_first(session, 1)), None)
    if first is None:
        if not all(kernel.throughput for kernel in session.kernels):
            return "Too little was collected to say why: profile with ncu --set full."
        return f"Near its roofs: no finding would gain more than {format_percent(_LEAST_GAIN)}."
    gain, of = first.finding.gain_total, "the run"
    if gain is None:
        gain, of = first.finding.gain_kernel, "that kernel's time"
    bound = f" It can save at most {format_percent(gain)} of {of}." if gain is not None else ""
    return f"Fix first, in {first.kernel.label}: {_sentence(first.finding.headline)}{bound}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
