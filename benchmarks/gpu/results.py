"""The page of results: a table from the indexes of all recordings, between two marks; all else on it stays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

BEGIN = "<!-- From tests/data/gpu by `python -m benchmarks.gpu take`; change nothing up to the next mark. -->"
END = "<!-- The table ends here. -->"
_PAGE = """# Results

What was measured on GPUs by [the kit for anyone with one](../../benchmarks/gpu/README.md), its failures included. The
recordings are in `tests/data/gpu`; the index there has the command of every file.

{begin}
{end}
"""
_LINK = "  - [Results](explanation/results.md): what was measured on GPUs, and with what.\n"
_NAMED = ("driver", "ncu", "nvcc", "python", "torch", "triton", "cupy", "jax")
_COSTS = (
    "alone", "under gpuprof r", "its survey", "its limits, ", "its answers, ", "its profile, ", "its profile again, ",
    "of the GPU's time, profiled", "under ncu --set full, ",
)  # fmt: skip
"""How figures begin that stand in columns."""
_COST_HEADS = (
    "alone", "under gpuprof", "its survey", "its limits", "its answers", "all counters at once", "again",
    "of the GPU's time", "ncu --set full", "passes",
)  # fmt: skip
_BEFORE_LINK = "  - [Trust](explanation/trust.md)"


def write_results(root: Path) -> Path:
    """Write the table, and the page with its link where there is none; return the page."""
    page, data = root / "docs" / "explanation" / "results.md", root / "tests" / "data" / "gpu"
    indices = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(data.glob("*/index.json"))]
    text = page.read_text(encoding="utf-8") if page.exists() else _PAGE.format(begin=BEGIN, end=END)
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    page.parent.mkdir(parents=True, exist_ok=True)
    table = "\n".join(_table(indices))
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    _linked(root / "docs" / "index.md")
    return page


def _linked(index: Path) -> None:
    """Name the page on the map."""
    if not index.exists():
        return
    text = index.read_text(encoding="utf-8")
    if "explanation/results.md" not in text:
        index.write_text(text.replace(_BEFORE_LINK, f"{_LINK}{_BEFORE_LINK}", 1), encoding="utf-8")


def _table(indices: list[dict[str, Any]]) -> Iterator[str]:
    for index in indices:
        steps = sorted(index["steps"].items())
        yield ""
        yield f"### {_cell(index['gpu'])}"
        yield ""
        tools = sorted({named for _, step in steps if (named := _tools(step))})
        yield f"{_cell('; or '.join(tools)) or 'Versions are not known'}."
        yield from _costs(steps)
        yield from _findings(steps)
    yield ""


def _costs(steps: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Yield what profiling a program takes: the rows of steps that ran one alone and under gpuprof."""
    rows = [(name, cells) for name, step in steps if (cells := _cost_cells(step)) is not None]
    if not rows:
        return
    yield ""
    yield f"| program | {' | '.join(_COST_HEADS)} |"
    yield f"|---|{'---|' * len(_COST_HEADS)}"
    for name, cells in rows:
        yield f"| {_cell(name.removeprefix('run-'))} | {' | '.join(map(_cell, cells))} |"


def _cost_cells(step: Mapping[str, Any]) -> list[str] | None:
    figures = dict(_figures(step))
    if not any(name in figures for name in ("alone", "under gpuprof run", "under gpuprof roofline")):
        return None
    counted = (name.rpartition(", ")[2] for name in figures if name.startswith(_COSTS[3:6]))
    passes = ", ".join(text.removesuffix(" passes each") for text in counted) or "–"
    cells = [next((figures[name] for name in figures if name.startswith(begin)), "–") for begin in _COSTS]
    return [*cells, passes]


def _findings(steps: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Yield all other figures, and what went wrong."""
    yield ""
    yield "| step | what | result |"
    yield "|---|---|---|"
    for name, step in steps:
        figures = [(what, result) for what, result in _figures(step) if not what.startswith(_COSTS)]
        rows = [*figures, *((problem, step["state"]) for problem in step["problems"])]
        for what, result in rows or ([] if step["figures"] else [("", step["state"])]):
            cells = (name, what, result)
            yield "| " + " | ".join(map(_cell, cells)) + " |"


def _tools(step: Mapping[str, Any]) -> str:
    """Name the versions that a step ran with."""
    versions = step["versions"]
    return ", ".join(f"{name} {versions[name]}" for name in _NAMED if name in versions)


def _figures(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for figure in step["figures"]:
        yield figure["name"], "–" if figure["value"] is None else f"{figure['value']:.4g} {figure['unit']}".rstrip()


def _cell(text: str) -> str:
    """Return a text as a cell: no mark of Markdown or HTML acts in it."""
    for mark in "\\`*_[]<>|#!":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
