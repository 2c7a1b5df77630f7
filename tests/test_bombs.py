"""Small files that are made to take much: each ends soon and in little memory, with an error or a result."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest

from gpuprof.errors import DamagedInput, InputError
from gpuprof.read.files import read_file
from gpuprof.read.torch_json import TraceJson
from gpuprof.store.read import read_session
from gpuprof.store.write import session_bytes
from tests.table import each_row
from tests.test_figures import TWO

LARGEST = 1_000_000
MEMORY_BYTES, PROCESSOR_S = 500 * 10**6, 10
EXPORT = (
    '"ID","Process ID","Kernel Name","Context","Stream","Section Name","Metric Name","Metric Unit","Metric Value"\n'
)


Make = Callable[[Path], bytes]


@cache
def session() -> str:
    return session_bytes(TWO).decode()


def with_field(text: str) -> bytes:
    return f'{session().rstrip().removesuffix("}")}, "more": {text}}}'.encode()


def with_list(name: str, item: str, number: int, of: str | None = None) -> bytes:
    """A session in which the first list of that name has so many equal items."""
    text = of or session()
    at = text.index(f'"{name}": [') + len(f'"{name}": ')
    _, end = json.JSONDecoder().raw_decode(text, at)
    return (text[:at] + "[" + ",".join([item] * number) + "]" + text[end:]).encode()


def page(data: bytes) -> bytes:
    block = base64.b64encode(lzma.compress(data, preset=1)).decode()
    head = '<!doctype html><html><script type="application/octet-stream" id="gpuprof-session">'
    return f"{head}\n{block}\n</script></html>".encode()


def trace(*events: str, number: int = 1) -> bytes:
    return ('{"traceEvents": [' + ",".join([*events] * number) + "]}").encode()


def database(path: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(path)) as made:
        for statement in statements:
            made.execute(statement)
        made.commit()
    return path.read_bytes()


CEILING = json.loads(session_bytes(TWO))["ceilings"][0]
KERNEL = '{"ph":"X","cat":"kernel","ts":1,"dur":1,"name":"k"}'
TABLE = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER, shortName INTEGER)"
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id, 'k' || x AS value FROM c"
COMPUTED = "CREATE TABLE StringIds(id INTEGER, value TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000))))"

BOMBS: dict[str, Make] = {
    "kernels.pt.trace.json.gz": lambda _: gzip.compress(trace(KERNEL, number=400_000), 9),
    "spaces.pt.trace.json.gz": lambda _: gzip.compress(b'{"traceEvents": [' + b" " * 2**26, 9),
    "deep.pt.trace.json": lambda _: b'{"traceEvents": ' + b"[" * 900_000,
    "durations.html": lambda _: page(with_list("durations_s", "0", 15_000_000, launched())),
    "unknown-field.html": lambda _: page(with_field("[" + ",".join(["{}"] * 10_000_000) + "]")),
    "spaces.html": lambda _: page(b" " * (2**26 + 1)),
    "deep.json": lambda _: with_field("[" * 450_000 + "]" * 450_000),
    "rows.csv.gz": lambda _: gzip.compress(EXPORT.encode() + b'"1","",\n' * 3_000_000, 9),
    "field.csv": lambda _: f'{EXPORT}"0","1","{"a" * 900_000}"\n'.encode(),
    "open-quotes.csv": lambda _: EXPORT.encode() + b'"0","1","\n' * 90_000,
    "endless-view.sqlite": lambda place: database(place, TABLE, f"CREATE VIEW StringIds AS {ENDLESS}"),
    "computed-column.sqlite": lambda place: database(
        place, TABLE, COMPUTED, "INSERT INTO StringIds(id) VALUES (1)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 1)",
    ),
}  # fmt: skip


def launched() -> str:
    begin, _, rest = session().partition('"launch_times": null')
    return f'{begin}"launch_times": {{"durations_s": [], "dropped": 0}}{rest}'


MEASURED = """
import resource, subprocess, sys
code = subprocess.run([sys.executable, "-m", "gpuprof", "show", sys.argv[1]], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_takes_little_time_and_memory(name: str, tmp_path: Path) -> None:
    data = BOMBS[name](tmp_path / "made")
    assert len(data) <= LARGEST, "it is to be small"
    place = tmp_path / name
    place.write_bytes(data)
    done = subprocess.run([sys.executable, "-c", MEASURED, str(place)], capture_output=True, text=True, check=True)
    code, processor_s, memory_bytes = map(float, done.stdout.split())
    assert code in (0, 5) and "Traceback" not in done.stderr, done.stderr
    assert memory_bytes < MEMORY_BYTES and processor_s < PROCESSOR_S


def test_a_trace_of_few_bytes_has_few_events() -> None:
    packed = gzip.compress(trace("{}", number=200_000))
    with pytest.raises(InputError, match="events") as caught:
        list(TraceJson(BytesIO(packed), "t.json.gz").events())
    assert caught.value.hint is not None and "gunzip -k t.json.gz" in caught.value.hint
    assert len(list(TraceJson(BytesIO(trace("{}", number=200_000)), "t.json").events())) == 200_000


def test_an_event_across_the_pieces_of_a_trace_is_whole() -> None:
    events = [{"ph": number, "name": "é" * (number * 997 % 300_000)} for number in range(40)]
    data = json.dumps({"traceEvents": events, "baseTimeNanoseconds": 5}, ensure_ascii=False)
    for encoding in ("utf-8", "utf-16"):
        stream = TraceJson(BytesIO(data.encode(encoding)), "t.json")
        assert [{"ph": event.ph, "name": event.name} for event in stream.events()] == events
        assert stream.fields == {"baseTimeNanoseconds": 5}


@each_row(("name", "item"), [("ranges", '""'), ("ceilings", json.dumps(CEILING)), ("warnings", '""')])
def test_a_list_that_no_session_has_is_refused(name: str, item: str) -> None:
    with pytest.raises(DamagedInput, match="length <= "):
        read_session(with_list(name, item, 20_000), "s.json")


@pytest.mark.slow
def test_a_small_file_has_no_more_launches_than_a_real_one(tmp_path: Path) -> None:
    row = '"{}","1","k","1","7","","Duration","us","1"\n'
    text = EXPORT + "".join(map(row.format, range(20_001)))
    place = tmp_path / "many.csv.gz"
    place.write_bytes(gzip.compress(text.encode(), 1))
    with pytest.raises(InputError, match="20,001 launches") as caught:
        read_file(str(place))
    assert caught.value.hint is not None and "gunzip -k" in caught.value.hint
