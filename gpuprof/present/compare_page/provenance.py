"""Provenance of both sides: files, hashes, GPUs, clocks, commands, totals."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gpuprof.comparison.contract import ComparedSide, Comparison, QuantityChange
from gpuprof.comparison.sides import Run, Side
from gpuprof.present.compare_page.parts import TwoSided
from gpuprof.present.page.parts import LabelledText, percent_number
from gpuprof.text import cut_middle, printable
from gpuprof.words.comparison_values import change_text, count_name, gpu_texts, side_texts, value_text
from gpuprof.words.file_names import file_name
from gpuprof.words.profile_values import count_text
from gpuprof.words.provenance import run_facts, source_facts

_NAME_LENGTH, _FILES = 100, 3


class RunFacts(Struct, frozen=True):
    """A run: its GPUs and clocks, and each of its files."""

    title: str
    facts: tuple[LabelledText, ...]
    sources: tuple[tuple[LabelledText, ...], ...]


class SideFacts(Struct, frozen=True):
    """A side with its runs."""

    title: str
    runs: tuple[RunFacts, ...]


class TotalRow(Struct, frozen=True):
    """A figure of the whole run on both sides; bars in percent of the larger one, None if a side lacks it.

    `both` is its value if the sides have the same: there is nothing to draw.
    """

    name: str
    base: str
    new: str
    change: str
    verdict: str
    base_bar: str | None
    new_bar: str | None
    both: str


def side_rows(comparison: Comparison) -> Iterator[TwoSided]:
    """Yield what the two sides are, for the head of the page."""
    base, new = comparison.base, comparison.new
    several = max(len(base.files), len(new.files)) > 1
    yield TwoSided("Files" if several else "File", base=_files(base), new=_files(new))
    yield TwoSided("GPU", base=_gpus(base), new=_gpus(new), changed=base.gpus != new.gpus)
    launches = [count_text(side.launches, "launch", "es") for side in (base, new)]
    kernels = [count_text(side.kernels, "kernel") for side in (base, new)]
    yield TwoSided("Profiled", base=f"{kernels[0]}, {launches[0]}", new=f"{kernels[1]}, {launches[1]}")


def total_rows(comparison: Comparison) -> Iterator[TotalRow]:
    """Yield the figures of the whole run; the GPU time of all kernels if the comparison names none."""
    base_s, new_s = comparison.base.time_s, comparison.new.time_s
    for item in comparison.total or (
        QuantityChange(
            name="gpu-time",
            unit="s",
            base=base_s,
            new=new_s,
            ratio=new_s / base_s if base_s and new_s is not None else None,
            verdict="unknown",
        ),
    ):
        most = max(abs(value) for value in (item.base or 0.0, item.new or 0.0)) or 1.0
        base, new = side_texts(item.base, item.new, item.unit)
        name = printable(count_name(item.name))
        yield TotalRow(
            name=f"{name[:1].upper()}{name[1:]}",
            base=base,
            new=new,
            change=change_text(item.ratio, ""),
            verdict=item.verdict,
            base_bar=percent_number(item.base / most) if item.base is not None else None,
            new_bar=percent_number(item.new / most) if item.new is not None else None,
            both=base if item.base is not None and item.base == item.new else "",
        )


def side_facts(side: Side, title: str) -> SideFacts:
    """Return the provenance of a side."""
    return SideFacts(title, tuple(_run_facts(run, number, len(side.runs)) for number, run in enumerate(side.runs, 1)))


def short_files(side: ComparedSide) -> str:
    """Name the files of a side in a title."""
    names = [cut_middle(printable(file_name(file)), _NAME_LENGTH) for file in side.files]
    return ", ".join(names[:1]) + (f" and {len(names) - 1} more" if len(names) > 1 else "") or "nothing"


def _run_facts(run: Run, number: int, count: int) -> RunFacts:
    session = run.session
    name = cut_middle(printable(file_name(run.file)), _NAME_LENGTH)
    return RunFacts(
        title=f"Run {number} of {count}: {name}" if count > 1 else name,
        facts=tuple(LabelledText(*fact) for fact in run_facts(session)),
        sources=tuple(tuple(LabelledText(*fact) for fact in source_facts(source)) for source in session.sources),
    )


def _files(side: ComparedSide) -> str:
    names = [cut_middle(printable(file_name(file)), _NAME_LENGTH) for file in side.files]
    more = f" and {len(names) - _FILES} more" if len(names) > _FILES else ""
    return ", ".join(names[:_FILES]) + more or "none"


def _gpus(side: ComparedSide) -> str:
    return cut_middle(printable(", ".join(gpu_texts(side.gpus))), _NAME_LENGTH) or value_text(None, "")
