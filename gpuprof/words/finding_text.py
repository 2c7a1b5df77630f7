"""Findings as text, alike in every view: gains and how far they hold, what remains, causes, evidence, places."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.needs import UNIT_WORDS, pipe_name
from gpuprof.diagnose.verdict import BUSY
from gpuprof.model.field_types import GainKind
from gpuprof.model.headline import line_text
from gpuprof.model.session import Finding, KernelProfile, Location
from gpuprof.units import format_binary, format_percent, format_si, significant, spaced
from gpuprof.words.wording import PREFIXED

CONFIDENCE_WORDS = {
    "measured": "measured by a counter, or known from the launch itself",
    "inferred": "inferred from several counters",
    "guess": "a guess, not proven by the report",
}
_PLURAL_UNITS = ("issue",)


def gain_text(finding: Finding) -> str:
    """Write the gain of a finding: "at most 31 % of this kernel's time, 12 % of the run".

    Only a bound has "at most"; others name their condition: "31 % of this kernel's time with the same work".
    """
    if finding.gain_kernel is None:
        if finding.gain_total is not None:
            return _held_or_bound(finding.gain_total, finding, "of the run")
        return "gain not known"
    if finding.gain_kernel <= 0:
        return "nothing to gain by itself"
    text = _held_or_bound(finding.gain_kernel, finding, "of this kernel's time")
    if finding.gain_total is None or finding.gain_total == finding.gain_kernel:
        return text
    return f"{text}, {format_percent(finding.gain_total)} of the run"


def _held_or_bound(gain: float, finding: Finding, of: str) -> str:
    if finding.gain_kind == "bound":
        return f"at most {format_percent(gain)} {of}"
    held = held_text(finding.held)
    return f"{format_percent(gain)} {of} {held}" if held else f"about {format_percent(gain)} {of}"


def held_text(held: str | None) -> str:
    """Write the condition of a gain: "with the same instructions"; empty for a bound."""
    return f"with {held}" if held else ""


def short_gain(gain: float | None, kind: GainKind | None) -> str:
    """Write a gain in a few characters: "≤ 12 %" if it is an upper bound, else "~ 12 %"."""
    if gain is None:
        return "–"
    return f"{'≤' if kind == 'bound' else '~'} {format_percent(gain)}"


def remains_text(finding: Finding) -> str:
    """Write the need of the busiest unit after the change: "then DRAM still needs 62 %".

    Empty if it is not known, or if the unit is too idle after the change to be the next limit.
    """
    if not finding.remains or not finding.gain_kernel or finding.cause is not None:
        return ""
    rest = finding.remains[0]
    if rest.fraction < BUSY * (1.0 - finding.gain_kernel):
        return ""
    name = UNIT_WORDS.get(rest.unit) or f"the {pipe_name(rest.unit)} pipe"
    verb = "need" if rest.unit in _PLURAL_UNITS else "needs"
    return f"then {name} still {verb} {format_percent(rest.fraction)} of this kernel's time"


def cause_of(finding: Finding, kernel: KernelProfile) -> Finding | None:
    """Return the finding of the same kernel that explains this one."""
    if finding.cause is None:
        return None
    return next((other for other in kernel.findings if other.id == finding.cause), None)


def cause_text(finding: Finding, kernel: KernelProfile) -> str:
    """Write what explains a finding: "explained by #3 uncoalesced-global: fix that first"; empty if nothing does."""
    cause = cause_of(finding, kernel)
    if cause is None:
        return ""
    first = ": fix that first" if cause.severity != "info" else ""
    return f"explained by #{kernel.id} {cause.rule}{first}"


def place_text(location: Location | None) -> str:
    """Write the file and line of a location, else its instruction: "gather.cu:41"; empty if there is none."""
    if location is None:
        return ""
    return line_text(location) or location.sass or ""


def location_text(location: Location | None) -> str:
    """Write a place and its share of the finding: "gather.cu:41, 62 % of the finding"; empty without code."""
    place = place_text(location)
    if location is None or not place or location.share is None:
        return place
    return f"{place}, {format_percent(location.share)} of the finding"


def evidence_texts(finding: Finding) -> Iterator[str]:
    """Write each piece of evidence: its meaning, its value and its threshold."""
    for item in finding.evidence:
        held = f", threshold {value_text(item.threshold, item.unit)}" if item.threshold is not None else ""
        yield f"{item.meaning or item.metric}: {value_text(item.value, item.unit)}{held}"


def value_text(value: float, unit: str) -> str:
    """Write a value of evidence with its unit. Bytes are sizes of memories, in binary units as in a kernel's facts."""
    if unit == "%":
        return format_percent(value / 100)
    if unit == "B":
        return format_binary(value)
    if unit in PREFIXED:
        return format_si(value, unit)
    number = spaced(value) if 1000 <= abs(value) < 1e15 else significant(value, strip=True)
    return f"{number} {_plural(unit, value)}" if unit else number


def _plural(unit: str, value: float) -> str:
    """Write a unit for a number of things: "2 wavefronts/request"."""
    what, slash, per = unit.partition("/")
    return f"{what}{'s' if value != 1 and len(what) > 1 else ''}{slash}{per}"
