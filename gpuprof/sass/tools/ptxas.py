"""Compiles PTX with ptxas, for one target, without a GPU."""

from __future__ import annotations

import re

from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.tools.compile import Compiled, NotCompiled, compiled_with
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
_ERROR = re.compile(r"\b(?:error\s*:|fatal\s*:)")
_REFUSED = re.compile(
    r"cannot be compiled (?:for architecture|to future architecture)|SM version specified|requires \.target"
)
_PLACE = re.compile(r"^ptxas (?:[^,]*, line (?P<line>\d+); )?(?:error|fatal)\s*: ")


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
            return _refusal(outcome.log, name, outcome.code)
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


def _refusal(log: str, name: str, code: int) -> NotCompiled:
    """Return the first errors in a log of ptxas, with positions as FILE:LINE."""
    errors = []
    for line in log.splitlines():
        if _ERROR.search(line):
            place = _PLACE.match(line)
            at = f"{name}:{place['line']}: " if place and place["line"] else ""
            errors.append((at + _PLACE.sub("", line).strip()).replace("source.ptx", name))
    why = "; ".join(errors[:3]) or " ".join(log[:600].split())[:300] or f"ptxas ended with {code}"
    return NotCompiled(_REFUSED.search(why) is not None, why, log)
