"""Values of compiled kernels and their places in words: "registers 40 → 72"."""

from __future__ import annotations

from gpuprof.comparison.contract import SourceLine, ValueChange
from gpuprof.words.comparison_values import count_name, count_text, value_text
from gpuprof.words.file_names import file_name


def line_text(location: SourceLine | None) -> str:
    """Write a line of code: "kernel.cu:12"; empty if it is not known."""
    return f"{file_name(location.file)}:{location.line}" if location is not None else ""


def limited_text(value: ValueChange, *, is_added: bool) -> str:
    """Write a value that has a limit, on both sides unless the base does not have it."""
    if is_added:
        return f"{count_name(value.name)} {value_text(value.new, value.unit, value.name)}"
    return count_text(value)
