"""Compiles sources that need a host compiler's headers with nvcc, for one target, without a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gpuprof.sass.tools.compile import Compiled, NotCompiled, Quotable, compiled_with, first_errors
from gpuprof.sass.tools.programs import (
    LIMITS,
    CompileLimits,
    Program,
    compile_with,
)

_NO_HOST_COMPILER = re.compile(
    r"Cannot find compiler|host compiler .{0,80}not found|(?:gcc|g\+\+|cc1plus)\W.{0,20}(?:not found|No such file)"
)
_READ_BY_SHELL = frozenset('$`"\\')
"""nvcc hands its arguments to a shell, between double quotes: a file called `$(reboot).cu` would be run."""


def compile_with_nvcc(
    tool: Program, source: Path, target: str, options: Sequence[str], quotable: Quotable, limits: CompileLimits = LIMITS
) -> Compiled | NotCompiled:
    """Compile the device code of a file; `options` come after those that name the target and the output.

    The cubin is empty if an option had nvcc do something else. Raises LimitReached.
    """
    all_options = ("-cubin", f"-arch={target}", *options)
    command = [str(tool.path), *all_options, "-x", "cu"]
    for word in (*command, str(source.absolute())):
        if _is_unsafe(word):
            why = f'nvcc would have a shell read {word!r:.200}; it cannot have $, `, " or \\ in names and macros'
            return NotCompiled(False, why, "")
    cubin, outcome = compile_with(command, source, limits)
    if outcome.code:
        why = first_errors(outcome.log, quotable) or f"nvcc ended with {outcome.code} and gives no reason"
        return NotCompiled(False, why, outcome.log)
    return compiled_with(cubin, tool, all_options)


def _is_unsafe(word: str) -> bool:
    """Return whether a shell would read more than text in an argument; nvcc escapes the quotes of macros only."""
    return bool(_READ_BY_SHELL.intersection(word.replace('"', "") if word.startswith("-D") else word))


def lacks_host_compiler(refusal: NotCompiled) -> bool:
    """Return whether nvcc did not get to the source, because there is no C++ compiler."""
    return _NO_HOST_COMPILER.search(refusal.log) is not None
