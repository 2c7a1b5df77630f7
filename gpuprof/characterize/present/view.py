"""What every view of a measured file is made of: its values with family and title, and the sentences that sum it up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, TypeVar

from gpuprof.characterize.judge.verdict import WORDS
from gpuprof.characterize.present.words import because, is_outlier, is_worse, reasons_text, verdict_word
from gpuprof.characterize.results.names import NEAR_PEAK
from gpuprof.characterize.sheet.ceilings import per_second
from gpuprof.characterize.sheet.measured import CEILING_LEVELS, Measured, MeasuredValue
from gpuprof.characterize.sheet.normal import UNEXPLAINED, Assessment
from gpuprof.characterize.sheet.side_by_side import ComparedValue
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.units import format_percent, format_si
from gpuprof.words.profile_values import LEVEL_NAMES, count_text

OTHER = "other"
_PROBE = re.compile(r"[^/\s]+/[^/\s\[({,:=]+")
_CAUSES_SHOWN = 3
ALIKE = 0.005
"""Measuring ends when half of the interval is below this: closer values tell no way from another."""
_SHARED_SHOWN = 5


@dataclass(frozen=True, slots=True)
class AssessedValue:
    """One measured quantity. `short` is its name within the family; `title` says what its probe measures."""

    name: str
    family: str
    short: str
    title: str | None
    value: MeasuredValue
    assessment: Assessment


_Named = TypeVar("_Named", AssessedValue, ComparedValue)


@dataclass(frozen=True, slots=True)
class View:
    """A measured file with each value set in context. `titles` has every probe that gpuprof knows, by its id."""

    measured: Measured
    entries: tuple[AssessedValue, ...]
    titles: Mapping[str, str] = field(default_factory=dict)

    def families(self) -> Iterator[tuple[str, tuple[AssessedValue, ...]]]:
        """Yield the families in the order of the file, each with all of its values."""
        return by_family(self.entries)

    def outliers(self) -> tuple[AssessedValue, ...]:
        """Return the values outside of their published range, the worse ones first."""
        outside = (entry for entry in self.entries if is_outlier(entry.assessment))
        return tuple(sorted(outside, key=lambda entry: not is_worse(entry.assessment)))


def view_of(measured: Measured, assessments: Iterable[Assessment], titles: Mapping[str, str] | None = None) -> View:
    """Join a measured file with what `assess` says of it. `titles` are those of the probes, by id."""
    titles, by_name = titles or {}, {assessment.name: assessment for assessment in assessments}
    entries = (entry_of(name, value, by_name[name], titles) for name, value in measured.values.items())
    return View(measured, tuple(entries), titles)


def entry_of(name: str, value: MeasuredValue, assessment: Assessment, titles: Mapping[str, str]) -> AssessedValue:
    """Return one value in context."""
    family = family_of(name)
    return AssessedValue(
        name=name,
        family=family,
        short=name.removeprefix(f"{family}/"),
        title=titles.get(probe_of(name)),
        value=value,
        assessment=assessment,
    )


def probe_of(name: str) -> str:
    """Return the probe that a quantity or curve is of: "latency/l2-capacity stride=128 B" → "latency/l2-capacity"."""
    match = _PROBE.match(name)
    return match[0] if match is not None else name


def advice(entry: AssessedValue) -> Iterator[str]:
    """Yield what a quantity is for, where its name does not tell: to plan with, or which of several ways is the best.

    The best way of one probe need not be the ceiling: another probe may have come closer to the same limit.
    """
    if entry.name.endswith(f" {NEAR_PEAK}") and entry.value.usable:
        yield "what an SM should have in flight: at the knee itself the curve is still below its peak"
    assessment = entry.assessment
    if assessment.chosen_over:
        yield f"the best of {len(assessment.chosen_over) + 1} ways"
    if assessment.passed_over_for is not None and assessment.of_best is not None:
        yield _beside_best(variant_of(assessment.passed_over_for), assessment.of_best - 1)


def _beside_best(best: str, change: float) -> str:
    """Say how a way to measure compares with the best. A higher one lies above a limit that is not confirmed."""
    if change > 0:
        return f"{format_percent(change)} above {best}, but also above its limit"
    if change > -ALIKE:
        return f"the same as {best}: less than {100 * ALIKE:g} % below"
    return f"{format_percent(-change)} below {best}"


def by_family(quantities: Iterable[_Named]) -> Iterator[tuple[str, tuple[_Named, ...]]]:
    """Yield families in the order in which they come, each with all of its quantities."""
    families: dict[str, list[_Named]] = {}
    for quantity in quantities:
        families.setdefault(family_of(quantity.name), []).append(quantity)
    for family, members in families.items():
        yield family, tuple(members)


def family_of(name: str) -> str:
    """Return the family of a quantity: what its name has before the first slash."""
    family, slash, _ = name.partition("/")
    return family if slash and family else OTHER


def variant_of(name: str) -> str:
    """Return what tells a quantity or curve from others of its probe: "stride=128 B"; empty where nothing does."""
    return name[len(probe_of(name)) :].strip(" ,:[](){}")


def probe_groups(entries: Iterable[AssessedValue]) -> Iterator[tuple[str, tuple[AssessedValue, ...]]]:
    """Yield the values of each probe together, as they follow each other."""
    for probe, members in groupby(entries, key=lambda entry: probe_of(entry.name)):
        yield probe, tuple(members)


def family_title(family: str) -> str:
    """Write a family as a heading: "bank-conflict" → "Bank conflict"."""
    text = family.replace("-", " ").replace("_", " ")
    return text[:1].upper() + text[1:]


def normal_sentence(view: View) -> str:
    """Answer "is my GPU normal?" in one sentence."""
    name = view.measured.device.name
    judged = [entry.assessment for entry in view.entries if entry.assessment.word in {"normal", "low", "high"}]
    usable = sum(entry.value.usable for entry in view.entries)
    if not usable:
        return f"No value of this {name} could be measured."
    if not judged:
        return f"Whether this {name} is normal is not known: there is no published range for {_them(usable)}."
    worse = sum(map(is_worse, judged))
    better = sum(map(is_outlier, judged)) - worse
    return f"This {name} is {'not ' if worse else ''}normal: {_told(len(judged), worse, better)}."


def _told(judged: int, worse: int, better: int) -> str:
    """Say how many of the values that can be judged lie in their range."""
    if judged == 1:
        verb = "falls short of" if worse else "exceeds" if better else "lies within"
        return f"the one value with a published range {verb} it"
    ranged = f"{count_text(judged, 'value')} with a published range"
    if worse:
        return f"{worse} of {ranged} {'falls' if worse == 1 else 'fall'} short of it"
    if better:
        return f"of {ranged}, {better} {'exceeds' if better == 1 else 'exceed'} it and none falls short"
    return f"all {ranged} lie within it"


def _them(number: int) -> str:
    return "its one value" if number == 1 else f"its {count_text(number, 'value')}"


def cause_sentence(view: View) -> str:
    """Name what explains most outliers on the bad side; empty where there are none or nothing explains them."""
    worse = [entry.assessment for entry in view.entries if is_worse(entry.assessment)]
    causes = Counter(cause for assessment in worse for cause in assessment.causes if cause != UNEXPLAINED)
    if not worse:
        return ""
    return because([f"{cause} ({number} of {len(worse)})" for cause, number in causes.most_common(_CAUSES_SHOWN)])


def count_sentence(view: View) -> str:
    """Count the values by verdict: "61 values: 58 verified, 2 rejected, 1 unsupported."."""
    verdicts = Counter(entry.value.verdict for entry in view.entries)
    parts = [f"{verdicts[word]} {word.replace('_', ' ')}" for word in WORDS if verdicts[word]]
    return f"{count_text(len(view.entries), 'value')}: {', '.join(parts)}." if parts else "The file holds no values."


def absent_families(view: View) -> tuple[str, ...]:
    """Return the families that gpuprof could measure and the file has nothing of."""
    present = {entry.family for entry in view.entries} | {family_of(name) for name in view.measured.curves}
    return tuple(dict.fromkeys(family_of(name) for name in view.titles if family_of(name) not in present))


class TopRate(NamedTuple):
    """What a profile of this GPU takes as a measured ceiling: of which level or path, its rate, and the value."""

    name: str
    rate: str
    entry: AssessedValue


def ceilings(view: View) -> tuple[TopRate, ...]:
    """Return the best believed rate of each level, from DRAM inwards, and of each path, in the order of the file.

    One above its limit counts only where there is no other.
    """
    best: dict[str, tuple[bool, float, AssessedValue]] = {}
    for entry in view.entries:
        rate = per_second(entry.value, view.measured.device.sm_count)
        name = entry.value.ceiling
        if name is None or rate is None or not entry.value.usable:
            continue
        within = entry.value.as_ceiling[0]
        if name not in best or (within, rate) > best[name][:2]:
            best[name] = within, rate, entry
    return tuple(
        TopRate(_ceiling_name(name), format_si(rate, _ceiling_unit(name)), entry)
        for name, (_, rate, entry) in sorted(best.items(), key=lambda item: _depth(item[0]))
    )


def _depth(name: str) -> int:
    return CEILING_LEVELS.index(name) if name in CEILING_LEVELS else len(CEILING_LEVELS)


def _ceiling_name(name: str) -> str:
    """Write what a ceiling is of: "tensor.bf16 fp32 wgmma" → "Tensor BF16 into FP32, wgmma"."""
    path, *rest = name.split(" ")
    if path in {*LEVEL_NAMES, "shared"}:
        return LEVEL_NAMES.get(path, "Shared memory")
    text = path_name(path)
    into = f" into {rest[0].upper()}" if rest else ""
    return f"{text[:1].upper()}{text[1:]}{into}{''.join(f', {part}' for part in rest[1:])}"


def _ceiling_unit(name: str) -> str:
    path = name.partition(" ")[0]
    return "B/s" if path in {*LEVEL_NAMES, "shared"} else work_unit(path)


class UnmeasuredGroup(NamedTuple):
    """Quantities without a value that share the verdict and its reason."""

    verdict: str
    why: str
    entries: tuple[AssessedValue, ...]


def unmeasured(entries: Iterable[AssessedValue]) -> tuple[UnmeasuredGroup, ...]:
    """Group the quantities that could not be measured by verdict and reason."""
    groups: dict[tuple[str, str], list[AssessedValue]] = {}
    for entry in entries:
        if entry.value.value is None:
            groups.setdefault((verdict_word(entry.value), reasons_text(entry.value)), []).append(entry)
    return tuple(UnmeasuredGroup(verdict, why, tuple(members)) for (verdict, why), members in groups.items())


class Doubt(NamedTuple):
    """Why values are plausible and not verified, and how many share it."""

    why: str
    number: int


def doubts(entries: Iterable[AssessedValue]) -> tuple[Doubt, ...]:
    """Return what could not be checked of the plausible values, the most frequent reason first."""
    reasons = Counter(
        reason for entry in entries if entry.value.verdict == "plausible" for reason in entry.value.reasons
    )
    return tuple(Doubt(reason, number) for reason, number in reasons.most_common())


def shared_doubts(entries: Iterable[AssessedValue]) -> tuple[Doubt, ...]:
    """Return the doubts that are told once for all values that have them: the most frequent, of several values each."""
    return tuple(doubt for doubt in doubts(entries) if doubt.number > 1)[:_SHARED_SHOWN]


def own_doubts(entry: AssessedValue, shared: Iterable[Doubt]) -> Iterator[str]:
    """Yield why a value is plausible only, as far as that is not told of many."""
    told = {doubt.why for doubt in shared}
    if entry.value.verdict == "plausible":
        yield from (f"plausible: {reason}" for reason in entry.value.reasons if reason not in told)
