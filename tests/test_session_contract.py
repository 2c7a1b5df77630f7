"""The session is declared once: what follows from the declaration stays what users and older files rely on."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuprof.errors import DamagedInput
from gpuprof.model import session
from gpuprof.model.session import Session
from gpuprof.recordings import Recording, recordings
from gpuprof.store.page import packed_session
from gpuprof.store.read import read_session
from gpuprof.store.schema import schema_of_session
from gpuprof.store.write import session_lines
from tests import hand_made
from tests.readings import session_of, unpacked
from tests.table import each_row
from tests.test_page import diagnosed
from tests.test_timeline import kernel, trace
from tests.test_timeline import session as session_of_traces

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
LONE = "\udcff"
"""The replacement of a byte that is not UTF-8; in JSON an escape, or half of a surrogate pair."""
REFERENCE = ROOT / "docs" / "reference" / "session.md"


def text_of(made: Session) -> str:
    return "\n".join(session_lines(made))


# Older files and older readers


"""Sessions of version 1: of the first gpuprof that had the contract, and of the last one that wrote that version."""


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    """The schema as it is generated."""
    return jsonschema.Draft202012Validator(schema_of_session())


@each_row("recording", recordings(), ids=lambda recording: recording.place.name)
def test_the_schema_takes_sessions_of_recordings(recording: Recording, schema: jsonschema.Draft202012Validator) -> None:
    schema.validate(json.loads(text_of(session_of(unpacked(recording)))))


def test_the_schema_takes_findings_code_timelines_and_parts_of_a_run(schema: jsonschema.Draft202012Validator) -> None:
    run = {
        "kernels": 1, "launches": 3, "timed_launches": 3, "timed_shapes": 1, "time_s": 1.0, "main_kernels": 1,
        "main_time_s": 1.0,
    }  # fmt: skip
    timeline = session_of_traces(trace(kernel("a", 0, 1), kernel("b", 9, 1)))
    for made in (diagnosed(), timeline, hand_made.session(hand_made.kernel(0, hand_made.finding()))):
        schema.validate(json.loads(text_of(made)))
        schema.validate(json.loads(text_of(made)) | {"run": run})


# Numbers that are not finite


@each_row("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_by_its_place(number: float) -> None:
    spoiled = hand_made.session(
        hand_made.kernel(0),
        hand_made.kernel(1, stalls=(session.Stall("wait", 0.5, None, family="counter"),), waves=None),
        hand_made.kernel(2, stalls=(session.Stall("wait", number, None, family="counter"),)),
    )
    for write in (text_of, packed_session):
        with pytest.raises(ValueError, match=rf"^kernels\[2\]\.stalls\[0\]\.share is {number}, "):
            write(spoiled)


def floats(value: object, *path: str | int) -> Any:
    """Yield where floats are below a value of JSON."""
    if isinstance(value, float):
        yield path
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from floats(part, *path, name)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from floats(part, *path, index)


# Damage


@each_row(
    ("field", "value", "place"),
    [
        ("grid", [LONE, 1, 1], "grid[0]"),
        ("launches", LONE, "launches"),
        ("throttled", LONE, "throttled"),
        ("occupancy", LONE, "occupancy"),
        ("work", [LONE], "work[0]"),
        ("stalls", [{"reason": "wait", "share": 0.5, "cycles_per_issue": None, "family": LONE}], "stalls[0].family"),
        ("excerpts", [{"language": LONE, "file": LONE, "weight": "samples", "lines": []}], "excerpts[0].language"),
        ("label", 5, "label"),
    ],
)
def test_a_lone_surrogate_where_no_text_belongs_is_damage_at_its_place(field: str, value: object, place: str) -> None:
    document = json.loads(text_of(diagnosed()))
    document["kernels"][0][field] = value
    for text in (json.dumps(document), json.dumps(document, ensure_ascii=False)):
        with pytest.raises(DamagedInput, match=rf"\.kernels\[0\]\.{re.escape(place)} is ") as caught:
            read_session(text, "s.json")
        assert str(caught.value).isprintable()


# The declaration


def records() -> dict[str, Any]:
    schema = schema_of_session()
    return {"Session": schema, **schema["$defs"]}


def test_every_field_has_a_meaning_in_the_schema_and_a_row_in_the_reference() -> None:
    page = REFERENCE.read_text(encoding="utf-8")
    assert len(records()) > 35
    for name, record in records().items():
        rows = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0].splitlines()
        for field, schema in record["properties"].items():
            assert schema["description"], (name, field)
            assert any(row.startswith(f"| `{field}` | ") for row in rows), (name, field)


# What does without


def test_what_reads_no_session_does_not_import_msgspec() -> None:
    code = (
        "import sys, gpuprof; assert 'msgspec' not in sys.modules; import gpuprof.cli.main as m\n"
        "for line in sys.argv[1:]:\n"
        "    m.cli.main(line.split(), standalone_mode=False)\n"
        "    assert 'msgspec' not in sys.modules, line"
    )
    names = ("show", "run", "demo", "roofline", "report", "compare", "characterize")
    lines = ["--help", "--version", *(f"{name} --help" for name in names)]
    done = subprocess.run([sys.executable, "-c", code, *lines], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_fields_and_kinds_of_a_later_gpuprof_are_passed_over() -> None:
    document = json.loads(text_of(diagnosed()))
    later = {**document, "later": {"deep": [None]}, LONE: {LONE: [LONE]}}
    later["kernels"] = [{**kernel, "later": 1, LONE: LONE} for kernel in document["kernels"]]
    for text in (json.dumps(later), json.dumps(later, ensure_ascii=False)):
        assert read_session(text, "s.json") == diagnosed()
    document["sources"][0]["kind"] = "rocprof"
    document["sources"][0]["file"] = f"{LONE}.ncu-rep"
    read = read_session(json.dumps(document), "s.json")
    assert (read.sources[0].kind, read.sources[0].file) == ("rocprof", f"{LONE}.ncu-rep")
    assert read_session(text_of(read), "s.json") == read
