"""A session survives its JSON, and a broken one is refused with a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuprof
from gpuprof.errors import DamagedInput, GpuprofError, InputError
from gpuprof.model.analyse import analyse
from gpuprof.model.session import Session
from gpuprof.present.json_out import session_lines
from gpuprof.read.session_json import read_session
from tests import builders


def example() -> Session:
    launches = builders.launch(builders.FLOP_1, name="κ<1> \x1b[31m"), builders.launch({})
    return analyse([builders.report(*launches)], builders.hardware_of, "9.9").session


def text_of(session: Session) -> str:
    return "\n".join(session_lines(session))


def test_a_session_reads_back_equal() -> None:
    session = example()
    assert read_session(text_of(session), "s.json") == session


def test_real_sessions_read_back_equal(real_report: Path) -> None:
    session = gpuprof.load(real_report)
    assert read_session(text_of(session), "s.json") == session


def test_a_saved_session_is_loaded_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_text(text_of(example()), encoding="utf-8")
    assert gpuprof.load(path) == example()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": 2}, "newer than the 1"),
        ({"schema_version": 0}, "older than the 1"),
        ({"kernels": 5}, "kernels is not a list"),
        ({"kernels": [{}]}, r"kernels\[0\] has no id"),
        ({"devices": []}, "names a device or source that is not there"),
        ({"gpuprof_version": None}, "gpuprof_version is None"),
        ({"ranking": [1]}, r"ranking\[0\] is not an object"),
        ({"schema_version": "1"}, "schema '1', and not the 1"),
    ],
)
def test_a_session_that_breaks_the_contract_is_refused(change: dict[str, object], words: str) -> None:
    data = json.loads(text_of(example())) | change
    with pytest.raises(InputError, match=words):
        read_session(json.dumps(data), "s.json")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("kernels", 0, "roofline", 0, "intensity"), 0),
        (("kernels", 0, "roofline", 0, "intensity"), -1.0),
        (("kernels", 0, "roofline", 0, "roof_flop_per_s"), 1e308),
        (("kernels", 0, "roofline", 0, "level"), "l9"),
        (("kernels", 0, "roofline", 0, "path"), "\x1b]0;owned\x07"),
        (("kernels", 0, "traffic", 0, "level"), ""),
        (("kernels", 0, "traffic", 0, "basis"), "\u202e"),
        (("kernels", 0, "occupancy", "limiters"), ["[blink]x[/blink]"]),
        (("kernels", 0, "duration_s"), 10**400),
        (("kernels", 0, "shared_memory_per_block"), 10**30),
        (("ceilings", 0, "value"), 0),
        (("ceilings", 0, "origin"), "elsewhere"),
        (("sources", 0, "created_s"), 2**62),
    ],
)
def test_values_that_no_session_has_are_refused(place: tuple[str | int, ...], value: object) -> None:
    data = json.loads(text_of(example()))
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(DamagedInput, match="is damaged"):
        read_session(json.dumps(data), "s.json")


def test_json_escapes_what_could_steer_a_terminal() -> None:
    hostile = analyse(
        [builders.report(builders.launch({}, name="\x9b31m \u202e κ"))], builders.hardware_of, "9.9"
    ).session
    text = text_of(hostile)
    assert "\x9b" not in text and "\u202e" not in text and "κ" in text
    assert read_session(text, "s.json") == hostile


@pytest.mark.parametrize("text", ["{", "[1]", "{}", '{"schema_version": NaN}', "[" * 100_000, '{"a": 1}'])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        read_session(text, "s.json")


@given(st.data())
def test_a_value_replaced_anywhere_gives_a_session_or_an_error(data: st.DataObject) -> None:
    document = json.loads(text_of(example()))
    node: object = document
    for _ in range(data.draw(st.integers(1, 6))):
        if not isinstance(node, (dict, list)) or not node:
            break
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        parent, node = node, node[key]
    values = (
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()) | st.floats(allow_nan=False)
    )
    parent[key] = data.draw(values)
    try:
        session = read_session(json.dumps(document, allow_nan=True), "s.json")
    except GpuprofError as error:
        assert isinstance(error, (InputError, DamagedInput))
    else:
        assert isinstance(session, Session)
