#!/usr/bin/env python3
"""Stands in for ncu: does what a file of steps says, one step a run, and writes down how it was called.

A step: `report` (a file to copy to --export; `as`: with another suffix), `bytes` (write so many of it), `log` (text for
--log-file), `stderr`, `code`, `program` (run the program first), `sleep` (seconds), `ignore` (SIGINT).
"""

import os
import sys

VERSION = """NVIDIA (R) Nsight Compute Command Line Profiler
Copyright (c) 2018-2024 NVIDIA Corporation
Version 2024.1.1.0 (build 33998838) (public-release)
"""
HELP = "".join(
    f"  --{option} arg\n"
    for option in (
        "config-file", "clock-control", "cache-control", "replay-mode", "target-processes", "graph-profiling", "nvtx",
        "import-source", "check-exit-code", "kill", "apply-rules", "kernel-name-base", "kernel-id", "filter-mode",
        "kernel-name", "launch-skip", "launch-count", "nvtx-include", "target-processes-filter", "set", "section",
        "profile-from-start", "source-folders", "metrics", "log-file", "export", "force-overwrite",
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
    """Do the next step."""
    import fcntl
    import json
    import signal
    import subprocess
    import time
    from pathlib import Path

    folder = Path(os.environ["STANDIN"])
    calls = folder / "calls.json"
    with (folder / "steps.json").open() as steps:
        # Two runs can be at once; who looks at the calls meanwhile sees them whole.
        fcntl.flock(steps, fcntl.LOCK_EX)
        earlier = json.loads(calls.read_text()) if calls.exists() else []
        draft = folder / "calls.json.new"
        draft.write_text(json.dumps([*earlier, argv]))
        draft.replace(calls)
        todo = json.load(steps)[len(earlier)]
    export, log = (Path(argv[argv.index(name) + 1]) for name in ("--export", "--log-file"))
    if todo.get("ignore"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    program = argv[argv.index("--force-overwrite") + 1 :]
    code = subprocess.call(program) if todo.get("program") else 0
    if "log" in todo:
        log.write_text(todo["log"])
    if "report" in todo:
        export = export.with_suffix(todo.get("as", export.suffix))
        export.write_bytes(Path(todo["report"]).read_bytes())
        if "bytes" in todo:
            os.truncate(export, todo["bytes"])
    sys.stderr.write(todo.get("stderr", ""))
    sys.stderr.flush()
    time.sleep(todo.get("sleep", 0))
    return int(todo.get("code", code))


if __name__ == "__main__":
    sys.exit(main())
