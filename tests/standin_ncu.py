#!/usr/bin/env -S python3 -SI
"""Stands in for ncu: does what a file of steps says, one step a run, and writes down how it was called.

A step: `report` (a file to copy to --export; `as`: with another suffix), `bytes` (write so many of it), `log` (text for
--log-file), `stderr`, `code` (below 0: ended by that signal), `program` (run the program first), `sleep` (seconds),
`ignore` (SIGINT); in place of `report` also `launches`, of which the report has those that the options choose
(`made_launches.py` makes such a step).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = """NVIDIA (R) Nsight Compute Command Line Profiler
Copyright (c) 2018-2024 NVIDIA Corporation
Version 2024.1.1.0 (build 33998838) (public-release)
"""
HELP = "".join(
    f"  --{option} arg\n"
    for option in (
        "config-file", "clock-control", "cache-control", "replay-mode", "target-processes", "graph-profiling", "nvtx",
        "import-source", "check-exit-code", "kill", "apply-rules", "kernel-name-base", "kernel-id", "filter-mode",
        "kernel-name", "launch-skip", "launch-skip-before-match", "launch-count", "nvtx-include",
        "target-processes-filter", "set", "section", "profile-from-start", "disable-profiler-start-stop",
        "source-folders", "metrics", "log-file", "export", "force-overwrite",
    )
)  # fmt: skip


def main() -> int:
    """Say version or options, or do the next step. Most runs ask for the version, which takes no other module."""
    argv = sys.argv[1:]
    if argv == ["--help"]:
        sys.stdout.write(os.environ.get("STANDIN_HELP", HELP))
        return 0
    if argv == ["--version"]:
        sys.stdout.write(os.environ.get("STANDIN_VERSION", VERSION))
        return 0
    return step(argv)


def step(argv: list[str]) -> int:
    """Do the next step. Tests start this by the hundred: what it does not need it does not import."""
    todo = next_step(argv)
    export, log = (argv[argv.index(name) + 1] for name in ("--export", "--log-file"))
    if todo.get("ignore"):
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)
    program = argv[argv.index("--force-overwrite") + 1 :]
    code = ran(program) if todo.get("program") else 0
    if "log" in todo:
        write(log, todo["log"].encode())
    if "launches" in todo:
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # noqa: PTH120
        from tests.standin_selection import report_of

        made = report_of(argv, todo["head"], todo["launches"], os.environ)
        write(export if made else log, made or b"==WARNING== No kernels were profiled.\n")
    if "report" in todo:
        export = os.path.splitext(export)[0] + todo["as"] if "as" in todo else export  # noqa: PTH122
        with open(todo["report"], "rb") as report:  # noqa: PTH123
            write(export, report.read(todo.get("bytes", -1)))
    sys.stderr.write(todo.get("stderr", ""))
    sys.stderr.flush()
    if "sleep" in todo:
        import time

        time.sleep(todo["sleep"])
    code = int(todo.get("code", code))
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


def ran(program: list[str]) -> int:
    """Run a program to its end, with the signals that Python ignores as a shell would leave them."""
    import signal

    child = os.posix_spawnp(program[0], program, os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def next_step(argv: list[str]) -> dict[str, Any]:
    """Write down this call, and return what it has to do."""
    import fcntl
    import json

    folder = os.environ["STANDIN"]
    calls = f"{folder}/calls.json"
    with open(f"{folder}/steps.json") as steps:  # noqa: PTH123
        # Two runs can be at once; who looks at the calls meanwhile sees them whole.
        fcntl.flock(steps, fcntl.LOCK_EX)
        earlier = []
        if os.path.exists(calls):  # noqa: PTH110
            with open(calls) as file:  # noqa: PTH123
                earlier = json.load(file)
        write(f"{calls}.new", json.dumps([*earlier, argv]).encode())
        os.replace(f"{calls}.new", calls)  # noqa: PTH105
        todo: dict[str, Any] = json.load(steps)[len(earlier)]
    return todo


def write(path: str, data: bytes) -> None:
    """Write a file anew."""
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(data)


if __name__ == "__main__":
    sys.exit(main())
