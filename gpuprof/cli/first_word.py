"""What a first word is: a file to read, a program to run, or a command by another name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path

from gpuprof.cli.output import to_type
from gpuprof.collect.program import is_source, may_be_run, runnable
from gpuprof.collect.shell import shell_line
from gpuprof.errors import UsageError
from gpuprof.read.readers import has_name_of_a_file
from gpuprof.read.recognise import recognised

_OTHER_NAMES = {
    "run": "collect exec launch ncu nsys nvprof prof profile record start trace",
    "show": "analyse analyze cat details explain import info inspect kernels list ls open print read stats summary "
    "text view",
    "roofline": "chart draw graph plot roof rooflines",
    "report": "export html page web",
    "characterize": "bench benchmark calibrate characterise measure microbench",
    "compare": "cmp diff",
    "check": "cuobjdump disasm disassemble lint nvdisasm review",
    "doctor": "env setup",
    "specs": "gpus hardware spec",
    "demo": "example examples test try tutorial",
}
"""What other tools and tempers call a command."""
_STANDARD_INPUT = "-"
_GPU_CODE = (".ptx", ".cubin", ".fatbin")


def is_program(word: str) -> bool:
    """Tell whether a word names a program to run, and not a file to read."""
    if word == _STANDARD_INPUT or has_name_of_a_file(word):
        return False
    if word == "-m" or word.endswith(".py") or is_source(word):
        return True
    path = Path(word)
    if path.is_file():
        return recognised(word) is None and (os.access(word, os.X_OK) or may_be_run(word))
    return _is_on_path(word) or not path.exists()


def is_file(word: str) -> bool:
    """Tell whether a word names something to read, or a name that only such a file has."""
    return word == _STANDARD_INPUT or has_name_of_a_file(word) or recognised(word) is not None or Path(word).is_fifo()


def wrong_command(arguments: Sequence[str], commands: Collection[str]) -> UsageError:
    """Return what to say of a command line whose first word is no command and no file: a line to type instead."""
    word, rest = arguments[0], arguments[1:]
    if not word.strip():
        return UsageError("the first word is empty", "gpuprof --help lists the commands")
    other = _by_other_name(word, rest)
    if other is not None:
        return _no_command(word, _line(other, rest[1:] if (word, *rest[:1]) == ("nsys", "profile") else rest))
    if word in ("help", "version"):
        named = [name for name in rest[:1] if word == "help" and name in commands]
        return _no_command(word, shell_line(["gpuprof", *named, f"--{word}"]))
    return _no_name(word, rest, commands)


def _by_other_name(word: str, rest: Sequence[str]) -> str | None:
    """Return the command that others call so; env with something to run is the program of that name."""
    other = next((name for name, others in _OTHER_NAMES.items() if word.lower() in others.split()), None)
    return None if other == "doctor" and rest and _is_on_path(word) else other


def _no_name(word: str, rest: Sequence[str], commands: Collection[str]) -> UsageError:
    """Return what to say of a word that is no name of a command, nor one by which others know it."""
    if Path(word).is_dir() and not _is_on_path(word):
        return UsageError(f"{word} is a folder", f"gpuprof show {to_type([word])}")
    if word.endswith(".py") or _is_there_to_run(word):
        named = word if os.sep in word or word.endswith(".py") or _is_on_path(word) else f"./{word}"
        try:
            runnable([named, *rest])
        except UsageError as error:
            return error
        what = "a Python script" if word.endswith(".py") else "a program"
        return UsageError(f"{word} is {what}, not a command", f"gpuprof run -- {shell_line([named, *rest])}")
    if word.lower().endswith(_GPU_CODE) and os.path.lexists(word):
        return UsageError(f"{word} is GPU code, not a command", f"gpuprof check {to_type([word])}")
    near = get_close_matches(word.lower(), commands, n=1)
    message = f"gpuprof has no command {word}"
    if os.path.lexists(word):
        message = f"{word} is neither a command nor a file that gpuprof reads"
    elif not near and (os.sep in word or Path(word).suffix):
        message = f"{word}: no such file"
    return UsageError(message, f"did you mean: {_line(near[0], rest)}" if near else "gpuprof --help lists the commands")


def _is_on_path(word: str) -> bool:
    return os.sep not in word and shutil.which(word) is not None


def _is_there_to_run(word: str) -> bool:
    return is_program(word) and (_is_on_path(word) or Path(word).is_file())


def _no_command(word: str, line: str) -> UsageError:
    return UsageError(f"gpuprof has no command {word}", f"did you mean: {line}")


def _line(command: str, rest: Sequence[str]) -> str:
    """Return a command line for what was asked for by another name, which fits what follows."""
    rest = _without_import(rest)
    positional = next((word for word in rest if not word.startswith("-")), None)
    if command == "run" and positional is not None and is_file(positional):
        command = "show"
    elif command == "show" and positional is not None and _is_there_to_run(positional):
        command = "run"
    if command != "run":
        return shell_line(["gpuprof", command, *rest])
    program = rest or ["./app"]
    return shell_line(["gpuprof", "run", *([] if program[0].startswith("-") else ["--"]), *program])


def _without_import(rest: Sequence[str]) -> Sequence[str]:
    """Leave out the option by which ncu is told which report to read, where it comes first."""
    return rest[1:] if rest[1:] and rest[0] in ("-i", "--import") else rest
