"""Compiles with NVRTC in a process of its own: a source that makes it crash or hang ends that process alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gpuprof.errors import EnvironmentProblem, GpuprofError
from gpuprof.sass.tools.nvrtc import CompileOutcome, Nvrtc
from gpuprof.sass.tools.programs import LIMITS, CompileLimits, compile_in, private_folder, refuse_without_memory
from gpuprof.working_folder import python_command

_REQUEST, _REPLY, _CUBIN = "request.json", "reply.json", "code.cubin"


def compile_apart(
    nvrtc: Nvrtc, source: str, name: str, options: Sequence[str], limits: CompileLimits = LIMITS
) -> CompileOutcome:
    """Compile one translation unit. Raises LimitReached, and EnvironmentProblem if NVRTC itself fails."""
    with private_folder() as folder:
        request = {"library": str(nvrtc.path), "source": source, "name": name, "options": list(options)}
        (folder / _REQUEST).write_text(json.dumps(request), encoding="utf-8")
        outcome = compile_in(folder, python_command("gpuprof.sass.tools.nvrtc_child", str(folder)), limits)
        reply = folder / _REPLY
        if outcome.code or not reply.is_file():
            raise EnvironmentProblem(f"{nvrtc} ended with {outcome.code} on {name:.100}: {outcome.log.strip()[-300:]}")
        answer = json.loads(reply.read_text(encoding="utf-8"))
        if "problem" in answer:
            raise EnvironmentProblem(answer["problem"])
        cubin = folder / _CUBIN
        if cubin.is_file():
            return CompileOutcome(cubin.read_bytes(), answer["log"])
        refuse_without_memory(answer["log"], limits)
        return CompileOutcome(None, answer["log"])


def main(arguments: Sequence[str]) -> None:
    """Do the request in a folder, in the child."""
    folder = Path(arguments[0])
    request = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
    try:
        outcome = Nvrtc(Path(request["library"])).compile(request["source"], request["name"], request["options"])
    except (GpuprofError, OSError) as error:
        answer = {"problem": str(error)}
    else:
        answer = {"log": outcome.log}
        if outcome.cubin is not None:
            (folder / _CUBIN).write_bytes(outcome.cubin)
    (folder / _REPLY).write_text(json.dumps(answer), encoding="utf-8")
