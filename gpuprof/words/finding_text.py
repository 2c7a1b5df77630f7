"""Findings as text, alike in every view: gains and their conditions, causes, evidence, places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuprof.diagnose.calibration import OF_CONDITIONAL
from gpuprof.diagnose.thresholds import BUSY
from gpuprof.model.field_types import Confidence, GainKind
from gpuprof.model.headline import line_text
from gpuprof.model.session import Finding, KernelProfile, Location
from gpuprof.units import format_binary, format_percent, format_si, significant, spaced
from gpuprof.words.sentences import joined_by
from gpuprof.words.unit_names import UNIT_WORDS, pipe_name
from gpuprof.words.wording import PREFIXED

CONFIDENCE_WORDS: Mapping[Confidence, str] = {
    "measured": "measured",
    "inferred": "inferred from several counters",
    "guess": "a guess, not proven by the report",
}
_BY_TIMES = "inferred from times, names and shapes"


def certainty_text(confidence: Confidence, *, only_times: bool) -> str:
    """Write how sure a finding is; without counters only times, names and shapes can show it."""
    return _BY_TIMES if only_times and confidence == "inferred" else CONFIDENCE_WORDS[confidence]


def gain_text(finding: Finding) -> str:
    """Write the gain of a finding: "at most 31 % of this kernel's time (12 % of the run)".

    Others than bounds begin with what fixes usually save of such gains, and end with their condition:
    "usually 12–19 % of this kernel's time; at most 31 % (12 % of the run), with the same work".
    """
    gain = finding.gain_kernel
    total = finding.gain_total
    if gain is None:
        return "gain not known" if total is None else _qualified(f"{format_percent(total)} of the run", finding)
    if gain <= 0:
        return "nothing to gain by itself"
    of_kernel = f"{format_percent(gain)} of this kernel's time"
    of_run = f" ({format_percent(total)} of the run)" if total is not None and total != gain else ""
    if finding.gain_kind == "bound" or finding.severity == "info":
        return _qualified(of_kernel + of_run, finding)
    most = joined_by(", ", f"{format_percent(gain)}{of_run}", held_text(finding.held))
    return f"usually {usual_range(gain)} of this kernel's time; at most {most}"


def usual_range(gain: float) -> str:
    """Write what half of the fixes save of a gain with a condition: "12–19 %"."""
    low = format_percent(OF_CONDITIONAL.low * gain).removesuffix(" %")
    high = format_percent(OF_CONDITIONAL.high * gain)
    return high if high == f"{low} %" else f"{low}–{high}"


def _qualified(gain: str, finding: Finding) -> str:
    """Write a gain as a bound, with its condition, or as an estimate."""
    if finding.gain_kind == "bound":
        return f"at most {gain}"
    return f"{gain} {held_text(finding.held)}" if finding.held else f"about {gain}"


def held_text(held: str | None) -> str:
    """Write the condition of a gain: "with the same instructions"; empty for a bound."""
    return f"with {held}" if held else ""


def short_gain(gain: float | None, kind: GainKind | None) -> str:
    """Write a gain in a few characters: "≤ 12 %" if it is an upper bound, else "~ 5–7 %"."""
    if gain is None:
        return "–"
    return f"≤ {format_percent(gain)}" if kind == "bound" else f"~ {usual_range(gain)}"


def remains_text(finding: Finding) -> str:
    """Write the busiest unit after the change: "next limit: DRAM, at 62 % of this kernel's time".

    Empty if it is not known, or if the unit is too idle after the change to be the next limit.
    """
    if not finding.remains or not finding.gain_kernel or finding.cause is not None:
        return ""
    rest = finding.remains[0]
    if 100 * rest.fraction < BUSY.value * (1.0 - finding.gain_kernel):
        return ""
    name = UNIT_WORDS.get(rest.unit) or f"the {pipe_name(rest.unit)} pipe"
    return f"next limit: {name}, at {format_percent(rest.fraction)} of this kernel's time"


def cause_of(finding: Finding, kernel: KernelProfile) -> Finding | None:
    """Return the finding of the same kernel that explains this one."""
    if finding.cause is None:
        return None
    return next((other for other in kernel.findings if other.id == finding.cause), None)


def cause_text(finding: Finding, kernel: KernelProfile) -> str:
    """Write the cause: "explained by #3 uncoalesced-global: fix that first"; empty if none."""
    cause = cause_of(finding, kernel)
    if cause is None:
        return ""
    text = f"explained by #{kernel.id} {cause.rule}"
    return text if cause.severity == "info" else f"{text}: fix that first"


def place_text(location: Location | None) -> str:
    """Write the file and line of a location, else its instruction; empty if there is none."""
    if location is None:
        return ""
    return line_text(location) or location.sass or ""


def location_text(location: Location | None) -> str:
    """Write a place and its share: "gather.cu:41, 62 % of the finding"; empty if not known."""
    place = place_text(location)
    if location is None or not place or location.share is None:
        return place
    return f"{place}, {format_percent(location.share)} of the finding"


def evidence_texts(finding: Finding) -> Iterator[str]:
    """Yield each piece of evidence: its meaning, its value and its threshold."""
    for item in finding.evidence:
        text = f"{item.meaning or item.metric}: {value_text(item.value, item.unit)}"
        if item.threshold is not None:
            text += f", threshold {value_text(item.threshold, item.unit)}"
        yield text


def value_text(value: float, unit: str) -> str:
    """Write a value of evidence with its unit. Bytes are sizes of memories, in binary units."""
    if unit == "%":
        return format_percent(value / 100)
    if unit == "B":
        return format_binary(value)
    if unit in PREFIXED:
        return format_si(value, unit)
    number = spaced(value) if 1000 <= abs(value) < 1e15 else significant(value, strip=True)
    thing, slash, per = unit.partition("/")
    if value != 1 and len(thing) > 1:
        thing += "s"
    return joined_by(" ", number, f"{thing}{slash}{per}")
