"""What gpuprof says: that its texts are listed as what they are, and that none goes against the vocabulary."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
MODULE = '''"""A docstring."""
import re
import click

COMMANDS = {"run": "Profile a program."}
NAMES = {"gpu__time_duration.sum": "Duration"}
PATTERN = re.compile("no kernels were profiled")

class Odd(Exception):
    """Another docstring."""

@click.command("run")
@click.option("--top", help="Number of kernels.", default="all of them")
def command(top: "a type that is quoted") -> None:
    """Profile PROGRAM."""
    if "was not found" in top:
        raise DamagedInput(f"{top} has {len(top):>5} kernels", "name another file")
    raise UsageError("wrong", hint=f"try {'this way' if top else 'that way'}")
'''
TEMPLATE = """<h2 title="The long way">{{ name }} and {{ other }}</h2><!-- no word of this -->
{# nor of this #}<p>Longest kernels first</p>
{{ parts.grid("What it did", rows) }}
"""


@pytest.fixture
def strings(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the script that lists what gpuprof says."""
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("strings")


@pytest.fixture
def banned_words(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the vocabulary."""
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("banned_words")


def test_texts_of_a_module_are_told_apart_and_names_patterns_and_docstrings_left_out(
    strings: Any, tmp_path: Path
) -> None:
    (tmp_path / "said.py").write_text(MODULE)
    texts = [(text.line, text.kind, text.text) for text in strings.texts_of(tmp_path / "said.py")]
    assert texts == [
        (5, "help", "Profile a program."),
        (6, "other", "Duration"),
        (13, "help", "Number of kernels."),
        (13, "other", "all of them"),
        (14, "help", "Profile PROGRAM."),
        (17, "error", "{top} has {…} kernels"),
        (17, "hint", "name another file"),
        (18, "error", "wrong"),
        (18, "hint", "try {…}"),
        (18, "hint", "this way"),
        (18, "hint", "that way"),
    ]


def test_texts_of_a_template_are_what_stands_between_its_marks(strings: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(TEMPLATE)
    texts = [(text.line, text.text) for text in strings.texts_of(tmp_path / "page.html")]
    assert texts == [(1, "The long way"), (1, "{…} and {…}"), (2, "Longest kernels first"), (3, "What it did")]


@pytest.mark.parametrize(
    "text",
    [
        "the roof allows 3 TFLOP/s",
        "No rule found a repair.",
        "a row is a launch shape",
        "5.6 % of warp places are filled",
        "the kernel is on the memory side",
        "warps wait: long scoreboard 40 %",
        "Done!",
        "Error: no such file",
        "please wait",
        "consider fusing them",
        "a.txt is no report",
        "--top and --kernel exclude each other",
    ],
)
def test_a_text_against_the_vocabulary_is_seen(banned_words: Any, text: str) -> None:
    assert len(list(banned_words.banned(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "52 % of the DRAM roofline",
        "fraction_of_roof",
        "--sort roof orders by the ceiling",
        "there is no NVIDIA driver",
        "it is no longer read",
        "Long Scoreboard 40 %",
        "long scoreboard",
        "x != y",
        "error: no such file",
        "considered",
    ],
)
def test_a_text_within_the_vocabulary_passes(banned_words: Any, text: str) -> None:
    assert list(banned_words.banned(text)) == []


def test_every_exception_is_needed(banned_words: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = dict(banned_words.ALLOWED)
    monkeypatch.setattr(banned_words, "ALLOWED", {})
    assert [piece for piece in pieces if not list(banned_words.banned(piece))] == []


def test_a_folder_is_listed_with_file_line_and_kind(
    strings: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(DOCS.parent)
    monkeypatch.setattr(sys, "argv", ["strings.py", "gpuprof/collect/overwrite.py"])
    assert strings.main() == 0
    printed = capsys.readouterr().out
    assert "gpuprof/collect/overwrite.py:21: hint: choose another name, or add --force\n" in printed
    assert all(line.startswith("gpuprof/collect/overwrite.py:") for line in printed.splitlines())


def test_nothing_goes_against_the_vocabulary(strings: Any) -> None:
    assert list(strings.violations(strings.texts())) == []
