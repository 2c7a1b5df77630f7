"""Compiles PTX with ptxas, for one target, without a GPU."""

from __future__ import annotations

import re

from gpuprof.errors import EnvironmentProblem, InputError
from gpuprof.sass.tools.compile import Compiled, compiled_with, first_errors
from gpuprof.sass.tools.programs import (
    LIMITS,
    NVCC_HINT,
    CompileLimits,
    compile_with,
    find_programs,
    program_for,
)

_POSITION = re.compile(r"^ptxas [^,\n]*, line (\d+); (?:error|fatal)\s*: ", re.MULTILINE)


def compile_ptx(ptx: bytes, target: str, name: str, limits: CompileLimits = LIMITS) -> Compiled:
    """Compile PTX for a target with line information by the newest ptxas that knows it; errors call it `name`.

    Raises InputError if it does not compile, LimitReached, and EnvironmentProblem if there is no ptxas.
    """
    tool = program_for("ptxas", target)
    if tool is None:
        if not find_programs("ptxas"):
            raise EnvironmentProblem("ptxas (the compiler of PTX) was not found", NVCC_HINT)
        raise InputError(f"{name}: no ptxas here compiles for {target}")
    options = (f"-arch={target}", "-lineinfo")
    cubin, outcome = compile_with([str(tool.path), *options], ptx, limits)
    if not cubin:
        log = _POSITION.sub(lambda place: f"{name}:{place[1]}: error: ", outcome.log)
        why = first_errors(log, lambda file: file == name) or f"ptxas ended with {outcome.code}: {log:.300}"
        raise InputError(f"{name} does not compile for {target}: {why[:1000]}")
    return compiled_with(cubin, tool, options)
