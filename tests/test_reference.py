"""The generated reference lists gpuprof's exit codes. `test_demo` checks that it is current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuprof import errors
from gpuprof.cli.main import cli
from gpuprof.errors import GpuprofError
from tests.cli import gpuprof
from tests.table import each_row

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"
EXCEPTIONS = [
    GpuprofError,
    *(kind for kind in vars(errors).values() if GpuprofError in getattr(kind, "__mro__", ())[1:]),
]


@each_row("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_a_command_ends_with_the_exit_code_that_the_reference_gives_an_exception(
    kind: type[GpuprofError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise kind("what happened", "what to type")

    monkeypatch.setattr(cli, "main", fail)
    done = gpuprof("show")
    (row,) = re.findall(rf"^\| (\d+) \|.*`{kind.__name__}`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert done.returncode == int(row) == kind.exit_code
    assert done.stderr == "error: what happened\nhint: what to type\n"
