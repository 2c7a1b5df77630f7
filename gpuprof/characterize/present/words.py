"""The words for what was measured of a GPU: amounts, intervals, ranges, shares, and the conditions in plain terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.characterize.sheet.measured import LOWER_IS_BETTER, Conditions, MeasuredDevice, MeasuredValue
from gpuprof.characterize.sheet.normal import UNEXPLAINED, Assessment
from gpuprof.units import format_binary, format_percent, format_si, significant
from gpuprof.words.profile_values import count_text

NOT_KNOWN = "not known"
VERDICTS = {
    "verified": "its code, its scaling, its clock and its limit were checked",
    "plausible": "no check failed, but not everything could be checked",
    "rejected": "a check failed; the value is shown with the reason and used nowhere",
    "unsupported": "this GPU, driver or compiler cannot run it",
    "not_permitted": "it needs a permission that the user lacks",
}
SI_UNITS = ("FLOP/s", "OP/s", "op/s", "result/s", "lane/s", "B/s", "bit/s", "Hz", "W", "s")
_COUNTED = ("way", "ways", "warp", "thread", "block", "SM", "line")
_LEAST_SHARE = 0.0005
_SWITCH = {True: "on", False: "off", None: NOT_KNOWN}


def amount(value: float, unit: str, digits: int = 3) -> str:
    """Write an amount as an engineer would: 4.51e12, "B/s" → "4.51 TB/s"; 262144, "B" → "256 KiB"."""
    if unit == "B":
        return format_binary(value, digits=digits)
    if unit in SI_UNITS:
        return format_si(value, unit, digits)
    if unit.startswith("J/"):
        return f"{significant(value * 1e12, digits)} p{unit}"
    whole = unit in _COUNTED and value == round(value)
    return f"{f'{value:.0f}' if whole else significant(value, digits)} {plural(unit)}".rstrip()


def value_text(value: MeasuredValue) -> str:
    """Write a value, or the verdict where there is none."""
    return amount(value.value, value.unit) if value.value is not None else verdict_word(value)


def verdict_word(value: MeasuredValue) -> str:
    """Write a verdict without underscores."""
    return value.verdict.replace("_", " ")


def reasons_text(value: MeasuredValue) -> str:
    """Write why a value has its verdict."""
    return "; ".join(value.reasons) or "no reason was recorded"


def plural(unit: str) -> str:
    """Write a unit as it stands behind a number: "cycle" → "cycles"."""
    return f"{unit}s" if unit in {"cycle", *_COUNTED} and not unit.endswith("s") else unit


def span(low: float, high: float, unit: str, joint: str = "–") -> str:
    """Write a range with its unit once, where both ends have the same: "4.42–4.71 TB/s"."""
    first, last = amount(low, unit), amount(high, unit)
    if first == last:
        return first
    number, _, scaled = first.partition(" ")
    return f"{number}{joint}{last}" if last.partition(" ")[2] == scaled else f"{first}{joint}{last}"


def half_width(value: MeasuredValue) -> float | None:
    """Return the larger side of the 95 % interval as a fraction of the value; None where either is not known."""
    if not value.value or value.low is None or value.high is None:
        return None
    return max(value.high - value.value, value.value - value.low) / abs(value.value)


def half_width_text(value: MeasuredValue) -> str:
    """Write the interval as a share of the value: "0.2 %"; nothing where it is not known."""
    half = half_width(value)
    if half is None:
        return ""
    return f"{100 * half:.1f} %" if half >= _LEAST_SHARE else "<0.1 %"


def share(fraction: float | None) -> str:
    """Write a share of a limit or rating; nothing where there is none."""
    return format_percent(fraction) if fraction is not None else ""


def published_text(assessment: Assessment, joint: str = "–") -> str:
    """Write the published range; nothing where there is none."""
    published = assessment.expected
    return span(published.low, published.high, assessment.unit, joint) if published is not None else ""


def normal_word(assessment: Assessment) -> str:
    """Write the answer to "is it normal?"; nothing where nothing is published or measured."""
    return assessment.word if assessment.word in {"normal", "low", "high"} else ""


def is_outlier(assessment: Assessment) -> bool:
    """Tell whether a value lies outside of its published range."""
    return assessment.word in {"low", "high"}


def is_worse(assessment: Assessment) -> bool:
    """Tell whether a value lies on the bad side of its published range."""
    return is_outlier(assessment) and (assessment.word == "low") != (assessment.unit in LOWER_IS_BETTER)


def outside_text(assessment: Assessment) -> str:
    """Write how far outside a value lies: "12 % below 4.42 to 4.71 TB/s"; nothing inside."""
    published, value = assessment.expected, assessment.value
    if published is None or value is None or not is_outlier(assessment):
        return ""
    end = published.low if assessment.word == "low" else published.high
    far = f"{format_percent(abs(value / end - 1))} " if end else ""
    return f"{far}{'below' if assessment.word == 'low' else 'above'} {published_text(assessment, ' to ')}"


def cause_text(assessment: Assessment) -> str:
    """Write the likely cause of an outlier as a sentence, or that nothing recorded explains it."""
    return because([cause for cause in assessment.causes if cause != UNEXPLAINED])


def because(causes: Sequence[str]) -> str:
    """Write causes as a sentence, or that nothing recorded explains it."""
    return f"Likely because {'; '.join(causes)}." if causes else f"{UNEXPLAINED[:1].upper()}{UNEXPLAINED[1:]}."


def allocations_text(value: MeasuredValue) -> str:
    """Write on how many allocations of memory a value rests: "3 allocations", "2 of 3 allocations"."""
    if value.allocations is None:
        return ""
    if value.of_allocations is None or value.of_allocations == value.allocations:
        return count_text(value.allocations, "allocation")
    return f"{value.allocations} of {count_text(value.of_allocations, 'allocation')}"


def regime_text(value: MeasuredValue) -> str:
    """Write the regime, and what held the clocks back: "power limited (power cap), at 1.41 GHz"."""
    parts = [value.regime.replace("_", " ")] if value.regime else []
    if value.throttling:
        held = ", ".join(value.throttling)
        parts = [f"{parts[0]} ({held})" if parts else f"held back: {held}"]
        if value.evidence.clock_hz is not None:
            parts.append(f"at {amount(value.evidence.clock_hz, 'Hz')}")
    return ", ".join(parts)


def remarks(value: MeasuredValue) -> Iterator[tuple[str, str]]:
    """Yield what a row of figures cannot say, each by kind: why a value was rejected, what held clocks back."""
    if value.verdict == "rejected":
        yield "rejected", f"rejected: {reasons_text(value)}"
    if value.throttling:
        yield "throttled", regime_text(value)


def device_text(device: MeasuredDevice, spec: str | None) -> str:
    """Write which GPU it is."""
    parts = [f"compute capability {device.compute_capability}", count_text(device.sm_count, "SM")]
    if device.memory_bytes is not None:
        bus = f" on {device.memory_bus_bits:.0f} bit" if device.memory_bus_bits is not None else ""
        parts.append(f"{format_si(device.memory_bytes, 'B')}{bus}")
    if device.l2_bytes is not None:
        parts.append(f"L2 {amount(device.l2_bytes, 'B')}")
    if device.pci_id is not None:
        parts.append(f"PCI {device.pci_id}")
    parts.append(f"spec {spec}" if spec is not None else "no product spec, so no ratings")
    return f"{device.name} ({', '.join(parts)})"


def condition_facts(conditions: Conditions) -> Iterator[tuple[str, str]]:
    """Yield what the values were measured under, as name and text. What the driver does not tell is not known."""
    yield "measured", f"{conditions.date} with gpuprof {conditions.gpuprof}"
    yield "driver", f"{conditions.driver or NOT_KNOWN}, CUDA {conditions.cuda or NOT_KNOWN}"
    yield "power limit", _of(conditions.power_limit_w, conditions.default_power_limit_w, "W", "by default")
    yield "SM clock", f"at most {_known(conditions.max_sm_clock_hz, 'Hz')}"
    yield "DRAM clock", _of(conditions.memory_clock_hz, conditions.max_memory_clock_hz, "Hz", "at most")
    yield "ECC, MIG", f"ECC {_SWITCH[conditions.ecc]}, MIG {_SWITCH[conditions.mig]}"
    yield "PCIe link", _link(conditions)
    yield "temperature", f"at most {_known(conditions.highest_temperature_c, '°C')}"
    others = conditions.other_processes
    yield (
        "on the GPU",
        count_text(others, "other process", "es") if others is not None else f"other processes {NOT_KNOWN}",
    )


def _known(value: float | None, unit: str) -> str:
    return amount(value, unit) if value is not None else NOT_KNOWN


def _of(value: float | None, usual: float | None, unit: str, what: str) -> str:
    """Write a setting, and beside it what it is by default or could be, where that differs."""
    differs = value is not None and usual is not None and value != usual
    return f"{_known(value, unit)} ({_known(usual, unit)} {what})" if differs else _known(value, unit)


def _link(conditions: Conditions) -> str:
    here = _generation(conditions.pcie_generation, conditions.pcie_width)
    best = _generation(conditions.max_pcie_generation, conditions.max_pcie_width)
    return f"{here} (at most {best})" if NOT_KNOWN not in {here, best} and here != best else here


def _generation(generation: int | None, width: int | None) -> str:
    if generation is None or width is None:
        return NOT_KNOWN
    return f"PCIe {generation} × {width}"
