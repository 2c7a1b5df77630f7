"""Runs in a Python that has torch: loads it once, and runs every program that it is told of in a forked child.

`torch_server.py MODULE...` imports the modules and says so in a line. Then each line on stdin names, as JSON, a folder
with a script.py, environment variables, and whether CUDA's first use comes before it; the answer is its exit code. No
test is in here.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

LONGEST_S = 100


def program() -> dict[str, Any]:
    """Return in a forked child what it has to run; the server itself ends in here when nothing more is asked."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            signal.alarm(LONGEST_S)
            asked: dict[str, Any] = json.loads(line)
            return asked
        try:
            _, status = os.waitpid(child, 0)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what it has left running
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201
    sys.exit()


def become(folder: str, variables: dict[str, str]) -> None:
    """Have this process be what Python is when it starts a script in a folder."""
    os.chdir(folder)
    os.environ.update(variables)
    for number, name, flags in ((0, os.devnull, os.O_RDONLY), (1, "stdout", os.O_WRONLY), (2, "stderr", os.O_WRONLY)):
        file = os.open(name, flags | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    sys.argv, sys.path[0] = ["script.py"], folder
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = str(Path(folder) / "script.py")


def use_cuda() -> None:
    """Do what torch does where CUDA is first used; without us nothing of ours is among it."""
    for call, _ in sys.modules["torch"].cuda._queued_calls:
        if (call.__module__ or "").startswith("_gpuprof"):
            call()


gc.disable()
for name in sys.argv[1:]:
    importlib.import_module(name)
gc.freeze()  # a child's collector need not go through, and so copy, what was loaded before
gc.enable()
print("ready", flush=True)  # noqa: T201
asked = program()
become(asked["folder"], asked["variables"])
if asked["cuda"]:
    use_cuda()
# Here, not in a function: the program ends as Python ends, and what it raises has one frame of ours above it.
exec(compile(Path("script.py").read_bytes(), "script.py", "exec"), vars(sys.modules["__main__"]))
