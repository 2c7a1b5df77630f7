#!/usr/bin/env python3
"""Stands in for ncu: does what a file of steps says, one step a run, and writes down how it was called.

A step: `report` (a file to copy to --export), `bytes` (write so many of it), `log` (text for --log-file), `stderr`,
`code`, `program` (run the program first), `sleep` (seconds), `ignore` (SIGINT).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

VERSION = """NVIDIA (R) Nsight Compute Command Line Profiler
Copyright (c) 2018-2024 NVIDIA Corporation
Version 2024.1.1.0 (build 33998838) (public-release)
"""


def main() -> int:
    """Do the next step."""
    words = sys.argv[1:]
    if words == ["--version"]:
        sys.stdout.write(os.environ.get("STANDIN_VERSION", VERSION))
        return 0
    folder = Path(os.environ["STANDIN"])
    calls = folder / "calls.json"
    earlier = json.loads(calls.read_text()) if calls.exists() else []
    calls.write_text(json.dumps([*earlier, words]))
    step = json.loads((folder / "steps.json").read_text())[len(earlier)]
    export, log = (Path(words[words.index(name) + 1]) for name in ("--export", "--log-file"))
    if step.get("ignore"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    program = words[words.index("--force-overwrite") + 1 :]
    code = subprocess.call(program) if step.get("program") else 0
    if "log" in step:
        log.write_text(step["log"])
    if "report" in step:
        shutil.copyfile(step["report"], export)
        if "bytes" in step:
            os.truncate(export, step["bytes"])
    sys.stderr.write(step.get("stderr", ""))
    sys.stderr.flush()
    time.sleep(step.get("sleep", 0))
    return int(step.get("code", code))


if __name__ == "__main__":
    sys.exit(main())
