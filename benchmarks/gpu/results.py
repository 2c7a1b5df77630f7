"""The page of results: a table from the indexes of all recordings, between two marks; all else on it stays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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
    yield ""
    yield "| GPU | driver, ncu | step | what | result |"
    yield "|---|---|---|---|---|"
    for index in indices:
        for name, step in sorted(index["steps"].items(), key=lambda named: (named[1]["visit"], named[0])):
            versions = step["versions"]
            tools = f"{versions.get('driver', '–')}, {versions.get('ncu', '–')}"
            rows = [*_figures(step), *((problem, step["state"]) for problem in step["problems"])]
            for what, result in rows or [("", step["state"])]:
                cells = (index["gpu"], tools, f"{step['visit']} {name}", what, result)
                yield "| " + " | ".join(map(_cell, cells)) + " |"
    yield ""


def _figures(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for figure in step["figures"]:
        yield figure["name"], "–" if figure["value"] is None else f"{figure['value']:.4g} {figure['unit']}".rstrip()


def _cell(text: str) -> str:
    """Return a text as a cell: no mark of Markdown or HTML acts in it."""
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, f"\\{mark}")
    return text
