"""Raw samples on disk: written line by line, gone on with after an interruption, and never believed when damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.characterize.record.samples import SampleFile, SamplesHeader, entry_line, header_line, read_samples
from gpuprof.characterize.record.series import CHOSEN, OBSERVED, Observed, Sample, Series, SeriesConfig
from gpuprof.errors import DamagedInput, InputError
from tests.table import each_row

HEADER = SamplesHeader("0.1.0", "NVIDIA H200", "10de:2335", "580.1", "2026-01-02T03:04:05Z")
SWEEP = Series(
    probe="bandwidth/dram_read",
    config=SeriesConfig(
        values={"carveout": 0.5, "hint": "cg", "wide": True}, block=512, data="random", regime="short", allocation=2
    ),
    seen=Observed(sms=132, result="correct", settled=False, temperature_c=-3.5),
    round=0,
    samples=(Sample(1000, 1.5e-3, 2.97e6, 1.98e9, 0x4), Sample(2000, 3.0e-3)),
)
AGAIN = replace(SWEEP, round=1)
HEAD = header_line(HEADER)
FILE = HEAD + entry_line(SWEEP) + entry_line(AGAIN)

OURS = {*CHOSEN, *OBSERVED}
amounts = st.floats(1e-12, 1e12)
parameters = st.dictionaries(
    st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8).filter(lambda name: name not in OURS),
    st.integers(-(2**62), 2**62) | amounts | st.booleans() | st.text(st.characters(categories=["L", "P"]), max_size=8),
    max_size=4,
)
samples = st.builds(
    Sample, st.integers(0, 2**62), amounts, st.none() | amounts, st.none() | amounts, st.none() | st.integers(0, 2**40)
)


@given(parameters, st.lists(samples, min_size=1, max_size=5), st.integers(0, 100))
def test_any_series_reads_back_as_it_was_written(
    values: dict[str, str | int | float | bool], taken: list[Sample], number: int
) -> None:
    config = SeriesConfig(values=values, data="zeros", regime="sustained")
    series = Series(probe="latency/l1", config=config, round=number, samples=tuple(taken))
    assert read_samples(HEAD + entry_line(series), "run.jsonl").series == (series,)


@given(st.integers(len(HEAD), len(FILE) - 1))
def test_file_cut_anywhere_keeps_its_whole_lines_and_says_what_it_dropped(cut: int) -> None:
    stored = read_samples(FILE[:cut], "run.jsonl")
    whole = FILE[:cut].count(b"\n")
    assert len(stored.series) == whole - 1
    assert FILE[: stored.whole_bytes].endswith(b"\n")
    if FILE[cut - 1 : cut] == b"\n":
        assert stored.remarks == ()
    else:
        assert len(stored.remarks) == 1 and f"line {whole + 1} " in stored.remarks[0]


def test_run_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    first = SampleFile(path, HEADER)
    first.append(SWEEP)
    with path.open("ab") as file:
        file.write(entry_line(AGAIN)[:40])
    second = SampleFile(path, replace(HEADER, started="2026-01-03T00:00:00Z", gpuprof_version="0.2.0"), resume=True)
    assert second.stored.series == (SWEEP,)
    assert len(second.stored.remarks) == 1
    second.append(AGAIN)
    assert read_samples(path.read_bytes(), "run.jsonl").series == (SWEEP, AGAIN)
    with pytest.raises(InputError, match="already exists") as caught:
        SampleFile(path, HEADER)
    assert "--resume" in (caught.value.hint or "")
    for other in (replace(HEADER, device="NVIDIA A40"), replace(HEADER, driver="590.2")):
        with pytest.raises(InputError, match="H200"):
            SampleFile(path, other, resume=True)
    for missing in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            SampleFile(missing, HEADER, resume=True)
    assert len(read_samples(path.read_bytes(), "run.jsonl").series) == 2


@each_row(
    "first",
    [
        b"", b"PNG", b"PNG\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"{}\n", b"[1]\n",
        HEAD.replace(b'"schema":1', b'"schema":2'), HEAD.replace(b'"schema":1', b'"schema":true'),
        HEAD.replace(b'"NVIDIA H200"', b"5"), HEAD.replace(b"NVIDIA", b"\\u001b[2J"),
        HEAD.replace(b'"580.1"', b"false"),
    ],
)  # fmt: skip
def test_what_is_no_sample_file_is_refused(first: bytes) -> None:
    with pytest.raises(InputError):
        read_samples(first, "run.jsonl")


PLAIN = {"data": "zeros", "regime": "short"}


@each_row(
    "changes",
    [
        *({"probe": probe} for probe in (None, "", "a\x1b[2Jb", "run")),
        {"probe": "run", "configuration": {"number": 0}},
        *({"configuration": values} for values in ([1], {"a": {"b": 1}}, {"a": 10**30}, {"data": "zeros"})),
        *({"configuration": {**PLAIN, **odd}} for odd in (
            {"regime": 1}, {"grid": "8"}, {"block": True}, {"settled": 1}, {"sms": 0}, {"grid": 0},
            {"power_w": "much"})),
        {"round": -1}, {"round": True},
        *({"samples": taken} for taken in (
            [], [[1, 2.0]], [[1.5, 1.0, None, None, None]], [[1, 0.0, None, None, None]], [[1, "1", None, None, None]],
            [[1, 1e300, None, None, None]], [[1, 1.0, -5, None, None]], [[1, 1.0, None, None, 4.0]])),
    ],
)  # fmt: skip
def test_line_that_no_run_writes_is_damage_with_its_number(changes: dict[str, object]) -> None:
    content = {**json.loads(entry_line(SWEEP)), **changes}
    with pytest.raises(DamagedInput, match=r"run\.jsonl .*line 2 "):
        read_samples(HEAD + json.dumps(content).encode() + b"\n", "run.jsonl")


@each_row(
    "line",
    [
        b"{}", b"{", b'{"probe":NaN}', b'{"probe":"a","probe":"b"}', b"9" * 10_000, b"\xff", b'{"a":' * 50_000,
        b"[" * 20_000_000,
    ],
)  # fmt: skip
def test_damaged_line_in_the_middle_is_not_skipped(line: bytes) -> None:
    with pytest.raises(DamagedInput, match="line 2 "):
        read_samples(HEAD + line + b"\n" + entry_line(SWEEP), "run.jsonl")
    with pytest.raises(DamagedInput, match="lines 2 and 4 "):
        read_samples(FILE + entry_line(SWEEP), "run.jsonl")
    with pytest.raises(ValueError, match="JSON"):
        entry_line(replace(SWEEP, samples=(Sample(1, float("nan")),)))


@given(st.data())
@settings(max_examples=66)
def test_altered_file_is_read_or_refused_but_never_crashes(data: st.DataObject) -> None:
    content = bytearray(FILE)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        stored = read_samples(bytes(content), "run.jsonl")
    except InputError:
        return
    assert all(sample.time_s > 0 for series in stored.series for sample in series.samples)
