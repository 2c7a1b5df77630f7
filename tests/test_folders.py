"""Folders instead of files: the traces of one run's ranks are read, of all else it is said what is there."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

import gpuprof
from gpuprof.errors import InputError
from tests import ncu_bytes
from tests.cli import gpuprof as typed
from tests.table import each_row

REPORT = ncu_bytes.simple_report([("k", ncu_bytes.A100)])


def trace(rank: int | None = None, ranks: int | None = None, start_us: float = 10.0, *, late: bool = False) -> bytes:
    """Return a trace with a kernel; `late`: what it says of the rank comes behind the events."""
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}
    args = {"device": 0, "stream": 7, "correlation": 1, "grid": [1, 1, 1], "block": [32, 1, 1]}
    events = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": start_us, "dur": 2.0,
         "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "k(int)", "pid": 0, "tid": 7, "ts": start_us + 5, "dur": 9.0,
         "args": args},
    ]  # fmt: skip
    info = {"backend": "nccl", "rank": rank, "world_size": ranks, "pg_config": [{"pg_name": "0", "ranks": [0]}]}
    said = {} if rank is None else {"distributedInfo": info}
    fields = {"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}
    return json.dumps({**fields, **said} if late else {**said, **fields}).encode()


def written(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files below a folder that is made for them."""
    log = folder / "log"
    log.mkdir()
    for name, content in files.items():
        (log / name).parent.mkdir(parents=True, exist_ok=True)
        (log / name).write_bytes(content)
    return log


def refusal(folder: Path) -> tuple[str, str]:
    with pytest.raises(InputError) as raised:
        gpuprof.load(folder)
    assert raised.value.hint is not None
    return raised.value.message, raised.value.hint


def test_the_only_trace_of_a_folder_is_read(tmp_path: Path) -> None:
    log = written(tmp_path, {"host_1.1700000000.pt.trace.json": trace(), "events.out.tfevents.1": b"\0\1", "a": b""})
    assert [source.file for source in gpuprof.load(log).sources] == ["host_1.1700000000.pt.trace.json"]


@each_row("late", [False, True])
@each_row("packed", [False, True])
def test_traces_of_the_ranks_of_one_run_are_read_in_the_order_of_ranks(
    tmp_path: Path, late: bool, packed: bool
) -> None:
    folder = tmp_path / f"{late}{packed}"
    folder.mkdir()
    contents = {f"host_{20 - rank}.17.pt.trace.json": trace(rank, 2, late=late) for rank in (0, 1)}
    if packed:
        contents = {f"{name}.gz": gzip.compress(content) for name, content in contents.items()}
    session = gpuprof.load(written(folder, contents))
    assert session.timeline is not None and session.timeline.source_ranks == (0, 1)
    assert [kernel.rank for kernel in session.kernels] == [0, 1]


def test_how_many_ranks_are_missing_is_said(tmp_path: Path) -> None:
    log = written(tmp_path, {f"{rank}.json": trace(rank, 8) for rank in (0, 1, 5, 7)})
    assert "4 of 8" in typed("show", "log", cwd=tmp_path).stdout
    for rank in (2, 3, 4, 6):
        (log / f"{rank}.json").write_bytes(trace(rank, 8))
    assert "of the others" not in typed("show", "log", cwd=tmp_path).stdout


@each_row(
    "name",
    ["trace_rank{}.json", "dp0_pp0_tp{0}_ep0_rank{0}.17000.pt.trace.json", "17.34-TP-{}.trace.json"],
    ids=["rank", "vLLM", "SGLang"],
)
def test_ranks_in_the_names_of_files_count_if_the_traces_say_none(tmp_path: Path, name: str) -> None:
    folder = tmp_path / str(len(name))
    folder.mkdir()
    log = written(folder, {name.format(rank): trace() for rank in (1, 0)})
    files = [name.format(rank) for rank in (0, 1)]
    for session in (gpuprof.load(log), gpuprof.load(*(log / file for file in files))):
        assert [source.file for source in session.sources] == files
        assert session.timeline is not None and session.timeline.source_ranks == (0, 1)
        assert {kernel.rank for kernel in session.kernels} == {0, 1}


def test_ranks_in_the_names_of_files_give_way_to_those_in_the_traces(tmp_path: Path) -> None:
    log = written(tmp_path, {"rank0.json": trace(1, 2), "rank1.json": trace(0, 2)})
    timeline = gpuprof.load(log / "rank0.json", log / "rank1.json").timeline
    assert timeline is not None and timeline.source_ranks == (1, 0)


@each_row(
    "names",
    [("run-TP-0-DP-0.json", "run-TP-1-DP-1.json"), ("a.json", "b.json"), ("lora_rank8.json", "lora_rank16.json")],
    ids=["TP and DP", "none", "LoRA"],
)
def test_names_that_do_not_say_a_rank_alone_give_none(tmp_path: Path, names: tuple[str, str]) -> None:
    folder = tmp_path / str(len(names[0]))
    folder.mkdir()
    log = written(folder, dict.fromkeys(names, trace()))
    refusal(log)
    timeline = gpuprof.load(*(log / name for name in names)).timeline
    assert timeline is not None and timeline.source_ranks == (None, None)


def test_recordings_of_one_process_are_no_ranks(tmp_path: Path) -> None:
    files = {f"host_1.{time}.pt.trace.json": trace() for time in (1700000001, 1700000003, 1700000002)}
    message, hint = refusal(written(tmp_path, files))
    assert "3 traces of 1 process" in message and hint.endswith("log/host_1.1700000003.pt.trace.json")


def test_processes_that_ran_alone_are_not_one_process(tmp_path: Path) -> None:
    message, _ = refusal(written(tmp_path, {"a.pt.trace.json": trace(0, 1), "b.pt.trace.json": trace(0, 1)}))
    assert "2 traces, and they do not say" in message


def test_a_trace_that_was_not_finished_is_no_other_trace(tmp_path: Path) -> None:
    log = written(tmp_path, {"host_1.2.pt.trace.json": trace(), "host_1.3.pt.trace.json.tmp": trace()})
    assert [source.file for source in gpuprof.load(log).sources] == ["host_1.2.pt.trace.json"]


def test_recordings_of_each_rank_are_not_read_as_more_ranks(tmp_path: Path) -> None:
    files = {f"host_{rank}.{9 - n}.pt.trace.json": trace(rank, 2) for rank in (0, 1) for n in range(3)}
    message, hint = refusal(written(tmp_path, files))
    assert "6 traces of 2 ranks" in message
    assert [Path(word).name for word in hint.split()[-2:]] == ["host_0.9.pt.trace.json", "host_1.9.pt.trace.json"]


@each_row("second", [trace(), trace(1, 4)])
def test_traces_that_do_not_say_that_they_are_of_one_run_are_not_put_together(tmp_path: Path, second: bytes) -> None:
    folder = tmp_path / str(len(second))
    folder.mkdir()
    log = written(folder, {"a.json": trace(0, 2) if b"rank" in second else trace(), "b.json": second})
    os.utime(log / "a.json", (1e9, 1e9))
    message, hint = refusal(log)
    assert "2 traces" in message and "log/b.json" in hint and "log/*.json" in hint


@each_row(
    ("files", "said", "named"),
    [
        ({"a.ncu-rep": REPORT, "notes.txt": b"text"}, "1 ncu report", "log/a.ncu-rep"),
        ({"a.ncu-rep": REPORT, "b.ncu-rep": REPORT, "c.json": trace()}, "2 ncu reports, 1 trace", "log/a.ncu-rep"),
        ({"profile.ncu-rep": REPORT, "session.json": b'{"schema_version": 1}'}, "1 gpuprof", "log/session.json"),
        ({"run1/a.json": trace(0, 2), "run1/b.json": trace(1, 2)}, "2 traces", "log/run1"),
        ({f"rank{rank}/a.json": trace(rank, 3) for rank in range(3)} | {"notes/b.txt": b"text"},
         "1 trace in|2 folders beside it have traces, too: rank1, rank2", "log/*/"),
        ({"tables/StringIds.parquet": b"PAR1\0"}, "Parquet", "nsys export --type sqlite"),
        ({"plugins/profile/x/host.xplane.pb": b"\n\x10\x12\x0d/device:TPU:0\0"}, "of a TPU", "NVIDIA GPU"),
        ({"a.nsys-rep": b"\1\2\0"}, "Nsight Systems report", "nsys export --type sqlite a.nsys-rep"),
        ({"memory.pickle": b"\x80\x04\x95\0", "x/a.ncu-rep": REPORT}, "1 ncu report", "log/x/a.ncu-rep"),
        ({}, "empty", "gpuprof reads"), ({"a.ncu-rep": b""}, "nothing|without", "gpuprof reads"),
    ],
    ids=["report", "mixture", "session", "below", "ranks below", "tables", "TensorBoard", "nsys", "snapshot",
         "empty", "empty file"],
)  # fmt: skip
def test_what_is_in_another_folder_is_said(tmp_path: Path, files: dict[str, bytes], said: str, named: str) -> None:
    folder = tmp_path / str(abs(hash((said, named))))
    folder.mkdir()
    message, hint = refusal(written(folder, files))
    assert any(word in message for word in said.split("|")) and named in hint, (message, hint)


def test_a_folder_of_ranks_is_reported_and_compared_as_one_run(tmp_path: Path) -> None:
    written(tmp_path, {f"{rank}.json": trace(rank, 2) for rank in (0, 1)})
    (tmp_path / "log").rename(tmp_path / "base")
    written(tmp_path, {f"{rank}.json": trace(rank, 2, start_us=20.0) for rank in (0, 1)})
    done = typed("compare", "base", "log", cwd=tmp_path)
    assert done.returncode == 0 and "2 launches" in done.stdout, done.stderr
    assert typed("report", "log", cwd=tmp_path).returncode == 0 and (tmp_path / "report.html").is_file()
    again = typed("show", "log", "log/0.json", cwd=tmp_path)
    assert again.returncode == 5 and "twice" in again.stderr
    assert "gpuprof show log" in typed("log", cwd=tmp_path).stderr


def test_a_hostile_folder_neither_blocks_nor_is_searched_for_ever(tmp_path: Path) -> None:
    log = written(tmp_path, {"a.json": trace()})
    os.mkfifo(log / "pipe.json")
    (log / "loop.json").symlink_to("loop.json")
    (log / "round").symlink_to(log, target_is_directory=True)
    for number in range(3000):
        (log / f"{number}.txt").touch()
    assert len(gpuprof.load(log).kernels) == 1
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "again").symlink_to(deep, target_is_directory=True)
    assert "without anything" in refusal(deep)[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads any folder")
def test_a_folder_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(InputError, match="cannot be read"):
        gpuprof.load(tmp_path / "closed")
