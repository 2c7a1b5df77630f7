"""What the commands print fits the schema in the generated reference. `test_demo` checks that it is current."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from gpuprof.model.analyse import analyse
from gpuprof.model.session import Session
from gpuprof.store.write import session_lines
from tests import builders
from tests.readings import session_of

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


@pytest.mark.parametrize("field", ["schema_version", "kernels", "devices"])
def test_the_schema_refuses_a_session_without_a_field(field: str, schema: jsonschema.Draft202012Validator) -> None:
    session = to_json(analyse([builders.report(builders.launch({}))], builders.hardware_of, "1").session)
    assert isinstance(session, dict)
    del session[field]
    assert not schema.is_valid(session)
