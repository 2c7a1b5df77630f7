"""What others write is recognised by its content, and answered with what to do instead."""

from __future__ import annotations

import gzip
import json
import pickle
import sqlite3
from pathlib import Path

import pytest

import gpuprof
from gpuprof.errors import InputError
from gpuprof.read.recognise import recognised
from tests import ncu_bytes
from tests.table import each_row

NSYS_TABLE = """ ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)   Name
 --------  ---------------  ---------  ---------  ------------------
    100.0        179106560         61  2936173.1  saxpy(float *, int)
"""
NSYS_2021 = """Generating CUDA Kernel Statistics...

CUDA Kernel Statistics:

 Time(%)  Total Time (ns)  Instances   Average   Minimum  Maximum  Name
 -------  ---------------  ---------  ---------  -------  -------  -----
   100.0          222,080          1  222,080.0  222,080  222,080  k(int)
"""
NVPROF = """==47== NVPROF is profiling process 47, command: ./app
==47== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   85.00%  179.10ms        61  2.9360ms  2.8640ms  3.8290ms  saxpy(float*)
"""
NCU_CSV = '"ID","Process ID","Kernel Name","gpu__time_duration.sum"\n"","","","usecond"\n"0","1","k()","5"\n'


def varint(value: int) -> bytes:
    """Return a number as protobuf has it."""
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7) if value > 0x7F else bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def xspace(*planes: str, vendor: bytes = b"") -> bytes:
    """Return an XSpace with planes of these names, the last with a stat that has the vendor of the device."""
    stat = field(6, varint(1 << 3) + b"\x01" + field(5, vendor)) if vendor else b""
    named = [b"\x08\x01" + field(2, name.encode()) for name in planes]
    named[-1] += stat
    return b"".join(field(1, plane) for plane in named) + bytes(9)


def chrome(process: str, *, sort_keys: bool = False, **more: object) -> bytes:
    """Return a trace of Chrome's format with a process of that name, as TensorFlow and XLA write it."""
    events = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": process}},
        {"ph": "X", "pid": 1, "tid": 2, "ts": 1.0, "dur": 3.0, "name": "fusion.1"} | more,
    ]
    text = json.dumps(
        {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": events}, sort_keys=sort_keys
    )
    return text.encode()


def refusal(name: str, content: bytes, folder: Path) -> InputError:
    path = folder / name
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        gpuprof.load(path)
    return raised.value


TEXTS: list[tuple[str, str, str, str]] = [
    ("sum.txt", NSYS_TABLE, "nsys stats", "nsys export --type sqlite"),
    ("sum.txt", NSYS_TABLE.replace("cuda_gpu_kern_sum", "gpukernsum"), "nsys stats", "--type sqlite"),
    ("sum.txt", "#  ** CUDA API Summary (cuda_api_sum):\n", "nsys stats", "--type sqlite"),
    ("sum.txt", " ** NVTX Range Summary (nvtx_sum:base):\n", "nsys stats", "--type sqlite"),
    ("old.log", NSYS_2021, "nsys stats", "--type sqlite"),
    ("sum.csv", 'Time (%),Total Time (ns),Instances,Name\n100.0,5,1,"k(int)"\n', "nsys stats", "--type sqlite"),
    ("sum.csv", '"Time(%)","Total Time (ns)","Num Calls","Average","Name"\n', "nsys stats", "--type sqlite"),
    ("sum.tsv", "Time (%)\tTotal Time (us)\tInstances\tName\n", "nsys stats", "--type sqlite"),
    ("sum.txt", "│ Time (%) │ Total Time (ns) │ Instances │\n", "nsys stats", "--type sqlite"),
    ("trace.csv", "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ\n", "nsys stats", "--type sqlite"),
    ("trace.csv", "Start (ns),End (ns),Duration (ns),DurChild (ns)\n", "nsys stats", "--type sqlite"),
    ("size.csv", "Total (MB),Count,Avg (MB),Med (MB),Operation\n", "nsys stats", "--type sqlite"),
    ("gui.csv", "Time,Total Time,Instances,Avg\n62.3%,123.456 μs,10,12.3 μs\n", "nsys stats", "--type sqlite"),
    ("none.txt", "SKIPPED: report1.sqlite does not contain CUDA kernel data.\n", "no table", "--type sqlite"),
    ("sum.json", '[\n{"Time (%)": 85.0, "Total Time (ns)": 179, "Instances": 61}\n]', "nsys stats", "--type sqlite"),
    ("all.json", '{"Type":48,"TraceProcessEvent":{"startNs":"140"}}\n{"Type":79}\n', "nsys export", "--type sqlite"),
    ("all.txt", "Type: 43\nGlobalId: 281478325239808\nCudaEvent {\n", "nsys export", "--type sqlite"),
    ("lines.json", '{"table": "StringIds", "value": "{"}\n{"name": "x"}\n', "one a line", "nsys exports"),
    ("sum.html", '<table class="a"><tr><th>Time (%)</th>\n<th>Total Time (ns)</th>', "nsys stats", "--type sqlite"),
    (
        "sum.html", '<!DOCTYPE html><html><tr><th class="n">Time (%)</th><th>Total Time (ns)</th>',
        "nsys stats", "--type sqlite",
    ),
    ("gaps.txt", " Row#  Duration (ns)  Start (ns)  PID\n ----  ---\n", "nsys analyze", "--type sqlite"),
    ("api.csv", "Duration (ns),Start (ns),Src Kind,Dst Kind\n", "nsys analyze", "--type sqlite"),
    ("nvtx.csv", "Name,Projected Start (ns),Projected Duration (ns)\n", "nsys stats", "--type sqlite"),
    ("queues.csv", "Count,QCount,TAvg (ns),TMed (ns)\n", "nsys stats", "--type sqlite"),
    ("run.log", "Collecting data...\nGenerated:\n    /tmp/app.nsys-rep\n", "output of nsys", "--type sqlite"),
    ("app.log", NVPROF, "nvprof; NVIDIA has retired it", "nsys or ncu"),
    ("app.txt", NVPROF[NVPROF.index("    ") :], "nvprof", "nsys or ncu"),
    ("app.csv", '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,ms\n', "nvprof", "nsys or ncu"),
    ("app.csv", '==9== Profiling result:\n"Start","Duration","Grid X","Grid Y"\n', "nvprof", "nsys or ncu"),
    ("app.csv", '"Device","Kernel","Invocations","Metric Name","Min","Max"\n', "nvprof", "nsys or ncu"),
    ("app.csv", '"Device","Context","Stream","Kernel","Correlation_ID","ipc"\n', "nvprof", "nsys or ncu"),
    ("bench.txt", "Run:  [1/3] copy [Device=0]\nPass: Cold: 0.007360ms GPU, 67932x\n", "nvbench", "gpuprof run"),
    ("bench.md", "|  N  | Samples | CPU Time | Noise | GPU Time | Noise |\n", "nvbench", "gpuprof run"),
    ("bench.csv", "Benchmark,Device,Device Name,N,Samples,CPU Time (sec)\n", "nvbench", "gpuprof run"),
    ("compared.md", "|   Ref Time |   Ref Noise |   Cmp Time |\n", "nvbench", "gpuprof run"),
    ("bench.json", '{"meta": {"argv": [], "version": {"nvbench": {}}}}', "nvbench", "gpuprof run"),
    (
        "proton.hatchet",
        '[{"children":[{"children":[],"frame":{"name":"k","type":"function"},"metrics":{"time (ns)":5}}],'
        '"frame":{"name":"ROOT","type":"function"},"metrics":{}},{"CUDA":{"0":{"arch":"90"}}}]',
        "Proton", "gpuprof run",
    ),
    ("k.csv", '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id"\n', "not|NVIDIA GPUs only", "rocprof-compute"),
    *(
        (f"{at}.csv", f"{columns}\n", "rocprof", "rocprof-compute")
        for at, columns in enumerate((
            '"Kind","Direction","Stream_Id"', '"Domain","Function","Process_Id"', '"Node_Id","Logical_Node_Id"',
            "Dispatch_ID,Kernel_Name,GPU_ID",
        ))
    ),
    ("k.stats.csv", '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n', "rocprof", "rocprof-compute"),
    ("r.json", '{"rocprofiler-sdk-tool": [{"metadata": {}}]}', "rocprofv3", "rocprof-compute"),
    ("ops.txt", "---\n      Name    Self CPU %      Self CPU   CPU total %\n---\n", "PyTorch", "export_chrome_trace"),
    ("ops.txt", " Name    Self CUDA   Self CUDA %    CUDA total\n", "PyTorch", "export_chrome_trace"),
    ("tree.txt", "4.3 ROOT\n\nLegend (Metric: avg_time/ms (inc) Min: 2.1)\n", "proton", "gpuprof run"),
    ("kernel_stats.csv", "Rank,Kernel Name,Registers per thread,Shared Mem bytes\n", "XProf", "gpuprof run"),
    ("m.txt", "Metric Name       Metric Type  Metric Unit  Metric Description\n", "ncu's list", "gpuprof run"),
    ("s.txt", "Identifier              Display Name          Enabled   Filename\n", "ncu's list", "gpuprof run"),
]  # fmt: skip


@each_row(("name", "text", "what", "hint"), TEXTS)
def test_text_of_another_tool_is_named_with_what_to_do(
    name: str, text: str, what: str, hint: str, tmp_path: Path
) -> None:
    said = [
        refusal(name, text.encode(), tmp_path),
        refusal(name, text.encode("utf-8-sig"), tmp_path),
        refusal(name, text.encode("utf-16"), tmp_path),
        refusal(f"{name}.gz", gzip.compress(text.encode()), tmp_path),
    ]
    for error in said:
        assert any(word in error.message for word in what.split("|")) and hint in (error.hint or ""), error


TABLES = [
    ("Time (%),Total Time (ns),Instances", "nsys stats"), ("Start (ns),Duration (ns),CorrId,GrdX", "nsys stats"),
    ("Start,Duration,Grid X,Grid Y", "nvprof"), ("Type,Time(%),Time,Calls", "nvprof"),
    ("Device,Kernel,Invocations,Metric Name,Metric Description\nV100,k(float),1,achieved_occupancy,Achieved Occupancy",
     "nvprof"), ("Benchmark,Device,Device Name,Skipped", "nvbench"), ("Index,KernelName,gpu-id", "rocprof"),
    ("Kind,Agent_Id,Queue_Id", "rocprof"), ("Name,Calls,TotalDurationNs", "rocprof"),
    ("Rank,Kernel Name,Registers per thread", "XProf"),
]  # fmt: skip


@each_row(("columns", "what"), TABLES)
@each_row("label", ["", "0: ", "[1,0]<stdout>:", "[rank3]: "])
@each_row("index", ["", ",", "Unnamed: 0,", "row,"])
def test_a_table_is_named_behind_an_index_or_the_label_of_a_rank(
    label: str, index: str, columns: str, what: str, tmp_path: Path
) -> None:
    lines = [f"{index}{line}" for line in columns.splitlines()]
    for mark in (",", ";", "\t", '","'):
        quote = '"' * mark.startswith('"')
        text = "".join(f"{label}{quote}{line.replace(',', mark)}{quote}\n" for line in lines)
        assert what in refusal("saved.csv", text.encode(), tmp_path).message, text


@each_row(("name", "content", "what", "hint"), [
    ("a.xplane.pb", xspace("/host:CPU", "/device:TPU:0"), "of a TPU", "NVIDIA GPU"),
    ("renamed", xspace("/host:metadata", "/device:GPU:0", vendor=b"AMD"), "of an AMD GPU", "rocprof-compute"),
    ("a.xplane.pb", xspace("/device:GPU:0", vendor=b"Nvidia"), "JAX or TensorFlow", "gpuprof run"),
    ("a.xplane.pb", xspace("/host:CPU"), "JAX or TensorFlow", "gpuprof run"),
    ("perfetto_trace.json.gz", gzip.compress(chrome("/device:TPU:0 (pid 3)")), "of a TPU", "NVIDIA GPU"),
    ("host.trace.json.gz", gzip.compress(chrome("/device:GPU:0")), "JAX or TensorFlow", "gpuprof run"),
    ("timeline.json", chrome("/job:localhost/replica:0/task:0/device:GPU:0 Compute"), "TensorFlow", "gpuprof run"),
    ("sorted.json", chrome("/device:TPU:0", sort_keys=True), "of a TPU", "NVIDIA GPU"),
    ("results.json", chrome("0 CPU HIP API"), "rocprof; gpuprof supports NVIDIA", "rocprof-compute"),
    ("results.json", chrome("CPU HSA API", sort_keys=True), "rocprof", "rocprof-compute"),
    ("trace_view.json", chrome("Ascend Hardware"), "Ascend NPU", "NVIDIA GPU"),
    ("trace_view.json", chrome("CANN", cat="async_npu"), "Ascend NPU", "NVIDIA GPU"),
    ("old.json", chrome("python", pid="CUDA functions"), "without Kineto", "torch.profiler"),
    ("old.json", chrome("python", pid="CPU functions"), "without Kineto", "torch.profiler"),
    ("paddle.json", b'{"schemaVersion": "1.0.1", "traceEvents": []}', "PaddlePaddle", "nsys export"),
    ("proton.chrome_trace", chrome("GPU", args={"call_stack": ["ROOT", "k"]}), "Proton", "nsys export"),
    ("report1.qdstrm", bytes(20), "nsys", "QdstrmImporter -i report1.qdstrm"),
    ("report1.h5", b"\x89HDF\r\n\x1a\n" + bytes(20), "HDF5", "--type sqlite"),
    ("report1.arrows", b"ARROW1\0\0", "Arrow", "--type sqlite"), ("t.parquet", b"PAR1\0", "Parquet", "--type sqlite"),
    ("sheet.xlsx", b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml", "Excel", "as CSV"),
    ("sheet.ods", b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/vnd.oasis.opendocument", "LibreOffice", "as CSV"),
    ("sheet.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(20), "Excel", "as CSV"),
    ("a.numbers", b"PK\x03\x04" + bytes(26) + b"Index/Document.iwa", "office", "as CSV"),
    ("a.numbers", b"PK\x03\x04" + bytes(26) + b"Data/a.jpg" + bytes(99) + b"Index/Tables/B-1.iwa", "office", "as CSV"),
    ("reports.zip", b"PK\x03\x04" + bytes(26) + b"Index/a.csv", "archive", "unpack"),
    ("reports.zip", b"PK\x03\x04" + bytes(26) + b"docs/a.csv", "archive", "unpack"),
    ("memory.pickle", pickle.dumps({"segments": [], "device_traces": []}), "snapshot of PyTorch", "memory_viz"),
    ("old.pkl", pickle.dumps({"segments": []}, protocol=2), "pickle", "memory_viz"),
])  # fmt: skip
def test_a_binary_file_of_another_tool_is_named_with_what_to_do(
    name: str, content: bytes, what: str, hint: str, tmp_path: Path
) -> None:
    error = refusal(name, content, tmp_path)
    assert what in error.message and hint in (error.hint or ""), error


def test_a_database_of_nvprof_is_no_export_of_nsys(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "app.nvvp") as database:
        database.execute("CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL)")
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (_id_ INTEGER PRIMARY KEY, start INT, end INT)")
    error = refusal("app.nvvp", (tmp_path / "app.nvvp").read_bytes(), tmp_path)
    assert "nvprof" in error.message and "nsys or ncu" in (error.hint or "")


@each_row(
    ("table", "what", "hint"),
    [
        ('"rocpd_string_0001"', "rocprof", "rocprof-compute"), ("rocpd_op", "rocprof", "rocprof-compute"),
        ("metrics", "not an export of Nsight Systems", "nsys export --type sqlite writes"),
    ],
)  # fmt: skip
def test_a_database_of_another_program_is_no_damaged_export(table: str, what: str, hint: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "results.db") as database:
        database.execute(f"CREATE TABLE {table} (id integer)")
    error = refusal("results.db", (tmp_path / "results.db").read_bytes(), tmp_path)
    assert what in error.message and hint in (error.hint or "") and "again" not in (error.hint or "")


def test_a_page_of_another_program_is_no_page_of_gpuprof(tmp_path: Path) -> None:
    error = refusal("page.html", b"<!DOCTYPE html><html><body>gpu</body></html>", tmp_path)
    assert "nothing in it" in error.message and "its own pages" in (error.hint or "")
    assert "without a gpuprof session" in refusal("page.html", b"<html>gpuprof</html>", tmp_path).message


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    class Dangerous:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (tmp_path / "loaded",)

    refusal("memory.pickle", pickle.dumps(Dangerous()), tmp_path)
    assert not (tmp_path / "loaded").exists()


@each_row("other", [NSYS_TABLE, NVPROF])
def test_what_ncu_printed_is_read_although_another_tool_printed_too(other: str, tmp_path: Path) -> None:
    path = tmp_path / "both.log"
    path.write_text(other + NCU_CSV)
    assert [kernel.label for kernel in gpuprof.load(path).kernels] == ["k"]


def test_a_session_and_a_trace_may_have_the_words_of_other_tools_as_names(tmp_path: Path) -> None:
    label = '** CUDA GPU Kernel Summary (cuda_gpu_kern_sum): "nv/cold/time" "/device:TPU:0"'
    (tmp_path / "a.ncu-rep").write_bytes(ncu_bytes.simple_report([(label, ncu_bytes.A100)]))
    assert recognised(str(tmp_path / "a.ncu-rep")) == "an ncu report"
    (tmp_path / "trace.json").write_bytes(chrome("python", name=label, cat="cpu_op"))
    assert recognised(str(tmp_path / "trace.json")) == "a trace"
    (tmp_path / "session.json").write_text(json.dumps({"schema_version": 1, "label": label}))
    assert recognised(str(tmp_path / "session.json")) == "a gpuprof session"


@each_row(
    "text", ["", "no tool\n", "Time,Calls\n1,2\n", '{"a": 1}', "[1, 2]", "{", "Start,Duration\n", "** bold (x):\n"]
)
def test_other_text_is_of_no_tool(text: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text)
    called = recognised(str(path))
    assert called is None
