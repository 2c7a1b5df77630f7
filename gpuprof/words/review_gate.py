"""Values of compiled kernels and their limits in words: "registers 40 → 72; 8 more are allowed"."""

from __future__ import annotations

from gpuprof.comparison.contract import SourceLine, ValueChange
from gpuprof.units import spaced
from gpuprof.words.comparison_gate import allowed_text
from gpuprof.words.comparison_values import count_name, count_text, value_text
from gpuprof.words.file_names import file_name


def line_text(location: SourceLine | None) -> str:
    """Write a line of code: "kernel.cu:12"; empty if it is not known."""
    return f"{file_name(location.file)}:{location.line}" if location is not None else ""


def value_sentence(value: ValueChange, most: float, *, has_base: bool, is_relative: bool) -> str:
    """Write a value, on both sides if there is a base, and how much of it is allowed."""
    if not has_base:
        bound = "at least" if value.name == "occupancy" else "at most"
        allowed = f"{bound} {value_text(most, value.unit, value.name)} is allowed"
    elif is_relative or not most:
        allowed = allowed_text(most)
    else:
        allowed = f"{spaced(most)} more is allowed"
    text = f"{count_name(value.name)} {value_text(value.new, value.unit, value.name)}"
    return f"{text if value.base is None else count_text(value)}; {allowed}"
