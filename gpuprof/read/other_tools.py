"""Files that gpuprof does not read, a row each: how one is recognised, and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct

from gpuprof.read.identify import SQLITE, Look, is_json, named, starts

Fits = Callable[[Look], bool]


class Refused(Struct, frozen=True):
    """A kind of file that cannot be read: what to say, what to do, and what it is called if that alone identifies it.

    `message` and `hint` may name {path}, {name}, {known}, and as they are typed, {quoted}, the file's name, and
    {program}.
    """

    fits: Fits
    message: str
    hint: str
    called: str | None = None


@dataclass(frozen=True)
class Has:
    """A test of files: they pass if their sample, or their first `most` bytes, have an expression, and `only` fits.

    ^ and $ are ends of lines, . is any byte.
    """

    expression: bytes
    only: Fits = lambda _: True
    most: int | None = None

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """Compile the expression when it is needed."""
        return re.compile(self.expression, re.MULTILINE | re.DOTALL)

    def __call__(self, look: Look) -> bool:
        """Return whether a file passes."""
        if not self.only(look):
            return False
        content = look.sample if self.most is None else look.first(self.most)
        # A search goes through all of the content even if only its start can match.
        find = self.pattern.match if self.expression.startswith(rb"\A") else self.pattern.search
        return find(content) is not None


def _of_tool(called: str, fits: Fits, why: str, hint: str) -> Refused:
    return Refused(fits, f"{{path}} is {called}{why}", hint, called)


_NOT_READ = ", which gpuprof does not read"
_NOT_NVIDIA = "; gpuprof supports NVIDIA GPUs only"
_ONLY_TIMES = "; it has times per kernel or call, and no counters"
_EXPORT = "export the report that it was made from: nsys export --type sqlite FILE.nsys-rep"
_PROFILE = "profile the program on an NVIDIA GPU: gpuprof run -- PROGRAM"
_TIMELINE = f"a timeline: nsys profile --trace cuda,nvtx, then nsys export --type sqlite; counters: {_PROFILE}"
_PROFILE_AGAIN = "profile the program again, with nsys or ncu: gpuprof run -- PROGRAM does"
_PROFILE_SAME = "profile the program that it measures: gpuprof run -- PROGRAM"
_OF_AMD = f"use AMD's rocprof-compute, or {_PROFILE}"
_OF_TPU = f"use XProf, TensorBoard's plugin for profiles, or {_PROFILE}"
_XPLANE = re.compile(rb"\n.{1,20}?\x12.(?:/(?:host|device):|Task Environment)", re.DOTALL)
"""How a file of XSpace starts: its first plane has a number, if it is not 0, and a name."""
_MOST_OF_XPLANE = 2**26
"""The planes of devices can be behind megabytes of others."""


def _of_process(part: bytes) -> Has:
    """Return a test for traces of Chrome's format with a process that has a part of its name."""
    name = rb'\{\s*"name"\s*:\s*"[^"]{0,80}' + part
    return Has(
        rb'"process_name"[^{}]{0,200}' + name + rb"|" + name + rb'[^{}]{0,200}\}[^{}]{0,200}"process_name"', is_json
    )


def _is_xplane(look: Look) -> bool:
    return _XPLANE.match(look.head) is not None or named(".xplane.pb")(look)


def _of_xplane(expression: bytes) -> Fits:
    return Has(expression, _is_xplane, _MOST_OF_XPLANE)


BINARIES = (
    _of_tool(
        "a profile of nvprof or the Visual Profiler",
        Has(rb"CREATE TABLE .?StringTable", starts(SQLITE)),
        "; NVIDIA has retired both", _PROFILE_AGAIN,
    ),
    _of_tool("a database of AMD's rocprof", Has(rb"CREATE TABLE .?rocpd_", starts(SQLITE)), _NOT_NVIDIA, _OF_AMD),
    _of_tool(
        "a file of Excel, LibreOffice or another office program",
        Has(
            rb"\A(?:\xd0\xcf\x11\xe0|"
            rb"PK\x03\x04.{10,26}(?:\[Content_Types\]\.xml|_rels/|docProps/|xl/|mimetypeapplication/vnd\.oasis|"
            rb"(?=Data/|Index/).*?Index/[\w/-]{1,99}\.iwa))"
        ),
        _NOT_READ, "save the sheet that has ncu's table as CSV",
    ),
    _of_tool("a JAX or TensorFlow profile of a TPU", _of_xplane(rb"/device:TPU"), _NOT_NVIDIA, _OF_TPU),
    _of_tool("a JAX or TensorFlow profile of an AMD GPU", _of_xplane(rb"\*\x03AMD|__amd_"), _NOT_NVIDIA, _OF_AMD),
    _of_tool("a profile of JAX or TensorFlow (XPlane)", _is_xplane, _NOT_READ, _PROFILE),
    _of_tool(
        "what nsys records before it makes a report", named(".qdstrm"), _NOT_READ,
        "import it: QdstrmImporter -i {quoted}, which is in the folder host-linux-x64 of Nsight Systems; "
        "then export that report: nsys export --type sqlite FILE.nsys-rep",
    ),
    _of_tool(
        "a file of Arrow, Parquet or HDF5, as nsys can export", starts(b"ARROW1", b"PAR1", b"\x89HDF\r\n\x1a\n"),
        _NOT_READ, f"if it is of nsys, {_EXPORT}",
    ),
    _of_tool(
        "a pickle of Python, such as a memory snapshot of PyTorch",
        Has(rb"\A\x80(?:[\x02\x03](?:[}\]]|\x8a\n)|[\x04\x05]\x95)"),
        ", which can run code when it is loaded; gpuprof loads none",
        "memory snapshots are shown by https://docs.pytorch.org/memory_viz; gpuprof reads {known}",
    ),
)  # fmt: skip
TRACES = (
    _of_tool("a JAX or TensorFlow trace of a TPU", _of_process(rb"/device:TPU"), _NOT_NVIDIA, _OF_TPU),
    _of_tool("a trace of JAX or TensorFlow", _of_process(rb"/(?:device|host|job):"), _NOT_READ, _PROFILE),
    _of_tool("a trace of AMD's rocprof", _of_process(rb"CPU H(?:IP|SA) API"), _NOT_NVIDIA, _OF_AMD),
    _of_tool(
        "a trace of an Ascend NPU", Has(rb':\s*"(?:Ascend Hardware|async_npu)"', is_json), _NOT_NVIDIA, _PROFILE
    ),
    _of_tool(
        'a trace of torch.autograd.profiler without Kineto ("CPU functions")',
        Has(rb'"pid"\s*:\s*"(?:CPU|CUDA) functions"', is_json), ", which has no kernels",
        "record it with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) of PyTorch "
        "1.8.1 or newer",
    ),
    _of_tool("a trace of PaddlePaddle's profiler", Has(rb'"schemaVersion"\s*:\s*"', is_json), _NOT_READ, _TIMELINE),
    _of_tool("a trace of Triton's Proton", Has(rb'"call_stack"\s*:\s*\[', is_json), _NOT_READ, _TIMELINE),
)  # fmt: skip
"""Traces of Chrome's format that are not of PyTorch."""
JSON = (
    _of_tool(
        "a result of nvbench", Has(rb'"nvbench"\s*:\s*\{|"nv/(?:cold|batch|json)', is_json), _ONLY_TIMES, _PROFILE_SAME
    ),
    _of_tool("JSON of AMD's rocprofv3", Has(rb'\A\s*\{\s*"rocprofiler-sdk-tool"'), _NOT_NVIDIA, _OF_AMD),
    _of_tool(
        "JSON or text of nsys export",
        Has(
            rb'\A\s*(?:\{"[Tt]ype":\s?(?:\d+,\s?"\w+Event"|"(?:String|ThreadName)")|'
            rb"Type: \d+\s+(?:GlobalId: \d|\w+ \{))"
        ),
        _NOT_READ, _EXPORT,
    ),
    _of_tool(
        "JSON of nsys stats",
        Has(rb'\A\s*\[\s*\{\s*"(?:Time \(%\)":\s*[\d.]+,\s*"Total Time|Start \(\w+\)":\s*\d+,\s*"(?:Duration|End) \()'),
        _ONLY_TIMES, _EXPORT,
    ),
    _of_tool(
        "a call tree of Hatchet, as Triton's profiler Proton writes",
        Has(rb'\A\s*\[\s*\{\s*"(?:children|frame|metrics)".*?"frame"\s*:\s*\{[^{}]{0,9999}"type"'),
        _ONLY_TIMES, _PROFILE_SAME,
    ),
    _of_tool(
        "many objects of JSON, one a line", Has(rb"\A\s*\{[^\n]*\}[^\S\n]*\n\s*\{"), _NOT_READ, "gpuprof reads {known}",
    ),
)  # fmt: skip
_FIRST_CELL = (
    rb'^(?:(?:\[[\w,]{1,20}\](?:<std(?:out|err)>)?|\d{1,6}): ?)?(?:"?[\w :]{0,30}"?[,;\t])?[ #|"\xe2\x80-\xbf]{0,40}'
)
"""Text in front of a table's columns: the label of a rank, the index that pandas saves, blanks or lines."""
_CELL = rb'(?:[\s"|,;#\xe2\x80-\xbf]|<[^<>]{1,99}>){1,99}'
"""Separators of cells: blanks, quotes, commas, tags, and lines, which may be drawn."""


def _has(expression: bytes) -> Has:
    """Return a test of texts; @ matches text in front of a table's columns, ~ a separator of cells."""
    return Has(expression.replace(b"@", _FIRST_CELL).replace(b"~", _CELL))


TEXTS = (
    _of_tool(
        "output of nsys stats or nsys analyze",
        _has(
            rb"^[ #]{0,9}\*\* [^\n]{1,90} \(\w{0,40}(?:sum|trace)(?:[:/][\w:/-]{1,40})?\):|"
            rb"(?:@|<t[dh][^<>]{0,99}>)(?:Time ?\(%\)~Total Time|Time~Total Time~(?:Instances|Num Calls|Count)~Av"
            rb"|Total \(MB\)~Count|Start ?\(\w{1,4}\)~(?:End|Duration) ?\(|(?:Row#~)?Duration ?\(\w{1,4}\)~Start ?\("
            rb"|API Start \(|NVTX Range~Style|Range~Style|PID~TID~DevId~Count|Count~QCount~|Name~Projected Start \()"
        ),
        _ONLY_TIMES, _EXPORT,
    ),
    _of_tool(
        "output of nsys",
        Has(
            rb"^(?:Processing \[[^\n]{1,300}?\.sqlite\] with|SKIPPED: [^\n]{1,300}?\.sqlite does not|"
            rb"Generated:\s{1,20}[^\n]{1,300}\.(?:nsys-rep|qdrep)|Generating '[^\n]{1,300}\.qdstrm')"
        ),
        "; it has no table", "export the report that it is about: nsys export --type sqlite FILE.nsys-rep",
    ),
    _of_tool(
        "output of nvprof",
        _has(
            rb"^={2,8}(?:\d{1,10}==)? (?:NVPROF is profiling |Profiling application: |"
            rb"(?:Profiling|Metric|Event) result:)|"
            rb"Time\(%\)~Time~Calls|@(?:Start~Duration~Grid |Device~(?:Kernel~Invocations|Context~Stream~Kernel))"
        ),
        "; NVIDIA has retired it", _PROFILE_AGAIN,
    ),
    _of_tool(
        "output of nvbench",
        _has(
            rb"^Pass: (?:Cold|Batch|CPU): [\d.]+ms|@Benchmark~Device~Device Name~|\| Samples +\| +CPU Time +\| Noise|"
            rb"\| +Ref Time +\| +Ref Noise"
        ),
        _ONLY_TIMES, _PROFILE_SAME,
    ),
    _of_tool(
        "output of AMD's rocprof",
        _has(
            rb"@(?:Kind~(?:Agent_Id|Direction)|Domain~Function~Process_Id|Node_Id~Logical_Node_Id|"
            rb"Correlation_Id~Dispatch_Id|Index~KernelName~gpu-id|Dispatch_ID~(?:GPU_ID|Kernel_Name)|"
            rb'\w[\w ]{0,29}"?[,;\t]"?Calls~TotalDurationNs)'
        ),
        _NOT_NVIDIA, _OF_AMD,
    ),
    _of_tool(
        "a table of PyTorch's profiler", Has(rb"^ *Name {2,}Self (?:CPU|CUDA)(?: total)?(?: %)? {2,}Self C"),
        "; it has times per operator, and no single kernels",
        "export the trace: profile.export_chrome_trace('trace.json'), and gpuprof show trace.json",
    ),
    _of_tool("a call tree of Triton's proton-viewer", Has(rb"^Legend \(Metric: "), _ONLY_TIMES, _PROFILE_SAME),
    _of_tool("a table of XProf", _has(rb"@Rank~Kernel Name~Registers per"), _ONLY_TIMES, _PROFILE),
    _of_tool(
        "ncu's list of metrics or sections, and no profile",
        Has(
            rb"^Metric Name +(?:Metric Type +)?(?:Metric Unit +)?Metric Description|"
            rb"^Identifier +(?:Display Name|Sections) +Enabled"
        ),
        "", "profile a program: gpuprof run -- PROGRAM",
    ),
)  # fmt: skip
