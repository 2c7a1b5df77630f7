"""The generated reference tells what gpuprof does: its schema and exit codes. `test_demo` checks that it is current."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from gpuprof import errors
from gpuprof.cli.main import cli
from gpuprof.errors import GpuprofError
from gpuprof.model.analyse import analyse
from gpuprof.model.session import Session
from gpuprof.store.write import session_lines
from tests import builders
from tests.cli import gpuprof
from tests.readings import session_of
from tests.table import each_row

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    text = (ROOT / "docs" / "reference" / "session.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def to_json(session: Session) -> object:
    return json.loads("\n".join(session_lines(session)))


def test_a_hand_made_session_fits_the_schema(schema: jsonschema.Draft202012Validator) -> None:
    session = analyse(
        [builders.report(builders.launch(builders.FLOP_1), builders.launch({}))], builders.hardware_of, "1"
    ).session
    schema.validate(to_json(session))


def test_real_sessions_fit_the_schema(real_report: Path, schema: jsonschema.Draft202012Validator) -> None:
    schema.validate(to_json(session_of(real_report)))


@each_row("field", ["schema_version", "kernels", "devices"])
def test_the_schema_refuses_a_session_without_a_field(field: str, schema: jsonschema.Draft202012Validator) -> None:
    session = to_json(analyse([builders.report(builders.launch({}))], builders.hardware_of, "1").session)
    assert isinstance(session, dict)
    del session[field]
    assert not schema.is_valid(session)


EXCEPTIONS = [
    GpuprofError,
    *(kind for kind in vars(errors).values() if GpuprofError in getattr(kind, "__mro__", ())[1:]),
]
every_exception = each_row("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)


@every_exception
def test_a_command_ends_with_the_exit_code_that_the_reference_gives_an_exception(
    kind: type[GpuprofError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise kind("what happened", "what to type")

    monkeypatch.setattr(cli, "main", fail)
    done = gpuprof("show")
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| (\d+) \|.*`{kind.__name__}`", page, re.MULTILINE)
    assert (done.returncode, done.stderr) == (int(row), "error: what happened\nhint: what to type\n")


@every_exception
def test_the_tree_of_exceptions_is_drawn_as_it_is(kind: type[GpuprofError]) -> None:
    rows = re.findall(r"^([│├└─ ]*)(\w+) +(\d+)  \S", errors.__doc__ or "", re.MULTILINE)
    assert len(rows) == len(EXCEPTIONS)
    ((branch, code),) = ((branch, code) for branch, name, code in rows if name == kind.__name__)
    assert (len(branch) // 4, int(code)) == (len(kind.__mro__) - len(GpuprofError.__mro__), kind.exit_code)
