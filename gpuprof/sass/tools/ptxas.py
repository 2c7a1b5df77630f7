"""The border to ptxas: compiles PTX for one target, without a GPU."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.tools.compile import Compiled, NotCompiled, compiled_with
from gpuprof.sass.tools.programs import (
    LIMITS,
    NVCC_HINT,
    CompileLimits,
    Program,
    compile_in,
    find_programs,
    private_folder,
    run_in,
)

_TARGET_NAME = re.compile(r"\bsm_\d+[af]?\b")
_SAYS_ERROR = re.compile(r"\b(?:error\s*:|fatal\s*:)")
_REFUSED = re.compile(
    r"cannot be compiled (?:for architecture|to future architecture)|SM version specified|requires \.target"
)
_NAMED = re.compile(r"^ptxas (?:[^,]*, line (?P<line>\d+); )?(?P<what>error|fatal)\s*: ", re.MULTILINE)


def compile_ptx(ptx: bytes, target: str, name: str, limits: CompileLimits = LIMITS) -> Compiled | NotCompiled:
    """Compile PTX for a target with line information; `name` is what errors call it.

    Raises LimitReached, and EnvironmentProblem where no ptxas is found.
    """
    tool = ptxas_for(target)
    if tool is None:
        return NotCompiled(True, f"{_have()} does not compile for {target}", "")
    options = (f"-arch={target}", "-lineinfo")
    with private_folder() as folder:
        source, cubin = folder / "source.ptx", folder / "code.cubin"
        source.write_bytes(ptx)
        command = [str(tool.path), *options, "-o", str(cubin), str(source)]
        outcome = compile_in(folder, command, limits)
        if outcome.code or not cubin.is_file():
            return _refusal(outcome.said, name, outcome.code)
        return compiled_with(cubin.read_bytes(), str(tool), options, outcome.said)


def ptxas_for(target: str) -> Program | None:
    """Return the newest ptxas that compiles for a target, or None. Raises EnvironmentProblem where there is none."""
    return next((tool for tool in _tools() if target in targets_of(tool)), None)


def known_targets() -> frozenset[str]:
    """Return all targets that a ptxas here compiles for. Raises EnvironmentProblem where there is none."""
    return frozenset(target for tool in _tools() for target in targets_of(tool))


def _tools() -> tuple[Program, ...]:
    tools = find_programs("ptxas")
    if not tools:
        raise EnvironmentProblem("ptxas (the compiler of PTX) was not found", NVCC_HINT)
    return tools


@lru_cache(maxsize=8)
def targets_of(tool: Program) -> frozenset[str]:
    """Return the targets that a ptxas compiles for, by its own help."""
    with private_folder() as folder:
        help_text = run_in(folder, [str(tool.path), "--help"], 30.0).said
    _, _, allowed = help_text.partition("--gpu-name")
    return frozenset(_TARGET_NAME.findall(allowed.partition("\n--")[0]))


def _have() -> str:
    return ", ".join(map(str, find_programs("ptxas")))


def _refusal(said: str, name: str, code: int) -> NotCompiled:
    """Read what ptxas said: positions as FILE:LINE."""
    errors = [_placed(line, name) for line in said.splitlines() if _SAYS_ERROR.search(line)]
    why = "; ".join(errors[:3]) or (" ".join(said[:600].split()) or f"ptxas ended with {code}")[:300]
    return NotCompiled(_REFUSED.search(why) is not None, why, said)


def _placed(line: str, name: str) -> str:
    match = _NAMED.match(line)
    if match is None:
        return line.strip()
    place = f"{name}:{match['line']}: " if match["line"] else ""
    return f"{place}{line[match.end() :].strip()}".replace(str(Path("source.ptx")), name)
