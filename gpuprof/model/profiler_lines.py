"""Which options of a profiler's command a repeated run needs, and which commands are safe to copy."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from gpuprof.model.ncu_line import SWITCHES, VARIABLE, names

KEPT = names(
    "target-processes target-processes-filter profile-from-start disable-profiler-start-stop replay-mode "
    "app-replay-buffer app-replay-match app-replay-mode cache-control clock-control devices nvtx nvtx-include "
    "nvtx-exclude support-32bit null-stdin graph-profiling launch-skip-before-match rename-kernels "
    "pipeline-boost-state source-folders"
)
"""Options that a repeated run needs to profile in the same way.

None of them names a file to execute or load, because the author of the report would choose it.
"""
FILTERS = names("kernel-id kernel-name kernel-regex kernel-name-base kernel-regex-base filter-mode")
_OF_NCU = KEPT | FILTERS | names("set import-source launch-skip launch-count")
_OF_RUN = names("survey kernel")
_OUTPUT = re.compile(r"[\w.-]+")
_STARTER = re.compile(r"(?:.*/)?(?:env|sudo|doas|xargs|eval|exec)")
_INTERPRETER = re.compile(r"(?:.*/)?(?:(?:ba|da|z|k|c|tc|fi)?sh|python[\d.]*|perl|ruby|node)")
_TEXT_OPTION = re.compile(r"-[A-Zabdf-z]*[ce]|--(?:command|eval)")


def may_be_copied(command: str) -> bool:
    """Return whether a session's command has the form that gpuprof writes and starts only a program.

    It is `ncu` or `gpuprof run` with options that name no file to be executed or loaded; the program is not a text that
    a shell or an interpreter would run, and has no variables before it.
    """
    arguments = shlex.split(command)
    is_run = arguments[:2] == ["gpuprof", "run"]
    if arguments[0] == "gpuprof" and not is_run:
        return False
    known, place = (_OF_RUN, 2) if is_run else (_OF_NCU, 1)
    while place < len(arguments) and arguments[place].startswith("-") and arguments[place] != "--":
        name = arguments[place].removeprefix("--")
        if arguments[place] == "-o" and not is_run:
            if _OUTPUT.fullmatch(arguments[place + 1] if place + 1 < len(arguments) else "") is None:
                return False
        elif name not in known or name == arguments[place]:
            return False
        place += 1 if name in SWITCHES else 2
    program = arguments[place + 1 :] if arguments[place : place + 1] == ["--"] and is_run else arguments[place:]
    return _is_program(program)


def _is_program(arguments: Sequence[str]) -> bool:
    if not arguments or arguments[0].startswith("-") or VARIABLE.match(arguments[0]) is not None:
        return False
    return _STARTER.fullmatch(arguments[0]) is None and not takes_text(arguments)


def takes_text(program: Sequence[str]) -> bool:
    """Return whether a shell or an interpreter may take its program as a text on the command line (`-c`)."""
    for place, name in enumerate(program[:-1], 1):
        is_option = _INTERPRETER.fullmatch(name) is not None and program[place].startswith("-")
        if is_option and any(map(_TEXT_OPTION.match, program[place:])):
            return True
    return False
