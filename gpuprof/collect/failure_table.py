"""What ncu says when something goes wrong, as a table: its words, what they mean, what to type.

Earlier rows explain later ones. The words are those of Nsight Compute 2022 to 2026, as the releases print them or as
their users reported them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

_ADMIN = "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
PERMISSION_FIX = (
    "run as root (sudo); or put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file in "
    "/etc/modprobe.d/ on the host and reload the driver; in a container add --cap-add=SYS_ADMIN"
)
Remedy = Literal["application-replay", "without-metrics", "whole-graphs"]
_MAKE_ROOM = "use --replay application or a smaller batch, or cap the framework's allocator"
METRIC_LIST = r"\s*((?:[^\s,]+,\s+)*[^\s,]+)"


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A cause: its id, what ncu says, what happened, what to type, and a remedy that can be tried at once.

    `what` may be a function of what the pattern found. A `note` is said beside good reports too. What is `injected` is
    printed by ncu's part in the program, among its output; all else stands in ncu's log where there is one.
    """

    cause: str
    pattern: re.Pattern[str]
    what: str | Callable[[re.Match[str]], str]
    hint: str
    remedy: Remedy | None = None
    note: bool = False
    injected: bool = False


def _row(
    cause: str,
    pattern: str,
    what: str | Callable[[re.Match[str]], str],
    hint: str,
    remedy: Remedy | None = None,
    *,
    note: bool = False,
    injected: bool = False,
) -> FailureCause:
    compiled = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    return FailureCause(cause, compiled, what, hint=hint, remedy=remedy, note=note, injected=injected)


def _quoted(sentence: str) -> Callable[[re.Match[str]], str]:
    """Return what puts ncu's own words behind a sentence."""
    return lambda match: f"{sentence}: {match[0].strip().rstrip('.')}"


def _program_missing(match: re.Match[str]) -> str:
    return f"{match[1] or 'the program'} does not exist or is not executable"


def _lock(match: re.Match[str]) -> str:
    return f"ncu cannot lock {match[1]}: it belongs to another user" if match[1] else "ncu cannot lock its lock file"


def _metrics(match: re.Match[str]) -> str:
    return refused(metric_names(match[1]))


def refused(metrics: Sequence[str]) -> str:
    """Say that metrics were refused."""
    count = "1 metric is" if len(metrics) == 1 else f"{len(metrics)} metrics are"
    return f"{count} not available on this GPU: {', '.join(metrics)}"


def metric_names(listed: str) -> list[str]:
    """Return the metrics of a list as ncu prints it: it may end in a full stop, and a name may stand as a pattern.

    `regex:^name\\.(sum|min)$` is what ncu makes of a name without a suffix.
    """
    names = (word.strip().rstrip(".") for word in listed.split(","))
    return [re.sub(r"^regex:\^(\w+).*", r"\1", name, flags=re.DOTALL) for name in names if name]


OPTIONS = "options"
_OPTIONS = (
    r"unrecognised option[^\n]*"
    r"|(?:the argument|the value)[^\n]{0,200} for option[^\n]*"
    r"|Option '[^\n]{0,200}' did not match[^\n]*"
    r"|Invalid (?:option|kernel identifier|regex)[^\n]*"
    r"|^[^\n]*cannot be specified more than once[^\n]*"
    r"|(?<![\w-])--[\w-]+ requires --[^\n]*"
    r"|^[^\n]*is only supported with[^\n]*"
    r"|Failed to read environment variable[^\n]*"
    r"|option [^\n]{0,100}(?:is ambiguous|is invalid|is missing|not recogni[sz]ed)[^\n]*"
    r"|Option \S+ is not supported[^\n]*"
    r"|Failed to (?:parse|read|set) (?:the )?options?[^\n]*"
    r"|Invalid (?:chip|section|set)\b[^\n]*"
    r"|Failed to add section search path[^\n]*"
    r"|Could not (?:open|read|find|parse)[^\n]{0,100} (?:config|section|rule)[^\n]*"
    r"|what\(\):[^\n]{0,400}regular expression[^\n]*"
)

ROWS = (
    _row(
        OPTIONS, _OPTIONS, _quoted("this release of ncu rejects an option"),
        "use another release with --ncu PATH, or leave out that option",
    ),
    _row(
        "program-missing",
        r"'([^'\n]+)' does not exist or is not an executable|The target application is not an executable(?: binary)?()"
        r"|Missing executable to launch()",
        _program_missing, "check the command after --; a script needs its interpreter in front of it",
    ),
    _row(
        "permission", r"ERR_NVGPUCTRPERM|not have permission to access NVIDIA GPU Performance Counters"
        r"|Insufficient privileges to launch app",
        "no permission to read the GPU's performance counters (ERR_NVGPUCTRPERM)", f"{PERMISSION_FIX}; {_ADMIN}",
    ),
    _row(
        "virtual", r"not supported on[^\n]{0,200}(?:Windows Subsystem for Linux|vGPU|virtual|hypervisor)",
        "this machine is virtual, and its host does not allow GPU profiling",
        "WSL: allow access to counters for all users in the NVIDIA Control Panel; vGPU: enable profiling on the host",
    ),
    _row(
        "gpu-unsupported",
        r"ERR_NVCMPGPU|Unsupported GPU|Profiling is not supported on (?:the|this|device)"
        r"|is not supported for profiling on this (?:GPU|device)",
        "this release of Nsight Compute does not support this GPU",
        "use another release with --ncu PATH: new GPUs need new releases, Volta needs 2025.2 or older",
    ),
    _row(
        "library-not-loaded", r"LibraryNotLoaded|Failed to load the counter measurement library",
        "ncu could not load the driver's counter library: driver and ncu do not match, or the machine is a "
        "sandbox (gVisor, some cloud containers) that hides the driver's libraries",
        "use another release with --ncu PATH; gpuprof doctor lists those installed and what the driver supports; "
        "in such a sandbox no counters can be read: roofline and diagnosis need another machine",
    ),
    _row(
        "driver-too-old",
        r"Cuda driver is not compatible with Nsight Compute|Failed to load Nsight Compute CUDA modules"
        r"|driver version is (?:insufficient|too old)|not compatible with the (?:installed )?(?:CUDA )?driver",
        "driver and Nsight Compute do not match: most often the driver is too old for this release",
        "use an older release with --ncu PATH; gpuprof doctor lists those installed",
    ),
    _row(
        "counters-busy", r"a driver resource was unavailable|no other tool \(like DCGM\)",
        "another tool holds the GPU's counters (DCGM, a CUPTI client, another ncu)",
        "pause DCGM on the host (dcgmi profile --pause, afterwards --resume), or stop the other profiler",
    ),
    _row(
        "injection", r"CUDA_INJECTION64_PATH is set to (\S+?)\.?(?:\s|$)",
        lambda match: f"another tool is loaded into the program: CUDA_INJECTION64_PATH is {match[1]}",
        "unset CUDA_INJECTION64_PATH, or stop the other profiler", injected=True,
    ),
    _row(
        "no-driver", r"failed to connect to the CUDA driver|Driver could not be loaded|Failed to load the driver",
        "no NVIDIA driver here, or only its stub library: ncu cannot reach a GPU",
        "use a machine with an NVIDIA GPU; in a container: docker run --gpus all; gpuprof doctor shows details",
        injected=True,
    ),
    _row(
        "initialised-too-early", r"Cuda is initialized before the tool",
        "the program uses CUDA before ncu is attached, for example from a static initialiser",
        "call CUDA only after main() has started", injected=True,
    ),
    _row(
        "mps", r"Multi-Process Service|\bMPS\b", "the Multi-Process Service (MPS) interferes with ncu",
        "stop it: echo quit | nvidia-cuda-mps-control",
    ),
    _row(
        "lock",
        r"(?:Failed to open/create lock file|Error in trying to lock file) '?([^\s']+?)'?(?:[.\s]|$)"
        r"|InterprocessLockFailed()",
        _lock, "remove it if no ncu is running, or set TMPDIR to a folder of your own",
    ),
    _row(
        "clocks", r"(?:Cannot|Failed to) lock GPU clock frequencies", "ncu cannot lock the clocks of this GPU",
        "leave out --clock-control base: by default gpuprof locks no clocks",
    ),
    _row(
        "graph-nodes", r"conditional nodes are not supported|--graph-profiling graph",
        "the program launches a CUDA graph whose kernels cannot be profiled one by one",
        "profile whole graphs with --graphs graph", "whole-graphs",
    ),
    _row(
        "memory", r"Insufficient free memory for profiling|Failed to save (?:memory|context)|ContextSaveFailed",
        "too little free GPU memory to save and restore memory between passes", _MAKE_ROOM, "application-replay",
    ),
    _row(
        "metrics-refused", rf"Failed to access the following \d+ metrics?:{METRIC_LIST}", _metrics,
        "a MIG instance has no counters of shared units; metric names differ between chips", "without-metrics",
    ),
    _row(
        "metrics-refused", r"Failed to find metric\s+(\S+)", _metrics,
        "metric names differ between chips and releases of ncu", "without-metrics",
    ),
    _row(
        "metrics-refused", "metrics are either invalid or don't have suffixes",
        "some of the requested metrics do not exist on this chip", "gpuprof doctor shows the chip and the ncu in use",
    ),
    _row(
        "disk-full", "no space left on device|disk (?:is )?full", "the disk is full: ncu could not write its report",
        "free some space, or choose another folder with -o",
    ),
    _row(
        "output",
        r"File [^\n]{0,4200} already exists\. Use '-f'[^\n]*|^[^\n]* cannot be used as the output[^\n]*"
        r"|^[^\n]* is not a valid file ?name[^\n]*"
        r"|(?:Unable|Failed) to (?:write to|create|open)(?: the)?(?: temporary| output| log| export)? file[^\n]*",
        _quoted("ncu cannot write its report"), "choose another folder with -o",
    ),
    _row(
        "report-unreadable", r"(?:Could not open|Failed to (?:load|open)) report file[^\n]*",
        _quoted("ncu cannot read a report"), "check the file's name",
    ),
    _row(
        "nothing-to-attach", "No attachable process found|Waiting for profiler to attach",
        "ncu found no process to attach to",
        "start the program with gpuprof run",
    ),
    _row(
        "home", "Cannot restore stock section files", "ncu cannot write its section files into the home folder",
        "set HOME to a writable folder",
    ),
    _row(
        "prepare", "Failed to prepare kernel for profiling",
        "ncu could not prepare a kernel for profiling; it does not say why",
        "try --set roofline, which needs no instrumentation; gpuprof doctor checks driver, ncu and permissions",
    ),
    _row(
        "launch-failed",
        r"Unknown ?Error(?: on device \d+)?|\bLaunchFailed\b|Failed to profile"
        r"|An error occurred while trying to profile",
        "a kernel failed while ncu replayed it; ncu does not say why",
        "check the program with compute-sanitizer; try --set roofline, --replay application or another ncu",
    ),
)  # fmt: skip
"""What is an error of its own. What a program and ncu's end leave behind comes after these, in failures.py."""

BACKED_UP = _row(
    "memory", "Backing up device memory in (?:system memory|file)",
    "too little free GPU memory: ncu saves what a kernel overwrites on the host, which is slow and may fail",
    _MAKE_ROOM, "application-replay", note=True,
)  # fmt: skip
NOTES = (
    _row(
        "no-kernels", "No (?:kernels|graphs|ranges) were profiled",
        "no kernel was profiled: the program launched none, or none that matches",
        "check --kernel, --range and --launch-skip, and that the program uses the GPU",
    ),
    _row(
        "output", "Failed to create report", "ncu could not write its report", "choose another folder with -o",
    ),
    _row(
        "metrics-refused", rf"Unable to access the following \d+ metrics?:{METRIC_LIST}", _metrics,
        "a MIG instance has no counters of shared units; metric names differ between chips", "without-metrics",
        note=True,
    ),
    _row(
        "home", "Could not deploy stock|Could not determine user home directory",
        "ncu cannot write its section files into the home folder", "set HOME to a writable folder",
        note=True,
    ),
    BACKED_UP,
    _row(
        "options", "No metrics to collect found in sections", "ncu found no metric to collect",
        "its section files may be missing; use another release with --ncu PATH", note=True,
    ),
)  # fmt: skip
"""What ncu says last, or beside good reports."""

OF_PROGRAM = (
    _row(
        "cupti-conflict", r"cupti[^\n]{0,400}(?:MULTIPLE_SUBSCRIBERS|= ?39\b)",
        "the program uses CUPTI itself, which serves one profiler at a time",
        "switch off the program's own profiler: torch.profiler, Proton, CUPTI", note=True,
    ),
)  # fmt: skip
"""What a program says, not ncu. CUPTI's error 39 is CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (cupti_result.h)."""

HANG = _row(
    "hang", "Launching the workload is taking more time than expected",
    "a kernel waits for another that ncu does not let run, such as a collective across ranks",
    "leave communication kernels out (--kernel), profile one rank, or use range replay with ncu itself",
)  # fmt: skip
PROGRAM_SAYS = (
    (
        re.compile(r"CUDA driver version is insufficient|API call is not supported in the installed CUDA driver"),
        "the driver is older than the CUDA it was built with",
    ),
    (re.compile(r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|RESOURCE_EXHAUSTED"),
     "it ran out of GPU memory, some of which ncu takes: try a smaller batch"),
    (re.compile(r"ModuleNotFoundError[^\n]*"), "it does not find a Python module: check which Python runs it"),
)  # fmt: skip
"""What a program's own words say of why it failed."""
