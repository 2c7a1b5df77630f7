"""Compiles PTX with ptxas, for one target, without a GPU."""

from __future__ import annotations

import re

from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.tools.compile import Compiled, NotCompiled, compiled_with, first_errors
from gpuprof.sass.tools.programs import (
    LIMITS,
    NVCC_HINT,
    CompileLimits,
    Program,
    answer_of,
    compile_in,
    find_programs,
    private_folder,
)

_TARGET_NAME = re.compile(r"\bsm_\d+[af]?\b")
_REFUSED = re.compile(
    r"cannot be compiled (?:for architecture|to future architecture)|SM version specified|requires \.target"
)
_POSITION = re.compile(r"^ptxas [^,\n]*, line (\d+); (?:error|fatal)\s*: ", re.MULTILINE)


def known_targets() -> frozenset[str]:
    """Return all targets that a ptxas here compiles for. Raises EnvironmentProblem if there is none."""
    return frozenset(target for tool in _tools() for target in _targets_of(tool))


def compile_ptx(ptx: bytes, target: str, name: str, limits: CompileLimits = LIMITS) -> Compiled | NotCompiled:
    """Compile PTX for a target with line information by the newest ptxas that knows it; errors call it `name`.

    Raises LimitReached, and EnvironmentProblem if no ptxas is found.
    """
    tools = _tools()
    tool = next((tool for tool in tools if target in _targets_of(tool)), None)
    if tool is None:
        return NotCompiled(True, f"{', '.join(map(str, tools))} does not compile for {target}", "")
    options = (f"-arch={target}", "-lineinfo")
    with private_folder() as folder:
        source, cubin = folder / "source.ptx", folder / "code.cubin"
        source.write_bytes(ptx)
        outcome = compile_in(folder, [str(tool.path), *options, "-o", str(cubin), str(source)], limits)
        if outcome.code or not cubin.is_file():
            log = _POSITION.sub(lambda place: f"{name}:{place[1]}: error: ", outcome.log).replace(str(source), name)
            why = first_errors(log, lambda file: file == name) or f"ptxas ended with {outcome.code}: {log:.300}"
            return NotCompiled(_REFUSED.search(why) is not None, why, log)
        return compiled_with(cubin.read_bytes(), tool, options)


def _tools() -> tuple[Program, ...]:
    tools = find_programs("ptxas")
    if not tools:
        raise EnvironmentProblem("ptxas (the compiler of PTX) was not found", NVCC_HINT)
    return tools


def _targets_of(tool: Program) -> frozenset[str]:
    """Return the targets in the help of a ptxas."""
    _, _, allowed = answer_of(tool.path, "--help").partition("--gpu-name")
    return frozenset(_TARGET_NAME.findall(allowed.partition("\n--")[0]))
