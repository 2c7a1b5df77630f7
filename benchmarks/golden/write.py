"""Asks gpuprof, whichever version this Python imports, and writes the facts of its answers as JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.golden.facts import facts_of
from benchmarks.golden.inputs import GoldenInput

_GATE_FAILED = (6, 7)


def answer(question: GoldenInput) -> dict[str, Any]:
    """Return the facts of one answer; if gpuprof refuses, its exit code."""
    from click.testing import CliRunner

    from gpuprof.cli.main import cli

    result = CliRunner().invoke(cli, [question.kind, *question.arguments, "--format", "json"])
    if result.exit_code not in (0, *_GATE_FAILED):
        return {"exit_code": result.exit_code}
    return facts_of(question.kind, json.loads(result.stdout))


def write(questions: Iterable[GoldenInput], folder: Path) -> Iterator[str]:
    """Write the answer to each question into `folder`; yield each name when it is done."""
    folder.mkdir(parents=True, exist_ok=True)
    for question in questions:
        file_of(folder, question.name).write_text(as_text(answer(question)), encoding="utf-8")
        yield question.name


def file_of(folder: Path, name: str) -> Path:
    """Return where the answer to a question is kept."""
    return folder / f"{name}.json"


def as_text(facts: dict[str, Any]) -> str:
    """Return facts as JSON with one line for each kernel, and for each other field."""
    lines = []
    for name, value in facts.items():
        if name == "kernels":
            items = ",\n".join(f"    {json.dumps(item, ensure_ascii=False)}" for item in value)
            lines.append(f'  "kernels": [\n{items}\n  ]')
        else:
            lines.append(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
