"""What `ncu` says when something goes wrong, and what that means: recognised by its own words, never by its exit code.

ncu returns 1 for a missing driver, an unknown metric and a failing program alike. The strings are those of Nsight
Compute 2024.1, or as users of other releases reported them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpuprof.errors import EnvironmentProblem, GpuprofError, ProgramFailed, UsageError

_ADMIN = "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
PERMISSION_FIX = (
    "run as root (sudo); or, on the host, put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into "
    "/etc/modprobe.d/ and reload the driver; in a container add --cap-add=SYS_ADMIN"
)


class Failure(NamedTuple):
    """One recognised cause: an id, what happened, what to type, and a remedy that can be tried at once.

    `remedy` is one of application-replay, without-metrics, whole-graphs; `metrics` are those that were refused,
    `code` is that of a program that failed.
    """

    cause: str
    what: str
    hint: str
    remedy: str | None = None
    metrics: tuple[str, ...] = ()
    code: int | None = None

    def error(self, log: str | None = None) -> GpuprofError:
        """Return it as the error that a command ends with."""
        where = f"; ncu's log is {log}" if log is not None else ""
        return _ERRORS.get(self.cause, EnvironmentProblem)(self.what, f"{self.hint}{where}")


_ERRORS: dict[str, type[GpuprofError]] = {
    "program-failed": ProgramFailed,
    "program-missing": UsageError,
    "no-kernels": ProgramFailed,
}
"""Which error a cause ends in; the others are problems of the environment."""


class _Pattern(NamedTuple):
    """What to look for, and the failure that it means, by its groups."""

    text: re.Pattern[str]
    failure: Callable[[re.Match[str]], Failure]


def _fixed(pattern: str, cause: str, what: str, hint: str, remedy: str | None = None) -> _Pattern:
    failure = Failure(cause, what, hint, remedy)
    return _Pattern(re.compile(pattern), lambda _: failure)


def _metrics_refused(found: re.Match[str]) -> Failure:
    names = tuple(name.strip() for name in found[1].split(",") if name.strip())
    return Failure(
        "metrics-refused",
        f"this GPU does not give {len(names)} of the metrics: {', '.join(names)}",
        "a MIG instance has no counters of units that it shares; other chips have other names",
        "without-metrics",
        names,
    )


def _injection(found: re.Match[str]) -> Failure:
    return Failure(
        "injection",
        f"another tool is loaded into the program: CUDA_INJECTION64_PATH is {found[1]}",
        "unset CUDA_INJECTION64_PATH, or stop the other profiler",
    )


def _no_program(found: re.Match[str]) -> Failure:
    return Failure("program-missing", f"{found[1]} does not exist or cannot be run", "look at the words after --")


def _program_failed(found: re.Match[str]) -> Failure:
    code = int(found[1])
    hint = "a crash under ncu alone can come from a driver that is too old for it" if code in (11, 139) else ""
    what = f"the program ended with code {code}"
    return Failure("program-failed", what, hint or "run it without gpuprof first", code=code)


def _lock(found: re.Match[str]) -> Failure:
    return Failure(
        "lock",
        f"ncu cannot lock {found[1]}: another user's file lies there",
        "remove it if no ncu runs, or set TMPDIR to a folder of your own",
    )


_PATTERNS = (
    _fixed(
        "ERR_NVGPUCTRPERM",
        "permission",
        "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)",
        f"{PERMISSION_FIX}; {_ADMIN}",
    ),
    _fixed(
        "a driver resource was unavailable|no other tool \\(like DCGM\\)",
        "counters-busy",
        "another tool holds the GPU's counters (DCGM, a CUPTI client, another ncu)",
        "on the host: dcgmi profile --pause, and --resume afterwards; or stop the other profiler",
    ),
    _fixed(
        "Cuda driver is not compatible with Nsight Compute",
        "driver-too-old",
        "the driver is too old for this release of Nsight Compute",
        "name an older one with --ncu PATH; gpuprof doctor lists those on this machine",
    ),
    _fixed(
        "failed to connect to the CUDA driver",
        "no-driver",
        "there is no NVIDIA driver here, or only its stub: ncu cannot reach a GPU",
        "run on a machine with an NVIDIA GPU; in a container: docker run --gpus all; gpuprof doctor says more",
    ),
    _Pattern(re.compile(r"CUDA_INJECTION64_PATH is set to (\S+?)\.?(?:\s|$)"), _injection),
    _fixed(
        "Cuda is initialized before the tool",
        "initialised-too-early",
        "the program uses CUDA before ncu is attached, for example from a static initialiser",
        "call CUDA only after main() has started",
    ),
    _fixed(
        "ERR_NVCMPGPU|Unsupported GPU|is not supported for profiling on this (?:GPU|device)",
        "gpu-unsupported",
        "this release of Nsight Compute does not support this GPU",
        "name another release with --ncu PATH: new GPUs need new ones, Volta needs 2025.2 or older",
    ),
    _fixed(
        "conditional nodes are not supported|--graph-profiling graph",
        "graph-nodes",
        "the program launches a CUDA graph whose kernels cannot be profiled one by one",
        "profile whole graphs with --graphs graph",
        "whole-graphs",
    ),
    _fixed(
        "Insufficient free memory for profiling",
        "memory",
        "the GPU's memory is too full to save and restore it between passes",
        "use --replay application, a smaller batch, or cap the framework's allocator",
        "application-replay",
    ),
    _Pattern(re.compile(r"(?:Failed|Unable) to access the following \d+ metrics?: ([^\n]+)"), _metrics_refused),
    _Pattern(re.compile(r"[Ff]ailed to find metric (?:regex:)?([^\s]+)"), _metrics_refused),
    _Pattern(
        re.compile(r"(?:Failed to open/create lock file|Error in trying to lock file) '?([^\s']+?)'?[.\s]"), _lock
    ),
    _fixed(
        "Could not deploy stock|Could not determine user home directory",
        "home",
        "ncu cannot write its section files into the home folder",
        "set HOME to a folder that can be written",
    ),
    _fixed(
        "Launching the workload is taking more time than expected",
        "hang",
        "a kernel waits for another one that ncu does not let run, such as a collective of several ranks",
        "leave communication kernels out (--kernel), profile one rank, or use range replay with ncu itself",
    ),
    _Pattern(re.compile(r"'([^'\n]+)' does not exist or is not an executable"), _no_program),
    _Pattern(re.compile(r"The application returned an error code \((\d+)\)"), _program_failed),
    _fixed(
        'Failed to prepare kernel for profiling|Unknown Error on device|Failed to profile "',
        "prepare",
        "ncu could not prepare a kernel for profiling",
        "try --set roofline, which needs no instrumentation; gpuprof doctor checks permissions",
    ),
    _Pattern(
        re.compile(
            "(unrecognised option[^\\n]*|Invalid (?:option|kernel identifier|regex)[^\\n]*|"
            "[^\\n]*cannot be specified more than once[^\\n]*|[^\\n]*only supported with[^\\n]*)"
        ),
        lambda found: Failure(
            "options",
            f"this release of ncu does not take an option that gpuprof passes: {found[1].strip()}",
            "name another release with --ncu PATH, or leave that option out",
        ),
    ),
    _fixed(
        "[Nn]o space left on device",
        "disk-full",
        "the disk is full: ncu could not write its report",
        "free some space, or name another folder with -o",
    ),
    _fixed(
        "No (?:kernels|graphs|ranges) were profiled",
        "no-kernels",
        "no kernel was profiled: the program launched none, or none that matches",
        "look at --kernel, --range, --launch-skip; does the program use the GPU?",
    ),
)

_LINE = re.compile(r"^==(ERROR|WARNING)== (.*)$", re.MULTILINE)


def failures_of(log: str, stderr: str) -> tuple[Failure, ...]:
    """Return the causes that ncu names in its log, and on stderr, which the program writes to as well.

    What stands on stderr alone is told, but nothing is tried because of it.
    """
    known = {failure.cause: failure for failure in failures_in(stderr)}
    known = {cause: failure._replace(remedy=None) for cause, failure in known.items()}
    known.update({failure.cause: failure for failure in failures_in(log)})
    order = [failure.cause for failure in failures_in(f"{log}\n{stderr}")]
    return tuple(known[cause] for cause in order)


def failures_in(text: str) -> tuple[Failure, ...]:
    """Return the causes that ncu's output names, each once, the one that explains the others first."""
    messages = "\n".join(said(text))
    found: dict[str, Failure] = {}
    for pattern in _PATTERNS:
        for match in pattern.text.finditer(messages):
            failure = pattern.failure(match)
            known = found.get(failure.cause)
            if known is not None and failure.metrics:
                failure = failure._replace(metrics=tuple(dict.fromkeys((*known.metrics, *failure.metrics))))
            found[failure.cause] = failure if known is None or failure.metrics else known
    return tuple(found.values())


def said(text: str) -> Iterator[str]:
    """Yield ncu's own error and warning lines, without their marks."""
    for found in _LINE.finditer(text):
        yield found[2].strip()


def unknown_failure(text: str, code: int) -> Failure:
    """Return the failure of a run whose output names no known cause: with ncu's own last words."""
    words = list(said(text))[-3:]
    quoted = f": {' / '.join(words)}" if words else ""
    return Failure("unknown", f"ncu ended with code {code}{quoted}", "gpuprof doctor checks what collecting needs")
