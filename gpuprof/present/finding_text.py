"""Findings as text, alike in every view: gains, evidence, places, and the sentence that leads to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuprof.diagnose.priorities import Priority, fix_first
from gpuprof.model.session import Evidence, Finding, Location, Session
from gpuprof.present.session_text import count_text, row_noun
from gpuprof.present.source_names import source_name
from gpuprof.units import format_binary, format_percent, format_si, significant

CONFIDENCE_WORDS = {
    "measured": "measured: a counter counts it",
    "inferred": "inferred from several counters",
    "guess": "a guess: the report does not prove it",
}
_LEAST_GAIN = 0.03
_PREFIXED = ("B/s", "FLOP", "FLOP/s", "Hz", "s")


def found_in(item: Priority, session: Session) -> str:
    """Write in how many launch shapes (or launches) of the session a finding is; empty where it is one."""
    return f"in {count_text(item.shapes, *row_noun(session.kernels))}" if item.shapes > 1 else ""


def fix_first_note(items: Iterable[Priority]) -> str:
    """Say what the gains of these findings are of, and their order."""
    whole_run = all(item.gain_total is not None for item in items)
    return f"at most this much of {'the run' if whole_run else 'its kernel'}; by gain and how sure it is"


def gain_text(finding: Finding) -> str:
    """Write what a finding can gain: "at most 31 % of this kernel, 12 % of the run"; never without "at most"."""
    if finding.gain_kernel is None:
        if finding.gain_total is not None:
            return f"at most {format_percent(finding.gain_total)} of the run"
        return "gain not known"
    if finding.gain_kernel <= 0:
        return "nothing to gain by itself"
    text = f"at most {format_percent(finding.gain_kernel)} of this kernel's time"
    if finding.gain_total is None or finding.gain_total == finding.gain_kernel:
        return text
    return f"{text}, {format_percent(finding.gain_total)} of the run"


def run_gain_text(finding: Finding) -> str:
    """Write what a finding can gain of the run, else of its kernel, in a few characters: "≤ 12 %"."""
    return at_most(finding.gain_total if finding.gain_total is not None else finding.gain_kernel)


def at_most(gain: float | None) -> str:
    """Write an upper bound in a few characters: "≤ 12 %"."""
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
    """Write a value of evidence with its unit. Bytes are sizes of memories, in binary units as in a kernel's facts."""
    if unit == "%":
        return format_percent(value / 100)
    if unit == "B":
        return format_binary(value)
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
        if session.only_times:
            return "The GPU is hardly ever idle; why a kernel takes its time needs counters: gpuprof run -- PROGRAM."
        if not all(kernel.throughput for kernel in session.kernels):
            return "Too little was collected to say why: profile with ncu --set full."
        return f"Near its roofs: no finding would gain more than {format_percent(_LEAST_GAIN)}."
    of = "the run" if first.gain_total is not None else "that kernel's time"
    shapes = f", {found_in(first, session)}" if first.shapes > 1 else ""
    bound = f" It can save at most {format_percent(first.gain)} of {of}{shapes}." if first.gain is not None else ""
    source = source_name(session, first.kernel)
    where = f"{first.kernel.label} ({source})" if source else first.kernel.label
    return f"Fix first, in {where}: {_sentence(first.finding.headline)}{bound}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
